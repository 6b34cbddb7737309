"""Thresholds that people gave as percentiles of a past."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from chase.policy import threshold_g
from chase.thresholds import Thresholds
from providers.base import Boundary, IntensityPoint, Kind, Scope, Signal

T0, HOUR = datetime(2026, 3, 1, tzinfo=UTC), timedelta(hours=1)
SPECS = (250.0, "p0", "p40", "p60", "p100")


def past_of(values: list[float]) -> tuple[IntensityPoint, ...]:
    return tuple(
        IntensityPoint(
            zone="XX",
            start=T0 + i * HOUR,
            end=T0 + (i + 1) * HOUR,
            g_per_kwh=value,
            kind=Kind.MEASURED,
            signal=Signal.AVERAGE,
            scope=Scope.DIRECT,
            boundary=Boundary.PRODUCTION,
            source="test",
            fetched_at=T0,
        )
        for i, value in enumerate(values)
    )


pasts = st.lists(st.floats(0, 1000), max_size=6).map(past_of)


@given(st.lists(st.tuples(pasts, st.sampled_from(SPECS), st.integers(1, 3)), max_size=8))
def test_what_is_remembered_of_a_past_is_that_of_no_other(asked):
    """Whichever pasts follow one another, and however often each is asked about: the percentile of this one."""
    thresholds = Thresholds()
    for past, spec, often in asked:
        expected = threshold_g(spec, [point.g_per_kwh for point in past])
        assert [thresholds.of(spec, past) for _ in range(often)] == [expected] * often
