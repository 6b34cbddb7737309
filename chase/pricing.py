"""What a joule emitted and cost: the intensity and the price over a stretch of time, and how certain they are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from providers.base import IntensityPoint, Kind, P, PriceSeries, Series

J_PER_KWH = 3.6e6
ASSUMED = "assumed"  # a price that was not published for this time, such as yesterday's
_INSTANT_S = 1e-6  # times are kept in microseconds
_RANK = {kind: rank for rank, kind in enumerate(Kind)}  # declared from the best to the least
_START = attrgetter("start")


@dataclass(frozen=True, slots=True)
class Price:
    """Time-weighted intensity; ``kind`` is the worst of what it was made of, ``source`` names who said it."""

    g_per_kwh: float
    kind: Kind
    source: str = ""


@dataclass(frozen=True, slots=True)
class Paid:
    """Time-weighted price of a kWh, in ``currency``; it may be negative. ``kind`` is its market, or ``ASSUMED``."""

    price_per_kwh: float
    currency: str
    kind: str


def grams_of(energy_j: float, g_per_kwh: float, pue: float = 1.0) -> float:
    return energy_j * pue * g_per_kwh / J_PER_KWH


def price(series: Series, start: datetime, end: datetime) -> Price | None:
    """The mean intensity over ``[start, end)``, None where nothing is known of it.

    A part that the series has a gap in is taken to be like the rest, and the price is then an estimate at best.
    """
    parts = _parts(series.points, start, end)
    if not parts:
        return None
    known_s = sum(seconds for seconds, _ in parts)
    if len(parts) == 1 and known_s >= seconds_in(start, end) - _INSTANT_S:  # nearly every interval, and worth its line
        point = parts[0][1]
        return Price(point.g_per_kwh, point.kind, point.source)
    mean = sum(seconds * point.g_per_kwh for seconds, point in parts) / known_s
    kinds = [point.kind for _, point in parts]
    if known_s < seconds_in(start, end) - _INSTANT_S:
        kinds.append(Kind.ESTIMATED)
    return Price(mean, worst(kinds), _named(point.source for _, point in parts))


def paid(series: PriceSeries, start: datetime, end: datetime) -> Paid | None:
    """The mean price over ``[start, end)``, as ``price``; a part that is not published makes it an assumption."""
    parts = _parts(series.points, start, end)
    if not parts:
        return None
    known_s = sum(seconds for seconds, _ in parts)
    mean = sum(seconds * point.price_per_kwh for seconds, point in parts) / known_s
    whole = known_s >= seconds_in(start, end) - _INSTANT_S
    return Paid(mean, parts[0][1].currency, _named(p.market.value for _, p in parts) if whole else ASSUMED)


def carried(point: IntensityPoint | None, start: datetime, end: datetime) -> Price | None:
    """The value gone by. One that is not of all this time is an estimate at best."""
    if point is None:
        return None
    inside = point.start <= start and end <= point.end
    return Price(point.g_per_kwh, point.kind if inside else worst([point.kind, Kind.ESTIMATED]), point.source)


def worst(kinds: Iterable[Kind]) -> Kind:
    return max(kinds, key=_RANK.__getitem__)


def seconds_in(start: datetime, end: datetime) -> float:
    """None of it where the wall clock was set back in between."""
    return max(0.0, (end - start).total_seconds())


def _named(names: Iterable[str]) -> str:
    """One name as a rule; where several had a part in it, all of them."""
    return "+".join(sorted(set(names)))


def _parts(points: Sequence[P], start: datetime, end: datetime) -> list[tuple[float, P]]:
    """The points that hold within ``[start, end)``, each with for how many seconds of it.

    A point holds until its end, or until the next one begins.
    """
    parts: list[tuple[float, P]] = []
    for i in range(max(0, bisect_right(points, start, key=_START) - 1), len(points)):
        point = points[i]
        if point.start >= end:
            break
        until = min(point.end, points[i + 1].start, end) if i + 1 < len(points) else min(point.end, end)
        seconds = (until - max(point.start, start)).total_seconds()
        if seconds > 0:
            parts.append((seconds, point))
    return parts
