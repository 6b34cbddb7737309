"""The typical profile: every hour of a year, by month and UTC hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.base import Kind, Scope
from providers.static import StaticProvider
from providers.testing import ProviderSuite

PROFILE = [[100.0 * month + hour for hour in range(24)] for month in range(1, 13)]
NOW = ProviderSuite.NOW


def _provider(**options):
    return StaticProvider(zone="GB", options={"g_per_kwh": PROFILE, **options}, now=lambda: NOW)


class TestStaticSuite(ProviderSuite):
    """The profile is a provider like any other."""

    @pytest.fixture
    def provider(self):
        return _provider(scope="lifecycle")


@given(st.integers(0, 50 * 366 * 86400), st.integers(0, 60))
def test_every_time_has_its_month_and_hour(second, hours):
    """Points cover the interval without a gap, each with the value of its own month and UTC hour."""
    start = datetime(1990, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    end = start + timedelta(hours=hours, minutes=1)
    points = _provider().observe(start, end).points
    assert points[0].start <= start
    assert points[-1].end >= end
    for before, after in pairwise(points):
        assert before.end == after.start
    assert all(point.g_per_kwh == 100.0 * point.start.month + point.start.hour for point in points)


def test_it_says_that_it_is_typical_and_whence():
    """Nobody takes it for a measurement, and its licence is at hand."""
    options = {"scope": "lifecycle", "source": "Some Grid", "year": 2023, "licence": "ODbL 1.0"}
    point = _provider(**options).forecast(NOW, NOW + timedelta(hours=1)).points[0]
    assert (point.kind, point.scope, point.method) == (Kind.TYPICAL, Scope.LIFECYCLE, "Some Grid 2023 ODbL 1.0")


def test_nothing_is_asked_for_nothing_is_given():
    """An empty interval has no points, and a boundless one ends after a year."""
    assert len(_provider().observe(NOW, NOW)) == 0
    assert len(_provider().observe(NOW, NOW.replace(year=2090))) == 366 * 24 + 1


def test_a_real_zero_is_kept():
    """A grid that is clean at night may say so."""
    provider = StaticProvider(zone="IS", options={"g_per_kwh": [[0] * 24] * 12}, now=lambda: NOW)
    assert provider.observe(NOW, NOW + timedelta(hours=1)).points[0].g_per_kwh == 0.0
