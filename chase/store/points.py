"""Signal points, forecasts and prices in vintages: a revised value is a new row, the same value fetched again is not.

Of the forecasts that a source issues for one time within one hour the last is kept: some issue anew every five minutes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from chase.store.rows import at_unix, real, seconds_of, text, unix_s
from providers.base import Boundary, IntensityPoint, Kind, Market, PricePoint, Scope, Signal

if TYPE_CHECKING:
    from sqlite_utils import Database

Seconds = int | float
Row = Mapping[str, Any]
P = TypeVar("P", IntensityPoint, PricePoint)
HOUR_S = 3600
_PRICE = "price"  # the kind in the label of a price


class Vintage(NamedTuple):
    """A point as numbers. ``label`` is its kind and what its source remarks; times are seconds since 1970."""

    series: tuple[str, ...]
    label: tuple[str, str]
    start: Seconds
    length: Seconds
    value: float
    issued: Seconds | None
    updated: Seconds | None
    fetched: Seconds

    @property
    def made(self) -> Seconds:
        return self.fetched if self.issued is None else self.issued


@dataclass(frozen=True, slots=True)
class Kept(Generic[P]):
    """One kind of point and where it is kept.

    ``identity`` names fields of the point and columns of ``series``, ``amount`` and ``remark`` fields of the point, and
    ``value`` the column of the amount. ``hourly``: of the vintages issued within one hour the last stays.
    """

    view: str
    rows: str
    series: str
    identity: tuple[str, ...]
    amount: str
    value: str
    remark: str
    decode: Callable[[Row], P]
    hourly: bool = False

    def encode(self, point: P) -> Vintage:
        """Raises ``ValueError`` naming view and field of a value that cannot be stored."""
        return Vintage(
            series=tuple(self._text(point, field) for field in self.identity),
            label=(str(getattr(point, "kind", _PRICE)), self._text(point, self.remark)),
            start=unix_s(point.start, f"{self.view}.start"),
            length=seconds_of(point.end - point.start),
            value=real(getattr(point, self.amount), f"{self.view}.{self.amount}"),
            issued=self._time(point, "issued_at"),
            updated=self._time(point, "updated_at"),
            fetched=unix_s(point.fetched_at, f"{self.view}.fetched_at"),
        )

    def _text(self, point: P, field: str) -> str:
        return text(getattr(point, field), f"{self.view}.{field}")

    def _time(self, point: P, field: str) -> Seconds | None:
        at = getattr(point, field, None)
        return None if at is None else unix_s(at, f"{self.view}.{field}")

    def one_series(self, found: Sequence[P]) -> list[P]:
        """Those of the series that was fetched last; ``found`` is in the order in which it was added."""
        identity = attrgetter(*self.identity)
        newest = max(reversed(found), key=lambda point: point.fetched_at, default=None)
        return [point for point in found if identity(point) == identity(newest)]


def _span(row: Row) -> dict[str, Any]:
    start, updated = at_unix(row["start_unix_s"]), row["updated_unix_s"]
    return {
        "zone": row["zone"],
        "source": row["source"],
        "start": start,
        "end": start + timedelta(seconds=row["length_s"]),
        "updated_at": None if updated is None else at_unix(updated),
        "fetched_at": at_unix(row["fetched_unix_s"]),
    }


def _point(row: Row) -> IntensityPoint:
    issued = row["issued_unix_s"]
    return IntensityPoint(
        **_span(row),
        g_per_kwh=float(row["value"]),
        kind=Kind(row["kind"]),
        signal=Signal(row["signal"]),
        scope=Scope(row["scope"]),
        boundary=Boundary(row["boundary"]),
        issued_at=None if issued is None else at_unix(issued),
        method=row["remark"],
    )


def _price(row: Row) -> PricePoint:
    return PricePoint(
        **_span(row),
        price_per_kwh=float(row["value"]),
        currency=row["currency"],
        market=Market(row["market"]),
        licence=row["remark"],
    )


_INTENSITY = ("zone", "source", "signal", "scope", "boundary")
_GRAMS = ("g_per_kwh", "intensity_g_per_kwh", "method")
POINTS = Kept("signal_points", "signal_rows", "series", _INTENSITY, *_GRAMS, _point)
FORECASTS = Kept("forecasts", "forecast_rows", "series", _INTENSITY, *_GRAMS, _point, hourly=True)
_MONEY = ("price_per_kwh", "price_per_kwh", "licence")
PRICES = Kept("price_points", "price_rows", "price_series", ("zone", "source", "currency", "market"), *_MONEY, _price)
ALL: tuple[Kept[Any], ...] = (POINTS, FORECASTS, PRICES)


def observed_and_expected(points: Iterable[IntensityPoint]) -> dict[Kept[IntensityPoint], list[Vintage]]:
    """Raises ``ValueError`` for a value that cannot be stored."""
    found: dict[Kept[IntensityPoint], list[Vintage]] = defaultdict(list)
    for point in points:
        kept = FORECASTS if point.kind is Kind.FORECAST else POINTS
        found[kept].append(kept.encode(point))
    return found


# -- writing, inside a transaction ----------------------------------------------------------------------------------


def add_vintages(db: Database, kept: Kept[Any], vintages: Iterable[Vintage]) -> int:
    """Write those that say something new; how many there were."""
    groups: dict[tuple[str, ...], list[Vintage]] = defaultdict(list)
    for vintage in vintages:
        groups[vintage.series].append(vintage)
    return sum(_add_group(db, kept, series, group) for series, group in groups.items())


def _add_group(db: Database, kept: Kept[Any], series: tuple[str, ...], group: Sequence[Vintage]) -> int:
    number = _series_id(db, kept, series, max(vintage.length for vintage in group))
    labels = {label: label_id(db, label) for label in dict.fromkeys(vintage.label for vintage in group)}
    return sum(_add(db, kept, number, labels[vintage.label], vintage) for vintage in group)


def _series_id(db: Database, kept: Kept[Any], series: tuple[str, ...], longest_s: Seconds) -> int:
    same = " AND ".join(f"{name} = ?" for name in kept.identity)
    found = db.conn.execute(f"SELECT id, longest_s FROM {kept.series} WHERE {same}", series).fetchone()
    if found is None:
        names, marks = ", ".join((*kept.identity, "longest_s")), ", ".join("?" * (len(series) + 1))
        made = db.conn.execute(f"INSERT INTO {kept.series} ({names}) VALUES ({marks})", (*series, longest_s))
        return int(made.lastrowid or 0)
    if found[1] < longest_s:
        reaches(db, kept, found[0], longest_s)
    return int(found[0])


def reaches(db: Database, kept: Kept[Any], series: int, longest_s: Seconds) -> None:
    """No row of the series is longer: readers rely on it (``query``)."""
    db.conn.execute(f"UPDATE {kept.series} SET longest_s = max(longest_s, ?) WHERE id = ?", (longest_s, series))


def label_id(db: Database, label: tuple[str, str]) -> int:
    found = db.conn.execute("SELECT id FROM labels WHERE kind = ? AND remark = ?", label).fetchone()
    if found is None:
        return int(db.conn.execute("INSERT INTO labels (kind, remark) VALUES (?, ?)", label).lastrowid or 0)
    return int(found[0])


def _add(db: Database, kept: Kept[Any], series: int, label: int, vintage: Vintage) -> bool:
    newest = db.conn.execute(
        f"SELECT label_id, length_s, {kept.value}, coalesce(issued_unix_s, fetched_unix_s), id FROM {kept.rows}"
        " WHERE series_id = ? AND start_unix_s = ? ORDER BY id DESC LIMIT 1",
        (series, vintage.start),
    ).fetchone()
    if newest is not None and newest[:3] == (label, vintage.length, vintage.value):
        return False
    if newest is not None and kept.hourly and newest[3] // HOUR_S == vintage.made // HOUR_S:
        db.conn.execute(
            f"UPDATE {kept.rows} SET label_id = ?, length_s = ?, {kept.value} = ?, issued_unix_s = ?,"
            " updated_unix_s = ?, fetched_unix_s = ? WHERE id = ?",
            (label, *vintage[3:], newest[4]),
        )
    else:
        insert(db, kept, [(series, label, *vintage[2:])])
    return True


def insert(db: Database, kept: Kept[Any], rows: Iterable[tuple[Any, ...]]) -> None:
    """Rows of series, label, start, length, value, and the times of issue, update and fetch."""
    db.conn.executemany(
        f"INSERT INTO {kept.rows} (series_id, label_id, start_unix_s, length_s, {kept.value}, issued_unix_s,"
        " updated_unix_s, fetched_unix_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


# -- reading --------------------------------------------------------------------------------------------------------


def query(
    kept: Kept[Any],
    *,
    newest: bool,
    zone: str | None,
    source: str | None,
    start: datetime | None,
    end: datetime | None,
    every_s: int | None = None,
) -> tuple[str, list[Any]]:
    """The SQL, and its parameters, for the rows in which ``decode`` finds a point, in the order they were added.

    No interval is longer than its series' ``longest_s``, so that what reaches beyond ``start`` is found by its index.
    """
    limits = {
        "zone = ?": zone,
        "source = ?": source,
        "start_unix_s > ? - longest_s": None if start is None else unix_s(start),
        "start_unix_s < ?": None if end is None else unix_s(end),
        "start_unix_s % ? = 0": every_s,
    }
    wanted = {condition: value for condition, value in limits.items() if value is not None}
    where = f" WHERE {' AND '.join(wanted)}" if wanted else ""
    # The other columns of a group are those of the row that has the max (a promise of SQLite's).
    number, group = (f"max({kept.rows}.id)", " GROUP BY series_id, start_unix_s") if newest else (f"{kept.rows}.id", "")
    sql = (
        f"SELECT {', '.join(kept.identity)}, kind, remark, start_unix_s, length_s, {kept.value} AS value,"
        f" issued_unix_s, updated_unix_s, fetched_unix_s, {number} AS number"
        f" FROM {kept.series} CROSS JOIN {kept.rows} ON series_id = {kept.series}.id"
        f" CROSS JOIN labels ON labels.id = label_id{where}{group} ORDER BY number"
    )
    return sql, list(wanted.values())
