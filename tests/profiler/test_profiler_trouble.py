"""Stalls, interruptions, broken counters and restarts: no window may hold anything but training at its setting."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_job import Controller, Job, by_limit, curve, plan, truth

from zeus_core.frontier import Frontier, OperatingPoint, Setting, Window
from zeus_core.profiler import DriftWatch, Profiler

EVENTS = st.lists(
    st.sampled_from(["go", "go", "go", "stall", "interrupt", "restart", "foreign", "reset-energy"]), max_size=25
)
FULL = Setting(power_limit_w=300.0)


def trouble(card: Controller, event: str) -> None:
    """One piece of bad luck, two to nine ticks long."""
    job = card.job
    if event == "stall":
        job.paused = True
        for _ in range(9):
            card.tick()
        job.paused = False
    elif event == "interrupt":
        card.profiler.interrupt("a person held the job")
    elif event == "restart":
        job.restart_counter()
    elif event == "foreign":
        card.foreign = Setting(power_limit_w=137.0)
        card.tick()
        card.foreign = None
    elif event == "reset-energy":
        job.joules = 0.0
    card.tick()
    card.tick()


@settings(max_examples=60, deadline=None)
@given(EVENTS, st.sampled_from([2.0, 10.0]))
def test_whatever_happens_a_window_is_training_at_its_setting(events, tick_s):
    """After any sequence of trouble each window is long enough and right, and the sweep still ends."""
    job_curve = curve()
    profiler = Profiler(plan(300.0, 250.0, 200.0, 150.0))
    card = Controller(profiler, Job(job_curve), tick_s)
    for event in events:
        trouble(card, event)
    card.run()
    assert profiler.done
    assert profiler.progress == (8, 8)
    for window in profiler.windows:
        assert window.seconds >= 30.0
        assert truth(job_curve, window) == {"time": pytest.approx(0, abs=0.003), "power": pytest.approx(0, abs=1e-6)}


def test_a_stalled_job_yields_no_window():
    """A hang draws little power and does no work; an hour of it is not a measurement (rule G25)."""
    job = Job(curve())
    job.paused = True
    card = Controller(Profiler(plan()), job).run(ticks=360)
    assert card.windows == []
    assert card.profiler.wants == FULL


def test_a_stall_inside_a_window_is_left_out_of_it():
    """The window goes on after it, with neither its time nor its joules."""
    job = Job(curve())
    card = Controller(Profiler(plan(300.0)), job)
    for _ in range(4):
        card.tick()
    assert card.windows == []
    job.paused = True
    for _ in range(30):
        card.tick()
    job.paused = False
    while not card.windows:
        card.tick()
    (window,) = card.windows
    assert window.seconds <= 90
    assert abs(truth(job.at, window)["power"]) < 1e-6


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(60, 400), st.integers(11, 300)), max_size=8), st.sampled_from([2, 5, 10]))
def test_stalls_of_any_length_and_phase_hardly_blur_a_window(stalls, tick_s):
    """A checkpoint or an evaluation now and then, beginning and ending between ticks, costs a window a quarter at most.

    Counted as training, one of 20 s would make a window of 30 s three times too slow.
    """
    ends = list(itertools.accumulate(second for stall in stalls for second in stall))
    job = Job(curve())
    card = Controller(Profiler(plan(300.0, 250.0, 200.0)), job, tick_s)

    def paced(limit_w: float) -> tuple[float, float]:
        stalled = sum(end < job.now_s for end in ends) % 2 == 1
        return (1e9, 70.0) if stalled else curve()(limit_w)

    job.at = paced
    card.run()
    assert card.profiler.done
    for window in card.windows:
        assert -0.01 <= truth(curve(), window)["time"] <= 0.25


def test_pauses_more_frequent_than_windows_do_not_stop_the_sweep():
    """A job that evaluates for two minutes after every 25 s of training is measured from its pieces."""
    job = Job(curve())
    card = Controller(Profiler(plan(300.0, 200.0)), job, tick_s=5.0)
    for tick in range(2000):
        job.paused = tick % 29 >= 5
        card.tick()
    assert card.profiler.done
    for window in card.windows:
        assert abs(truth(job.at, window)["time"]) < 0.02


def test_nothing_counts_before_the_setting_is_in_force_and_settled():
    """The seconds right after a change still carry the old clocks: they belong to no window."""
    profiler = Profiler(plan(300.0, settle_s=20.0))
    job = Job(lambda w: (0.1, 250.0) if job.now_s > 120 else (0.3, 250.0))
    card = Controller(profiler, job)
    card.foreign = Setting(power_limit_w=200.0)
    for _ in range(10):
        card.tick()
    card.foreign = None
    card.run()
    assert card.windows[0].seconds / card.windows[0].units == pytest.approx(0.1, rel=1e-4)


def test_a_setting_that_changes_under_it_drops_the_window():
    """Fifty good seconds and then somebody else's limit: the next window begins from nothing."""
    card = Controller(Profiler(plan(300.0, window_s=60.0)), Job(curve()))
    for _ in range(6):
        card.tick()
    card.foreign = Setting(power_limit_w=200.0)
    card.tick()
    card.foreign = None
    began_s = card.job.now_s
    card.run()
    assert card.job.now_s - began_s >= 120
    assert all(abs(truth(card.job.at, w)["time"]) < 0.01 for w in card.windows)


def test_no_setting_in_force_is_no_window():
    """Where nothing can be read back nothing is measured."""
    profiler = Profiler(plan(300.0))
    assert all(profiler.observe(10.0 * t, 100.0 * t, 3000.0 * t, None) is None for t in range(100))


