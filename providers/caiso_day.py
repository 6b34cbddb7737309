"""A day's tables of CAISO's outlook pages: wall clock of California without a date, and cells that may be empty.

Which instant a row is of follows from its place. A ``00:00`` after other times, and all behind it, is of the next day.
On the day of 23 hours there are rows of an hour that never was. On the day of 25 an hour comes twice; where its rows
come once, nobody can tell of which of the two they are, unless the second has not begun.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

from providers.base import SchemaError
from providers.reading import shown

CLOCK = ZoneInfo("America/Los_Angeles")
_LABEL = re.compile(r"(\d{1,2}):(\d{2})", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_MOST_ROWS = 400
_MOST_COLUMNS = 60
_MOST = 1e6  # MW or t/h
_LAST_HOUR, _LAST_MINUTE = 23, 59

Cells = Mapping[str, float | None]  # None where nothing stands, NaN where it cannot be read


@dataclass(frozen=True, slots=True)
class Table:
    """``columns`` in lower case, without the time. ``rows`` are pairs of a wall clock time and the cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, Cells], ...]

    def at(self, day: date, now: datetime) -> dict[datetime, Cells]:
        """By instant; of two rows of one the later wins."""
        instants = _instants([label for label, _ in self.rows], day, now)
        return {at: cells for at, (_, cells) in zip(instants, self.rows, strict=True) if at is not None}

    def filled(self) -> frozenset[str]:
        """Columns in which something stands anywhere: a source with nothing to report is left empty all day."""
        return frozenset(name for _, cells in self.rows for name, cell in cells.items() if cell is not None)


def parse(text: str, what: str) -> Table:
    try:
        lines = [line for line in csv.reader(text.splitlines()) if any(cell.strip() for cell in line)]
    except csv.Error as error:
        raise SchemaError(f"{what} is no CSV: {error}") from None
    header = [" ".join(cell.lower().split()) for cell in lines[0]] if lines else []
    names = tuple(name for name in header[1:] if name)
    if header[:1] != ["time"] or len(set(names)) != len(names) or len(header) > _MOST_COLUMNS:
        raise SchemaError(f"{what} begins with {shown(','.join(header))}, not with a time and names of columns")
    if len(lines) > _MOST_ROWS:
        raise SchemaError(f"{what} has {len(lines)} rows, more than a day")
    return Table(names, tuple(_rows(lines[1:], header)))


def _rows(lines: Sequence[Sequence[str]], header: Sequence[str]) -> Iterator[tuple[str, Cells]]:
    for line in lines:
        too_long = any(cell.strip() for cell in line[len(header) :])
        given = [math.nan if too_long else _cell(cell) for cell in line[1 : len(header)]]
        given += [None] * (len(header) - 1 - len(given))
        yield line[0].strip(), {name: cell for name, cell in zip(header[1:], given, strict=True) if name}


def _cell(text: str) -> float | None:
    text = text.strip()
    if not text:
        return None
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    return number if abs(number) <= _MOST else math.nan


def _instants(labels: Sequence[str], day: date, now: datetime) -> list[datetime | None]:
    times = [_wall(label) for label in labels]
    begun = next((index for index, at in enumerate(times) if at is not None and at > time(0)), len(times))
    over = next((index for index in range(begun, len(times)) if times[index] == time(0)), len(times))
    today = times[:over]
    often, seen = Counter(today), Counter[time | None]()
    found: list[datetime | None] = []
    for at in today:
        found.append(None if at is None else _instant(datetime.combine(day, at), often[at], seen[at], now))
        seen[at] += 1
    return found + [None] * (len(times) - len(today))


def _instant(wall: datetime, often: int, before: int, now: datetime) -> datetime | None:
    """``often`` it stands in the table, and ``before`` this row so many times."""
    first, second = (wall.replace(tzinfo=CLOCK, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first == second:
        return first
    if first.astimezone(CLOCK).replace(tzinfo=None) != wall:
        return None
    if often == 2:  # noqa: PLR2004 - once in each of the two hours
        return second if before else first
    return first if often == 1 and second > now else None


def _wall(label: str) -> time | None:
    parts = _LABEL.fullmatch(label)
    hour, minute = map(int, parts.groups()) if parts else (-1, -1)
    return time(hour, minute) if 0 <= hour <= _LAST_HOUR and 0 <= minute <= _LAST_MINUTE else None
