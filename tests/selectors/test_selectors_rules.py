"""What holds for every frontier and every price."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from frontier_strategies import SECONDS, points
from hypothesis import assume, given
from hypothesis import strategies as st

from zeus_core.frontier import Frontier, OperatingPoint, Setting
from zeus_core.selectors import Energy, MaxSlowdown, PricedEnergy, Time, ZeusCost

PRICES = st.just(0.0) | st.floats(-1e3, 1e3)
VALUES = st.just(0.0) | st.floats(0, 1e6)
ETAS = st.floats(0, 1)
POWERS = st.floats(10, 1e4)
INTENSITIES = st.floats(0, 1500)
ROUNDING = 1e-9


def by_eq6(p: OperatingPoint, eta: float, intensity: float, max_power_w: float, max_intensity: float) -> float:
    """Chase's Eq 6 as it is printed: [eta * AvgPower * CI + (1 - eta) * MaxPower * MaxCI] / Throughput."""
    return (eta * p.power_w * intensity + (1 - eta) * max_power_w * max_intensity) / p.rate


@given(points(), PRICES, VALUES)
def test_only_hull_points_are_chosen(drawn, price, value):
    """Whatever energy and time are worth, zero or negative prices included."""
    assert PricedEnergy(price, value).choose(drawn) in Frontier.of(drawn).hull


@given(points(), ETAS, POWERS)
def test_zeus_cost_chooses_hull_points(drawn, eta, max_power_w):
    """Zeus's cost is a price like any other."""
    assert ZeusCost(eta, max_power_w).choose(drawn) in Frontier.of(drawn).hull


@given(points(), st.floats(0, 1e3), VALUES)
def test_the_choice_costs_least_of_all_points(drawn, price, value):
    """The walk along the hull ends at the argmin over all points, where energy is not given away."""
    rule = PricedEnergy(price, value)
    least = min(map(rule.cost, drawn))
    assert rule.cost(rule.choose(drawn)) <= least * (1 + ROUNDING)


@given(points(), PRICES, PRICES, VALUES)
def test_the_rate_never_rises_with_the_price_of_energy(drawn, a, b, value):
    """Dearer energy never speeds a job up, to the last bit."""
    cheap, dear = sorted((a, b))
    fast = PricedEnergy(cheap, value).choose(drawn)
    slow = PricedEnergy(dear, value).choose(drawn)
    assert slow.seconds_per_unit >= fast.seconds_per_unit


@given(points(), PRICES, VALUES, VALUES)
def test_the_rate_never_falls_with_the_value_of_time(drawn, price, a, b):
    """Dearer time never slows a job down."""
    cheap, dear = sorted((a, b))
    slow = PricedEnergy(price, cheap).choose(drawn)
    fast = PricedEnergy(price, dear).choose(drawn)
    assert slow.seconds_per_unit >= fast.seconds_per_unit


@given(points(), ETAS, ETAS, POWERS)
def test_the_rate_never_rises_with_eta(drawn, a, b, max_power_w):
    """Eta moves a job from time to energy, in one direction."""
    low, high = sorted((a, b))
    fast = ZeusCost(low, max_power_w).choose(drawn)
    slow = ZeusCost(high, max_power_w).choose(drawn)
    assert slow.seconds_per_unit >= fast.seconds_per_unit


@given(points(), ETAS, POWERS, st.floats(1, 1500))
def test_eq6_at_its_reference_is_zeus_eq7(drawn, eta, max_power_w, reference):
    """A grid that stays at the reference intensity gives Zeus's own choice and cost."""
    zeus = ZeusCost(eta, max_power_w)
    chase = zeus.priced(reference / reference)
    assert chase.choose(drawn) == zeus.choose(drawn)
    assert [chase.cost(p) for p in drawn] == [zeus.cost(p) for p in drawn]


@given(points(), ETAS, POWERS, INTENSITIES, st.floats(1, 1500))
def test_the_choice_minimises_eq6_as_printed(drawn, eta, max_power_w, intensity, reference):
    """Divided by the reference or not, in powers and rates or in joules and seconds: the same argmin."""
    best = ZeusCost(eta, max_power_w).priced(intensity / reference).choose(drawn)
    costs = {p.setting: by_eq6(p, eta, intensity, max_power_w, reference) for p in drawn}
    assert costs[best.setting] <= min(costs.values()) * (1 + ROUNDING)


