"""What the grid of one region is doing: sources in order, their ages, what to fall back to, and what comes next.

Sources are never mixed silently: one reading comes from one source, and thresholds compare it with that source's own
history. An observed value is *fresh*, then *stale* but usable, then *expired*; after that comes a forecast made
earlier, then our own extrapolation, then the region's typical profile, each labelled as what it is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from chase.clock import Clock
from chase.forecast import extrapolate
from providers.base import (
    AuthError,
    BadRequest,
    IntensityPoint,
    Kind,
    NoData,
    PlanError,
    Provider,
    ProviderError,
    RateLimited,
    Series,
)

FRESH, STALE, EXPIRED = "fresh", "stale", "expired"
_REREAD = timedelta(hours=72)  # history is rewritten by its sources for days
_HORIZON = timedelta(hours=48)
_INSTANT = timedelta(microseconds=1)  # the interval that begins right now is one of those we want
_RETRY_PERSON_S = 3600.0  # a fault that only a person can mend is looked at again hourly
_OWN_FORECAST_FROM = timedelta(hours=48)  # older history says little of today


class PointStore(Protocol):
    """Where points are kept with their vintages."""

    def add_points(self, points: Iterable[IntensityPoint]) -> int: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """Ages in seconds up to which an observed value is fresh, and then still usable; hours of history to keep."""

    fresh_s: float = 5400.0
    usable_s: float = 21600.0
    history_h: float = 168.0


@dataclass(frozen=True, slots=True)
class Outlook:
    """The grid at ``at``: the value to go by now, the hours to come, and the recent points it compares with.

    ``now`` is None when there is nothing usable at all. ``age_s`` counts from the end of the interval observed.
    """

    at: datetime
    now: IntensityPoint | None = None
    freshness: str = EXPIRED
    age_s: float | None = None
    ahead: tuple[IntensityPoint, ...] = ()
    recent: tuple[IntensityPoint, ...] = ()
    note: str = ""


@dataclass(slots=True)
class SourceState:
    """How one source fares. ``problem`` is empty while it answers."""

    provider: Provider
    due: float = 0.0
    problem: str = ""
    last_good: datetime | None = None
    observed: dict[datetime, IntensityPoint] = field(default_factory=dict)
    forecast: dict[datetime, IntensityPoint] = field(default_factory=dict)


class GridSignal:
    """The signal of one region. ``poll`` talks to the network and belongs in a worker; ``outlook`` only computes."""

    def __init__(
        self,
        region: str,
        sources: Sequence[Provider],
        *,
        clock: Clock,
        limits: Limits,
        store: PointStore | None = None,
        typical: Provider | None = None,
        on_event: Callable[..., None] = lambda *_, **__: None,
    ) -> None:
        self.region = region
        self._states = [SourceState(source) for source in sources]
        self._clock = clock
        self._limits = limits
        self._store = store
        self._typical = typical
        self._on_event = on_event
        self._lock = threading.Lock()  # guards the points, never held while a source is asked

    @property
    def states(self) -> Sequence[SourceState]:
        return tuple(self._states)

    @property
    def poll_s(self) -> float:
        """How often it is worth calling ``poll``; it asks only sources that are due."""
        return min((state.provider.capabilities.poll_s for state in self._states), default=3600.0)

    def remember(self, points: Iterable[IntensityPoint]) -> None:
        """Take back what an earlier run stored, so that a restart knows its history at once."""
        by_name = {(state.provider.name, state.provider.zone): state for state in self._states}
        with self._lock:
            for point in points:
                state = by_name.get((point.source, point.zone))
                if state is not None:
                    target = state.forecast if point.kind is Kind.FORECAST else state.observed
                    target[point.start] = point

    def poll(self) -> bool:
        """Ask the first source that is due and answers; True if anything new was learnt."""
        learnt = False
        for state in self._states:
            if self._clock.monotonic() >= state.due:
                learnt |= self._ask(state)
            if not state.problem and self._usable(state):
                break
        return learnt

    def outlook(self) -> Outlook:
        with self._lock:
            return self._outlook(self._clock.now())

    def _outlook(self, at: datetime) -> Outlook:
        for state in self._states:
            reading = _latest(state.observed, at)
            age_s = _age_s(reading, at)
            if reading is not None and age_s is not None and age_s <= self._limits.usable_s:
                freshness = FRESH if age_s <= self._limits.fresh_s else STALE
                ahead = self._ahead(state, at)
                return Outlook(at, reading, freshness, age_s, ahead, self._recent(state, at), state.problem)
        return self._fallback(at)

    def _fallback(self, at: datetime) -> Outlook:
        for state in self._states:
            ahead = self._ahead(state, at)
            now = next((point for point in ahead if point.start <= at < point.end), None)
            if now is not None and now.kind is not Kind.TYPICAL:
                note = f"no observed value is young enough; {now.source} forecast instead ({state.problem or 'late'})"
                return Outlook(at, now, EXPIRED, _forecast_age_s(now, at), ahead, self._recent(state, at), note)
        return self._from_typical(at)

    def _from_typical(self, at: datetime) -> Outlook:
        if self._typical is None:
            return Outlook(at, note="no source answers and the region has no typical profile")
        ahead = tuple(self._typical.forecast(at, at + _HORIZON))
        recent = tuple(self._typical.observe(at - timedelta(days=7), at))
        note = "no source answers; the region's typical profile instead"
        return Outlook(at, Series(ahead).at(at), EXPIRED, None, ahead, recent, note)

    def _ask(self, state: SourceState) -> bool:
        capabilities = state.provider.capabilities
        try:
            observed, nothing = self._observed(state)
        except ProviderError as error:
            self._failed(state, error)
            return False
        learnt = self._learn(state, observed)
        if nothing is not None:
            self._failed(state, nothing)
            return learnt
        state.due = self._clock.monotonic() + capabilities.poll_s
        if state.problem:
            self._on_event("source-back", "info", f"{_label(state)} answers again", region=self.region)
        state.problem, state.last_good = "", self._clock.now()
        return learnt

    def _observed(self, state: SourceState) -> tuple[Series, NoData | None]:
        """What was observed. A source that has nothing of it may still have a forecast, so that is no error here."""
        if not state.provider.capabilities.observed:
            return Series(), None
        now = self._clock.now()
        since = now - (_REREAD if state.observed else timedelta(hours=self._limits.history_h))
        try:
            return state.provider.observe(since, now + _INSTANT), None
        except NoData as error:
            return Series(), error

    def _learn(self, state: SourceState, observed: Series) -> bool:
        """Take it in, with the source's forecast; True if any of it is new."""
        now, provider = self._clock.now(), state.provider
        forecast = self._fetch_forecast(provider, now) if provider.capabilities.forecast else Series()
        with self._lock:
            new = [*_merge(state.observed, observed), *_merge(state.forecast, forecast)]
            self._forget(state, now)
        if new and self._store is not None:
            self._store.add_points(new)
        return bool(new)

    def _fetch_forecast(self, provider: Provider, now: datetime) -> Series:
        """A forecast that fails must not cost us the observed value: our own extrapolation stands in."""
        try:
            return provider.forecast(now, now + _HORIZON)
        except ProviderError as error:
            text = f"{provider.name} ({provider.zone}) gives no forecast: {type(error).__name__}: {error}"
            self._on_event("forecast-failed", "info", text, region=self.region, once=True)
            return Series()

    def _forget(self, state: SourceState, now: datetime) -> None:
        oldest = now - timedelta(hours=self._limits.history_h)
        for known in (state.observed, state.forecast):
            for start in [start for start in known if start < oldest]:
                del known[start]

    def _failed(self, state: SourceState, error: ProviderError) -> None:
        wait_s = state.provider.capabilities.poll_s
        if isinstance(error, RateLimited) and error.retry_after_s is not None:
            wait_s = max(wait_s, error.retry_after_s)
        if isinstance(error, (AuthError, PlanError, BadRequest)):
            wait_s = max(wait_s, _RETRY_PERSON_S)
        state.due = self._clock.monotonic() + wait_s
        problem = f"{type(error).__name__}: {error}"
        if problem != state.problem:
            self._on_event("source-failed", "warning", f"{_label(state)}: {problem}", region=self.region)
        state.problem = problem

    def _usable(self, state: SourceState) -> bool:
        now = self._clock.now()
        with self._lock:
            age_s = _age_s(_latest(state.observed, now), now)
        return age_s is not None and age_s <= self._limits.usable_s

    def _recent(self, state: SourceState, at: datetime) -> tuple[IntensityPoint, ...]:
        since = at - timedelta(hours=self._limits.history_h)
        return tuple(state.observed[start] for start in sorted(state.observed) if since <= start <= at)

    def _ahead(self, state: SourceState, at: datetime) -> tuple[IntensityPoint, ...]:
        """The source's own forecast where it reaches, then ours, then the typical profile."""
        end = at + _HORIZON
        theirs = [state.forecast[start] for start in sorted(state.forecast) if state.forecast[start].end > at]
        reach = theirs[-1].end if theirs else at
        ours = self._own_forecast(state, at, reach, end)
        reach = ours[-1].end if ours else reach
        typical = tuple(self._typical.forecast(reach, end)) if self._typical and reach < end else ()
        return (*theirs, *ours, *typical)

    def _own_forecast(
        self, state: SourceState, at: datetime, start: datetime, end: datetime
    ) -> tuple[IntensityPoint, ...]:
        history = [state.observed[key] for key in sorted(state.observed) if key <= at]
        if not history or at - history[-1].end > _OWN_FORECAST_FROM:
            return ()
        return extrapolate(history, start, end, made_at=at, typical=self._typical_at)

    def _typical_at(self, at: datetime) -> float | None:
        if self._typical is None:
            return None
        point = self._typical.observe(at, at + timedelta(hours=1)).at(at)
        return point.g_per_kwh if point else None


