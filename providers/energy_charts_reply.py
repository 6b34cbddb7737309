"""What energy-charts.info answers: columns of one length over ``unix_seconds``, the starts of the intervals.

The step is 15 minutes, or 60 for some grids and days, and changes within one reply. A range of which nothing is
published yet is a 404. ``start`` and ``end`` are days of the grid's own clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from providers.base import BadRequest, NoData, ProviderError, SchemaError, Transient
from providers.reading import record, records, shown
from providers.reply import Reply
from providers.steps import ends_by_distance

SOURCE = "energy_charts"
BASE_URL = "https://api.energy-charts.info"
_QUARTER = timedelta(minutes=15)
_LAST_S = 7_258_118_400  # the year 2200: milliseconds are not taken for seconds


@dataclass(frozen=True, slots=True)
class Row:
    """One place of each column; ``seconds`` as it was written."""

    seconds: object
    values: tuple[Any, ...]
    until: Mapping[datetime, datetime]

    @property
    def start(self) -> datetime:
        return _instant(self.seconds)

    @property
    def end(self) -> datetime:
        return self.until[self.start]


def days(start: datetime, end: datetime) -> dict[str, str]:
    """Whole days around the interval: those of a grid begin up to three hours before those of UTC.

    A day more than that, since nobody says whether the last one is included.
    """
    return {"start": f"{start:%Y-%m-%d}", "end": f"{end + timedelta(days=2):%Y-%m-%d}"}


def rows(document: object, *columns: str) -> Sequence[Row]:
    """Raises ``SchemaError`` where the columns differ in length, and ``NoData`` where they are empty."""
    if document in ({}, []):
        raise NoData(f"{SOURCE} has published nothing for this time")
    reply = record(document, f"{SOURCE}: the reply")
    seconds = records(reply.get("unix_seconds"), f"{SOURCE}: unix_seconds")
    values = [records(reply.get(name), f"{SOURCE}: {name}") for name in columns]
    for name, column in zip(columns, values, strict=True):
        if len(column) != len(seconds):
            raise SchemaError(f"{SOURCE}: {name} has {len(column)} entries, but unix_seconds {len(seconds)}")
    if not seconds:
        raise NoData(f"{SOURCE} has published nothing for this time")
    until = ends_by_distance(_readable(seconds), alone=_QUARTER)
    return [Row(at, tuple(place), until) for at, *place in zip(seconds, *values, strict=True)]


def judge(reply: Reply) -> ProviderError | None:
    """It has no keys, so a refusal is a gateway's; a range without data is a 404."""
    said = f"{SOURCE}: {reply.status} {reply.message}".rstrip()
    if reply.status in {401, 403}:
        return Transient(said)
    if reply.status == 404 and "no content" in reply.message.lower():  # noqa: PLR2004 - HTTP's own numbers
        return NoData(said)
    if reply.status in {400, 422}:
        return BadRequest(f"{said}: check the zone, or the options that replace it")
    return None


def _instant(value: object) -> datetime:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LAST_S:
        raise SchemaError(f"{SOURCE}: unix_seconds has {shown(value)}, not a time in seconds since 1970")
    return datetime.fromtimestamp(value, UTC)


def _readable(seconds: Sequence[Any]) -> list[datetime]:
    found = []
    for value in seconds:
        try:
            found.append(_instant(value))
        except SchemaError:
            continue
    return found
