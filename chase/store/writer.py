"""One thread that owns the writing connection, so that bad luck with the disk never reaches the control loop.

Rows wait in memory until they are committed. While they cannot be (the disk is full, another process holds the lock)
the writer retries, and beyond a bound forgets the oldest and counts them; the count becomes an event once writing works
again. A file that SQLite calls corrupt is put aside, nothing in it is deleted, and a new one is begun.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chase.errors import StoreError
from chase.records import EventRecord
from chase.store.backlog import BATCH, Backlog, Op
from chase.store.connect import BUSY_S, Fault, FileId, fault_of, write
from chase.store.link import Link
from chase.store.rows import EVENT
from chase.store.version import check

if TYPE_CHECKING:
    from sqlite_utils import Database

_LOG = logging.getLogger(__name__)
Result = int | Exception | None
_SLOW = "a write takes longer than usual: another process may hold the database"


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """``ok`` while rows reach the disk. ``buffered`` rows wait in memory, ``lost`` were forgotten since the start."""

    ok: bool
    reason: str = ""
    buffered: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Tuning:
    """``patience_s``: how long a caller waits for its row. ``buffer_rows``: how many may wait for the disk.

    With ``linger_s`` nobody waits for his row: it is written when there are enough for one transaction, after so many
    seconds, or before anything is read. For a replay, which hands over ten thousand rows a second.
    """

    patience_s: float = 2.0
    retry_s: float = 2.0
    busy_s: float = BUSY_S
    buffer_rows: int = 4096
    linger_s: float = 0.0


class Writer:
    """Any thread may hand rows over. Raises ``StoreError`` when made for a file that must not be touched."""

    def __init__(
        self, path: Path, *, now: Callable[[], datetime], reseed: Callable[[Database], None], tuning: Tuning
    ) -> None:
        self.path = path
        self._now = now
        self._tuning = tuning
        self._link = Link(path, busy_s=tuning.busy_s, now=now, reseed=reseed, say=self._say)
        self._work = threading.Condition()  # guards all below
        self._backlog = Backlog(tuning.buffer_rows)
        self._in_hand = 0
        self._hurried = 0  # how many wait until nothing is left
        self._fault = ""
        self._fault_since: datetime | None = None
        self._slow = False
        self._suspect = ""
        self._closing = False
        self._tries_left = 1  # at the end, while there is a fault
        self._events: list[EventRecord] = []
        self._opened: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="chase-store", daemon=True)
        self._thread.start()
        self._await_opening()

    @property
    def health(self) -> StoreHealth:
        with self._work:
            reason = self._fault or (_SLOW if self._slow else "")
            return StoreHealth(not reason, reason, self._backlog.rows + self._in_hand, self._backlog.lost_rows)

    def submit(self, op: Op) -> int | None:
        """Hand over a row and wait a little for its id; None when it waits in memory. Never raises."""
        with self._work:
            patient = not (self._fault or self._slow or self._closing)
            if self._tuning.linger_s > 0:
                self._backlog.put(op)
                if patient and len(self._backlog) >= BATCH:
                    self._slow = not self._finish(self._tuning.patience_s)
                return None
            op.done = Future() if patient else None
            self._backlog.put(op)
            self._work.notify_all()
        return None if op.done is None else self._await(op.done)

    def flush(self, timeout_s: float) -> bool:
        """Wait until nothing is left to write; False if that took too long."""
        with self._work:
            return self._finish(timeout_s)

    def catch_up(self) -> None:
        """Before anything is read: nobody should miss what only lingers."""
        with self._work:
            if self._tuning.linger_s > 0 and not (self._fault or self._slow):
                self._finish(self._tuning.patience_s)

    def suspect(self, which: FileId | None, reason: str) -> None:
        """A reader found the file ``which`` corrupt."""
        with self._work:
            if which is not None and which == self._link.which:
                self._suspect = reason
                self._work.notify_all()

    def close(self, timeout_s: float) -> None:
        """One last try for what is still in memory; the log says how much could not be written."""
        with self._work:
            self._closing = True
            self._work.notify_all()
        self._thread.join(timeout_s)
        health = self.health
        if health.buffered:
            _LOG.error("%s: %d rows are lost at the end: %s", self.path, health.buffered, health.reason)

    def _await(self, done: Future[int | None]) -> int | None:
        try:
            return done.result(self._tuning.patience_s)
        except FutureTimeout:
            with self._work:
                self._slow = not done.done()
            return None
        except StoreError:
            return None

    def _finish(self, timeout_s: float) -> bool:
        """Under the lock, which waiting lets go: True once nothing is left to write."""
        self._hurried += 1
        self._work.notify_all()
        try:
            return self._work.wait_for(lambda: not self._backlog and not self._in_hand, timeout_s)
        finally:
            self._hurried -= 1

    def _await_opening(self) -> None:
        try:
            self._opened.result(self._tuning.patience_s)
        except FutureTimeout:
            with self._work:
                self._slow = True
        except StoreError:
            self.close(self._tuning.patience_s)
            raise

    def _run(self) -> None:
        self._attempt()
        while self._wait():
            self._attempt()
        self._link.drop()

    def _wait(self) -> bool:
        """Until there is something to do or to try again; False when it is over."""
        with self._work:
            if self._fault:
                self._work.wait_for(lambda: self._closing, self._tuning.retry_s)
                self._tries_left -= self._closing
            else:
                linger_s = self._tuning.linger_s or None
                while not (self._work.wait_for(self._is_due, linger_s) or self._backlog):
                    pass
            return not self._closing or (len(self._backlog) > 0 and self._tries_left >= 0)

    def _is_due(self) -> bool:
        enough = BATCH if self._tuning.linger_s > 0 and not self._hurried else 1
        return len(self._backlog) >= enough or bool(self._suspect or self._events or self._closing)

    def _attempt(self) -> None:
        with self._work:
            batch, suspect = self._backlog.take(), self._suspect
            self._in_hand, self._suspect = sum(op.rows for op in batch), ""
        try:
            if suspect:
                self._link.begin_anew(suspect)
            self._commit(self._link.db(), batch)
        except Exception as error:  # noqa: BLE001  a writer that dies loses every row to come
            self._failed(batch, error)
        else:
            self._link.good()
        if not self._opened.done():
            self._opened.set_result(None)

    def _commit(self, db: Database, batch: Sequence[Op]) -> None:
        """All of it in one transaction, or an error and none of it; a row that the database refuses is left out."""
        with self._work:
            lost = self._backlog.unreported.copy()
            reports = self._reports(lost)
        try:
            results = self._written(db, reports, batch, _apply)
        except Exception as error:
            if fault_of(error) is not Fault.REFUSED:
                raise
            results = self._written(db, reports, batch, self._apply_apart)
        with self._work:
            self._events, self._fault, self._fault_since, self._slow = [], "", None, False
            self._backlog.reported(lost)
            self._settle(batch, results)
            self._in_hand = 0
            self._work.notify_all()

    @staticmethod
    def _written(
        db: Database, reports: Sequence[EventRecord], batch: Sequence[Op], apply: Callable[[Database, Op], Result]
    ) -> list[Result]:
        with write(db):
            for event in reports:
                db.conn.execute(EVENT.insert, EVENT.values(event))
            return [apply(db, op) for op in batch]

    def _apply_apart(self, db: Database, op: Op) -> Result:
        """The row's id; an error that only this row has is returned, and undone alone."""
        try:
            with db.atomic():
                return op.apply(db)
        except Exception as error:
            if fault_of(error) is not Fault.REFUSED:
                raise
            check(db.conn, self.path)  # a table that is gone is not the row's fault
            return error

    def _settle(self, batch: Sequence[Op], results: Sequence[Result]) -> None:
        for op, result in zip(batch, results, strict=True):
            if isinstance(result, Exception):
                _LOG.error("%s: %s: a row was refused: %s", self.path, op.table, result)
                self._backlog.lose(op)
                op.fail(StoreError(f"{self.path}: {op.table}: {result}"))
            else:
                op.succeed(result)

    def _failed(self, batch: Sequence[Op], error: Exception) -> None:
        """Keep the rows for the next try, and let nobody wait for it."""
        if not self._opened.done() and isinstance(error, StoreError):
            self._opened.set_exception(error)
        reason = self._in_the_way(error)
        with self._work:
            if reason and not self._fault:
                self._fault_since = self._now()
                _LOG.warning("%s cannot be written: %s; rows wait in memory", self.path, reason)
            self._fault = reason
            for op in batch if reason else ():
                op.fail(StoreError(f"{self.path}: {reason}"))
            self._backlog.put_back(batch)
            self._in_hand = 0
            self._work.notify_all()

    def _in_the_way(self, error: Exception) -> str:
        """What keeps rows from being written; empty where a new file can be begun at once."""
        reason = str(error) or type(error).__name__
        try:
            if fault_of(error) is Fault.CORRUPT and self._link.begin_anew(reason):
                return ""
        except OSError as refusal:
            reason = f"{reason}; and it cannot be put aside: {refusal}"
        self._link.drop()
        return reason

    def _say(self, code: str, message: str, data: dict[str, Any]) -> None:
        _LOG.warning(message)
        with self._work:
            self._events.append(EventRecord(at=self._now(), code=code, severity="error", message=message, data=data))

    def _reports(self, lost: Mapping[str, int]) -> list[EventRecord]:
        """What readers of the log should know of the time in which it could not be written."""
        now, reports = self._now(), list(self._events)
        if self._fault and self._fault_since is not None:
            since = self._fault_since.isoformat(timespec="seconds")
            message = f"the database could not be written since {since}: {self._fault}"
            reports.append(EventRecord(at=now, code="store-back", severity="warning", message=message))
        if lost:
            message = f"rows were lost: {', '.join(f'{count} of {table}' for table, count in lost.items())}"
            event = EventRecord(at=now, code="store-rows-lost", severity="error", message=message, data=dict(lost))
            reports.append(event)
        return reports


def _apply(db: Database, op: Op) -> Result:
    return op.apply(db)
