"""Noticing that a job no longer runs as its frontier says."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_job import Job, curve

from zeus_core.frontier import Frontier, OperatingPoint, Setting
from zeus_core.profiler import DriftWatch

FULL, LOW = Setting(power_limit_w=300.0), Setting(power_limit_w=200.0)
TICK_S = 10.0


def frontier(spread: float = 0.0) -> Frontier:
    points = []
    for setting in (FULL, LOW):
        unit_s, power_w = curve()(setting.power_limit_w or 0)
        points.append(OperatingPoint(setting, unit_s, unit_s * power_w, spread, 2))
    return Frontier.of(points)


def scaled(factor: float):
    """The known curve, ``factor`` times as slow."""
    return lambda limit_w: (curve()(limit_w)[0] * factor, curve()(limit_w)[1])


def watch(drift: DriftWatch, job: Job, seconds: float, setting: Setting | None = FULL) -> list[float]:
    """When it spoke, in seconds from the start of this call."""
    spoke = []
    for tick in range(int(seconds / TICK_S)):
        job.run(TICK_S, (setting or FULL).power_limit_w or 300.0)
        if drift.observe(job.now_s, job.units, setting):
            spoke.append((tick + 1) * TICK_S)
    return spoke


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 0.05))
def test_a_job_that_runs_as_measured_never_drifts(seed, noise):
    """Two hours of noise around the known rate, second by second, are no drift."""
    assert watch(DriftWatch(frontier()), Job(curve(), noise=noise, seed=seed), 7200) == []


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 1.5, 3.0])
def test_a_drift_is_told_once_after_ten_minutes(factor):
    """Slower or faster, it speaks when ten minutes have been off, soon after, and never again."""
    (spoke,) = watch(DriftWatch(frontier()), Job(scaled(factor), noise=0.01), 7200)
    assert 600 <= spoke <= 720


@pytest.mark.parametrize("factor", [0.96, 1.04])
def test_less_than_the_tolerance_is_no_drift(factor):
    """Four per cent are not five."""
    assert watch(DriftWatch(frontier()), Job(scaled(factor)), 7200) == []


def test_another_tolerance_and_patience():
    """Two per cent for two minutes, if asked for."""
    (spoke,) = watch(DriftWatch(frontier(), tolerance=0.02, after_s=120.0), Job(scaled(1.04)), 3600)
    assert 120 <= spoke <= 180


def test_a_slow_spell_is_no_drift():
    """Nine minutes at half speed, every twenty minutes, come and go."""
    drift = DriftWatch(frontier())
    job = Job(curve())
    for _ in range(5):
        job.at = scaled(2.0)
        assert watch(drift, job, 520) == []
        job.at = curve()
        assert watch(drift, job, 660) == []


def test_a_stall_is_no_drift():
    """An hour without progress says nothing about the rate; slow training after it does (rule G25)."""
    drift, job = DriftWatch(frontier()), Job(curve())
    assert watch(drift, job, 300) == []
    job.paused = True
    assert watch(drift, job, 3600) == []
    job.paused = False
    assert watch(drift, job, 3600) == []
    job.at = scaled(1.2)
    assert len(watch(drift, job, 1200)) == 1


@pytest.mark.parametrize("setting", [None, Setting(), Setting(power_limit_w=250.0), Setting(paused=True)])
def test_only_known_settings_are_watched(setting):
    """A setting that was never measured has no rate to be off from."""
    assert watch(DriftWatch(frontier()), Job(scaled(2.0)), 7200, setting) == []


def test_a_limit_rounded_by_the_driver_is_known():
    """299.8 W as read back is the 300 W that was measured."""
    drift = DriftWatch(frontier())
    assert len(watch(drift, Job(scaled(1.2)), 1200, Setting(power_limit_w=299.8))) == 1


def test_time_at_a_setting_adds_up_over_visits():
    """A controller that changes between two settings every five minutes still finds out."""
    drift, job = DriftWatch(frontier()), Job(scaled(1.2))
    spoke = [bool(watch(drift, job, 300, setting)) for _ in range(5) for setting in (FULL, LOW)]
    assert spoke.count(True) == 1
    assert spoke.index(True) in {4, 5, 6}


def test_a_point_measured_with_noise_is_not_held_to_less():
    """Where windows differed by five per cent, eight per cent off is within two spreads."""
    assert watch(DriftWatch(frontier(spread=0.05)), Job(scaled(1.08)), 7200) == []
    assert len(watch(DriftWatch(frontier(spread=0.02)), Job(scaled(1.08)), 7200)) == 1


def test_long_steps_are_watched_by_whole_steps():
    """A step of 40 s ticked every 10 s is no drift by itself, and a tenth slower is."""
    slow_job = [OperatingPoint(FULL, 40.0, 40.0 * 280.0)]
    assert watch(DriftWatch(Frontier.of(slow_job)), Job(lambda _w: (40.0, 280.0)), 14_400) == []
    assert len(watch(DriftWatch(Frontier.of(slow_job)), Job(lambda _w: (44.0, 280.0)), 14_400)) == 1


def test_counters_that_restart_or_break_begin_anew():
    """A restarted job and a counter that is not a number are no drift and no error."""
    drift, job = DriftWatch(frontier()), Job(curve())
    for _ in range(20):
        assert watch(drift, job, 300) == []
        job.restart_counter()
        assert not drift.observe(job.now_s, math.nan, FULL)
        assert not drift.observe(math.inf, job.units, FULL)
