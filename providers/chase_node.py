"""Another node's ``chase serve`` as a source: what it has read of a grid, so that a fleet asks each API once.

One GET answers with what was observed and what is expected, of the one source that node goes by (``chase/share``). A
tag saves the transfer while nothing is new. Points keep what they are; who first said them stands in ``method``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from providers.base import (
    BadRequest,
    Boundary,
    Capabilities,
    IntensityPoint,
    Kind,
    NoData,
    SchemaError,
    Scope,
    Series,
    Signal,
)
from providers.options import Options, web_address
from providers.reading import check_interval, gather, instant, intensity, record, records, shown, within
from providers.redact import Secret

if TYPE_CHECKING:
    from providers.session import Session

VERSION = 1
_HOUR = timedelta(hours=1)
_LONGEST_RANGE = timedelta(days=31)
_LONGEST_POINT = timedelta(days=1)
_LONGEST_TEXT = 200
_OBSERVED = frozenset({Kind.MEASURED, Kind.ESTIMATED})
_PROVIDER = "chase"
_EXPECTED = frozenset({Kind.FORECAST})

Document = Mapping[str, Any]
Word = TypeVar("Word", bound=StrEnum)


class ChaseNode:
    """The node at ``base_url``. Option ``region``: what it calls the region or zone, this source's own zone if not
    given. The token is the one of that node's ``share.token_env``.
    """

    name = "chase_node"  # not as the provider is called in a file: "chase" says that a forecast is of our own making
    capabilities = Capabilities(
        observed=True, forecast=True, step_s=3600.0, poll_s=300.0, forecast_horizon_s=7 * 86400.0
    )

    def __init__(
        self,
        *,
        zone: str,
        options: Mapping[str, object],
        token: Secret | None = None,
        base_url: str | None,
        session: Session,
        now: Callable[[], datetime],
    ) -> None:
        if base_url is None:
            raise BadRequest("chase: name the other node with base_url, such as http://10.0.0.5:8420")
        self.zone = zone
        self._session, self._now = session, now
        given = Options(_PROVIDER, options)
        self._place = given.text("region") or zone
        given.finish()
        root = web_address(_PROVIDER, base_url, "http://10.0.0.5:8420")
        self._url = f"{root}/v1/grid/{quote(self._place, safe='')}/intensity"
        self._token = Secret(f"Bearer {token.reveal()}") if token else None
        self._known: dict[str, tuple[Mapping[str, str], str, Document]] = {}  # the last answer to each kind of question

    def observe(self, start: datetime, end: datetime) -> Series:
        check_interval(start, end)
        now = self._now()
        points = [
            point
            for first, last in _ranges(start, min(end, now + _HOUR))
            for point in self._points("observed", first, last, _OBSERVED)
        ]
        if not points:
            raise NoData(f"{self._label} has nothing of {start.isoformat()} to {end.isoformat()}")
        return within((point for point in points if point.start <= now), start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        check_interval(start, end)
        first = max(start, self._now())
        if first >= end:
            return Series()
        return within(self._points("forecast", first, min(end, first + _LONGEST_RANGE), _EXPECTED), first, end)

    def close(self) -> None:
        """The session is the caller's."""

    def _points(self, part: str, start: datetime, end: datetime, kinds: frozenset[Kind]) -> list[IntensityPoint]:
        document = self._document(part, {"start": _stamp(_floor(start)), "end": _stamp(_floor(end) + _HOUR)})
        rows = records(document.get(part), f"{self._label}: {part}")
        if not rows:
            return []
        common = self._common(document)
        return gather(rows, lambda row: self._point(record(row, "a row"), common, kinds), where=self._label)

    def _document(self, part: str, question: Mapping[str, str]) -> Document:
        """Whole hours are asked for, so that the question, and with it the tag, holds for an hour."""
        asked, tag, known = self._known.get(part, ({}, "", {}))
        headers: dict[str, str | Secret] = {"Authorization": self._token} if self._token else {}
        if asked == question and tag:
            headers["If-None-Match"] = tag
        reply = self._session.get(self._url, params=question, headers=headers)
        if reply.status == 304:  # noqa: PLR2004 - HTTP's own numbers are its names
            if "If-None-Match" not in headers:
                raise SchemaError(f"{self._label} answers 304, and was not asked for what is new")
            return known
        document = record(reply.data, f"{self._label}: the reply")
        self._check(document)
        self._known[part] = (question, reply.etag, document)
        return document

    def _check(self, document: Document) -> None:
        version = document.get("version")
        if version != VERSION or isinstance(version, bool):
            raise SchemaError(
                f"{self._label} speaks version {shown(version)}, not {VERSION}: bring both nodes to one chase"
            )
        zones = records(document.get("zones"), f"{self._label}: zones")
        if self._place not in [document.get("region"), *zones]:
            raise SchemaError(
                f"{self._label} was asked for {self._place} and answered for {shown(document.get('region'))}"
            )

    def _common(self, document: Document) -> dict[str, Any]:
        """What all points share."""
        return {
            "via": " ".join(_text(document.get(name), name) for name in ("source", "zone")),
            "signal": _word(Signal, document.get("signal"), "signal"),
            "scope": _word(Scope, document.get("scope"), "scope"),
            "boundary": _word(Boundary, document.get("boundary"), "boundary"),
        }

    def _point(
        self, row: Mapping[str, Any], common: Mapping[str, Any], kinds: frozenset[Kind]
    ) -> IntensityPoint | None:
        kind = _word(Kind, row.get("kind"), "kind")
        start, end = instant(row.get("start"), "start"), instant(row.get("end"), "end")
        grams = intensity(row.get("g_per_kwh"), f"g_per_kwh at {start.isoformat()}")
        if grams is None or kind not in kinds or not timedelta(0) < end - start <= _LONGEST_POINT:
            raise SchemaError(f"{shown(dict(row))} is no {' or '.join(sorted(kinds))} value of at most a day")
        now, read_at = self._now(), instant(row.get("fetched_at"), "fetched_at")
        issued = instant(row["issued_at"], "issued_at") if "issued_at" in row else read_at
        return IntensityPoint(
            zone=self.zone,
            start=start,
            end=end,
            g_per_kwh=grams,
            kind=kind,
            signal=common["signal"],
            scope=common["scope"],
            boundary=common["boundary"],
            source=self.name,
            fetched_at=now,
            issued_at=min(issued, now) if kind is Kind.FORECAST else None,
            updated_at=instant(row["updated_at"], "updated_at") if "updated_at" in row else read_at,
            method=_said_by(common["via"], _text(row.get("method", ""), "method")),
        )

    @property
    def _label(self) -> str:
        return f"{_PROVIDER} {self._place}"


def _said_by(via: str, method: str) -> str:
    """A node that has it from another node passes on who said it first."""
    if via.startswith(f"{ChaseNode.name} "):
        return method
    return f"{via}: {method}" if method else via


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise SchemaError(f"{what} is {shown(value)}, not a short text")
    return value


def _word(words: type[Word], value: object, what: str) -> Word:
    if not isinstance(value, str) or value not in list(words):
        raise SchemaError(f"{what} is {shown(value)}, not one of {', '.join(words)}")
    return words(value)


def _ranges(start: datetime, end: datetime) -> Iterable[tuple[datetime, datetime]]:
    """``[start, end)`` in pieces that one request may ask for."""
    while start < end:
        yield start, min(start + _LONGEST_RANGE, end)
        start += _LONGEST_RANGE


def _floor(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def _stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%MZ}"
