"""A PromQL query that an operator already has, over the HTTP API of Prometheus and what speaks like it.

A value found at a time counts for the step that begins there. Prometheus itself looks back (five minutes by default)
for a value that is not there at that very time, and forgets it after that, which shows here as a gap. Only the operator
knows the unit of a metric and what it counts, so the options have to say it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
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
)
from providers.options import Options, own_address
from providers.reading import check_interval, gather, record, records, shown, within
from providers.redact import bearer
from providers.units import G_PER_KWH, grams

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.reply import Reply
    from providers.session import Session

_EXAMPLE = "https://prometheus.example.org"
_WHY = "a metric does not tell"
_MOST_STEPS = 10_000  # of one series in a reply; the server's own limit is 11,000
_MOST_PIECES = 10
_HORIZON = timedelta(days=7)
_LAST_SECOND = 2e11
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NO_NUMBER = re.compile(r"NaN|[+-]?Inf")
_LONGEST_TEXT = 200
_MOST_WARNINGS = 5
_OURS = ("bad_data", "execution")
_OBSERVED = (Kind.MEASURED, Kind.ESTIMATED)
_log = logging.getLogger(__name__)


class Prometheus:
    """Options: ``query``, ``forecast_query``, ``step_s``, ``unit``, ``signal``, ``scope``, ``boundary``, ``kind``."""

    name = "prometheus"

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
        self._root = own_address(self.name, base_url, _EXAMPLE).removesuffix("/api/v1")
        self._headers = {"Authorization": bearer(token)} if token else {}
        given = Options(self.name, options)
        self._query = given.needed("query", "the PromQL whose value is the intensity")
        self._forecast_query = given.text("forecast_query").strip()
        self._step = timedelta(seconds=round(given.number("step_s", 300, low=15, high=86400)))
        self._unit = given.text("unit", "g_per_kwh", choices=tuple(G_PER_KWH))
        self._signal = Signal(given.needed("signal", _WHY, choices=tuple(Signal)))
        self._scope = Scope(given.needed("scope", _WHY, choices=tuple(Scope)))
        self._boundary = Boundary(given.text("boundary", Boundary.UNSPECIFIED, choices=tuple(Boundary)))
        self._kind = Kind(given.text("kind", Kind.MEASURED, choices=_OBSERVED))
        given.finish()
        self._warned: list[str] = []

    @property
    def capabilities(self) -> Capabilities:
        step_s = self._step.total_seconds()
        horizon_s = _HORIZON.total_seconds() if self._forecast_query else 0.0
        return Capabilities(
            observed=True,
            forecast=bool(self._forecast_query),
            step_s=step_s,
            poll_s=min(max(step_s, 60.0), 900.0),
            forecast_horizon_s=horizon_s,
        )

    def observe(self, start: datetime, end: datetime) -> Series:
        """The running step alone is an instant query."""
        check_interval(start, end)
        now = self._now()
        if start > now:
            return Series()
        last = self._floor(min(end, now))
        first = max(self._floor(start), last - _MOST_PIECES * _MOST_STEPS * self._step)
        return within(self._range(self._query, first, last, self._kind), start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        """What ``forecast_query`` gives at times to come."""
        check_interval(start, end)
        now = self._now()
        first, last = self._floor(max(start, now)), min(end, now + _HORIZON)
        if first >= last or not self._forecast_query:
            return Series()
        return within(self._range(self._forecast_query, first, last, Kind.FORECAST), max(start, now), end)

    def close(self) -> None:
        """The session is the caller's."""

    def _range(self, query: str, first: datetime, last: datetime, kind: Kind) -> list[IntensityPoint]:
        points: list[IntensityPoint] = []
        for times in self._pieces(first, last):
            points += self._points(self._values(query, times), times, kind)
        if not points:
            raise NoData(f"{self._label}: the query has no value from {_stamp(first)} to {_stamp(last)}")
        return points

    def _values(self, query: str, times: Sequence[datetime]) -> Mapping[str, Any]:
        if len(times) == 1:
            return self._ask("query", query=query, time=_stamp(times[0]))
        step = f"{self._step.total_seconds():.0f}"
        return self._ask("query_range", query=query, start=_stamp(times[0]), end=_stamp(times[-1]), step=step)

    def _pieces(self, first: datetime, last: datetime) -> Iterator[list[datetime]]:
        count = (last - first) // self._step + 1
        for done in range(0, count, _MOST_STEPS):
            yield [first + n * self._step for n in range(done, min(done + _MOST_STEPS, count))]

    def _ask(self, endpoint: str, **params: str) -> Mapping[str, Any]:
        url = f"{self._root}/api/v1/{endpoint}"
        reply = self._session.get_json(url, params=params, headers=self._headers, judge=self._judge)
        document = record(reply, f"{self._label}: the reply")
        if document.get("status") != "success":
            raise SchemaError(f"{self._label}: status is {shown(document.get('status'))}, not 'success'")
        self._warn(document.get("warnings"))
        return record(document.get("data"), f"{self._label}: data")

    def _judge(self, reply: Reply) -> ProviderError | None:
        """Its own word for the kind of an error says more than the status."""
        data = reply.data if isinstance(reply.data, dict) else {}
        if data.get("status") == "error" and data.get("errorType") in _OURS:
            return BadRequest(f"{self._label}: {data['errorType']}: {reply.message}; check the query")
        return None

    def _warn(self, warnings: object) -> None:
        """Such as a store that did not answer; said once, until it says something else."""
        said = [" ".join(str(text).split())[:_LONGEST_TEXT] for text in warnings] if isinstance(warnings, list) else []
        if said != self._warned:
            for text in said[:_MOST_WARNINGS]:
                _log.warning("%s: %s", self._label, text)
        self._warned = said

    def _points(self, data: Mapping[str, Any], times: Sequence[datetime], kind: Kind) -> list[IntensityPoint]:
        asked = {round(at.timestamp()): at for at in times}
        return gather(self._samples(data), lambda sample: self._point(sample, asked, kind), where=self._label)

    def _samples(self, data: Mapping[str, Any]) -> Sequence[Any]:
        """Pairs of a time and a text, of the one series that there may be."""
        shape, result = data.get("resultType"), records(data.get("result"), f"{self._label}: result")
        if shape == "scalar":
            return [result]
        if shape not in ("matrix", "vector"):  # a tuple, since it may be anything
            raise SchemaError(f"{self._label}: resultType is {shown(shape)}, not matrix, vector or scalar")
        if len(result) > 1:
            first = shown(result[0].get("metric") if isinstance(result[0], dict) else result[0])
            text = f"the query gives {len(result)} series, the first {first}"
            raise BadRequest(f"{self._label}: {text}; name its labels, or make it one by avg(...) or the like")
        series = [record(row, f"{self._label}: a series") for row in result]
        if shape == "vector":
            return [row.get("value") for row in series]
        return [sample for row in series for sample in records(row.get("values"), f"{self._label}: values")]

    def _point(self, sample: Any, asked: Mapping[int, datetime], kind: Kind) -> IntensityPoint | None:
        if not isinstance(sample, list) or len(sample) != 2:  # noqa: PLR2004 - a pair
            raise SchemaError(f"a sample is {shown(sample)}, not a time and a value")
        start = asked.get(_second(sample[0]))
        if start is None:
            raise SchemaError(f"a sample is of {shown(sample[0])}, a time that was not asked for")
        value = grams(_number(sample[1], start), f"the value at {start.isoformat()}", self._unit)
        if value is None:
            return None
        now = self._now()
        return IntensityPoint(
            zone=self.zone,
            start=start,
            end=start + self._step,
            g_per_kwh=value,
            kind=kind,
            signal=self._signal,
            scope=self._scope,
            boundary=self._boundary,
            source=self.name,
            fetched_at=now,
            issued_at=now if kind is Kind.FORECAST else None,
        )

    def _floor(self, at: datetime) -> datetime:
        """Steps count from 1970, so that each question is for the same times."""
        return at - (at - _EPOCH) % self._step

    @property
    def _label(self) -> str:
        return f"{self.name} {self.zone}"


def _second(at: object) -> int:
    if isinstance(at, bool) or not isinstance(at, int | float) or not abs(at) < _LAST_SECOND or at != round(at):
        return -1
    return round(at)


def _number(value: object, at: datetime) -> float | None:
    """Values are texts. NaN marks what has gone stale; neither it nor an infinity is a value."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    if isinstance(value, str) and _NO_NUMBER.fullmatch(value):
        return None
    raise SchemaError(f"the value at {at.isoformat()} is {shown(value)}, not the text of a number")


def _stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
