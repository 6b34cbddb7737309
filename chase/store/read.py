"""Reading the log: the CLI, reports, and the service's own look-backs. Nothing here can write."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

from chase.errors import StoreError
from chase.records import (
    DecisionRecord,
    EventRecord,
    HoldRecord,
    IntervalRecord,
    JobRecord,
    RecurrenceRecord,
    TrialRecord,
)
from chase.store.connect import DATABASE_ERRORS, Fault, FileId, connect_readonly, fault_of, identity
from chase.store.points import FORECASTS, POINTS, PRICES, Kept, query
from chase.store.rows import DECISION, EVENT, HOLD, INTERVAL, JOB, RECURRENCE, TRIAL, Shape, utc_text
from chase.store.tables import EXPORTS, VERSIONS
from chase.store.version import check
from providers.base import IntensityPoint, PricePoint, PriceSeries, Series
from zeus_core.frontier import Frontier, Setting, Window

R = TypeVar("R")
P = TypeVar("P", IntensityPoint, PricePoint)
Row = Mapping[str, Any]
_PAGE = 1000
_IDLE = 4  # connections kept open between reads
_FRONTIER = """(SELECT frontier_json FROM decision_frontiers AS kept WHERE kept.job_id = decisions.job_id
    AND kept.frontier_digest = decisions.frontier_digest) AS frontier_json"""


class Unreadable(StoreError):
    """SQLite cannot read the file ``which`` that was at ``path``."""

    HINTS: ClassVar = {
        Fault.CORRUPT: "it is damaged or no SQLite file; 'chase serve' puts it aside and begins anew",
        Fault.PASSING: "another process holds it, or its directory may not be read; try again",
        Fault.REFUSED: "its tables are not as expected",
    }

    def __init__(self, path: Path, error: Exception, which: FileId | None) -> None:
        self.fault = fault_of(error)
        self.which = which
        super().__init__(f"{path}: cannot be read: {error} ({self.HINTS[self.fault]})")


class Reader:
    """The log at ``path``, for any number of threads. Every method raises ``StoreError`` when it cannot be read.

    A file that was exchanged under us (put aside as corrupt, or restored from a backup) is followed.
    """

    def __init__(self, path: Path, *, timeout_s: float = 5.0) -> None:
        self.path = Path(path)
        self._timeout_s = timeout_s
        self._idle: list[tuple[FileId | None, sqlite3.Connection]] = []
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
        for _, conn in idle:
            conn.close()

    def check(self) -> None:
        """Whether it is there, ours, and of a version that we can read."""
        with self._connection() as conn:
            seen = check(conn, self.path)
        if not seen:
            raise StoreError(f"{self.path} has no tables of ours yet; 'chase serve' makes them when it starts")
        if seen != VERSIONS:
            raise StoreError(f"{self.path} was written by an older chase; 'chase serve' brings it up to date")

    def points(
        self,
        zone: str | None = None,
        source: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> Series:
        """What was observed of ``[start, end)``: the newest vintage of each point.

        One series, never a mixture: where several sources (or signals, or scopes) would answer, the one last fetched.
        """
        return Series.of(self._kept(POINTS, zone, source, start, end))

    def forecasts(
        self,
        zone: str | None = None,
        source: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> Series:
        """As ``points``, of what was expected: for each start the newest forecast."""
        return Series.of(self._kept(FORECASTS, zone, source, start, end))

    def vintages(
        self,
        zone: str | None = None,
        source: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        forecasts: bool = False,
        every_s: int | None = None,
    ) -> list[IntensityPoint]:
        """As ``points``, or as ``forecasts``: every vintage, ascending by start and of one start by when it was read.

        Of the forecasts for one time issued within one hour there is the last. Old vintages are thinned (``Keep``).
        With ``every_s`` only what begins at a multiple of so many seconds: there may be hundreds of thousands.
        """
        kept = FORECASTS if forecasts else POINTS
        found = self._kept(kept, zone, source, start, end, newest=False, every_s=every_s)
        return sorted(found, key=lambda point: (point.start, point.fetched_at))

    def prices(
        self,
        zone: str | None = None,
        source: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> PriceSeries:
        """As ``points``, of prices: one source, currency and market."""
        return PriceSeries.of(self._kept(PRICES, zone, source, start, end))

    def jobs(self, running: bool | None = None) -> list[JobRecord]:
        """Oldest first. ``running`` True or False for those alone."""
        state = None if running is None else "running" if running else "ended"
        return self._select(JOB, {"state = ?": state}, "registered_at_utc, id")

    def job(self, job_id: str) -> JobRecord | None:
        return next(iter(self._select(JOB, {"id = ?": job_id}, "id")), None)

    def windows(self, key: str) -> list[Window]:
        """The raw measurements under ``key``, in the order in which they were added."""
        return self._made(
            "SELECT * FROM windows WHERE key = ? ORDER BY id",
            (key,),
            _window,
        )

    def open_windows(self, key: str, newer_than: datetime | None = None) -> list[Window]:
        """Those of a sweep that is not finished: measured since the newest frontier under ``key`` was made."""
        return self._made(
            "SELECT * FROM windows WHERE key = ? AND measured_at_utc >= ? AND measured_at_utc >"
            " coalesce((SELECT max(made_at_utc) FROM frontiers WHERE frontiers.key = windows.key), '') ORDER BY id",
            (key, "" if newer_than is None else utc_text(newer_than)),
            _window,
        )

    def load_frontier(self, key: str, newer_than: datetime | None = None) -> Frontier | None:
        """The newest frontier under ``key``, if it was made after ``newer_than``; with its raw windows."""
        found = self._made(
            "SELECT * FROM frontiers WHERE key = ? AND made_at_utc >= ? ORDER BY made_at_utc DESC, id DESC LIMIT 1",
            (key, "" if newer_than is None else utc_text(newer_than)),
            _frontier,
        )
        return found[0] if found else None

    def recurrences(self) -> list[RecurrenceRecord]:
        """By name."""
        return self._select(RECURRENCE, {}, "name, changed_at_utc")

    def recurrence(self, key: str) -> RecurrenceRecord | None:
        return next(iter(self._select(RECURRENCE, {"key = ?": key}, "key")), None)

    def trials(self, key: str | None = None, *, running: bool | None = None) -> list[TrialRecord]:
        """By key and number. ``running`` True for those alone that have not ended."""
        return self._select(TRIAL, {"key = ?": key, "(ended_at_utc IS NULL) = ?": running}, "key, number")

    def decision(self, decision_id: int) -> DecisionRecord | None:
        return next(iter(self._decisions({"id = ?": decision_id}, "id")), None)

    def decisions(
        self, job: str | None = None, since: datetime | None = None, limit: int | None = None
    ) -> list[DecisionRecord]:
        """Oldest first; of more than ``limit``, the newest."""
        where = {"job_id = ?": job, "at_utc >= ?": _text(since)}
        return self._decisions(where, "at_utc, id", limit)

    def decision_count(self, job_id: str) -> int:
        counted = self._made(
            "SELECT count(*) AS n FROM decisions WHERE job_id = ?", (job_id,), lambda row: int(row["n"])
        )
        return sum(counted)

    def last_decision(self, job_id: str) -> DecisionRecord | None:
        return next(iter(self.decisions(job_id, limit=1)), None)

    def intervals(
        self, job: str | None = None, since: datetime | None = None, region: str | None = None
    ) -> list[IntervalRecord]:
        """Oldest first; of one job, or of all jobs of a region."""
        of_region = "job_id IN (SELECT id FROM jobs WHERE region = ?)"
        where = {"job_id = ?": job, of_region: region, "start_utc >= ?": _text(since)}
        return self._select(INTERVAL, where, "start_utc, id")

    def events(
        self,
        job: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
        code: str | None = None,
    ) -> list[EventRecord]:
        """Oldest first; of more than ``limit``, the newest."""
        where = {"job_id = ?": job, "at_utc >= ?": _text(since), "code = ?": code}
        return self._select(EVENT, where, "at_utc, id", limit)

    def holds(self, at: datetime) -> list[HoldRecord]:
        """The overrides in force at ``at`` that nobody has ended, the newest last."""
        now = utc_text(at)
        where = {"(until_utc IS NULL OR until_utc > ?)": now, "(ended_at_utc IS NULL OR ended_at_utc > ?)": now}
        return self._select(HOLD, where, "made_at_utc, id")

    def export(self, table: str, since: datetime | None = None) -> Iterator[dict[str, Any]]:
        """Every row of a table as it is stored, in pages, so that no long read keeps the log from being trimmed."""
        if table not in EXPORTS:
            raise StoreError(f"there is no table {table!r} to export; choose one of {', '.join(EXPORTS)}")
        number = "rowid" if table == "jobs" else "id"  # a view has no rowid
        where = f"{EXPORTS[table]} >= ? AND {number} > ? ORDER BY {number} LIMIT ?"
        sql = f"SELECT {number} AS row_number, * FROM {table} WHERE {where}"
        return self._pages(sql, _text(since) or "")

    def _pages(self, sql: str, since: str) -> Iterator[dict[str, Any]]:
        last = 0
        while rows := self._rows(sql, (since, last, _PAGE)):
            last = rows[-1]["row_number"]
            yield from ({key: value for key, value in row.items() if key != "row_number"} for row in rows)

    def _kept(
        self,
        kept: Kept[P],
        zone: str | None,
        source: str | None,
        start: datetime | None,
        end: datetime | None,
        *,
        newest: bool = True,
        every_s: int | None = None,
    ) -> list[P]:
        where: dict[str, Any] = {"zone": zone, "source": source, "start": start, "end": end, "every_s": every_s}
        sql, limits = query(kept, newest=newest, **where)
        found = self._made(sql, limits, kept.decode)
        return kept.one_series([point for point in found if start is None or point.end > start])

    def _decisions(self, where: Mapping[str, Any], order: str, limit: int | None = None) -> list[DecisionRecord]:
        return self._chosen(f"SELECT *, {_FRONTIER} FROM decisions", _decision, where, order, limit)

    def _select(self, shape: Shape[R], where: Mapping[str, Any], order: str, limit: int | None = None) -> list[R]:
        return self._chosen(f"SELECT * FROM {shape.table}", shape.record, where, order, limit)

    def _chosen(
        self, select: str, make: Callable[[Row], R], where: Mapping[str, Any], order: str, limit: int | None
    ) -> list[R]:
        """Rows that meet every condition whose value is not None."""
        wanted = {condition: value for condition, value in where.items() if value is not None}
        clause = f" WHERE {' AND '.join(wanted)}" if wanted else ""
        newest_first = ", ".join(f"{column} DESC" for column in order.split(", "))
        sql = f"{select}{clause} ORDER BY {newest_first} LIMIT ?"
        found = self._made(sql, (*wanted.values(), -1 if limit is None else limit), make)
        return found[::-1]

    def _made(self, sql: str, parameters: Sequence[Any], make: Callable[[Row], R]) -> list[R]:
        rows = self._rows(sql, parameters)
        try:
            return [make(row) for row in rows]
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise StoreError(f"{self.path}: a row cannot be read ({error}); the file may be damaged") from error

    def _rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        with self._connection() as conn:
            cursor = conn.execute(sql, parameters)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection for this thread alone while the block runs; one that failed is not used again."""
        which, conn = self._take()
        try:
            yield conn
        except DATABASE_ERRORS as error:
            conn.close()
            raise Unreadable(self.path, error, which) from error
        except BaseException:
            conn.close()
            raise
        self._give_back(which, conn)

    def _take(self) -> tuple[FileId | None, sqlite3.Connection]:
        which = identity(self.path)
        with self._lock:
            idle, self._idle = self._idle, []
            self._idle = [entry for entry in idle if entry[0] == which]
            gone = [conn for found, conn in idle if found != which]
            ready = self._idle.pop() if self._idle else None
        for conn in gone:
            conn.close()
        if ready is not None:
            return ready
        if which is None:
            raise StoreError(f"{self.path}: there is no database here, or it may not be looked at")
        try:
            return which, connect_readonly(self.path, timeout_s=self._timeout_s)
        except DATABASE_ERRORS as error:
            raise Unreadable(self.path, error, which) from error

    def _give_back(self, which: FileId | None, conn: sqlite3.Connection) -> None:
        with self._lock:
            if len(self._idle) < _IDLE and not self._closed:
                self._idle.append((which, conn))
                return
        conn.close()


def open_readonly(path: Path) -> Reader:
    """Raises ``StoreError`` that says what to do when the file is missing, damaged, not ours, or of a newer chase."""
    reader = Reader(path)
    try:
        reader.check()
    except BaseException:
        reader.close()
        raise
    return reader


def _text(at: datetime | None) -> str | None:
    return None if at is None else utc_text(at)


def _decision(row: Row) -> DecisionRecord:
    record = DECISION.record(row)
    if row["frontier_digest"] is not None:
        record.inputs["frontier"] = json.loads(row["frontier_json"])
    return record


def _window(row: Row) -> Window:
    return Window(Setting(**json.loads(row["setting_json"])), row["units"], row["duration_s"], row["energy_j"])


def _frontier(row: Row) -> Frontier:
    fitted = Frontier.from_dict(json.loads(row["frontier_json"]))
    windows = tuple(
        Window(Setting(**raw["setting"]), raw["units"], raw["seconds"], raw["joules"])
        for raw in json.loads(row["windows_json"])
    )
    return Frontier(fitted.points, fitted.reference, windows)
