"""The plan of a job in words and figures, from nothing but its last decision: ``chase plan``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Any

from chase.course import Course, Outcome, Stretch, of_plan, outcome
from chase.errors import ChaseError, StoreError
from chase.figures import count, duration, grams, money, percent, share_of
from chase.horizon import GRAMS, J_PER_KWH
from chase.policy import Planned, PolicyInput, planned
from chase.prices_ahead import BOTH, CARBON
from chase.records import DecisionRecord, JobRecord
from zeus_core.frontier import Frontier

DENOMINATORS = (
    "Expected, of what is still to be done. reference_* is the same work at the full-power point of the frontier from"
    " now on, over its own, shorter time line; shares of savings are of it. efficiency_* is what the best fixed"
    " setting that ends at the same time, or before, would save; timing_* is the rest. *_low and *_high are what it"
    " comes to if all prices come at their 10 or 90 % quantile. slowdown is of all of the job that this service has"
    " seen. Grams and cost are of GPUs and host, times PUE."
)
_FOLLOWED = frozenset({"plan", "dwell", "hysteresis", "late"})
_LATE_S = 1.0  # less is rounding
_LAST = datetime(9999, 12, 30, tzinfo=UTC)  # of all days, in any time zone
_WHOLE = 0.995  # a setting that has all but this much of the time has all of it


class NoPlan(ChaseError):
    """There is nothing to show: an answer, and no fault."""


@dataclass(frozen=True, slots=True)
class PlanReport:
    """``course`` is what is expected, ``expected`` what it comes to, and ``zone`` the region's, where it is known.

    Of a job that minimises ``both``, cost is money and its carbon at the price that the owner set.
    """

    job: JobRecord
    decision: DecisionRecord
    given: PolicyInput
    frontier: Frontier
    made: Planned
    course: Course
    expected: Outcome
    zone: tzinfo | None = None
    minimise: str = CARBON

    @property
    def end(self) -> datetime | None:
        """None where nobody knows when the job ends."""
        return self.at(self.course.seconds) if self.course.ends else None

    @property
    def full_power_s(self) -> float:
        return self.course.units * self.frontier.reference.seconds_per_unit

    @property
    def drawn_by(self) -> str:
        """A host that is not configured is not counted, and must not seem to be."""
        return "its GPUs and host" if self.given.host_w else "its GPUs"

    @property
    def per_kwh(self) -> str:
        """What prices are in."""
        return "g/kWh" if self.expected.unit == GRAMS else f"{self.expected.unit}/kWh"

    @property
    def late_s(self) -> float:
        late_s = self.course.seconds - self.allowed_s
        return late_s if self.course.ends and late_s > _LATE_S else 0.0

    @property
    def allowed_s(self) -> float:
        """Less than nothing where the deadline is over, or all was used up."""
        return self.full_power_s + self.made.allowance.slack_s

    def at(self, seconds: float) -> datetime:
        return after(self.decision.at, seconds)

    def to_dict(self, hours: float | None = None) -> dict[str, Any]:
        """``hours`` limits the slots; all other figures are of all of the plan."""
        allowed, progress = self.made.allowance, self.given.progress
        return {
            "job": {key: getattr(self.job, key) for key in ("id", "name", "region", "units", "total_units")},
            "decision": self.decision.id,
            "at": self.decision.at,
            "time_zone": str(self.zone) if self.zone else None,
            "followed": self.decision.code in _FOLLOWED,
            "reason": self.decision.reason,
            "end": self.end,
            "seconds": self.course.seconds,
            "units": self.course.units,
            "full_power_seconds": self.full_power_s,
            "allowed_seconds": self.allowed_s,
            "late_seconds": self.late_s,
            "slack_seconds": allowed.slack_s,
            "slack_used_seconds": progress.delay_s,
            "slowdown": slowdown(self.course, self.given, self.frontier),
            "energy_kwh": self.course.energy_j / J_PER_KWH,
            "mu_per_unit": self.made.plan.mu,
            **figures(self.expected if self.expected.unit == GRAMS else None, "grams"),
            **figures(self.expected if self.expected.unit != GRAMS else None, "cost"),
            "unit": self.expected.unit,
            "minimise": self.minimise,
            "denominators": DENOMINATORS,
            "slots": self.rows(self.shown(hours)),
        }

    def shown(self, hours: float | None = None) -> list[Stretch]:
        """Those that begin within so many hours."""
        return [s for s in self.course.stretches if hours is None or s.begin_s < hours * 3600]

    def rows(self, stretches: Sequence[Stretch]) -> list[dict[str, Any]]:
        return [self._row(stretch) for stretch in stretches]

    def _row(self, stretch: Stretch) -> dict[str, Any]:
        start = self.at(stretch.begin_s)
        return {
            "start": start,
            "start_local": start.astimezone(self.zone).isoformat(timespec="seconds") if self.zone else None,
            "seconds": stretch.seconds,
            "unit": self.expected.unit,
            "price_per_kwh": stretch.price,
            "low_per_kwh": stretch.low,
            "high_per_kwh": stretch.high,
            "setting": settings_text(stretch),
            "parts": [{"setting": setting.to_dict(), "share": share} for setting, share in stretch.parts],
            "power_w": stretch.power_w,
            "units": stretch.units,
            "energy_kwh": stretch.energy_j / J_PER_KWH,
            "cost": stretch.cost,
            "forecast": not stretch.later,
        }

    # -- for people ---------------------------------------------------------------------------------------------------

    def head(self) -> Iterator[str]:
        """What is planned, and when it ends."""
        job, decision = self.job, self.decision
        yield f"job {job.name} ({job.id}), region {job.region}: plan of {_utc(decision.at)} (decision {decision.id})"
        for label, text in self._planned():
            yield f"  {label:<13}{text}"

    def tail(self) -> Iterator[str]:
        """What it costs and saves."""
        for label, text in self._saving():
            yield f"  {label:<13}{text}"

    def _planned(self) -> Iterator[tuple[str, str]]:
        if self.decision.code not in _FOLLOWED:
            yield "now", f"not followed: {self.decision.reason}"
        done = count(_rounded(self.course.units), self.job.units)
        if self.end is None:
            yield "length", "not known: a rolling horizon, planned anew at every decision"
            yield "work", f"{done} in {duration(self.course.seconds)}; {duration(self.full_power_s)} at full power"
        else:
            local = f" ({self.end.astimezone(self.zone):%a %H:%M} in {self.zone})" if self.zone else ""
            yield "work", f"{done} to do; {duration(self.full_power_s)} at full power"
            yield "ends", f"{_utc(self.end)}{local}, in {duration(self.course.seconds)}{self._lateness()}"
        yield "slack", self._slack()

    def _lateness(self) -> str:
        if self.late_s:
            return f", {duration(self.late_s)} later than allowed, though all is at the fastest"
        share = slowdown(self.course, self.given, self.frontier)
        return f"; the whole job {percent(abs(share))} {'slower' if share >= 0 else 'faster'} than at full power"

    def _slack(self) -> str:
        allowed, spent_s = self.made.allowance, self.given.progress.delay_s
        used = f"{duration(spent_s)} used before" if spent_s >= _LATE_S else "none used before"
        if allowed.slack_s < _LATE_S:
            return f"none left; {used}"
        uses_s = max(0.0, self.course.seconds - self.full_power_s)
        return f"{duration(allowed.slack_s)} left, of which the plan uses {duration(uses_s)}; {used}"

    def _saving(self) -> Iterator[tuple[str, str]]:
        found, drawn_j = self.expected, self.course.energy_j
        amount = partial(amount_of, unit=found.unit)
        label = "carbon" if found.unit == GRAMS else "both" if self.minimise == BOTH else "money"
        spread = f" ({amount(found.low)} to {amount(found.high)} if all comes at the 10 or 90 % quantile)"
        sure = "" if found.low == found.high else spread
        yield label, f"{amount(found.cost)}{sure}, {drawn_j / J_PER_KWH:,.1f} kWh by {self.drawn_by}"
        yield "full power", f"{amount(found.reference)} in {duration(self.full_power_s)}, for the same work from now on"
        yield from saving_lines(found)


def saving_lines(found: Outcome) -> Iterator[tuple[str, str]]:
    parts = (
        ("saved", found.saved, ""),
        ("efficiency", found.efficiency, ": the best fixed setting that ends at the same time"),
        ("timing", found.timing, ": the rest, when it is fast and when slow"),
    )
    for name, value, what in parts:
        share = share_of(value, found.reference)
        shown = "" if share is None else f", {percent(share)} of full power's"
        yield name, f"{amount_of(value, found.unit)}{shown}{what}"


def figures(found: Outcome | None, name: str) -> dict[str, Any]:
    """With the keys of an account: ``grams`` or ``cost``."""
    values = {
        name: found and found.cost,
        f"{name}_low": found and found.low,
        f"{name}_high": found and found.high,
        f"reference_{name}": found and found.reference,
        f"saved_{name}": found and found.saved,
        f"efficiency_{name}": found and found.efficiency,
        f"timing_{name}": found and found.timing,
    }
    return values if name == "grams" else {**values, "currency": found.unit if found else None}


def slowdown(course: Course, given: PolicyInput, frontier: Frontier) -> float:
    """Of all of the job since this service looks after it, the rest as expected; 0 where there is nothing at all."""
    full_s, progress = frontier.reference.seconds_per_unit, given.progress
    delay_s = progress.delay_s + course.seconds - course.units * full_s
    whole_s = (progress.units_done + course.units) * full_s
    return delay_s / whole_s if whole_s > 0 else 0.0


def after(at: datetime, seconds: float) -> datetime:
    """A job may say that it has more to do than there are years."""
    return at + timedelta(seconds=min(seconds, (_LAST - at).total_seconds()))


def settings_text(stretch: Stretch) -> str:
    if len(stretch.parts) == 1 or stretch.parts[0][1] >= _WHOLE:
        return str(stretch.parts[0][0])
    return ", ".join(f"{setting} {100 * share:.0f} %" for setting, share in stretch.parts if share > 1 - _WHOLE)


def given_of(job: JobRecord, decision: DecisionRecord | None) -> tuple[DecisionRecord, PolicyInput, Frontier]:
    """What a running job's last decision rests on. Raises ``NoPlan``, or ``StoreError`` where it cannot be read."""
    if job.ended_at is not None:
        because = f" ({job.end_reason})" if job.end_reason else ""
        raise NoPlan(f"{job.name} ended {_utc(job.ended_at)}{because}: there is nothing left to plan")
    if decision is None:
        raise NoPlan(f"no decision was taken for {job.name} yet: try again in a moment")
    try:
        given = PolicyInput.from_dict(decision.inputs)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"the inputs of decision {decision.id} cannot be read: {error!r}") from error
    if given.frontier is None:
        why = given.barred or given.note or "it was not measured yet"
        raise NoPlan(f"{job.name} has no frontier to plan with: {why}")
    return decision, given, given.frontier


def plan_report(
    job: JobRecord, last: DecisionRecord | None, zone: tzinfo | None = None, minimise: str = CARBON
) -> PlanReport:
    """The plan as it was at the last decision. Raises ``NoPlan`` with the reason where there is none."""
    decision, given, frontier = given_of(job, last)
    if given.rules.name != "budget":
        raise NoPlan(
            f"policy {given.rules.name} of {job.name} goes by what is now and has no plan; "
            f"'chase whatif {job.id[:8]} --policy budget' shows what one would do"
        )
    if given.horizon is None:
        raise NoPlan(f"there is no plan for {job.name}: nothing is known of the grid ahead ({decision.reason})")
    made = planned(given, frontier)
    course = of_plan(made)
    found = outcome(course, made.horizon, frontier, given.host_w)
    return PlanReport(job, decision, given, frontier, made, course, found, zone, minimise)


def amount_of(value: float, unit: str) -> str:
    return grams(value) if unit == GRAMS else money(value, unit)


def _rounded(units: float) -> float:
    """Sums of parts have tails that mean nothing."""
    return round(units, 6) if abs(units - round(units)) > 1e-6 * max(1.0, units) else float(round(units))


def _utc(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%SZ}"
