"""What a policy is expected to do with the rest of a job, and what that costs beside full power and one setting."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.accounting import best_fixed, hosted
from chase.course import merged, of_plan, of_policy, outcome
from chase.horizon import J_PER_KWH, Horizon
from chase.policy import Grid, PolicyInput, Progress, Rules, allowance, planned
from zeus_core.frontier import Frontier, OperatingPoint, Setting

# A40, ResNet-50, batch 128: limit W, seconds per epoch, mean W (Zeus NSDI'23 traces), and two slower ones.
A40 = [(300, 3739.5, 244.3), (275, 3777.3, 230.8), (250, 3804.2, 216.2), (225, 3862.4, 198.4), (200, 3992.4, 179.2)]
A40 += [(175, 4300.0, 170.0), (150, 4900.0, 155.0)]
FRONTIER = Frontier.of(OperatingPoint(Setting(power_limit_w=w), s, s * p) for w, s, p in A40)
HOUR = 3600.0
NEAR = 1e-9


def horizon(prices, *, seconds=HOUR, tail=(), spread=0.1, unit="gCO2eq", pue=1.0) -> Horizon:
    price = np.array(prices, float)
    low, high = price - spread * np.abs(price), price + spread * np.abs(price)
    return Horizon.of(np.full(len(price), seconds), price, low, high, tail=np.array(tail, float), unit=unit, pue=pue)


def asked(ahead: Horizon, *, units: float | None = 20.0, host_w: float = 0.0, **rules) -> PolicyInput:
    grid = Grid(g_per_kwh=200.0, kind="measured", efficiency_above_g=250.0, speed_below_g=150.0, reference_g=300.0)
    return PolicyInput(
        frontier=FRONTIER,
        rules=Rules(**{"name": "budget", "max_slowdown": 0.05, **rules}),
        grid=grid,
        max_power_w=300.0,
        progress=Progress(units_left=units),
        horizon=ahead,
        host_w=host_w,
    )


def plan(given_: PolicyInput):
    return of_plan(planned(given_, FRONTIER))


def come_to(course, given_: PolicyInput):
    return outcome(course, given_.horizon, FRONTIER, given_.host_w)


DAILY = [200.0 + 90.0 * math.sin(2 * math.pi * hour / 24) for hour in range(48)]
prices = st.lists(st.floats(1, 900), min_size=1, max_size=30)
horizons = st.builds(
    horizon,
    prices | st.lists(st.floats(-300, 900), min_size=1, max_size=30),
    seconds=st.sampled_from([300.0, 1800.0, HOUR]),
    tail=st.lists(st.floats(1, 900), max_size=40),
    pue=st.sampled_from([1.0, 1.4]),
)
inputs = st.builds(
    asked,
    horizons,
    units=st.none() | st.floats(0.1, 60),
    host_w=st.sampled_from([0.0, 120.0]),
    max_slowdown=st.none() | st.floats(0, 0.6),
)


class TestOfAPlan:
    @given(inputs)
    def test_the_stretches_are_the_plan(self, given_):
        """Work and cost of all stretches are the plan's, one begins where the last one ended, and settings add up."""
        made = planned(given_, FRONTIER)
        course = of_plan(made)
        if made.plan.met:
            scale = float(np.abs(made.slots.price) @ made.slots.seconds * made.levels.power_w[-1])
            assert come_to(course, given_).cost == pytest.approx(made.plan.cost, rel=NEAR, abs=NEAR * scale)
            assert course.units == pytest.approx(made.plan.work.sum(), rel=NEAR)
        edges = [0.0, *(stretch.end_s for stretch in course.stretches)]
        assert edges[:-1] == [stretch.begin_s for stretch in course.stretches]
        power_of = dict(zip(made.levels.settings, made.levels.power_w, strict=True))
        for stretch in course.stretches:
            assert math.fsum(share for _, share in stretch.parts) == pytest.approx(1)
            mixed_w = sum(share * power_of[setting] for setting, share in stretch.parts)
            assert stretch.power_w == pytest.approx(mixed_w, rel=1e-6)

    def test_a_job_that_cannot_be_in_time_goes_on_at_its_fastest(self):
        """All of the work is expected to be done, and not only what fits into the time that was left."""
        late = replace(asked(horizon(DAILY)), progress=Progress(units_left=20.0, deadline_s=HOUR))
        course = plan(late)
        assert course.seconds == pytest.approx(20 * FRONTIER.fastest.seconds_per_unit)
        assert {stretch.settings for stretch in course.stretches} == {(FRONTIER.fastest.setting,)}
        assert come_to(course, late).saved == 0

    def test_after_the_last_slot_there_is_one_stretch(self):
        """Nobody knows what comes when there: it is one, with the mean of its prices, and cheap time in it is used."""
        long = asked(horizon([200.0] * 5, tail=[100.0, 300.0]), max_slowdown=0.02)
        last = plan(long).stretches[-1]
        assert last.later
        assert (last.begin_s, last.price) == (5 * HOUR, pytest.approx(200.0))
        assert len(last.parts) > 1
        assert last.cost < last.energy_j * 200.0 / J_PER_KWH

    def test_runs_of_one_setting_are_merged(self):
        """The table has a line for each run: the same time, work, energy and cost as its slots."""
        course = plan(asked(horizon(DAILY)))
        runs = list(merged(course.stretches))
        assert len(runs) < len(course.stretches)
        assert all(a.settings != b.settings for a, b in pairwise(runs))
        for name in ("seconds", "units", "energy_j", "cost"):
            whole = math.fsum(getattr(stretch, name) for stretch in course.stretches)
            assert math.fsum(getattr(run, name) for run in runs) == pytest.approx(whole)