def describe(outlook: Outlook) -> dict[str, Any]:
    """For status and the CLI: one flat dict."""
    now = outlook.now
    return {
        "g_per_kwh": now.g_per_kwh if now else None,
        "kind": now.kind.value if now else "none",
        "source": now.source if now else "",
        "zone": now.zone if now else "",
        "signal": now.signal.value if now else "",
        "scope": now.scope.value if now else "",
        "start": now.start if now else None,
        "end": now.end if now else None,
        "freshness": outlook.freshness,
        "age_s": outlook.age_s,
        "note": outlook.note,
    }


def _latest(observed: Mapping[datetime, IntensityPoint], at: datetime) -> IntensityPoint | None:
    """The newest interval that has begun: a 'measured' row of the future is clock skew, not knowledge."""
    starts = [start for start in observed if start <= at]
    return observed[max(starts)] if starts else None


def _age_s(point: IntensityPoint | None, at: datetime) -> float | None:
    return None if point is None else max(0.0, (at - point.end).total_seconds())


def _forecast_age_s(point: IntensityPoint, at: datetime) -> float:
    return max(0.0, (at - (point.issued_at or point.fetched_at)).total_seconds())


def _merge(known: dict[datetime, IntensityPoint], series: Series) -> list[IntensityPoint]:
    """Take what is new or revised into ``known``, and say which."""
    new = [point for point in series if _differs(known.get(point.start), point)]
    known.update((point.start, point) for point in new)
    return new


def _differs(known: IntensityPoint | None, point: IntensityPoint) -> bool:
    return known is None or (known.g_per_kwh, known.kind) != (point.g_per_kwh, point.kind)


def _label(state: SourceState) -> str:
    return f"{state.provider.name} ({state.provider.zone})"
