"""Several jobs under one cap on their power: which option each takes, so that all together cost least.

Notation:

    j, k          job, and one of its options, of least power first
    p_jk, c_jk    power of the option, in whole grains, and its cost          [grain], [any one unit for all jobs]
    C             the cap                                                     [grain]
    lam           what a grain less under the cap would cost, above 0         [cost/grain]
    e_jk          excess, c_jk + lam p_jk - min_k (c_jk + lam p_jk), at least 0

    minimise  sum_j c_jk(j)   subject to   sum_j p_jk(j) <= C

a multiple-choice knapsack. With lam from its continuous relaxation (Sinha and Zoltners 1979: the steps of each job's
convex hull, most saved for each watt first), any choice costs

    bound + sum_j e_jk(j) + lam (C - sum_j p_jk(j)),      bound = sum_j min_k (c_jk + lam p_jk) - lam C,

three terms none of which is negative after the first. So a choice better than the best one known has no option whose
excess alone is as large as the gap between that one and the bound. The options left are few, and are searched from the
jobs nearest to changing their mind (Pisinger 1995): after each job only those partial choices are kept that no other
beats in both power and cost, and each better choice that is found narrows the gap for the rest.

A grain is 0.01 W, and 0.1 W or 1 W for caps above 2 or 20 kW: far below what a mean power is known to. Powers are
rounded up to it and the cap down. So no choice exceeds the cap by rounding, sums of alike jobs are equal in whatever
order they are taken, and there are never more partial choices than grains: the time is bounded even where a watt buys
the same everywhere.
"""

# ruff: noqa: N803, N806  C is what the mathematics calls it
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SURE = 1e-12  # of the largest difference that a choice can make: costs nearer than this are equal
_MOST_W = 1e9
_GRAINS = 200_000  # of a cap, at most, while a watt has more than one
_ROUNDING_W = 1e-6


@dataclass(frozen=True, slots=True)
class Option:
    """One position of a job: its ``power_w``, and what it costs to be there; lower is better."""

    power_w: float
    cost: float


@dataclass(frozen=True, slots=True)
class Selection:
    """Which option of each job, and their sums. ``met`` False: even the least powers exceed the cap; these are they."""

    chosen: tuple[int, ...]
    power_w: float
    cost: float
    met: bool


def fit(jobs: Sequence[Sequence[Option]], cap_w: float) -> Selection:
    """The choice of least cost within the cap; the same for the same input. Costs of all jobs are of one unit.

    Exact where powers are whole grains; else what would fit only by a part of one may be missed.
    Raises ``ValueError`` for a job without options, options not rising in power, or a number that cannot be.
    """
    _check(jobs, cap_w)
    per_w = next((grains for grains in (100, 10) if cap_w * grains <= _GRAINS), 1)
    C = math.floor((cap_w + _ROUNDING_W) * per_w)
    power = [np.array([math.ceil((option.power_w - _ROUNDING_W) * per_w) for option in job], np.int64) for job in jobs]
    cost = [np.array([option.cost for option in job], np.float64) for job in jobs]
    cheapest = _selection(jobs, [int(np.argmin(c)) for c in cost], cap_w)
    if cheapest.met:
        return cheapest
    if sum(int(p[0]) for p in power) > C:
        return _selection(jobs, [0] * len(jobs), cap_w)
    return _selection(jobs, _Search(power, cost, C).best(), cap_w)


def _check(jobs: Sequence[Sequence[Option]], cap_w: float) -> None:
    if not 0 <= cap_w <= _MOST_W:  # false for NaN
        raise ValueError(f"a cap lies within 0 to {_MOST_W:g} W, not {cap_w!r}")
    for options in jobs:
        if not options:
            raise ValueError("each job needs at least one option")
        if not all(0 <= option.power_w <= _MOST_W and math.isfinite(option.cost) for option in options):
            raise ValueError(f"powers lie within 0 to {_MOST_W:g} W and costs are finite, not {options!r}")
        if any(low.power_w >= high.power_w for low, high in pairwise(options)):
            raise ValueError(f"the options of a job must rise in power, not {options!r}")


def _selection(jobs: Sequence[Sequence[Option]], chosen: Sequence[int], cap_w: float) -> Selection:
    taken = [options[k] for options, k in zip(jobs, chosen, strict=True)]
    power_w, cost = math.fsum(option.power_w for option in taken), math.fsum(option.cost for option in taken)
    return Selection(tuple(chosen), power_w, cost, met=power_w <= cap_w + _ROUNDING_W)


@dataclass(frozen=True, slots=True)
class _Step:
    """An edge of a hull: ``worth`` is the cost saved for each grain from option ``start`` to ``end``."""

    worth: float
    job: int
    start: int
    end: int


def _steps(job: int, power: Ints, cost: Floats) -> list[_Step]:
    """The lower hull from the least power to the least cost; ``worth`` falls along it and is positive."""
    hull = [0]
    for k in range(1, len(power)):
        if cost[k] >= cost[hull[-1]]:
            continue
        while len(hull) > 1 and _worth(power, cost, hull[-2], hull[-1]) <= _worth(power, cost, hull[-1], k):
            hull.pop()
        hull.append(k)
    return [_Step(_worth(power, cost, start, end), job, start, end) for start, end in pairwise(hull)]


def _worth(power: Ints, cost: Floats, start: int, end: int) -> float:
    """Two options in one grain are a step upright, taken before any other."""
    rise = int(power[end] - power[start])
    return float(cost[start] - cost[end]) / rise if rise else math.inf


