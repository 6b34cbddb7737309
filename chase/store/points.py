"""Signal points and their vintages: a revised value is a new row, the same value fetched again is not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from chase.store.rows import FORECAST, POINT
from providers.base import IntensityPoint, Kind

if TYPE_CHECKING:
    from sqlite_utils import Database

Row = dict[str, Any]
_SERIES = ("zone", "source", "signal", "scope", "boundary")
_CONTENT = ("end_utc", "intensity_g_per_kwh", "kind", "method")
_NEWEST = """SELECT start_utc, end_utc, intensity_g_per_kwh, kind, method FROM {table}
    WHERE zone = ? AND source = ? AND signal = ? AND scope = ? AND boundary = ?
    AND end_utc > ? AND start_utc <= ? ORDER BY id"""


def point_rows(points: Iterable[IntensityPoint]) -> dict[str, list[dict[str, Any]]]:
    """By table: what was observed, and what was expected. Raises ``ValueError`` for a value that is not finite."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for point in points:
        shape = FORECAST if point.kind is Kind.FORECAST else POINT
        rows[shape.table].append(shape.row(point))
    return rows


def add_vintages(db: Database, table: str, rows: Iterable[Row]) -> int:
    """Insert those that say something new; how many there were. Inside a transaction."""
    added = 0
    for series, group in _grouped(rows).items():
        fresh = _news(db, table, series, group)
        if fresh:
            db.table(table).insert_all(fresh)
        added += len(fresh)
    return added


def _grouped(rows: Iterable[Row]) -> dict[tuple[str, ...], list[Row]]:
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in _SERIES)].append(row)
    return groups


def _news(db: Database, table: str, series: tuple[str, ...], rows: list[Row]) -> list[Row]:
    first, last = min(row["start_utc"] for row in rows), max(row["start_utc"] for row in rows)
    known = {
        start: content for start, *content in db.execute(_NEWEST.format(table=table), (*series, first, last)).fetchall()
    }
    fresh: list[Row] = []
    for row in rows:
        content = [row[name] for name in _CONTENT]
        if known.get(row["start_utc"]) != content:
            known[row["start_utc"]] = content
            fresh.append(row)
    return fresh
