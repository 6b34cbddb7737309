"""The first forecaster: persistence that decays into the shape of the last days."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.forecast import extrapolate, fill_gaps
from providers.base import Boundary, IntensityPoint, Kind, Scope, Signal

START = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)


def point(start: datetime, value: float) -> IntensityPoint:
    return IntensityPoint(
        zone="XX",
        start=start,
        end=start + HOUR,
        g_per_kwh=value,
        kind=Kind.MEASURED,
        signal=Signal.AVERAGE,
        scope=Scope.DIRECT,
        boundary=Boundary.PRODUCTION,
        source="test",
        fetched_at=start + HOUR,
    )


def days(count: int) -> list[IntensityPoint]:
    """A perfect daily wave, 100 to 300 g/kWh."""
    return [point(START + i * HOUR, 200 + 100 * math.sin(2 * math.pi * i / 24)) for i in range(24 * count)]


def test_no_history_gives_no_forecast():
    """Nothing is invented from nothing."""
    assert extrapolate([], START, START + HOUR, made_at=START) == ()


def test_a_perfect_daily_wave_is_continued_exactly():
    """A grid that repeats each day is forecast without error at every lead."""
    history = days(3)
    end = history[-1].end
    ahead = extrapolate(history, end, end + 48 * HOUR, made_at=end)
    assert len(ahead) == 48
    for i, expected in enumerate(ahead):
        assert expected.g_per_kwh == pytest.approx(200 + 100 * math.sin(2 * math.pi * (72 + i) / 24))


def test_a_departure_decays():
    """Today 50 g above the shape: most of it is still there in an hour, little in a day."""
    history = days(6)
    last = history[-1]
    history[-1] = point(last.start, last.g_per_kwh + 50)
    shape = days(8)
    ahead = extrapolate(history, last.end, last.end + 25 * HOUR, made_at=last.end)
    departure = [p.g_per_kwh - s.g_per_kwh for p, s in zip(ahead, shape[144:], strict=False)]
    assert 30 < departure[0] < 50
    assert abs(departure[22]) < 10  # the same hour tomorrow holds a seventh of the departure in its mean


def test_under_a_day_of_history_leans_on_the_typical_profile():
    """With hours missing from the shape, the region's typical profile is the shape, raised to where we are."""
    ahead = extrapolate(
        [point(START, 150.0)], START, START + 3 * HOUR, made_at=START, typical=lambda at: 100.0 + at.hour
    )
    assert [round(p.g_per_kwh, 3) for p in ahead] == [150.0, 146.0, 142.5]


def test_points_say_what_they_are():
    """A forecast is labelled as ours, with when it was made, and keeps the signal of its history."""
    (first, *_) = extrapolate(days(2), START + 48 * HOUR, START + 50 * HOUR, made_at=START + 48 * HOUR)
    assert (first.kind, first.source, first.issued_at) == (Kind.FORECAST, "chase", START + 48 * HOUR)
    assert (first.signal, first.scope, first.zone) == (Signal.AVERAGE, Scope.DIRECT, "XX")


@given(st.lists(st.floats(0, 5000), min_size=1, max_size=80), st.integers(0, 200))
def test_any_history_gives_finite_values_of_at_least_zero(values, hours):
    """Whatever was observed, a forecast is a number that a grid can have."""
    history = [point(START + i * HOUR, value) for i, value in enumerate(values)]
    ahead = extrapolate(history, history[-1].end, history[-1].end + hours * HOUR, made_at=history[-1].end)
    assert len(ahead) == hours
    assert all(math.isfinite(p.g_per_kwh) and p.g_per_kwh >= 0 for p in ahead)


def _spans(points) -> list[tuple[float, float]]:
    return [((p.start - START) / HOUR, (p.end - START) / HOUR) for p in points]


def test_gaps_are_filled_with_the_parts_that_lie_in_them():
    """Before, between and after; a filler that sticks out is cut to the gap."""
    half = timedelta(minutes=30)
    theirs = [replace(point(START + 3 * half, 9.0), end=START + 5 * half), point(START + 8 * half, 9.0)]
    filler = [point(START + i * HOUR, float(i)) for i in range(8)]
    filled = fill_gaps(theirs, filler, START + half, START + 7 * HOUR)
    assert _spans(filled) == [
        (0.5, 1.0),
        (1.0, 1.5),
        (1.5, 2.5),
        (2.5, 3.0),
        (3.0, 4.0),
        (4.0, 5.0),
        (5.0, 6.0),
        (6.0, 7.0),
    ]
    assert [p.g_per_kwh for p in filled] == [0, 1, 9, 2, 3, 9, 5, 6]


def test_without_a_filler_gaps_stay_gaps():
    """Nothing is invented."""
    theirs = [point(START + HOUR, 1.0), point(START + 4 * HOUR, 2.0)]
    assert fill_gaps(theirs, (), START, START + 9 * HOUR) == tuple(theirs)


@given(st.sets(st.integers(0, 40)), st.integers(1, 3), st.integers(0, 119), st.integers(0, 600))
def test_any_points_and_a_whole_filler_leave_no_gap_and_no_overlap(starts, hours, minute, length):
    """Theirs are all there as they were, and the time between is covered exactly once."""
    theirs = [replace(point(START + i * 3 * HOUR, 1.0), end=START + (i * 3 + hours) * HOUR) for i in sorted(starts)]
    start = START + timedelta(minutes=minute)
    end = start + timedelta(minutes=7 * length)
    theirs = [p for p in theirs if p.end > start and p.start < end]
    filled = fill_gaps(theirs, [point(START + i * HOUR, 0.0) for i in range(80)], start, end)
    assert [p for p in filled if p.g_per_kwh == 1.0] == theirs
    assert all(a.end == b.start for a, b in pairwise(filled))
    if length:
        assert filled[0].start <= start
        assert filled[-1].end >= end
