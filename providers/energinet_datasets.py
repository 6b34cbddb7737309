"""Datasets of Energinet's Energi Data Service, each asked for both Danish areas at once and kept for a while.

The service takes one request a minute for a dataset from one address, so that two regions, or a question asked twice,
must not cost two. Stamps are naive; the columns of UTC are read, and the interval is given in UTC.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from providers.base import BadRequest, NoData, ProviderError, RateLimited, SchemaError, Transient
from providers.options import Options, web_address
from providers.reading import instant, record, records, shown
from providers.session import Lane

if TYPE_CHECKING:
    from providers.reply import Reply
    from providers.session import Session

SOURCE = "energinet"
BASE_URL = "https://api.energidataservice.dk"
AREAS = ("DK1", "DK2")
_EVERY_S = 60.0
_KEPT_S = 300.0
_LONGEST = timedelta(days=60)  # of five minutes, which is half of what a session reads
_GATEWAY = frozenset({401, 403, 411})


@dataclass(frozen=True, slots=True)
class Layout:
    """``time`` is the column of interval starts in UTC.

    Who asks for a part of the time from ``back`` to ``ahead`` of now asks for all of it, and so for the next one too.
    """

    dataset: str
    time: str
    values: tuple[str, ...]
    step: timedelta
    back: timedelta
    ahead: timedelta


@dataclass(frozen=True, slots=True)
class Answer:
    """Records of both areas for ``[start, end)``, as read at ``fetched_at``."""

    start: datetime
    end: datetime
    fetched_at: datetime
    asked_s: float
    records: Sequence[Any]


class Dataset:
    """One of a session and address; safe to ask from several threads."""

    def __init__(self, layout: Layout, url: str, session: Session) -> None:
        self._layout, self._url, self._session = layout, url, session
        self._lane = Lane(f"{url}/{layout.dataset}", _EVERY_S)
        self._kept: Answer | None = None
        self._lock = threading.Lock()

    def answer(self, start: datetime, end: datetime, now: datetime) -> Answer:
        """The kept one where it covers the interval, so that ``fetched_at`` may be some minutes ago."""
        with self._lock:
            kept = self._kept
            fresh = kept is not None and self._session.monotonic() - kept.asked_s < _KEPT_S
            if kept is None or not fresh or not (kept.start <= start and end <= kept.end):
                self._kept = kept = self._asked(start, end, now)
            return kept

    def _asked(self, start: datetime, end: datetime, now: datetime) -> Answer:
        first, last = self._span(start, end, now)
        asked_s = self._session.monotonic()
        reply = self._session.get_json(
            f"{self._url}/dataset/{self._layout.dataset}",
            params=self._params(first, last),
            judge=_judge,
            lane=self._lane,
        )
        return Answer(min(first, start), last, now, asked_s, self._records(reply))

    def _span(self, start: datetime, end: datetime, now: datetime) -> tuple[datetime, datetime]:
        """Whole hours, so that the interval around ``start`` is among them. Of more than the longest the newest."""
        earliest, latest = now - self._layout.back, now + self._layout.ahead
        if start <= latest and end >= earliest:
            start, end = min(start, earliest), max(end, latest)
        last = _floor(end) + timedelta(hours=1)
        return max(_floor(start), last - _LONGEST), last

    def _params(self, first: datetime, last: datetime) -> dict[str, str]:
        return {
            "start": f"{first:%Y-%m-%dT%H:%M}",
            "end": f"{last:%Y-%m-%dT%H:%M}",
            "timezone": "UTC",  # else they are read as Danish time
            "filter": json.dumps({"PriceArea": AREAS}, separators=(",", ":")),
            "columns": ",".join((self._layout.time, "PriceArea", *self._layout.values)),
            "sort": f"{self._layout.time} DESC",  # should they be too many, the oldest are left out
            "limit": str(2 * len(AREAS) * ((last - first) // self._layout.step)),  # 0 would be every row there is
        }

    def _records(self, document: object) -> Sequence[Any]:
        what = f"{SOURCE}: the reply"
        reply = record(document, what)
        if not reply:
            raise NoData(f"{SOURCE} has published nothing in {self._layout.dataset}")
        if reply.get("dataset", self._layout.dataset) != self._layout.dataset:
            raise SchemaError(f"{SOURCE} was asked for {self._layout.dataset}, not for {shown(reply['dataset'])}")
        found = records(reply.get("records"), f"{SOURCE}: records")
        if not found:
            raise NoData(f"{SOURCE} has published nothing in {self._layout.dataset}")
        return found


class Area:
    """What both providers have in common: one price area and its view of a dataset."""

    def __init__(self, zone: str, given: Options, base_url: str | None, session: Session) -> None:
        self.name = _area(given.text("price_area", choices=AREAS), zone)
        self._session, self._url = session, web_address(SOURCE, base_url, BASE_URL)

    def dataset(self, layout: Layout) -> Dataset:
        key = (SOURCE, self._url, layout.dataset)
        return self._session.shared(key, lambda: Dataset(layout, self._url, self._session))

    def rows(self, answer: Answer, layout: Layout) -> list[Mapping[str, Any]]:
        """Those of this area; ``NoData`` where there is none."""
        own: list[Mapping[str, Any]] = [
            row for row in answer.records if isinstance(row, dict) and row.get("PriceArea") == self.name
        ]
        if not own:
            raise NoData(f"{SOURCE} has published nothing in {layout.dataset} for {self.name}")
        return own


def start_of(row: Mapping[str, Any], layout: Layout) -> datetime:
    return instant(row.get(layout.time), layout.time, naive_is_utc=True)


def value_of(row: Mapping[str, Any], column: str) -> Any:
    if column not in row:
        raise SchemaError(f"{column} is missing")
    return row[column]


def starts_of(rows: Sequence[Mapping[str, Any]], layout: Layout) -> list[datetime]:
    """Those that can be read."""
    found = []
    for row in rows:
        try:
            found.append(start_of(row, layout))
        except SchemaError:
            continue
    return found


def _area(given: str, zone: str) -> str:
    area = given or zone.rpartition("-")[2]
    if area not in AREAS:
        raise BadRequest(f"{SOURCE} knows DK1 and DK2; zone {zone!r} needs the option price_area")
    return area


def _floor(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def _judge(reply: Reply) -> ProviderError | None:
    """It has no keys, so what refuses is a gateway. A 429 comes without saying for how long."""
    said = f"{SOURCE}: {reply.status} {reply.message}".rstrip()
    if reply.status == 429:  # noqa: PLR2004 - HTTP's own numbers are its names
        return RateLimited(said, retry_after_s=reply.retry_after_s or _EVERY_S)
    if reply.status in _GATEWAY:
        return Transient(said)
    return None
