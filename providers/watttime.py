"""WattTime v3: marginal emissions of a region (or average ones), five minutes each, by login.

Values come in pounds per MWh. Everywhere else but in the free account's one region it answers with a percentile, which
is no intensity: ``meta.units`` decides. A reply is of one model, and models are not comparable, so each point names it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
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
    SchemaError,
    Scope,
    Series,
    Signal,
    Transient,
)
from providers.options import Options, web_address
from providers.reading import check_interval, ends, gather, instant, record, records, shown, within
from providers.reply import Body, Judge, Reply
from providers.units import grams
from providers.watttime_login import shared_login

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

BASE_URL = "https://api.watttime.org"
_TYPES = {Signal.MARGINAL: "co2_moer", Signal.AVERAGE: "co2_aoer"}
_UNITS = "lbs_co2_per_mwh"
_STEP = timedelta(minutes=5)
_LONGEST_RANGE = timedelta(days=30)  # the source takes 32
_HORIZON = timedelta(hours=72)
_LONGEST_TEXT = 200
_MOST_WARNINGS = 5
_log = logging.getLogger(__name__)


class _Expired(AuthError):
    """A token that had been good."""


class WattTime:
    """``zone`` is the region's name. Options: ``signal`` (marginal, average), ``model`` (a date)."""

    name = "watttime"
    capabilities = Capabilities(
        observed=True, forecast=True, step_s=300.0, poll_s=300.0, forecast_horizon_s=72 * 3600.0, needs_key=True
    )

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
        self._root = web_address(self.name, base_url, BASE_URL)
        given = Options(self.name, options)
        self._signal = Signal(given.text("signal", Signal.MARGINAL, choices=tuple(_TYPES)))
        self._model = given.text("model")
        given.finish()
        self._login = shared_login(session, f"{self._root}/login", token, self.name)
        self._warned: list[str] = []

    def observe(self, start: datetime, end: datetime) -> Series:
        """Of the newest model alone, should the range span a change of it."""
        check_interval(start, end)
        now = self._now()
        points: list[IntensityPoint] = []
        for first, last in _ranges(start, min(end, now)):
            points += self._points(self._history(first, last))
        begun = [point for point in points if point.start <= now]
        if points and not begun:
            raise NoData(f"{self._label} has published nothing that has begun")
        model = max(begun, key=lambda point: point.start).method if begun else ""
        return within((point for point in begun if point.method == model), start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        check_interval(start, end)
        now = self._now()
        hours = math.ceil((min(end, now + _HORIZON) - now) / timedelta(hours=1))
        if hours <= 0:
            return Series()
        reply = self._ask("forecast", horizon_hours=str(hours))
        return within(self._points(reply, issued_at=self._generated(reply)), max(start, now), end)

    def close(self) -> None:
        """The session is the caller's."""

    def _history(self, first: datetime, last: datetime) -> Any:
        return self._ask("historical", start=_stamp(first), end=_stamp(last), include_imputed_marker="true")

    def _ask(self, endpoint: str, **more: str) -> Any:
        """Once more with a new token, where the one we have is refused before its time."""
        model = {"model": self._model} if self._model else {}
        params = {"region": self.zone, "signal_type": _TYPES[self._signal], **model, **more}
        header = self._login.header()
        try:
            return self._get(endpoint, params, header, self._judge)
        except _Expired:
            self._login.drop(header)
        return self._get(endpoint, params, self._login.header(), self._judge_again)

    def _get(self, endpoint: str, params: Mapping[str, str], header: Secret, judge: Judge) -> Any:
        url = f"{self._root}/v3/{endpoint}"
        return self._session.get_json(url, params=params, headers={"Authorization": header}, judge=judge)

    def _judge(self, reply: Reply) -> ProviderError | None:
        said = f"{self._label}: {reply.status} {reply.message}".rstrip()
        if reply.status == 401 or (reply.status == 403 and reply.body is not Body.JSON):  # noqa: PLR2004 - HTTP's own numbers are its names
            return _Expired(said)
        if reply.status == 403:  # noqa: PLR2004
            return PlanError(f"{said}: the login is good, but its plan does not cover this region and signal")
        if reply.status == 400:  # noqa: PLR2004
            return BadRequest(f"{said}: check zone and options")
        return None

    def _judge_again(self, reply: Reply) -> ProviderError | None:
        """A token just got is not expired: a page under 403 is a gateway's."""
        error = self._judge(reply)
        if not isinstance(error, _Expired):
            return error
        made = AuthError if reply.status == 401 else Transient  # noqa: PLR2004
        return made(f"{error}, with a token just got")

    def _points(self, reply: Any, *, issued_at: datetime | None = None) -> list[IntensityPoint]:
        """Forecasts where ``issued_at`` is given."""
        document = record(reply, f"{self._label}: the reply")
        meta = record(document.get("meta"), f"{self._label}: meta")
        self._check(meta)
        self._warn(meta.get("warnings"))
        rows = records(document.get("data"), f"{self._label}: data")
        if not rows:
            raise NoData(f"{self._label} has published nothing for this time")
        until = ends([at for row in rows if (at := _start(row)) is not None], _step(meta))
        method = _method(meta)
        return gather(rows, lambda row: self._point(row, until, method, issued_at), where=self._label)

    def _check(self, meta: Mapping[str, Any]) -> None:
        """A percentile taken for pounds is a number that looks right and is not."""
        for key, wanted in (("region", self.zone), ("signal_type", _TYPES[self._signal])):
            if meta.get(key) != wanted:
                raise SchemaError(f"{self._label} was asked for {key} {wanted!r} and answered {shown(meta.get(key))}")
        if (units := meta.get("units")) != _UNITS:
            raise SchemaError(f"{self._label} answers in {shown(units)}, not {_UNITS}: that is no intensity")

    def _warn(self, warnings: object) -> None:
        """Said once, until it says something else."""
        said = [_line(warning) for warning in warnings] if isinstance(warnings, list) else []
        if said != self._warned:
            for text in said[:_MOST_WARNINGS]:
                _log.warning("%s: %s", self._label, text)
        self._warned = said

    def _point(
        self, row: Any, until: Mapping[datetime, datetime], method: str, issued_at: datetime | None
    ) -> IntensityPoint | None:
        row = record(row, "a row")
        start = instant(row.get("point_time"), "point_time")
        if "value" not in row:
            raise SchemaError(f"value is missing at {start.isoformat()}")
        value = grams(row["value"], f"value at {start.isoformat()}", "lb_per_mwh")
        if value is None:
            return None
        measured = row.get("imputed_data_used") is False
        updated = row.get("last_updated")
        return IntensityPoint(
            zone=self.zone,
            start=start,
            end=until[start],
            g_per_kwh=value,
            kind=Kind.FORECAST if issued_at else Kind.MEASURED if measured else Kind.ESTIMATED,
            signal=self._signal,
            scope=Scope.DIRECT,
            boundary=Boundary.UNSPECIFIED,
            source=self.name,
            fetched_at=self._now(),
            issued_at=issued_at,
            updated_at=None if updated is None else instant(updated, "last_updated"),
            method=method,
        )

    def _generated(self, reply: Any) -> datetime:
        """When the forecast was made; a clock that is ahead of ours makes it now."""
        meta = reply.get("meta") if isinstance(reply, dict) else None
        made = meta.get("generated_at") if isinstance(meta, dict) else None
        now = self._now()
        return now if made is None else min(now, instant(made, f"{self._label}: generated_at"))

    @property
    def _label(self) -> str:
        return f"{self.name} {self.zone}"


def _ranges(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """``[start, end)`` from step to step, in pieces of which each ends one step before the next: ends are inclusive."""
    first = start.replace(minute=start.minute // 5 * 5, second=0, microsecond=0)
    while first < end or first == start == end:
        piece = min(first + _LONGEST_RANGE, max(end, first + _STEP))
        yield first, piece - _STEP if piece < end else piece
        first = piece


def _step(meta: Mapping[str, Any]) -> timedelta:
    seconds = meta.get("data_point_period_seconds", _STEP.total_seconds())
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 60 <= seconds <= 3600:  # noqa: PLR2004 - a minute, an hour
        raise SchemaError(f"data_point_period_seconds is {shown(seconds)}")
    return timedelta(seconds=seconds)


def _method(meta: Mapping[str, Any]) -> str:
    model = meta.get("model")
    date = model.get("date") if isinstance(model, dict) else model
    return f"model {_line(date)}" if date else ""


def _start(row: Any) -> datetime | None:
    try:
        return instant(row["point_time"], "point_time")
    except (SchemaError, KeyError, TypeError):
        return None


def _line(said: object) -> str:
    parts = [said.get("type"), said.get("message")] if isinstance(said, dict) else [said]
    return " ".join(" ".join(str(part) for part in parts if part is not None).split())[:_LONGEST_TEXT]


def _stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
