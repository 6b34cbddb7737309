"""What a joule emitted: the intensity over a stretch of time, and how certain it is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from providers.base import IntensityPoint, Kind, Series

J_PER_KWH = 3.6e6
_RANK = {kind: rank for rank, kind in enumerate(Kind)}  # declared from the best to the least


@dataclass(frozen=True, slots=True)
class Price:
    """Time-weighted intensity; ``kind`` is the worst of what it was made of."""

    g_per_kwh: float
    kind: Kind


def grams_of(energy_j: float, g_per_kwh: float, pue: float = 1.0) -> float:
    return energy_j * pue * g_per_kwh / J_PER_KWH


def price(series: Series, start: datetime, end: datetime) -> Price | None:
    """The mean intensity over ``[start, end)``, None where nothing is known of it.

    A part that the series has a gap in is taken to be like the rest, and the price is then an estimate at best.
    """
    parts = [(seconds_in(max(start, a), min(end, b)), point) for a, b, point in _steps(series, start, end)]
    known_s = sum(seconds for seconds, _ in parts)
    if known_s <= 0:
        return None
    mean = sum(seconds * point.g_per_kwh for seconds, point in parts) / known_s
    kinds = [point.kind for seconds, point in parts if seconds > 0]
    if known_s < seconds_in(start, end) - 1e-6:
        kinds.append(Kind.ESTIMATED)
    return Price(mean, worst(kinds))


def carried(point: IntensityPoint | None, start: datetime, end: datetime) -> Price | None:
    """The value gone by. One that is not of all this time is an estimate at best."""
    if point is None:
        return None
    inside = point.start <= start and end <= point.end
    return Price(point.g_per_kwh, point.kind if inside else worst([point.kind, Kind.ESTIMATED]))


def worst(kinds: Iterable[Kind]) -> Kind:
    return max(kinds, key=lambda kind: _RANK[kind])


def seconds_in(start: datetime, end: datetime) -> float:
    """None of it where the wall clock was set back in between."""
    return max(0.0, (end - start).total_seconds())


def _steps(series: Series, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime, IntensityPoint]]:
    """Each point with the time it holds for: until its end, or until the next one begins."""
    points = series.points
    first = max(0, bisect_right(points, start, key=lambda point: point.start) - 1)
    for i in range(first, len(points)):
        point = points[i]
        if point.start >= end:
            return
        following = points[i + 1].start if i + 1 < len(points) else point.end
        yield point.start, min(point.end, following), point
