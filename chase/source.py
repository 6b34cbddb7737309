"""One source of a region's signal: what it has said, what of that may be gone by, and how it fares."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from itertools import islice, pairwise
from typing import Any

from chase.endpoint import Endpoint
from chase.outliers import Gate, Vouch, nobody
from providers.base import (
    Boundary,
    IntensityPoint,
    Kind,
    Provider,
    ProviderError,
    SchemaError,
    Scope,
    Signal,
    Transient,
)
from providers.reading import MOST_G_PER_KWH
from providers.redact import Redactor

Identity = tuple[Signal, Scope, Boundary]
Points = Sequence[IntensityPoint]
_LONGEST_TEXT = 300
# Of a forecast the issue last made before each of these leads is kept, to see how good such forecasts are.
_LEADS_H = (1, 3, 6, 12, 24, 48)
ISSUED_STEP_S = 1800  # and of finer steps one in each half hour
_ISSUED_KEPT = timedelta(days=7)
_OVER = _DAY = timedelta(days=1)
_LONGEST = timedelta(days=1)
_MONTH_H = 672


class Word(IntEnum):
    """Whose word says what a source's points are: each outweighs those before it."""

    REMEMBERED = 0
    EXPECTED = 1
    OBSERVED = 2


@dataclass(slots=True, eq=False)
class SourceState:
    """What one source has said. ``observing`` and ``forecasting`` are what it is asked, each with its own faults.

    All points, ascending by start, are of one ``identity``: a value of another signal, scope or boundary is no history
    of this one. ``gate`` holds what was observed and is too odd to go by. ``version`` changes with the points.
    ``reached`` is how far back it has been asked.
    """

    provider: Provider
    gate: Gate = field(default_factory=Gate)
    node: str = ""
    observed: dict[datetime, IntensityPoint] = field(default_factory=dict)
    forecast: dict[datetime, IntensityPoint] = field(default_factory=dict)
    identity: Identity | None = None
    version: int = 0
    reached: datetime | None = None
    runs_ahead: bool = False
    in_doubt: bool = False
    revised: timedelta = field(init=False)  # how far back it may say something else
    observing: Endpoint = field(init=False)
    forecasting: Endpoint = field(init=False)
    _issued: dict[tuple[datetime, int], IntensityPoint] = field(default_factory=dict)
    _word: Word = Word.REMEMBERED
    _line: list[IntensityPoint] = field(default_factory=list)  # ``observed``; extended or replaced, never changed
    _before: tuple[list[IntensityPoint], int, int, tuple[IntensityPoint, ...]] = ([], 0, 0, ())  # what was cut of it

    def __post_init__(self) -> None:
        can, who = self.provider.capabilities, (self.provider.name, self.provider.zone)
        poll_s, self.revised = can.poll_s, timedelta(seconds=can.revised_s)
        self.observing = Endpoint.spread(poll_s, self.node, *who)
        self.forecasting = Endpoint.spread(poll_s, self.node, *who)

    @property
    def label(self) -> str:
        return f"{self.provider.name} ({self.provider.zone})"

    @property
    def problem(self) -> str:
        """What is wrong with what it observes, empty while it answers."""
        return self.observing.problem

    @property
    def issued(self) -> tuple[IntensityPoint, ...]:
        """Forecasts as they were issued, several of one time, for those who judge them."""
        return tuple(point for _, point in sorted(self._issued.items(), key=lambda item: (item[0][0], -item[0][1])))

    @property
    def doubted(self) -> IntensityPoint | None:
        """The newest value, while it is held back."""
        newest = next(reversed(self.gate.held.values()), None)
        known = next(reversed(self.observed), None)
        return newest if newest is not None and (known is None or known < newest.start) else None

    def remember(self, points: Iterable[IntensityPoint]) -> None:
        """Take back what an earlier run stored: of several identities the one last fetched, and never against what
        the source has said since.
        """
        points = tuple(points)
        known = (*self.observed.values(), *self.forecast.values(), *points)
        self._settle(max(known, key=lambda point: point.fetched_at, default=None), Word.REMEMBERED)
        observed = [point for point in points if point.kind is not Kind.FORECAST]
        self._observe(observed, nobody)
        self._expect([point for point in points if point.kind is Kind.FORECAST])
        if observed and self.observing.last_good is None:
            self.observing.last_good = max(point.fetched_at for point in observed)

    def take(self, observed: Points, forecast: Points, vouch: Vouch = nobody) -> list[IntensityPoint]:
        """Take an answer in; what of it is new or revised, also what is held back."""
        for points, word in ((forecast, Word.EXPECTED), (observed, Word.OBSERVED)):
            self._settle(max(points, key=lambda point: point.start, default=None), word)
        return [*self._observe(observed, vouch), *self._expect(forecast)]

    def take_older(self, observed: Points) -> list[IntensityPoint]:
        """Take in what it says of a time before that known. What is of another identity there is no history of this."""
        return self._observe(observed, nobody)

    def reconsider(self, vouch: Vouch) -> bool:
        """Take in of what is held back that which another source vouches for; True if there was any."""
        return self._take_in(self.gate.sift(self.observed, (), vouch))

    def forget(self, before: datetime, now: datetime) -> None:
        """What began ``before``, a day's worth at once; of forecasts what is over, for how good they were is told by
        those ``issued``.
        """
        known = len(self.observed)
        self.observed, self.gate.held = _since(self.observed, before), _since(self.gate.held, before)
        if len(self.observed) < known:
            self._line = list(self.observed.values())
        self.forecast = _since(self.forecast, now - _OVER)
        limit = now - _ISSUED_KEPT
        if limit - min((start for start, _ in self._issued), default=limit) >= _DAY:
            self._issued = {key: made for key, made in self._issued.items() if key[0] >= limit}

    def latest(self, at: datetime) -> IntensityPoint | None:
        """The newest interval that has begun: a 'measured' row of the future is clock skew, not knowledge."""
        line = self._line
        if line and line[-1].start <= at:
            return line[-1]
        return next((point for point in reversed(line) if point.start <= at), None)

    def past(self, since: datetime, at: datetime) -> Callable[[], tuple[IntensityPoint, ...]]:
        """What began from ``since`` to ``at``, as known now: put together when, and if, somebody asks for it."""
        line, count = self._line, len(self._line)

        def found() -> tuple[IntensityPoint, ...]:
            first, last = bisect_left(line, since, hi=count, key=_start), bisect_right(line, at, hi=count, key=_start)
            return self._cut(line, first, last)

        return found

    def _cut(self, line: list[IntensityPoint], first: int, last: int) -> tuple[IntensityPoint, ...]:
        """The very same as before while it is of the same points, so that nobody need sort it again."""
        before = self._before
        if before[0] is not line or before[1:3] != (first, last):
            before = self._before = line, first, last, tuple(line[first:last])
        return before[3]

    def memory(self) -> Callable[[], list[float]]:
        """Of what is observed by now, in g/kWh: about a month of hours, or as many of shorter intervals, evenly picked.

        As ``past`` it may be asked by another thread while a poll takes points in.
        """
        line, count = self._line, len(self._line)
        return lambda: [point.g_per_kwh for point in line[: count : max(1, count // _MONTH_H)]]

    def said_of(self, start: datetime, end: datetime) -> Iterator[IntensityPoint]:
        """What it observed of any of that time, also what is held back. No interval is longer than a day."""
        for known in (self.observed, self.gate.held):
            starts = list(known)
            near = starts[bisect_left(starts, start - _LONGEST) : bisect_left(starts, end)]
            yield from (point for at in near if (point := known[at]).end > start)

    def expected(self, at: datetime) -> tuple[IntensityPoint, ...]:
        """Its own forecast from the interval at ``at`` on."""
        return tuple(point for point in self.forecast.values() if point.end > at)

    def _settle(self, newest: IntensityPoint | None, word: Word) -> None:
        """Be what ``newest`` is, and drop what is something else, unless a weightier word has been given."""
        if newest is None or word < self._word:
            return
        self._word, before, self.identity = word, self.identity, identity_of(newest)
        if before not in {None, self.identity}:
            self.reached = None
            for known in (self.observed, self.forecast, self.gate.held, self._issued):
                known.clear()
            self._line = []
            self.version += 1

    def _observe(self, points: Points, vouch: Vouch) -> list[IntensityPoint]:
        held = self.gate.held
        new = self._news({**self.observed, **held} if held else self.observed, points)
        if new:
            self._take_in(self.gate.sift(self.observed, new, vouch))
        return new

    def _take_in(self, points: Points) -> bool:
        starts = [*islice(reversed(self.observed), 1), *map(_start, points)]
        changed = self._insert(self.observed, points)
        if all(before < after for before, after in pairwise(starts)):
            self._line.extend(points)
        else:
            self._line = list(self.observed.values())
        return changed

    def _expect(self, points: Points) -> list[IntensityPoint]:
        new = self._news(self.forecast, points)
        self._insert(self.forecast, new)
        for point in new:
            if point.kind is Kind.FORECAST and point.start.timestamp() % ISSUED_STEP_S == 0:
                lead_h = (point.start - (point.issued_at or point.fetched_at)) / timedelta(hours=1)
                self._issued[point.start, sum(lead_h >= hours for hours in _LEADS_H)] = point
        return new

    def _news(self, known: dict[datetime, IntensityPoint], points: Points) -> list[IntensityPoint]:
        return [point for point in points if _is_news(known, point) and identity_of(point) == self.identity]

    def _insert(self, known: dict[datetime, IntensityPoint], points: Points) -> bool:
        """Sorted anew only where something comes in between: a poll replaces some and adds to the end."""
        if not points:
            return False
        places = [*islice(reversed(known), 1), *(point.start for point in points if point.start not in known)]
        known.update((point.start, point) for point in points)
        if any(after < before for before, after in pairwise(places)):
            merged = sorted(known.items())
            known.clear()
            known.update(merged)
        self.version += 1
        return True


def _start(point: IntensityPoint) -> datetime:
    return point.start


def _since(known: dict[datetime, IntensityPoint], limit: datetime) -> dict[datetime, IntensityPoint]:
    """Into a new table: one that loses at its beginning what it gains at its end grows to twice its size."""
    if limit - next(iter(known), limit) < _DAY:
        return known
    return {start: point for start, point in known.items() if start >= limit}


def describe_source(state: SourceState) -> dict[str, Any]:
    """How it fares, for status and the CLI: one flat dict."""
    doubted = state.doubted
    return {
        "name": state.provider.name,
        "zone": state.provider.zone,
        "problem": state.observing.problem,
        "down_since": state.observing.down_since,
        "last_good": state.observing.last_good,
        "forecast_problem": state.forecasting.problem,
        "held_g_per_kwh": doubted.g_per_kwh if doubted else None,
    }


def identity_of(point: IntensityPoint) -> Identity:
    return point.signal, point.scope, point.boundary


@contextmanager
def foreign() -> Iterator[None]:
    """Around a provider's code: an outsider's may break its word and raise anything; it becomes ``Transient``."""
    try:
        yield
    except ProviderError:
        raise
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise Transient(Redactor().clean(text)[:_LONGEST_TEXT]) from error


def checked(answer: Iterable[IntensityPoint]) -> tuple[IntensityPoint, ...]:
    """The points of an answer. Raises ``SchemaError`` for anything else in it, and for what no grid can have."""
    points = tuple(answer)
    strangers = {type(point).__name__ for point in points if not isinstance(point, IntensityPoint)}
    if strangers:
        raise SchemaError(f"it gave {', '.join(sorted(strangers))} where an IntensityPoint belongs")
    wild = next((point for point in points if not 0 <= point.g_per_kwh <= MOST_G_PER_KWH), None)
    if wild is not None:
        raise SchemaError(f"it gave {wild.g_per_kwh:g} g/kWh, not within 0 to {MOST_G_PER_KWH:g}")
    return points


def _is_news(known: dict[datetime, IntensityPoint], point: IntensityPoint) -> bool:
    old = known.get(point.start)
    return old is None or old.g_per_kwh != point.g_per_kwh or old.kind is not point.kind
