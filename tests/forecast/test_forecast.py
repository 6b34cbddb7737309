"""The first forecaster: persistence that decays into the shape of the last days."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.forecast import extrapolate
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
