"""A whole sweep of a simulated job: order, ends, and what comes out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from power_sweeps import SWEEPS, Sweep
from simulated_job import Controller, Job, by_limit, curve, plan, sweep_curve, truth

from zeus_core.frontier import Frontier, Setting
from zeus_core.profiler import Profiler

DOWN = [300.0, 275.0, 250.0, 225.0, 200.0, 175.0, 150.0, 125.0, 100.0]


def flat(seconds: float, watts: float):
    return lambda _limit_w: (seconds, watts)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([1.0, 5.0, 10.0]), st.floats(0, 0.03))
def test_a_noisy_job_is_measured_within_its_noise(seed, tick_s, noise):
    """Time within 3 % and energy within 3 % of the known curve at each point, whatever the tick."""
    job = Job(curve(), noise=noise, seed=seed)
    profiler = Profiler(plan())
    Controller(profiler, job, tick_s).run()
    assert profiler.done
    for point in profiler.frontier().points:
        unit_s, power_w = curve()(point.setting.power_limit_w or 0)
        assert point.seconds_per_unit == pytest.approx(unit_s, rel=0.03)
        assert point.joules_per_unit == pytest.approx(unit_s * power_w, rel=0.03)


def test_each_limit_is_visited_going_down_and_coming_up():
    """Two visits a limit in mirror order."""
    card = Controller(Profiler(plan()), Job(lambda w: (0.1, w))).run()
    assert by_limit(card.windows) == DOWN + DOWN[::-1]


def test_a_third_visit_goes_down_again():
    """Passes alternate."""
    card = Controller(Profiler(plan(300.0, 200.0, visits=3)), Job(lambda w: (0.1, w))).run()
    assert by_limit(card.windows) == [300, 200, 200, 300, 300, 200]


def test_a_job_that_slows_steadily_keeps_its_shape():
    """A drift of one per cent an hour and more cancels between the passes: ratios come out right."""
    drifting = Job(curve(), slowing=1e-4)
    profiler = Profiler(plan(300.0, 250.0, 200.0, 150.0))
    card = Controller(profiler, drifting, tick_s=2.0).run()
    frontier = profiler.frontier()
    for point in frontier.points:
        want = curve()(point.setting.power_limit_w or 0)[0] / curve()(300.0)[0] - 1
        assert frontier.slowdown(point) == pytest.approx(want, abs=0.004)
    down_only = Frontier.fit(card.windows[:4])
    bias = down_only.slowdown(down_only.points[-1]) - frontier.slowdown(frontier.points[-1])
    assert bias > 0.01


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.name)
def test_real_sweeps_are_recovered(sweep: Sweep):
    """On a job that behaves as measured, non-monotone ones included, the fit is that of the measurements.

    The descent may end early, but not before the point of least energy.
    """
    job_curve = sweep_curve(sweep.rows, units=100 * sweep.rows[0][1])
    profiler = Profiler(plan(*(w for w, _, _ in sweep.rows)), gpus=sweep.gpus)
    Controller(profiler, Job(job_curve, noise=0.005, seed=3), tick_s=5.0).run()
    assert profiler.done
    measured = profiler.frontier()
    known = Frontier.fit(sweep.windows)
    assert measured.frugal.joules_per_unit == pytest.approx(
        known.frugal.joules_per_unit / (100 * sweep.rows[0][1]), rel=0.01
    )
    for point in measured.points:
        energy = known.at(point.setting)
        assert energy is not None
        assert point.joules_per_unit * 100 * sweep.rows[0][1] == pytest.approx(energy.joules_per_unit, rel=0.02)


def test_the_descent_ends_when_energy_has_worsened_three_times():
    """On an A40 with ResNet-50 energy rises below 175 W: 100 W would be the fourth rise, and with one limit more."""
    rising = {300.0: 100, 250.0: 90, 200.0: 95, 175.0: 100, 150.0: 110, 125.0: 130, 100.0: 150}
    job = Job(lambda w: (0.5, rising[w] / 0.5))
    profiler = Profiler(plan(*rising))
    card = Controller(profiler, job).run()
    assert by_limit(card.windows) == [300, 250, 200, 175, 150, 150, 175, 200, 250, 300]
    assert profiler.progress == (10, 10)


def test_flat_and_noisy_energy_does_not_end_the_descent():
    """Limits above the draw change nothing but noise; ShuffleNet's best limit lies below three such rises."""
    sweep = next(s for s in SWEEPS if s.name == "A40 shufflenet")
    profiler = Profiler(plan(*(w for w, _, _ in sweep.rows)))
    Controller(profiler, Job(sweep_curve(sweep.rows, 100.0))).run()
    assert profiler.frontier().frugal.setting.power_limit_w == sweep.energy[0]


