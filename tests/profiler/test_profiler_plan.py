"""Which limits a sweep visits."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_core.frontier import Setting
from zeus_core.gpus.base import PowerLimits
from zeus_core.profiler import MIN_STEP_W, SweepPlan, plan_sweep

WATTS = st.integers(50_000, 1_000_000).map(lambda milliwatts: milliwatts / 1000)
A40 = PowerLimits(min_w=100.0, max_w=300.0, default_w=300.0)


@st.composite
def cards(draw: st.DrawFn) -> tuple[PowerLimits, float]:
    """Live constraints of a card, and an original limit within them."""
    low, default, original, high = sorted(draw(WATTS) for _ in range(4))
    if draw(st.booleans()):
        default, original = original, default
    return PowerLimits(low, high, default), original


@given(cards(), st.integers(1, 40), st.floats(0, 1))
def test_candidates_lie_between_the_minimum_and_the_original(card, points, headroom):
    """Never below the live minimum, never above what was found; the original itself is there, first."""
    limits, original_w = card
    plan = plan_sweep(limits, original_w, points, min_headroom=headroom)
    assert all(limits.min_w <= limit <= original_w for limit in plan.limits)
    assert plan.limits[0] == original_w
    assert plan.reference == Setting(power_limit_w=original_w)


@given(cards(), st.integers(1, 40))
def test_candidates_fall_without_duplicates(card, points):
    """At most as many as asked for, each clearly below the one before, for any range."""
    plan = plan_sweep(*card, points, min_headroom=0.0)
    assert len(plan.limits) <= points
    assert all(high - low >= MIN_STEP_W - 1 for high, low in itertools.pairwise(plan.limits))


@given(cards(), st.integers(2, 40))
def test_a_sweep_reaches_the_minimum(card, points):
    """The lowest limit that the card allows is measured, on any grid."""
    limits, original_w = card
    plan = plan_sweep(limits, original_w, points, min_headroom=0.0)
    if original_w - limits.min_w >= MIN_STEP_W:
        assert plan.limits[-1] == limits.min_w
        assert len(plan.limits) == min(points, int((original_w - limits.min_w) // MIN_STEP_W) + 1)
    else:
        assert plan.limits == (original_w,)


@given(cards(), st.floats(0, 1))
def test_one_point_without_headroom(card, headroom):
    """Where too little could be taken away there is nothing to sweep."""
    limits, original_w = card
    if original_w - limits.min_w < headroom * limits.default_w:
        assert plan_sweep(limits, original_w, min_headroom=headroom).limits == (original_w,)


@given(cards(), WATTS, st.integers(1, 40))
def test_an_original_outside_the_live_constraints_is_replaced_by_the_nearest(card, original_w, points):
    """A host that narrowed the range does not make the sweep ask for what cannot be set."""
    limits, _ = card
    plan = plan_sweep(limits, original_w, points, min_headroom=0.0)
    assert all(limits.min_w <= limit <= limits.max_w for limit in plan.limits)
    assert plan.limits[0] == limits.clamp(original_w)


def test_an_a40_gets_ten_points_of_whole_watts():
    """300 to 100 W in nine even steps."""
    assert plan_sweep(A40, 300.0).limits == (300, 278, 256, 233, 211, 189, 167, 144, 122, 100)


def test_a_grid_that_does_not_divide_never_leaves_the_range():
    """A card of 100 to 260 W in steps of 25 W was once asked for 85 W (a public report)."""
    limits = plan_sweep(PowerLimits(100.0, 260.0, 260.0), 260.0, 8).limits
    assert (limits[0], limits[-1], len(limits)) == (260.0, 100.0, 8)


def test_an_original_below_the_default_is_the_top():
    """Somebody set 275 W on a card whose default is 300 W: nothing above it is tried."""
    plan = plan_sweep(A40, 275.0)
    assert plan.limits[0] == 275.0
    assert max(plan.limits) == 275.0


def test_options_reach_the_plan():
    """What the owner configured is in the plan."""
    plan = plan_sweep(A40, 300.0, 5, window_s=60.0, min_units=7.0, visits=3, max_slowdown=0.2)
    assert (plan.window_s, plan.min_units, plan.visits, plan.max_slowdown) == (60.0, 7.0, 3, 0.2)


def test_other_levers_stay_as_in_the_reference():
    """A sweep moves the power limit alone."""
    reference = Setting(power_limit_w=300.0, batch_size=64)
    plan = SweepPlan(limits=(300.0, 200.0), reference=reference)
    assert plan.setting(200.0) == Setting(power_limit_w=200.0, batch_size=64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"limits": ()}, "begin at the reference"),
        ({"limits": (275.0, 200.0)}, "begin at the reference"),
        ({"limits": (300.0, 300.0)}, "fall"),
        ({"limits": (300.0, 200.0, 250.0)}, "fall"),
        ({"limits": (300.0, 0.0)}, "positive"),
        ({"limits": (300.0, math.nan)}, "positive"),
        ({"window_s": 0.0}, "seconds"),
        ({"visits": 0}, "visit"),
        ({"min_units": -1.0}, "window"),
        ({"settle_s": -1.0}, "window"),
    ],
)
def test_impossible_plans_are_refused(change, message):
    """A plan is right or it is not made."""
    with pytest.raises(ValueError, match=message):
        SweepPlan(**{"limits": (300.0, 200.0), "reference": Setting(power_limit_w=300.0), **change})


def test_a_sweep_of_no_points_is_refused():
    """At least the original is measured."""
    with pytest.raises(ValueError, match="at least 1 point"):
        plan_sweep(A40, 300.0, 0)
