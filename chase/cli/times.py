"""Moments as people type them: ``6h``, ``18:00``, ``2026-03-01``, ``2026-03-01T18:00+01:00``; else in UTC."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta

import click

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(min|[smhdw])", re.IGNORECASE)
_DURATION = re.compile(rf"(?:{_PART.pattern}\s*)+", re.IGNORECASE)
_LONGEST = timedelta(days=3660)


def duration(text: str) -> timedelta | None:
    """``90s``, ``15m``, ``1h30m``, ``2d``, ``1w``; None if it is none. Raises ``ValueError`` over ten years."""
    if not _DURATION.fullmatch(text.strip()):
        return None
    seconds = sum(float(count) * _SECONDS[unit.lower()] for count, unit in _PART.findall(text))
    if seconds > _LONGEST.total_seconds():
        raise ValueError(f"{text} is longer than ten years")
    return timedelta(seconds=seconds)


def since(text: str, now: datetime) -> datetime:
    """A moment in the past. Raises ``ValueError`` for what is not one."""
    back = duration(text)
    when = now - back if back is not None else _moment(text, now)
    if when > now and _clock_time(text):
        when -= timedelta(days=1)
    if when > now:
        raise ValueError(f"{text} is in the future")
    return when


def until(text: str, now: datetime) -> datetime:
    """A moment to come; a bare ``18:00`` is the next one. Raises ``ValueError`` for what is not one."""
    ahead = duration(text)
    when = now + ahead if ahead is not None else _moment(text, now)
    if when <= now and _clock_time(text):
        when += timedelta(days=1)
    if when <= now:
        raise ValueError(f"{text} is already over")
    return when


def moment(read: Callable[[str, datetime], datetime]) -> Callable[..., datetime | None]:
    """A click option's callback that reads its text with ``since`` or ``until``."""

    def callback(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
        if value is None:
            return None
        try:
            return read(value, datetime.now(UTC))
        except (ValueError, OverflowError) as error:
            raise click.BadParameter(str(error), ctx=ctx, param=param) from error

    return callback


def _moment(text: str, now: datetime) -> datetime:
    clock = _clock_time(text)
    if clock is not None:
        return datetime.combine(now.date(), clock, UTC)
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time: write 6h, 1h30m, 18:00, 2026-03-01 or 2026-03-01T18:00Z (UTC)"
        ) from None
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def _clock_time(text: str) -> time | None:
    if not re.fullmatch(r"\d{1,2}:\d{2}", text.strip()):
        return None
    hour, minute = map(int, text.strip().split(":"))
    return time(hour, minute)
