"""Electricity Maps: average intensity of about 350 zones, by token. Version 4, and 3 where ``version`` says so.

Facts that shape it: the newest rows are estimates that are replaced for days; a forecast's ``updatedAt`` is the time
of the request; live value and forecast of the same hour come from different models; an unknown zone may be answered
with another's data; 401 stands for a bad token, for a zone outside the plan, and has been seen for too many requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from providers.base import (
    AuthError,
    BadRequest,
    Capabilities,
    IntensityPoint,
    NoData,
    PlanError,
    ProviderError,
    RateLimited,
    Scope,
    Series,
)
from providers.electricity_maps_reply import SOURCE, STEPS, Asked, rows_of
from providers.options import Options, web_address
from providers.reading import check_interval, within
from providers.reply import Body, Reply

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

BASE_URL = "https://api.electricitymaps.com"
_HORIZONS_H = (6, 24, 48, 72)


class ElectricityMaps:
    """Options: ``version`` (v4, v3), ``header``, ``granularity``, ``scope``, ``flow_traced``, ``estimations``."""

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
        self._token, self._session, self._now = token, session, now
        given = Options(self.name, options)
        version = given.text("version", "v4", choices=("v4", "v3"))
        self._header = given.text("header", "auth-token")
        self._estimations = given.flag("estimations", default=True)
        self._asked = Asked(
            zone,
            given.text("granularity", "hourly", choices=tuple(STEPS)),
            Scope(given.text("scope", Scope.LIFECYCLE, choices=(Scope.LIFECYCLE, Scope.DIRECT))),
            given.flag("flow_traced", default=True),
            now,
        )
        given.finish()
        self._root = _rooted(web_address(self.name, base_url, BASE_URL), version)
        if not self._asked.flow_traced and self._root.endswith("v3"):
            raise BadRequest(f"{self.name}: flow_traced = false needs version v4")
        self._accepted = False  # the token has worked since it was last refused
        self._observed_until: datetime | None = None
        self._issued: tuple[Sequence[Any], datetime] = ((), now())

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            observed=True,
            forecast=True,
            step_s=STEPS[self._asked.granularity] / timedelta(seconds=1),
            poll_s=900.0,
            forecast_horizon_s=_HORIZONS_H[-1] * 3600.0,
            needs_key=True,
        )

    def observe(self, start: datetime, end: datetime) -> Series:
        """``history`` reaches 24 rows back; the running interval alone, or a plan without history, asks ``latest``."""
        check_interval(start, end)
        if start > self._now():
            return Series()
        if self._now() - start < STEPS[self._asked.granularity]:
            return self._begun(self._asked.points(self._ask("latest")), start, end)
        try:
            points = self._asked.points(self._ask("history"))
        except (NoData, PlanError):
            points = self._asked.points(self._ask("latest"))
        return self._begun(points, start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        """From the first interval on of which no observed value was given: that one wins the running hour."""
        check_interval(start, end)
        hours = (end - self._now()) / timedelta(hours=1)
        if hours <= 0:
            return Series()
        horizon = next((reach for reach in _HORIZONS_H if reach >= hours), _HORIZONS_H[-1])
        reply = self._ask("forecast", horizonHours=str(horizon))
        points = self._asked.points(reply, issued_at=self._first_seen(reply))
        known = self._observed_until
        return within((point for point in points if known is None or point.start >= known), start, end)

    def close(self) -> None:
        """The session is the caller's."""

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

    def _ask(self, endpoint: str, **more: str) -> Any:
        if not self._token:
            raise AuthError(f"{self.name} needs a token: set the environment variable that token_env names")
        reply = self._session.get_json(
            f"{self._root}/carbon-intensity/{endpoint}",
            params={**self._params(), **more},
            headers={self._header: self._token},
            judge=self._judge,
        )
        self._accepted = True
        return reply

    def _params(self) -> dict[str, str]:
        params = {
            "zone": self.zone,
            "temporalGranularity": self._asked.granularity,
            "emissionFactorType": self._asked.scope.value,
            "disableCallerLookup": "true",  # else an unknown zone gets the data of where we seem to be
        }
        if not self._estimations:
            params["disableEstimations"] = "true"
        if self._root.endswith("v4"):
            params["flowTraced"] = "true" if self._asked.flow_traced else "false"
        return params

    def _judge(self, reply: Reply) -> ProviderError | None:
        said = f"{self.name}, zone {self.zone}: {reply.status} {reply.message}".rstrip()
        words = reply.message.lower()
        if reply.status == 401 and reply.body is not Body.HTML:  # noqa: PLR2004 - HTTP's own numbers are its names
            return self._refused(said, words, reply)
        if reply.status == 403 and words:  # noqa: PLR2004
            return PlanError(said)
        if re.search(r"\bno (recent )?data\b", words) and reply.status in {200, 404, 502}:
            return NoData(said)
        if "no route matched" in words:
            return BadRequest(f"{said}: no such address; check base_url and version")
        return None

    def _refused(self, said: str, words: str, reply: Reply) -> ProviderError:
        if "zonekey" in words or "do not have access" in words:
            return PlanError(f"{said}: the token is good, but its plan does not cover this")
        if self._accepted:
            self._accepted = False
            return RateLimited(f"{said}: a token that worked was refused", retry_after_s=reply.retry_after_s)
        return AuthError(f"{said}: check the token")


def _rooted(base: str, version: str) -> str:
    """People copy addresses with the version in them; then that is the version."""
    return base if re.search(r"/v[34]$", base) else f"{base}/{version}"
