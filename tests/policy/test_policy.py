"""The policies: which point, when, and in which words."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chase.policy import (
    EFFICIENCY,
    OFF,
    PROFILING,
    SPEED,
    Grid,
    PolicyInput,
    Rules,
    choose,
    threshold_g,
)
from zeus_core.frontier import Frontier, OperatingPoint, Setting
from zeus_core.selectors import ZeusCost

# A40, ResNet-50, batch 128: limit W, seconds per epoch, mean W (Zeus NSDI'23 traces).
A40 = [(300, 3739.5, 244.3), (275, 3777.3, 230.8), (250, 3804.2, 216.2), (225, 3862.4, 198.4), (200, 3992.4, 179.2)]
FRONTIER = Frontier.of(OperatingPoint(Setting(power_limit_w=w), s, s * p) for w, s, p in A40)
DIRTY, CLEAN, MIDDLE = 300.0, 100.0, 200.0
GRID = Grid(g_per_kwh=MIDDLE, kind="measured", source="test", age_s=0.0, freshness="fresh")
BAND = replace(GRID, efficiency_above_g=250.0, speed_below_g=150.0, reference_g=400.0)


def at(g_per_kwh: float | None, **changes: object) -> PolicyInput:
    rules = changes.pop("rules", Rules())
    grid = replace(BAND, g_per_kwh=g_per_kwh)
    return PolicyInput(frontier=FRONTIER, rules=rules, grid=grid, max_power_w=300.0, **changes)


def watts(given_: PolicyInput) -> float | None:
    setting = choose(given_).setting
    return setting.power_limit_w if setting else None


class TestThreshold:
    def test_speed_first_below_and_efficiency_first_above(self):
        """Clean power buys speed, dirty power buys efficiency."""
        assert watts(at(CLEAN)) == 300
        assert watts(at(DIRTY)) == 200
        assert choose(at(DIRTY)).code == "above-threshold"
        assert "300 g/kWh is above 250" in choose(at(DIRTY)).reason

    @pytest.mark.parametrize("mode", [SPEED, EFFICIENCY])
    def test_within_the_band_nothing_moves(self, mode):
        """Between the two thresholds the mode stays what it was (hysteresis)."""
        choice = choose(at(MIDDLE, current_mode=mode, since_s=1e6))
        assert (choice.mode, choice.code) == (mode, "within-band")

    @pytest.mark.parametrize(("now", "mode"), [(160.0, SPEED), (200.0, SPEED), (240.0, EFFICIENCY)])
    def test_within_the_band_with_no_past_the_nearer_threshold_wins(self, now, mode):
        """A job that starts inside the band takes the mode of the nearer threshold, speed at the middle."""
        assert choose(at(now)).mode == mode

    def test_a_mode_is_kept_for_its_dwell(self):
        """A change within the minimum dwell waits, and the reason says for how long."""
        early = choose(at(DIRTY, current_mode=SPEED, since_s=100.0))
        assert (early.mode, early.code) == (SPEED, "dwell")
        assert "another 500 s" in early.reason
        assert choose(at(DIRTY, current_mode=SPEED, since_s=600.0)).mode == EFFICIENCY

    def test_missing_thresholds_are_no_signal(self):
        """Percentiles of nothing give no threshold, and no threshold gives the owner's default."""
        empty = replace(at(DIRTY), grid=replace(BAND, g_per_kwh=DIRTY, efficiency_above_g=None))
        assert choose(empty).code == "no-signal"


class TestWithoutSignal:
    @pytest.mark.parametrize("name", ["threshold", "chase"])
    @pytest.mark.parametrize(("default", "expected_w"), [(SPEED, 300), (EFFICIENCY, 200)])
    def test_the_owners_default_rules(self, name, default, expected_w):
        """No usable value: the owner's default, which is full speed unless configured otherwise."""
        blind = at(None, rules=Rules(name=name, without_signal=default))
        assert (watts(blind), choose(blind).code) == (expected_w, "no-signal")

    def test_a_missing_value_is_never_the_cleanest_grid(self):
        """None is not zero: it must not look like clean power to a threshold whose default is efficiency."""
        assert watts(at(None, rules=Rules(without_signal=EFFICIENCY))) == 200
        assert watts(at(0.0)) == 300


class TestChase:
    def test_a_reference_of_zero_divides_nothing(self):
        """A grid that was at 0 g/kWh all day gives no reference and no division by it."""
        blind = replace(at(0.0, rules=Rules(name="chase")), grid=replace(BAND, g_per_kwh=0.0, reference_g=0.0))
        assert choose(blind).code == "no-signal"

    def test_at_its_reference_it_is_zeus(self):
        """Eq 6 with intensity equal to its reference chooses what Zeus's Eq 7 chooses (papers F 16)."""
        for eta in (0.1, 0.24, 0.5, 0.9):
            zeus = ZeusCost(eta, 300.0).choose(FRONTIER.points)
            assert watts(at(400.0, rules=Rules(name="chase", eta=eta))) == zeus.setting.power_limit_w

    @given(st.floats(0, 1), st.lists(st.floats(0, 5000), min_size=2, max_size=6))
    def test_a_dirtier_grid_never_gets_more_watts(self, eta, values):
        """The chosen limit never rises with the intensity."""
        chosen = [watts(at(value, rules=Rules(name="chase", eta=eta))) for value in sorted(values)]
        assert chosen == sorted(chosen, reverse=True)

    def test_candidates_carry_the_cost_that_was_compared(self):
        """The chosen candidate is the one of least cost."""
        choice = choose(at(350.0, rules=Rules(name="chase", eta=0.3)))
        best = min(choice.candidates, key=lambda candidate: candidate.cost)
        assert best.setting == choice.setting

    def test_dwell_keeps_the_setting_in_force(self):
        """Within the dwell the paper's rule keeps the current point as well."""
        choice = choose(
            at(4000.0, rules=Rules(name="chase"), current=Setting(power_limit_w=300), current_mode=SPEED, since_s=1.0)
        )
        assert (choice.setting.power_limit_w, choice.code) == (300, "dwell")