@given(points(), st.floats(0.01, 0.99), POWERS, st.floats(0.05, 20))
def test_scaling_the_reference_is_another_eta(drawn, eta, max_power_w, k):
    """MaxCI times k acts as eta / (eta + (1 - eta) * k), which is why it is fixed for a job."""
    other = eta / (eta + (1 - eta) * k)
    scaled = ZeusCost(eta, max_power_w).priced(1 / k)
    best = scaled.choose(drawn)
    retuned = ZeusCost(other, max_power_w)
    assert retuned.cost(best) <= retuned.cost(retuned.choose(drawn)) * (1 + ROUNDING)


@given(points(seconds=SECONDS), st.floats(1e-3, 1e6))
def test_choices_switch_at_the_closed_form_threshold(drawn, value):
    """Just below value / s_ij the faster neighbour is chosen or a faster one, just above the slower or a slower one."""
    frontier = Frontier.of(drawn)
    for (fast, slow), switch in zip(itertools.pairwise(frontier.hull), frontier.switch_prices(), strict=True):
        threshold = value / switch
        assume(math.isfinite(threshold))
        below = PricedEnergy(threshold * (1 - ROUNDING), value).choose(drawn)
        above = PricedEnergy(threshold * (1 + ROUNDING), value).choose(drawn)
        assert below.seconds_per_unit <= fast.seconds_per_unit
        assert above.seconds_per_unit >= slow.seconds_per_unit


@given(points(), PRICES, VALUES, st.randoms(use_true_random=False))
def test_order_of_points_does_not_matter(drawn, price, value, rng: random.Random):
    """Each selector chooses the same point from the same points in any order."""
    shuffled = drawn[:]
    rng.shuffle(shuffled)
    reference = max(drawn, key=lambda p: p.rate)
    for selector in (PricedEnergy(price, value), ZeusCost(0.5, 300), Energy(), Time(), MaxSlowdown(1.2, reference)):
        assert selector.choose(shuffled) == selector.choose(drawn)


# Scaling by a power of two is exact as long as nothing leaves the normal numbers.
@given(
    points(),
    st.just(0.0) | st.floats(1e-200, 5) | st.floats(-5, -1e-200),
    st.just(0.0) | st.floats(1e-200, 1e3),
    st.integers(-8, 8),
)
def test_scaling_all_money_changes_nothing(drawn, price, value, exponent):
    """Cents or dollars: only the ratio of the price of energy to that of time counts."""
    k = 2.0**exponent
    assert PricedEnergy(price * k, value * k).choose(drawn) == PricedEnergy(price, value).choose(drawn)


@given(points(), st.floats(-1e3, 0, exclude_max=True), VALUES)
def test_energy_given_away_buys_speed(drawn, price, value):
    """Paid for drawing power, a job runs at full speed; it does not waste what it is paid for."""
    assert PricedEnergy(price, value).choose(drawn) == Frontier.of(drawn).fastest


@given(points(), st.floats(1e-3, 1e3))
def test_free_energy_buys_speed(drawn, value):
    """At a price of zero only time counts."""
    assert PricedEnergy(0.0, value).choose(drawn) == Frontier.of(drawn).fastest == Time().choose(drawn)


@given(points())
def test_where_nothing_has_a_price_no_energy_is_wasted(drawn):
    """On equal cost the point of less energy wins."""
    assert PricedEnergy(0.0, 0.0).choose(drawn) == Energy().choose(drawn)


@given(points(), POWERS)
def test_the_ends_of_eta_are_time_and_energy(drawn, max_power_w):
    """Eta 0 is the fastest point, eta 1 the most frugal."""
    frontier = Frontier.of(drawn)
    assert ZeusCost(0.0, max_power_w).choose(drawn) == Time().choose(drawn) == frontier.fastest
    assert ZeusCost(1.0, max_power_w).choose(drawn) == Energy().choose(drawn) == frontier.frugal


@given(points(), st.floats(1, 5))
def test_max_slowdown_keeps_its_bound_and_saves_what_it_can(drawn, factor):
    """No admissible point takes less energy, and none chosen is slower than the bound."""
    reference = Frontier.of(drawn).reference
    point = MaxSlowdown(factor, reference).choose(drawn)
    bound_s = factor * reference.seconds_per_unit
    assert point.seconds_per_unit <= bound_s
    admissible = [p.joules_per_unit for p in drawn if p.seconds_per_unit <= bound_s]
    assert point.joules_per_unit == min(admissible)


