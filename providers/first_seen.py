"""When a forecast came out, as far as it can be known of a source that does not say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from providers.base import IntensityPoint


class FirstSeen:
    """A value is as old as the first reply that had it: reading it again does not make it a new forecast."""

    def __init__(self) -> None:
        self._seen: Mapping[datetime, tuple[float, datetime]] = {}

    def dated(self, points: Iterable[IntensityPoint]) -> list[IntensityPoint]:
        """The points of one reply with ``issued_at``: their ``fetched_at``, or that of earlier ones in a row."""
        dated = {point.start: (point, self._first(point)) for point in points}
        self._seen = {start: (point.g_per_kwh, at) for start, (point, at) in dated.items()}
        return [replace(point, issued_at=at) for point, at in dated.values()]

    def _first(self, point: IntensityPoint) -> datetime:
        value, at = self._seen.get(point.start, (None, point.fetched_at))
        return at if value == point.g_per_kwh else point.fetched_at
