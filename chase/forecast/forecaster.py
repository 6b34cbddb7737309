"""Our own forecast of one region's signal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from chase.forecast.expected import OWN, PERSISTENCE, TYPICAL, Expected
from chase.forecast.simple import extrapolate
from providers.base import IntensityPoint

_WINDOW = timedelta(days=28)


class Forecaster:
    """Learns from what was observed and from the forecasts that a source has issued; expects what comes."""

    def __init__(
        self, *, step: timedelta | None = None, typical: Callable[[datetime], float | None] | None = None
    ) -> None:
        self._step = step
        self._typical = typical
        self._observed: tuple[IntensityPoint, ...] = ()

    def learn(self, observed: Sequence[IntensityPoint], issued: Sequence[IntensityPoint] = ()) -> None:
        """Take in the history, and of ``issued`` how good a source's forecasts have been."""
        del issued
        newest = max((point.start for point in observed), default=None)
        self._observed = tuple(point for point in observed if newest is not None and point.start > newest - _WINDOW)

    def expect(
        self, start: datetime, end: datetime, *, at: datetime, published: Sequence[IntensityPoint] = ()
    ) -> tuple[Expected, ...]:
        """Each step of ``[start, end)``; ``published`` are a source's newest forecasts."""
        del published
        known = [point for point in self._observed if point.end <= at]
        by = OWN if len(known) > 24 else PERSISTENCE  # noqa: PLR2004  a day
        points = extrapolate(known, start, end, made_at=at, typical=self._typical)
        found = [Expected(p.start, p.end, p.g_per_kwh, p.g_per_kwh, p.g_per_kwh, by) for p in points]
        return tuple(found) if found else self._from_typical(start, end)

    def _from_typical(self, start: datetime, end: datetime) -> tuple[Expected, ...]:
        step = self._step or timedelta(hours=1)
        steps = [start + i * step for i in range(-(-(end - start) // step))]
        values = [(at, self._typical(at) if self._typical else None) for at in steps]
        return tuple(Expected(at, at + step, g, g, g, TYPICAL) for at, g in values if g is not None)
