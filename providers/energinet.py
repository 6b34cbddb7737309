"""Energinet (Denmark, DK1 and DK2): five minutes, keyless, direct emissions with imports, with a forecast.

Emissions of combined heat and power are split between the two, so the figures differ from those of other sources. The
forecast reaches the end of tomorrow and is issued anew many times a day. Free to use, with attribution to Energinet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from providers.base import Boundary, Capabilities, IntensityPoint, Kind, Scope, Series, Signal
from providers.energinet_datasets import SOURCE, Area, Layout, start_of, starts_of, value_of
from providers.first_seen import FirstSeen
from providers.options import Options
from providers.reading import check_interval, ends, gather, intensity, within

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

_STEP = timedelta(minutes=5)
_HORIZON = timedelta(hours=48)
_MEASURED = Layout("CO2Emis", "Minutes5UTC", ("CO2Emission",), _STEP, timedelta(hours=72), timedelta(hours=1))
_EXPECTED = Layout("CO2EmisProg", "Minutes5UTC", ("CO2Emission",), _STEP, timedelta(0), _HORIZON)


class Energinet:
    """Option: ``price_area`` (DK1 or DK2, by default what the zone ends in, as in DK-DK1)."""

    name = SOURCE
    capabilities = Capabilities(
        observed=True, forecast=True, step_s=300.0, poll_s=600.0, forecast_horizon_s=_HORIZON / timedelta(seconds=1)
    )

    def __init__(
        self,
        *,
        zone: str,
        options: Mapping[str, object],
        token: Secret | None = None,  # noqa: ARG002 - the signature that all providers share
        base_url: str | None,
        session: Session,
        now: Callable[[], datetime],
    ) -> None:
        self.zone = zone
        self._now = now
        given = Options(self.name, options)
        self._area = Area(zone, given, base_url, session)
        given.finish()
        self._first_seen = FirstSeen()

    def observe(self, start: datetime, end: datetime) -> Series:
        check_interval(start, end)
        now = self._now()
        if start > now:
            return Series()
        points = self._points(_MEASURED, Kind.MEASURED, start, min(end, now))
        return within((point for point in points if point.start <= now), start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        """From the running interval on: rows of the past stay in the dataset, and are no forecasts any more."""
        check_interval(start, end)
        now = self._now()
        if end <= now or start >= now + _HORIZON:
            return Series()
        points = self._points(_EXPECTED, Kind.FORECAST, max(start, now), min(end, now + _HORIZON))
        return within(self._first_seen.dated(point for point in points if point.end > now), start, end)

    def close(self) -> None:
        """The session is the caller's."""

    def _points(self, layout: Layout, kind: Kind, start: datetime, end: datetime) -> list[IntensityPoint]:
        answer = self._area.dataset(layout).answer(start, end, self._now())
        rows = self._area.rows(answer, layout)
        until = ends(starts_of(rows, layout), layout.step)

        def read(row: Mapping[str, Any]) -> IntensityPoint | None:
            at = start_of(row, layout)
            grams = intensity(value_of(row, "CO2Emission"), f"CO2Emission at {at.isoformat()}")
            return None if grams is None else self._point(at, until[at], grams, kind, answer.fetched_at)

        return gather(rows, read, where=f"{self.name} {self._area.name}")

    def _point(self, start: datetime, end: datetime, grams: float, kind: Kind, fetched_at: datetime) -> IntensityPoint:
        return IntensityPoint(
            zone=self.zone,
            start=start,
            end=end,
            g_per_kwh=grams,
            kind=kind,
            signal=Signal.AVERAGE,
            scope=Scope.DIRECT,
            boundary=Boundary.CONSUMPTION,
            source=self.name,
            fetched_at=fetched_at,
        )
