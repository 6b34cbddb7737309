"""What the columns of somebody's table mean, by the names that people and vendors give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
class Columns:
    """The names in use; empty where a table has no such column. ``scope`` is what the value's column implies."""

    start: str
    value: str
    end: str
    issued: str
    estimated: str
    scope: Scope | None

    @classmethod
    def of(cls, rows: Sequence[Row], name: str, *, value: str, scope: str) -> Columns:
        """``value`` names the value's column where it is not one of those known; ``scope`` chooses between two."""
        present = list(dict.fromkeys(key for row in rows for key in row.fields))
        start = _first(_START, present) or _missing(name, "start", _START, present)
        if value and value not in present:
            raise BadRequest(f"{name}: no column {value!r}{did_you_mean(value, present)}; it has {_list(present)}")
        fitting = [key for key, implied in _VALUE.items() if not scope or implied in {None, scope}]
        found = value or _first(fitting, present) or _missing(name, "g_per_kwh", fitting, present)
        return cls(
            start=start,
            value=found,
            end=_first(_END, present),
            issued=_first(_ISSUED, present),
            estimated=_first(_ESTIMATED, present),
            scope=_VALUE.get(found),
        )

    def entries(self, rows: Iterable[Row], step_s: float) -> tuple[Entry, ...]:
        """Rows without an end last ``step_s``, by default the usual distance of the rows, or until the next begins."""
        made = [(self._entry(row), self._end(row), row.place) for row in rows]
        starts = sorted({entry.start for entry, _, _ in made})
        until = ends(starts, timedelta(seconds=step_s) if step_s else _usual_step(starts))
        return tuple(_ended(entry, end or until[entry.start], place) for entry, end, place in made)

    def _entry(self, row: Row) -> Entry:
        start = self._instant(row, self.start)
        if start is None:
            raise SchemaError(f"{row.place}: {self.start} is missing")
        return Entry(
            start=start,
            end=start,
            g_per_kwh=_number(row.fields.get(self.value), f"{row.place}: {self.value}"),
            kind=_kind(row),
            estimated=str(row.fields.get(self.estimated)).lower() in {"1", "true", "yes"},
            issued_at=self._instant(row, self.issued),
        )

    def _end(self, row: Row) -> datetime | None:
        return self._instant(row, self.end)

    def _instant(self, row: Row, column: str) -> datetime | None:
        value = row.fields.get(column)
        if value is None:
            return None
        naive_is_utc = "utc" in column
        return instant(value, f"{row.place}: {column}", naive_is_utc=naive_is_utc)


def _number(value: Any, what: str) -> float | None:
    try:
        return intensity(float(value) if isinstance(value, str) else value, what)
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


def _ended(entry: Entry, end: datetime, place: str) -> Entry:
    if end <= entry.start:
        raise SchemaError(f"{place}: end {end.isoformat()} is not after start {entry.start.isoformat()}")
    return replace(entry, end=end)


def _usual_step(starts: Sequence[datetime]) -> timedelta:
    gaps = [(after - here).total_seconds() for here, after in pairwise(starts)]
    return timedelta(seconds=median(gaps)) if gaps else _ALONE


def _first(known: Iterable[str], present: Sequence[str]) -> str:
    return next((key for key in known if key in present), "")


def _missing(name: str, what: str, known: Sequence[str], present: Sequence[str]) -> str:
    raise SchemaError(f"{name}: no column for {what} ({_list(known)}); it has {_list(present)}")


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "no columns"
