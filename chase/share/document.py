"""What is told of a region: points as their source gave them, with all that says what they are.

``providers.chase_node`` reads it. VERSION changes when a reader of the version before could take something for what it
is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chase.prices import PriceFeed
from chase.signal import GridSignal
from providers.base import IntensityPoint, PricePoint

VERSION = 1


@dataclass(frozen=True, slots=True)
class Shared:
    """A region and what is known of it. It is found by its id, or by the zone of one of its sources."""

    region: str
    grid: GridSignal
    prices: PriceFeed | None = None

    @property
    def zones(self) -> list[str]:
        return _zones(self.grid.states)

    @property
    def price_zones(self) -> list[str]:
        return _zones(self.prices.states) if self.prices else []

    def is_at(self, place: str) -> bool:
        return place in {self.region, *self.zones, *self.price_zones}


def intensity(shared: Shared, start: datetime, end: datetime) -> dict[str, Any]:
    observed, forecast = shared.grid.said(start, end)
    one = next(iter((*observed, *forecast)), None)
    return {
        "version": VERSION,
        "region": shared.region,
        "zones": shared.zones,
        **({} if one is None else _texts(one, ("source", "zone", "signal", "scope", "boundary"))),
        "observed": [_grams(point) for point in observed],
        "forecast": [_grams(point) for point in forecast],
    }


def prices(shared: Shared, start: datetime, end: datetime) -> dict[str, Any]:
    points = _published(shared.prices, start, end) if shared.prices else ()
    return {
        "version": VERSION,
        "region": shared.region,
        "zones": shared.price_zones,
        **(_texts(points[0], ("source", "zone", "currency", "market", "licence")) if points else {}),
        "prices": [{**_times(point), "price_per_kwh": point.price_per_kwh} for point in points],
    }


def encoded(document: Mapping[str, Any]) -> bytes:
    """The same bytes for the same content: its tag is made of them."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _published(feed: PriceFeed, start: datetime, end: datetime) -> Sequence[PricePoint]:
    """Of the source that is gone by; nothing that only stands in for a price."""
    now = feed.outlook().now
    for state in feed.states:
        if now is not None and (state.provider.name, state.provider.zone) == (now.source, now.zone):
            return [point for point in tuple(state.points.values()) if point.end > start and point.start < end]
    return ()


def _grams(point: IntensityPoint) -> dict[str, Any]:
    return {**_times(point), "g_per_kwh": point.g_per_kwh, **_texts(point, ("kind", "method"))}


def _times(point: IntensityPoint | PricePoint) -> dict[str, str]:
    names = ("start", "end", "issued_at", "updated_at", "fetched_at")
    times = {name: getattr(point, name, None) for name in names}
    return {name: _text(at) for name, at in times.items() if at is not None}


def _texts(point: IntensityPoint | PricePoint, names: Iterable[str]) -> dict[str, str]:
    return {name: text for name in names if (text := str(getattr(point, name)))}


def _text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _zones(states: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(state.provider.zone for state in states))