class TestStaticAndOff:
    @pytest.mark.parametrize(("selector", "expected_w"), [("energy", 200), ("time", 300), ("max-slowdown", 225)])
    def test_static_needs_no_signal(self, selector, expected_w):
        """A selector alone decides."""
        assert watts(at(None, rules=Rules(name="static", selector=selector, slowdown=0.05))) == expected_w

    def test_off_leaves_the_gpu_as_found(self):
        """Off sets nothing at all, rather than the fastest point."""
        choice = choose(at(DIRTY, rules=Rules(name="off")))
        assert (choice.setting, choice.mode) == (None, OFF)


class TestPrecedence:
    def test_a_hold_beats_every_policy(self):
        """A person's hold wins over the signal, over off, and over measuring."""
        measure = Setting(power_limit_w=125)
        assert watts(at(CLEAN, hold=EFFICIENCY)) == 200
        assert watts(at(CLEAN, hold=EFFICIENCY, rules=Rules(name="off"))) == 200
        assert watts(at(CLEAN, hold=SPEED, measure=measure)) == 300
        assert watts(at(CLEAN, hold=OFF, measure=measure)) is None

    def test_a_barred_job_is_never_touched(self):
        """Whatever is wished, a GPU that somebody else uses stays as found."""
        choice = choose(at(DIRTY, barred="only processes of other users run on GPU-1", hold=EFFICIENCY))
        assert (choice.setting, choice.code) == (None, "barred")
        assert "GPU-1" in choice.reason

    def test_measuring_comes_before_the_policy(self):
        """While the frontier is measured, the profiler's setting is the choice."""
        choice = choose(at(DIRTY, measure=Setting(power_limit_w=250), note="3 of 20 windows"))
        assert (choice.setting.power_limit_w, choice.mode) == (250, PROFILING)
        assert "3 of 20" in choice.reason

    def test_without_a_frontier_nothing_is_set(self):
        """No frontier, no guess."""
        choice = choose(replace(at(DIRTY), frontier=None, note="no headroom"))
        assert (choice.setting, choice.code) == (None, "no-frontier")
        assert choice.reason.startswith("no headroom")


class TestMaxSlowdown:
    @given(st.floats(0, 0.2), st.sampled_from(["threshold", "chase", "static"]), st.floats(0, 5000))
    def test_no_policy_goes_beyond_the_owners_cap(self, cap, name, now):
        """Whatever the policy and the grid, the chosen point is within the cap, or it is the fastest there is."""
        chosen = choose(at(now, rules=Rules(name=name, max_slowdown=cap))).setting
        point = FRONTIER.at(chosen)
        assert FRONTIER.slowdown(point) <= cap + 1e-9 or point == FRONTIER.fastest


class TestThresholdSpec:
    @pytest.mark.parametrize(
        ("spec", "recent", "expected"),
        [
            (120, [], 120.0),
            ("p50", [], None),
            ("p0", [3.0, 1.0, 2.0], 1.0),
            ("p100", [3.0, 1.0, 2.0], 3.0),
            ("p50", [1.0, 2.0, 4.0, 3.0], 2.5),
            ("p60", [7.0], 7.0),
        ],
    )
    def test_values(self, spec, recent, expected):
        """A number is itself; a percentile interpolates between order statistics; of nothing there is none."""
        assert threshold_g(spec, recent) == expected


numbers = st.floats(0, 5000)
inputs = st.builds(
    PolicyInput,
    frontier=st.sampled_from([None, FRONTIER]),
    rules=st.builds(
        Rules,
        name=st.sampled_from(["threshold", "chase", "static", "off"]),
        eta=st.floats(0, 1),
        max_slowdown=st.none() | st.floats(0, 1),
        selector=st.sampled_from(["energy", "time", "zeus-cost", "max-slowdown"]),
    ),
    grid=st.builds(
        Grid,
        g_per_kwh=st.none() | numbers,
        efficiency_above_g=st.none() | numbers,
        speed_below_g=st.none() | numbers,
        reference_g=st.none() | numbers,
        age_s=st.none() | numbers,
    ),
    max_power_w=st.just(300.0),
    current_mode=st.sampled_from([None, SPEED, EFFICIENCY]),
    current=st.none() | st.just(Setting(power_limit_w=250)),
    since_s=numbers | st.just(math.inf),
    hold=st.sampled_from([None, SPEED, EFFICIENCY, OFF]),
    measure=st.none() | st.just(Setting(power_limit_w=225)),
)


@settings(max_examples=300)
@given(inputs)
def test_any_decision_can_be_taken_again_from_its_record(policy_input):
    """An input survives JSON, and the choice from it is the same to the byte."""
    revived = PolicyInput.from_dict(json.loads(json.dumps(policy_input.to_dict(), allow_nan=False)))
    first = json.dumps(choose(policy_input).to_dict(), allow_nan=False, sort_keys=True)
    assert json.dumps(choose(revived).to_dict(), allow_nan=False, sort_keys=True) == first


@pytest.mark.parametrize("reference", [-20.0, 0.0])
def test_a_reference_that_is_not_positive_is_no_signal(reference):
    """A marginal intensity may be negative; divided by it the rule would turn round."""
    given_ = replace(at(400.0, rules=Rules(name="chase")), grid=replace(BAND, g_per_kwh=400.0, reference_g=reference))
    assert choose(given_).code == "no-signal"
