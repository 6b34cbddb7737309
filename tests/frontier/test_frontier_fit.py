"""Fitting a frontier to noisy windows."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from frontier_strategies import windows
from hypothesis import given
from hypothesis import strategies as st
from power_sweeps import SWEEPS, Sweep

from zeus_core.frontier import Frontier, Setting, Window, isotonic

VALUES = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(1e-2, 1e3)), max_size=15)


def columns(drawn: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [value for value, _ in drawn], [weight for _, weight in drawn]


def window(limit_w: float, units: float, seconds: float, joules: float) -> Window:
    return Window(Setting(power_limit_w=limit_w), units, seconds, joules)


@given(VALUES)
def test_isotonic_never_falls(drawn):
    """The fit is non-decreasing and as long as its input."""
    fit = isotonic(*columns(drawn))
    assert len(fit) == len(drawn)
    assert all(a <= b for a, b in itertools.pairwise(fit))


@given(VALUES, st.data())
def test_isotonic_is_idempotent(drawn, data):
    """A fit of a fit is the same to the last bit, under any weights."""
    fit = isotonic(*columns(drawn))
    others = data.draw(st.lists(st.floats(1e-2, 1e3), min_size=len(fit), max_size=len(fit)))
    assert isotonic(fit, others) == fit


@given(VALUES)
def test_isotonic_keeps_the_weighted_mean(drawn):
    """Pooling moves nothing in total: pooled windows keep their seconds."""
    values, weights = columns(drawn)
    fit = isotonic(values, weights)
    before = math.fsum(v * w for v, w in drawn)
    after = math.fsum(f * w for f, w in zip(fit, weights, strict=True))
    assert after == pytest.approx(before, rel=1e-9, abs=1e-3)


@given(VALUES, st.data())
def test_isotonic_keeps_the_order_of_inputs(drawn, data):
    """Where one input is nowhere above another, its fit is nowhere above the other's."""
    values, weights = columns(drawn)
    raised = [v + data.draw(st.floats(0, 1e3)) for v in values]
    for low, high in zip(isotonic(values, weights), isotonic(raised, weights), strict=True):
        assert low <= high + 1e-6


@given(VALUES)
def test_isotonic_is_the_least_squares_fit(drawn):
    """It equals the max-min formula of the weighted least squares solution."""
    values, weights = columns(drawn)

    def mean(a: int, b: int) -> float:
        total = math.fsum(v * w for v, w in drawn[a : b + 1])
        return total / math.fsum(weights[a : b + 1])

    n = range(len(values))
    best = [max(min(mean(a, b) for b in n if b >= i) for a in n if a <= i) for i in n]
    assert isotonic(values, weights) == pytest.approx(best, rel=1e-9, abs=1e-6)


def test_isotonic_refuses_columns_of_different_length():
    """A weight for each value."""
    with pytest.raises(ValueError, match="zip"):
        isotonic([1.0, 2.0], [1.0])


def test_windows_of_a_setting_are_pooled_by_their_totals():
    """A long window counts for more than a short one."""
    frontier = Frontier.fit([window(300, 30, 30, 6000), window(300, 10, 12, 2400)])
    point = frontier.reference
    assert (point.seconds_per_unit, point.joules_per_unit, point.samples) == (42 / 40, 8400 / 40, 2)


def test_spread_is_the_relative_deviation_of_energy():
    """Two equal windows of 90 and 110 J a unit have a sample standard deviation of 14.1 %; one window has none."""
    two = Frontier.fit([window(300, 10, 10, 900), window(300, 10, 10, 1100)])
    assert two.reference.spread == pytest.approx(math.sqrt(2) / 10)
    assert Frontier.fit([window(300, 10, 10, 900)]).reference.spread == 0.0


