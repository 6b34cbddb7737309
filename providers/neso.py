"""Great Britain's own Carbon Intensity API (NESO): half hours, keyless, direct emissions of generation with imports.

National data has ``actual`` about half an hour after a period ends, revised for a day; its ``forecast`` is revised even
after the period. Regional data is model output alone: what has begun counts as estimated. How far a forecast reaches
varies from day to day, and having nothing is said with ``{}`` or an empty list under a 200. Licence: CC BY 4.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from providers.base import (
    BadRequest,
    Boundary,
    Capabilities,
    IntensityPoint,
    Kind,
    NoData,
    ProviderError,
    SchemaError,
    Scope,
    Series,
    Signal,
    Transient,
)
from providers.options import Options, web_address
from providers.reading import check_interval, gather, instant, intensity, record, records, shown, within

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.reply import Reply
    from providers.session import Session

BASE_URL = "https://api.carbonintensity.org.uk"
_Reading = Callable[[datetime, datetime, Mapping[str, Any]], IntensityPoint | None]
_HALF_HOUR = timedelta(minutes=30)
_LONGEST_ROW = timedelta(hours=1)
_LONGEST_RANGE = timedelta(days=14)
_REGIONS = 17
_OUTWARD = re.compile(r"[A-Z]{1,2}\d[A-Z\d]?")


class Neso:
    """Great Britain, or one region of it by option ``regionid`` (1 to 17) or ``postcode`` (its outward part)."""

    name = "neso"
    capabilities = Capabilities(
        observed=True, forecast=True, step_s=1800.0, poll_s=900.0, forecast_horizon_s=48 * 3600.0
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
        if not re.match(r"GB\b", zone):
            raise BadRequest(f"neso knows Great Britain alone; zone {zone!r} must be GB or start with GB-")
        self.zone = zone
        self._session, self._now = session, now
        self._root = web_address(self.name, base_url, BASE_URL)
        given = Options(self.name, options)
        self._region = _region(given)
        given.finish()

    def observe(self, start: datetime, end: datetime) -> Series:
        check_interval(start, end)
        now = self._now()
        points = [
            point
            for first, last in _ranges(start, min(end, now))
            for point in self._points(f"{_stamp(first)}/{_stamp(last)}", self._observed)
        ]
        return within((point for point in points if point.start <= now), start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        check_interval(start, end)
        first = _floor(max(start, self._now()))
        if first >= end:
            return Series()
        ahead = "fw24h" if end - first <= timedelta(hours=24) else "fw48h"
        return within(self._points(f"{_stamp(first)}/{ahead}", self._expected), start, end)

    def close(self) -> None:
        """The session is the caller's."""

    def _points(self, span: str, read: _Reading) -> list[IntensityPoint]:
        path = f"/regional/intensity/{span}/{'/'.join(self._region)}" if self._region else f"/intensity/{span}"
        reply = self._session.get_json(self._root + path, judge=self._judge)
        rows = self._rows(reply)
        if not rows:
            raise NoData(f"{self._label} has published nothing for {span}")
        return gather(rows, lambda row: self._row(row, read), where=self._label)

    def _rows(self, reply: Any) -> list[Any]:
        """The national rows, or those within the region's object, which some endpoints wrap in a list."""
        data = record(reply, f"{self._label}: the reply").get("data")
        if not data:
            return []
        if not self._region:
            return list(records(data, f"{self._label}: data"))
        place = record(data[0] if isinstance(data, list) else data, f"{self._label}: data")
        self._check_place(place)
        return list(records(place.get("data") or [], f"{self._label}: data"))

    def _check_place(self, place: Mapping[str, Any]) -> None:
        key, wanted = self._region
        got = place.get(key)
        if str(got).upper() != wanted:
            raise SchemaError(f"{self.name} was asked for {key} {wanted} and answered with {shown(got)}")

    def _row(self, row: Any, read: _Reading) -> IntensityPoint | None:
        row = record(row, "a row")
        values = row.get("intensity")
        if values is None:
            return None
        start, end = instant(row.get("from"), "from"), instant(row.get("to"), "to")
        if not timedelta(0) < end - start <= _LONGEST_ROW:
            raise SchemaError(f"a row goes from {start.isoformat()} to {end.isoformat()}")
        return read(start, end, record(values, "intensity"))

    def _observed(self, start: datetime, end: datetime, values: Mapping[str, Any]) -> IntensityPoint | None:
        if self._region:
            return self._point(start, end, values.get("forecast"), Kind.ESTIMATED)
        return self._point(start, end, values.get("actual"), Kind.MEASURED)

    def _expected(self, start: datetime, end: datetime, values: Mapping[str, Any]) -> IntensityPoint | None:
        """No expectation of what was measured already."""
        if values.get("actual") is not None:
            return None
        return self._point(start, end, values.get("forecast"), Kind.FORECAST)

    def _point(self, start: datetime, end: datetime, value: object, kind: Kind) -> IntensityPoint | None:
        grams = intensity(value, f"{kind} at {start.isoformat()}")
        if grams is None:
            return None
        fetched_at = self._now()
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
            issued_at=fetched_at if kind is Kind.FORECAST else None,
            method="model" if kind is Kind.ESTIMATED else "",
        )

    def _judge(self, reply: Reply) -> ProviderError | None:
        """It has no keys: a refusal is a gateway's."""
        if reply.status in {401, 403}:
            return Transient(f"{self._label}: refused with {reply.status} {reply.message}".rstrip())
        if reply.status == 400:  # noqa: PLR2004 - HTTP's own numbers are its names
            return BadRequest(f"{self._label}: {reply.message or 'it does not understand the request'}")
        return None

    @property
    def _label(self) -> str:
        return " ".join((self.name, self.zone, *self._region))


def _region(given: Options) -> tuple[str, ...]:
    """The last two parts of a regional path, or nothing."""
    number = given.number("regionid", 0, low=1, high=_REGIONS)
    postcode = given.text("postcode").strip().upper()
    if number and postcode:
        raise BadRequest("neso: give regionid or postcode, not both")
    if number != int(number):
        raise BadRequest(f"neso: regionid must be a whole number, not {number!r}")
    if postcode and not _OUTWARD.fullmatch(postcode):
        raise BadRequest(f"neso: postcode must be the outward part alone, like RG10, not {postcode!r}")
    if number:
        return ("regionid", str(int(number)))
    return ("postcode", postcode) if postcode else ()


def _ranges(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """``[start, end)`` from half hour to half hour, in pieces that one request may ask for."""
    first, last = _floor(start), end
    while first < last:
        piece = min(first + _LONGEST_RANGE, _floor(last) + _HALF_HOUR)
        yield first, piece
        first = piece


def _floor(at: datetime) -> datetime:
    return at.replace(minute=at.minute // 30 * 30, second=0, microsecond=0)


def _stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%MZ}"
