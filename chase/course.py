"""What a policy is expected to do with the rest of a job: slot after slot, and what that costs beside other ways.

Notation, as in ``chase.accounting``, of what is to come:

    c(t)        price of a joule at t from now: the median expected, times PUE                        [unit/J]
    U, S        units done, and when the last of them is                                                   [s]
    E_0, T_0    energy, host's included, and time a unit at full power                       [J/unit], [s/unit]

    R = E_0 / T_0 * integral of c over [0, U T_0]      the same work at full power from now on, over its own time line
    F = E*(U, S) / T * integral of c over [0, T]       the same work at the best fixed setting that is done by then,
                                                       in T <= S
    D = sum over slots of e_i c_i                      what is expected to be drawn

    saved = R - D   =   efficiency + timing,      efficiency = R - F,      timing = F - D

After the last slot of a horizon nobody says what comes when, only how prices are distributed (its tail): all of that
time is one stretch, faster where it is cheaper, and counts with the mean price for what draws the same power all along.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from chase.accounting import best_fixed, hosted
from chase.horizon import J_PER_KWH, Floats, Horizon
from chase.policy import Planned, PolicyInput, allowance, choose
from zeus_core.budget import Levels
from zeus_core.frontier import Frontier, OperatingPoint, Setting

_SAME = 1e-9  # relative: what rounding leaves between two equal rates
_SHORTEST_S = 1.0  # so that a walk through time gets on

Parts = tuple[tuple[Setting, float], ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """``[begin_s, end_s)`` from now at the settings of ``parts``, each with its share of that time, fastest first.

    ``price``, ``low`` and ``high`` are of a kWh, means over that time; ``energy_j`` is what GPUs and host draw, and
    ``cost`` what that comes to at the meter. ``later`` is the time after the last slot of the horizon.
    """

    begin_s: float
    end_s: float
    parts: Parts
    units: float
    energy_j: float
    price: float
    low: float
    high: float
    cost: float
    later: bool = False

    @property
    def seconds(self) -> float:
        return self.end_s - self.begin_s

    @property
    def power_w(self) -> float:
        return self.energy_j / self.seconds

    @property
    def settings(self) -> tuple[Setting, ...]:
        return tuple(setting for setting, _ in self.parts)


@dataclass(frozen=True, slots=True)
class Course:
    """``stretches`` of which the last ends with the job, or with what is planned of one that goes on (``ends`` False).

    Their prices are those of ``horizon``.
    """

    stretches: tuple[Stretch, ...]
    horizon: Horizon
    ends: bool

    @property
    def seconds(self) -> float:
        return self.stretches[-1].end_s if self.stretches else 0.0

    @property
    def units(self) -> float:
        return math.fsum(stretch.units for stretch in self.stretches)

    @property
    def energy_j(self) -> float:
        return math.fsum(stretch.energy_j for stretch in self.stretches)


@dataclass(frozen=True, slots=True)
class Outcome:
    """D, R and F of the notation in ``unit``; ``low`` and ``high`` are D if all prices come at that quantile."""

    unit: str
    cost: float
    low: float
    high: float
    reference: float
    fixed: float

    @property
    def efficiency(self) -> float:
        return self._beyond_rounding(self.reference - self.fixed)

    @property
    def timing(self) -> float:
        return self._beyond_rounding(self.fixed - self.cost)

    @property
    def saved(self) -> float:
        return self.efficiency + self.timing

    def _beyond_rounding(self, part: float) -> float:
        return part if abs(part) > _SAME * abs(self.reference) else 0.0


# -- what is done -----------------------------------------------------------------------------------------------------


def of_plan(made: Planned) -> Course:
    """What a plan says. Where even the fastest level is late it goes on until the work is done."""
    plan, levels, horizon = made.plan, made.levels, made.horizon
    if made.allowance.ends and not plan.met:
        return _steady(levels, levels.fastest, made.allowance.work, horizon)
    rows = []
    for i, (seconds, units, energy_j) in enumerate(
        zip(plan.seconds.tolist(), plan.work.tolist(), plan.energy_j.tolist(), strict=True)
    ):
        if seconds > 0:
            parts = _parts(levels, units / seconds, free=float(made.slots.price[i]) <= 0)
            rows.append(_Row(i, seconds, parts, units, energy_j))
    return _course(rows, horizon, ends=made.allowance.ends)


def of_policy(given: PolicyInput, frontier: Frontier, horizon: Horizon) -> Course:
    """What a policy that looks at no more than now does while the intensities of ``horizon`` come true."""
    allowed = allowance(given.rules, given.progress, frontier)
    units, left_s = (allowed.work, math.inf) if allowed.ends else (math.inf, allowed.seconds)
    walk = _Walk(given, frontier, units, left_s)
    for i, (seconds, price) in enumerate(zip(horizon.seconds.tolist(), horizon.price.tolist(), strict=True)):
        walk.through(i, seconds, price)
    if walk.goes_on:
        walk.after(len(horizon.price), (_later(horizon) * J_PER_KWH / horizon.pue).tolist())
    return _course(walk.rows, horizon, ends=allowed.ends)


@dataclass(frozen=True, slots=True)
class _Row:
    """So long in slot number ``slot`` of the horizon, or of its tail."""

    slot: int
    seconds: float
    parts: Parts
    units: float
    energy_j: float


@dataclass(slots=True)
class _Walk:
    """Decision after decision; of ``units`` and ``left_s``, what is left, one is without end."""

    given: PolicyInput
    frontier: Frontier
    units: float
    left_s: float
    rows: list[_Row] = field(default_factory=list)

    @property
    def goes_on(self) -> bool:
        return self.units > 0 and self.left_s > 0

    def through(self, slot: int, seconds: float, g_per_kwh: float) -> None:
        """One slot; a setting that is only kept for its dwell is looked at again when that is over."""
        while seconds > 0 and self.goes_on:
            point, wait_s = self._chosen(g_per_kwh)
            lasts_s = min(seconds, wait_s)
            self._run(slot, point, lasts_s)
            seconds -= lasts_s

    def after(self, slot: int, prices: Sequence[float]) -> None:
        """The rest, in which each of ``prices`` is as likely."""
        points = [self._chosen(price)[0] for price in prices]
        rate = math.fsum(point.rate for point in points) / len(points)
        each_s = min(self.left_s, self.units / rate) / len(points)
        for i, point in enumerate(points):
            self._run(slot + i, point, each_s)

    def _chosen(self, g_per_kwh: float) -> tuple[OperatingPoint, float]:
        """The point, and after how long it is looked at again in any case."""
        given, wait_s = self.given, math.inf
        choice = choose(replace(given, grid=replace(given.grid, g_per_kwh=g_per_kwh)))
        if choice.code == "dwell":
            wait_s = max(given.rules.dwell_s - given.since_s, _SHORTEST_S)
        elif (choice.setting, choice.mode) != (given.current, given.current_mode):
            self.given = replace(given, current=choice.setting, current_mode=choice.mode, since_s=0.0)
        found = self.frontier.at(choice.setting) if choice.setting is not None else None
        return found or self.frontier.reference, wait_s

    def _run(self, slot: int, point: OperatingPoint, seconds: float) -> None:
        """No longer than there is work or time; rounding leaves nothing of either."""
        needed_s = min(self.units * point.seconds_per_unit, self.left_s)
        done = needed_s <= seconds * (1 + _SAME)
        lasts_s = needed_s if done else seconds
        units, energy_j = lasts_s * point.rate, lasts_s * (point.power_w + self.given.host_w)
        self.rows.append(_Row(slot, lasts_s, ((point.setting, 1.0),), units, energy_j))
        self.units, self.left_s = (0.0, 0.0) if done else (self.units - units, self.left_s - lasts_s)
        self.given = replace(self.given, since_s=self.given.since_s + lasts_s)


def _steady(levels: Levels, level: int, work: float, horizon: Horizon) -> Course:
    rate, power_w = float(levels.rate[level]), float(levels.power_w[level])
    total_s, parts = work / rate, ((levels.settings[level], 1.0),)
    rows = [
        _Row(i, seconds, parts, seconds * rate, seconds * power_w)
        for i, seconds in enumerate(horizon.slots(total_s).seconds.tolist())
    ]
    return _course(rows, horizon, ends=True)


def _parts(levels: Levels, rate: float, *, free: bool) -> Parts:
    """The level of a rate, or the two that mix to it: neighbours, but where a joule costs nothing the two ends."""
    rates, settings = levels.rate.tolist(), levels.settings
    above = next((k for k, r in enumerate(rates) if r >= rate * (1 - _SAME)), levels.fastest)
    if above == 0 or rates[above] <= rate * (1 + _SAME):
        return ((settings[above], 1.0),)
    slow, fast = (0, levels.fastest) if free else (above - 1, above)
    share = (rate - rates[slow]) / (rates[fast] - rates[slow])
    return ((settings[fast], share), (settings[slow], 1.0 - share))


def _course(rows: Sequence[_Row], horizon: Horizon, *, ends: bool) -> Course:
    count, per_j = len(horizon.price), horizon.pue / J_PER_KWH
    columns = list(zip(horizon.price.tolist(), horizon.low.tolist(), horizon.high.tolist(), strict=True))
    at_s, stretches = 0.0, []
    for row in (row for row in rows if row.slot < count):
        price, low, high = columns[row.slot]
        end_s, cost = at_s + row.seconds, row.energy_j * price * per_j
        stretches.append(Stretch(at_s, end_s, row.parts, row.units, row.energy_j, price, low, high, cost))
        at_s = end_s
    later = [row for row in rows if row.slot >= count]
    if later:
        stretches.append(_after(later, count, _later(horizon), at_s, horizon))
    return Course(tuple(stretches), horizon, ends)


def _after(rows: Sequence[_Row], count: int, per_j: Floats, at_s: float, horizon: Horizon) -> Stretch:
    """All that comes after the last slot, in one."""
    total_s = math.fsum(row.seconds for row in rows)
    shares: dict[Setting, float] = {}
    for row in rows:
        for setting, share in row.parts:
            shares[setting] = shares.get(setting, 0.0) + share * row.seconds / total_s
    cost = math.fsum(row.energy_j * float(per_j[row.slot - count]) for row in rows)
    energy_j = math.fsum(row.energy_j for row in rows)
    price = float(per_j.mean()) * J_PER_KWH / horizon.pue
    parts = tuple(sorted(shares.items(), key=lambda part: -(part[0].power_limit_w or 0.0)))
    units = math.fsum(row.units for row in rows)
    return Stretch(at_s, at_s + total_s, parts, units, energy_j, price, price, price, cost, later=True)


def _later(horizon: Horizon) -> Floats:
    """What a joule costs after the last slot, each as likely."""
    slots = horizon.slots(horizon.total_s + 1.0)
    return slots.price[slots.tail :]


# -- what it costs ----------------------------------------------------------------------------------------------------


def outcome(course: Course, horizon: Horizon, frontier: Frontier, host_w: float) -> Outcome:
    """Priced by ``horizon``, which need not be the one that the course goes by: the other of grams and money."""
    units, seconds = course.units, course.seconds
    full_s = units * frontier.reference.seconds_per_unit
    full_w = frontier.reference.power_w + host_w
    fixed = best_fixed(hosted(frontier, host_w), units, seconds)
    at_full, at_end = _integral(horizon, horizon.price, [full_s, fixed.seconds])
    cost, low, high = (_cost(course, horizon, column) for column in ("price", "low", "high"))
    return Outcome(horizon.unit, cost, low, high, full_w * at_full, fixed.power_w * at_end)


def _cost(course: Course, horizon: Horizon, column: str) -> float:
    stretches = course.stretches
    if horizon is course.horizon:
        per_j = horizon.pue / J_PER_KWH
        return math.fsum(s.cost if s.later else s.energy_j * float(getattr(s, column)) * per_j for s in stretches)
    ends = _integral(horizon, getattr(horizon, column), [0.0, *(s.end_s for s in stretches)])
    pairs = zip(stretches, ends, ends[1:], strict=False)
    return math.fsum(stretch.power_w * (after - before) for stretch, before, after in pairs)


def _integral(horizon: Horizon, price: Floats, at_s: Sequence[float]) -> list[float]:
    """What a watt has cost by each time, from now on."""
    edges = np.concatenate([[0.0], np.cumsum(horizon.seconds)])
    total = np.concatenate([[0.0], np.cumsum(horizon.seconds * price)]) * horizon.pue / J_PER_KWH
    at = np.array(at_s)
    beyond = np.maximum(at - edges[-1], 0.0) * float(_later(horizon).mean())
    found: list[float] = (np.interp(at, edges, total) + beyond).tolist()
    return found


def merged(stretches: Sequence[Stretch]) -> Iterator[Stretch]:
    """Runs of the same settings as one stretch each."""
    run: list[Stretch] = []
    for stretch in stretches:
        if run and (stretch.settings != run[0].settings or stretch.later):
            yield _joined(run)
            run = []
        run.append(stretch)
    if run:
        yield _joined(run)


def _joined(run: Sequence[Stretch]) -> Stretch:
    if len(run) == 1:
        return run[0]
    seconds = run[-1].end_s - run[0].begin_s

    def mean(values: Iterator[float]) -> float:
        return math.fsum(value * s.seconds for value, s in zip(values, run, strict=True)) / seconds

    shares = (mean(s.parts[k][1] for s in run) for k in range(len(run[0].parts)))
    return Stretch(
        run[0].begin_s,
        run[-1].end_s,
        tuple(zip(run[0].settings, shares, strict=True)),
        math.fsum(s.units for s in run),
        math.fsum(s.energy_j for s in run),
        mean(s.price for s in run),
        mean(s.low for s in run),
        mean(s.high for s in run),
        math.fsum(s.cost for s in run),
    )
