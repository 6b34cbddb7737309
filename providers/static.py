"""A region's typical profile: what its grid does on an average day of the month, when nothing better is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from providers.base import BadRequest, Boundary, Capabilities, IntensityPoint, Kind, SchemaError, Scope, Series, Signal
from providers.options import Options
from providers.reading import check_interval, intensity

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

_HOUR = timedelta(hours=1)
_LONGEST = timedelta(days=366)
_MONTHS, _HOURS = 12, 24


class StaticProvider:
    """``g_per_kwh`` holds 12 rows (months) of 24 values (UTC hours). It talks to nobody and never fails.

    Options: ``g_per_kwh``, ``signal``, ``scope``, ``boundary``; ``source``, ``year``, ``licence`` say where it is from.
    """

    name = "static"
    capabilities = Capabilities(
        observed=True, forecast=True, step_s=3600.0, poll_s=3600.0, forecast_horizon_s=_LONGEST / timedelta(seconds=1)
    )

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
        self._profile = _table(given.raw("g_per_kwh"))
        self._signal = Signal(given.text("signal", Signal.AVERAGE, choices=tuple(Signal)))
        self._scope = Scope(given.text("scope", Scope.UNSPECIFIED, choices=tuple(Scope)))
        self._boundary = Boundary(given.text("boundary", Boundary.UNSPECIFIED, choices=tuple(Boundary)))
        self._method = " ".join(str(given.raw(key) or "") for key in ("source", "year", "licence")).strip()
        given.finish()

    def observe(self, start: datetime, end: datetime) -> Series:
        check_interval(start, end)
        end = min(end, start + _LONGEST)
        hour = start.replace(minute=0, second=0, microsecond=0)
        hours = -((hour - end) // _HOUR) if end > start else 0
        return Series(tuple(self._point(hour + index * _HOUR) for index in range(hours)))

    def forecast(self, start: datetime, end: datetime) -> Series:
        return self.observe(start, end)

    def close(self) -> None:
        """There is nothing to give back."""

    def _point(self, start: datetime) -> IntensityPoint:
        return IntensityPoint(
            zone=self.zone,
            start=start,
            end=start + _HOUR,
            g_per_kwh=self._profile[start.month - 1][start.hour],
            kind=Kind.TYPICAL,
            signal=self._signal,
            scope=self._scope,
            boundary=self._boundary,
            source=self.name,
            fetched_at=self._now(),
            method=self._method,
        )


def _table(value: object) -> tuple[tuple[float, ...], ...]:
    rows = list(value) if isinstance(value, list | tuple) else []
    if len(rows) != _MONTHS or not all(isinstance(row, list | tuple) and len(row) == _HOURS for row in rows):
        raise BadRequest(f"static: g_per_kwh must be {_MONTHS} months of {_HOURS} UTC hours")
    return tuple(
        tuple(_cell(cell, f"static: g_per_kwh of month {month}, hour {hour}") for hour, cell in enumerate(row))
        for month, row in enumerate(rows, start=1)
    )


def _cell(value: object, what: str) -> float:
    try:
        found = intensity(value, what)
    except SchemaError as error:
        raise BadRequest(str(error)) from None
    if found is None:
        raise BadRequest(f"{what} is missing; a profile has no gaps")
    return found
