"""What the grid is likely to do, from what it did: persistence that decays into the shape of the last days.

    x(t + h) = s(t + h) + rho^h * (x(t) - s(t))

with s the mean of each hour of the day over the last days, x(t) the last observation and rho the hourly decay of its
departure from the shape. With under a day of history s is the region's typical profile, or flat. This is the simple
forecaster of the first version; a fitted one replaces it behind the same function.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import fmean

from providers.base import IntensityPoint, Kind

SOURCE = "chase"
_DECAY_PER_HOUR = 0.9
_SHAPE_DAYS = 7
_STEP = timedelta(hours=1)

Typical = Callable[[datetime], float | None]


def extrapolate(
    history: Sequence[IntensityPoint],
    start: datetime,
    end: datetime,
    *,
    made_at: datetime,
    typical: Typical | None = None,
) -> tuple[IntensityPoint, ...]:
    """Hourly forecast points over ``[start, end)``; empty where ``history`` is. ``history`` ascends in time."""
    if not history:
        return ()
    last = history[-1]
    shape = _shape(history, typical)
    departure = last.g_per_kwh - shape(last.start)
    points = []
    at = start.replace(minute=0, second=0, microsecond=0)
    while at < end:
        lead_h = max(0.0, (at - last.start) / _STEP)
        value = max(0.0, shape(at) + _DECAY_PER_HOUR**lead_h * departure)
        points.append(_point(last, at, value, made_at))
        at += _STEP
    return tuple(points)


def fill_gaps(
    points: Sequence[IntensityPoint], filler: Sequence[IntensityPoint], start: datetime, end: datetime
) -> tuple[IntensityPoint, ...]:
    """``points``, and where they leave a gap in ``[start, end)`` the part of ``filler`` that lies in it. All ascend."""
    found: list[IntensityPoint] = []
    reach = start
    for point in points:
        found += _cut(filler, reach, min(point.start, end))
        found.append(point)
        reach = max(reach, point.end)
    return (*found, *_cut(filler, reach, end))


def _cut(points: Sequence[IntensityPoint], start: datetime, end: datetime) -> list[IntensityPoint]:
    """The parts of ``points`` that lie in ``[start, end)``."""
    inside = (point for point in points if start < point.end and point.start < end) if start < end else ()
    return [replace(point, start=max(point.start, start), end=min(point.end, end)) for point in inside]


def _shape(history: Sequence[IntensityPoint], typical: Typical | None) -> Callable[[datetime], float]:
    since = history[-1].start - timedelta(days=_SHAPE_DAYS)
    by_hour: dict[int, list[float]] = defaultdict(list)
    for point in history:
        if point.start > since:
            by_hour[point.start.hour].append(point.g_per_kwh)
    overall = fmean(value for values in by_hour.values() for value in values)
    means = {hour: fmean(values) for hour, values in by_hour.items()}
    if len(means) == 24:  # noqa: PLR2004  a full day has been seen
        return lambda at: means[at.hour]

    def from_typical(at: datetime) -> float:
        value = typical(at) if typical else None
        return overall if value is None else value

    return from_typical


def _point(last: IntensityPoint, at: datetime, value: float, made_at: datetime) -> IntensityPoint:
    return IntensityPoint(
        zone=last.zone,
        start=at,
        end=at + _STEP,
        g_per_kwh=value,
        kind=Kind.FORECAST,
        signal=last.signal,
        scope=last.scope,
        boundary=last.boundary,
        source=SOURCE,
        fetched_at=made_at,
        issued_at=made_at,
        method="persistence and daily shape",
    )
