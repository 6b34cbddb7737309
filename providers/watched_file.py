"""A file that somebody else keeps, appends to or replaces while we run: its rows whenever it has changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from providers.base import BadRequest, NoData, SchemaError, Transient
from providers.options import Options
from providers.table import FORMATS, Row, parse

_SUFFIXES = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl"}


class WatchedFile:
    """By options ``path``, ``format`` and ``max_bytes``. No file stays open."""

    def __init__(self, given: Options) -> None:
        self.path = Path(given.text("path")).expanduser()
        self._format = given.text("format", _SUFFIXES.get(self.path.suffix.lower(), ""), choices=FORMATS)
        self._max_bytes = int(given.number("max_bytes", 4 * 1024 * 1024, low=1, high=1024**3))
        self._version: tuple[int, ...] = ()

    def check_options(self) -> None:
        """After ``Options.finish``, so that a misspelt option is told before a missing one."""
        if not self.path.name:
            raise BadRequest("file: option path is missing: which file?")
        if not self._format:
            raise BadRequest(f"file: {self.path} does not say what it holds; set format to {', '.join(FORMATS)}")

    def refresh(self, take: Callable[[Sequence[Row]], None]) -> None:
        """Hand over all rows if anything was written since they were last taken without an error."""
        descriptor = self._opened()
        try:
            found = os.fstat(descriptor)
            version = (found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev)
            if version != self._version:
                self._check(found)
                with open(descriptor, "rb", closefd=False) as stream:
                    take(self._rows(stream.read(self._max_bytes)))
                self._version = version
        except OSError as error:
            raise Transient(f"{self.path} cannot be read: {error.strerror}") from None
        finally:
            os.close(descriptor)

    def of_zone(self, rows: Sequence[Row], zone: str) -> Iterator[Row]:
        """A table of many zones names them; another zone's number is never taken for ours."""
        named = {str(row.fields["zone"]) for row in rows if row.fields.get("zone") is not None}
        if named and zone not in named:
            raise SchemaError(f"{self.path} has the zones {', '.join(sorted(named)[:5])}, not {zone}")
        return (row for row in rows if str(row.fields.get("zone", zone)) == zone)

    def _rows(self, content: bytes) -> Sequence[Row]:
        rows = parse(content, self._format, str(self.path))
        if not rows:
            raise NoData(f"{self.path} has no complete row yet")
        return rows

    def _opened(self) -> int:
        """Without waiting, should it be a pipe."""
        try:
            return os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Transient(f"{self.path} does not exist (yet)") from None
        except (OSError, ValueError) as error:
            raise BadRequest(f"{self.path} cannot be opened: {error}") from None

    def _check(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise BadRequest(f"{self.path} is not a regular file")
        if found.st_size > self._max_bytes:
            raise BadRequest(
                f"{self.path} has {found.st_size} bytes, more than max_bytes = {self._max_bytes}: keep fewer rows"
            )
