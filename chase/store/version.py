"""Whose file it is and from when: asked by writer and reader alike, without importing sqlite-utils."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from chase.errors import StoreError
from chase.store.tables import APPLICATION_ID, MIGRATION_SET, VERSIONS


def applied(conn: sqlite3.Connection) -> tuple[str, ...]:
    """The migrations that the file has seen, in order; none for an empty file."""
    if not conn.execute("SELECT 1 FROM sqlite_master WHERE name = '_sqlite_migrations'").fetchone():
        return ()
    rows = conn.execute("SELECT name FROM _sqlite_migrations WHERE migration_set = ? ORDER BY id", (MIGRATION_SET,))
    return tuple(name for (name,) in rows)


def check(conn: sqlite3.Connection, path: Path) -> tuple[str, ...]:
    """Raises ``StoreError`` for a file that is not ours or that a newer chase wrote."""
    seen = applied(conn)
    unknown = [name for name in seen if name not in VERSIONS]
    if unknown:
        raise StoreError(
            f"{path} was written by a newer chase (its schema has {', '.join(unknown)}, ours ends at {VERSIONS[-1]});"
            " install that version, or name another file with service.db"
        )
    (found,) = conn.execute("PRAGMA application_id").fetchone()
    (tables,) = conn.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()
    if tables and found != APPLICATION_ID:
        raise StoreError(f"{path} is an SQLite database, but not one of chase; name another file with service.db")
    return seen