@given(points(), st.floats(1, 1.5))
def test_a_slowdown_taken_again_and_again_stays_the_same(drawn, factor):
    """Deciding from the points left by earlier decisions never adds up: the bound is the reference's (rule G24)."""
    rule = MaxSlowdown(factor, Frontier.of(drawn).reference)
    once = rule.choose(drawn)
    slower = [p for p in drawn if p.seconds_per_unit >= once.seconds_per_unit]
    assert rule.choose(slower) == once


def test_max_slowdown_takes_the_fastest_where_nothing_is_fast_enough():
    """A bound that cannot be kept costs as little time as can be."""
    slow = OperatingPoint(Setting(power_limit_w=100.0), 3.0, 100.0)
    slower = OperatingPoint(Setting(power_limit_w=50.0), 4.0, 90.0)
    reference = OperatingPoint(Setting(power_limit_w=300.0), 1.0, 300.0)
    assert MaxSlowdown(1.1, reference).choose([slower, slow]) == slow


def test_a_slowdown_may_wait_for_no_waste():
    """A wide bound does not go past the least energy, though lower limits would be admissible."""
    sweep = [(300, 1.0, 300.0), (200, 1.2, 250.0), (100, 2.0, 280.0)]
    drawn = [OperatingPoint(Setting(power_limit_w=float(w)), s, j) for w, s, j in sweep]
    assert MaxSlowdown(3.0, drawn[0]).choose(drawn) == drawn[1]


def test_costs_are_what_the_formulas_say():
    """One point, by hand: 200 J and 2 s."""
    point = OperatingPoint(Setting(power_limit_w=100.0), 2.0, 200.0)
    assert PricedEnergy(-0.5, 3.0).cost(point) == -94.0
    assert ZeusCost(0.25, 300.0).cost(point) == 0.25 * 200 + 0.75 * 300 * 2
    assert ZeusCost(0.25, 300.0).priced(2.0).cost(point) == 2 * 0.25 * 200 + 0.75 * 300 * 2
    assert (Energy().cost(point), Time().cost(point)) == (200.0, 2.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PricedEnergy(math.nan, 1.0), "price of energy"),
        (lambda: PricedEnergy(math.inf, 1.0), "price of energy"),
        (lambda: PricedEnergy(1.0, -1.0), "value of time"),
        (lambda: PricedEnergy(1.0, math.nan), "value of time"),
        (lambda: ZeusCost(1.1, 300.0), "eta"),
        (lambda: ZeusCost(-0.1, 300.0), "eta"),
        (lambda: ZeusCost(math.nan, 300.0), "eta"),
        (lambda: ZeusCost(0.5, 0.0), "max_power_w"),
        (lambda: ZeusCost(0.5, math.inf), "max_power_w"),
        (lambda: MaxSlowdown(0.9, OperatingPoint(Setting(), 1.0, 1.0)), "slowdown"),
        (lambda: MaxSlowdown(math.nan, OperatingPoint(Setting(), 1.0, 1.0)), "slowdown"),
        (lambda: ZeusCost(0.5, 300.0).priced(math.nan), "price of energy"),
    ],
)
def test_impossible_knobs_are_refused(make, message):
    """Each error names the knob."""
    with pytest.raises(ValueError, match=message):
        make()


REFERENCE = OperatingPoint(Setting(), 1.0, 1.0)


@pytest.mark.parametrize(
    "selector", [PricedEnergy(1.0, 1.0), ZeusCost(0.5, 300.0), Energy(), Time(), MaxSlowdown(1.1, REFERENCE)]
)
def test_nothing_to_choose_from_is_an_error(selector):
    """No selector invents a point."""
    with pytest.raises(ValueError, match="no operating point"):
        selector.choose([])


@pytest.mark.parametrize("price", [-5e-324, -1e-300, -1e-12])
def test_the_least_payment_for_drawing_power_buys_speed(price):
    """Also where price times energy is too small to be told from zero."""
    fast = OperatingPoint(Setting(plan="a"), 1.0, 0.2)
    slow = OperatingPoint(Setting(plan="b"), 1.9, 0.1)
    assert PricedEnergy(price, 0.0).choose([slow, fast]) == fast
