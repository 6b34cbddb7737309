"""The best fixed setting is one thing to the account of a job, to what is expected of it, and to a replay."""

from __future__ import annotations

import numpy as np
import pytest
from account_cases import T0, THREE, frontier, frontiers, work
from hypothesis import given
from hypothesis import strategies as st

from chase.accounting import best_fixed, hosted, summarise
from chase.course import Course, Stretch, outcome
from chase.horizon import Horizon
from chase.replay.reference import Reference
from chase.replay.trace import Trace
from zeus_core.frontier import Frontier

HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("seconds", "energy_j", "takes_s"),
    [
        (900.0, 300e3, 900.0),
        (1000.0, 300e3, 1000.0),
        (1050.0, 252e3, 1050.0),
        (1150.0, 246e3, 1150.0),
        (1250.0, 240e3, 1250.0),
        (2000.0, 240e3, 1250.0),
    ],
)
def test_it_takes_the_time_that_there_is_or_less(seconds, energy_j, takes_s):
    """A thousand units at 300, 252 and 240 J: a hull point, a mix of two, and with time to spare the frugal one."""
    found = best_fixed(THREE, 1000.0, seconds)
    assert (found.energy_j, found.seconds) == (pytest.approx(energy_j), pytest.approx(takes_s))
    assert found.power_w == pytest.approx(energy_j / takes_s)


def test_one_that_is_done_early_is_priced_until_then():
    """A job at 150 W takes 2000 s and 260 kJ; the frugal setting needs 1250 s, all of them clean, and 240 kJ."""
    slow = frontier((300.0, 1.0, 300.0), (200.0, 1.25, 240.0), (150.0, 2.0, 260.0))
    found = summarise(work(slow, [(150.0, 625.0, 100.0), (150.0, 375.0, 500.0)]), slow)
    fixed = 240e3 * 100 / 3.6e6
    assert found.grams == pytest.approx((162.5e3 * 100 + 97.5e3 * 500) / 3.6e6)
    assert found.efficiency_grams == pytest.approx(found.reference_grams - fixed)
    assert found.timing_grams == pytest.approx(fixed - found.grams)


@given(frontiers(), st.floats(0.0, 400.0), st.lists(st.integers(1, 900), min_size=1, max_size=12), st.data())
def test_accounts_plans_and_replays_agree_on_it(chosen: Frontier, host_w, intensities, data):
    """A job that stood at any setting, slower than the frugal one too, is compared with the same grams by all three."""
    done = data.draw(st.sampled_from(chosen.points))
    limit_w, rate = done.setting.power_limit_w, done.rate
    seconds, units = HOUR_S * len(intensities), HOUR_S * len(intensities) * rate
    rows = work(chosen, [(limit_w, HOUR_S * rate, float(g)) for g in intensities], host_power_w=host_w)
    account = summarise(rows, chosen)

    hours = np.array(intensities, float)
    replayed = Reference(Trace("XX", T0, HOUR_S, hours), chosen, T0, units, host_w=host_w).fixed(seconds)

    horizon = Horizon.of(np.full(len(hours), HOUR_S), hours, hours, hours)
    drawn_j, mean = (done.power_w + host_w) * seconds, float(hours.mean())
    parts = ((done.setting, 1.0),)
    course = Course((Stretch(0.0, seconds, parts, units, drawn_j, mean, mean, mean, 0.0),), horizon, ends=True)
    expected = outcome(course, horizon, chosen, host_w)

    assert replayed.energy_j == pytest.approx(best_fixed(hosted(chosen, host_w), units, seconds).energy_j, rel=1e-6)
    assert account.reference_grams - account.efficiency_grams == pytest.approx(replayed.grams, rel=1e-5)
    assert expected.fixed == pytest.approx(replayed.grams, rel=1e-5)