class TestOutcome:
    @given(inputs)
    def test_the_saving_is_what_the_definitions_say(self, given_):
        """Full power over its own time line, and the least fixed energy over the time that it takes, by the second."""
        course = plan(given_)
        found, units, seconds = come_to(course, given_), course.units, course.seconds
        full = FRONTIER.reference
        at_full_w = full.power_w + given_.host_w
        reference = at_full_w * priced_s(given_.horizon, units * full.seconds_per_unit)
        frugal = hosted(FRONTIER, given_.host_w).frugal
        least = best_fixed(hosted(FRONTIER, given_.host_w), units, seconds)
        runs_s = min(seconds, units * frugal.seconds_per_unit)
        fixed = least.energy_j / runs_s * priced_s(given_.horizon, runs_s)
        near = {"rel": 1e-6, "abs": 1e-6 * at_full_w * seconds * 900 / J_PER_KWH}
        assert found.reference == pytest.approx(reference, **near)
        assert found.fixed == pytest.approx(fixed, **near)
        assert found.saved == pytest.approx(reference - found.cost, **near)
        assert found.saved == found.efficiency + found.timing

    @given(st.lists(st.floats(20, 900), min_size=1, max_size=30))
    def test_the_range_is_that_of_the_prices(self, values):
        """If each hour came at its 10 or 90 % quantile, all of them a tenth off, so would the cost be."""
        given_ = asked(horizon(values, spread=0.1), units=0.5)
        found = come_to(plan(given_), given_)
        assert found.low <= found.cost <= found.high
        assert found.high == pytest.approx(1.1 * found.cost, rel=1e-2)
        assert found.low == pytest.approx(0.9 * found.cost, rel=1e-2)

    @given(prices, st.lists(st.floats(1, 900), max_size=40), st.floats(0.1, 60), st.floats(0, 0.5), st.floats(0, 0.5))
    def test_a_larger_budget_is_never_expected_to_cost_more(self, values, tail, units, one, other):
        """Whatever the prices, also for a job longer than anybody's forecast: the time need not be used."""
        low, high = sorted((one, other))
        costs = []
        for slowdown in (low, high):
            given_ = asked(horizon(values, tail=tail), units=units, max_slowdown=slowdown)
            costs.append(come_to(plan(given_), given_).cost)
        assert costs[1] <= costs[0] * (1 + 1e-6)

    @given(st.floats(0, 0.5), st.floats(0.1, 40))
    def test_where_all_hours_are_alike_timing_saves_nothing(self, slowdown, units):
        """A fixed setting is the optimum then."""
        given_ = asked(horizon([250.0] * 24), units=units, max_slowdown=slowdown)
        found = come_to(plan(given_), given_)
        assert found.timing == pytest.approx(0, abs=1e-6 * found.reference)

    def test_money_is_counted_beside_what_was_planned_for(self):
        """A course is priced hour by hour in the other unit, too."""
        given_ = asked(horizon([100.0, 400.0] * 12), units=4.0, max_slowdown=0.1)
        course = plan(given_)
        paid = outcome(course, horizon([0.1] * 48, seconds=HOUR / 2, unit="EUR"), FRONTIER, 0.0)
        assert paid.unit == "EUR"
        assert paid.cost == pytest.approx(course.energy_j / J_PER_KWH * 0.1)
        inverse = outcome(course, horizon([0.4, 0.1] * 12, unit="EUR"), FRONTIER, 0.0)
        assert inverse.timing < 0 < come_to(course, given_).timing


