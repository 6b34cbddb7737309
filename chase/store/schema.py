"""Bringing a file to the newest schema, under the same lock as every other write."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlite_utils import Migrations

from chase.store.connect import write
from chase.store.rows import span_of, unix_of
from chase.store.tables import (
    M001_LOG,
    M002_COMPACT,
    M003_ACCOUNTS,
    M004_FRONTIERS_ONCE,
    M005_RECURRENCES,
    MIGRATION_SET,
)
from chase.store.version import check

if TYPE_CHECKING:
    from pathlib import Path

    from sqlite_utils import Database

migrations = Migrations(MIGRATION_SET)


@migrations()
def m001_log(db: Database) -> None:
    for statement in M001_LOG:
        db.execute(statement)


@migrations()
def m002_compact(db: Database) -> None:
    """The points move to their small rows and keep their numbers; the old names become views."""
    db.conn.create_function("unix_s", 1, unix_of, deterministic=True)
    db.conn.create_function("span_s", 2, span_of, deterministic=True)
    for statement in M002_COMPACT:
        db.execute(statement)


@migrations()
def m003_accounts(db: Database) -> None:
    """Host, price, money and embodied emissions of an interval; rows from before have none of them."""
    for statement in M003_ACCOUNTS:
        db.execute(statement)


@migrations()
def m004_frontiers_once(db: Database) -> None:
    """Decisions from before keep the frontier in their inputs."""
    for statement in M004_FRONTIERS_ONCE:
        db.execute(statement)


@migrations()
def m005_recurrences(db: Database) -> None:
    """Jobs that are trained again and again, and what each time took."""
    for statement in M005_RECURRENCES:
        db.execute(statement)


def migrate(db: Database, path: Path, reseed: Callable[[Database], None] = lambda _: None) -> None:
    """Make or complete the tables; ``reseed`` fills those of a new file.

    Raises ``StoreError`` for a file of a newer chase or of somebody else, before anything in it is changed.
    """
    check(db.conn, path)
    if not migrations.pending(db):
        return
    with write(db):
        new = not migrations.applied(db)
        migrations.apply(db)
        if new:
            reseed(db)