def test_a_lower_limit_that_looks_faster_is_pooled_with_the_higher():
    """Noise cannot make a card faster with less power: both get the pooled time, and each keeps its own energy."""
    frontier = Frontier.fit([window(300, 10, 10.4, 3000), window(275, 30, 30, 8000), window(250, 10, 11, 2500)])
    times = {p.setting.power_limit_w: p.seconds_per_unit for p in frontier.points}
    assert times == {300: pytest.approx(40.4 / 40), 275: pytest.approx(40.4 / 40), 250: 1.1}
    energies = {p.setting.power_limit_w: p.joules_per_unit for p in frontier.points}
    assert energies == {300: 300, 275: pytest.approx(8000 / 30), 250: 250}


@given(windows())
def test_fitted_time_never_falls_with_the_limit(drawn):
    """The slower of two limits is the lower one, or they are equally fast."""
    frontier = Frontier.fit(drawn)
    ordered = sorted(frontier.points, key=lambda p: -p.setting.power_limit_w)
    assert all(a.seconds_per_unit <= b.seconds_per_unit for a, b in itertools.pairwise(ordered))


@given(windows())
def test_fit_keeps_the_seconds_of_all_windows(drawn):
    """Units at their fitted times take as long as the windows did."""
    frontier = Frontier.fit(drawn)
    units = {p.setting: math.fsum(w.units for w in drawn if w.setting == p.setting) for p in frontier.points}
    fitted = math.fsum(units[p.setting] * p.seconds_per_unit for p in frontier.points)
    assert fitted == pytest.approx(math.fsum(w.seconds for w in drawn))


@given(windows())
def test_pooling_only_makes_the_reference_faster(drawn):
    """So that a slowdown against it is never understated."""
    reference = Frontier.fit(drawn).reference
    own = [w for w in drawn if w.setting == reference.setting]
    measured = math.fsum(w.seconds for w in own) / math.fsum(w.units for w in own)
    assert reference.seconds_per_unit <= measured * (1 + 1e-12)


@given(windows(), st.randoms(use_true_random=False))
def test_order_of_windows_does_not_matter(drawn, rng: random.Random):
    """The same windows in any order give the same points, to the last bit."""
    shuffled = drawn[:]
    rng.shuffle(shuffled)
    assert Frontier.fit(shuffled).points == Frontier.fit(drawn).points


def test_fit_keeps_the_raw_windows():
    """What was measured stays beside what was made of it."""
    raw = (window(300, 10, 10, 3000), window(200, 10, 11, 2200))
    assert Frontier.fit(raw).windows == raw


def test_positions_of_other_levers_are_fitted_apart():
    """A batch of 64 at 200 W may well be faster than one of 32 at 300 W."""
    small = Window(Setting(power_limit_w=300.0, batch_size=32), 10, 10, 3000)
    large = Window(Setting(power_limit_w=200.0, batch_size=64), 10, 6, 1200)
    assert {p.seconds_per_unit for p in Frontier.fit([small, large]).points} == {1.0, 0.6}


def test_as_found_counts_as_the_highest_limit():
    """A setting without a limit is faster than any with one, and the reference."""
    found = Window(Setting(), 10, 12, 3000)
    capped = window(200, 10, 10, 2000)
    frontier = Frontier.fit([capped, found])
    assert frontier.reference.setting == Setting()
    assert {p.seconds_per_unit for p in frontier.points} == {1.1}


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.name)
def test_real_sweeps_are_made_monotone_without_losing_the_best_energy(sweep: Sweep):
    """The fit of a noisy sweep never runs faster at a lower limit, and its frugal point is the measured one."""
    frontier = Frontier.fit(sweep.windows)
    ordered = sorted(frontier.points, key=lambda p: -p.setting.power_limit_w)
    assert all(a.seconds_per_unit <= b.seconds_per_unit for a, b in itertools.pairwise(ordered))
    assert frontier.frugal.setting.power_limit_w == sweep.energy[0]
    assert frontier.slowdown(frontier.fastest) <= 0.0
