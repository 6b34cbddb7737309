"""A file that somebody else keeps: CSV, JSON or JSON lines, growing or being rewritten while we run.

Columns: ``start`` and ``g_per_kwh``, and where there are any ``end``, ``kind``, ``estimated``, ``issued_at`` and
``zone``; ``columns.py`` knows their usual other names. A row that has not begun is a forecast, unless it claims to be
measured: then it is nothing. Every line of a CSV ends in a newline: one without is still being written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from providers.base import (
    BadRequest,
    Boundary,
    Capabilities,
    IntensityPoint,
    Kind,
    NoData,
    SchemaError,
    Scope,
    Series,
    Signal,
    Transient,
)
from providers.columns import Columns, Entry
from providers.options import Options
from providers.reading import check_interval, within
from providers.table import FORMATS, Row, parse

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

_SUFFIXES = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class FileProvider:
    """Options: ``path``, ``format``, ``column`` (of the value), ``signal``, ``scope``, ``boundary``, ``kind`` (of rows
    that do not say), ``step_s`` (of rows without an end), ``poll_s`` (how often to look), ``max_bytes``.
    """

    name = "file"

    def __init__(
        self,
        *,
        zone: str,
        options: Mapping[str, object],
        token: Secret | None = None,  # noqa: ARG002 - the signature that all providers share
        base_url: str | None = None,  # noqa: ARG002
        session: Session | None = None,  # noqa: ARG002
        now: Callable[[], datetime],
    ) -> None:
        self.zone = zone
        self._now = now
        given = Options(self.name, options)
        self._path = Path(given.text("path")).expanduser()
        suffix = self._path.suffix.lower()
        self._format = given.text("format", _SUFFIXES.get(suffix, ""), choices=FORMATS)
        self._column = given.text("column").lower()
        self._signal = Signal(given.text("signal", Signal.AVERAGE, choices=tuple(Signal)))
        self._scope = given.text("scope", choices=tuple(Scope))
        self._boundary = Boundary(given.text("boundary", Boundary.UNSPECIFIED, choices=tuple(Boundary)))
        self._kind = Kind(given.text("kind", Kind.MEASURED, choices=tuple(Kind)))
        self._step_s = given.number("step_s", 0.0, low=1.0, high=31 * 86400.0)
        self._poll_s = given.number("poll_s", 10.0, low=0.05, high=86400.0)
        self._max_bytes = int(given.number("max_bytes", 4 * 1024 * 1024, low=1, high=1024**3))
        given.finish()
        if not self._path.name:
            raise BadRequest("file: option path is missing: which file?")
        if not self._format:
            raise BadRequest(f"file: {self._path} does not say what it holds; set format to {', '.join(FORMATS)}")
        self._version: tuple[int, ...] = ()
        self._read_at = now()
        self._entries: tuple[Entry, ...] = ()
        self._found_scope = Scope.UNSPECIFIED

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            observed=True,
            forecast=True,
            step_s=self._step_s or 3600.0,
            poll_s=self._poll_s,
            forecast_horizon_s=7 * 86400.0,
        )

    def observe(self, start: datetime, end: datetime) -> Series:
        return self._series(start, end, forecast=False)

    def forecast(self, start: datetime, end: datetime) -> Series:
        """Of several forecasts for one time the one issued last, none of them after now."""
        return self._series(start, end, forecast=True)

    def close(self) -> None:
        """No file stays open."""

    def _series(self, start: datetime, end: datetime, *, forecast: bool) -> Series:
        check_interval(start, end)
        self._refresh()
        now = self._now()
        near = (entry for entry in self._entries if entry.start < end and entry.end > start)
        points = [point for entry in near if (point := self._point(entry, now)) is not None]
        wanted = (point for point in points if (point.kind is Kind.FORECAST) == forecast)
        return within(sorted(wanted, key=lambda point: point.issued_at or _LONG_AGO), start, end)

    def _point(self, entry: Entry, now: datetime) -> IntensityPoint | None:
        kind = entry.kind or self._kind_of(entry, now)
        known = entry.issued_at is None or entry.issued_at <= now
        if entry.g_per_kwh is None or not known or (kind is not Kind.FORECAST and entry.start > now):
            return None
        return IntensityPoint(
            zone=self.zone,
            start=entry.start,
            end=entry.end,
            g_per_kwh=entry.g_per_kwh,
            kind=kind,
            signal=self._signal,
            scope=self._found_scope,
            boundary=self._boundary,
            source=self.name,
            fetched_at=self._read_at,
            issued_at=(entry.issued_at or self._read_at) if kind is Kind.FORECAST else None,
        )

    def _kind_of(self, entry: Entry, now: datetime) -> Kind:
        if entry.issued_at is not None or entry.start > now:
            return Kind.FORECAST
        return Kind.ESTIMATED if entry.estimated else self._kind

    def _refresh(self) -> None:
        """Read only what was written since the last time."""
        descriptor = self._opened()
        try:
            found = os.fstat(descriptor)
            version = (found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev)
            if version != self._version:
                self._check(found)
                with open(descriptor, "rb", closefd=False) as stream:
                    self._take(stream.read(self._max_bytes))
                self._version = version
        except OSError as error:
            raise Transient(f"{self._path} cannot be read: {error.strerror}") from None
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        """Without waiting, should it be a pipe."""
        try:
            return os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Transient(f"{self._path} does not exist (yet)") from None
        except (OSError, ValueError) as error:
            raise BadRequest(f"{self._path} cannot be opened: {error}") from None

    def _check(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise BadRequest(f"{self._path} is not a regular file")
        if found.st_size > self._max_bytes:
            raise BadRequest(
                f"{self._path} has {found.st_size} bytes, more than max_bytes = {self._max_bytes}: keep fewer rows"
            )

    def _take(self, content: bytes) -> None:
        name = str(self._path)
        rows = parse(content, self._format, name)
        if not rows:
            raise NoData(f"{name} has no complete row yet")
        columns = Columns.of(rows, name, value=self._column, scope=self._scope)
        self._entries = columns.entries(self._of_zone(rows), self._step_s)
        self._found_scope = Scope(self._scope or columns.scope or Scope.UNSPECIFIED)
        self._read_at = self._now()

    def _of_zone(self, rows: Sequence[Row]) -> Iterator[Row]:
        """A table of many zones names them; another zone's number is never taken for ours."""
        named = {str(row.fields["zone"]) for row in rows if row.fields.get("zone") is not None}
        if named and self.zone not in named:
            raise SchemaError(f"{self._path} has the zones {', '.join(sorted(named)[:5])}, not {self.zone}")
        return (row for row in rows if str(row.fields.get("zone", self.zone)) == self.zone)
