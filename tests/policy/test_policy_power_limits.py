"""A person's floor and ceiling, under every policy, and what a node's cap leaves of a choice."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.policy import NODE_CAP, Grid, PolicyInput, Progress, Rules, choose, under_cap
from zeus_core.frontier import Frontier, OperatingPoint, Setting, lower_hull

# A40, ResNet-50, batch 128: limit W, seconds per epoch, mean W (Zeus NSDI'23 traces). 275 W is not on the hull.
A40 = [
    (300, 3739.5, 244.3),
    (275, 3777.3, 230.8),
    (250, 3804.2, 216.2),
    (225, 3862.4, 198.4),
    (200, 3992.4, 179.2),
    (175, 4465.4, 162.5),
    (150, 5794.9, 145.1),
]
FRONTIER = Frontier.of(OperatingPoint(Setting(power_limit_w=w), s, s * p) for w, s, p in A40)
LIMITS = [w for w, _, _ in A40]
POLICIES = ["budget", "threshold", "chase", "static"]


def at(g_per_kwh: float | None = 300.0, hold: str | None = None, **rules: object) -> PolicyInput:
    grid = Grid(
        g_per_kwh=g_per_kwh,
        kind="measured",
        freshness="fresh",
        efficiency_above_g=250.0,
        speed_below_g=150.0,
        reference_g=400.0,
    )
    return PolicyInput(
        frontier=FRONTIER,
        rules=Rules(**rules),
        grid=grid,
        max_power_w=300.0,
        hold=hold,
        progress=Progress(units_left=100.0),
    )


bounds = st.one_of(st.none(), st.floats(50.0, 400.0))


wishes = st.fixed_dictionaries(
    {
        "name": st.sampled_from(POLICIES),
        "g_per_kwh": st.sampled_from([None, 100.0, 200.0, 300.0]),
        "hold": st.sampled_from([None, "speed-first", "efficiency-first"]),
        "max_slowdown": st.sampled_from([None, 0.0, 0.03, 0.5]),
        "selector": st.sampled_from(["energy", "time", "zeus-cost", "max-slowdown"]),
    }
)


@given(wished=wishes, low=bounds, high=bounds)
def test_no_policy_leaves_the_floor_and_the_ceiling(wished, low, high):
    """Whatever policy, grid, hold and slowdown: a limit within both; where none is known the nearest, as is said."""
    if low is not None and high is not None and low > high:
        low, high = high, low
    choice = choose(at(min_power_limit_w=low, max_power_limit_w=high, **wished))
    chosen_w = choice.setting.power_limit_w
    inside = [w for w in LIMITS if (low or 0.0) <= w <= (high or 1e9)]
    assert ("the nearest is taken" in choice.reason) == (not inside)
    if inside:
        assert chosen_w in inside
    else:
        assert outside_w(chosen_w, low, high) == min(outside_w(w, low, high) for w in LIMITS)


def outside_w(limit_w: float, low: float | None, high: float | None) -> float:
    return max((low or 0.0) - limit_w, limit_w - (high or 1e9), 0.0)


@pytest.mark.parametrize("name", POLICIES)
def test_without_bounds_nothing_changes(name):
    """No floor and no ceiling are the same as ones that hold everything."""
    wide = choose(at(name=name, min_power_limit_w=1.0, max_power_limit_w=5000.0))
    assert wide.to_dict() == choose(at(name=name)).to_dict()


def test_what_lies_within_has_a_hull_of_its_own():
    """A point that is on no hull of all may be the fastest that a ceiling leaves."""
    assert 275 not in [point.setting.power_limit_w for point in lower_hull(FRONTIER.points)]
    choice = choose(at(100.0, name="threshold", max_power_limit_w=280.0))
    assert choice.setting.power_limit_w == 275


def test_floor_and_ceiling_may_meet():
    """One limit alone is permitted: there the job stays, whatever the grid does."""
    for g_per_kwh in (100.0, 300.0):
        rules = {"name": "threshold", "min_power_limit_w": 225.0, "max_power_limit_w": 225.0}
        assert choose(at(g_per_kwh, **rules)).setting.power_limit_w == 225


def test_a_ceiling_needs_no_frontier():
    """Where nothing is known the job may run as it was found, but not above its ceiling."""
    nothing = replace(at(max_power_limit_w=250.0), frontier=None, note="cannot be measured")
    choice = choose(nothing)
    assert (choice.setting, choice.code) == (Setting(power_limit_w=250.0), "no-frontier")
    assert "cannot be measured" in choice.reason
    assert "max_power_limit_w 250 W" in choice.reason
    assert choose(replace(nothing, hold="off")).setting is None


class TestUnderACap:
    CAPPED = Setting(power_limit_w=150.0)

    def capped(self, **more: object) -> PolicyInput:
        return replace(at(name="threshold", **more), capped=self.CAPPED, cap_note="the cap says so")

    def test_the_choice_is_what_the_cap_leaves(self):
        """Setting and code are the cap's, mode and candidates the policy's, and the reason has both."""
        own, choice = choose(at(name="threshold")), choose(self.capped())
        assert (choice.setting, choice.code, choice.wished) == (self.CAPPED, NODE_CAP, own.setting)
        assert (choice.mode, choice.candidates) == (own.mode, own.candidates)
        assert choice.reason == f"the cap says so; but for the cap: {own.reason}"
        assert choice.own == own.setting == own.own

    def test_the_choice_is_made_once(self):
        """What was chosen without the cap is carried over: it is the same as choosing with it."""
        assert under_cap(self.capped(), choose(at(name="threshold"))) == choose(self.capped())

    def test_it_comes_back_from_json(self):
        """Written down and read again it is the same input."""
        given_ = self.capped()
        assert PolicyInput.from_dict(json.loads(json.dumps(given_.to_dict()))) == given_

    def test_an_earlier_version_knew_no_cap(self):
        """Inputs without these fields can be read."""
        data = {key: value for key, value in at().to_dict().items() if key not in {"capped", "cap_note"}}
        for name in ("min_power_limit_w", "max_power_limit_w"):
            del data["rules"][name]
        assert PolicyInput.from_dict(data) == at()
