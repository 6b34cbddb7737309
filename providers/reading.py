"""From a source's JSON or table to points: each value checked, a gap left where it is missing, never a wrong number."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from providers.base import BadRequest, IntensityPoint, P, SchemaError, Series

MOST_G_PER_KWH = 5000.0
_FIRST_YEAR, _LAST_YEAR = 1970, 9000
_log = logging.getLogger(__name__)


def intensity(value: object, what: str) -> float | None:
    """Grams per kWh, None where the source says null. 0 stands only where the source wrote it."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SchemaError(f"{what} is {shown(value)}, not a number")
    if not 0 <= value <= MOST_G_PER_KWH:
        raise SchemaError(f"{what} is {shown(value)}, not within 0 to {MOST_G_PER_KWH:g} g/kWh")
    return float(value)


def instant(value: object, what: str, *, naive_is_utc: bool = False) -> datetime:
    """An ISO 8601 time with its offset, as UTC."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
        if at is not None and at.tzinfo is None and naive_is_utc:
            at = at.replace(tzinfo=UTC)
        if at is not None and at.utcoffset() is not None and _FIRST_YEAR <= at.year <= _LAST_YEAR:
            return at.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise SchemaError(f"{what} is {shown(value)}, not a time with its UTC offset (2026-01-08T14:00Z)")


def record(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SchemaError(f"{what} is {shown(value)}, not an object")
    return value


def records(value: object, what: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise SchemaError(f"{what} is {shown(value)}, not a list")
    return value


def gather(rows: Iterable[Any], read: Callable[[Any], P | None], *, where: str) -> list[P]:
    """A row that cannot be read is a gap like a null one; if no row can be read, ``SchemaError`` tells of the first."""
    points: list[P] = []
    refused: list[Exception] = []
    for row in rows:
        try:
            point = read(row)
        except (SchemaError, ValueError, OverflowError) as error:
            refused.append(error)
            continue
        if point is not None:
            points.append(point)
    if refused and not points:
        raise SchemaError(f"{where}: no row can be used, the first because {refused[0]}")
    if refused:
        _log.debug("%s: %d rows refused, the first because %s", where, len(refused), refused[0])
    return points


def ends(starts: Sequence[datetime], step: timedelta) -> dict[datetime, datetime]:
    """Where each interval ends: after ``step``, or earlier where the next begins (steps change within one reply)."""
    ordered = sorted(set(starts))
    found = {start: start + step for start in ordered}
    found.update((here, min(here + step, after)) for here, after in pairwise(ordered))
    return found


def within(points: Iterable[IntensityPoint], start: datetime, end: datetime) -> Series:
    """Those that overlap ``[start, end)``, so that asking for an instant finds the interval around it."""
    return Series.of(point for point in points if point.start < end and point.end > start)


def check_interval(start: datetime, end: datetime) -> None:
    for name, at in (("start", start), ("end", end)):
        if at.utcoffset() != timedelta(0):
            raise BadRequest(f"{name} must be an aware UTC time, not {at!r}")
        if not _FIRST_YEAR <= at.year <= _LAST_YEAR:
            raise BadRequest(f"{name} is in the year {at.year}, which no grid has data for")
    if end < start:
        raise BadRequest(f"the interval ends ({end.isoformat()}) before it starts ({start.isoformat()})")


def shown(value: object) -> str:
    """Short enough for an error, and on one line."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        text = "a number too long to show"
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - a third of a line
