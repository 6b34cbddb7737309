"""What the columns of somebody's table mean, by the names that people and vendors give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any

from providers.base import BadRequest, Kind, SchemaError, Scope
from providers.options import did_you_mean
from providers.reading import ends, instant, intensity, shown
from providers.table import Row

_START = ("start", "start_utc", "from", "datetime", "datetime_utc", "datetime (utc)", "timestamp", "time", "point_time")
_END = ("end", "end_utc", "to")
_VALUE: Mapping[str, Scope | None] = {
    "g_per_kwh": None,
    "intensity_g_per_kwh": None,
    "gco2_per_kwh": None,
    "gco2e_per_kwh": None,
    "carbonintensity": None,
    "carbon_intensity": None,
    "lifecycle_gco2e_per_kwh": Scope.LIFECYCLE,
    "direct_gco2_per_kwh": Scope.DIRECT,
    "direct_gco2e_per_kwh": Scope.DIRECT,
}
_ISSUED = ("issued_at", "issued_at_utc", "generated_at")
_ESTIMATED = ("estimated", "isestimated")
_ALONE = timedelta(hours=1)  # the step of a row that has no other to compare with


@dataclass(frozen=True, slots=True)
class Entry:
    """One row. ``kind`` is what the row itself says of it; ``g_per_kwh`` None is a gap."""

    start: datetime
    end: datetime
    g_per_kwh: float | None
    kind: Kind | None
    estimated: bool
    issued_at: datetime | None


@dataclass(frozen=True, slots=True)
class Times:
    """The columns of an interval; ``end`` is empty where a table has none."""

    start: str
    end: str

    @classmethod
    def of(cls, present: Sequence[str], name: str) -> Times:
        return cls(first_of(_START, present) or missing(name, "start", _START, present), first_of(_END, present))

    def intervals(self, rows: Iterable[Row], step_s: float) -> list[tuple[Row, datetime, datetime]]:
        """Rows without an end last ``step_s``, by default the usual distance of the rows, or until the next begins."""
        given = [(row, self._start(row), instant_of(row, self.end)) for row in rows]
        starts = sorted({start for _, start, _ in given})
        until = ends(starts, timedelta(seconds=step_s) if step_s else _usual_step(starts))
        timed = [(row, start, end or until[start]) for row, start, end in given]
        for row, start, end in timed:
            if end <= start:
                raise SchemaError(f"{row.place}: end {end.isoformat()} is not after start {start.isoformat()}")
        return timed

    def _start(self, row: Row) -> datetime:
        start = instant_of(row, self.start)
        if start is None:
            raise SchemaError(f"{row.place}: {self.start} is missing")
        return start


@dataclass(frozen=True, slots=True)
class Columns:
    """The names in use; empty where a table has no such column. ``scope`` is what the value's column implies."""

    times: Times
    value: str
    issued: str
    estimated: str
    scope: Scope | None

    @classmethod
    def of(cls, rows: Sequence[Row], name: str, *, value: str, scope: str) -> Columns:
        """``value`` names the value's column where it is not one of those known; ``scope`` chooses between two."""
        present = columns_of(rows)
        times = Times.of(present, name)
        fitting = [key for key, implied in _VALUE.items() if not scope or implied in {None, scope}]
        found = (
            named(value, present, name) or first_of(fitting, present) or missing(name, "g_per_kwh", fitting, present)
        )
        return cls(
            times=times,
            value=found,
            issued=first_of(_ISSUED, present),
            estimated=first_of(_ESTIMATED, present),
            scope=_VALUE.get(found),
        )

    def entries(self, rows: Iterable[Row], step_s: float) -> tuple[Entry, ...]:
        return tuple(self._entry(row, start, end) for row, start, end in self.times.intervals(rows, step_s))

    def _entry(self, row: Row, start: datetime, end: datetime) -> Entry:
        what = f"{row.place}: {self.value}"
        return Entry(
            start=start,
            end=end,
            g_per_kwh=intensity(number_of(row.fields.get(self.value), what), what),
            kind=_kind(row),
            estimated=str(row.fields.get(self.estimated)).lower() in {"1", "true", "yes"},
            issued_at=instant_of(row, self.issued),
        )


def columns_of(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row.fields))


def named(column: str, present: Sequence[str], name: str) -> str:
    """The column that an option names, if it does."""
    if column and column not in present:
        raise BadRequest(f"{name}: no column {column!r}{did_you_mean(column, present)}; it has {_list(present)}")
    return column


def instant_of(row: Row, column: str) -> datetime | None:
    value = row.fields.get(column)
    return None if value is None else instant(value, f"{row.place}: {column}", naive_is_utc="utc" in column)


def number_of(value: Any, what: str) -> Any:
    """A CSV's texts as numbers; anything else as it is."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        raise SchemaError(f"{what} is {shown(value)}, not a number") from None


def _kind(row: Row) -> Kind | None:
    value = row.fields.get("kind")
    if value is None:
        return None
    try:
        return Kind(str(value).lower())
    except ValueError:
        known = ", ".join(Kind)
        raise SchemaError(
            f"{row.place}: kind is {shown(value)}{did_you_mean(value, Kind)}, not one of {known}"
        ) from None


def _usual_step(starts: Sequence[datetime]) -> timedelta:
    gaps = [(after - here).total_seconds() for here, after in pairwise(starts)]
    return timedelta(seconds=median(gaps)) if gaps else _ALONE


def first_of(known: Iterable[str], present: Sequence[str]) -> str:
    return next((key for key in known if key in present), "")


def missing(name: str, what: str, known: Sequence[str], present: Sequence[str]) -> str:
    raise SchemaError(f"{name}: no column for {what} ({_list(known)}); it has {_list(present)}")


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "no columns"
