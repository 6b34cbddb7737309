"""A trace as a source that publishes it while the clock runs: late, and here and there with another value at first."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache

from chase.replay.trace import Trace
from providers.base import Boundary, Capabilities, IntensityPoint, Kind, Series
from providers.reading import check_interval

NAME = "replay"
_OFF = 0.15  # how far a first word is off at the most
_CORRECTED_H = (1.0, 26.0)  # hours until the right one is there


class Publication:
    """All that a source says of a trace, and when: the value of a step ``delay_s`` after it began.

    Of the share ``first_words`` of the steps, drawn for each by the trace's name and its start, an estimate up to 15 %
    off is said first and the value of the trace 1 to 26 hours later, as live sources were seen to do.
    """

    def __init__(self, trace: Trace, delay_s: float, first_words: float) -> None:
        self.trace, self.delay_s, self.first_words = trace, delay_s, first_words
        self._last: list[IntensityPoint | None] = [None] * len(trace)
        self._first: dict[int, tuple[IntensityPoint, datetime] | None] = {}

    @property
    def revised_s(self) -> float:
        """How far back it may change what it said."""
        return _CORRECTED_H[1] * 3600.0 + self.delay_s + self.trace.step_s if self.first_words else 0.0

    def count(self, now: datetime) -> int:
        """How many steps it has said something of."""
        out = ((now - self.trace.start).total_seconds() - self.delay_s) // self.trace.step_s + 1
        return min(max(int(out), 0), len(self.trace))

    def said(self, i: int, now: datetime) -> IntensityPoint:
        """Its word on step i, which it has published."""
        if self.first_words:
            first = self._first_word(i)
            if first is not None and now < first[1]:
                return first[0]
        point = self._last[i]
        if point is None:
            point = self._last[i] = self._point(i, float(self.trace.values[i]), Kind.MEASURED)
        return point

    def between(self, start: datetime, end: datetime, now: datetime) -> tuple[IntensityPoint, ...]:
        """What it has published of ``[start, end)`` by ``now``, ascending."""
        first, last = max(self.trace.step_of(start), 0), self.count(now)
        if end <= now:
            last = min(last, math.ceil((end - self.trace.start).total_seconds() / self.trace.step_s))
        return tuple([self.said(i, now) for i in range(first, last)])

    def _first_word(self, i: int) -> tuple[IntensityPoint, datetime] | None:
        """What it says first, and when it takes that back; None where it is right at once."""
        if i not in self._first:
            dice = random.Random(f"{self.trace.name} {self.trace.starts[i]}")  # noqa: S311  no secret
            if dice.random() >= self.first_words:
                self._first[i] = None
            else:
                value = float(self.trace.values[i]) * dice.uniform(1 - _OFF, 1 + _OFF)
                wait = timedelta(seconds=self.delay_s + dice.uniform(*_CORRECTED_H) * 3600.0)
                self._first[i] = self._point(i, value, Kind.ESTIMATED), self.trace.starts[i] + wait
        return self._first[i]

    def _point(self, i: int, value: float, kind: Kind) -> IntensityPoint:
        trace = self.trace
        return IntensityPoint(
            zone=trace.name,
            start=trace.starts[i],
            end=trace.starts[i + 1],
            g_per_kwh=value,
            kind=kind,
            signal=trace.signal,
            scope=trace.scope,
            boundary=Boundary.UNSPECIFIED,
            source=NAME,
            fetched_at=trace.starts[i] + timedelta(seconds=self.delay_s),
        )


@lru_cache(maxsize=16)
def publication(trace: Trace, delay_s: float, first_words: float) -> Publication:
    """One for all cells of a process: its points are the same."""
    return Publication(trace, delay_s, first_words)


class Feed:
    """The provider: what has been published by ``now``."""

    name = NAME

    def __init__(self, said: Publication, now: Callable[[], datetime]) -> None:
        self.zone = said.trace.name
        self.capabilities = Capabilities(
            observed=True,
            forecast=False,
            step_s=said.trace.step_s,
            poll_s=said.trace.step_s,
            revised_s=said.revised_s,
        )
        self._said, self._now = said, now

    def observe(self, start: datetime, end: datetime) -> Series:
        check_interval(start, end)
        return Series(self._said.between(start, end, self._now()))

    def forecast(self, start: datetime, end: datetime) -> Series:
        check_interval(start, end)
        return Series()

    def close(self) -> None:
        """Nothing is open."""
