"""The forecast of one region's signal: learns from what came, and expects what comes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from chase.forecast.expected import Expected, Steps
from providers.base import IntensityPoint

if TYPE_CHECKING:
    from chase.forecast.engine import Engine

Typical = Callable[[datetime], float | None]
_WINDOW = timedelta(days=28)


class Forecaster:
    """Ours, a source's where it has been good, and what is typical where neither knows enough.

    ``step`` is how long a step is, one of 5 to 60 minutes that divide an hour; without it, as long as what is observed
    mostly is. ``typical`` gives what is typical of a time in g/kWh, or None. Raises ``ValueError`` for another step.
    """

    def __init__(self, *, step: timedelta | None = None, typical: Typical | None = None) -> None:
        if step is not None:
            _check(step)
        self._step = step
        self._typical = typical
        self._observed: tuple[IntensityPoint, ...] = ()
        self._issued: tuple[IntensityPoint, ...] = ()
        self._engine: Engine | None = None
        self._engine_of: tuple[list[IntensityPoint], list[IntensityPoint]] = ([], [])

    def learn(self, observed: Collection[IntensityPoint], issued: Collection[IntensityPoint] = ()) -> None:
        """What there is to know: ``observed`` in place of what was given before, in any order, and of ``issued`` how
        good a source's forecasts have been (each with its ``issued_at``, several vintages of one time). Of both the
        last 28 days count: of what was observed those before the newest, so that time alone changes nothing.
        """
        self._observed, self._issued = tuple(observed), tuple(issued)

    def expect(
        self, start: datetime, end: datetime, *, at: datetime, published: Sequence[IntensityPoint] = ()
    ) -> tuple[Expected, ...]:
        """Each step of ``[start, end)`` of which anybody knows anything, by what was known at ``at``.

        ``published`` is a source's newest forecast. A step that was observed is given as it was.
        """
        return self.steps(start, end, at=at, published=published).each()

    def steps(self, start: datetime, end: datetime, *, at: datetime, published: Sequence[IntensityPoint] = ()) -> Steps:
        """The same as columns."""
        return self._known_at(at).expect(start, end, published)

    def _known_at(self, at: datetime) -> Engine:
        from chase.forecast.engine import Engine
        from chase.forecast.steps import Clockwork, Points

        seen = [point for point in self._observed if _was_seen(point, at)]
        newest = max((point.end for point in seen), default=at)
        observed = [point for point in seen if newest - _WINDOW < point.end]
        issued = [point for point in self._issued if at - _WINDOW < point.end and _was_said(point, at)]
        if self._engine is None or self._engine_of != (observed, issued):
            points = Points.of(observed)
            clockwork = Clockwork.of(points, self._step)
            self._engine = Engine(points, issued, clockwork, self._typical, earlier=self._engine)
            self._engine_of = observed, issued
        return self._engine


def _was_seen(point: IntensityPoint, at: datetime) -> bool:
    """Its interval was over, or it runs and the source had said so much of it."""
    return point.end <= at or (point.start <= at and point.fetched_at <= at)


def _was_said(point: IntensityPoint, at: datetime) -> bool:
    return (point.issued_at or point.fetched_at) <= at


def _check(step: timedelta) -> None:
    from chase.forecast.steps import check_step

    check_step(step)
