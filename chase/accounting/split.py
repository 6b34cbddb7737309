"""R, F and A of the notation: what the same work would have cost at full power and at the best fixed setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from chase.accounting.booking import drawn_j, reference_j
from chase.accounting.compared import Costs, comparable, length_s
from chase.records import IntervalRecord
from zeus_core.frontier import Frontier, OperatingPoint


@dataclass(frozen=True, slots=True)
class Mix:
    """The one or two hull points that do the work in ``seconds``, each with its joules, the host's included."""

    parts: tuple[tuple[OperatingPoint, float], ...]
    seconds: float

    @property
    def energy_j(self) -> float:
        return math.fsum(energy_j for _, energy_j in self.parts)

    @property
    def power_w(self) -> float:
        """The same all along; 0 where there is nothing to do."""
        return self.energy_j / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Split:
    """R, R', F and A over the ``rows`` that are compared and whose cost is known, and each one's part of R, F and A.

    ``fixed`` and ``mix`` are None without a frontier.
    """

    rows: tuple[IntervalRecord, ...]
    reference_of: tuple[float, ...]
    fixed_of: tuple[float, ...] | None
    drawn_of: tuple[float, ...]
    reference: float
    by_interval: float
    drawn: float
    fixed: float | None
    mix: Mix | None

    @property
    def efficiency(self) -> float | None:
        return None if self.fixed is None else self.reference - self.fixed

    @property
    def timing(self) -> float | None:
        return None if self.fixed is None else self.fixed - self.drawn

    @property
    def saved(self) -> float:
        """The sum of its two parts, to the last bit."""
        if self.efficiency is None or self.timing is None:
            return self.reference - self.drawn
        return self.efficiency + self.timing


def split(
    rows: Sequence[IntervalRecord], compared: Sequence[bool], costs: Costs, frontier: Frontier | None
) -> Split | None:
    """None where nothing can be compared. ``rows`` are all of the job, oldest first, and ``costs`` those of each."""
    priced = comparable(rows, frontier, costs) if None in costs else compared
    chosen = [i for i, may in enumerate(priced) if may]
    picked = tuple(rows[i] for i in chosen)
    seconds = [length_s(row) for row in picked]
    if not sum(seconds) > 0:
        return None
    own = _over_its_own_time(rows, compared, costs)
    cost = [c for i in chosen if (c := costs[i]) is not None]
    at_full_power = [reference_j(row) or 0.0 for row in picked]
    reference_of = tuple(e * own[i] for e, i in zip(at_full_power, chosen, strict=True))
    drawn_of = tuple(drawn_j(row) * c for row, c in zip(picked, cost, strict=True))
    fixed = None if frontier is None else _fixed(frontier, picked, math.fsum(seconds))
    fixed_of = None
    if fixed is not None:
        running_s = _within_first(seconds, fixed.seconds)
        fixed_of = tuple(fixed.power_w * s * c for s, c in zip(running_s, cost, strict=True))
    return Split(
        rows=picked,
        reference_of=reference_of,
        fixed_of=fixed_of,
        drawn_of=drawn_of,
        reference=math.fsum(reference_of),
        by_interval=math.fsum(e * c for e, c in zip(at_full_power, cost, strict=True)),
        drawn=math.fsum(drawn_of),
        fixed=None if fixed_of is None else math.fsum(fixed_of),
        mix=fixed,
    )


def hosted(frontier: Frontier, host_power_w: float) -> Frontier:
    """The frontier with the host's power in it: slow points grow dearer, and the frugal one is a faster one."""
    if host_power_w == 0:
        return frontier
    points = (_hosted(point, host_power_w) for point in frontier.points)
    return Frontier.of(points, frontier.reference.setting)


def best_fixed(frontier: Frontier, units: float, seconds: float) -> Mix:
    """E*: the least energy for ``units`` within ``seconds`` at one fixed setting or mix of two hull neighbours.

    Given more time than the point of least energy takes, that point ends early: slower is not better, and a job that is
    done draws nothing. Work that was done faster than the frontier's fastest point takes that point's energy, in its
    own time. See ``hosted`` for the host's.
    """
    hull, frugal = frontier.hull, frontier.hull[-1]
    if not seconds > units * hull[0].seconds_per_unit:
        return Mix(((hull[0], units * hull[0].joules_per_unit),), seconds)
    if seconds >= units * frugal.seconds_per_unit:
        return Mix(((frugal, units * frugal.joules_per_unit),), units * frugal.seconds_per_unit)
    rate = units / seconds
    fast, slow = next((fast, slow) for fast, slow in pairwise(hull) if slow.rate <= rate)
    share = (rate - slow.rate) / (fast.rate - slow.rate)
    parts = ((fast, seconds * share * fast.power_w), (slow, seconds * (1.0 - share) * slow.power_w))
    return Mix(parts, seconds)


def _fixed(frontier: Frontier, rows: Sequence[IntervalRecord], seconds: float) -> Mix:
    host_power_w = math.fsum(row.host_energy_j for row in rows) / seconds
    return best_fixed(hosted(frontier, host_power_w), math.fsum(row.units for row in rows), seconds)


def _within_first(lengths: Sequence[float], seconds: float) -> list[float]:
    """Of each length as much as lies within the first so many ``seconds`` of all of them."""
    left, found = seconds, []
    for length in lengths:
        found.append(min(length, max(left, 0.0)))
        left -= length
    return found


def _hosted(point: OperatingPoint, host_power_w: float) -> OperatingPoint:
    """The host's watts are taken as they are configured, so that what scatters becomes a smaller share."""
    energy_j = point.joules_per_unit + host_power_w * point.seconds_per_unit
    return replace(point, joules_per_unit=energy_j, spread=point.spread * point.joules_per_unit / energy_j)


def _over_its_own_time(rows: Sequence[IntervalRecord], compared: Sequence[bool], costs: Costs) -> list[float]:
    """c(tau_i): for each interval the mean cost of a joule over the time in which full power would have done its work.

    Full power begins when the job did, and stands still as long as the job did, gaps in the account included. What is
    not known of that time is taken to be like the rest of it, or like the interval's own.
    """
    mean_cost = _mean_cost(rows, costs)
    own, at_s = [], 0.0
    for i, row in enumerate(rows):
        if i and row.start > rows[i - 1].end:
            at_s += (row.start - rows[i - 1].end).total_seconds()
        lasts_s = (row.reference_s or 0.0) if compared[i] else length_s(row)
        found = mean_cost(at_s, at_s + lasts_s) if compared[i] and lasts_s > 0 else None
        own.append((costs[i] or 0.0) if found is None else found)
        at_s += lasts_s
    return own


def _mean_cost(rows: Sequence[IntervalRecord], costs: Costs) -> Callable[[float, float], float | None]:
    """The mean over ``[begin_s, end_s)`` since the job began, for stretches that are asked for in ascending order.

    An interval's cost holds until the next one begins, and the last one's for good.
    """
    began = [(row.start - rows[0].start).total_seconds() for row in rows]
    until = [*began[1:], math.inf]
    at = 0

    def mean(begin_s: float, end_s: float) -> float | None:
        nonlocal at
        while until[at] <= begin_s:
            at += 1
        known_s, total, k = 0.0, 0.0, at
        while k < len(rows) and began[k] < end_s:
            seconds, cost = min(until[k], end_s) - max(began[k], begin_s), costs[k]
            if cost is not None and seconds > 0:
                known_s, total = known_s + seconds, total + seconds * cost
            k += 1
        return total / known_s if known_s > 0 else None

    return mean
