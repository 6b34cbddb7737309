"""The results of a sweep: one SQLite file, written by the sweep's own process alone and a chunk of cells at a time.

A cell's row is found by its key, so that a sweep asked for again runs only what is not there; rows are never changed.
What failed is kept apart and tried again. It is a file for ``sqlite3``, ``sqlite-utils`` and Datasette as well: the
view ``savings`` has the figures in columns. It may lie on a network's disk: the journal is SQLite's older one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from chase.errors import ConfigError, StoreError
from chase.replay.cell import Cell, Result

_BUSY_S = 30.0
_OURS = 0x63687372  # PRAGMA application_id: "chsr"
_FEW = 500  # keys in one question
_OF_CELL = ("trace", "profile", "policy", "forecast", "settings", "start", "days")
_OF_RESULT = (
    *("saved", "efficiency", "timing", "moved", "of_optimum", "of_optimum_timing", "slowdown", "exceeded_s"),
    *("grams", "full_grams", "fixed_grams", "optimum_grams", "wall_s"),
)
_SCHEMA = """
CREATE TABLE results (key TEXT PRIMARY KEY, at TEXT NOT NULL, cell TEXT NOT NULL, result TEXT NOT NULL);
CREATE TABLE failures (key TEXT PRIMARY KEY, at TEXT NOT NULL, cell TEXT NOT NULL, error TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Failure:
    cell: Cell
    error: str


class Results:
    """Open until ``close``. Raises ``ConfigError`` for a file of something else, ``StoreError`` for one in trouble."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}") from error
        try:
            self._prepare()
        except sqlite3.DatabaseError as error:
            self._db.close()
            if isinstance(error, sqlite3.OperationalError):
                raise StoreError(f"{path}: {error}") from error
            raise ConfigError(f"{path} is not a file of results; name another one with --out") from error
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        """Two sweeps that begin at once both find a file that is ready."""
        self._db.execute("BEGIN IMMEDIATE")
        mark = self._db.execute("PRAGMA application_id").fetchone()[0]
        empty = not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if mark != _OURS and not (mark == 0 and empty):
            raise ConfigError(f"{self.path} is another database; name another file of results with --out")
        if empty:
            for statement in filter(str.strip, _SCHEMA.split(";")):
                self._db.execute(statement)
            self._db.execute(f"CREATE VIEW savings AS SELECT {', '.join(_columns())}, key FROM results")  # noqa: S608  our own names
            self._db.execute(f"PRAGMA application_id = {_OURS}")
        self._db.execute("COMMIT")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    def known(self, keys: Collection[str]) -> set[str]:
        """Which of ``keys`` have a result."""
        return {key for key, _ in self._rows("results", "key", keys)}

    def add(self, done: Iterable[tuple[str, Result]], failed: Iterable[tuple[str, Failure]] = ()) -> None:
        """All or nothing. Of two results of one cell the first stays."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            for key, result in done:
                row = (key, at, _text(result.cell.to_dict()), _text(result.to_dict()))
                self._db.execute("INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?)", row)
                self._db.execute("DELETE FROM failures WHERE key = ?", (key,))
            for key, failure in failed:
                row = (key, at, _text(failure.cell.to_dict()), failure.error)
                self._db.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?)", row)

    def results(self, keys: Collection[str]) -> dict[str, Result]:
        return {key: Result.from_dict(json.loads(text)) for key, text in self._rows("results", "result", keys)}

    def failures(self, keys: Collection[str]) -> dict[str, str]:
        """The errors of those of ``keys`` that failed when they were tried last."""
        return dict(self._rows("failures", "error", keys))

    def _rows(self, table: str, column: str, keys: Collection[str]) -> Iterator[tuple[str, str]]:
        asked = list(keys)
        for i in range(0, len(asked), _FEW):
            some = asked[i : i + _FEW]
            marks = ", ".join("?" * len(some))
            yield from self._db.execute(f"SELECT key, {column} FROM {table} WHERE key IN ({marks})", some)  # noqa: S608  our own names


def _columns() -> Iterator[str]:
    for document, names in (("cell", _OF_CELL), ("result", _OF_RESULT)):
        yield from (f"json_extract({document}, '$.{name}') AS {name}" for name in names)


def _text(document: object) -> str:
    return json.dumps(document, allow_nan=False)
