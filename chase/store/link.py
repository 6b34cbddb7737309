"""The writing connection: opened when needed, reopened when the file was exchanged, begun anew when it is corrupt."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chase.store.connect import FileId, identity, prepare, refuse_network
from chase.store.schema import migrate

if TYPE_CHECKING:
    from sqlite_utils import Database

Say = Callable[[str, str, dict[str, Any]], None]


class Link:
    """For one thread. ``say(code, message, data)`` is told what happened to the file.

    ``reseed`` puts what open jobs need into a file that was begun anew, in the transaction that makes its tables.
    """

    def __init__(
        self,
        path: Path,
        *,
        busy_s: float,
        now: Callable[[], datetime],
        reseed: Callable[[Database], None],
        say: Say,
    ) -> None:
        self.path = path
        self.which: FileId | None = None
        self._busy_s = busy_s
        self._now = now
        self._reseed = reseed
        self._say = say
        self._conn: sqlite3.Connection | None = None
        self._db: Database | None = None  # of that connection, once it is ready
        self._anew = False  # begun anew, and nothing written since

    def db(self) -> Database:
        """Raises ``sqlite3.Error``, ``OSError``, or ``StoreError`` for a file that must not be touched."""
        if self._db is not None and identity(self.path) != self.which:
            self._say("store-replaced", f"{self.path} was removed or exchanged; opened again", {})
            self.drop()
        if self._db is None:
            self._db = self._open()
        return self._db

    def good(self) -> None:
        """Something was committed: this file is worth keeping should it turn out corrupt."""
        self._anew = False

    def begin_anew(self, reason: str) -> bool:
        """Put the corrupt file aside; False if the one before was put aside too and nothing could be written since."""
        if self._anew:
            return False
        # Renamed while it is still open: closing first would checkpoint the log into it and delete the log.
        kept = put_aside(self.path, self._now())
        self.drop()
        self._anew = True
        self._say(
            "store-put-aside",
            f"{self.path} is corrupt ({reason}); kept as {kept}, and a new database begun",
            {"kept_as": str(kept)},
        )
        return True

    def drop(self) -> None:
        if self._conn is not None:
            with suppress(sqlite3.Error):
                self._conn.close()
        self._conn, self._db, self.which = None, None, None

    def _open(self) -> Database:
        """A connection that fails stays open until ``drop``: see ``begin_anew``."""
        self.drop()
        refuse_network(self.path)
        self._conn = sqlite3.connect(self.path, timeout=self._busy_s)
        db = prepare(self._conn, self._busy_s)
        self.which = identity(self.path)
        migrate(db, self.path, self._reseed)
        return db


def put_aside(path: Path, at: datetime) -> Path:
    """Rename the database, its log and its shared memory; nothing is deleted. Raises ``OSError``.

    The log goes first: a new database must never find the log of the old one.
    """
    base = f"{path}.corrupt-{at:%Y%m%dT%H%M%SZ}"
    kept, number = Path(base), 1
    while kept.exists():
        number += 1
        kept = Path(f"{base}-{number}")
    for suffix in ("-wal", "-shm", ""):
        part = Path(f"{path}{suffix}")
        if part.exists():
            part.rename(f"{kept}{suffix}")
    return kept
