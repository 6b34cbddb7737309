"""Counting real training between looks at two counters."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_core.stretch import Gap, Sample, Stretch

STEPS = st.lists(st.tuples(st.floats(0.5, 20), st.floats(0, 100), st.floats(0, 5000)), min_size=1, max_size=40)


def samples(steps: list[tuple[float, float, float]]) -> list[Sample]:
    """Cumulative counters from their increments."""
    found = [Sample(0.0, 0.0, 0.0)]
    for seconds, units, joules in steps:
        last = found[-1]
        found.append(Sample(last.at_s + seconds, last.units + units, last.joules + joules))
    return found


def stretch_of(steps: list[tuple[float, float, float]]) -> Stretch:
    stretch = Stretch()
    for sample in samples(steps):
        stretch.add(sample)
    return stretch


def test_steady_progress_is_counted_from_edge_to_edge():
    """The first sighting is where it begins: four looks make three gaps."""
    stretch = stretch_of([(10.0, 100.0, 2500.0)] * 4)
    assert stretch.training() == Gap(30.0, 300.0, 7500.0)


def test_a_stretch_that_goes_on_loses_no_gap():
    """Begun at a sighting, the next look already closes a gap."""
    stretch = Stretch(Sample(0.0, 0.0), edge=True)
    stretch.add(Sample(10.0, 5.0, 100.0))
    assert stretch.training() == Gap(10.0, 5.0, 100.0)


def test_nothing_seen_is_nothing_counted():
    """No look, one look and looks without progress are no training."""
    assert Stretch().training() == Gap(0, 0, 0)
    assert not Stretch().enough(1.0)
    assert stretch_of([(10.0, 0.0, 700.0)] * 50).training() == Gap(0, 0, 0)


@given(STEPS)
def test_no_more_is_counted_than_there_was(steps):
    """Never more seconds, units or joules than the counters moved."""
    found = stretch_of(steps).training()
    end = samples(steps)[-1]
    assert found.seconds <= end.at_s * (1 + 1e-9)
    assert found.units <= end.units * (1 + 1e-9)
    assert found.joules <= end.joules * (1 + 1e-9)


@given(st.integers(3, 30), st.data())
def test_a_slow_gap_among_usual_ones_is_left_out(count, data):
    """Half the work in the same time is a stall, wherever it lies."""
    steps = [(10.0, 100.5, 2500.0)] * (count + 1)
    steps.insert(data.draw(st.integers(1, count)), (10.0, 50.25, 1600.0))
    assert stretch_of(steps).training().units == pytest.approx(100.5 * count)


def test_a_step_more_or_less_is_no_stall():
    """Two steps in one tick and one in the next are what a step of 7 s looks like."""
    steps = [(10.0, units, 2500.0) for units in (1.0, 1.0, 2.0, 1.0, 2.0, 1.0, 1.0)]
    assert stretch_of(steps).training().units == 8.0


def test_a_long_wait_for_one_step_is_a_stall():
    """Steps of 40 s, and one that took 125 s because a checkpoint was written."""
    one_step = [(10.0, 0.0, 2500.0)] * 3 + [(10.0, 1.0, 2500.0)]
    late = [(10.0, 0.0, 700.0)] * 8 + one_step + [(5.0, 0.0, 700.0)]
    found = stretch_of(one_step * 4 + late + one_step * 4).training()
    assert found.units == 7.0
    assert found.seconds == pytest.approx(40 * 7 + 5)


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        ([(10.0, 100.5, 1.0)], 30),  # fractions, seen at each look: nothing hidden
        ([(10.0, 101.0, 1.0), (10.0, 100.0, 1.0)], 30),  # single steps of 0.1 s
        ([(10.0, 3.0, 1.0), (10.0, 2.0, 1.0)], 70),  # single steps of 4 s: sixteen of them
        ([(10.0, 768.0, 1.0), (10.0, 512.0, 1.0)], 70),  # the same in samples of a batch of 256
        ([(10.0, 1.0, 1.0), (10.0, 0.0, 1.0)], 160),  # steps longer than a tick: sixteen ticks
        ([(10.0, 0.5, 1.0), (10.0, 0.0, 1.0)], 160),  # the same in halves of an epoch
        ([(10.0, 1.0, 1.0)], 160),  # a step a tick, which may be nearly two
    ],
)
def test_the_coarser_the_counter_the_longer_the_stretch(steps, seconds):
    """A stretch is enough once a lump or a tick at its edges is a sixteenth of it."""
    stretch, total = Stretch(), samples(steps * 40)
    enough = next(s.at_s for s in total if stretch.add(s) is None and stretch.enough(30.0))
    assert seconds <= stretch.training().seconds <= seconds + 20
    assert enough >= seconds


@given(st.floats(0.001, 0.999), st.floats(0, 1e6), st.floats(1e-3, 1e5))
def test_energy_at_the_time_of_a_report_lies_between_the_ticks(share, joules, more):
    """On the line between two ticks, and at a tick exactly the tick's."""
    before, tick = Sample(100.0, 5.0, joules), Sample(110.0, 7.0, joules + more)
    then = tick.as_of(100.0 + 10.0 * share, before)
    assert then.units == 7.0
    assert then.joules == pytest.approx(joules + share * more, rel=1e-6, abs=1e-3)
    assert then.follows(before)
    assert tick.follows(then)


@pytest.mark.parametrize("reported_s", [None, 100.0, 99.0, 110.0, 120.0, math.nan])
def test_a_report_outside_the_tick_is_taken_at_the_tick(reported_s):
    """Nothing is put before the last tick or after this one."""
    before, tick = Sample(100.0, 5.0, 10.0), Sample(110.0, 7.0, 20.0)
    assert tick.as_of(reported_s, before) == tick
    assert tick.as_of(105.0, None) == tick


def test_the_optimizer_imports_nothing_heavy():
    """Selectors and profiler need neither numpy nor anything of the network."""
    code = (
        "import sys, zeus_core.selectors, zeus_core.profiler\n"
        "print(sorted({'numpy', 'scipy', 'torch', 'requests', 'sqlite3', 'asyncio', 'statistics'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
