"""The hours to come by one source: what it observed of the running one, then what it and we expect, then the typical.

Learnt anew only after news, and computed anew only after news or when an hour begins: it is asked for at every tick.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from chase.forecast import Expected, Forecaster
from chase.outlook import Curve, Hour
from chase.source import Points, SourceState
from providers.base import IntensityPoint, Kind

if TYPE_CHECKING:
    from chase.forecast.expected import Steps

HOUR = timedelta(hours=1)
OWN_FORECAST_FROM = timedelta(hours=48)  # older history says little of today
_OURS, _TYPICAL = frozenset({"chase", "persistence"}), "typical"

Typical = Callable[[datetime], float | None]


class Expects(Protocol):
    """Whoever learns from what came and expects what comes: ``Forecaster``, or who knows what it would say."""

    def learn(self, observed: Collection[IntensityPoint], issued: Collection[IntensityPoint] = ()) -> None: ...
    def steps(
        self, start: datetime, end: datetime, *, at: datetime, published: Sequence[IntensityPoint] = ()
    ) -> Steps: ...


class Coming:
    """What is known and expected from ``at`` until ``end``: ``told`` by points, and after those by ``steps``.

    What is ours rests on what ``seen`` was observed last, the rest on what was ``published``.
    """

    __slots__ = ("_at", "_curve", "_end", "_hours", "_published", "_seen", "_steps", "_told", "edition")

    def __init__(
        self,
        at: datetime,
        end: datetime,
        told: Points,
        steps: Steps | None,
        *,
        published: Points = (),
        seen: datetime | None = None,
        edition: object = None,
    ) -> None:
        self.edition = edition
        self._at, self._end, self._told, self._steps = at, end, told, steps
        self._published, self._seen = published, seen
        self._hours: tuple[Hour, ...] | None = None
        self._curve: Curve | None = None

    @property
    def hours(self) -> tuple[Hour, ...]:
        if self._hours is None:
            steps = self._ahead()
            expected = () if steps is None else steps.each()
            self._hours = (
                *(_hour(point, self._at) for point in self._told),
                *(_of_expected(step, self._age_s(step)) for step in expected),
            )
        return self._hours

    @property
    def curve(self) -> Curve:
        if self._curve is None:
            self._curve = self._columns()
        return self._curve

    def _columns(self) -> Curve:
        import numpy as np

        told, steps = self._told, self._ahead()
        count = len(told)
        rows = np.empty((5, count + (0 if steps is None else len(steps))))
        for i, point in enumerate(told):
            value = point.g_per_kwh
            rows[:, i] = point.start.timestamp(), point.end.timestamp(), value, value, value
        start_s, end_s, g, low, high = rows
        if steps is not None:
            start_s[count:], end_s[count:] = steps.start_s, steps.end_s
            g[count:], low[count:], high[count:] = steps.g, steps.low, steps.high
        return Curve(start_s, end_s, g, low, high)

    def _ahead(self) -> Steps | None:
        """Without those that are over, and those after the end."""
        steps = self._steps
        if steps is None or not len(steps):
            return None
        at_s, end_s = self._at.timestamp(), self._end.timestamp()
        if steps.end_s[0] > at_s and steps.start_s[-1] < end_s:
            return steps
        first = int(steps.end_s.searchsorted(at_s, "right"))
        return steps.between(first, int(steps.start_s.searchsorted(end_s, "left")))

    def _age_s(self, step: Expected) -> float | None:
        known = self._seen if self._seen and step.by in _OURS else _issued(self._published, step)
        return _age_s(known, self._at)


class Ahead:
    """For one source, whose points nobody changes meanwhile."""

    def __init__(
        self, state: SourceState, typical: Typical, forecaster: Callable[[Typical], Expects] | None = None
    ) -> None:
        self._state = state
        make = forecaster or _production
        self._taught, self._untaught = make(typical), Forecaster(typical=typical)
        self._learnt = -1
        self._key: object = None
        self._expected: tuple[Points, Points, Steps | None] = ((), (), None)
        self._edition = object()

    def coming(self, at: datetime, horizon: timedelta) -> Coming:
        """From the interval that runs at ``at`` on: ascending, no gap or overlap as far as anybody says anything."""
        began, end, last = full_hour(at), at + horizon, self._state.latest(at)
        key = (self._state.version, began, horizon, last)
        if self._key != key:
            start = max(began, last.end) if last else began
            self._key, self._expected = key, self._expect(start, began + horizon + HOUR, at, last)
            self._edition = object()
        typical, published, steps = self._expected
        running = [last] if last and last.end > at else []
        to_come = (point for point in typical if at < point.end and point.start < end)
        seen = last.end if last else None
        return Coming(at, end, (*running, *to_come), steps, published=published, seen=seen, edition=self._edition)

    def _expect(
        self, start: datetime, end: datetime, at: datetime, last: IntensityPoint | None
    ) -> tuple[Points, Points, Steps]:
        """What its own profile says, what it has published, and after the profile what is expected."""
        published: Points = self._state.expected(start)
        typical: Points = ()
        if any(point.kind is Kind.TYPICAL for point in published):
            typical, published = published, ()
            start = typical[-1].end
        return typical, published, self._forecaster(at, last).steps(start, end, at=at, published=published)

    def _forecaster(self, at: datetime, last: IntensityPoint | None) -> Expects:
        if last is None or last.kind is Kind.TYPICAL or at - last.end > OWN_FORECAST_FROM:
            return self._untaught
        if self._learnt != self._state.version:
            self._taught.learn(self._state.observed.values(), self._state.issued)
            self._learnt = self._state.version
        return self._taught


def _production(typical: Typical) -> Expects:
    return Forecaster(typical=typical)


def full_hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def typical_ahead(typical: Typical, at: datetime, horizon: timedelta) -> Coming:
    """Where nobody has said anything."""
    end = at + horizon
    return Coming(at, end, (), Forecaster(typical=typical).steps(full_hour(at), end, at=at))


def _of_expected(step: Expected, age_s: float | None) -> Hour:
    kind = Kind.TYPICAL if step.by == _TYPICAL else Kind.FORECAST
    return Hour(step.start, step.end, step.g_per_kwh, step.low, step.high, kind, step.by, age_s)


def _hour(point: IntensityPoint, at: datetime) -> Hour:
    value = point.g_per_kwh
    age_s = None if point.kind is Kind.TYPICAL else _age_s(point.end, at)
    return Hour(point.start, point.end, value, value, value, point.kind, point.source, age_s)


def _issued(published: Points, step: Expected) -> datetime | None:
    """When that part of it was issued which lies in the step, None where it is typical."""
    before = bisect_left(published, step.end, key=lambda point: point.start) - 1
    if step.by == _TYPICAL or before < 0:
        return None
    return published[before].issued_at or published[before].fetched_at


def _age_s(known: datetime | None, at: datetime) -> float | None:
    return None if known is None else max(0.0, (at - known).total_seconds())
