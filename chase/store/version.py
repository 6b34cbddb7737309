"""Whose file it is and from when: asked by writer and reader alike, without importing sqlite-utils."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from chase.errors import StoreError
from chase.store.connect import Damaged
from chase.store.tables import APPLICATION_ID, MIGRATION_SET, TABLES, VERSIONS

_VERSION = re.compile(r"m\d{3}_[a-z0-9_]+")


def applied(conn: sqlite3.Connection) -> tuple[str, ...]:
    """The migrations that the file has seen, in order; none for an empty file."""
    if not conn.execute("SELECT 1 FROM sqlite_master WHERE name = '_sqlite_migrations'").fetchone():
        return ()
    rows = conn.execute("SELECT name FROM _sqlite_migrations WHERE migration_set = ? ORDER BY id", (MIGRATION_SET,))
    return tuple(name for (name,) in rows)


def check(conn: sqlite3.Connection, path: Path) -> tuple[str, ...]:
    """The file's migrations.

    Raises ``StoreError`` for a file that is not ours or that a newer chase wrote, ``Damaged`` for one of ours in which
    something is missing.
    """
    try:
        seen = applied(conn)
        (mark,) = conn.execute("PRAGMA application_id").fetchone()
        tables = {name for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise Damaged(str(error)) from error
    if tables and not seen and mark != APPLICATION_ID:
        raise StoreError(f"{path} is an SQLite database, but not one of chase; name another file with service.db")
    if _newer(seen):
        raise StoreError(
            f"{path} was written by a newer chase (its schema has {', '.join(seen[len(VERSIONS) :])}, ours ends at"
            f" {VERSIONS[-1]}); install that version, or name another file with service.db"
        )
    if seen != VERSIONS[: len(seen)] or bool(seen) != bool(tables) or (seen == VERSIONS and not tables >= TABLES):
        raise Damaged("tables are missing")
    return seen


def _newer(seen: tuple[str, ...]) -> bool:
    ours, more = seen[: len(VERSIONS)], seen[len(VERSIONS) :]
    return ours == VERSIONS and bool(more) and all(map(_VERSION.fullmatch, more))
