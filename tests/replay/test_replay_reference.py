"""What a run is measured by: full power, the best fixed setting, and the least that anybody could have emitted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_cases import START, SWEEP, waves

from chase.replay.reference import Reference
from chase.replay.trace import Trace
from zeus_core.frontier import Frontier, OperatingPoint, Setting

FRONTIER = Frontier.of(OperatingPoint(Setting(limit), s, s * watts) for limit, s, watts in SWEEP)
TRACE = Trace("XX", START, 3600.0, np.array(waves(24 * 30)))
DAY_S = 86400.0


def reference(days: float = 3.0, **given) -> Reference:
    return Reference(TRACE, FRONTIER, START + timedelta(hours=100.3), days * DAY_S / 1000.0, **given)


def by_the_second(made: Reference, power_w: float, seconds: float) -> float:
    """Grams, summed in steps of a second."""
    first_s = (made.start - TRACE.start).total_seconds()
    at = first_s + np.arange(round(seconds)) + 0.5
    return float(TRACE.values[(at // 3600).astype(int)].sum()) * power_w * made.pue / 3.6e6


def test_full_power_is_priced_over_its_own_time():
    """The integral of the intensity while it runs, times its power and PUE."""
    made = reference(pue=1.3)
    full = made.full()
    assert (full.seconds, full.peak_w) == (3 * DAY_S, 285.0)
    assert full.energy_j == pytest.approx(285.0 * 3 * DAY_S)
    assert full.grams == pytest.approx(by_the_second(made, 285.0, 3 * DAY_S), rel=1e-6)


def test_the_best_fixed_setting_is_a_constant_mix_of_two_neighbours():
    """In 1.05 times full power's time: between the settings that take 1.02 and 1.08 times as long."""
    made = reference()
    fixed = made.fixed(3.15 * DAY_S)
    share = (1 / 1050 - 1 / 1080) / (1 / 1020 - 1 / 1080)
    power_w = 198.0 + share * (245.0 - 198.0)
    assert fixed.energy_j == pytest.approx(power_w * 3.15 * DAY_S)
    assert fixed.grams == pytest.approx(by_the_second(made, power_w, 3.15 * DAY_S), rel=1e-6)


def test_nobody_waits_longer_than_the_most_frugal_setting_takes():
    """With more time than that the job is done before it."""
    made = reference()
    assert made.fixed(30 * DAY_S) == made.fixed(20 * DAY_S)
    assert made.fixed(30 * DAY_S).seconds < 20 * DAY_S


def test_a_host_makes_slow_settings_dearer():
    """Its power counts as long as the job runs, in energy, in grams and in what is chosen."""
    alone, hosted = reference(), reference(host_w=400.0)
    assert hosted.full().energy_j == pytest.approx(alone.full().energy_j + 400.0 * 3 * DAY_S)
    assert hosted.full().peak_w == 685.0
    assert hosted.fixed(30 * DAY_S).seconds < alone.fixed(30 * DAY_S).seconds
    assert hosted.optimum(3.6 * DAY_S).seconds < alone.optimum(3.6 * DAY_S).seconds


@given(days=st.floats(0.05, 6), slowdown=st.floats(0, 0.6), hour=st.floats(0, 400), host_w=st.sampled_from([0.0, 90.0]))
def test_knowing_the_future_never_costs(days, slowdown, hour, host_w):
    """The optimum is done in time, emits no more than the best fixed setting, and that no more than full power where
    the grid is the same all the time.
    """
    made = replace(reference(days, host_w=host_w), start=START + timedelta(hours=hour))
    full = made.full()
    seconds = full.seconds * (1 + slowdown)
    fixed, optimum = made.fixed(seconds), made.optimum(seconds)
    assert optimum.seconds <= seconds * (1 + 1e-9)
    assert optimum.grams <= fixed.grams * (1 + 1e-9)
    assert optimum.grams <= full.grams * (1 + 1e-9)
    flat = replace(made, trace=Trace("flat", START, 3600.0, np.full(24 * 30, 250.0)))
    assert flat.fixed(seconds).grams <= flat.full().grams * (1 + 1e-9)
    assert flat.optimum(seconds).grams == pytest.approx(flat.fixed(seconds).grams, rel=1e-9)


def test_suspending_waits_for_the_cleanest_hours():
    """Full power in the cleanest time there is, the pause's power in the rest: worked out by hand for two days."""
    trace = Trace("two", START, DAY_S, np.array([400.0, 100.0]))
    made = Reference(trace, FRONTIER, START, DAY_S / 1000.0)
    cost = made.suspend_resume(2 * DAY_S, paused_w=40.0)
    assert cost.energy_j == pytest.approx((40.0 + 285.0) * DAY_S)
    assert cost.grams == pytest.approx((40.0 * 400 + 285.0 * 100) * DAY_S / 3.6e6)
    assert cost.peak_w == 285.0
