"""Doing a given amount of work by a given time at the least cost, when a joule costs more at one time than at another.

Notation (numpy arrays are float64):

    k           level, 0 the slowest; K of them
    r_k, P_k    rate and power of level k, both rising                                  [units/s], [W]
    L_k         slope (P_k - P_(k-1)) / (r_k - r_(k-1)), rising: they lie on a convex hull      [J/unit]
    i           piece of time: a slot, or what of a slot is expected at one price; N of them
    d_i, c_i    how long it is, and what a joule costs in it, of any sign                   [s], [money/J]
    W           work to be done by the end of the last slot                                 [units]
    mu          what the last unit of work costs                                        [money/unit]

    minimise   sum_i c_i p_i      over (q_i, p_i) in d_i * conv{(r_k, P_k)}      with   sum_i q_i >= W

Every piece runs at level 0 at least. Raising piece i from level k - 1 to k does d_i (r_k - r_(k-1)) more work at c_i L_k
a unit, so each piece offers its steps at rising prices and the cheapest steps of all together are the optimum: a
continuous knapsack (Dantzig 1957), exact, with no multiplier to search for. mu is the price of the step that is taken
in part, and by complementary slackness the choice in each piece is argmin_k c_i P_k - mu r_k, with at most one piece
split between two neighbouring levels. Where a joule costs nothing or less, slower is never cheaper and the lower hull
no bound: there the one step goes from the slowest level straight to the fastest, at (P_K - P_0) / (r_K - r_0).

The end is chosen as well: in the slot in which the job ends a level (0, 0) lies below the others, and the slots after
it cost nothing. For each mu, weak duality bounds the cost F_n of ending in slot n from below by

    mu W + sum_(i before n) v_i + sum_(i in n) min(0, v_i),      v_i = d_i min_k (c_i P_k - mu r_k)

so that all ends but a few are ruled out by the mu of one that was worked out. An uncertain price is given as several
pieces of one slot, each as long as it is likely: the choice is then made when the price is known, and W is met in the
mean. Since no piece goes faster than the fastest level, what is left of the work can always be done by the end.
"""

# ruff: noqa: N806  W and L are what the mathematics calls them
from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from zeus_core.frontier import OperatingPoint, Setting, lower_hull

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ENOUGH = 1e-12  # of the work: what rounding leaves undone is done


