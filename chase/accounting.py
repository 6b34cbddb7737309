"""Joules and grams of an interval, of a job, and what of them was saved.

Notation, per interval i:

    u_i   units of work                                             [unit]
    s_i   seconds                                                   [s]
    e_i   energy drawn by all GPUs of the job                       [J]
    c_i   price of a joule: intensity_i * PUE / 3.6e6               [g/J]
    E_0   energy per unit at the reference (full power) point       [J/unit]

    saved      = sum c_i * (u_i * E_0 - e_i)                        against the same work at full power
    efficiency = sum c_i * u_i * E_0 - c * E*(U, S)                 what the best fixed setting would have saved
    timing     = saved - efficiency                                 the rest

E*(U, S) is the least energy that does U = sum u_i within S = sum s_i at one fixed setting, or a fixed mix of two hull
neighbours, and c the mean of c_i over time: a fixed setting draws the same power all along. Under a constant intensity
timing is therefore never positive: it is minus what was lost by moving along a convex frontier (papers.md 0 and A.9:
nearly all of the published saving is efficiency). The frontier's own error falls into timing.

No saving is booked on an interval without progress (rule G25), nor on one that must not be compared (its reference is
None): it counts the same on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from chase.pricing import Price, carried, grams_of, price, seconds_in, worst
from chase.records import IntervalRecord
from providers.base import IntensityPoint, Kind, Series
from zeus_core.frontier import Frontier, Setting

_BURST = 1.1  # work that needed more than this times its interval was done in the ones before, too
_SAME_W = 0.5  # drivers round limits
_DENOMINATORS = (
    "reference_* is the same work at the full-power point the frontier was measured with, priced at the same"
    " intensities; time without progress, or without a frontier or an intensity, counts the same on both sides."
    " Percentages of savings are of reference_grams; slowdown is of the reference's time for the compared work."
    " efficiency_grams is what the best fixed setting of equal total time would have saved; timing_grams is the rest"
    " and carries the frontier's error."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """What a job cost. None is not known. ``*_share`` are shares of ``energy_j``.

    ``reference_grams - grams == saved_grams == efficiency_grams + timing_grams``. ``estimated_share`` is the energy
    whose intensity is not a measured one, unknown included; ``compared_share`` the energy that a saving could be
    computed for.
    """

    energy_j: float
    grams: float | None
    seconds: float
    units: float
    method: str
    reference_energy_j: float | None = None
    reference_grams: float | None = None
    slowdown: float | None = None
    saved_energy_j: float | None = None
    saved_grams: float | None = None
    efficiency_grams: float | None = None
    timing_grams: float | None = None
    unpriced_energy_j: float = 0.0
    estimated_share: float = 0.0
    compared_share: float = 0.0
    denominators: str = _DENOMINATORS

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def interval(
    *,
    job_id: str,
    start: datetime,
    end: datetime,
    units: float,
    energy_j: float,
    method: str,
    power_limit_w: float | None,
    seconds: float | None = None,
    series: Series = Series(),  # noqa: B008  frozen
    point: IntensityPoint | None = None,
    frontier: Frontier | None = None,
    pue: float = 1.0,
    compare: bool = True,
) -> IntervalRecord:
    """One row of the account. ``units`` is the progress made; none is no progress, which at full power costs nothing.

    Without ``compare`` (the GPU was shared, the frontier was wrong) it has no reference, as without a frontier.
    ``power_limit_w`` is the limit that was in force, None where that is not known or not ours.

    Priced from ``series``, or where it knows nothing of this time from ``point``, the value gone by. ``seconds``, from
    the monotonic clock, decides the length where the wall clock was moved.
    """
    if seconds is not None:
        end = start + timedelta(seconds=seconds)
    reference = frontier.reference if frontier is not None and compare else None
    worked = max(units, 0.0)
    record = IntervalRecord(
        job_id=job_id,
        start=start,
        end=end,
        units=units,
        energy_j=energy_j,
        method=method,
        power_limit_w=power_limit_w,
        intensity_g_per_kwh=None,
        intensity_kind="",
        grams=None,
        reference_energy_j=None if reference is None else worked * reference.joules_per_unit,
        reference_s=None if reference is None else worked * reference.seconds_per_unit,
        progress=units > 0,
    )
    found = price(series, start, end) or carried(point, start, end)
    return record if found is None else _priced(record, found, pue)


def reprice(intervals: Iterable[IntervalRecord], series: Series, *, pue: float | None = None) -> list[IntervalRecord]:
    """The same energy at the intensities as they are known now; PUE as it was booked unless given.

    An interval keeps its price where the series knows nothing of it, or only something less certain, and is then the
    very record that was given.
    """
    rows = list(intervals)
    booked = next((known for row in rows if (known := _booked_pue(row)) is not None), 1.0)
    return [_repriced(row, price(series, row.start, row.end), pue or _booked_pue(row) or booked) for row in rows]


def summarise(intervals: Iterable[IntervalRecord], frontier: Frontier | None = None) -> JobSummary:
    """The account of one job; the parts of the saving are known only with its frontier."""
    rows = sorted(intervals, key=lambda record: record.start)
    energy_j = sum(row.energy_j for row in rows)
    priced = [row.grams for row in rows if row.grams is not None]
    measured_j = sum(row.energy_j for row in rows if row.grams is not None and row.intensity_kind == Kind.MEASURED)
    methods = {row.method for row in rows}
    summary = JobSummary(
        energy_j=energy_j,
        grams=sum(priced) if priced else None,
        seconds=sum(map(_length, rows)),
        units=sum(row.units for row in rows),
        method=methods.pop() if len(methods) == 1 else "mixed" if methods else "none",
        unpriced_energy_j=sum(row.energy_j for row in rows if row.grams is None),
        estimated_share=1.0 - measured_j / energy_j if energy_j > 0 else 0.0,
    )
    return _with_savings(summary, _comparable(rows, frontier), frontier)


def _with_savings(summary: JobSummary, compared: Sequence[IntervalRecord], frontier: Frontier | None) -> JobSummary:
    reference_s = sum(row.reference_s or 0.0 for row in compared)
    if reference_s <= 0:
        return summary
    drawn_j = sum(row.energy_j for row in compared)
    saved_j = sum(row.reference_energy_j or 0.0 for row in compared) - drawn_j
    summary = replace(
        summary,
        reference_energy_j=summary.energy_j + saved_j,
        slowdown=sum(map(_length, compared)) / reference_s - 1.0,
        saved_energy_j=saved_j,
        compared_share=drawn_j / summary.energy_j if summary.energy_j > 0 else 0.0,
    )
    return _with_saved_grams(summary, [row for row in compared if row.grams is not None], frontier)


def _with_saved_grams(summary: JobSummary, compared: Sequence[IntervalRecord], frontier: Frontier | None) -> JobSummary:
    reference_grams = sum(row.reference_grams or 0.0 for row in compared)
    if summary.grams is None or not any(map(_length, compared)):
        return summary
    saved = reference_grams - sum(row.grams or 0.0 for row in compared)
    efficiency = None if frontier is None else reference_grams - _fixed_grams(compared, frontier)
    return replace(
        summary,
        reference_grams=summary.grams + saved,
        saved_grams=saved,
        efficiency_grams=efficiency,
        timing_grams=None if efficiency is None else saved - efficiency,
    )


def _comparable(rows: Sequence[IntervalRecord], frontier: Frontier | None) -> list[IntervalRecord]:
    """The intervals in which the job worked, as far as its reference is known.

    A job that reports rarely seems to stand still and then to leap. Nothing works faster than at full power, so where
    the units of an interval needed longer than it lasted, the ones before it without progress were work, too; and
    where one of those must not be compared, the leap cannot be either.
    """
    worked = [row.progress for row in rows]
    known = [row.reference_energy_j is not None for row in rows]
    for last, row in enumerate(rows):
        if not (row.progress and known[last]):
            continue
        first = _work_began(rows, last, frontier)
        known[last] = all(known[first:last])
        for i in range(first, last):
            worked[i] |= known[last]
    return [row for i, row in enumerate(rows) if worked[i] and known[i]]


def _work_began(rows: Sequence[IntervalRecord], last: int, frontier: Frontier | None) -> int:
    """The interval in which the work of ``last`` began: not before the one with the report before it."""
    least_s, most_s = _needed_s(rows[last], frontier)
    have_s, first = _BURST * _length(rows[last]), last
    if have_s >= least_s:
        return last
    while have_s < most_s and first > 0 and (first == last or not rows[first].progress):
        first -= 1
        have_s += _BURST * _length(rows[first])
    return first


def _needed_s(row: IntervalRecord, frontier: Frontier | None) -> tuple[float, float]:
    """The least and the most time that the interval's work takes: one and the same at a limit that was measured.

    Between two measured limits it lies between theirs; under a limit that is not known it may be any.
    """
    full_s = row.reference_s or 0.0
    if frontier is None or full_s <= 0:
        return full_s, full_s
    # A limit that is not known is neither above nor below any.
    limit_w = math.nan if row.power_limit_w is None else row.power_limit_w
    times = [(_limit_w(p.setting), row.units * p.seconds_per_unit) for p in frontier.points]
    above = [time for time in times if time[0] >= limit_w - _SAME_W]
    below = [time for time in times if time[0] <= limit_w + _SAME_W]
    least_s = min(above)[1] if above else full_s
    return least_s, max(least_s, max(below)[1] if below else max(seconds for _, seconds in times))


def _fixed_grams(compared: Sequence[IntervalRecord], frontier: Frontier) -> float:
    seconds = sum(map(_length, compared))
    mean_price = sum(_length(row) * _g_per_j(row) for row in compared) / seconds
    return mean_price * least_energy_j(frontier, sum(row.units for row in compared), seconds)


def least_energy_j(frontier: Frontier, units: float, seconds: float) -> float:
    """E*: the least energy for ``units`` within ``seconds`` at one fixed setting or mix of two hull neighbours.

    Work that was done faster than the frontier's fastest point is taken at that point.
    """
    hull, rate = frontier.hull, units / seconds
    for fast, slow in pairwise(hull):
        if slow.rate <= rate <= fast.rate:
            share = (rate - slow.rate) / (fast.rate - slow.rate)
            return seconds * (slow.power_w + share * (fast.power_w - slow.power_w))
    return units * (hull[0] if rate > hull[0].rate else hull[-1]).joules_per_unit


def _priced(record: IntervalRecord, found: Price, pue: float) -> IntervalRecord:
    reference_j = record.reference_energy_j
    return replace(
        record,
        intensity_g_per_kwh=found.g_per_kwh,
        intensity_kind=found.kind.value,
        grams=grams_of(record.energy_j, found.g_per_kwh, pue),
        reference_grams=None if reference_j is None else grams_of(reference_j, found.g_per_kwh, pue),
    )


def _repriced(record: IntervalRecord, found: Price | None, pue: float) -> IntervalRecord:
    if found is None:
        return record
    if record.intensity_kind and worst([found.kind, Kind(record.intensity_kind)]) != record.intensity_kind:
        return record  # what was booked is better than what is known now
    again = _priced(record, found, pue)
    return record if _same_price(record, again) else again


def _same_price(one: IntervalRecord, other: IntervalRecord) -> bool:
    """But for rounding, which the PUE that is taken back out of a price brings in."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in ("intensity_g_per_kwh", "grams", "reference_grams")]
    return one.intensity_kind == other.intensity_kind and all(
        a == b or (None not in (a, b) and math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12)) for a, b in pairs
    )


def _booked_pue(record: IntervalRecord) -> float | None:
    """None where nothing tells: no price, no energy, or an intensity of 0."""
    pairs = ((record.grams, record.energy_j), (record.reference_grams, record.reference_energy_j))
    for grams, energy_j in pairs:
        if grams and energy_j and record.intensity_g_per_kwh:
            return grams / grams_of(energy_j, record.intensity_g_per_kwh)
    return None


def _g_per_j(record: IntervalRecord) -> float:
    return grams_of(1.0, record.intensity_g_per_kwh or 0.0, _booked_pue(record) or 1.0)


def _limit_w(setting: Setting) -> float:
    return math.inf if setting.power_limit_w is None else setting.power_limit_w


def _length(record: IntervalRecord) -> float:
    return seconds_in(record.start, record.end)