def priced_s(ahead: Horizon, seconds: float) -> float:
    """What a watt costs for so long: slot after slot, and after the last one at the mean of what may come."""
    total = 0.0
    for length, price in zip(ahead.seconds, ahead.price, strict=True):
        total += min(length, max(0.0, seconds)) * price
        seconds -= length
    if seconds > 0:
        slots = ahead.slots(ahead.total_s + 1.0)
        total += seconds * slots.price[slots.tail :].mean() * J_PER_KWH / ahead.pue
    return total * ahead.pue / J_PER_KWH


class TestOfAPolicy:
    def test_off_is_full_power(self):
        """Nothing saved and nothing lost, whatever comes."""
        given_ = asked(horizon(DAILY, tail=[50.0, 400.0]), units=60.0, name="off")
        course = of_policy(given_, FRONTIER, given_.horizon)
        assert course.seconds == pytest.approx(60 * FRONTIER.reference.seconds_per_unit)
        assert come_to(course, given_).saved == 0

    def test_static_is_one_setting_to_the_end(self):
        """What it saves is all efficiency where the best fixed setting is the same one."""
        given_ = asked(horizon(DAILY), units=10.0, name="static", max_slowdown=None)
        course = of_policy(given_, FRONTIER, given_.horizon)
        assert [run.settings for run in merged(course.stretches)] == [(FRONTIER.frugal.setting,)]
        found = come_to(course, given_)
        assert found.timing == 0
        assert found.efficiency > 0

    def test_threshold_moves_with_the_hours(self):
        """Fast where clean, frugal where dirty, and as before in between."""
        given_ = asked(horizon([100.0, 200.0, 300.0, 200.0]), units=3.5, name="threshold", max_slowdown=None, dwell_s=0)
        course = of_policy(given_, FRONTIER, given_.horizon)
        limits = [stretch.settings[0].power_limit_w for stretch in course.stretches]
        assert limits == [300, 300, 200, 200]

    def test_a_dwell_ends_within_a_slot(self):
        """A change that has to wait 600 s comes after these 600 s, and not at the next hour."""
        given_ = replace(
            asked(horizon([300.0] * 4), units=1.0, name="threshold", max_slowdown=None),
            current=FRONTIER.fastest.setting,
            current_mode="speed-first",
            since_s=300.0,
        )
        first, second = of_policy(given_, FRONTIER, given_.horizon).stretches[:2]
        assert (first.seconds, first.settings) == (300.0, (FRONTIER.fastest.setting,))
        assert second.settings == (FRONTIER.frugal.setting,)

    @given(inputs, st.sampled_from(["threshold", "chase", "static", "off"]))
    def test_all_the_work_is_done_and_no_more(self, given_, name):
        """A job of known length ends with its last unit; of another one it is what is done in the same time."""
        given_ = replace(given_, rules=replace(given_.rules, name=name))
        course = of_policy(given_, FRONTIER, given_.horizon)
        if given_.progress.units_left is None:
            assert not course.ends
            assert course.seconds == pytest.approx(allowance(given_.rules, given_.progress, FRONTIER).seconds)
        else:
            assert course.units == pytest.approx(given_.progress.units_left)
