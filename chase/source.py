"""One source of a region's signal: what it has said, how it fares, and when it is worth asking again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum

from providers.base import (
    AuthError,
    BadRequest,
    Boundary,
    IntensityPoint,
    Kind,
    PlanError,
    Provider,
    ProviderError,
    RateLimited,
    SchemaError,
    Scope,
    Signal,
    Transient,
)
from providers.redact import Redactor

Identity = tuple[Signal, Scope, Boundary]
Points = Sequence[IntensityPoint]
_RETRY_PERSON_S = 3600.0  # a fault that only a person can mend is looked at again hourly
_SLACK_SHARE, _SLACK_S = 0.1, 30.0  # a timer of the same period that fires a little early still finds the source due
_LONGEST_TEXT = 300


class Word(IntEnum):
    """Whose word says what a source's points are: each outweighs those before it."""

    REMEMBERED = 0
    EXPECTED = 1
    OBSERVED = 2


@dataclass(slots=True, eq=False)
class SourceState:
    """How one source fares. ``problem`` is empty while it answers, ``forecast_problem`` while it forecasts.

    All points, ascending by start, are of one ``identity``: a value of another signal, scope or boundary is no history
    of this one. ``sparse`` is true while a change of identity has left less than the history wanted.
    """

    provider: Provider
    due: float = 0.0
    problem: str = ""
    last_good: datetime | None = None
    observed: dict[datetime, IntensityPoint] = field(default_factory=dict)
    forecast: dict[datetime, IntensityPoint] = field(default_factory=dict)
    forecast_problem: str = ""
    identity: Identity | None = None
    sparse: bool = False
    poll_s: float = field(init=False)
    _word: Word = Word.REMEMBERED

    def __post_init__(self) -> None:
        self.poll_s = self.provider.capabilities.poll_s

    @property
    def label(self) -> str:
        return f"{self.provider.name} ({self.provider.zone})"

    def begin(self, began_s: float) -> None:
        """It is asked now. Its slots count from the start of each request, so that a slow answer costs no slot."""
        self.due = began_s + self.poll_s - min(_SLACK_SHARE * self.poll_s, _SLACK_S)

    def put_off(self, error: ProviderError, now_s: float) -> None:
        """Some failures ask for a longer wait than the next slot, and that is never cut short."""
        if isinstance(error, RateLimited):
            self.due = now_s + max(self.poll_s, error.retry_after_s or 0.0)
        elif isinstance(error, (AuthError, PlanError, BadRequest)):
            self.due = now_s + max(self.poll_s, _RETRY_PERSON_S)

    def remember(self, points: Iterable[IntensityPoint]) -> None:
        """Take back what an earlier run stored: of several identities the one last fetched, and never against what
        the source has said since.
        """
        points = tuple(points)
        known = (*self.observed.values(), *self.forecast.values(), *points)
        self._settle(max(known, key=lambda point: point.fetched_at, default=None), Word.REMEMBERED)
        self._merge(self.observed, [point for point in points if point.kind is not Kind.FORECAST])
        self._merge(self.forecast, [point for point in points if point.kind is Kind.FORECAST])

    def take(self, observed: Points, forecast: Points) -> list[IntensityPoint]:
        """Take an answer in; what of it is new or revised."""
        before = self.identity
        for points, word in ((forecast, Word.EXPECTED), (observed, Word.OBSERVED)):
            self._settle(max(points, key=lambda point: point.start, default=None), word)
        if observed:
            self.sparse = before not in {None, self.identity}
        return [*self._merge(self.observed, observed), *self._merge(self.forecast, forecast)]

    def forget(self, before: datetime) -> None:
        for known in (self.observed, self.forecast):
            for start in [start for start in known if start < before]:
                del known[start]

    def latest(self, at: datetime) -> IntensityPoint | None:
        """The newest interval that has begun: a 'measured' row of the future is clock skew, not knowledge."""
        return next((self.observed[start] for start in reversed(self.observed) if start <= at), None)

    def history(self, since: datetime, at: datetime) -> tuple[IntensityPoint, ...]:
        return tuple(point for start, point in self.observed.items() if since <= start <= at)

    def expected(self, at: datetime) -> tuple[IntensityPoint, ...]:
        """Its own forecast from the interval at ``at`` on."""
        return tuple(point for point in self.forecast.values() if point.end > at)

    def _settle(self, newest: IntensityPoint | None, word: Word) -> None:
        """Be what ``newest`` is, and drop what is something else, unless a weightier word has been given."""
        if newest is None or word < self._word:
            return
        self._word, self.identity = word, identity_of(newest)
        for known in (self.observed, self.forecast):
            for start in [start for start, point in known.items() if identity_of(point) != self.identity]:
                del known[start]

    def _merge(self, known: dict[datetime, IntensityPoint], points: Points) -> list[IntensityPoint]:
        new = [point for point in points if identity_of(point) == self.identity and _is_news(known, point)]
        if new:
            merged = sorted({**known, **{point.start: point for point in new}}.items())
            known.clear()
            known.update(merged)
        return new


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
    """The points of an answer. Raises ``SchemaError`` for anything else in it."""
    points = tuple(answer)
    strangers = {type(point).__name__ for point in points if not isinstance(point, IntensityPoint)}
    if strangers:
        raise SchemaError(f"it gave {', '.join(sorted(strangers))} where an IntensityPoint belongs")
    return points


def _is_news(known: dict[datetime, IntensityPoint], point: IntensityPoint) -> bool:
    old = known.get(point.start)
    return old is None or (old.g_per_kwh, old.kind) != (point.g_per_kwh, point.kind)
