"""What a job cost and saved, read from the database: the one place that says it, as values and in words.

``chase report``, the last lines of ``chase exec`` and the demo all come from here, so that what is printed is what
anybody can add up in the table ``intervals``. docs/accounting.md says what each figure means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from chase.figures import change, count, duration, energy, grams, grams_about, money, percent, share_of, small_grams

if TYPE_CHECKING:
    from chase.accounting import JobSummary
    from chase.client.summary import Summary
    from chase.records import IntervalRecord, JobRecord
    from chase.store import Reader
    from zeus_core.frontier import Frontier

    Account = JobSummary | Summary  # ours, or as it came over the socket

_PARTS = ("saved", "efficiency", "timing")
_EQUAL = 0.0005  # less than the tenth of a per cent that is shown
_LOOK_BACK = 200  # decisions, for one that had a frontier


@dataclass(frozen=True, slots=True)
class JobReport:
    """``began`` and ``ended`` are those of the account, None while it is empty."""

    job: JobRecord
    summary: JobSummary
    decisions: int
    began: datetime | None
    ended: datetime | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "job": asdict(self.job),
            "began": self.began,
            "ended": self.ended,
            "decisions": self.decisions,
            "account": self.summary.to_dict(),
        }

    def lines(self) -> Iterator[str]:
        """For people: a title and then one figure a line."""
        job, at = self.job, self.job.ended_at
        state = "running" if at is None else f"ended {at:%Y-%m-%d %H:%M:%SZ} ({job.end_reason or 'no reason given'})"
        yield f"job {job.name} ({job.id}), region {job.region}: {state}"
        for label, text in _told(self.summary, job.units):
            yield f"  {label:<13}{text}"


def job_report(log: Reader, job: JobRecord) -> JobReport:
    """What the database says of a job. Raises ``StoreError``."""
    rows = log.intervals(job=job.id)
    began, ended = (rows[0].start, rows[-1].end) if rows else (None, None)
    return JobReport(job, summary_of(log, job.id, rows), log.decision_count(job.id), began, ended)


def summary_of(log: Reader, job_id: str, rows: Sequence[IntervalRecord]) -> JobSummary:
    """The account of a job's intervals, oldest first, by the frontier that its last decisions went by."""
    from chase.accounting import summarise

    return summarise(rows, frontier_of(log, job_id))


def frontier_of(log: Reader, job_id: str) -> Frontier | None:
    """The newest that a decision went by, None where none of the last ones had any."""
    from zeus_core.frontier import Frontier

    for limit in (1, _LOOK_BACK):
        for decision in reversed(log.decisions(job_id, limit=limit)):
            if found := decision.inputs.get("frontier"):
                return Frontier.from_dict(found)
    return None


def against_full_power(account: Account, units: str) -> str:
    """The saving and the slowdown against the same units at full power; empty where that is not known."""
    drawn_j, reference_j = _total(account.energy_j, account.host_energy_j), _reference_j(account)
    found = [
        change(drawn_j, reference_j, "less energy", "more energy"),
        change(account.grams, account.reference_grams, "less carbon", "more carbon"),
        change(account.cost, account.reference_cost, "cheaper", "dearer"),
        _slower(account.slowdown),
    ]
    if not any(found):
        return ""
    reference = [
        "" if reference_j is None else energy(reference_j),
        grams(account.reference_grams),
        "" if account.reference_cost is None else money(account.reference_cost, account.currency or ""),
    ]
    work = f"the same {'work' if account.units is None else count(account.units, units)} at full power"
    named = f" ({', '.join(filter(None, reference))})" if any(reference) else ""
    share = account.compared_share
    of = "" if share is None or share >= 1 - _EQUAL else f", of {percent(share)} of the energy"
    return f"against {work}{named}: {', '.join(filter(None, found))}{of}"


def parts(account: Account) -> str:
    """What of the carbon saved is efficiency and what timing, as shares of full power's; empty where not known."""
    shares = [
        share_of(part, account.reference_grams)
        for part in (account.saved_grams, account.efficiency_grams, account.timing_grams)
        if part is not None
    ]
    if None in shares or len(shares) < len(_PARTS):
        return ""
    saved, efficiency, timing = (percent(share) for share in shares if share is not None)
    doubt = share_of(account.saved_grams_sd or 0.0, account.reference_grams) or 0.0
    give_or_take = f" ± {percent(doubt)}" if doubt >= _EQUAL else ""
    of_it = f"{efficiency} efficiency (as the best fixed setting that ends when it did), {timing} timing"
    return f"carbon saved: {saved}{give_or_take} of full power's; {of_it}"


