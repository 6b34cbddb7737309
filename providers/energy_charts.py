"""energy-charts.info (Fraunhofer ISE): average intensity of European countries, keyless, observed and expected.

Its method is not stated beside the data, so what it counts is unspecified until the operator says so. The data come
from ENTSO-E and from national operators, and fail when those fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from providers.base import BadRequest, Boundary, Capabilities, IntensityPoint, Kind, Scope, Series, Signal
from providers.energy_charts_reply import BASE_URL, SOURCE, Row, days, judge, rows
from providers.first_seen import FirstSeen
from providers.options import Options, web_address
from providers.reading import check_interval, gather, intensity, within

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

_COUNTRY = re.compile(r"[a-z]{2,3}")
_THEIR_NAMES = {"gb": "uk"}


class EnergyCharts:
    """Options: ``country`` (by default the zone), ``scope``, ``boundary``."""

    name = SOURCE
    capabilities = Capabilities(
        observed=True, forecast=True, step_s=900.0, poll_s=900.0, forecast_horizon_s=48 * 3600.0
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
        self._session, self._now = session, now
        self._url = f"{web_address(self.name, base_url, BASE_URL)}/co2eq"
        given = Options(self.name, options)
        self._country = _country(given.text("country"), zone)
        self._scope = Scope(given.text("scope", Scope.UNSPECIFIED, choices=tuple(Scope)))
        self._boundary = Boundary(given.text("boundary", Boundary.UNSPECIFIED, choices=tuple(Boundary)))
        given.finish()
        self._first_seen = FirstSeen()

    def observe(self, start: datetime, end: datetime) -> Series:
        check_interval(start, end)
        now = self._now()
        if start > now:
            return Series()
        reply = rows(self._ask(start, min(end, now)), "co2eq")
        points = gather(reply, self._observed, where=self._label)
        return within((point for point in points if point.start <= now), start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        """From the running interval on, and only where nothing was observed."""
        check_interval(start, end)
        now = self._now()
        if end <= now:
            return Series()
        reply = rows(self._ask(max(start, now), end), "co2eq", "co2eq_forecast")
        points = gather(reply, self._expected, where=self._label)
        ahead = self._first_seen.dated(point for point in points if point.end > now)
        return within(ahead, start, end)

    def close(self) -> None:
        """The session is the caller's."""

    def _ask(self, start: datetime, end: datetime) -> Any:
        params = {"country": self._country, **days(start, end)}
        return self._session.get_json(self._url, params=params, judge=judge)

    def _observed(self, row: Row) -> IntensityPoint | None:
        return self._point(row, row.values[0], Kind.MEASURED)

    def _expected(self, row: Row) -> IntensityPoint | None:
        observed, expected = row.values
        return self._point(row, expected, Kind.FORECAST) if observed is None else None

    def _point(self, row: Row, value: object, kind: Kind) -> IntensityPoint | None:
        start = row.start
        grams = intensity(value, f"{kind} at {start.isoformat()}")
        if grams is None:
            return None
        return IntensityPoint(
            zone=self.zone,
            start=start,
            end=row.end,
            g_per_kwh=grams,
            kind=kind,
            signal=Signal.AVERAGE,
            scope=self._scope,
            boundary=self._boundary,
            source=self.name,
            fetched_at=self._now(),
        )

    @property
    def _label(self) -> str:
        return f"{self.name} {self._country}"


def _country(given: str, zone: str) -> str:
    country = (given or zone).lower()
    if not _COUNTRY.fullmatch(country):
        raise BadRequest(f"{SOURCE} knows countries: zone {zone!r} needs the option country, like de")
    return _THEIR_NAMES.get(country, country)
