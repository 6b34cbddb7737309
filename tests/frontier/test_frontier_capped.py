"""A published curve on a card whose limit was found below the curve's highest."""

from __future__ import annotations

import pytest
from frontier_strategies import LIMITS, points
from hypothesis import given
from hypothesis import strategies as st

from zeus_core.frontier import Frontier, OperatingPoint, Setting

CURVE = Frontier.of(
    OperatingPoint(Setting(power_limit_w=limit_w), seconds, joules)
    for limit_w, seconds, joules in ((300.0, 1.0, 280.0), (250.0, 1.1, 250.0), (200.0, 1.4, 240.0))
)
CURVES = points(settings=st.builds(Setting, power_limit_w=LIMITS)).map(Frontier.of)


@given(CURVES, LIMITS)
def test_nothing_above_the_cap_is_left(frontier, cap_w):
    """Every measured point at or below the cap stays as it is, and the reference is the highest limit left."""
    kept = [p for p in frontier.points if (p.setting.power_limit_w or 0) <= cap_w]
    if not kept:
        with pytest.raises(ValueError, match="at or below"):
            frontier.capped(cap_w)
        return
    capped = frontier.capped(cap_w)
    assert set(kept) <= set(capped.points)
    assert len(capped.points) <= len(kept) + 1
    limits = [p.setting.power_limit_w for p in capped.points]
    assert capped.reference.setting.power_limit_w == max(limits)
    assert max(limits) == (cap_w if len(kept) < len(frontier.points) else frontier.reference.setting.power_limit_w)


@given(CURVES, LIMITS)
def test_the_point_at_the_cap_lies_between_its_neighbours(frontier, cap_w):
    """Whatever is put in at the cap is no faster and no dearer than both neighbours, nor the reverse."""
    limits = sorted(p.setting.power_limit_w or 0 for p in frontier.points)
    if limits[0] < cap_w < limits[-1] and cap_w not in limits:
        low = frontier.at(Setting(power_limit_w=max(limit for limit in limits if limit < cap_w)))
        high = frontier.at(Setting(power_limit_w=min(limit for limit in limits if limit > cap_w)))
        made = frontier.capped(cap_w).reference
        for name in ("seconds_per_unit", "joules_per_unit"):
            ends = sorted((getattr(low, name), getattr(high, name)))
            assert ends[0] * (1 - 1e-12) <= getattr(made, name) <= ends[1] * (1 + 1e-12)


def test_a_cap_on_a_measured_limit_takes_that_point():
    """The curve at 250 W begins at 250 W, as published."""
    capped = CURVE.capped(250.0)
    assert capped.reference == CURVE.at(Setting(power_limit_w=250.0))
    assert len(capped.points) == 2


def test_a_cap_between_two_limits_is_interpolated():
    """275 W is half way between 300 and 250 W."""
    reference = CURVE.capped(275.0).reference
    assert reference.setting == Setting(power_limit_w=275.0)
    assert (reference.seconds_per_unit, reference.joules_per_unit) == pytest.approx((1.05, 265.0))


def test_a_cap_above_the_curve_changes_nothing():
    """A card that allows more than was published is taken as published."""
    assert CURVE.capped(350.0) is CURVE
    assert CURVE.capped(300.0) is CURVE
