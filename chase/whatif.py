"""Another budget, policy or region for a job, from what its last decision rests on: ``chase whatif``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from chase.clock import minute
from chase.config import Config, PolicyConfig, job_policy
from chase.course import Course, Outcome, of_plan, of_policy, outcome
from chase.errors import ConfigError
from chase.horizon import GRAMS, J_PER_KWH, Horizon
from chase.plan_report import NoPlan, after, figures, slowdown
from chase.policy import PolicyInput, Rules, allowance, planned
from chase.prices_ahead import BOTH, CARBON, MONEY
from zeus_core.frontier import Frontier

if TYPE_CHECKING:
    from chase.asof import AsOf

REGION, DEADLINE, MINIMISE, CARBON_PRICE = "region", "deadline", "minimise", "carbon_price_per_kg"
_RULES = tuple(rule.name for rule in fields(Rules))
_LATE_S = 1.0  # less is rounding

Known = Callable[
    [str | None], "AsOf | None"
]  # of a region by name or file; of the job's own for None, if that is known


@dataclass(frozen=True, slots=True)
class Now:
    """A job as it is: its last decision's input, when that was taken, and ``wishes`` of its owner beside the rules."""

    given: PolicyInput
    frontier: Frontier
    at: datetime
    region: str
    wishes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """One way to go on: all that is needed to say what is expected of it. ``seen`` says what the grid ahead rests on.

    ``horizon`` is what a plan goes by; ``carbon`` and ``money`` are what it is priced with, None where not known.
    """

    changes: Mapping[str, Any]
    given: PolicyInput
    region: str
    seen: str
    horizon: Horizon | None
    carbon: Horizon | None
    money: Horizon | None


@dataclass(frozen=True, slots=True)
class Expected:
    """What comes of a case."""

    case: Case
    at: datetime
    course: Course
    slowdown: float
    late_s: float
    grams: Outcome | None
    cost: Outcome | None

    @property
    def end(self) -> datetime | None:
        return after(self.at, self.course.seconds) if self.course.ends else None

    def to_dict(self) -> dict[str, Any]:
        """Flat: one row of a table, with the keys of an account."""
        rules = self.case.given.rules
        return {
            "case": named(self.case.changes),
            "policy": rules.name,
            "max_slowdown": rules.max_slowdown,
            "region": self.case.region,
            "grid": self.case.seen,
            "end": self.end,
            "seconds": self.course.seconds,
            "slowdown": self.slowdown,
            "late_seconds": self.late_s,
            "unforecast_seconds": math.fsum(s.seconds for s in self.course.stretches if s.later),
            "units": self.course.units,
            "energy_kwh": self.course.energy_j / J_PER_KWH,
            **figures(self.grams, "grams"),
            **figures(self.cost, "cost"),
        }


def named(changes: Mapping[str, Any]) -> str:
    """``max_slowdown 0.1, policy chase``; ``now`` where nothing is another."""
    return ", ".join(f"{key} {_value(value)}" for key, value in changes.items()) or "now"


def case(now: Now, changes: Mapping[str, Any], known: Known) -> Case:
    """``changes`` are settings of ``[policy]``, its name as ``policy``, and ``region``; none is what the job does now.

    Raises ``ConfigError`` for a value that the configuration would refuse, and ``NoPlan`` where too little is known.
    """
    chosen, moved = _checked(now, changes), REGION in changes
    given, place = _changed(now, changes, chosen), known(changes.get(REGION))
    if moved and place is not None:
        given = replace(given, grid=place.grid(chosen))
    anew = moved or not changes.keys().isdisjoint({MINIMISE, CARBON_PRICE})
    stored = None if anew else now.given.horizon
    horizon = stored
    if stored is None and place is not None:
        horizon = place.horizon(chosen.minimise, chosen.carbon_price_per_kg)
    if horizon is None and chosen.minimise != CARBON:
        raise NoPlan(f"no price of electricity ahead is stored, and minimise = {chosen.minimise} needs it")
    carbon, money = _priced_with(stored, place, chosen.minimise)
    region = now.region if place is None else place.region.id
    seen = "as decided" if stored is not None or place is None else place.source
    return Case(changes, replace(given, horizon=horizon), region, seen, horizon, carbon, money)


