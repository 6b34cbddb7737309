"""Any point that a source may give."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from providers.base import Boundary, IntensityPoint, Kind, Market, PricePoint, Scope, Signal

hour = timedelta(hours=1)
times = st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  zoned right here
starts = st.one_of(times, times.map(lambda at: at.replace(minute=0, second=0, microsecond=0)))
lengths = st.one_of(st.sampled_from([hour / 12, hour / 2, hour]), st.timedeltas(timedelta(microseconds=1), 30 * hour))
grams = st.floats(-1e4, 1e4)
points = st.builds(
    lambda start, length, **more: IntensityPoint(start=start, end=start + length, **more),
    start=starts,
    length=lengths,
    zone=st.sampled_from(["GB", "DE", "Ö'"]),
    g_per_kwh=grams,
    kind=st.sampled_from(Kind),
    signal=st.sampled_from(Signal),
    scope=st.sampled_from(Scope),
    boundary=st.sampled_from(Boundary),
    source=st.sampled_from(["neso", "other"]),
    fetched_at=times,
    issued_at=st.none() | times,
    updated_at=st.none() | times,
    method=st.sampled_from(["", "mode", 'a "method"']),
)
prices = st.builds(
    lambda start, length, **more: PricePoint(start=start, end=start + length, **more),
    start=starts,
    length=lengths,
    zone=st.sampled_from(["GB", "DE-LU"]),
    price_per_kwh=st.floats(-10, 10),
    currency=st.sampled_from(["EUR", "GBP"]),
    market=st.sampled_from(Market),
    source=st.sampled_from(["octopus", "entsoe"]),
    fetched_at=times,
    updated_at=st.none() | times,
    licence=st.sampled_from(["", "CC BY 4.0"]),
)
