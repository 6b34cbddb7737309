"""What a kWh costs in one region: sources in order, how old a price is, and what stands in when none is known.

Prices are published ahead of time, so the one in force is known rather than forecast: it is *fresh* while it is in
force, *stale* but usable for a while after (a market that reports the past), and then the *fallback* is what the same
source said of the same time of day, by the clock on the wall, on an earlier day. One reading comes from one source;
currencies are never converted, and neither they nor markets are ever mixed.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import dropwhile, takewhile
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from chase.clock import Clock
from chase.endpoint import Endpoint, soonest_slot_s
from chase.outlook import FALLBACK, FRESH, STALE
from chase.pricing import ASSUMED, Paid, paid
from chase.source import foreign
from providers.base import Market, PricePoint, PriceProvider, PriceSeries, ProviderError, SchemaError

PUBLISHED = "published"
MEMORY, AHEAD = timedelta(days=8), timedelta(days=2)
_REREAD = timedelta(days=2)
_DAYS_BACK = 7
_DAY = timedelta(days=1)

Identity = tuple[str, Market]  # currency and market


class PriceStore(Protocol):
    """Where prices are kept with their vintages."""

    def add_prices(self, points: Iterable[PricePoint]) -> int: ...


@dataclass(frozen=True, slots=True)
class PriceOutlook:
    """Prices at ``at``: the one to go by now, and those to come, of one source, currency and market.

    ``by`` is ``published``, or says of which earlier day the prices are. ``age_s`` counts from the end of the interval,
    0 while it is in force. ``now`` is None when nothing is known at all.
    """

    at: datetime
    now: PricePoint | None = None
    freshness: str = FALLBACK
    age_s: float | None = None
    by: str = ""
    ahead: tuple[PricePoint, ...] = ()
    note: str = ""


@dataclass(slots=True, eq=False)
class PriceState:
    """What one source has said: ``points``, ascending, are of one ``identity``. ``asking`` is how it fares."""

    provider: PriceProvider
    node: str = ""
    asking: Endpoint = field(init=False)
    points: dict[datetime, PricePoint] = field(default_factory=dict)
    identity: Identity | None = None

    def __post_init__(self) -> None:
        who = self.provider.name, self.provider.zone, "prices"
        self.asking = Endpoint.spread(self.provider.capabilities.poll_s, self.node, *who)

    @property
    def label(self) -> str:
        return f"{self.provider.name} ({self.provider.zone})"

    @property
    def problem(self) -> str:
        """Empty while it answers."""
        return self.asking.problem

    def take(self, points: Sequence[PricePoint]) -> list[PricePoint]:
        """Take an answer in; what of it is new or revised. What is known of another market is dropped."""
        if not points:
            return []
        identity = identity_of(points[-1])
        known = self.points if identity == self.identity else {}
        new = [point for point in points if _is_news(known, point)]
        merged = {**_outside(known, new), **{point.start: point for point in new}}
        self.identity, self.points = identity, dict(sorted(merged.items()))
        return new

    def forget(self, before: datetime) -> None:
        self.points = {start: point for start, point in self.points.items() if point.end > before}

    def in_force(self, at: datetime) -> PricePoint | None:
        return next((point for point in reversed(self.points.values()) if point.start <= at < point.end), None)

    def last_begun(self, at: datetime) -> PricePoint | None:
        return next((point for point in reversed(self.points.values()) if point.start <= at), None)

    def paid(self, start: datetime, end: datetime) -> Paid | None:
        """What it published of ``[start, end)``. That is near the newest of its points as a rule."""
        latest = dropwhile(lambda point: point.start >= end, reversed(self.points.values()))
        found = tuple(takewhile(lambda point: point.end > start, latest))[::-1]
        return paid(PriceSeries(found), start, end) if found else None

    def from_on(self, at: datetime) -> tuple[PricePoint, ...]:
        return tuple(point for point in self.points.values() if point.end > at)


class PriceFeed:
    """The prices of one region. ``poll`` talks to the network and belongs in a worker; ``outlook`` only computes."""

    def __init__(
        self,
        region: str,
        sources: Sequence[PriceProvider],
        *,
        currency: str,
        time_zone: str,
        clock: Clock,
        usable_s: float = 21600.0,
        store: PriceStore | None = None,
        node: str = "",
        on_event: Callable[..., None] = lambda *_, **__: None,
    ) -> None:
        self.region = region
        self.currency = currency
        self._states = [PriceState(source, node) for source in sources]
        self._zone = ZoneInfo(time_zone)
        self._clock = clock
        self._usable_s = usable_s
        self._store = store
        self._on_event = on_event
        self._lock = threading.Lock()  # guards the points, never held while a source is asked

    @property
    def states(self) -> Sequence[PriceState]:
        return tuple(self._states)

    @property
    def poll_s(self) -> float:
        """How often it is worth calling ``poll``; it asks only sources that are due."""
        return min((state.asking.poll_s for state in self._states), default=3600.0)

    @property
    def next_slot_s(self) -> float:
        """Seconds until the slot in which the source that is asked most often is asked next."""
        return soonest_slot_s((state.asking for state in self._states), self._clock.now(), self.poll_s)

    def remember(self, points: Iterable[PricePoint]) -> None:
        """Take back what an earlier run stored, of the newest market; what the sources have said since stays."""
        points = tuple(points)
        with self._lock:
            for state in self._states:
                mine = [point for point in points if self._is_of(state, point)]
                newest = max(mine, key=lambda point: point.fetched_at, default=None)
                wanted = state.identity or (newest and identity_of(newest))
                said = tuple(state.points.values())
                state.take(sorted((p for p in mine if identity_of(p) == wanted), key=lambda point: point.start))
                state.take(said)

    def poll(self) -> bool:
        """Ask the first source that is due and has the price in force; True if anything new was learnt."""
        learnt = False
        for state in self._states:
            if self._clock.monotonic() >= state.asking.due:
                learnt |= self._ask(state)
            if not state.problem and state.in_force(self._clock.now()):
                break
        return learnt

    def outlook(self) -> PriceOutlook:
        at = self._clock.now()
        with self._lock:
            found = self._published(at) or self._late(at) or self._repeated(at)
        return found or PriceOutlook(at, note="no source of prices has said anything usable")

    def paid(self, start: datetime, end: datetime) -> Paid | None:
        """What a kWh of ``[start, end)``, which is just over, cost: as published, else what now stands in for it."""
        with self._lock:
            found = next(filter(None, (state.paid(start, end) for state in self._states)), None)
        if found is None and (now := self.outlook().now if self._states else None) is not None:
            return Paid(now.price_per_kwh, now.currency, ASSUMED)
        return found

    def _published(self, at: datetime) -> PriceOutlook | None:
        for state in self._states:
            now = state.in_force(at)
            if now is not None:
                return PriceOutlook(at, now, FRESH, 0.0, PUBLISHED, state.from_on(at), state.problem)
        return None

    def _late(self, at: datetime) -> PriceOutlook | None:
        for state in self._states:
            now = state.last_begun(at)
            age_s = (at - now.end).total_seconds() if now else None
            if now is not None and age_s is not None and age_s <= self._usable_s:
                return PriceOutlook(at, now, STALE, age_s, PUBLISHED, state.from_on(at), state.problem)
        return None

    def _repeated(self, at: datetime) -> PriceOutlook | None:
        for state in self._states:
            for days in range(1, _DAYS_BACK + 1):
                ahead = tuple(self._later(state, days, at))
                now = ahead[0] if ahead and ahead[0].start <= at else None
                if now is not None:
                    by = f"the same time {days} day{'s' if days > 1 else ''} before"
                    note = f"no price in force is known; {by} instead ({state.problem or 'late'})"
                    return PriceOutlook(at, now, FALLBACK, None, by, ahead, note)
        return None

    def _later(self, state: PriceState, days: int, at: datetime) -> Iterable[PricePoint]:
        """What is known, put ``days`` later by the clock on the wall, for the 24 h from ``at`` on.

        The hour that a day in spring lacks is left out or stays a gap; one that a day in autumn has twice costs
        the same both times, or what it cost the second time.
        """
        found: dict[datetime, PricePoint] = {}
        for point in state.points.values():
            wall = (point.start.astimezone(self._zone) + timedelta(days=days)).replace(fold=0)
            start, end = wall.astimezone(UTC), (wall + (point.end - point.start)).astimezone(UTC)
            if start < end and end > at and start < at + _DAY:
                found[start] = replace(point, start=start, end=end)
        return found.values()

    def _ask(self, state: PriceState) -> bool:
        now = self._clock.now()
        state.asking.begin(self._clock.monotonic(), now)
        since = now - (_REREAD if state.points else MEMORY)
        try:
            with foreign():
                points = checked(state.provider.prices(since, now + AHEAD), self.currency)
        except ProviderError as error:
            self._failed(state, error)
            return False
        with self._lock:
            before = state.identity
            new = state.take(points)
            state.forget(now - MEMORY)
        self._answered(state, before)
        if new and self._store is not None:
            self._store.add_prices(new)
        return bool(new)

    def _answered(self, state: PriceState, before: Identity | None) -> None:
        if state.asking.answered(self._clock.now()):
            self._on_event("price-source-back", "info", f"{state.label} answers again", region=self.region)
        if before is not None and state.identity is not None and state.identity != before:
            is_now, was = " ".join(state.identity), " ".join(before)
            text = f"{state.label} gives {is_now} prices now: what it gave of {was} is left out"
            self._on_event("price-source-changed", "info", text, region=self.region)

    def _failed(self, state: PriceState, error: ProviderError) -> None:
        if state.asking.failed(error, self._clock.monotonic(), self._clock.now()):
            text = f"{state.label}: {state.problem}"
            self._on_event("price-source-failed", "warning", text, region=self.region)

    def _is_of(self, state: PriceState, point: PricePoint) -> bool:
        mine = (state.provider.name, state.provider.zone, self.currency)
        return (point.source, point.zone, point.currency) == mine


def identity_of(point: PricePoint) -> Identity:
    return point.currency, point.market


def checked(answer: Iterable[PricePoint], currency: str) -> tuple[PricePoint, ...]:
    """The points of an answer, ascending. ``SchemaError`` for anything but prices of one market in ``currency``."""
    points = tuple(answer)
    strangers = {type(point).__name__ for point in points if not isinstance(point, PricePoint)}
    if strangers:
        raise SchemaError(f"it gave {', '.join(sorted(strangers))} where a PricePoint belongs")
    kinds = {identity_of(point) for point in points}
    if len({market for _, market in kinds}) > 1:
        raise SchemaError(f"it gave prices of several markets at once: {', '.join(sorted({m for _, m in kinds}))}")
    if foreigners := sorted({given for given, _ in kinds} - {currency}):
        raise SchemaError(f"it gave prices in {', '.join(foreigners)} where the region counts in {currency}")
    return tuple(sorted(points, key=lambda point: point.start))


def describe(outlook: PriceOutlook) -> dict[str, Any]:
    """For the CLI: one flat dict."""
    now = outlook.now
    return {
        "price_per_kwh": now.price_per_kwh if now else None,
        "currency": now.currency if now else "",
        "market": now.market.value if now else "",
        "source": now.source if now else "",
        "zone": now.zone if now else "",
        "start": now.start if now else None,
        "end": now.end if now else None,
        "licence": now.licence if now else "",
        "by": outlook.by,
        "freshness": outlook.freshness,
        "age_s": outlook.age_s,
        "note": outlook.note,
    }


def _outside(known: dict[datetime, PricePoint], new: Sequence[PricePoint]) -> dict[datetime, PricePoint]:
    """Without those that begin inside of a new one: quarters of an hour that is one step now."""
    starts = [point.start for point in new]

    def covered(start: datetime) -> bool:
        index = bisect_left(starts, start) - 1
        return index >= 0 and start < new[index].end

    return {start: point for start, point in known.items() if not covered(start)}


def _is_news(known: dict[datetime, PricePoint], point: PricePoint) -> bool:
    old = known.get(point.start)
    return old is None or (old.price_per_kwh, old.end) != (point.price_per_kwh, point.end)
