"""How uncertain a saving is: from intensities that were not measured, and from the profile."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from account_cases import THREE, jobs, work
from hypothesis import given
from hypothesis import strategies as st

from chase.accounting import summarise
from chase.accounting.doubt import RELATIVE_ERROR
from providers.base import Kind
from zeus_core.frontier import Frontier

STEPS = [(300.0, 3600, 100.0), (200.0, 3600, 500.0), (250.0, 7200, 300.0)]
PARTS = ("saved", "efficiency", "timing")


def scattered(spreads: tuple[float, float, float], samples: int = 4) -> Frontier:
    """THREE, whose points scatter by so much over so many windows."""
    points = (replace(p, spread=s, samples=samples) for p, s in zip(THREE.points, spreads, strict=True))
    return Frontier.of(points)


def deviations(steps, frontier: Frontier, kind: Kind = Kind.MEASURED) -> tuple[float, float, float]:
    summary = summarise(work(frontier, steps, kind=kind), frontier)
    return tuple(getattr(summary, f"{name}_grams_sd") for name in PARTS)


def test_what_was_measured_is_taken_as_it_is():
    """Measured intensities and a profile of one window a setting leave nothing to tell it by, and that is said."""
    summary = summarise(work(THREE, STEPS), THREE)
    assert deviations(STEPS, THREE) == (0.0, 0.0, 0.0)
    assert not summary.profile_spread_known
    assert summarise(work(scattered((0.01,) * 3), STEPS), scattered((0.01,) * 3)).profile_spread_known


def test_every_kind_of_intensity_has_an_error():
    """The less is known, the more; a kind that is new must be thought of."""
    assert [RELATIVE_ERROR[kind] for kind in Kind] == sorted(RELATIVE_ERROR.values())
    assert set(RELATIVE_ERROR) == set(Kind)


@pytest.mark.parametrize("kind", [Kind.ESTIMATED, Kind.FORECAST, Kind.TYPICAL])
def test_a_short_job_errs_as_its_one_intensity_does(kind: Kind):
    """Within one stretch of six hours all is one error: of the saving the relative error itself."""
    steps = [(200.0, 3600, 400.0)]
    summary = summarise(work(THREE, steps, kind=kind), THREE)
    assert summary.saved_grams_sd == pytest.approx(RELATIVE_ERROR[kind] * summary.saved_grams)
    assert summary.efficiency_grams_sd == pytest.approx(summary.saved_grams_sd)
    assert summary.timing_grams_sd == pytest.approx(0.0, abs=1e-9)


def test_errors_of_many_stretches_cancel_in_part_and_never_altogether():
    """Of twenty days half the variance is common and stays: the rest of it is divided by eighty."""
    steps = [(200.0, 0.8 * 21600, 400.0)] * 80
    summary = summarise(work(THREE, steps, kind=Kind.TYPICAL), THREE)
    eps = RELATIVE_ERROR[Kind.TYPICAL]
    assert summary.saved_grams_sd == pytest.approx(eps * summary.saved_grams * math.sqrt(0.5 + 0.5 / 80))


def test_timing_stays_in_doubt_where_its_parts_cancel():
    """Gains of one day and losses of the next add up to little, which is less certain than its relative error says."""
    with_grid, against = [(300.0, 40e3, 0.0), (200.0, 32e3, 900.0)], [(200.0, 32e3, 100.0), (300.0, 40e3, 500.0)]
    summary = summarise(work(THREE, with_grid + against, kind=Kind.TYPICAL), THREE)
    assert summary.timing_grams_sd > 2 * RELATIVE_ERROR[Kind.TYPICAL] * abs(summary.timing_grams)


def test_only_what_was_not_measured_counts():
    """Half the energy estimated: less than all of it, more than none."""
    measured, typical = work(THREE, STEPS), work(THREE, STEPS, kind=Kind.TYPICAL)
    half = [*measured[:1], *typical[1:2], *measured[2:]]
    some, all_of_it = (summarise(rows, THREE).saved_grams_sd for rows in (half, typical))
    assert 0 < some < all_of_it


def test_the_profile_counts_where_a_figure_rests_on_it():
    """What was drawn is metered: saved rests on the reference alone, timing on the best fixed mix alone."""
    reference_only, mix_only = scattered((0.1, 0.0, 0.0)), scattered((0.0, 0.1, 0.2))
    summary = summarise(work(reference_only, STEPS), reference_only)
    error = 0.1 / math.sqrt(4)
    assert deviations(STEPS, reference_only) == pytest.approx(
        (summary.reference_grams * error, summary.reference_grams * error, 0.0)
    )
    saved, efficiency, timing = deviations(STEPS, mix_only)
    assert saved == 0.0
    assert efficiency == pytest.approx(timing)
    assert timing > 0


def test_an_error_of_one_point_is_one_error():
    """A job that ran at full power all along saved nothing, whatever the reference's energy is: both sides have it."""
    unsure = scattered((0.2, 0.2, 0.2))
    _, efficiency, timing = deviations([(300.0, 3600, 400.0)], unsure)
    assert efficiency == pytest.approx(0.0, abs=1e-9)
    assert timing > 0


@given(jobs(st.floats(0.0, 900.0)), st.floats(0.0, 0.3), st.integers(2, 9))
def test_both_sources_of_doubt_add_in_quadrature(job, spread, samples):
    """Intensity and profile are independent, and each alone is less than both."""
    chosen, rows = job
    unsure = Frontier.of(replace(p, spread=spread, samples=samples) for p in chosen.points)
    typical = [replace(row, intensity_kind="typical") for row in rows]
    both, of_profile, of_grid = summarise(typical, unsure), summarise(rows, unsure), summarise(typical, chosen)
    for name in PARTS:
        one, other = (getattr(summary, f"{name}_grams_sd") for summary in (of_profile, of_grid))
        assert getattr(both, f"{name}_grams_sd") == pytest.approx(math.hypot(one, other), abs=1e-9)


def test_without_a_frontier_nothing_is_said_of_it():
    """The saving of the rows alone has no ±: what the reference rests on is not at hand."""
    summary = summarise(work(THREE, STEPS))
    assert summary.saved_grams is not None
    assert summary.saved_grams_sd is None
