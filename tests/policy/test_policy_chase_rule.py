"""The paper's rule as the service takes it: Zeus at its reference, and a threshold in closed form.

The selectors' own tests are in tests/selectors; here it is the policy, through everything that it reads.
"""

from __future__ import annotations

import itertools

import pytest
from frontier_strategies import points
from hypothesis import assume, given
from hypothesis import strategies as st

from chase.policy import Grid, PolicyInput, Rules, choose
from zeus_core.frontier import Frontier, OperatingPoint, Setting
from zeus_core.selectors import Energy, Time, ZeusCost

FRONTIERS = points().map(Frontier.of)
APART = points(seconds=st.integers(1, 1000).map(float), joules=st.integers(1, 10**6).map(float)).map(Frontier.of)
ETAS = st.floats(0.01, 0.99)
WATTS = st.floats(10, 1e4)
INTENSITIES = st.floats(1, 1500)
NEAR = 1e-9


def taken(frontier: Frontier, eta: float, max_power_w: float, ci: float, max_ci: float) -> OperatingPoint:
    """The point that the policy chooses at ``ci`` g/kWh."""
    choice = choose(
        PolicyInput(
            frontier=frontier,
            rules=Rules(name="chase", eta=eta, dwell_s=0.0),
            grid=Grid(g_per_kwh=ci, kind="measured", freshness="fresh", reference_g=max_ci),
            max_power_w=max_power_w,
        )
    )
    assert choice.code == "eq6"
    return frontier.at(choice.setting)


@given(FRONTIERS, ETAS, WATTS, INTENSITIES)
def test_a_grid_at_its_reference_gives_zeus_own_choice(frontier, eta, max_power_w, max_ci):
    """Eq 6 with CI always at MaxCI is Zeus's Eq 7: any profile, to the point."""
    assert taken(frontier, eta, max_power_w, max_ci, max_ci) == ZeusCost(eta, max_power_w).choose(frontier.points)


@given(APART, ETAS, WATTS, INTENSITIES)
def test_the_setting_changes_at_the_threshold_in_closed_form(frontier, eta, max_power_w, max_ci):
    """Neighbours i and j change at (1 - eta) / eta * MaxPower * MaxCI * (T_j - T_i) / (E_i - E_j)."""
    time_w = (1 - eta) / eta * max_power_w * max_ci
    for fast, slow in itertools.pairwise(frontier.hull):
        lost_s, saved_j = slow.seconds_per_unit - fast.seconds_per_unit, fast.joules_per_unit - slow.joules_per_unit
        threshold = time_w * lost_s / saved_j
        below = taken(frontier, eta, max_power_w, threshold * (1 - NEAR), max_ci)
        above = taken(frontier, eta, max_power_w, threshold * (1 + NEAR), max_ci)
        assert below.seconds_per_unit <= fast.seconds_per_unit
        assert above.seconds_per_unit >= slow.seconds_per_unit


@given(FRONTIERS, ETAS, WATTS, st.floats(0, 5000), INTENSITIES)
def test_only_points_of_the_hull_are_ever_taken(frontier, eta, max_power_w, ci, max_ci):
    """Whatever lies above the hull of time and energy is dominated by a mixture."""
    assert taken(frontier, eta, max_power_w, ci, max_ci) in frontier.hull


@given(FRONTIERS, ETAS, WATTS, st.lists(st.floats(0, 5000), min_size=2, max_size=6), INTENSITIES)
def test_dirtier_never_means_faster(frontier, eta, max_power_w, values, max_ci):
    """p* does not rise with CI."""
    times = [taken(frontier, eta, max_power_w, ci, max_ci).seconds_per_unit for ci in sorted(values)]
    assert times == sorted(times)


@given(FRONTIERS, st.lists(st.floats(0, 1), min_size=2, max_size=6), WATTS, st.floats(0, 5000), INTENSITIES)
def test_a_greater_eta_never_means_faster(frontier, etas, max_power_w, ci, max_ci):
    """p* does not fall as eta goes to 0."""
    times = [taken(frontier, eta, max_power_w, ci, max_ci).seconds_per_unit for eta in sorted(etas)]
    assert times == sorted(times)


@given(FRONTIERS, WATTS, INTENSITIES, INTENSITIES)
def test_the_ends_of_eta_are_time_only_and_carbon_only(frontier, max_power_w, ci, max_ci):
    """Eta 0 looks at no grid at all, eta 1 at no clock."""
    assert taken(frontier, 0.0, max_power_w, ci, max_ci) == Time().choose(frontier.points)
    assert taken(frontier, 1.0, max_power_w, ci, max_ci) == Energy().choose(frontier.points)


@given(APART, ETAS, INTENSITIES, INTENSITIES, st.floats(0.1, 10))
def test_another_reference_is_another_eta(frontier, eta, ci, max_ci, k):
    """MaxCI times k chooses as eta / (eta + (1 - eta) k) does, which is why a job's reference is fixed."""
    time_w, other = (1 - eta) / eta * 300.0 * max_ci * k, eta / (eta + (1 - eta) * k)
    assume(all(abs(ci * price / time_w - 1) > NEAR for price in frontier.switch_prices()))
    assert taken(frontier, eta, 300.0, ci, max_ci * k) == taken(frontier, other, 300.0, ci, max_ci)


def test_the_papers_profile_holds_one_setting_all_along():
    """With its own averages and eta .24 the rule leaves 300 W at 385 g/kWh and 220 W at 1559.

    The trace lies within: the changes of the paper's figure 1 came from the noise of a short profile.
    """
    measured = ((300.0, 1.0096, 0.2791), (295.0, 1.0140, 0.2842), (220.0, 1.0407, 0.2215), (195.0, 1.0768, 0.2050))
    frontier = Frontier.of(
        OperatingPoint(Setting(power_limit_w=limit_w), hours * 3600, kwh * 3.6e6) for limit_w, hours, kwh in measured
    )
    for ci, limit_w in ((384, 300), (386, 220), (528, 220), (681, 220), (1558, 220), (1561, 195)):
        assert taken(frontier, 0.24, 300.0, ci, 750.0).setting.power_limit_w == limit_w
    assert [0.76 / 0.24 * 300 * 750 / price for price in frontier.switch_prices()] == pytest.approx(
        [385, 1559], abs=0.5
    )
