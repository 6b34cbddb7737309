"""A file that somebody else keeps: CSV, JSON or JSON lines, growing or being rewritten while we run.

Columns: ``start`` and ``g_per_kwh``, and where there are any ``end``, ``kind``, ``estimated``, ``issued_at`` and
``zone``; ``columns.py`` knows their usual other names. A row that has not begun is a forecast, unless it claims to be
measured: then it is nothing. Every line of a CSV ends in a newline: one without is still being written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from providers.base import Boundary, Capabilities, IntensityPoint, Kind, Scope, Series, Signal
from providers.columns import Columns, Entry
from providers.options import Options
from providers.reading import check_interval, within
from providers.table import Row
from providers.watched_file import WatchedFile

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

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
        self._file = WatchedFile(given)
        self._column = given.text("column").lower()
        self._signal = Signal(given.text("signal", Signal.AVERAGE, choices=tuple(Signal)))
        self._scope = given.text("scope", choices=tuple(Scope))
        self._boundary = Boundary(given.text("boundary", Boundary.UNSPECIFIED, choices=tuple(Boundary)))
        self._kind = Kind(given.text("kind", Kind.MEASURED, choices=tuple(Kind)))
        self._step_s = given.number("step_s", 0.0, low=1.0, high=31 * 86400.0)
        self._poll_s = given.number("poll_s", 10.0, low=0.05, high=86400.0)
        given.finish()
        self._file.check_options()
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
        self._file.refresh(self._take)
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

    def _take(self, rows: Sequence[Row]) -> None:
        columns = Columns.of(rows, str(self._file.path), value=self._column, scope=self._scope)
        self._entries = columns.entries(self._file.of_zone(rows, self.zone), self._step_s)
        self._found_scope = Scope(self._scope or columns.scope or Scope.UNSPECIFIED)
        self._read_at = self._now()
