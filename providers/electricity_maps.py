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
    Boundary,
    Capabilities,
    IntensityPoint,
    Kind,
    NoData,
    PlanError,
    ProviderError,
    RateLimited,
    SchemaError,
    Scope,
    Series,
    Signal,
)
from providers.options import Options, web_address
from providers.reading import check_interval, ends, gather, instant, intensity, record, records, shown, within
from providers.reply import Body, Reply

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

BASE_URL = "https://api.electricitymaps.com"
_STEPS = {
    "5_minutes": timedelta(minutes=5),
    "15_minutes": timedelta(minutes=15),
    "hourly": timedelta(hours=1),
}
_HORIZONS_H = (6, 24, 48, 72)
_SANDBOX = "SANDBOX_MODE_DATA"
_MEASURED = (None, "MEASURED")


class ElectricityMaps:
    """Options: ``version`` (v4, v3), ``header``, ``granularity``, ``scope``, ``flow_traced``, ``estimations``."""

    name = "electricity_maps"

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
        self._version = given.text("version", "v4", choices=("v4", "v3"))
        self._header = given.text("header", "auth-token")
        self._granularity = given.text("granularity", "hourly", choices=tuple(_STEPS))
        self._scope = Scope(given.text("scope", Scope.LIFECYCLE, choices=(Scope.LIFECYCLE, Scope.DIRECT)))
        self._flow_traced = given.flag("flow_traced", default=True)
        self._estimations = given.flag("estimations", default=True)
        given.finish()
        if not self._flow_traced and self._version == "v3":
            raise BadRequest(f"{self.name}: flow_traced = false needs version v4")
        self._root = self._rooted(web_address(self.name, base_url, BASE_URL))
        self._accepted = False  # the token has worked since it was last refused
        self._observed_until: datetime | None = None
        self._issued: tuple[Sequence[Any], datetime] = ((), now())

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            observed=True,
            forecast=True,
            step_s=_STEPS[self._granularity] / timedelta(seconds=1),
            poll_s=900.0,
            forecast_horizon_s=_HORIZONS_H[-1] * 3600.0,
            needs_key=True,
        )

    def observe(self, start: datetime, end: datetime) -> Series:
        """``history`` reaches 24 rows back; the running interval alone, or a plan without history, asks ``latest``."""
        check_interval(start, end)
        if start > self._now():
            return Series()
        if self._now() - start < _STEPS[self._granularity]:
            return self._seen(self._latest(), start, end)
        try:
            points = self._points(self._ask("history"), ("history", "data"))
        except (NoData, PlanError):
            points = self._latest()
        return self._seen(points, start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        """From the first interval on of which no observed value was given."""
        check_interval(start, end)
        hours = (end - self._now()) / timedelta(hours=1)
        if hours <= 0:
            return Series()
        horizon = next((step for step in _HORIZONS_H if step >= hours), _HORIZONS_H[-1])
        reply = self._ask("forecast", horizonHours=str(horizon))
        points = self._points(reply, ("forecast", "data"), issued_at=self._first_seen(reply))
        known = self._observed_until
        return within((point for point in points if known is None or point.start >= known), start, end)

    def close(self) -> None:
        """The session is the caller's."""

    def _latest(self) -> list[IntensityPoint]:
        reply = self._ask("latest")
        return self._points({**reply, "data": [reply]}, ("data",))

    def _seen(self, points: Sequence[IntensityPoint], start: datetime, end: datetime) -> Series:
        """A row that has not begun is not an observation, whatever it says of itself."""
        now = self._now()
        begun = [point for point in points if point.start <= now]
        if begun:
            newest = max(point.end for point in begun)
            self._observed_until = max(newest, self._observed_until or newest)
        return within(begun, start, end)

    def _first_seen(self, reply: Mapping[str, Any]) -> datetime:
        """When this forecast came out, as far as we can know: when these very rows were first read."""
        rows = reply.get("forecast") or ()
        if rows != self._issued[0]:
            self._issued = (rows, self._now())
        return self._issued[1]

    def _ask(self, endpoint: str, **more: str) -> Mapping[str, Any]:
        if not self._token:
            raise AuthError(f"{self.name} needs a token: set the environment variable that token_env names")
        reply = self._session.get_json(
            f"{self._root}/carbon-intensity/{endpoint}",
            params={**self._params(), **more},
            headers={self._header: self._token},
            judge=self._judge,
        )
        self._accepted = True
        if reply in ({}, []):
            raise NoData(f"{self.name} has nothing for zone {self.zone}")
        return self._checked(record(reply, f"{self.name}: the reply"))

    def _params(self) -> dict[str, str]:
        params = {
            "zone": self.zone,
            "temporalGranularity": self._granularity,
            "emissionFactorType": self._scope.value,
            "disableCallerLookup": "true",  # else an unknown zone gets the data of where we seem to be
        }
        if not self._estimations:
            params["disableEstimations"] = "true"
        if self._version == "v4":
            params["flowTraced"] = "true" if self._flow_traced else "false"
        return params

    def _checked(self, reply: Mapping[str, Any]) -> Mapping[str, Any]:
        """Is it what was asked for? Another zone, scope or boundary is never taken silently."""
        asked = {"zone": self.zone, "emissionFactorType": self._scope.value, "flowTraced": self._flow_traced}
        for key, wanted in asked.items():
            got = reply.get(key)
            if got != wanted and (key == "zone" or got is not None):
                raise SchemaError(f"{self.name} was asked for {key} {wanted!r} and answered with {shown(got)}")
        return reply

    def _points(
        self, reply: Mapping[str, Any], keys: Sequence[str], *, issued_at: datetime | None = None
    ) -> list[IntensityPoint]:
        key = next((key for key in keys if key in reply), keys[0])
        rows = records(reply.get(key), f"{self.name}: {key}")
        if not rows:
            raise NoData(f"{self.name} has published nothing for zone {self.zone}")
        if _is_sandbox(reply, rows):
            raise PlanError(f"{self.name}: a sandbox key gives random data for {self.zone}; use a production key")
        granularity = reply.get("temporalGranularity") or self._granularity
        step = _STEPS.get(str(granularity))
        if step is None:
            raise SchemaError(f"{self.name}: temporalGranularity is {shown(granularity)}, not {', '.join(_STEPS)}")
        until = ends([at for row in rows if (at := _start(row)) is not None], step)
        return gather(rows, lambda row: self._point(row, until, issued_at), where=f"{self.name} {self.zone}")

    def _point(self, row: Any, until: Mapping[datetime, datetime], issued_at: datetime | None) -> IntensityPoint | None:
        row = record(row, "a row")
        start = instant(row.get("datetime"), "datetime")
        if "carbonIntensity" not in row:
            raise SchemaError(f"carbonIntensity is missing at {start.isoformat()}")
        grams = intensity(row["carbonIntensity"], f"carbonIntensity at {start.isoformat()}")
        if grams is None:
            return None
        updated = row.get("updatedAt")
        return IntensityPoint(
            zone=self.zone,
            start=start,
            end=until[start],
            g_per_kwh=grams,
            kind=Kind.FORECAST if issued_at else _kind(row),
            signal=Signal.AVERAGE,
            scope=self._scope,
            boundary=Boundary.CONSUMPTION if self._flow_traced else Boundary.PRODUCTION,
            source=self.name,
            fetched_at=self._now(),
            issued_at=issued_at,
            updated_at=None if updated is None or issued_at else instant(updated, "updatedAt"),
            method=str(row.get("estimationMethod") or ""),
        )

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

    def _rooted(self, base: str) -> str:
        """People copy addresses with the version in them; then that is the version."""
        named = re.search(r"/(v[34])$", base)
        if named:
            self._version = named[1]
            return base
        return f"{base}/{self._version}"


def _start(row: Any) -> datetime | None:
    try:
        return instant(row["datetime"], "datetime")
    except (SchemaError, KeyError, TypeError):
        return None


def _is_sandbox(reply: Mapping[str, Any], rows: Sequence[Any]) -> bool:
    """Rows of a forecast carry no method; then only a disclaimer beside them tells."""
    said = (str(value) for key, value in reply.items() if "disclaimer" in key.lower())
    methods = (row.get("estimationMethod") for row in rows if isinstance(row, dict))
    return _SANDBOX in methods or any("sandbox" in text.lower() for text in said)


def _kind(row: Mapping[str, Any]) -> Kind:
    """``isEstimated`` decides; without it a method that is null or MEASURED does; without either it is an estimate."""
    estimated = row.get("isEstimated", row.get("estimationMethod", "unknown") not in _MEASURED)
    return Kind.MEASURED if estimated is False else Kind.ESTIMATED
