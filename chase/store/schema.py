"""Bringing a file to the newest schema, under the same lock as every other write."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlite_utils import Migrations

from chase.store.connect import write
from chase.store.tables import M001_LOG, MIGRATION_SET
from chase.store.version import check

if TYPE_CHECKING:
    from pathlib import Path

    from sqlite_utils import Database

migrations = Migrations(MIGRATION_SET)


@migrations()
def m001_log(db: Database) -> None:
    for statement in M001_LOG:
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
