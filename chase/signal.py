"""What the grid of one region is doing: sources in order, their ages, what to fall back to, and what comes next.

Sources are never mixed silently: one reading comes from one source, and thresholds compare it with that source's own
history. An observed value is *fresh*, then *stale* but usable, then *expired*. The first source whose value is fresh is
gone by, or else the first whose value is stale; after those come a forecast that a source has made, then our own
extrapolation, then what is typical, each labelled as what it is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from chase.clock import Clock
from chase.forecast import extrapolate, fill_gaps
from chase.source import Identity, Points, SourceState, checked, foreign
from providers.base import IntensityPoint, Kind, NoData, Provider, ProviderError, Series

FRESH, STALE, FALLBACK = "fresh", "stale", "fallback"
_REREAD = timedelta(hours=72)  # history is rewritten by its sources for days
_HORIZON = timedelta(hours=48)
_INSTANT = timedelta(microseconds=1)  # the interval that begins right now is one of those we want
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
    freshness: str = FALLBACK
    age_s: float | None = None
    ahead: tuple[IntensityPoint, ...] = ()
    recent: tuple[IntensityPoint, ...] = ()
    note: str = ""


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
        return min((state.poll_s for state in self._states), default=3600.0)

    def remember(self, points: Iterable[IntensityPoint]) -> None:
        """Take back what an earlier run stored, so that a restart knows its history at once."""
        points = tuple(points)
        with self._lock:
            for state in self._states:
                mine = (state.provider.name, state.provider.zone)
                state.remember(point for point in points if (point.source, point.zone) == mine)

    def poll(self) -> bool:
        """Ask the first source that is due and answers with a fresh value; True if anything new was learnt."""
        learnt = False
        for state in self._states:
            if self._clock.monotonic() >= state.due:
                learnt |= self._ask(state)
            if not state.problem and self._is_fresh(state):
                break
        return learnt

    def outlook(self) -> Outlook:
        with self._lock:
            return self._outlook(self._clock.now())

    def _outlook(self, at: datetime) -> Outlook:
        """What a source itself calls typical is no observation: it comes after all that others know of today."""
        typical = [state for state in self._states if _is_typical(state.latest(at))]
        others = [state for state in self._states if state not in typical]
        found = (self._from_observed(states, at) or self._from_forecasts(states, at) for states in (others, typical))
        return next(filter(None, found), None) or self._from_typical(at)

    def _from_observed(self, states: Sequence[SourceState], at: datetime) -> Outlook | None:
        for freshness, limit_s in ((FRESH, self._limits.fresh_s), (STALE, self._limits.usable_s)):
            for state in states:
                now = state.latest(at)
                age_s = _age_s(now, at)
                if age_s is not None and age_s <= limit_s:
                    ahead = self._ahead(state, at)
                    return Outlook(at, now, freshness, age_s, ahead, self._recent(state, at), state.problem)
        return None

    def _from_forecasts(self, states: Sequence[SourceState], at: datetime) -> Outlook | None:
        """What the sources have published comes before what we make of their past."""
        for expected in (self._published, self._ahead):
            for state in states:
                now = next((point for point in expected(state, at) if point.start <= at < point.end), None)
                if now is not None and now.kind is Kind.FORECAST:
                    note = (
                        f"no observed value is young enough; {now.source} forecast instead ({state.problem or 'late'})"
                    )
                    ahead, recent = self._ahead(state, at), self._recent(state, at)
                    return Outlook(at, now, FALLBACK, _forecast_age_s(now, at), ahead, recent, note)
        return None

    def _from_typical(self, at: datetime) -> Outlook:
        if self._typical is None:
            return Outlook(at, note="no source answers and the region has no typical profile")
        ahead = tuple(self._typical.forecast(at, at + _HORIZON))
        recent = tuple(self._typical.observe(at - timedelta(days=7), at))
        note = "no source answers; the region's typical profile instead"
        return Outlook(at, Series(ahead).at(at), FALLBACK, None, ahead, recent, note)

    def _ask(self, state: SourceState) -> bool:
        state.begin(self._clock.monotonic())
        try:
            observed, nothing = self._observed(state)
        except ProviderError as error:
            self._failed(state, error)
            return False
        learnt = self._learn(state, observed)
        if nothing is not None:
            self._failed(state, nothing)
            return learnt
        if state.problem:
            self._on_event("source-back", "info", f"{state.label} answers again", region=self.region)
        state.problem, state.last_good = "", self._clock.now()
        return learnt

    def _observed(self, state: SourceState) -> tuple[Points, NoData | None]:
        """What was observed. A source that has nothing of it may still have a forecast, so that is no error here."""
        now = self._clock.now()
        known = state.observed and not state.sparse
        since = now - (_REREAD if known else timedelta(hours=self._limits.history_h))
        try:
            with foreign():
                if not state.provider.capabilities.observed:
                    return (), None
                return checked(state.provider.observe(since, now + _INSTANT)), None
        except NoData as error:
            return (), error

    def _learn(self, state: SourceState, observed: Points) -> bool:
        """Take it in, with the source's forecast; True if any of it is new."""
        now = self._clock.now()
        forecast = self._forecast_of(state, now)
        with self._lock:
            before = state.identity
            new = state.take(observed, forecast)
            state.forget(now - timedelta(hours=self._limits.history_h))
        if before is not None and state.identity is not None and state.identity != before:
            self._changed(state, before, state.identity)
        if new and self._store is not None:
            self._store.add_points(new)
        return bool(new)

    def _forecast_of(self, state: SourceState, now: datetime) -> Points:
        """A forecast that fails must not cost us the observed value: our own extrapolation stands in."""
        try:
            with foreign():
                if not state.provider.capabilities.forecast:
                    return ()
                points = checked(state.provider.forecast(now, now + _HORIZON))
        except ProviderError as error:
            text = f"{state.label} gives no forecast: {type(error).__name__}: {error}"
            if not state.forecast_problem:
                self._on_event("forecast-failed", "info", text, region=self.region)
            state.forecast_problem = text
            return ()
        state.forecast_problem = ""
        return points

    def _changed(self, state: SourceState, before: Identity, after: Identity) -> None:
        text = f"{state.label} gives {' '.join(after)} now: its history of {' '.join(before)} is left out"
        self._on_event("source-changed", "info", text, region=self.region)

    def _failed(self, state: SourceState, error: ProviderError) -> None:
        state.put_off(error, self._clock.monotonic())
        problem = f"{type(error).__name__}: {error}"
        if problem != state.problem:
            self._on_event("source-failed", "warning", f"{state.label}: {problem}", region=self.region)
        state.problem = problem

    def _is_fresh(self, state: SourceState) -> bool:
        now = self._clock.now()
        with self._lock:
            last = state.latest(now)
        age_s = _age_s(last, now)
        return age_s is not None and age_s <= self._limits.fresh_s and not _is_typical(last)

    def _recent(self, state: SourceState, at: datetime) -> tuple[IntensityPoint, ...]:
        return state.history(at - timedelta(hours=self._limits.history_h), at)

    @staticmethod
    def _published(state: SourceState, at: datetime) -> Points:
        return state.expected(at)

    def _ahead(self, state: SourceState, at: datetime) -> tuple[IntensityPoint, ...]:
        """From the running hour, or the end of what is observed of it: theirs, ours where they say nothing, typical."""
        last = state.latest(at)
        hour = at.replace(minute=0, second=0, microsecond=0)
        start, end = max(hour, last.end) if last else hour, at + _HORIZON
        ours = self._own_forecast(state, at, start, end)
        if not ours and self._typical is not None:
            ours = tuple(self._typical.forecast(start, end))
        return fill_gaps(state.expected(at), ours, start, end)

    def _own_forecast(
        self, state: SourceState, at: datetime, start: datetime, end: datetime
    ) -> tuple[IntensityPoint, ...]:
        last = state.latest(at)
        if last is None or at - last.end > _OWN_FORECAST_FROM:
            return ()
        return extrapolate(self._recent(state, at), start, end, made_at=at, typical=self._typical_at)

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


def _is_typical(point: IntensityPoint | None) -> bool:
    return point is not None and point.kind is Kind.TYPICAL


def _age_s(point: IntensityPoint | None, at: datetime) -> float | None:
    return None if point is None else max(0.0, (at - point.end).total_seconds())


def _forecast_age_s(point: IntensityPoint, at: datetime) -> float:
    return max(0.0, (at - (point.issued_at or point.fetched_at)).total_seconds())