def expect(case_: Case, frontier: Frontier, at: datetime) -> Expected:
    """Raises ``NoPlan`` where nothing is known of the time ahead."""
    given, course = case_.given, _course(case_, frontier)
    allowed_s = given.progress.deadline_s
    if given.rules.name == "budget":
        full_s = course.units * frontier.reference.seconds_per_unit
        allowed_s = full_s + allowance(given.rules, given.progress, frontier).slack_s
    late_s = 0.0 if allowed_s is None or not course.ends else course.seconds - allowed_s
    grams, cost = (
        None if horizon is None else outcome(course, horizon, frontier, given.host_w)
        for horizon in (case_.carbon, case_.money)
    )
    late_s = late_s if late_s > _LATE_S else 0.0
    return Expected(case_, at, course, slowdown(course, given, frontier), late_s, grams, cost)


def _priced_with(stored: Horizon | None, place: AsOf | None, minimise: str) -> tuple[Horizon | None, Horizon | None]:
    """Carbon and money: what the decision was given where it was one of them, else what is known as of then."""
    carbon = money = None
    if place is not None:
        carbon, money = place.horizon(), place.money()
    if stored is not None and stored.unit == GRAMS:
        carbon = stored
    elif stored is not None and minimise == MONEY:
        money = stored
    return carbon, money


def _course(case_: Case, frontier: Frontier) -> Course:
    given = case_.given
    if given.rules.name == "budget" and case_.horizon is not None:
        return of_plan(planned(given, frontier))
    if case_.carbon is None:
        raise NoPlan(f"nothing is known of the grid of {case_.region} ahead: there is nothing to compare with")
    return of_policy(given, frontier, case_.carbon)


# -- what is changed --------------------------------------------------------------------------------------------------


def _checked(now: Now, changes: Mapping[str, Any]) -> PolicyConfig:
    """The rules in force with the changes over them, by the configuration's own checks."""
    rules = {key: getattr(now.given.rules, key) for key in _RULES}
    wishes = {"name" if key == "policy" else key: value for key, value in changes.items() if key != REGION}
    if wishes.get(DEADLINE) is not None and now.given.progress.units_left is None:
        raise ConfigError("a deadline needs a job whose length is known: it registered without total_units")
    chosen = job_policy(Config(), None, {**rules, **now.wishes, **wishes})
    for key in changes:
        needed = _needed(key, chosen)
        if needed:
            flag, so_far = f"--{key.replace('_', '-')}", f"policy {chosen.name}"
            so_far += f" and minimise {chosen.minimise}" if key == CARBON_PRICE and chosen.name == "budget" else ""
            raise ConfigError(f"{flag} does nothing under {so_far}: give it with {needed} alone, or leave it out")
    return chosen


def _needed(key: str, chosen: PolicyConfig) -> str:
    """The options without which a setting is not gone by; empty where it is."""
    if key == "eta" and chosen.name != "chase" and (chosen.name, chosen.selector) != ("static", "zeus-cost"):
        return "--policy chase"
    if key == MINIMISE and chosen.name != "budget":
        return "--policy budget"
    without = key == CARBON_PRICE and (chosen.name, chosen.minimise) != ("budget", BOTH)
    return "--policy budget --minimise both" if without else ""


def _changed(now: Now, changes: Mapping[str, Any], chosen: PolicyConfig) -> PolicyInput:
    """Without what keeps the policy from being followed just now: a hold, measuring, a stranger, the node's cap."""
    progress = now.given.progress
    if DEADLINE in changes:
        left_s = None if chosen.deadline is None else (chosen.deadline - now.at).total_seconds()
        progress = replace(progress, deadline_s=left_s)
    rules = replace(now.given.rules, **{key: getattr(chosen, key) for key in _RULES})
    return replace(
        now.given, rules=rules, progress=progress, hold=None, measure=None, barred="", capped=None, cap_note=""
    )


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return minute(value)
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