def _told(summary: JobSummary, units: str) -> Iterator[tuple[str, str]]:
    """Label and text of each line. What is not known is said or left out, and never a number."""
    if summary.method == "none":
        yield "energy", "nothing was measured yet"
        return
    yield "work", f"{count(summary.units, units)} in {duration(summary.seconds)}"
    host = f"; {energy(summary.host_energy_j)} by its host (configured)" if summary.host_energy_j else ""
    yield "energy", f"{energy(summary.energy_j)} by its GPUs ({summary.method}){host}"
    yield from _carbon(summary)
    if summary.cost is not None:
        yield "money", f"{money(summary.cost, summary.currency)} ({', '.join(summary.price_kinds)} price)"
    yield from _compared(summary)
    yield from _sci(summary, units)


def _carbon(summary: JobSummary) -> Iterator[tuple[str, str]]:
    if summary.grams is None or summary.intensity_g_per_kwh is None:
        yield "carbon", "unknown: no intensity of this time is known"
        return
    used = summary.used_intensity_g_per_kwh
    gone_by = "" if used is None else f"; {used:.0f} g/kWh was gone by at the time"
    yield (
        "carbon",
        f"{grams(summary.grams)}, {summary.intensity_g_per_kwh:.0f} g/kWh on average, PUE {summary.pue:.4g}{gone_by}",
    )
    yield (
        "",
        "energy by intensity: "
        + ", ".join(f"{percent(share)} {name}" for name, share in summary.intensity_shares.items()),
    )


def _compared(summary: JobSummary) -> Iterator[tuple[str, str]]:
    reference_j, seconds = _reference_j(summary), summary.reference_seconds
    if reference_j is None or seconds is None or summary.slowdown is None:
        yield "saved", "unknown: nothing to compare with without progress, or a frontier that was seen to fit the job"
        return
    carbon = "" if summary.reference_grams is None else f", {grams(summary.reference_grams)}"
    paid = "" if summary.reference_cost is None else f", {money(summary.reference_cost, summary.currency)}"
    yield "full power", f"{energy(reference_j)}{carbon}{paid} in {duration(seconds)}, for the same work"
    if summary.reference_grams_by_interval is not None:
        yield "", f"over its own time; each unit at the moment of ours: {grams(summary.reference_grams_by_interval)}"
    drawn_j = summary.energy_j + summary.host_energy_j
    changes = (change(drawn_j, reference_j, "less energy", "more energy"), _slower(summary.slowdown))
    yield "compared", f"{', '.join(filter(None, changes))} than at full power"
    if summary.compared_share < 1 - _EQUAL:
        yield "", f"of {percent(summary.compared_share)} of the energy; the rest counts the same on both sides"
    yield from _saved(summary)


def _saved(summary: JobSummary) -> Iterator[tuple[str, str]]:
    what = ("", ": the best fixed setting that ends when it did", ": the rest, when it was fast and when slow")
    for name, text in zip(_PARTS, what, strict=True):
        amount, spread = getattr(summary, f"{name}_grams"), getattr(summary, f"{name}_grams_sd")
        if amount is None:
            continue
        share = share_of(amount, summary.reference_grams)
        cost = getattr(summary, f"{name}_cost")
        paid = "" if cost is None else f", {money(cost, summary.currency)}"
        shown = "" if share is None else f", {percent(share)} of full power's"
        yield name, f"{grams_about(amount, spread or 0.0)}{shown}{paid}{text}"
    if summary.saved_grams_sd is not None:
        known = "" if summary.profile_spread_known else "; the profile does not say how much it scatters"
        yield "", f"± is one standard deviation, of intensities and the profile{known}"


def _sci(summary: JobSummary, units: str) -> Iterator[tuple[str, str]]:
    operational, embodied = summary.sci_operational_g_per_unit, summary.sci_embodied_g_per_unit
    if operational is None:
        return
    if embodied is None or summary.sci_g_per_unit is None:
        yield "SCI", f"not known without [embodied]; its operational part: {small_grams(operational)} a unit ({units})"
        return
    made_of = f"{small_grams(operational)} operational, {small_grams(embodied)} embodied"
    yield "SCI", f"{small_grams(summary.sci_g_per_unit)} a unit ({units}): {made_of}"


def _reference_j(account: Account) -> float | None:
    return _total(account.reference_energy_j, account.reference_host_energy_j)


def _total(gpus_j: float | None, host_j: float | None) -> float | None:
    return None if gpus_j is None else gpus_j + (host_j or 0.0)


def _slower(slowdown: float | None) -> str:
    if slowdown is None:
        return ""
    if abs(slowdown) < _EQUAL:
        return "no slower"
    return f"{percent(abs(slowdown))} {'slower' if slowdown > 0 else 'faster'}"
