"""The solver of the budget against scipy's HiGHS on random instances: the same optimum, to 1e-6.

The program is that of the module's notation, written out: seconds at each level in each slot, for every slot in which
the job could end. It knows nothing of steps, slopes or multipliers.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from zeus_core.budget import Levels, Plan, Slots, solve
from zeus_core.frontier import OperatingPoint, Setting

NEAR = 1e-6
COSTS = st.integers(0, 4).map(float) | st.floats(1e-3, 4)
PRICES = st.integers(-2, 4).map(float) | st.floats(1e-3, 4) | st.floats(-2, -1e-3)
SECONDS = st.just(1.0) | st.floats(0.01, 5)
SHARES = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1)


@st.composite
def operating_points(draw: st.DrawFn) -> list[OperatingPoint]:
    """Rates and powers in tenths: ties in power and in slope are frequent, and so are points above the hull."""
    drawn = draw(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 60)), min_size=1, max_size=6, unique_by=_first))
    return [OperatingPoint(Setting(power_limit_w=float(r)), 10 / r, p / r) for r, p in drawn]


def _first(drawn: tuple[int, int]) -> int:
    return drawn[0]


@st.composite
def times_ahead(draw: st.DrawFn, prices: st.SearchStrategy[float] = PRICES, longest_tail: int = 2) -> Slots:
    n = draw(st.integers(1, 6))
    total = n + draw(st.integers(0, longest_tail))
    seconds, price = (draw(st.lists(each, min_size=total, max_size=total)) for each in (SECONDS, prices))
    return Slots.of(seconds, price, tail=n)


WATTS = st.just(0.0) | st.floats(0.1, 3)
LEVELS = st.builds(
    lambda points, host_w, paused_w: Levels.of(points, host_w=host_w, paused_w=paused_w),
    operating_points(),
    WATTS,
    st.none() | WATTS,
)


class Program:
    """Rates and powers that may be mixed in ``slots``, and which of them a job may run at in its last slot."""

    def __init__(self, rate: np.ndarray, power_w: np.ndarray, slots: Slots, ends_at: np.ndarray) -> None:
        self.rate, self.power_w, self.slots, self.ends_at = rate, power_w, slots, ends_at

    @classmethod
    def of(cls, levels: Levels, slots: Slots) -> Program:
        """In its last slot a job draws nothing in vain: no level that a faster one beats in energy per unit of work."""
        per_unit = [p / r if r > 0 else math.inf for r, p in zip(levels.rate, levels.power_w, strict=True)]
        return cls(levels.rate, levels.power_w, slots, np.arange(len(per_unit)) >= np.argmin(per_unit))

    def least(self, work: float, end: int | None, *, or_more: bool = False) -> float:
        """What ``work`` costs if the job ends in slot ``end``, None for after the last one; inf if it cannot.

        ``or_more`` is for a job that goes on: more work than was asked for is no loss.
        """
        n, k = len(self.slots.seconds), len(self.rate)
        last = n if end is None else end
        most = np.where(np.arange(n) > last, 0.0, self.slots.seconds)
        each = np.kron(np.eye(n), np.ones(k))  # seconds of a slot, over its levels
        done = np.append(np.tile(self.rate, n), 0.0)[None]
        allowed = np.tile(self.ends_at, n) | (np.repeat(np.arange(n), k) != last)
        # One more variable: what of the tail is left out, the same share of each of its slots.
        later = np.arange(n) >= self.slots.tail
        each = np.hstack([each, np.where(later, most, 0.0)[:, None]])
        found = linprog(
            np.append(np.outer(self.slots.price, self.power_w).ravel(), 0.0),
            A_ub=np.vstack([each[last:], -done]),
            b_ub=[*most[last:], -work if or_more else 0.0],
            A_eq=np.vstack([each[:last], done[: not or_more]]),
            b_eq=[*most[:last], *([] if or_more else [work])],
            bounds=[*((0.0, None if free else 0.0) for free in allowed), (0.0, 0.0 if or_more else 1.0)],
            method="highs",
        )
        return float(found.fun) if found.status == 0 else math.inf

    def least_of_all(self, work: float) -> float:
        return min(self.least(work, end) for end in (None, *range(self.slots.tail)))

    def near(self, cost: float) -> object:
        """To a millionth of all that could be spent."""
        return pytest.approx(cost, abs=NEAR * float(np.abs(self.slots.price) @ self.slots.seconds * self.power_w.max()))


def all_that_can_be_done(levels: Levels, slots: Slots) -> float:
    return float(levels.rate[-1] * slots.seconds.sum())


def as_planned(plan: Plan, slots: Slots) -> Slots:
    """With so much of the tail as the plan uses."""
    n = len(plan.seconds)
    if plan.end is not None or n == slots.tail:
        return Slots(slots.seconds[: slots.tail], slots.price[: slots.tail], slots.tail)
    return Slots(plan.seconds, slots.price, n)


def spent(plan: Plan, slots: Slots) -> float:
    return float(plan.energy_j @ slots.price[: len(plan.energy_j)])


@given(LEVELS, times_ahead(), SHARES)
def test_a_job_that_may_end_costs_what_the_program_says(levels, slots, share):
    """The least over every slot in which it could end, and every length of the tail: prices of any sign, or a pause."""
    work = share * all_that_can_be_done(levels, slots)
    plan = solve(levels, slots, work)
    program = Program.of(levels, slots)
    assert plan.met
    assert plan.cost == program.near(program.least_of_all(work))


@given(LEVELS, times_ahead(), SHARES)
def test_a_job_that_goes_on_costs_what_the_program_says(levels, slots, share):
    """Its work is a least: where more is free or paid for, more is done."""
    work = share * all_that_can_be_done(levels, slots)
    plan, program = solve(levels, slots, work, may_end=False), Program.of(levels, slots)
    assert plan.met
    assert plan.cost == program.near(program.least(work, None, or_more=True))
    assert plan.work.sum() >= work * (1 - NEAR)


@given(operating_points(), WATTS, st.none() | WATTS, times_ahead(COSTS, longest_tail=0), SHARES)
def test_no_setting_that_was_left_out_would_have_helped(points, host_w, paused_w, slots, share):
    """The levels of the hull cost as little as all that was measured, and a pause, in any mixture."""
    levels = Levels.of(points, host_w=host_w, paused_w=paused_w)
    work = share * all_that_can_be_done(levels, slots)
    rows = [(p.rate, p.power_w + host_w) for p in points] + ([] if paused_w is None else [(0.0, paused_w)])
    rate, power_w = np.array(rows).T
    program = Program(rate, power_w, slots, rate > 0)
    assert solve(levels, slots, work).cost == program.near(program.least_of_all(work))


@given(LEVELS, times_ahead(), SHARES, st.booleans())
def test_a_plan_is_what_it_says(levels, slots, share, may_end):
    """Work and energy of its slots are mixtures of levels, do the work, and cost what was said."""
    work = share * all_that_can_be_done(levels, slots)
    plan = solve(levels, slots, work, may_end=may_end)
    n = len(plan.seconds)
    assert spent(plan, slots) == Program.of(levels, slots).near(plan.cost)
    assert (plan.work.sum() == pytest.approx(work)) if may_end else (plan.work.sum() >= work * (1 - NEAR))
    assert (plan.seconds <= slots.seconds[:n] * (1 + NEAR)).all()
    for done, joules, seconds in zip(plan.work, plan.energy_j, plan.seconds, strict=True):
        lowest, most = np.interp(done, levels.rate * seconds, levels.power_w * seconds), levels.power_w[-1] * seconds
        assert levels.rate[0] * seconds <= done * (1 + NEAR) + NEAR
        assert done <= levels.rate[-1] * seconds * (1 + NEAR) + NEAR
        assert lowest - NEAR <= joules <= most + NEAR


@given(LEVELS, times_ahead(), SHARES, st.booleans())
def test_what_to_run_at_now_is_what_was_planned_for_the_first_slot(levels, slots, share, may_end):
    """Its level, for so many seconds, and then the next do the work and draw the energy planned for it."""
    plan = solve(levels, slots, share * all_that_can_be_done(levels, slots), may_end=may_end)
    assert 0 <= plan.level < len(levels.rate)
    assert 0 <= plan.then_level < len(levels.rate)
    first_s, then_s = min(plan.first_s, plan.seconds[0]), max(0.0, plan.seconds[0] - plan.first_s)
    for column, planned in ((levels.rate, plan.work[0]), (levels.power_w, plan.energy_j[0])):
        assert column[plan.level] * first_s + column[plan.then_level] * then_s == pytest.approx(planned, abs=NEAR)


@given(LEVELS, times_ahead(), SHARES, SHARES)
def test_mu_is_what_a_unit_of_work_costs(levels, slots, share, other):
    """For the end that was chosen the least cost is convex in the work, and mu its slope."""
    work, instead = (part * all_that_can_be_done(levels, slots) for part in (share, other))
    plan = solve(levels, slots, work)
    program = Program.of(levels, as_planned(plan, slots))
    cost = program.least(instead, plan.end)
    if math.isfinite(cost):
        scale = float(np.abs(slots.price) @ slots.seconds * levels.power_w[-1])
        assert cost >= plan.cost + plan.mu * (instead - work) - 2 * NEAR * scale


@given(LEVELS, times_ahead(), SHARES)
def test_at_most_one_slot_is_split(levels, slots, share):
    """All others run at one level: the settings change no more often than the prices do."""
    plan = solve(levels, slots, share * all_that_can_be_done(levels, slots))
    speeds = plan.work[plan.seconds > 0] / plan.seconds[plan.seconds > 0]
    at_a_level = np.isclose(speeds[:, None], levels.rate, rtol=NEAR, atol=NEAR).any(axis=1)
    assert np.count_nonzero(~at_a_level) <= 1


@given(LEVELS, times_ahead(), st.floats(1.001, 3), st.booleans())
def test_too_much_work_is_done_as_fast_as_can_be(levels, slots, share, may_end):
    """And the plan says that it will not be met."""
    plan = solve(levels, slots, share * all_that_can_be_done(levels, slots), may_end=may_end)
    assert not plan.met
    assert levels.rate[plan.level] == levels.rate[-1]
    assert plan.work.sum() == pytest.approx(all_that_can_be_done(levels, slots))


def test_nothing_to_be_done_costs_nothing():
    """A job without work left has ended, and is not late."""
    levels = Levels.of([OperatingPoint(Setting(power_limit_w=float(w)), 1 / w, 2.0) for w in (1, 2)])
    for price in (1.0, 0.0, -1.0):
        plan = solve(levels, Slots.of([10.0, 10.0], [price, 1.0]), 0.0)
        assert (plan.cost, plan.met, plan.end, plan.seconds.sum(), plan.work.sum()) == (0.0, True, 0, 0.0, 0.0)


def test_dirty_hours_are_worth_some_energy():
    """Below the level of least energy per unit a slower one still saves carbon while the grid is dirty."""
    measured = ((300.0, 2.0), (100.0, 1.0), (60.0, 0.5))  # W, units/s: 150, 100 and 120 J a unit
    levels = Levels.of(OperatingPoint(Setting(power_limit_w=w), 1 / rate, w / rate) for w, rate in measured)
    plan = solve(levels, Slots.of([1.0, 1.0, 1.0], [1.0, 10.0, 1.0]), 4.5)
    assert plan.work.tolist() == [2.0, 0.5, 2.0]
    assert plan.cost == 300 + 10 * 60 + 300 < 300 + 10 * 100 + 200
