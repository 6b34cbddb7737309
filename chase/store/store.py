"""The service's side of the log: hand a record over, and it is written, or kept until it can be."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from chase.clock import Clock
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
from chase.store import prices
from chase.store.backlog import Op, Worth
from chase.store.connect import Fault, refuse_network
from chase.store.keep import Keep, checkpoint, prune
from chase.store.points import PRICES, Kept, Vintage, add_vintages, observed_and_expected
from chase.store.read import Reader, Row, Unreadable
from chase.store.rows import (
    DECISION,
    EVENT,
    HOLD,
    INTERVAL,
    JOB,
    RECURRENCE,
    TRIAL,
    Shape,
    digest,
    insert_into,
    json_text,
    real,
    utc_text,
)
from chase.store.writer import StoreHealth, Tuning, Writer
from providers.base import IntensityPoint, PricePoint
from zeus_core.frontier import Frontier, Window

if TYPE_CHECKING:
    from sqlite_utils import Database

R = TypeVar("R")
_PRICES = 500  # rows of one operation: a few of them fit into memory beside all else
_LOG = logging.getLogger(__name__)
_UPDATED = ", ".join(f"{name} = excluded.{name}" for name in JOB.names if name not in {"id", "registered_at_utc"})
_UPSERT_JOB = f"""{JOB.insert} ON CONFLICT (id) DO UPDATE SET {_UPDATED},
    registered_at_utc = min(registered_at_utc, excluded.registered_at_utc)"""
_DECIDED_AT, _DECIDED_FOR = (DECISION.names.index(name) for name in ("at_utc", "job_id"))
_ADD_DECISION = insert_into("decisions", (*DECISION.names, "frontier_digest"))
_KEEP_FRONTIER = """INSERT INTO decision_frontiers (job_id, frontier_digest, made_at_utc, frontier_json)
    VALUES (?, ?, ?, ?) ON CONFLICT (job_id, frontier_digest) DO NOTHING"""


class Store(Reader):
    """The log, for the one service of a node; safe for any number of its threads.

    Writing never raises for what befalls the disk: see ``health``. It raises ``ValueError`` for a value that must not
    be stored (not finite, not UTC, not JSON). Looking back never raises either: it finds nothing while the database
    is unusable. Only ``prune`` and ``export`` raise ``StoreError`` when they could not be done.

    Raises ``StoreError`` when made for a path that must not be used: a network file system, a file that is not ours
    or that a newer chase wrote, a directory that cannot be made.
    """

    def __init__(self, path: Path, *, clock: Clock, keep: Keep | None = None, tuning: Tuning | None = None) -> None:
        tuning = tuning or Tuning()
        super().__init__(path, timeout_s=tuning.patience_s)
        self._clock = clock
        self._keep = keep or Keep()
        self._open_jobs: dict[str, JobRecord] = {}
        self._units_done: dict[str, float] = {}  # of those, where it has changed since
        self._open_holds: list[HoldRecord] = []
        self._mirror = threading.Lock()
        self._read_fault = self._told = ""
        _make_room(self.path)
        self._writer = Writer(self.path, now=clock.now, reseed=self._reseed, tuning=tuning)

    @property
    def health(self) -> StoreHealth:
        health = self._writer.health
        return replace(health, ok=False, reason=self._read_fault) if health.ok and self._read_fault else health

    def close(self, timeout_s: float = 5.0) -> None:
        """The writer goes last: SQLite folds the log into the file when its last connection closes."""
        super().close()
        self._writer.close(timeout_s)

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until nothing is left in memory; False if that took too long."""
        return self._writer.flush(timeout_s)

    def add_points(self, points: Iterable[IntensityPoint]) -> int:
        """Observed points and forecasts; how many of them said something new, 0 while they wait in memory."""
        return sum(self._add_vintages(kept, rows) for kept, rows in observed_and_expected(points).items())

    def add_prices(self, points: Iterable[PricePoint]) -> int:
        """As ``add_points``."""
        rows = [PRICES.encode(point) for point in points]
        return self._add_vintages(PRICES, rows) if rows else 0

    def upsert_job(self, job: JobRecord) -> None:
        """A job begins, or its progress is written down. The first registration keeps its time."""
        row = JOB.values(job)
        with self._mirror:
            self._open_jobs.pop(job.id, None)
            self._units_done.pop(job.id, None)
            if job.state == "running":
                self._open_jobs[job.id] = job
            else:
                self._open_holds = self._held(but=job.id)
        self._writer.submit(Op("jobs", lambda db: _upsert_job(db, row), worth=Worth.STATE))

    def note_progress(self, job_id: str, units_done: float) -> None:
        """How far an open job is: all that changes of it from one decision to the next."""
        done = real(units_done, "jobs.units_done")
        with self._mirror:
            self._units_done[job_id] = done
        self._writer.submit(Op("jobs", lambda db: self._progressed(db, job_id, done), worth=Worth.STATE))

    def end_job(self, job_id: str, at: datetime, reason: str, units_done: float) -> None:
        """What was held for it ends, too. The first end counts; ending what has ended changes nothing."""
        with self._mirror:
            job = self._open_jobs.pop(job_id, None)
            self._units_done.pop(job_id, None)
            self._open_holds = self._held(but=job_id)
        row = None
        if job is not None:
            row = JOB.values(replace(job, state="ended", ended_at=at, end_reason=reason, units_done=units_done))
        values = {"at": utc_text(at), "reason": reason, "units": float(units_done), "id": job_id}
        self._writer.submit(Op("jobs", lambda db: _end_job(db, row, values), worth=Worth.STATE))

    def keep_recurrence(self, record: RecurrenceRecord) -> None:
        values = RECURRENCE.values(record)
        self._writer.submit(Op("recurrences", lambda db: _replace(db, RECURRENCE, values), worth=Worth.STATE))

    def keep_trial(self, record: TrialRecord) -> None:
        """A new one, or how far one is."""
        values = TRIAL.values(record)
        self._writer.submit(Op("trials", lambda db: _replace(db, TRIAL, values), worth=Worth.STATE))

    def add_windows(
        self, key: str, windows: Iterable[Window], *, job_id: str | None = None, at: datetime | None = None
    ) -> None:
        """Raw measurements under ``key``, which jobs of one kind share; by job ``job_id``, or by that of this key."""
        when = utc_text(at or self._clock.now())
        rows = [_window_row(window, key, job_id or key, when) for window in windows]
        if rows:
            self._insert("windows", rows)

    def save_frontier(self, key: str, frontier: Frontier, at: datetime) -> None:
        self._insert("frontiers", [_frontier_row(key, frontier, at)])

    def add_decision(self, decision: DecisionRecord) -> int | None:
        """The id that ``explain`` takes; None while the row waits in memory."""
        frontier, values = decision.inputs.get("frontier"), DECISION.values(decision)
        text = json_text(frontier, "decisions.inputs.frontier") if frontier else None
        return self._writer.submit(Op("decisions", lambda db: _add_decision(db, values, text)))

    def add_interval(self, interval: IntervalRecord) -> None:
        self._add(INTERVAL, interval)

    def update_prices(self, intervals: Iterable[IntervalRecord]) -> int:
        """Intervals that were priced anew (``accounting.reprice``): how many the log prices otherwise.

        Those alone are written. Where memory is short they are given up before anything else: price them again.
        """
        rows = [INTERVAL.row(interval) for interval in intervals]
        written = {
            prices.key_of(row): prices.price_of(row)
            for span in prices.spans(rows)
            for row in self._made(prices.WRITTEN, span, dict)
        }
        fresh = [row for row in rows if written.get(prices.key_of(row)) != prices.price_of(row)]
        for first in range(0, len(fresh), _PRICES):
            self._submit_prices(fresh[first : first + _PRICES])
        return len(fresh)

    def forget_references(self, job_id: str, since: datetime) -> None:
        """Compare nothing of this job since then: the frontier it was compared by was wrong."""
        start = utc_text(since)
        self._writer.submit(Op("intervals", lambda db: prices.forget_references(db, job_id, start), worth=Worth.STATE))

    def add_event(self, event: EventRecord) -> int | None:
        return self._add(EVENT, event)

    def add_hold(self, hold: HoldRecord) -> int | None:
        row = HOLD.row(hold)
        with self._mirror:
            self._open_holds = [*self._held(), hold]
        return self._writer.submit(Op("holds", lambda db: _add_hold(db, row), worth=Worth.STATE))

    def end_hold(self, job_id: str | None, at: datetime, *, uid: int | None = None) -> None:
        """Lift what is held for a job, or for the node where ``job_id`` is None; that of ``uid`` alone if given."""
        values = (utc_text(at), job_id, uid, uid)
        with self._mirror:
            self._open_holds = [
                hold for hold in self._held() if hold.job_id != job_id or (uid is not None and hold.uid != uid)
            ]
        self._writer.submit(Op("holds", lambda db: _end_hold(db, values), worth=Worth.STATE))

    def prune(self, now: datetime) -> dict[str, int]:
        """Forget what is older than configured and no open job needs: rows deleted, by table."""
        return prune(self.path, now, self._keep)

    def checkpoint(self) -> bool:
        """Move the log of recent writes into the database, when idle; False when a reader is in the way."""
        try:
            return checkpoint(self.path)
        except StoreError as error:
            _LOG.info("%s", error)
            return False

    def _add_vintages(self, kept: Kept[Any], rows: Sequence[Vintage]) -> int:
        op = Op(kept.view, lambda db: add_vintages(db, kept, rows), rows=len(rows), worth=Worth.SAID)
        return self._writer.submit(op) or 0

    def _add(self, shape: Shape[Any], record: object) -> int | None:
        sql, values = shape.insert, shape.values(record)
        return self._writer.submit(Op(shape.table, lambda db: db.conn.execute(sql, values).lastrowid))

    def _insert(self, table: str, rows: Sequence[dict[str, Any]]) -> int | None:
        return self._writer.submit(Op(table, lambda db: _insert(db, table, rows), rows=len(rows)))

    def _submit_prices(self, rows: Sequence[dict[str, Any]]) -> None:
        self._writer.submit(
            Op("intervals", lambda db: prices.update_prices(db, rows), rows=len(rows), worth=Worth.SPARE)
        )

    def _progressed(self, db: Database, job_id: str, units_done: float) -> None:
        sql = "UPDATE jobs SET units_done = ? WHERE id = ? AND state = 'running'"
        if not db.conn.execute(sql, (units_done, job_id)).rowcount:
            self._bring_back(db, job_id)

    def _bring_back(self, db: Database, job_id: str) -> None:
        """An open job that the file does not know: it is another file, from before the job began."""
        with self._mirror:
            job = self._open_jobs.get(job_id)
        if job is not None:
            _upsert_job(db, JOB.values(self._as_far_as(job)))

    def _as_far_as(self, job: JobRecord) -> JobRecord:
        return replace(job, units_done=self._units_done.get(job.id, job.units_done))

    def _held(self, *, but: str | None = None) -> list[HoldRecord]:
        """The mirror's holds that are not over, without those of the job ``but``."""
        now = self._clock.now()
        in_force = [hold for hold in self._open_holds if hold.until is None or hold.until > now]
        return [hold for hold in in_force if but is None or hold.job_id != but]

    def _rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        self._writer.catch_up()
        return super()._rows(sql, parameters)

    def _made(self, sql: str, parameters: Sequence[Any], make: Callable[[Row], R]) -> list[R]:
        try:
            found = super()._made(sql, parameters, make)
        except StoreError as error:
            self._unreadable(error)
            return []
        self._read_fault = ""
        return found

    def _unreadable(self, error: StoreError) -> None:
        self._read_fault = str(error)
        if self._read_fault != self._told:
            _LOG.warning("%s", error)
        self._told = self._read_fault
        if isinstance(error, Unreadable) and error.fault is Fault.CORRUPT:
            self._writer.suspect(error.which, str(error.__cause__))

    def _reseed(self, db: Database) -> None:
        """Into a file that may have been begun anew: rows to come refer to these."""
        with self._mirror:
            jobs, holds = [self._as_far_as(job) for job in self._open_jobs.values()], self._held()
        for job in jobs:
            db.conn.execute(f"{JOB.insert} ON CONFLICT (id) DO NOTHING", JOB.values(job))
        for hold in holds:
            _add_hold(db, HOLD.row(hold))


