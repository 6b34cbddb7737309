"""The hours to come by one source: what it observed of the running one, then what it and we expect, then the typical.

Learnt anew only after news, and computed anew only after news or when an hour begins: it is asked for at every tick.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from chase.forecast import Expected, Forecaster
from chase.outlook import Hour
from chase.source import Points, SourceState
from providers.base import IntensityPoint, Kind

HOUR = timedelta(hours=1)
OWN_FORECAST_FROM = timedelta(hours=48)  # older history says little of today
_OURS, _TYPICAL = frozenset({"chase", "persistence"}), "typical"

Typical = Callable[[datetime], float | None]
Dated = tuple[Hour, datetime | None]  # an hour, and when that was known on which it rests


class Ahead:
    """For one source, whose points nobody changes meanwhile."""

    def __init__(self, state: SourceState, typical: Typical) -> None:
        self._state = state
        self._taught, self._untaught = Forecaster(typical=typical), Forecaster(typical=typical)
        self._learnt = -1
        self._key: object = None
        self._expected: tuple[Dated, ...] = ()

    def hours(self, at: datetime, horizon: timedelta) -> tuple[Hour, ...]:
        """From the interval that runs at ``at`` on: ascending, no gap or overlap as far as anybody says anything."""
        began, end, last = full_hour(at), at + horizon, self._state.latest(at)
        key = (self._state.version, began, horizon, last)
        if self._key != key:
            start = max(began, last.end) if last else began
            self._key, self._expected = key, tuple(self._expect(start, began + horizon + HOUR, at, last))
        running = [_hour(last, at)] if last and last.end > at else []
        to_come = ((hour, known) for hour, known in self._expected if at < hour.end and hour.start < end)
        return (*running, *(_aged(hour, known, at) for hour, known in to_come))

    def _expect(self, start: datetime, end: datetime, at: datetime, last: IntensityPoint | None) -> Iterator[Dated]:
        published: Points = self._state.expected(start)
        reach = start
        if any(point.kind is Kind.TYPICAL for point in published):
            yield from ((_hour(point, at), None) for point in published)
            reach, published = published[-1].end, ()
        for step in self._forecaster(at, last).expect(reach, end, at=at, published=published):
            if step.end > reach:
                known = last.end if last and step.by in _OURS else _issued(published, step)
                yield of_expected(replace(step, start=max(step.start, reach))), known
                reach = step.end

    def _forecaster(self, at: datetime, last: IntensityPoint | None) -> Forecaster:
        if last is None or last.kind is Kind.TYPICAL or at - last.end > OWN_FORECAST_FROM:
            return self._untaught
        if self._learnt != self._state.version:
            self._taught.learn(tuple(self._state.observed.values()), self._state.issued)
            self._learnt = self._state.version
        return self._taught


def full_hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def typical_hours(typical: Typical, at: datetime, horizon: timedelta) -> tuple[Hour, ...]:
    """Where nobody has said anything."""
    steps = Forecaster(typical=typical).expect(full_hour(at), at + horizon, at=at)
    return tuple(map(of_expected, steps))


def of_expected(step: Expected) -> Hour:
    kind = Kind.TYPICAL if step.by == _TYPICAL else Kind.FORECAST
    return Hour(step.start, step.end, step.g_per_kwh, step.low, step.high, kind, step.by)


def _hour(point: IntensityPoint, at: datetime) -> Hour:
    value = point.g_per_kwh
    age_s = None if point.kind is Kind.TYPICAL else _age_s(point.end, at)
    return Hour(point.start, point.end, value, value, value, point.kind, point.source, age_s)


def _aged(hour: Hour, known: datetime | None, at: datetime) -> Hour:
    """Written out: ``replace`` takes ten times as long, and there may be two thousand of them in a tick."""
    age_s = _age_s(known, at)
    return Hour(hour.start, hour.end, hour.g_per_kwh, hour.low, hour.high, hour.kind, hour.by, age_s)


def _issued(published: Points, step: Expected) -> datetime | None:
    """When that part of it was issued which lies in the step, None where it is typical."""
    before = bisect_left(published, step.end, key=lambda point: point.start) - 1
    if step.by == _TYPICAL or before < 0:
        return None
    return published[before].issued_at or published[before].fetched_at


def _age_s(known: datetime | None, at: datetime) -> float | None:
    return None if known is None else max(0.0, (at - known).total_seconds())
