"""Which intervals are compared with full power: those in which the job worked, as far as their reference is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from chase.pricing import seconds_in
from chase.records import IntervalRecord
from zeus_core.frontier import Frontier, Setting

_BURST = 1.1  # work that needed more than this times its interval was done in the ones before, too
_SAME_W = 0.5  # drivers round limits

Pace = Callable[[IntervalRecord], tuple[float, float]]


Costs = Sequence[float | None]  # c_i of every interval: what a joule costs in it, None where that is not known


def comparable(rows: Sequence[IntervalRecord], frontier: Frontier | None, costs: Costs | None = None) -> list[bool]:
    """Of each interval whether the job worked in it and its reference is known, and what it ``costs`` where given.

    A job that reports rarely seems to stand still and then to leap. Nothing works faster than at full power, so where
    the units of an interval needed longer than it lasted, the ones before it without progress were work, too; and
    where one of those must not be compared, the leap cannot be either.
    """
    worked = [row.progress for row in rows]
    known = [
        row.reference_energy_j is not None and (costs is None or costs[i] is not None) for i, row in enumerate(rows)
    ]
    needed_s = _pace(frontier)
    for last, row in enumerate(rows):
        if not (row.progress and known[last]):
            continue
        first = _work_began(rows, last, *needed_s(row))
        known[last] = all(known[first:last])
        for i in range(first, last):
            worked[i] |= known[last]
    return [did and may for did, may in zip(worked, known, strict=True)]


def length_s(record: IntervalRecord) -> float:
    return seconds_in(record.start, record.end)


def _work_began(rows: Sequence[IntervalRecord], last: int, least_s: float, most_s: float) -> int:
    """The interval in which the work of ``last`` began: not before the one with the report before it."""
    have_s, first = _BURST * length_s(rows[last]), last
    if have_s >= least_s:
        return last
    while have_s < most_s and first > 0 and (first == last or not rows[first].progress):
        first -= 1
        have_s += _BURST * length_s(rows[first])
    return first


def _pace(frontier: Frontier | None) -> Pace:
    """The least and the most time that an interval's work takes: one and the same at a limit that was measured.

    Between two measured limits it lies between theirs; under a limit that is not known it may be any.
    """
    times = [] if frontier is None else [(_limit_w(p.setting), p.seconds_per_unit) for p in frontier.points]
    known: dict[float | None, tuple[float | None, float]] = {}

    def needed_s(row: IntervalRecord) -> tuple[float, float]:
        full_s = row.reference_s or 0.0
        if not times or full_s <= 0:
            return full_s, full_s
        if row.power_limit_w not in known:
            known[row.power_limit_w] = _seconds_per_unit(times, row.power_limit_w)
        least, most = known[row.power_limit_w]
        least_s = full_s if least is None else row.units * least
        return least_s, max(least_s, row.units * most)

    return needed_s


def _seconds_per_unit(times: Sequence[tuple[float, float]], limit_w: float | None) -> tuple[float | None, float]:
    """The least is None where no limit that was measured lies above, and full power's then."""
    at_w = math.nan if limit_w is None else limit_w  # one that is not known is neither above nor below any
    above = [time for time in times if time[0] >= at_w - _SAME_W]
    below = [time for time in times if time[0] <= at_w + _SAME_W]
    return min(above)[1] if above else None, max(below)[1] if below else max(seconds for _, seconds in times)


def _limit_w(setting: Setting) -> float:
    return math.inf if setting.power_limit_w is None else setting.power_limit_w
