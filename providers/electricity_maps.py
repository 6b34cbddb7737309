"""Electricity Maps: average intensity of about 350 zones, by token. Version 4, and 3 where ``version`` says so.

Facts that shape it: the newest rows are estimates that are replaced for days; a forecast's ``updatedAt`` is the time
of the request; live value and forecast of the same hour come from different models; an unknown zone may be answered
with another's data; ``history`` is the last 24 hours, and what is before them is open to some plans alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from providers.base import BadRequest, Capabilities, IntensityPoint, NoData, PlanError, Scope, Series
from providers.electricity_maps_api import SOURCE, Api
from providers.electricity_maps_mix import AskedMix
from providers.electricity_maps_past import Past
from providers.electricity_maps_reply import STEPS, Asked, rows_of
from providers.options import Options
from providers.reading import check_interval, within

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

_HORIZONS_H = (6, 24, 48, 72)
_STAMP = "%Y-%m-%dT%H:%M:%SZ"


class ElectricityMaps:
    """Options: ``method`` (intensity, or mix: by our own factors), ``version`` (v4, v3), ``header``, ``granularity``,
    ``scope``, ``flow_traced``, ``estimations``.
    """

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
        self.zone = zone
        self._now = now
        given = Options(self.name, options)
        self._api = Api(zone, given, token=token, base_url=base_url, session=session)
        self._asked = _asked(zone, given, self._api, now)
        given.finish()
        self._past = Past(self._range, session)
        self._observed_until: datetime | None = None
        self._issued: tuple[Sequence[Any], datetime] = ((), now())

    @property
    def capabilities(self) -> Capabilities:
        forecast = isinstance(self._asked, Asked)
        return Capabilities(
            observed=True,
            forecast=forecast,
            step_s=STEPS[self._asked.granularity] / timedelta(seconds=1),
            poll_s=900.0,
            forecast_horizon_s=_HORIZONS_H[-1] * 3600.0 if forecast else 0.0,
            needs_key=True,
        )

    def access(self) -> frozenset[str] | None:
        """What the plan of the token opens for this zone, such as ``carbon-intensity/past-range``; asked once a day.

        None where the vendor does not know the token. ``BadRequest`` if there is no such zone.
        """
        return self._api.access()

    def observe(self, start: datetime, end: datetime) -> Series:
        """``history`` reaches 24 hours back; the running interval alone, or a plan without history, asks ``latest``."""
        check_interval(start, end)
        now = self._now()
        if start > now:
            return Series()
        if isinstance(self._asked, Asked) and now - start < STEPS[self._asked.granularity]:
            return self._begun(self._points("latest"), start, end)
        points = self._recent()
        oldest = min((point.start for point in points), default=now)
        return self._begun([*self._past.points(start, min(end, oldest), now), *points], start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        """From the first interval on of which no observed value was given: that one wins the running hour."""
        check_interval(start, end)
        hours = (end - self._now()) / timedelta(hours=1)
        if hours <= 0 or not isinstance(self._asked, Asked):
            return Series()
        horizon = next((reach for reach in _HORIZONS_H if reach >= hours), _HORIZONS_H[-1])
        reply = self._ask("forecast", horizonHours=str(horizon))
        points = self._asked.points(reply, issued_at=self._first_seen(reply))
        known = self._observed_until
        return within((point for point in points if known is None or point.start >= known), start, end)

    def close(self) -> None:
        """The session is the caller's."""

    def _recent(self) -> list[IntensityPoint]:
        try:
            return self._points("history")
        except (NoData, PlanError):
            if isinstance(self._asked, AskedMix):  # one row alone does not tell whether its mix is whole
                raise
            return self._points("latest")

    def _range(self, start: datetime, end: datetime) -> list[IntensityPoint]:
        return self._points("past-range", start=f"{start:{_STAMP}}", end=f"{end:{_STAMP}}")

    def _points(self, temporality: str, **more: str) -> list[IntensityPoint]:
        return self._asked.points(self._ask(temporality, **more))

    def _ask(self, temporality: str, **more: str) -> Any:
        return self._api.ask(f"{self._asked.signal}/{temporality}", {**self._asked.params(), **more})

    def _begun(self, points: Sequence[IntensityPoint], start: datetime, end: datetime) -> Series:
        """A row that has not begun is not an observation, whatever it says of itself."""
        begun = [point for point in points if point.start <= self._now()]
        if begun:
            newest = max(point.end for point in begun)
            self._observed_until = max(newest, self._observed_until or newest)
        return within(begun, start, end)

    def _first_seen(self, reply: object) -> datetime:
        """When this forecast came out, as far as we can know: when these very rows were first read."""
        rows = rows_of(reply) if reply else ()
        if rows != self._issued[0]:
            self._issued = (rows, self._now())
        return self._issued[1]


def _asked(zone: str, given: Options, api: Api, now: Callable[[], datetime]) -> Asked | AskedMix:
    method = given.text("method", "intensity", choices=("intensity", "mix"))
    granularity = given.text("granularity", "hourly", choices=tuple(STEPS))
    scope = Scope(given.text("scope", Scope.LIFECYCLE, choices=(Scope.LIFECYCLE, Scope.DIRECT)))
    flow_traced = given.flag("flow_traced", default=True)
    estimations = given.flag("estimations", default=True)
    if not api.is_v4 and (method == "mix" or not flow_traced):
        option = 'method = "mix"' if method == "mix" else "flow_traced = false"
        raise BadRequest(f"{SOURCE}: {option} needs version v4")
    if method == "mix":
        return AskedMix(zone, granularity, scope, flow_traced, estimations, now)
    return Asked(zone, granularity, scope, flow_traced, estimations, api.is_v4, now)
