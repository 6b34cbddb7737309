"""Retention: what is old enough goes, and nothing that an open job needs."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from chase.errors import StoreError
from chase.store.connect import open_db, write
from chase.store.rows import utc_text, utc_time

if TYPE_CHECKING:
    from sqlite_utils import Database

_CHUNK = 5000  # rows of one transaction: the service's own writes go in between
_OPEN = "SELECT id FROM jobs WHERE state = 'running'"
_LOOK_BACK = timedelta(days=8)  # of the signal before a job began: its percentiles and its reference intensity
_OLD_ROWS = {
    "decisions": f"at_utc < :log AND job_id NOT IN ({_OPEN})",
    "intervals": f"end_utc < :log AND job_id NOT IN ({_OPEN})",
    "events": f"at_utc < :log AND (job_id IS NULL OR job_id NOT IN ({_OPEN}))",
    "windows": f"measured_at_utc < :log AND job_id NOT IN ({_OPEN})",
    "holds": f"coalesce(ended_at_utc, until_utc) < :log AND (job_id IS NULL OR job_id NOT IN ({_OPEN}))",
    "frontiers": "made_at_utc < :log AND id NOT IN (SELECT max(id) FROM frontiers GROUP BY key)",
    "signal_points": "end_utc < :signal",
    "forecasts": "end_utc < :signal",
    "jobs": """ended_at_utc < :log AND state = 'ended'
        AND NOT EXISTS (SELECT 1 FROM decisions WHERE job_id = jobs.id)
        AND NOT EXISTS (SELECT 1 FROM intervals WHERE job_id = jobs.id)""",
}


@dataclass(frozen=True, slots=True)
class Keep:
    """Days to remember: decisions, intervals, events and ended jobs; and the signal with its forecasts."""

    log_days: float = 400.0
    signal_days: float = 400.0


def prune(path: Path, now: datetime, keep: Keep) -> dict[str, int]:
    """Rows deleted, by table. Raises ``StoreError``; what was deleted until then stays deleted."""
    try:
        db = open_db(path)
        try:
            cutoffs = _cutoffs(db, now, keep)
            return {table: _delete(db, table, where, cutoffs) for table, where in _OLD_ROWS.items()}
        finally:
            db.conn.close()
    except sqlite3.Error as error:
        raise StoreError(f"{path}: could not be pruned: {error}; try again") from error


def _cutoffs(db: Database, now: datetime, keep: Keep) -> dict[str, str]:
    signal = now - timedelta(days=keep.signal_days)
    (oldest,) = db.execute("SELECT min(registered_at_utc) FROM jobs WHERE state = 'running'").fetchone()
    if oldest is not None:
        signal = min(signal, utc_time(oldest) - _LOOK_BACK)
    return {"log": utc_text(now - timedelta(days=keep.log_days)), "signal": utc_text(signal)}


def _delete(db: Database, table: str, where: str, cutoffs: dict[str, str]) -> int:
    sql = f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE {where} LIMIT {_CHUNK})"  # noqa: S608  our own
    used = {name: value for name, value in cutoffs.items() if f":{name}" in where}
    total = 0
    while True:
        with write(db):
            deleted = db.execute(sql, used).rowcount
        total += deleted
        if deleted < _CHUNK:
            return total


def checkpoint(path: Path) -> bool:
    """Raises ``StoreError``."""
    try:
        db = open_db(path, timeout_s=1.0)
        try:
            busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            db.conn.close()
    except sqlite3.Error as error:
        raise StoreError(f"{path}: no checkpoint: {error}") from error
    return not busy
