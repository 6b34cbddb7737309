"""Retention: what is old enough goes or is thinned, and nothing that an open job needs."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chase.errors import StoreError
from chase.store.connect import open_db, write
from chase.store.points import ALL, FORECASTS, Kept
from chase.store.rollup import roll_up
from chase.store.rows import unix_s, utc_text, utc_time

if TYPE_CHECKING:
    from sqlite_utils import Database

_CHUNK = 5000  # rows of one transaction: the service's own writes go in between
_OPEN = "SELECT id FROM jobs WHERE state = 'running'"
_LOOK_BACK = timedelta(days=8)  # of the signal before a job began: its percentiles and its reference intensity
_REPRICED = timedelta(days=4)  # what was drawn is priced anew for three days, by values as they were published
_OLD_ROWS = {
    "decisions": f"at_utc < :log AND job_id NOT IN ({_OPEN})",
    "decision_frontiers": "NOT EXISTS (SELECT 1 FROM decisions WHERE job_id = decision_frontiers.job_id)",
    "intervals": f"end_utc < :log AND job_id NOT IN ({_OPEN})",
    "events": f"at_utc < :log AND (job_id IS NULL OR job_id NOT IN ({_OPEN}))",
    "windows": f"measured_at_utc < :log AND job_id NOT IN ({_OPEN})",
    "holds": f"coalesce(ended_at_utc, until_utc) < :log AND (job_id IS NULL OR job_id NOT IN ({_OPEN}))",
    "frontiers": "made_at_utc < :log AND id NOT IN (SELECT max(id) FROM frontiers GROUP BY key)",
    "jobs": """ended_at_utc < :log AND state = 'ended'
        AND NOT EXISTS (SELECT 1 FROM decisions WHERE job_id = jobs.id)
        AND NOT EXISTS (SELECT 1 FROM intervals WHERE job_id = jobs.id)""",
}


@dataclass(frozen=True, slots=True)
class Keep:
    """Days to remember: decisions, intervals, events and ended jobs; and the signal with its forecasts and prices.

    After ``vintages_days`` only the newest vintage stays, and what is shorter than an hour becomes an hour's mean where
    no open job needs it; after ``forecasts_days`` only the last forecast for each hour that was made before it.
    """

    log_days: float = 400.0
    signal_days: float = 400.0
    vintages_days: float = 30.0
    forecasts_days: float = 30.0


def prune(path: Path, now: datetime, keep: Keep) -> dict[str, int]:
    """Rows fewer, by table. Raises ``StoreError``; what was done until then stays done."""
    try:
        db = open_db(path)
        try:
            needed = _needed_since(db, now)
            log = {"log": utc_text(now - timedelta(days=keep.log_days))}
            gone = {table: _delete(db, table, where, log) for table, where in _OLD_ROWS.items()}
            return gone | {kept.view: _pruned(db, kept, now, keep, needed) for kept in ALL}
        finally:
            db.conn.close()
    except sqlite3.Error as error:
        raise StoreError(f"{path}: could not be pruned: {error}; try again") from error


def _needed_since(db: Database, now: datetime) -> datetime:
    """From when on the signal is needed as it was published."""
    (oldest,) = db.execute("SELECT min(registered_at_utc) FROM jobs WHERE state = 'running'").fetchone()
    return now - _REPRICED if oldest is None else min(now - _REPRICED, utc_time(oldest) - _LOOK_BACK)


def _pruned(db: Database, kept: Kept[Any], now: datetime, keep: Keep, needed: datetime) -> int:
    thin_days = keep.forecasts_days if kept is FORECASTS else keep.vintages_days
    end = {"end": unix_s(min(now - timedelta(days=keep.signal_days), needed))}
    gone = _delete(db, kept.rows, "start_unix_s + length_s < :end", end)
    thin_before = unix_s(now - timedelta(days=thin_days))
    return gone + roll_up(db, kept, thin_before=thin_before, join_before=unix_s(needed))


def _delete(db: Database, table: str, where: str, limit: dict[str, Any]) -> int:
    sql = f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE {where} LIMIT {_CHUNK})"
    total = 0
    while True:
        with write(db):
            deleted = db.execute(sql, limit).rowcount
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
