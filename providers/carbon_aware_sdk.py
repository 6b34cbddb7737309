"""An organisation's own Carbon Aware SDK WebAPI (Green Software Foundation).

Its replies say neither what they count nor whether they are estimates: in front of WattTime they are marginal, of
Electricity Maps average and lifecycle. So the operator has to say it. Its ``location`` is the grid's, not the one asked
for. It ignores parameters that it does not know and then gives current data, and it has given 0 where it had nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from providers.base import (
    BadRequest,
    Boundary,
    Capabilities,
    IntensityPoint,
    Kind,
    NoData,
    PlanError,
    ProviderError,
    SchemaError,
    Scope,
    Series,
    Signal,
)
from providers.options import Options, own_address
from providers.reading import check_interval, ends, gather, instant, intensity, record, records, shown, within
from providers.redact import bearer

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.reply import Reply
    from providers.session import Session

_EXAMPLE = "https://carbon.example.org"
_WHY = "a reply does not tell; in front of WattTime it is marginal, of Electricity Maps average and lifecycle"
_TIMESPAN = re.compile(r"(?:(\d{1,3})\.)?(\d{1,2}):(\d{2}):(\d{2})(?:\.\d+)?")
_LONGEST_ROW = timedelta(days=1)
_LONGEST_RANGE = timedelta(days=366)
_OPTIMA = ("optimalDataPoints", "optimalDataPoint")  # the code has the one, its documentation the other


class CarbonAwareSdk:
    """``zone`` is the location. Options: ``signal``, ``scope``, ``boundary``, ``forecast``, ``zero_is_missing``."""

    name = "carbon_aware_sdk"

    def __init__(
        self,
        *,
        zone: str,
        options: Mapping[str, object],
        token: Secret | None,
        base_url: str | None,
        session: Session,
        now: Callable[[], datetime],
    ) -> None:
        self.zone = zone
        self._session, self._now = session, now
        self._root = own_address(self.name, base_url, _EXAMPLE)
        self._headers = {"Authorization": bearer(token)} if token else {}
        given = Options(self.name, options)
        self._signal = Signal(given.needed("signal", _WHY, choices=tuple(Signal)))
        self._scope = Scope(given.needed("scope", _WHY, choices=tuple(Scope)))
        self._boundary = Boundary(given.text("boundary", Boundary.UNSPECIFIED, choices=tuple(Boundary)))
        self._forecasts = given.flag("forecast", default=True)
        self._zero_is_missing = given.flag("zero_is_missing", default=True)
        given.finish()

    @property
    def capabilities(self) -> Capabilities:
        horizon_s = 24 * 3600.0 if self._forecasts else 0.0
        return Capabilities(
            observed=True, forecast=self._forecasts, step_s=300.0, poll_s=300.0, forecast_horizon_s=horizon_s
        )

    def observe(self, start: datetime, end: datetime) -> Series:
        check_interval(start, end)
        now = self._now()
        first, last = max(start, now - _LONGEST_RANGE), min(end, now)
        if first > last:
            return Series()
        reply = self._ask("bylocation", time=_stamp(first), toTime=_stamp(last))
        rows = records(reply, f"{self._label}: the reply")
        points = self._points(rows, "time", "rating")
        return within((point for point in points if point.start <= now), start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        """The whole of it is asked for: a range that reaches beyond its end would be refused."""
        check_interval(start, end)
        first = max(start, self._now())
        if first >= end or not self._forecasts:
            return Series()
        reply = records(self._ask("forecasts/current"), f"{self._label}: the reply")
        if not reply:
            raise NoData(f"{self._label} has no forecast")
        if len(reply) > 1:
            raise SchemaError(f"{self._label} answered with {len(reply)} forecasts for one location")
        given = record(reply[0], f"{self._label}: the forecast")
        issued_at = min(self._now(), instant(given.get("generatedAt"), "generatedAt"))
        return within(self._points(_expected(given), "timestamp", "value", issued_at), first, end)

    def close(self) -> None:
        """The session is the caller's."""

    def _ask(self, endpoint: str, **more: str) -> Any:
        return self._session.get_json(
            f"{self._root}/emissions/{endpoint}",
            params={"location": self.zone, **more},
            headers=self._headers,
            judge=self._judge,
        )

    def _judge(self, reply: Reply) -> ProviderError | None:
        said = f"{self._label}: {reply.status} {reply.message}".rstrip()
        unable = "ForecastDataSource is not configured" in reply.message
        if reply.status == 501 or (reply.status == 400 and unable):  # noqa: PLR2004 - HTTP's own numbers are its names
            return PlanError(f"{said}: its data source has no forecasts; set the option forecast = false")
        if reply.status == 400:  # noqa: PLR2004
            return BadRequest(said)
        return None

    def _points(
        self, rows: Sequence[Any], time: str, value: str, issued_at: datetime | None = None
    ) -> list[IntensityPoint]:
        """Forecasts where ``issued_at`` is given. Rolling windows overlap: each ends where the next begins."""
        if not rows:
            raise NoData(f"{self._label} has published nothing for this time")
        named = (row.get("location") for row in rows if isinstance(row, dict))
        places = {place for place in named if isinstance(place, str)}
        if len(places) > 1:
            raise SchemaError(f"{self._label} answered with more than one location: {shown(sorted(places))}")
        until = ends([at for row in rows if (at := _start(row, time)) is not None], _LONGEST_ROW)
        return gather(rows, lambda row: self._point(row, (time, value), until, issued_at), where=self._label)

    def _point(
        self, row: Any, names: tuple[str, str], until: Mapping[datetime, datetime], issued_at: datetime | None
    ) -> IntensityPoint | None:
        time, value = names
        row = record(row, "a row")
        start = instant(row.get(time), time)
        if value not in row:
            raise SchemaError(f"{value} is missing at {start.isoformat()}")
        grams = intensity(row[value], f"{value} at {start.isoformat()}")
        if grams is None or (grams == 0 and self._zero_is_missing):
            return None
        place = row.get("location")
        return IntensityPoint(
            zone=self.zone,
            start=start,
            end=min(start + _duration(row.get("duration")), until[start]),
            g_per_kwh=grams,
            kind=Kind.FORECAST if issued_at else Kind.ESTIMATED,
            signal=self._signal,
            scope=self._scope,
            boundary=self._boundary,
            source=self.name,
            fetched_at=self._now(),
            issued_at=issued_at,
            method=f"location {place[:60]}" if isinstance(place, str) else "",
        )

    @property
    def _label(self) -> str:
        return f"{self.name} {self.zone}"


def _expected(forecast: Mapping[str, Any]) -> Sequence[Any]:
    """All of its values, or its best where it gives no others."""
    data = records(forecast.get("forecastData") or [], "forecastData")
    best: Any = next((forecast[name] for name in _OPTIMA if forecast.get(name)), [])
    return data or (best if isinstance(best, list) else [best])


def _start(row: Any, time: str) -> datetime | None:
    try:
        return instant(row[time], time)
    except (SchemaError, KeyError, TypeError):
        return None


def _duration(value: object) -> timedelta:
    """``00:05:00`` or ``1.00:00:00`` where it observed, minutes where it expects."""
    length = timedelta(0)
    if isinstance(value, str) and (parts := _TIMESPAN.fullmatch(value)):
        days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
        length = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _LONGEST_ROW.total_seconds():
        length = timedelta(minutes=value)
    if not timedelta(0) < length <= _LONGEST_ROW:
        raise SchemaError(f"duration is {shown(value)}, not like 00:05:00 and no number of minutes")
    return length


def _stamp(at: datetime) -> str:
    """With Z, since a time without it is read in the server's own zone."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
