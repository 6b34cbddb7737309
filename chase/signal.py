"""What the grid of one region is doing: sources in order, their ages, what to fall back to, and what comes next.

Sources are never mixed silently: one reading comes from one source, and thresholds compare it with that source's own
history. An observed value is *fresh*, then *stale* but usable, then *expired*. The first source whose value is fresh is
gone by, or else the first whose value is stale, but no value that is older than the one gone by before; after those
come a forecast that a source has made, then our own, then what is typical, each labelled as what it is.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, Self

from chase.ahead import HOUR, Ahead, Expects, Typical, typical_ahead
from chase.clock import Clock, minute
from chase.endpoint import Endpoint, soonest_slot_s
from chase.outliers import FACTOR, Gate, Vouch, differ
from chase.outlook import FALLBACK, FRESH, STALE, Hour, Outlook
from chase.signal_events import SignalEvents, held_text
from chase.source import Points, SourceState, checked, describe_source, foreign
from providers.base import (
    AuthError,
    IntensityPoint,
    Kind,
    NoData,
    Provider,
    ProviderError,
    RateLimited,
    SchemaError,
    Scope,
    Signal,
)

if TYPE_CHECKING:
    from chase.config.models import SignalConfig

_HORIZON = timedelta(hours=48)
_FURTHEST = timedelta(days=7) + HOUR  # seven days from the next full hour on
_INSTANT = timedelta(microseconds=1)  # the interval that begins right now is one of those we want
_REACH = timedelta(days=7)  # of older history so much is asked for at once
_FOR_BOTH = (AuthError, RateLimited)  # what a source says of the caller and not of what is asked

Asked = tuple[Points | None, ProviderError | None]
Known = tuple[SourceState, IntensityPoint | None]  # a source and the newest that it has observed


class PointStore(Protocol):
    """Where points are kept with their vintages."""

    def add_points(self, points: Iterable[IntensityPoint]) -> int: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """Ages in seconds up to which an observed value is fresh, and then still usable; hours of history to keep, and of
    those the ones that percentiles are taken over; the factor by which an outlier differs (``chase.outliers``).
    """

    fresh_s: float = 5400.0
    usable_s: float = 21600.0
    history_h: float = 672.0
    percentile_h: float = 168.0
    outlier_factor: float = FACTOR

    @classmethod
    def of(cls, signal: SignalConfig) -> Self:
        """As configured in ``[signal]``."""
        return cls(**{name: getattr(signal, name) for name in cls.__slots__})


class GridSignal:
    """The signal of one region. ``poll`` talks to the network and belongs in a worker; ``outlook`` only computes.

    ``wants`` is what the region's sources must give: nothing else is taken from them or remembered. ``node`` tells the
    nodes of a fleet apart, so that they do not all ask in the same second. ``forecaster`` makes who expects what comes
    of each source: by default production's.
    """

    def __init__(
        self,
        region: str,
        sources: Sequence[Provider],
        *,
        clock: Clock,
        limits: Limits,
        store: PointStore | None = None,
        typical: Provider | None = None,
        wants: tuple[Signal, Scope] | None = None,
        node: str = "",
        on_event: Callable[..., None] = lambda *_, **__: None,
        forecaster: Callable[[Typical], Expects] | None = None,
    ) -> None:
        self.region = region
        self._clock = clock
        self._limits = limits
        self._history, self._percentile = timedelta(hours=limits.history_h), timedelta(hours=limits.percentile_h)
        self._store = store
        self._typical = typical
        self._states = [SourceState(source, self.new_gate(), node) for source in sources]
        self._ahead = {id(state): Ahead(state, self._typical_at, forecaster) for state in self._states}
        self._wants = wants
        self._events = SignalEvents(region, on_event)
        self._lock = threading.Lock()  # guards the points, never held while a source is asked
        self._polling = threading.Lock()
        self._gone_by: datetime | None = None  # the end of the observed interval last gone by

    @property
    def states(self) -> Sequence[SourceState]:
        return tuple(self._states)

    def describe_sources(self) -> list[dict[str, Any]]:
        """How each fares, for status and the CLI."""
        with self._lock:
            return [describe_source(state) for state in self._states]

    def observed_of(self, state: SourceState) -> dict[datetime, IntensityPoint]:
        """What of its observations is gone by."""
        with self._lock:
            return dict(state.observed)

    @property
    def poll_s(self) -> float:
        """How often it is worth calling ``poll``; it asks only sources that are due."""
        return min((state.observing.poll_s for state in self._states), default=3600.0)

    @property
    def next_slot_s(self) -> float:
        """Seconds until the slot in which the source that is asked most often is asked next."""
        return soonest_slot_s((state.observing for state in self._states), self._clock.now(), self.poll_s)

    def new_gate(self) -> Gate:
        """One by which each source's values are sifted."""
        return Gate(self._limits.outlier_factor, self._typical_at)

    def wanted(self, point: IntensityPoint) -> bool:
        """Whether it is what the region's sources must give; a source need not say which scope that is."""
        return self._wants is None or (
            point.signal is self._wants[0] and point.scope in {self._wants[1], Scope.UNSPECIFIED}
        )

    def remember(self, points: Iterable[IntensityPoint]) -> None:
        """Take back what an earlier run stored, so that a restart knows its history at once."""
        points = tuple(filter(self.wanted, points))
        with self._lock:
            for state in self._states:
                mine = (state.provider.name, state.provider.zone)
                state.remember([point for point in points if (point.source, point.zone) == mine])

    def poll(self) -> bool:
        """Ask the first source that is due and answers with a fresh value that is not in doubt; True if anything new
        was learnt. While one thread polls, others need not.
        """
        if not self._polling.acquire(blocking=False):
            return False
        try:
            learnt = False
            for state in self._states:
                learnt |= self._ask(state)
                if not state.problem and state.doubted is None and self._is_fresh(state):
                    break
            return self._reconsider() or learnt
        finally:
            self._polling.release()

    def outlook(self, horizon: timedelta = _HORIZON) -> Outlook:
        """The grid now and over the ``horizon``, of at most seven days."""
        with self._lock:
            return self._outlook(self._clock.now(), min(horizon, _FURTHEST))

    def said(self, start: datetime, end: datetime) -> tuple[Points, Points]:
        """What the source to go by has observed of ``[start, end)``, and what it expects of it: no guess of ours."""
        at = self._clock.now()
        with self._lock:
            state = self._speaker(at)
            known = ((), ()) if state is None else (state.observed.values(), state.expected(at))
            observed, expected = (tuple(p for p in points if p.end > start and p.start < end) for points in known)
        return observed, expected

    def _speaker(self, at: datetime) -> SourceState | None:
        """The first source that is fresh, or stale, or has said anything; none that only tells what is typical."""
        ages = [(state, _age_s(point, at) if (point := state.latest(at)) else math.inf) for state in self._states]
        told = [(state, age_s) for state, age_s in ages if not _is_typical(state.latest(at))]
        for limit_s in (self._limits.fresh_s, self._limits.usable_s):
            if state := next((state for state, age_s in told if age_s <= limit_s), None):
                return state
        return next((state for state, _ in told if state.observed or state.forecast), None)

    # -- what is gone by ----------------------------------------------------------------------------------------------

    def _outlook(self, at: datetime, horizon: timedelta) -> Outlook:
        """What a source itself calls typical is no observation: it comes after all that others know of today."""
        known = [(state, state.latest(at)) for state in self._states]
        typical = [pair for pair in known if _is_typical(pair[1])]
        others = [pair for pair in known if not _is_typical(pair[1])] if typical else known
        for pairs in (others, typical):
            states = [state for state, _ in pairs]
            found = self._from_observed(pairs, at, horizon) or self._from_forecasts(states, at, horizon)
            if found is not None:
                return found
        return self._from_typical(at, horizon)

    def _from_observed(self, known: Sequence[Known], at: datetime, horizon: timedelta) -> Outlook | None:
        limits, gone_by = self._limits, self._gone_by
        latest = [(_age_s(point, at), state, point) for state, point in known if point is not None]
        usable = [found for found in latest if found[0] <= limits.usable_s]
        if not usable:
            return None
        usable.sort(key=lambda found: found[0] > limits.fresh_s)
        newer = [found for found in usable if gone_by is None or found[2].end >= gone_by]
        age_s, state, now = (newer or usable)[0]
        if not _is_typical(now):
            self._gone_by = now.end
        freshness = FRESH if age_s <= limits.fresh_s else STALE
        coming = self._ahead[id(state)].coming(at, horizon)
        recent, memory = self._recent(state, at), state.memory()
        return Outlook(at, now, freshness, age_s, coming, recent, _note(state), memory=memory)

    def _from_forecasts(self, states: Sequence[SourceState], at: datetime, horizon: timedelta) -> Outlook | None:
        """What the sources have published comes before what we make of their past."""
        published = [state for state in states if any(point.start <= at for point in state.expected(at))]
        for state in (*published, *states):
            coming = self._ahead[id(state)].coming(at, horizon)
            ahead = coming.hours
            if ahead and ahead[0].start <= at and ahead[0].kind is Kind.FORECAST:
                now, recent = ahead[0], self._recent(state, at)
                note = f"no observed value is young enough; {now.by} forecast instead ({_note(state) or 'late'})"
                point = _as_point(now, state, at)
                return Outlook(at, point, FALLBACK, now.age_s, coming, recent, note, now.low, now.high, state.memory())
        return None

    def _from_typical(self, at: datetime, horizon: timedelta) -> Outlook:
        if self._typical is None:
            return Outlook(at, note="no source answers and the region has no typical profile")
        now = self._typical.forecast(at, at + HOUR).at(at)
        coming = typical_ahead(self._typical_at, at, horizon)
        recent = tuple(self._typical.observe(at - self._percentile, at))
        note = "no source answers; the region's typical profile instead"
        spread = (coming.hours[0].low, coming.hours[0].high) if coming.hours else (None, None)
        return Outlook(at, now, FALLBACK, None, coming, lambda: recent, note, *spread)

    def _recent(self, state: SourceState, at: datetime) -> Callable[[], tuple[IntensityPoint, ...]]:
        return state.past(at - self._percentile, at)

    def _typical_at(self, at: datetime) -> float | None:
        if self._typical is None:
            return None
        point = self._typical.observe(at, at + HOUR).at(at)
        return point.g_per_kwh if point else None

    def _is_fresh(self, state: SourceState) -> bool:
        now = self._clock.now()
        with self._lock:
            last = state.latest(now)
        return last is not None and _age_s(last, now) <= self._limits.fresh_s and not _is_typical(last)

    # -- what is asked ------------------------------------------------------------------------------------------------

    def _ask(self, state: SourceState) -> bool:
        """What was observed and what is expected, each when it is due. The one that fails does not cost the other."""
        began_s, at = self._clock.monotonic(), self._clock.now()
        since = self._since(state, at)
        seen, fault = self._answer(state.observing, began_s, at, lambda: self._observe(state, since, at))
        expected, no_forecast = (None, None)
        if not isinstance(fault, _FOR_BOTH):
            expected, no_forecast = self._answer(state.forecasting, began_s, at, lambda: self._forecast(state, at))
        learnt = self._learn(state, seen or (), expected or ())
        self._settle(state, (seen, fault), (expected, no_forecast))
        if seen:
            state.reached = min(since, state.reached or since)
            learnt |= self._reach_back(state, at)
        return learnt

    def _answer(self, endpoint: Endpoint, began_s: float, at: datetime, ask: Callable[[], Points]) -> Asked:
        """The points, or the fault; neither while it is not due."""
        if began_s < endpoint.due:
            return None, None
        endpoint.begin(began_s, at)
        try:
            with foreign():
                return self._right(checked(ask())), None
        except ProviderError as error:
            return None, error

    def _settle(self, state: SourceState, observed: Asked, expected: Asked) -> None:
        """Write down how both have fared."""
        now_s, at = self._clock.monotonic(), self._clock.now()
        for fault, other in ((observed[1], state.forecasting), (expected[1], state.observing)):
            if isinstance(fault, _FOR_BOTH):
                other.put_off(fault, now_s)
        if observed[0] is not None:
            self._events.answered(state, at)
        if observed[1] is not None:
            self._events.failed(state, observed[1], now_s, at)
        if expected[0] is not None:
            state.forecasting.answered(at)
        if expected[1] is not None:
            self._events.no_forecast(state, expected[1], now_s, at)

    def _since(self, state: SourceState, at: datetime) -> datetime:
        """All that percentiles need, or what may have been revised, and what was missed."""
        first = at - min(self._percentile, self._history)
        last = state.latest(at)
        if last is None:
            return first
        return max(first, min(at - state.revised, last.end))

    @staticmethod
    def _observe(state: SourceState, since: datetime, at: datetime) -> Points:
        if not state.provider.capabilities.observed:
            return ()
        found = tuple(state.provider.observe(since, at + _INSTANT))
        if not found:
            raise NoData(f"it has nothing of the time since {minute(since)}")
        return found

    @staticmethod
    def _forecast(state: SourceState, at: datetime) -> Points:
        can = state.provider.capabilities
        if not can.forecast:
            return ()
        furthest = timedelta(seconds=can.forecast_horizon_s) or _HORIZON
        return tuple(state.provider.forecast(at, at + min(furthest, _FURTHEST)))

    def _right(self, points: Points) -> Points:
        """Raises ``SchemaError`` for what the region does not want: it would be compared with something else."""
        wrong = next((point for point in points if not self.wanted(point)), None)
        if wrong is not None and self._wants is not None:
            raise SchemaError(f"it gives {wrong.signal} {wrong.scope}, and the region wants {' '.join(self._wants)}")
        return points

    def _reach_back(self, state: SourceState, at: datetime) -> bool:
        """Older history, a week at each poll, for the forecast; a source that has none of it is not asked again."""
        limit = at - self._history
        oldest = next(iter(state.observed), at)
        reached = min(oldest, state.reached or oldest)
        if reached - limit <= HOUR:
            return False
        start, state.reached = max(limit, reached - _REACH), limit
        try:
            with foreign():
                found = self._right(checked(state.provider.observe(start, reached)))
        except RateLimited as error:
            state.observing.put_off(error, self._clock.monotonic())
            state.reached = reached
            return False
        except ProviderError:
            return False
        with self._lock:
            new = state.take_older([point for point in found if point.start < reached])
        if new:
            state.reached = start
            self._keep(new)
        return bool(new)

    # -- what is learnt -----------------------------------------------------------------------------------------------

    def _learn(self, state: SourceState, observed: Points, forecast: Points) -> bool:
        """Take it in; True if any of it is new."""
        now = self._clock.now()
        begun = [point for point in observed if point.start <= now]
        with self._lock:
            before, held = state.identity, dict(state.gate.held)
            new = state.take(begun, forecast, self._vouch(state))
            state.forget(now - self._history, now)
        self._events.ahead_of_time(state, len(observed) - len(begun))
        if before is not None and state.identity is not None and state.identity != before:
            self._events.changed(state, before, state.identity)
        self._events.held(state, [point for start, point in state.gate.held.items() if held.get(start) != point])
        self._keep(new)
        return bool(new)

    def _keep(self, new: Points) -> None:
        if new and self._store is not None:
            self._store.add_points(new)

    def _reconsider(self) -> bool:
        """What one source said may have been confirmed by what another has said since."""
        changed = False
        for state in self._states:
            if state.gate.held:
                with self._lock:
                    taken = state.reconsider(self._vouch(state))
                if taken:
                    self._events.held(state, [])
                changed |= taken
        return changed

    def _vouch(self, state: SourceState) -> Vouch:
        """Whether another source of the same signal and scope says alike of that time."""

        def vouch(point: IntensityPoint) -> bool:
            others = (other for other in self._states if other is not state and _comparable(other, state))
            return any(
                differ(point.g_per_kwh, seen.g_per_kwh) <= self._limits.outlier_factor
                for other in others
                for seen in other.said_of(point.start, point.end)
                if seen.kind is not Kind.TYPICAL
            )

        return vouch


def _is_typical(point: IntensityPoint | None) -> bool:
    return point is not None and point.kind is Kind.TYPICAL


def _age_s(point: IntensityPoint, at: datetime) -> float:
    return max(0.0, (at - point.end).total_seconds())


def _comparable(one: SourceState, other: SourceState) -> bool:
    return None not in (one.identity, other.identity) and one.identity[:2] == other.identity[:2]  # type: ignore[index]


def _note(state: SourceState) -> str:
    doubted = held_text(state, state.doubted) if state.doubted is not None else ""
    return "; ".join(filter(None, (state.observing.outage, doubted)))


def _as_point(hour: Hour, state: SourceState, at: datetime) -> IntensityPoint:
    """What is expected of now, as a value to go by."""
    signal, scope, boundary = state.identity  # type: ignore[misc]
    return IntensityPoint(
        zone=state.provider.zone,
        start=hour.start,
        end=hour.end,
        g_per_kwh=hour.g_per_kwh,
        kind=hour.kind,
        signal=signal,
        scope=scope,
        boundary=boundary,
        source=hour.by,
        fetched_at=at,
        issued_at=at - timedelta(seconds=hour.age_s or 0.0),
    )
