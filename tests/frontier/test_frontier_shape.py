"""Pareto set, hull, switch prices and reference of a frontier."""

from __future__ import annotations

import itertools
import random

import pytest
from frontier_strategies import CLOSE_SECONDS, LIMITS, SECONDS, points
from hypothesis import given
from hypothesis import strategies as st
from power_sweeps import SWEEPS, Sweep

from zeus_core.frontier import Frontier, OperatingPoint, Setting, lower_hull, pareto_front

ROUNDING = 1e-9


def at(limit_w: float, seconds: float, joules: float) -> OperatingPoint:
    return OperatingPoint(Setting(power_limit_w=limit_w), seconds, joules)


KNEE = (at(300, 1.0, 300), at(250, 1.05, 260), at(200, 1.2, 230), at(150, 1.6, 240), at(225, 1.15, 258))


def test_hull_of_a_textbook_sweep():
    """A point over the chord and points past the least energy are left out; the rest is there, fastest first."""
    frontier = Frontier.of(KNEE)
    assert [p.setting.power_limit_w for p in frontier.hull] == [300, 250, 200]
    assert [p.setting.power_limit_w for p in frontier.pareto] == [300, 250, 225, 200]
    assert [p.setting.power_limit_w for p in frontier.points] == [300, 250, 225, 200, 150]


def test_switch_prices_of_a_textbook_sweep():
    """Forty joules saved for a twentieth of a second are 800 W, thirty for 0.15 s are 200 W."""
    assert Frontier.of(KNEE).switch_prices() == pytest.approx((800.0, 200.0))


def test_rate_and_power_of_a_point():
    """Rate is the reciprocal of time, power is energy over time."""
    point = at(300, 0.5, 100)
    assert (point.rate, point.power_w) == (2.0, 200.0)


@given(points())
def test_pareto_set_is_what_no_other_point_beats(drawn):
    """A point is outside the Pareto set exactly when one inside is no worse on both axes."""
    front = Frontier.of(drawn).pareto
    for a, b in itertools.pairwise(front):
        assert a.seconds_per_unit < b.seconds_per_unit
        assert a.joules_per_unit > b.joules_per_unit
    for point in drawn:
        assert point in front or any(
            p.seconds_per_unit <= point.seconds_per_unit and p.joules_per_unit <= point.joules_per_unit for p in front
        )


@given(points())
def test_hull_spans_from_the_fastest_to_the_most_frugal(drawn):
    """The hull is part of the Pareto set and holds its least time and its least energy."""
    frontier = Frontier.of(drawn)
    assert set(frontier.hull) <= set(frontier.pareto)
    assert frontier.fastest.seconds_per_unit == min(p.seconds_per_unit for p in drawn)
    assert frontier.frugal.joules_per_unit == min(p.joules_per_unit for p in drawn)
    assert (frontier.fastest, frontier.frugal) == (frontier.hull[0], frontier.hull[-1])
    assert (frontier.fastest, frontier.frugal) == (frontier.pareto[0], frontier.pareto[-1])


@given(points(seconds=SECONDS))
def test_no_point_lies_below_the_hull_in_rate_and_power(drawn):
    """Mixing two hull neighbours over time costs at most the power of any measured point at the same rate."""
    frontier = Frontier.of(drawn)
    for fast, slow in itertools.pairwise(frontier.hull):
        for point in drawn:
            if slow.rate < point.rate < fast.rate:
                share = (point.rate - slow.rate) / (fast.rate - slow.rate)
                mixed_w = share * fast.power_w + (1 - share) * slow.power_w
                assert mixed_w <= point.power_w * (1 + ROUNDING) + ROUNDING * fast.power_w


@given(points())
def test_switch_prices_are_positive_and_fall_strictly(drawn):
    """Convexity, to the last bit, even for times one unit in the last place apart."""
    frontier = Frontier.of(drawn)
    prices = frontier.switch_prices()
    assert len(prices) == len(frontier.hull) - 1
    assert all(price > 0 for price in prices)
    assert all(before > after for before, after in itertools.pairwise(prices))


@given(points(), st.randoms(use_true_random=False))
def test_order_of_points_does_not_matter(drawn, rng: random.Random):
    """Any order of the same points gives the same frontier, ties included."""
    shuffled = drawn[:]
    rng.shuffle(shuffled)
    assert Frontier.of(shuffled) == Frontier.of(drawn)
    assert lower_hull(shuffled) == lower_hull(drawn)
    assert pareto_front(shuffled) == pareto_front(drawn)


@given(points(), st.integers(-6, 6), st.integers(-6, 6))
def test_scaling_the_units_scales_the_prices(drawn, work: int, energy: int):
    """Another unit of work changes no price; joules in another unit change all in proportion."""
    per_work, per_joule = 2.0**work, 2.0**energy
    scaled = [
        OperatingPoint(p.setting, p.seconds_per_unit * per_work, p.joules_per_unit * per_work * per_joule)
        for p in drawn
    ]
    before, after = Frontier.of(drawn), Frontier.of(scaled)
    assert [p.setting for p in after.hull] == [p.setting for p in before.hull]
    assert after.switch_prices() == tuple(price * per_joule for price in before.switch_prices())


@given(points())
def test_hull_of_a_hull_is_itself(drawn):
    """Taking the hull twice takes nothing more away."""
    once = lower_hull(drawn)
    assert lower_hull(once) == once


def test_of_equal_points_the_lowest_limit_is_kept():
    """Two settings that cost the same are one point of the hull: the one with the lower limit."""
    assert lower_hull([at(300, 1.0, 200), at(250, 1.0, 200)]) == (at(250, 1.0, 200),)


@given(points(settings=st.builds(Setting, power_limit_w=LIMITS)))
def test_reference_is_the_highest_limit_unless_told(drawn):
    """The highest power limit is the reference, however its point came out; another one can be named."""
    assert Frontier.of(drawn).reference.setting.power_limit_w == max(p.setting.power_limit_w for p in drawn)
    named = drawn[0].setting
    assert Frontier.of(drawn, named).reference == drawn[0]


@given(points(seconds=CLOSE_SECONDS))
def test_slowdown_is_against_the_reference(drawn):
    """Zero at the reference, and (T - T_ref) / T_ref elsewhere, whatever is chosen in between (rule G24)."""
    frontier = Frontier.of(drawn)
    assert frontier.slowdown(frontier.reference) == 0.0
    for point in drawn:
        want = point.seconds_per_unit / frontier.reference.seconds_per_unit - 1
        assert frontier.slowdown(point) == pytest.approx(want)


def test_at_finds_a_point_by_its_setting():
    """The point of a measured setting, and None for any other."""
    frontier = Frontier.of(KNEE)
    assert frontier.at(Setting(power_limit_w=250.0)) == KNEE[1]
    assert frontier.at(Setting(power_limit_w=251.0)) is None
    assert frontier.at(Setting(power_limit_w=250.0, batch_size=8)) is None


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.name)
def test_real_sweeps_have_a_convex_hull(sweep: Sweep):
    """Each measured sweep, noise and all, gives a hull of falling switch prices within its range of limits."""
    frontier = sweep.frontier
    prices = frontier.switch_prices()
    assert list(prices) == sorted(set(prices), reverse=True)
    assert frontier.reference.setting.power_limit_w == sweep.rows[0][0]
    assert frontier.frugal.joules_per_unit == min(joules for _, _, joules in sweep.rows)
