"""What the values of a frontier refuse, and how they travel."""

from __future__ import annotations

import json
import math
import pickle

import pytest
from frontier_strategies import SETTINGS, points, windows
from hypothesis import given
from hypothesis import strategies as st

from zeus_core.frontier import Frontier, OperatingPoint, Setting, Window

FULL = Setting(power_limit_w=300.0)
IMPOSSIBLE = [0.0, -1.0, math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("value", IMPOSSIBLE)
@pytest.mark.parametrize("field", ["units", "seconds", "joules"])
def test_window_refuses_what_cannot_be_measured(field, value):
    """Each of its figures is finite and positive, and the error names the one that is not."""
    with pytest.raises(ValueError, match=field):
        Window(**{"setting": FULL, "units": 1.0, "seconds": 1.0, "joules": 1.0, field: value})


@pytest.mark.parametrize("value", IMPOSSIBLE)
@pytest.mark.parametrize("field", ["seconds_per_unit", "joules_per_unit"])
def test_point_refuses_what_cannot_be(field, value):
    """Time and energy of a unit are finite and positive."""
    with pytest.raises(ValueError, match=field):
        OperatingPoint(**{"setting": FULL, "seconds_per_unit": 1.0, "joules_per_unit": 1.0, field: value})


@pytest.mark.parametrize("bad", [{"spread": -0.1}, {"spread": math.nan}, {"spread": math.inf}, {"samples": 0}])
def test_point_refuses_an_impossible_spread(bad):
    """The spread is finite and not negative, and somebody measured at least once."""
    with pytest.raises(ValueError, match="spread"):
        OperatingPoint(FULL, 1.0, 1.0, **bad)


def test_frontier_needs_a_point():
    """No points and no windows are errors, not an empty frontier."""
    with pytest.raises(ValueError, match="at least one"):
        Frontier.of([])
    with pytest.raises(ValueError, match="at least one"):
        Frontier.fit([])


def test_frontier_has_one_point_for_each_setting():
    """Two points of one setting are windows to pool, not a frontier."""
    with pytest.raises(ValueError, match="one operating point"):
        Frontier.of([OperatingPoint(FULL, 1.0, 1.0), OperatingPoint(FULL, 2.0, 1.0)])


def test_reference_must_have_been_measured():
    """A slowdown against a point that nobody measured is refused, by name."""
    with pytest.raises(ValueError, match="275 W"):
        Frontier.of([OperatingPoint(FULL, 1.0, 1.0)], Setting(power_limit_w=275.0))


@given(points(), st.data())
def test_round_trip_through_json(drawn, data):
    """A frontier comes back from JSON as it was, reference, spread and all levers included."""
    frontier = Frontier.of(drawn, data.draw(st.sampled_from(drawn)).setting)
    assert Frontier.from_dict(json.loads(json.dumps(frontier.to_dict()))) == frontier


@given(windows())
def test_round_trip_of_a_fit_keeps_its_points(drawn):
    """Raw windows are stored apart: everything else comes back."""
    frontier = Frontier.fit(drawn)
    back = Frontier.from_dict(json.loads(json.dumps(frontier.to_dict())))
    assert (back.points, back.reference, back.windows) == (frontier.points, frontier.reference, ())


@given(points())
def test_what_was_asked_of_a_frontier_is_kept_and_changes_nothing(drawn):
    """Hull, front and plain form are worked out once; whoever asked has the same frontier as who did not."""
    asked, fresh = Frontier.of(drawn), Frontier.of(drawn)
    kept = (asked.hull, asked.pareto, asked.switch_prices(), asked.to_dict())
    again = (asked.hull, asked.pareto, asked.switch_prices(), asked.to_dict())
    assert all(one is other for one, other in zip(kept, again, strict=True))
    assert (asked, hash(asked), repr(asked)) == (fresh, hash(fresh), repr(fresh))
    back = pickle.loads(pickle.dumps(asked))
    assert (back, back.hull, back.to_dict()) == (fresh, fresh.hull, fresh.to_dict())


@given(SETTINGS, st.booleans())
def test_round_trip_of_a_setting(setting, paused):
    """Unused levers are left out and come back as unused."""
    moved = Setting(setting.power_limit_w, setting.sm_clock_mhz, setting.batch_size, setting.plan, paused)
    assert Setting(**json.loads(json.dumps(moved.to_dict()))) == moved


def test_a_lever_at_zero_is_not_an_unused_lever():
    """Zero equals False in Python, and yet must not vanish from what is stored."""
    assert Setting(power_limit_w=0.0, sm_clock_mhz=0).to_dict() == {"power_limit_w": 0.0, "sm_clock_mhz": 0}


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"points": []},
        {"points": [], "reference": {}},
        {"points": [{"setting": {}, "seconds_per_unit": 1.0}], "reference": {}},
        {"points": [{"setting": {}, "seconds_per_unit": 1.0, "joules_per_unit": -1.0}], "reference": {}},
        {"points": [{"setting": {}, "seconds_per_unit": 1.0, "joules_per_unit": None}], "reference": {}},
        {"points": [{"setting": {}, "seconds_per_unit": 1.0, "joules_per_unit": 1.0}], "reference": {"watts": 3}},
        {"points": [{"setting": {}, "seconds_per_unit": 1, "joules_per_unit": 1, "carbon": 1}], "reference": {}},
        {"points": "none", "reference": {}},
        {"points": None, "reference": {}},
    ],
)
def test_from_dict_refuses_anything_else(data):
    """A damaged row raises one of the three errors it says it raises."""
    with pytest.raises((ValueError, KeyError, TypeError)):
        Frontier.from_dict(data)


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (Setting(), "as found"),
        (Setting(power_limit_w=225.0), "225 W"),
        (Setting(power_limit_w=222.5, sm_clock_mhz=1395), "222.5 W, 1395 MHz"),
        (Setting(batch_size=64, plan="p3"), "batch 64, plan p3"),
        (Setting(power_limit_w=225.0, paused=True), "paused"),
    ],
)
def test_settings_read_well(setting, text):
    """A setting says itself in the words of the log."""
    assert str(setting) == text