@dataclass(frozen=True, eq=False)
class Levels:
    """What may be chosen, slowest first: ``settings`` with their ``rate`` (K,) and ``power_w`` (K,), host included.

    ``runs_from`` is the first level that does work: 1 where the job may be paused, else 0.
    """

    settings: tuple[Setting, ...]
    rate: Floats
    power_w: Floats
    runs_from: int = 0

    @classmethod
    def of(cls, points: Iterable[OperatingPoint], *, host_w: float = 0.0, paused_w: float | None = None) -> Levels:
        """The hull of (rate, power) with the host's power in it, and below it a pause that draws ``paused_w``.

        A host that draws whenever the job runs makes slow levels dearer: the hull then ends further up. Levels that no
        mixture with a pause needs are left out. Raises ``ValueError`` when there are no points, or for a power that is
        negative or not finite.
        """
        for name, value in (("host_w", host_w), ("paused_w", paused_w or 0.0)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be finite and at least 0, not {value!r}")
        with_host = [replace(p, joules_per_unit=p.joules_per_unit + host_w * p.seconds_per_unit) for p in points]
        hull = lower_hull(with_host)[::-1]
        if not hull:
            raise ValueError("there is no operating point to plan with")
        rate, power_w = [point.rate for point in hull], [point.power_w for point in hull]
        settings = [point.setting for point in hull]
        if paused_w is None:
            return cls(tuple(settings), np.array(rate), np.array(power_w))
        first = min(range(len(hull)), key=lambda k: (power_w[k] - paused_w) / rate[k])
        return cls(
            (Setting(paused=True), *settings[first:]),
            np.array([0.0, *rate[first:]]),
            np.array([paused_w, *power_w[first:]]),
            1,
        )

    @cached_property
    def steps(self) -> tuple[Floats, Floats]:
        """L_k (K - 1,) and r_k - r_(k-1) (K - 1,), for prices above 0."""
        return _steps(self.rate, self.power_w)

    @cached_property
    def ending(self) -> tuple[Floats, Floats]:
        """The same in the slot in which the job ends: from (0, 0) up, over the levels that do work, (K - runs_from,)."""
        rate, power_w = self.rate[self.runs_from :], self.power_w[self.runs_from :]
        return _steps(np.concatenate([[0.0], rate]), np.concatenate([[0.0], power_w]))

    @property
    def fastest(self) -> float:
        return float(self.rate[-1])

    def at(self, mu: float, price: float) -> int:
        """argmin_k price * P_k - mu * r_k; of equals the fastest."""
        cost = price * self.power_w - mu * self.rate
        return len(cost) - 1 - int(np.argmin(cost[::-1]))


def _steps(rate: Floats, power_w: Floats) -> tuple[Floats, Floats]:
    work = np.diff(rate)
    return np.diff(power_w) / work, work


@dataclass(frozen=True, eq=False)
class Pieces:
    """The time ahead: ``seconds`` d (N,) and ``price`` c (N,), and the ``slot`` (N,) each piece is of, 0, 1, ... rising.

    Slot 0 begins now and has one piece. The pieces from ``tail`` on come after the last slot, in no order: a job that
    ends among them ends nowhere in particular. ``tail`` N means that there are none.
    """

    seconds: Floats
    price: Floats
    slot: Ints
    tail: int

    @classmethod
    def of(
        cls,
        seconds: Iterable[float],
        price: Iterable[float],
        *,
        slot: Iterable[int] | None = None,
        tail: int | None = None,
    ) -> Pieces:
        """Without ``slot`` each piece is a slot of its own. Raises ``ValueError`` for what is no price or no time."""
        d, c = np.array(list(seconds), float), np.array(list(price), float)
        slots = np.arange(len(d)) if slot is None else np.array(list(slot), np.int64)
        pieces = cls(d, c, slots, len(d) if tail is None else tail)
        pieces.check()
        return pieces

    def check(self) -> None:
        """Raises ``ValueError``."""
        if not len(self.seconds) == len(self.price) == len(self.slot) or len(self.seconds) == 0:
            raise ValueError("each piece of time has one length, one price and one slot, and there is at least one")
        if not (np.isfinite(self.seconds).all() and (self.seconds >= 0).all()):
            raise ValueError(f"a piece of time must be finite and at least 0 s, not {self.seconds!r}")
        if not np.isfinite(self.price).all():
            raise ValueError(f"a price must be finite, not {self.price!r}")
        steps = np.diff(self.slot[: self.tail])
        if self.tail < 1 or self.slot[0] != 0 or not np.isin(steps, (0, 1)).all():
            raise ValueError("slots count from 0 without a gap, and the tail comes after them")


@dataclass(frozen=True, eq=False)
class Plan:
    """What to do in each piece: its ``rate`` (N,) and ``power_w`` (N,), means over it, 0 once the job has ended.

    ``seconds`` (N,) is what of each piece the job still runs for. ``mu`` is what one more unit of work would cost, and
    ``cost`` that of all, in the prices' money. ``level`` is what to run at now, ``first_s`` how long, and then
    ``then_level`` for the rest of slot 0. ``end`` is the slot in which the job ends, None for after the last one. Where
    even the fastest level does not do the work in time ``met`` is False, and then all is at the fastest.
    """

    mu: float
    rate: Floats
    power_w: Floats
    seconds: Floats
    cost: float
    level: int
    first_s: float
    then_level: int
    end: int | None
    met: bool = True


def solve(levels: Levels, pieces: Pieces, work: float, *, may_end: bool = True) -> Plan:
    """The optimum of the module's notation. ``may_end`` False is for a job that goes on after the last piece.

    Raises ``ValueError`` for work that is not finite or below 0.
    """
    if not (math.isfinite(work) and work >= 0):
        raise ValueError(f"work must be finite and at least 0, not {work!r}")
    return _Problem(levels, _fitted(levels, pieces, work) if may_end else pieces, work).solved(may_end=may_end)


def _fitted(levels: Levels, pieces: Pieces, work: float) -> Pieces:
    """Without so much of the tail as is not needed, even if all is at the slowest level."""
    slowest, tail = float(levels.rate[0]), pieces.tail
    tail_work = slowest * float(pieces.seconds[tail:].sum())
    left = max(0.0, work - slowest * float(pieces.seconds[:tail].sum()))
    if tail_work <= left or tail == len(pieces.seconds):
        return pieces
    seconds = pieces.seconds.copy()
    seconds[tail:] *= left / tail_work
    return replace(pieces, seconds=seconds)


@dataclass(frozen=True, eq=False)
class _Taken:
    """The steps that are taken if the job ends in slot ``end``: the first ``count`` of ``order`` and ``part`` of one."""

    cost: float
    mu: float
    end: int | None
    order: Ints
    count: int
    part: float


class _Problem:
    """The steps of all pieces, sorted once; what else is needed for the end that is tried is sorted in.

    Steps are numbered row by row: (row, piece), row k - 1 from level k - 1 to level k. After them come those of each
    piece in the slot in which the job ends, row 0 there from nothing to the first level that does work.
    """

    def __init__(self, levels: Levels, pieces: Pieces, work: float) -> None:
        self.levels, self.pieces, self.work = levels, pieces, work
        self.first = np.searchsorted(pieces.slot[: pieces.tail], np.arange(pieces.slot[pieces.tail - 1] + 2))
        self.price_of, self.work_of = _offers(pieces, *levels.steps)
        self.end_price, self.end_work = _offers(pieces, *levels.ending)
        self.order = _merged_order(self.price_of, pieces.price)
        self.piece = self.order % len(pieces.seconds)
        self.before = _from_zero(pieces.seconds)
        self.before_cost = _from_zero(pieces.seconds * pieces.price)

    def solved(self, *, may_end: bool) -> Plan:
        through = self._taken(None)
        best = self._best(through) if may_end else through
        if best is not None:
            return self._plan(best)
        return self._flat_out() if may_end else self._level_only()

    def _best(self, best: _Taken | None) -> _Taken | None:
        """Over all ends, beginning with none; an end is worked out only while its bound allows it to be better."""
        possible = self._possible()
        bounds = np.where(possible, -math.inf, math.inf)
        mu = best.mu if best is not None else None
        while True:
            if mu is not None:
                bounds = np.maximum(bounds, self._bounds(mu))
            end = int(len(bounds) - 1 - np.argmin(bounds[::-1]))
            least = bounds[end]
            if least == math.inf or (best is not None and least >= best.cost - _ENOUGH * abs(best.cost)):
                return best
            bounds[end] = math.inf
            tried = self._taken(end)
            if tried is not None:
                mu = tried.mu
                best = tried if best is None or tried.cost < best.cost else best

    def _possible(self) -> NDArray[np.bool_]:
        """(T,) whether the work can be done by the end of the slot, and is not done before it."""
        return (self._through(self.first[1:], -1) >= self.work) & (self._through(self.first[:-1], 0) < self.work)

    def _through(self, piece: Ints, level: int) -> Floats:
        done: Floats = self.before[piece] * self.levels.rate[level] * (1 + _ENOUGH)
        return done

    def _bounds(self, mu: float) -> Floats:
        """(T,) below which no plan costs that ends in the slot."""
        tail, price = self.pieces.tail, self.pieces.price[: self.pieces.tail]
        value = np.min(self.levels.power_w[:, None] * price - mu * self.levels.rate[:, None], axis=0)
        running = np.min(
            self.levels.power_w[self.levels.runs_from :, None] * price
            - mu * self.levels.rate[self.levels.runs_from :, None],
            axis=0,
        )
        seconds = self.pieces.seconds[:tail]
        all_before = _from_zero(seconds * value)[self.first[:-1]]
        within = np.add.reduceat(seconds * np.minimum(running, 0.0), self.first[:-1])
        bound: Floats = mu * self.work + all_before + within
        return bound

    def _taken(self, end: int | None) -> _Taken | None:
        """The cheapest steps that do the work, None where there are none or the slowest level does too much."""
        last = len(self.pieces.seconds) if end is None else int(self.first[end])
        order = self.order if end is None else self._sorted_in(end)
        price, gain = self._price(order), self._gain(order)
        done = np.cumsum(gain)
        need = self.work - float(self.before[last] * self.levels.rate[0])
        most = float(done[-1]) if len(done) else 0.0
        slack = _ENOUGH * self.work
        if need < -slack or need > most + slack:
            return None
        need = min(max(need, 0.0), most)
        count = int(np.searchsorted(done, need))
        before = float(done[count - 1]) if count else 0.0
        part = (need - before) / float(gain[count]) if count < len(gain) and gain[count] > 0 else 0.0
        cost = float(self.before_cost[last] * self.levels.power_w[0] + (price[:count] * gain[:count]).sum())
        mu = float(price[min(count, len(price) - 1)]) if len(price) else 0.0
        return _Taken(
            cost + mu * part * (float(gain[count]) if count < len(gain) else 0.0), mu, end, order, count, part
        )

    def _sorted_in(self, end: int) -> Ints:
        """The steps before slot ``end``, and those of a job that ends in it."""
        first, last = int(self.first[end]), int(self.first[end + 1])
        rows = np.arange(len(self.end_price))[:, None] * len(self.pieces.seconds)
        ending = self.price_of.size + (rows + np.arange(first, last)).ravel()
        ending = ending[np.argsort(self._price(ending), kind="stable")]
        kept = self.order[self.piece < first]
        merged: Ints = np.insert(kept, np.searchsorted(self._price(kept), self._price(ending), "right"), ending)
        return merged

    @cached_property
    def _all_prices(self) -> Floats:
        return np.concatenate([self.price_of.ravel(), self.end_price.ravel()])

    @cached_property
    def _all_gains(self) -> Floats:
        return np.concatenate([self.work_of.ravel(), self.end_work.ravel()])

    def _price(self, order: Ints) -> Floats:
        found: Floats = self._all_prices[order]
        return found

    def _gain(self, order: Ints) -> Floats:
        found: Floats = self._all_gains[order]
        return found

    # -- what it comes to ---------------------------------------------------------------------------------------------

    def _plan(self, taken: _Taken) -> Plan:
        pieces, levels = self.pieces, self.levels
        share = np.zeros(len(self._all_prices))
        share[taken.order[: taken.count]] = 1.0
        if taken.count < len(taken.order):
            share[taken.order[taken.count]] = taken.part
        running = np.zeros(len(pieces.seconds))
        last = len(running) if taken.end is None else int(self.first[taken.end])
        running[:last] = pieces.seconds[:last]
        steps, ending = np.split(share, [self.price_of.size])
        steps, ending = steps.reshape(self.price_of.shape), ending.reshape(self.end_price.shape)
        work = running * levels.rate[0] + (steps * self.work_of).sum(axis=0)
        joules = running * levels.power_w[0] + (steps * self.work_of * _slopes(pieces, *levels.steps)).sum(axis=0)
        work += (ending * self.end_work).sum(axis=0)
        joules += (ending * self.end_work * _slopes(pieces, *levels.ending)).sum(axis=0)
        if taken.end is not None:
            running += ending[0] * pieces.seconds
        length = np.maximum(pieces.seconds, 1e-300)
        now = _now(ending[:, 0], levels.runs_from) if taken.end == 0 else _now(np.array([1.0, *steps[:, 0]]), 0)
        level, part, then = now if pieces.price[0] > 0 else _at_a_gain(now, len(levels.rate) - 1)
        return Plan(
            mu=taken.mu,
            rate=work / length,
            power_w=joules / length,
            seconds=running,
            cost=taken.cost,
            level=level,
            first_s=part * float(pieces.seconds[0]),
            then_level=then,
            end=taken.end,
        )

    def _one_level(self, level: int, *, met: bool) -> Plan:
        pieces, levels = self.pieces, self.levels
        cost = float(pieces.seconds @ pieces.price * levels.power_w[level])
        rate, power_w = (np.full(len(pieces.seconds), column[level]) for column in (levels.rate, levels.power_w))
        mu = math.inf if level else -math.inf
        return Plan(mu, rate, power_w, pieces.seconds, cost, level, float(pieces.seconds[0]), level, None, met)

    def _flat_out(self) -> Plan:
        return self._one_level(len(self.levels.rate) - 1, met=False)

    def _level_only(self) -> Plan:
        too_little = self.work > float(self.before[-1] * self.levels.rate[0])
        return self._flat_out() if too_little else self._one_level(0, met=True)


def _offers(pieces: Pieces, slope: Floats, work: Floats) -> tuple[Floats, Floats]:
    """(rows, N): the price of a unit of each step, and its units."""
    gain = work[:, None] * pieces.seconds
    free = pieces.price <= 0
    if free.any() and len(work):
        gain[0, free], gain[1:, free] = work.sum() * pieces.seconds[free], 0.0
    return _slopes(pieces, slope, work) * pieces.price, gain


def _merged_order(price_of: Floats, price: Floats) -> Ints:
    """Ascending; of equals the earlier piece first. Rows that ascend already are merged, not sorted."""
    rising = np.argsort(price, kind="stable")
    order = np.argsort(price_of[:, rising].ravel(), kind="stable")
    row, column = np.divmod(order, len(price))
    merged: Ints = row * len(price) + rising[column]
    return merged


def _slopes(pieces: Pieces, slope: Floats, work: Floats) -> Floats:
    """(rows, N), J/unit: of each step, and of the one step where a joule costs nothing or less."""
    slopes = np.repeat(slope[:, None], len(pieces.price), axis=1)
    if len(work):
        slopes[0, pieces.price <= 0] = slope @ work / work.sum()
    return slopes


def _now(shares: Floats, lowest: int) -> tuple[int, float, int]:
    """From the shares of a piece's levels above nothing: the level to begin with, for what share, and the next."""
    full = int(np.count_nonzero(shares >= 1.0))
    part = float(shares[full]) if full < len(shares) else 0.0
    if full == 0:
        return lowest, part, lowest
    level = lowest + full - 1
    return (level + 1, part, level) if part > 0 else (level, 1.0, level)


def _at_a_gain(now: tuple[int, float, int], fastest: int) -> tuple[int, float, int]:
    """The one step there leads to the fastest level."""
    level, part, then = now
    return (
        (level, part, then)
        if level == then == 0 and part == 1.0
        else (fastest, part, min(then, 0) if part < 1 else fastest)
    )


def _from_zero(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])