def test_a_limit_rounded_by_the_driver_is_in_force():
    """A card that reads back 299.7 W has the 300 W that were asked; the window says 300 W."""
    card = Controller(Profiler(plan(300.0)), Job(curve()), rounding_w=-0.3)
    card.job.at = lambda w: curve()(round(w))
    assert {w.setting for w in card.run().windows} == {FULL}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("counter", [0, 1, 2])
def test_a_counter_that_is_not_a_number_drops_the_window(counter, bad):
    """It raises nothing into the control loop, and the window starts again."""
    profiler = Profiler(plan(300.0))
    ticks = [[10.0 * t, 100.1 * t, 3000.0 * t] for t in range(20)]
    ticks[4][counter] = bad
    finished = [t for t, tick in enumerate(ticks) if profiler.observe(*tick, FULL)]
    assert finished == [9, 12]
    assert all(math.isfinite(w.units + w.seconds + w.joules) for w in profiler.windows)


@pytest.mark.parametrize("power_w", [0.0, 1200.0])
def test_impossible_power_is_no_window(power_w):
    """Energy that stands still, or four times the limit, is a broken counter (rule G14)."""
    card = Controller(Profiler(plan(300.0)), Job(lambda _w: (0.1, power_w))).run(ticks=100)
    assert card.windows == []
    assert "cannot be true" in card.profiler.note or "at least" in card.profiler.note


def test_the_power_of_several_gpus_is_possible():
    """Four cards of 300 W may draw 1200 W together."""
    card = Controller(Profiler(plan(300.0), gpus=4), Job(lambda _w: (0.1, 1190.0))).run(ticks=100)
    assert card.profiler.done


def test_ticks_at_the_same_moment_are_harmless():
    """A tick taken twice neither divides by zero nor counts twice."""
    profiler = Profiler(plan(300.0))
    for t, _ in itertools.product(range(40), range(2)):
        profiler.observe(10.0 * t, 100.1 * t, 2500.0 * t, FULL)
    assert profiler.done
    for window in profiler.windows:
        assert window.seconds / window.units == pytest.approx(10 / 100.1)


def test_counters_may_be_integers():
    """A job that counts steps says 7, not 7.0."""
    profiler = Profiler(plan(300.0, 200.0))
    drift = DriftWatch(Frontier.of([OperatingPoint(FULL, 0.1, 25.0)]))
    for t in range(200):
        assert not drift.observe(10 * t, 100 * t + t % 2, FULL)
        profiler.observe(10 * t, 100 * t + t % 2, 2500 * t, profiler.wants)
    assert profiler.done


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 60), max_size=6), st.booleans())
def test_a_resumed_sweep_does_what_was_left(cuts, worsening):
    """Killed at any moments and made again from its stored windows, it ends with the same windows in the same order."""
    job_curve = (lambda w: (0.1, 100 + 30000 / w)) if worsening else curve()
    whole = Controller(Profiler(plan()), Job(job_curve)).run()
    stored: tuple[Window, ...] = ()
    card = Controller(Profiler(plan()), Job(job_curve))
    for cut in cuts:
        for _ in range(cut):
            card.tick()
        stored = card.profiler.windows
        card = Controller(Profiler(plan(), windows=stored), card.job)
        assert card.profiler.windows == stored
    card.run()
    assert by_limit(card.profiler.windows) == by_limit(whole.profiler.windows)
    assert card.profiler.progress == whole.profiler.progress


def test_a_sweep_resumed_from_all_its_windows_is_done_at_once():
    """There is nothing left to observe, and its frontier is there to take."""
    whole = Controller(Profiler(plan()), Job(curve())).run().profiler
    again = Profiler(plan(), windows=whole.windows)
    assert again.done
    assert again.frontier() == whole.frontier()


def test_windows_of_other_settings_are_not_taken_over():
    """A grid that changed, or another batch size, is another sweep."""
    other = Window(Setting(power_limit_w=290.0), 10, 10, 2500)
    batch = Window(Setting(power_limit_w=300.0, batch_size=64), 10, 10, 2500)
    profiler = Profiler(plan(), windows=[other, batch])
    assert profiler.windows == ()
    assert profiler.progress == (0, 18)


def test_stored_windows_with_a_hole_are_filled_first():
    """A limit that is missing among the stored ones is measured before anything is measured twice."""
    windows = [Window(Setting(power_limit_w=w), 300.0, 30.0, 30 * w) for w in (300.0, 200.0)]
    card = Controller(Profiler(plan(300.0, 250.0, 200.0), windows=windows), Job(lambda w: (0.1, w))).run()
    assert by_limit(card.windows) == [250, 200, 250, 300]


def test_a_limit_that_cannot_be_had_is_left_out():
    """Somebody's lower limit binds: the sweep goes on without that one."""
    profiler = Profiler(plan(300.0, 250.0, 200.0))
    card = Controller(profiler, Job(curve()))
    while profiler.wants.power_limit_w != 250.0:
        card.tick()
    profiler.skip("250 W is refused")
    assert profiler.note == "250 W is refused"
    card.run()
    assert by_limit(profiler.windows) == [300, 200, 200, 300]
    assert profiler.progress == (4, 4)


def test_without_its_reference_a_sweep_ends():
    """There is nothing to compare with, so nothing is measured and the frontier is an error."""
    profiler = Profiler(plan())
    profiler.skip("300 W is above somebody's limit")
    assert (profiler.done, profiler.progress) == (True, (0, 0))
    with pytest.raises(ValueError, match="at least one"):
        profiler.frontier()
    profiler.skip("again")
    assert profiler.done