class _Search:
    """The search of the module's notation, for a cap that binds and can be met."""

    def __init__(self, power: list[Ints], cost: list[Floats], C: int) -> None:
        self.power, self.C = power, C
        self.sure = _SURE * sum(float(c.max() - c.min()) for c in cost)
        self.incumbent, lam = self._greedy(cost)
        self.lam = lam
        relaxed = [c + lam * p for p, c in zip(power, cost, strict=True)]
        self.excess = [value - value.min() for value in relaxed]
        # Of equals that of the incumbent: it fills most of the cap already, so that a few changes fill the rest.
        self.base = [
            k if e[k] <= self.sure else int(np.argmin(e)) for e, k in zip(self.excess, self.incumbent, strict=True)
        ]
        used = [int(p[k]) for p, k in zip(power, self.incumbent, strict=True)]
        above = math.fsum(float(e[k]) for e, k in zip(self.excess, self.incumbent, strict=True))
        self.gap = above + lam * (C - sum(used))

    def _greedy(self, cost: list[Floats]) -> tuple[list[int], float]:
        """Steps that save most for each watt first, and where the first does not fit any more: lam."""
        steps = [step for j, (p, c) in enumerate(zip(self.power, cost, strict=True)) for step in _steps(j, p, c)]
        chosen, lam = [0] * len(self.power), 0.0
        room = self.C - sum(int(p[0]) for p in self.power)
        for step in sorted(steps, key=lambda step: -step.worth):
            rise = int(self.power[step.job][step.end] - self.power[step.job][step.start])
            if step.start == chosen[step.job] and rise <= room:
                chosen[step.job], room = step.end, room - rise
            elif lam == 0.0:
                lam = step.worth
        return chosen, lam

    def best(self) -> list[int]:
        """Deviations from ``base``, job after job; what is known to be better than the incumbent replaces it."""
        order = sorted(range(len(self.power)), key=self._nearest)
        level = _Level.start(sum(int(p[k]) for p, k in zip(self.power, self.base, strict=True)))
        levels: list[tuple[int, Ints, _Level]] = []
        best: tuple[int, int] | None = None
        for at, job in enumerate(order):
            live = self._live(job)
            if self.gap <= self.sure or (len(live) == 1 and self._nearest(job) >= self.gap):
                break  # so it is for all that follow, and they stay at base
            level = self._extended(level, job, live, order[at + 1 :])
            levels.append((job, live, level))
            found = self._finished(level)
            best = (at, found) if found is not None else best
        return self.incumbent if best is None else self._traced(levels, *best)

    def _nearest(self, job: int) -> float:
        """The least excess of any option but the base; infinite where there is no other."""
        others = np.delete(self.excess[job], self.base[job])
        return float(others.min()) if len(others) else math.inf

    def _live(self, job: int) -> Ints:
        """The base, and what may still be in a better choice."""
        live = self.excess[job] < self.gap - self.sure
        live[self.base[job]] = True
        return np.flatnonzero(live)

    def _reach(self, jobs: Sequence[int]) -> tuple[int, int]:
        """How far ``jobs`` may yet lower and raise the power."""
        low = high = 0
        for job in jobs:
            change = self.power[job][self._live(job)] - self.power[job][self.base[job]]
            low, high = low + int(change.min()), high + int(change.max())
        return low, high

    def _extended(self, level: _Level, job: int, live: Ints, rest: Sequence[int]) -> _Level:
        """Each partial choice with each live option of ``job``, less those that cannot become better or are beaten."""
        low, high = self._reach(rest)
        change = self.power[job][live] - self.power[job][self.base[job]]
        power = (level.power[:, None] + change[None, :]).ravel()
        excess = (level.excess[:, None] + self.excess[job][live][None, :]).ravel()
        idle = np.maximum(self.C - power - high, 0)
        hopeful = np.flatnonzero((power + low <= self.C) & (excess + self.lam * idle < self.gap - self.sure))
        cost = excess[hopeful] - self.lam * power[hopeful]
        order = np.lexsort((cost, power[hopeful]))
        least = np.minimum.accumulate(np.concatenate([[math.inf], cost[order]]))
        kept = hopeful[order[cost[order] < least[:-1] - self.sure]]
        return _Level(power[kept], excess[kept], kept // len(live), kept % len(live))

    def _finished(self, level: _Level) -> int | None:
        """The best of those that are within the cap as they stand, if it is better than the incumbent."""
        idle = self.C - level.power
        gap = np.where(idle >= 0, level.excess + self.lam * idle, math.inf)
        found = int(np.argmin(gap)) if len(gap) else 0
        if not len(gap) or not gap[found] < self.gap - self.sure:
            return None
        self.gap = float(gap[found])
        return found

    def _traced(self, levels: Sequence[tuple[int, Ints, _Level]], last: int, found: int) -> list[int]:
        chosen = list(self.base)
        for job, live, level in reversed(levels[: last + 1]):
            chosen[job] = int(live[level.option[found]])
            found = int(level.before[found])
        return chosen


@dataclass(frozen=True, slots=True)
class _Level:
    """Partial choices after some jobs, all others at base: their power (S,) and excess (S,), by rising power.

    ``before`` (S,) is where each comes from in the level before, ``option`` (S,) which live option was added.
    """

    power: Ints
    excess: Floats
    before: Ints
    option: Ints

    @classmethod
    def start(cls, power: int) -> _Level:
        none = np.zeros(1, np.int64)
        return cls(np.array([power], np.int64), np.zeros(1), none, none)
