from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from account_cases import T0, THREE, booked, point, series, standstill, work
from hypothesis import given
from hypothesis import strategies as st

from chase import accounting
from providers.base import Kind


def test_the_counterfactual_is_the_same_work_at_full_power():
    """Joules, seconds and grams of the reference belong to the same units, at the same intensity."""
    row = booked(series=series(point(0, 60, 300.0)), frontier=THREE, pue=1.2)
    assert (row.reference_energy_j, row.reference_s) == (48.0 * 300.0, 48.0)
    assert row.grams == pytest.approx(12_000 * 1.2 * 300 / 3.6e6)
    assert row.reference_grams == pytest.approx(48 * 300 * 1.2 * 300 / 3.6e6)
    assert (row.intensity_g_per_kwh, row.intensity_kind, row.progress) == (300.0, "measured", True)


def test_without_a_frontier_there_is_no_counterfactual():
    """Energy is priced all the same."""
    row = booked(series=series(point(0, 60, 300.0)))
    assert (row.reference_energy_j, row.reference_s, row.reference_grams) == (None, None, None)
    assert row.grams == pytest.approx(1.0)


def test_without_an_intensity_grams_are_unknown():
    """Unknown grams are None, not 0; the reference's energy is known."""
    row = booked(frontier=THREE)
    assert (row.grams, row.reference_grams, row.intensity_kind) == (None, None, "")
    assert row.reference_energy_j == 48.0 * 300.0


@pytest.mark.parametrize("units", [0.0, -5.0])
def test_no_progress_books_no_reference(units: float):
    """A job that hangs draws little; that is no saving (rule G25). No work costs nothing at full power."""
    row = booked(units=units, series=series(point(0, 60, 300.0)), frontier=THREE)
    assert (row.progress, row.reference_energy_j, row.reference_s, row.reference_grams) == (False, 0.0, 0.0, 0.0)
    assert row.grams == pytest.approx(1.0)


@pytest.mark.parametrize("units", [0.0, 48.0])
def test_what_must_not_be_compared_has_no_reference(units: float):
    """The GPU was shared, or the frontier is wrong: the rest of the row is as ever."""
    known = series(point(0, 60, 300.0))
    row = booked(units=units, series=known, frontier=THREE, pue=1.2, compare=False)
    compared = booked(units=units, series=known, frontier=THREE, pue=1.2)
    nothing = {f"reference_{name}": None for name in ("energy_j", "host_energy_j", "s", "grams")}
    assert row == replace(compared, **nothing)
    (again,) = accounting.reprice([row], series(point(0, 60, 150.0)))
    assert again == replace(row, intensity_g_per_kwh=150.0, grams=pytest.approx(row.grams / 2))


def test_the_series_goes_before_the_value_gone_by():
    """What is known of the interval itself is better than the last value."""
    last = point(-60, 0, 900.0)
    assert booked(series=series(point(0, 60, 300.0)), point=last).intensity_g_per_kwh == 300.0
    carried = booked(point=last)
    assert (carried.intensity_g_per_kwh, carried.intensity_kind) == (900.0, "estimated")


@pytest.mark.parametrize("stepped_s", [-3600.0, 3600.0])
def test_the_monotonic_clock_decides_the_length(stepped_s: float):
    """The wall clock was moved by an hour in between; the interval still lasted a minute."""
    row = booked(end=T0 + timedelta(seconds=60 + stepped_s), seconds=60.0, series=series(point(0, 60, 300.0)))
    assert row.end - row.start == timedelta(seconds=60)
    assert row.grams == pytest.approx(1.0)


def test_repricing_changes_the_price_and_nothing_else():
    """A revised series gives new grams for the same joules, with the PUE that was booked."""
    rows = work(THREE, [(300.0, 60, 100.0), (200.0, 40, 200.0)], pue=1.3)
    revised = accounting.reprice(rows, series(point(0, 60, 150.0), point(60, 200, 250.0)))
    assert [row.intensity_g_per_kwh for row in revised] == [150.0, 250.0]
    for old, new in zip(rows, revised, strict=True):
        assert new.grams == pytest.approx(new.energy_j * 1.3 * new.intensity_g_per_kwh / 3.6e6)
        assert new.reference_grams == pytest.approx(new.reference_energy_j * 1.3 * new.intensity_g_per_kwh / 3.6e6)
        same = {
            "intensity_g_per_kwh": old.intensity_g_per_kwh,
            "grams": old.grams,
            "reference_grams": old.reference_grams,
        }
        assert replace(new, **same) == old


def test_repricing_gives_a_price_to_what_had_none():
    """A point published later prices the interval, with the PUE of the job's other intervals."""
    rows = work(THREE, [(300.0, 60, 100.0), (300.0, 60, None)], pue=1.5)
    first, second = accounting.reprice(rows, series(point(60, 120, 200.0)))
    assert first == rows[0]
    assert second.grams == pytest.approx(60 * 300 * 1.5 * 200 / 3.6e6)


@pytest.mark.parametrize(
    ("had", "known", "taken"),
    [
        (Kind.TYPICAL, Kind.MEASURED, True),
        (Kind.ESTIMATED, Kind.ESTIMATED, True),
        (Kind.MEASURED, Kind.ESTIMATED, False),
        (Kind.ESTIMATED, Kind.TYPICAL, False),
    ],
)
def test_a_price_is_never_replaced_by_a_worse_one(had: Kind, known: Kind, taken: bool):
    """Measured stays measured when the series at hand has only an estimate."""
    rows = work(THREE, [(300.0, 60, 100.0)], kind=had)
    (new,) = accounting.reprice(rows, series(point(0, 60, 500.0, known)))
    assert (new.intensity_g_per_kwh == 500.0) is taken


@given(st.floats(-200, 1000), st.sampled_from([1.0, 1.1, 2.0]))
def test_repricing_at_the_same_intensity_changes_nothing(g_per_kwh: float, pue: float):
    """Also for a price of zero or below, when the PUE is given."""
    rows = [*work(THREE, [(250.0, 100, g_per_kwh)], pue=pue), standstill(105, 60, 3000.0, None)]
    again = accounting.reprice(rows, series(point(0, 105, g_per_kwh)), pue=pue)
    assert all(one is other for one, other in zip(again, rows, strict=True))


@given(st.floats(-200, 1000), st.floats(1.0, 2.0))
def test_repricing_twice_is_repricing_once(g_per_kwh: float, pue: float):
    """The PUE that is taken back out of a price does not drift: the second time gives the very same records."""
    once = accounting.reprice(work(THREE, [(250.0, 100, 77.0)], pue=pue), series(point(0, 105, g_per_kwh)))
    (twice,) = accounting.reprice(once, series(point(0, 105, g_per_kwh)))
    assert twice is once[0]
