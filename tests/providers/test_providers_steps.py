"""How long an interval lasts that has only a start, and when a forecast came out that does not say."""

from __future__ import annotations

from datetime import timedelta
from itertools import accumulate, pairwise

import pytest
from grid_server import NOW
from hypothesis import given
from hypothesis import strategies as st

from providers.base import Boundary, IntensityPoint, Kind, Scope, Signal
from providers.first_seen import FirstSeen
from providers.steps import LONGEST, ends_by_distance

MINUTE = timedelta(minutes=1)
QUARTER = 15 * MINUTE


def _lengths(*minutes):
    starts = [NOW + at * MINUTE for at in accumulate((0, *minutes))]
    until = ends_by_distance(starts, alone=QUARTER)
    return [(until[start] - start) / MINUTE for start in starts]


@pytest.mark.parametrize(
    ("distances", "lengths"),
    [
        ((), [15]),
        ((60,), [60, 60]),
        ((15, 15, 15), [15, 15, 15, 15]),
        ((60, 60, 15, 15), [60, 60, 15, 15, 15]),
        ((15, 15, 60, 60), [15, 15, 60, 60, 60]),
        ((15, 15, 45, 15), [15, 15, 15, 15, 15]),
        ((15, 15, 60, 15), [15, 15, 15, 15, 15]),
        ((60, 180, 60), [60, 60, 60, 60]),
        ((15, 15, 600), [15, 15, 15, 15]),
        ((600,), [15, 15]),
        ((600, 600), [15, 15, 15]),
        ((5,), [5, 5]),
    ],
)
def test_an_interval_lasts_as_long_as_its_neighbours(distances, lengths):
    """A change of step is followed, a hole is not filled, and the last one is like the one before it."""
    assert _lengths(*distances) == lengths


@given(st.lists(st.integers(1, 50_000), max_size=30))
def test_no_interval_overlaps_the_next_or_is_longer_than_an_hour(minutes):
    """Whatever the starts are."""
    starts = [NOW + minute * MINUTE for minute in minutes]
    until = ends_by_distance(starts, alone=QUARTER)
    assert set(until) == set(starts)
    assert all(timedelta(0) < until[start] - start <= LONGEST for start in starts)
    assert all(until[here] <= after for here, after in pairwise(sorted(set(starts))))


@given(st.integers(1, 8), st.integers(1, 8), st.integers(2, 40))
def test_a_hole_in_steady_data_does_not_lengthen_what_is_before_it(before, after, missing):
    """Of quarters in a row some are left out: what remains are quarters."""
    assert set(_lengths(*[15] * before, 15 * missing, *[15] * after)) == {15}


def _point(minute, value, read_at):
    start = NOW + minute * MINUTE
    labels = {"signal": Signal.AVERAGE, "scope": Scope.DIRECT, "boundary": Boundary.PRODUCTION, "source": "grid"}
    times = {"start": start, "end": start + QUARTER, "fetched_at": NOW + read_at * MINUTE}
    return IntensityPoint(zone="XX", g_per_kwh=value, kind=Kind.FORECAST, **labels, **times)


@given(st.lists(st.dictionaries(st.integers(0, 5), st.integers(1, 3)), max_size=8))
def test_a_value_is_as_old_as_the_run_of_readings_that_had_it(readings):
    """Read again it keeps its date; once it changed, or was left out, it is new."""
    seen = FirstSeen()
    for number, reading in enumerate(readings):
        dated = seen.dated([_point(start, float(value), number) for start, value in reading.items()])
        for point, (start, value) in zip(dated, reading.items(), strict=True):
            first = number
            while first and readings[first - 1].get(start) == value:
                first -= 1
            assert point.issued_at == NOW + first * MINUTE
            assert point.fetched_at == NOW + number * MINUTE