def test_the_owners_slowdown_ends_the_descent():
    """The first limit beyond the owner's bound is measured once and nothing below it at all."""
    profiler = Profiler(plan(max_slowdown=0.2))
    card = Controller(profiler, Job(curve())).run()
    slow = next(w for w in DOWN if curve()(w)[0] > 1.2 * curve()(300.0)[0])
    reached = DOWN[: DOWN.index(slow) + 1]
    assert by_limit(card.windows) == reached + reached[-2::-1]
    assert profiler.progress == (2 * len(reached) - 1, 2 * len(reached) - 1)


def test_one_limit_is_measured_without_ever_changing_it():
    """A card without headroom still gives a reference."""
    profiler = Profiler(plan(300.0))
    card = Controller(profiler, Job(curve())).run()
    assert by_limit(card.windows) == [300, 300]
    assert profiler.frontier().points == (profiler.frontier().reference,)


def test_afterwards_it_wants_the_original_and_takes_no_more_windows():
    """A finished profiler is idle, and what it wants is what was there before."""
    profiler = Profiler(plan(300.0, 200.0))
    card = Controller(profiler, Job(curve())).run()
    assert (profiler.done, profiler.wants) == (True, Setting(power_limit_w=300.0))
    assert all(card.tick() is None for _ in range(50))
    assert len(profiler.windows) == 4


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from([0.05, 0.3, 4.0]))
def test_progress_only_grows_towards_its_end(seed, max_slowdown):
    """Finished windows never become fewer, needed ones never more, and at the end they meet."""
    profiler = Profiler(plan(max_slowdown=max_slowdown))
    card = Controller(profiler, Job(curve(), noise=0.05, seed=seed))
    before = profiler.progress
    assert before == (0, 18)
    while not profiler.done:
        card.tick()
        now = profiler.progress
        assert now[0] >= before[0]
        assert now[1] <= before[1]
        before = now
    assert before[0] == before[1] == len(profiler.windows)


@pytest.mark.parametrize("step_s", [1.0, 4.0, 8.0, 9.9, 12.0, 45.0])
def test_long_steps_are_measured_as_well_as_short_ones(step_s):
    """Windows grow until a step, or a tick, more or less at their edges is a matter of a few per cent."""
    job = Job(flat(step_s, 250.0), step_units=1.0, noise=0.02)
    card = Controller(Profiler(plan(300.0, 200.0)), job).run()
    assert by_limit(card.windows) == [300, 200, 200, 300]
    for window in card.windows:
        assert abs(truth(job.at, window)["time"]) < 0.08
        assert abs(truth(job.at, window)["power"]) < 1e-6
        assert window.seconds <= 230


def test_lumps_of_a_batch_count_as_lumps():
    """A job that counts samples, 256 a step, has steps all the same."""
    job = Job(lambda _w: (8.0 / 256, 250.0), step_units=256.0, noise=0.02)
    card = Controller(Profiler(plan(300.0)), job).run()
    assert all(window.seconds >= 100 for window in card.windows)
    assert all(abs(truth(job.at, window)["time"]) < 0.07 for window in card.windows)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000))
def test_the_age_of_a_report_does_not_blur_a_window(seed):
    """Reports every five seconds, a second sooner or later, beside ticks of ten: within 1.5 % where told when."""
    job = Job(curve(), report_s=5.0, jitter_s=1.0, seed=seed)
    card = Controller(Profiler(plan(300.0, 250.0, 200.0)), job).run()
    assert card.profiler.done
    for window in card.windows:
        assert abs(truth(job.at, window)["time"]) < 0.015
        assert abs(truth(job.at, window)["power"]) < 1e-6


def test_a_window_waits_for_the_units_it_was_asked_for():
    """Both bounds hold: seconds and units."""
    card = Controller(Profiler(plan(300.0, min_units=1000.0)), Job(flat(0.1, 250.0))).run()
    assert all(w.units >= 1000 and w.seconds >= 100 for w in card.windows)


def test_a_frontier_before_the_reference_was_measured_is_an_error():
    """There is nothing to compare with yet, and it says so."""
    with pytest.raises(ValueError, match="at least one"):
        Profiler(plan()).frontier()
    profiler = Profiler(plan(300.0, 200.0))
    Controller(profiler, Job(curve())).run(ticks=6)
    assert by_limit(profiler.windows) == [300]
    assert profiler.frontier().reference.setting == Setting(power_limit_w=300.0)


def test_notes_say_what_it_waits_for():
    """A person who asks reads the seconds so far, or the setting that is not in force."""
    profiler = Profiler(plan(300.0, 200.0))
    card = Controller(profiler, Job(curve()))
    card.foreign = Setting(power_limit_w=150.0)
    card.tick()
    assert profiler.note == "waiting for 300 W to be in force"
    card.foreign = None
    for _ in range(4):
        card.tick()
    assert profiler.note == "20 s of at least 30 s at 300 W"
