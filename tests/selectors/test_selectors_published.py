"""Selectors against figures that others published for the same measurements."""

from __future__ import annotations

import pytest
from power_sweeps import SWEEPS, Choice, Sweep

from zeus_core.frontier import Frontier, OperatingPoint, Setting
from zeus_core.selectors import Energy, MaxSlowdown, Selector, ZeusCost

BEATEN = "A40 bert"  # where Zeus's rule for a slowdown takes a point that another beats in both time and energy


def chosen(sweep: Sweep, selector: Selector) -> Choice:
    """Limit, and energy and time against the highest limit in per cent, to the published digit."""
    frontier = sweep.frontier
    point = selector.choose(frontier.points)
    energy = point.joules_per_unit / frontier.reference.joules_per_unit - 1
    limit_w = point.setting.power_limit_w or 0.0
    return limit_w, round(100 * energy, 1) + 0.0, round(100 * frontier.slowdown(point), 1) + 0.0


def lowest_admissible(sweep: Sweep, factor: float) -> OperatingPoint:
    """Zeus's rule: the lowest limit that takes at most ``factor`` times as long as the highest."""
    frontier = sweep.frontier
    bound_s = factor * frontier.reference.seconds_per_unit
    admissible = [p for p in frontier.points if p.seconds_per_unit <= bound_s]
    return min(admissible, key=lambda p: p.setting.power_limit_w or 0.0)


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.name)
def test_energy_chooses_what_zeus_chooses(sweep: Sweep):
    """Least energy on each of twelve sweeps, with the published energy and time."""
    assert chosen(sweep, Energy()) == sweep.energy


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.name)
def test_zeus_cost_chooses_what_zeus_chooses(sweep: Sweep):
    """Zeus's cost at eta 0.5 with MaxPower over all GPUs of the sweep."""
    assert chosen(sweep, ZeusCost(0.5, sweep.max_power_w)) == sweep.zeus_cost


@pytest.mark.parametrize("sweep", [s for s in SWEEPS if s.name != BEATEN], ids=lambda sweep: sweep.name)
def test_max_slowdown_chooses_what_zeus_chooses(sweep: Sweep):
    """Ten per cent of slowdown against the highest limit."""
    assert chosen(sweep, MaxSlowdown(1.1, sweep.frontier.reference)) == sweep.max_slowdown


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.name)
def test_max_slowdown_never_does_worse_than_the_lowest_admissible_limit(sweep: Sweep):
    """Zeus's rule gives the published choice; ours takes at most that energy within the same bound."""
    published = lowest_admissible(sweep, 1.1)
    ours = MaxSlowdown(1.1, sweep.frontier.reference).choose(sweep.frontier.points)
    assert published.setting.power_limit_w == sweep.max_slowdown[0]
    assert ours.joules_per_unit <= published.joules_per_unit


def test_max_slowdown_leaves_a_point_that_is_beaten_in_both():
    """On the noisy BERT sweep the lowest admissible limit, 250 W, is slower than 275 W and takes more energy."""
    sweep = next(s for s in SWEEPS if s.name == BEATEN)
    assert sweep.max_slowdown == (250, -4.9, 6.6)
    assert chosen(sweep, MaxSlowdown(1.1, sweep.frontier.reference)) == (275, -5.7, -2.3)


def test_one_gpus_max_power_misjudges_a_job_of_several():
    """With the limit of one GPU against the energy of all, three of the four multi-GPU sweeps choose otherwise."""
    several = [sweep for sweep in SWEEPS if sweep.gpus > 1]
    one = {s.name: chosen(s, ZeusCost(0.5, s.max_power_w / s.gpus))[0] for s in several}
    flipped = [s.name for s in several if one[s.name] != s.zeus_cost[0]]
    assert (len(several), len(flipped)) == (4, 3)
    assert one["A40x4 resnet18"] == 100


CHASE_RUN = Frontier.of(
    OperatingPoint(Setting(power_limit_w=limit_w), hours * 3600, kwh * 3.6e6)
    for limit_w, hours, kwh in (
        (300.0, 1.0096, 0.2791),
        (295.0, 1.0140, 0.2842),
        (220.0, 1.0407, 0.2215),
        (195.0, 1.0768, 0.2050),
    )
)
"""One epoch of ResNet-50 on an A40, read off the figures of the Chase paper (arXiv 2303.02508)."""


@pytest.mark.parametrize(
    ("intensity", "limit_w"), [(0, 300), (380, 300), (389, 220), (750, 220), (1550, 220), (1570, 195)]
)
def test_the_papers_own_rule_on_its_own_averages(intensity, limit_w):
    """At eta 0.24 and a reference of 750 it leaves 300 W at 385 g/kWh and 220 W at 1559, and never takes 295 W."""
    rule = ZeusCost(eta=0.24, max_power_w=300).priced(intensity / 750)
    assert rule.choose(CHASE_RUN.points).setting.power_limit_w == limit_w


def test_the_papers_thresholds_in_closed_form():
    """(1 - eta) / eta * MaxPower * MaxCI * (T_j - T_i) / (E_i - E_j), read from the switch prices."""
    thresholds = [0.76 / 0.24 * 300 * 750 / price for price in CHASE_RUN.switch_prices()]
    assert thresholds == pytest.approx([385, 1559], abs=0.5)
