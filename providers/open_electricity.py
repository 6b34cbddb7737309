"""OpenElectricity (OpenNEM): the regions of Australia's two big grids.

``feed = "api"`` is version 4 of the API, by key: hourly emissions over generation of the region's own plants, direct.
``feed = "public"`` is the file behind the public web pages, without a key: half hours of generation by technology, from
which the intensity is computed with our own factors. Both lack fuels in their newest rows, often all but rooftop solar,
and such a row is a gap. Hours of the API are asked for in network time without an offset (NEM +10, WEM +8, no summer
time).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from providers.base import (
    AuthError,
    BadRequest,
    Capabilities,
    IntensityPoint,
    NoData,
    PlanError,
    ProviderError,
    Scope,
    Series,
    Transient,
)
from providers.mix import MEMORY, Generation, intensities
from providers.open_electricity_reply import HALF_HOUR, HOUR, REGIONS, SOURCE, HalfHours, Hours
from providers.options import Options, did_you_mean, web_address
from providers.reading import check_interval, gather, intensity, within
from providers.redact import bearer

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.reply import Reply
    from providers.session import Session

API_URL = "https://api.openelectricity.org.au/v4"
PUBLIC_URL = "https://data.openelectricity.org.au/v4"
_LONGEST_RANGE = timedelta(days=30)  # of hourly rows; the source takes 32
_LONGEST_PAST = timedelta(days=366)
_LONGEST_TEXT = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class OpenElectricity:
    """``zone`` is NSW1, QLD1, SA1, TAS1, VIC1 or WEM. Options: ``feed`` (api, public), ``scope``."""

    name = SOURCE

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
        if zone not in REGIONS:
            raise BadRequest(f"{self.name}: zone {zone!r} is none of {', '.join(REGIONS)}{did_you_mean(zone, REGIONS)}")
        self.zone = zone
        self._region, self._token, self._session, self._now = REGIONS[zone], token, session, now
        given = Options(self.name, options)
        self._public = given.text("feed", "api", choices=("api", "public")) == "public"
        self._scope = Scope(given.text("scope", Scope.DIRECT, choices=(Scope.DIRECT, Scope.LIFECYCLE)))
        given.finish()
        if self._scope is Scope.LIFECYCLE and not self._public:
            raise BadRequest(f"{self.name}: the API counts direct emissions; scope = 'lifecycle' needs feed = 'public'")
        self._root = web_address(self.name, base_url, PUBLIC_URL if self._public else API_URL)

    @property
    def capabilities(self) -> Capabilities:
        step_s = (HALF_HOUR if self._public else HOUR).total_seconds()
        return Capabilities(observed=True, forecast=False, step_s=step_s, poll_s=900.0, needs_key=not self._public)

    def observe(self, start: datetime, end: datetime) -> Series:
        check_interval(start, end)
        now = self._now()
        first, last = max(start, now - _LONGEST_PAST), min(end, now)
        if first > last:
            return Series()
        points = self._computed(first) if self._public else self._measured(first, last)
        return within((point for point in points if point.end <= now), start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        """It has none."""
        check_interval(start, end)
        return Series()

    def close(self) -> None:
        """The session is the caller's."""

    def _measured(self, start: datetime, end: datetime) -> list[IntensityPoint]:
        """With the day before, against which the completeness of the first rows is judged."""
        hours = Hours()
        for first, last in _ranges(start - MEMORY, end):
            hours.read(self._hourly(first, last), self._region)
        rows = self._complete(hours.generations())
        return gather(rows, lambda row: _emitting(row, hours), where=self._label)

    def _computed(self, start: datetime) -> list[IntensityPoint]:
        area = self.zone if self.zone == self._region.network else f"{self._region.network}/{self.zone}"
        half_hours = HalfHours(_floor(start - MEMORY, HALF_HOUR))
        url = f"{self._root}/stats/au/{area}/power/7d.json"
        half_hours.read(self._session.get_json(url, judge=self._judge), self._region)
        return self._complete(half_hours.generations())

    def _complete(self, rows: list[Generation]) -> list[IntensityPoint]:
        points = intensities(rows, zone=self.zone, scope=self._scope, source=self.name, fetched_at=self._now())
        if not points:
            raise NoData(f"{self._label}: of no interval enough of the mix is published")
        return points

    def _hourly(self, first: datetime, last: datetime) -> Any:
        if not self._token:
            raise AuthError(f"{self.name} needs a key: set the variable that token_env names, or feed = 'public'")
        return self._session.get_json(
            f"{self._root}/data/network/{self._region.network}?metrics=emissions&metrics=energy",
            params={
                "interval": "1h",
                "date_start": self._naive(first),
                "date_end": self._naive(last),
                "network_region": self.zone,
                "primary_grouping": "network_region",
                "secondary_grouping": "fueltech",  # a group of solar without its roofs would pass for all of it
            },
            headers={"Authorization": bearer(self._token)},
            judge=self._judge,
        )

    def _judge(self, reply: Reply) -> ProviderError | None:
        said = f"{self._label}: {reply.status} {reply.message or _invalid(reply.data)}".rstrip()
        words = said.lower()
        if self._public and reply.status in {401, 403}:
            return Transient(f"{said}: the public file is refused, though it needs no key")
        if reply.status in {400, 403} and "plan" in words:
            return PlanError(said)
        if reply.status in {404, 416} and "no data" in words:
            return NoData(said)
        if reply.status in {400, 422}:
            return BadRequest(said)
        return None

    def _naive(self, at: datetime) -> str:
        return f"{at.astimezone(self._region.offset):%Y-%m-%dT%H:%M:%S}"

    @property
    def _label(self) -> str:
        return f"{self.name} {self.zone}"


def _ranges(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Whole hours, in pieces that one request may ask for."""
    first, last = _floor(start, HOUR), _floor(end, HOUR) + HOUR
    while first < last:
        piece = min(first + _LONGEST_RANGE, last)
        yield first, piece
        first = piece


def _floor(at: datetime, step: timedelta) -> datetime:
    return at - (at - _EPOCH) % step


def _emitting(row: IntensityPoint, hours: Hours) -> IntensityPoint | None:
    """The hour with its emissions as they are told, in place of our factors."""
    grams = intensity(hours.g_per_kwh(row.start), f"emissions over energy at {row.start.isoformat()}")
    return None if grams is None else replace(row, g_per_kwh=grams, method="emissions and energy of OpenElectricity")


def _invalid(data: object) -> str:
    """What is wrong with our parameters, of a reply that has a list of it."""
    details = data.get("detail") if isinstance(data, dict) else None
    texts = [str(each.get("msg")) for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    return " ".join("; ".join(texts).split())[:_LONGEST_TEXT]