def _make_room(path: Path) -> None:
    refuse_network(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{path.parent} cannot be made for the database: {error.strerror}") from error


def _insert(db: Database, table: str, rows: Sequence[dict[str, Any]]) -> int | None:
    """The id of the last one."""
    number = None
    for row in rows:
        number = db.conn.execute(insert_into(table, tuple(row)), tuple(row.values())).lastrowid
    return number


def _add_decision(db: Database, values: tuple[Any, ...], frontier: str | None) -> int | None:
    """With its frontier, unless an earlier decision of the job has brought that."""
    name = None
    if frontier is not None:
        name, at, job_id = digest(frontier), values[_DECIDED_AT], values[_DECIDED_FOR]
        db.conn.execute(_KEEP_FRONTIER, (job_id, name, at, frontier))
    return db.conn.execute(_ADD_DECISION, (*values, name)).lastrowid


def _replace(db: Database, shape: Shape[Any], values: tuple[Any, ...]) -> None:
    db.conn.execute(shape.insert.replace("INSERT", "INSERT OR REPLACE", 1), values)


def _upsert_job(db: Database, values: tuple[Any, ...]) -> None:
    db.conn.execute(_UPSERT_JOB, values)


def _end_job(db: Database, row: tuple[Any, ...] | None, values: dict[str, Any]) -> None:
    """``row`` is the job as it ended, None where an earlier run of the service knew it."""
    if row is not None:
        _upsert_job(db, row)
    else:
        db.execute(
            "UPDATE jobs SET state = 'ended', ended_at_utc = :at, end_reason = :reason, units_done = :units"
            " WHERE id = :id AND state = 'running'",
            values,
        )
    _end_hold(db, (values["at"], values["id"], None, None))


def _add_hold(db: Database, row: dict[str, Any]) -> int | None:
    """Once, also where a new file was already seeded with it."""
    same = " AND ".join(f"{name} IS :{name}" for name in row if name != "id") + " AND ended_at_utc IS NULL"
    if found := db.execute(f"SELECT id FROM holds WHERE {same}", row).fetchone():
        return int(found[0])
    return _insert(db, "holds", [row])


def _end_hold(db: Database, values: tuple[str, str | None, int | None, int | None]) -> None:
    sql = "UPDATE holds SET ended_at_utc = ? WHERE job_id IS ? AND (? IS NULL OR uid = ?) AND ended_at_utc IS NULL"
    db.execute(sql, values)


def _window_row(window: Window, key: str, job_id: str, at: str) -> dict[str, Any]:
    limit_w = window.setting.power_limit_w
    return {
        "key": key,
        "job_id": job_id,
        "measured_at_utc": at,
        "power_limit_w": None if limit_w is None else real(limit_w, "windows.power_limit_w"),
        "setting_json": json_text(window.setting.to_dict(), "windows.setting"),
        "units": window.units,
        "duration_s": window.seconds,
        "energy_j": window.joules,
    }


def _frontier_row(key: str, frontier: Frontier, at: datetime) -> dict[str, Any]:
    reference, limit_w = frontier.reference, frontier.reference.setting.power_limit_w
    windows = [{**asdict(window), "setting": window.setting.to_dict()} for window in frontier.windows]
    return {
        "key": key,
        "made_at_utc": utc_text(at),
        "point_count": len(frontier.points),
        "reference_power_limit_w": None if limit_w is None else real(limit_w, "frontiers.reference_power_limit_w"),
        "reference_s_per_unit": reference.seconds_per_unit,
        "reference_j_per_unit": reference.joules_per_unit,
        "frontier_json": json_text(frontier.to_dict(), "frontiers.frontier"),
        "windows_json": json_text(windows, "frontiers.windows"),
    }
