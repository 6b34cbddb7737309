"""Doing a given amount of work by a given time at the least cost, when a joule costs more at one time than at another.

Notation (numpy arrays are float64):

    k           level, 0 the slowest; K of them
    r_k, P_k    rate and power of level k, both rising                                          [units/s], [W]
    L_k         slope (P_k - P_(k-1)) / (r_k - r_(k-1)), rising too: the levels are a convex hull      [J/unit]
    i           slot of time; N of them
    d_i, c_i    how long it is, and what a joule costs in it, of any sign                       [s], [money/J]
    W           work to be done by the end of the last slot                                            [units]
    mu          what the last unit of work costs                                                  [money/unit]

    minimise  sum_i c_i e_i   over (w_i, e_i) in d_i * conv{(r_k, P_k)}   with  sum_i w_i = W         (w_i units, e_i J)

A job that goes on after the last slot does at least W, and more where more costs nothing.

Each slot runs at level 0 at least. Raising slot i from level k - 1 to k does d_i (r_k - r_(k-1)) more work at c_i L_k a
unit. So each slot offers its steps at rising prices, and the cheapest steps of all slots together are the optimum: a
continuous knapsack (Dantzig 1957), exact, with no multiplier to search for. mu is the price of the step that is taken
in part; by complementary slackness the choice in each slot is argmin_k c_i P_k - mu r_k, and at most one slot is split,
between two neighbouring levels. Where a joule costs nothing or less the lower hull is no bound and slower no cheaper:
there the one step goes from the slowest level to the fastest, at (P_K - P_0) / (r_K - r_0).

The end is chosen as well. In the slot in which the job ends there is a level (0, 0) below the others, from which the
hull goes straight to the level of least P_k / r_k, and later slots cost nothing. For each mu weak duality bounds the
cost of ending in slot n from below by

    mu W + sum_(i < n) v_i + min(0, v_n),       v_i = d_i min_k (c_i P_k - mu r_k)

which rules out all ends but a few by the mu of one that was worked out.

No slot goes faster than the fastest level, so whatever is done in the first one, the rest can still be done in time:
a plan that is made anew with what is known by then never breaks the budget, however wrong the prices were.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from zeus_core.frontier import OperatingPoint, Setting

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ROUNDING = 1e-12  # relative: what it leaves undone is done


@dataclass(frozen=True, eq=False)
class Levels:
    """What may be chosen, slowest first: ``settings`` with ``rate`` (K,) and ``power_w`` (K,), the host's included.

    ``runs_from`` is the first level that does work: 1 where the job may be paused, else 0.
    """

    settings: tuple[Setting, ...]
    rate: Floats
    power_w: Floats
    runs_from: int = 0

    @classmethod
    def of(cls, points: Iterable[OperatingPoint], *, host_w: float = 0.0, paused_w: float | None = None) -> Levels:
        """The hull of (rate, power) with the host's power in it, and with a pause that draws ``paused_w``.

        It goes on below the point of least energy per unit: less power for dirty hours, whose work is done in clean
        ones, is worth some more energy. Raises ``ValueError`` when there are no points, or for a power that is negative
        or not finite.
        """
        for name, value in (("host_w", host_w), ("paused_w", paused_w or 0.0)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be finite and at least 0, not {value!r}")
        rows = [(point.rate, point.power_w + host_w, point.setting) for point in points]
        if not rows:
            raise ValueError("there is no operating point to plan with")
        if paused_w is not None:
            rows.append((0.0, paused_w, Setting(paused=True)))
        rate, power_w, settings = zip(*_lower_hull(rows), strict=True)
        return cls(settings, np.array(rate), np.array(power_w), int(settings[0].paused))

    @property
    def fastest(self) -> int:
        return len(self.settings) - 1

    @cached_property
    def ends_from(self) -> int:
        """The level of least energy per unit: where nothing needs to be drawn instead, no slower one is worth it."""
        return self.runs_from + int(np.argmin(self.power_w[self.runs_from :] / self.rate[self.runs_from :]))

    @cached_property
    def steps(self) -> tuple[Floats, Floats]:
        """L_k and r_k - r_(k-1), each (K - 1,)."""
        return _steps(self.rate, self.power_w)

    @cached_property
    def last_steps(self) -> tuple[Floats, Floats]:
        """The same in the slot in which the job ends: from (0, 0) up over the levels from ``ends_from`` on."""
        rate, power_w = self.rate[self.ends_from :], self.power_w[self.ends_from :]
        return _steps(np.array([0.0, *rate]), np.array([0.0, *power_w]))


def _lower_hull(rows: Iterable[tuple[float, float, Setting]]) -> list[tuple[float, float, Setting]]:
    """Of (rate, power, setting), slowest first: power and slope both rise (Andrew 1979)."""
    hull: list[tuple[float, float, Setting]] = []
    for row in sorted(rows, key=lambda row: row[:2]):
        if hull and row[0] == hull[-1][0]:
            continue
        while hull and hull[-1][1] >= row[1]:
            hull.pop()
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], row):
            hull.pop()
        hull.append(row)
    return hull


def _slope(slow: tuple[float, float, Setting], fast: tuple[float, float, Setting]) -> float:
    return (fast[1] - slow[1]) / (fast[0] - slow[0])


def _steps(rate: Floats, power_w: Floats) -> tuple[Floats, Floats]:
    work = np.diff(rate)
    return np.diff(power_w) / work, work


@dataclass(frozen=True, eq=False)
class Slots:
    """The time ahead from now on: ``seconds`` d (N,) and ``price`` c (N,).

    The slots from ``tail`` on stand for a time of which no more is expected than how its prices are distributed: they
    come in no order, and a job that ends among them has used the same share of each. ``tail`` N means that there are
    none.
    """

    seconds: Floats
    price: Floats
    tail: int

    @classmethod
    def of(cls, seconds: Iterable[float], price: Iterable[float], *, tail: int | None = None) -> Slots:
        """Raises ``ValueError`` for what is no price or no time."""
        d, c = np.array(tuple(seconds), float), np.array(tuple(price), float)
        slots = cls(d, c, len(d) if tail is None else tail)
        if len(d) != len(c) or not 1 <= slots.tail <= len(d):
            raise ValueError("each slot has one length and one price, and at least one comes before the tail")
        if not (np.isfinite(d).all() and (d > 0).all()):
            raise ValueError(f"the length of a slot must be finite and more than 0 s, not {d.tolist()}")
        if not np.isfinite(c).all():
            raise ValueError(f"a price must be finite, not {c.tolist()}")
        return slots


@dataclass(frozen=True, eq=False)
class Plan:
    """What to do. ``level`` now for ``first_s`` seconds, then ``then_level`` for the rest of slot 0.

    ``mu`` is what one more unit of work would cost and ``cost`` what all of it does, in the prices' money. ``end`` is
    the slot in which the job ends, None for after the last one. Where even the fastest level does not do the work in
    time ``met`` is False, and all is at the fastest. Of each slot, (N,): ``seconds`` for which the job runs in it,
    ``work`` in units and ``energy_j``.
    """

    mu: float
    cost: float
    level: int
    first_s: float
    then_level: int
    end: int | None
    met: bool
    seconds: Floats
    _share: Floats = field(repr=False)
    _problem: _Problem = field(repr=False)

    @cached_property
    def work(self) -> Floats:
        return self._problem.sums(self.seconds, self._share)[0]

    @cached_property
    def energy_j(self) -> Floats:
        return self._problem.sums(self.seconds, self._share)[1]


def solve(levels: Levels, slots: Slots, work: float, *, may_end: bool = True) -> Plan:
    """The optimum of the module's notation. ``may_end`` False is for a job that goes on after the last slot.

    Raises ``ValueError`` for work that is not finite or below 0.
    """
    if not (math.isfinite(work) and work >= 0):
        raise ValueError(f"work must be finite and at least 0, not {work!r}")
    if may_end:
        return _Problem(levels, _fitted(levels, slots, work), work).solved(may_end=True)
    at_no_cost = float(slots.seconds @ np.where(slots.price > 0, levels.rate[0], levels.rate[-1]))
    return _Problem(levels, slots, max(work, at_no_cost)).solved(may_end=False)


def _fitted(levels: Levels, slots: Slots, work: float) -> Slots:
    """With as much of the tail as is worth using, since a job need not last for all of it.

    A second more of it changes the cost by v(mu) = mean_j min_k (c_j P_k - mu r_k), and the cost is convex in how long
    it is. So where the job ends within it v(mu) = 0: mu is the least that a unit costs in the tail, and the rest of the
    work is done there at the rate that goes with it.
    """
    near, far = slots.seconds[: slots.tail], slots.seconds[slots.tail :]
    if not len(far):
        return slots
    total = float(far.sum())
    mu, rate = _at_least(levels, far / total, slots.price[slots.tail :])
    if rate == 0:
        return slots
    best = np.argmin(levels.power_w[:, None] * slots.price[: slots.tail] - (mu * levels.rate)[:, None], axis=0)
    length = (work - float(near @ levels.rate[best])) / rate
    if length >= total:
        return slots
    if length <= 0:
        return Slots(near, slots.price[: slots.tail], slots.tail)
    return replace(slots, seconds=np.concatenate([near, far * (length / total)]))


def _at_least(levels: Levels, share: Floats, price: Floats) -> tuple[float, float]:
    """The least that a unit costs where prices have these shares of the time, and its rate (Dinkelbach 1967)."""
    rate, mu = float(levels.rate[levels.ends_from]), math.inf
    better = float(share @ price) * float(levels.power_w[levels.ends_from]) / rate
    while better < mu:
        mu = better
        best = np.argmin(levels.power_w[:, None] * price - (mu * levels.rate)[:, None], axis=0)
        cost, done = float((share * price) @ levels.power_w[best]), float(share @ levels.rate[best])
        if done <= 0:
            return mu, rate if cost >= 0 else 0.0
        if cost / done < mu:
            better, rate = cost / done, done
    return mu, rate


@dataclass(frozen=True, eq=False)
class _Taken:
    """What is taken if the job ends in slot ``end``: the first ``count`` of ``order``, and ``part`` of the next."""

    cost: float
    mu: float
    end: int | None
    order: Ints
    count: int
    part: float


class _Problem:
    """The steps of all slots, sorted once; those of the slot in which the job ends are sorted in for each end tried.

    Steps are numbered row by row: number k N - N + i raises slot i from level k - 1 to level k. After these come those
    of each slot if the job ends in it, which begin from nothing.
    """

    def __init__(self, levels: Levels, slots: Slots, work: float) -> None:
        self.levels, self.slots, self.work = levels, slots, work
        self.count = len(slots.seconds)
        self.slope, self.gain = _offers(slots, *levels.steps)
        self.price = self.slope * np.tile(slots.price, len(levels.rate) - 1)
        self.normal = len(self.price)
        self.order = _merged_order(self.price, slots.price)
        self.before_s = _from_zero(slots.seconds)
        self.before_cost = _from_zero(slots.seconds * slots.price) * levels.power_w[0]

    def _with_endings(self) -> None:
        """Number the steps of a job that ends in a slot, too. Most plans need none of them."""
        if len(self.price) > self.normal:
            return
        slope, gain = _offers(self.slots, *self.levels.last_steps)
        price = slope * np.tile(self.slots.price, len(slope) // self.count)
        self.slope, self.gain = np.concatenate([self.slope, slope]), np.concatenate([self.gain, gain])
        self.price = np.concatenate([self.price, price])

    # -- which end ----------------------------------------------------------------------------------------------------

    def solved(self, *, may_end: bool) -> Plan:
        through = self._taken(None)
        best = self._best(through) if may_end else through
        return self._flat_out() if best is None else self._plan(best)

    def _best(self, best: _Taken | None) -> _Taken | None:
        """Over all ends, none first. An end is worked out only while its bound allows it to be better."""
        first, last = self._possible()
        if first >= last:
            return best
        bounds = np.full(last - first, -math.inf) if best is None else self._bounds(best.mu, first, last)
        while True:
            end = len(bounds) - 1 - int(np.argmin(bounds[::-1]))  # of equals the latest
            enough = math.inf if best is None else best.cost - _ROUNDING * abs(best.cost)
            if not bounds[end] < enough:
                return best
            bounds[end] = math.inf
            tried = self._taken(first + end)
            if tried is not None:
                bounds = np.maximum(bounds, self._bounds(tried.mu, first, last))
                best = tried if best is None or tried.cost < best.cost else best

    def _possible(self) -> tuple[int, int]:
        """From the first slot by whose end the work can be done, to the first by whose start it cannot but be done."""
        tail, rate = self.slots.tail, self.levels.rate
        first = int(np.searchsorted(self.before_s[1 : tail + 1], self.work / (rate[-1] * (1 + _ROUNDING))))
        last = tail if rate[0] == 0 else int(np.searchsorted(self.before_s[:tail], self.work / rate[0], "right"))
        return first, last

    def _bounds(self, mu: float, first: int, last: int) -> Floats:
        """(last - first,) below which no plan costs that ends in one of these slots."""
        levels, price, seconds = self.levels, self.slots.price[:last], self.slots.seconds[:last]
        costs = levels.power_w[:, None] * price - (mu * levels.rate)[:, None]
        before = _from_zero(seconds * costs.min(axis=0))[first:-1]
        within = seconds[first:] * np.minimum(costs[levels.ends_from :, first:].min(axis=0), 0.0)
        bounds: Floats = mu * self.work + before + within
        return bounds

    def _taken(self, end: int | None) -> _Taken | None:
        """The cheapest steps that do the work; None where there are too few, or the slowest level does too much."""
        order = self.order if end is None else self._with_end(end)
        price, gain = self.price[order], self.gain[order]
        last = self.count if end is None else end
        need = self.work - float(self.before_s[last] * self.levels.rate[0])
        done = np.cumsum(gain)
        most, slack = (float(done[-1]) if len(done) else 0.0), _ROUNDING * self.work
        if not -slack <= need <= most + slack:
            return None
        need = min(max(need, 0.0), most)
        count = int(np.searchsorted(done, need))
        cost = float(self.before_cost[last] + (price[:count] * gain[:count]).sum())
        if count == len(order):
            return _Taken(cost, float(price[-1]) if count else 0.0, end, order, count, 0.0)
        rest = need - (float(done[count - 1]) if count else 0.0)
        mu, step = float(price[count]), float(gain[count])
        return _Taken(cost + mu * rest, mu, end, order, count, rest / step if step > 0 else 0.0)

    def _with_end(self, end: int) -> Ints:
        """The steps of the slots before ``end``, and those of a job that ends in it."""
        self._with_endings()
        kept = self.order[self.order % self.count < end]
        ending = np.arange(self.normal + end, len(self.price), self.count)
        ending = ending[np.argsort(self.price[ending], kind="stable")]
        places = np.searchsorted(self.price[kept], self.price[ending], "right")
        order: Ints = np.insert(kept, places, ending)
        return order

    # -- what it comes to ---------------------------------------------------------------------------------------------

    def _plan(self, taken: _Taken) -> Plan:
        share = np.zeros(self.normal if taken.end is None else len(self.price))
        share[taken.order[: taken.count]] = 1.0
        if taken.part:
            share[taken.order[taken.count]] = taken.part
        seconds = self.slots.seconds.copy()
        if taken.end is not None:
            seconds[taken.end] *= share[self.normal + taken.end]
            seconds[taken.end + 1 :] = 0.0
        level, part, then = self._now(share, ends=taken.end == 0)
        first_s = part * float(self.slots.seconds[0])
        return Plan(taken.mu, taken.cost, level, first_s, then, taken.end, True, seconds, share, self)

    def _now(self, share: Floats, *, ends: bool) -> tuple[int, float, int]:
        """What to run at in slot 0 first, for what share of it, and then."""
        taken = share[self.normal :: self.count] if ends else share[: self.normal : self.count]
        below, lowest = (self.levels.ends_from - 1, self.levels.ends_from) if ends else (0, 0)
        if self.slots.price[0] <= 0 and len(taken):
            top, part = self.levels.fastest, float(taken[0])
            return (top, part, lowest if part < 1 else top) if part > 0 else (lowest, 1.0, lowest)
        full = int(np.count_nonzero(taken >= 1.0))
        part = float(taken[full]) if full < len(taken) else 0.0
        then = max(below + full, lowest)
        return (below + full + 1, part, then) if part > 0 else (then, 1.0, then)

    def _flat_out(self) -> Plan:
        seconds, share, fastest = self.slots.seconds, np.ones(self.normal), self.levels.fastest
        cost = float((seconds * self.slots.price).sum() * self.levels.power_w[fastest])
        return Plan(math.inf, cost, fastest, float(seconds[0]), fastest, None, False, seconds, share, self)

    def sums(self, seconds: Floats, share: Floats) -> tuple[Floats, Floats]:
        """Work and energy of each slot, (N,)."""
        gain, slope = self.gain[: len(share)], self.slope[: len(share)]
        work = (share * gain).reshape(-1, self.count)
        energy_j = (share * gain * slope).reshape(-1, self.count)
        through = np.where(share[self.normal :].reshape(-1, self.count).any(axis=0), 0.0, seconds)
        return (
            through * self.levels.rate[0] + work.sum(axis=0),
            through * self.levels.power_w[0] + energy_j.sum(axis=0),
        )


def _offers(slots: Slots, slope: Floats, work: Floats) -> tuple[Floats, Floats]:
    """Joules a unit, and units, of each step, row by row."""
    slopes, gain = np.repeat(slope, len(slots.price)), np.multiply.outer(work, slots.seconds)
    if len(work) > 1 and slots.price.min() <= 0:
        free = np.flatnonzero(slots.price <= 0)
        slopes[free] = slope @ work / work.sum()
        gain[0, free], gain[1:, free] = work.sum() * slots.seconds[free], 0.0
    return slopes, gain.ravel()


def _merged_order(price_of: Floats, price: Floats) -> Ints:
    """Ascending, of equals the earlier slot first. Rows that ascend already are merged: quicker than sorting."""
    rising = np.argsort(price, kind="stable")
    rows = price_of.reshape(-1, len(price))
    row, column = np.divmod(np.argsort(rows[:, rising].ravel(), kind="stable"), len(price))
    order: Ints = row * len(price) + rising[column]
    return order


def _from_zero(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])
