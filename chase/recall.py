"""What the database holds of a region's signal: to know the past after a start, and to price what was drawn."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from datetime import datetime, timedelta

from chase.prices import PriceFeed
from chase.signal import GridSignal
from chase.source import ISSUED_STEP_S, SourceState
from chase.store import Reader
from providers.base import IntensityPoint, P, PricePoint, PriceSeries, Series

_ISSUED, _AHEAD = timedelta(days=7), timedelta(days=7)
_OVER = timedelta(days=1)
_CONTEXT = timedelta(days=8)  # of the time before, to see what is odd


def recall(grid: GridSignal, log: Reader, at: datetime, history: timedelta) -> None:
    """Give ``grid`` back what was observed in the ``history`` before ``at``, and the forecasts as they were issued."""
    for state in grid.states:
        zone, name = state.provider.zone, state.provider.name
        observed = log.points(zone, name, at - history, at)
        issued = log.vintages(zone, name, at - _ISSUED, at + _AHEAD, forecasts=True, every_s=ISSUED_STEP_S)
        expected = log.forecasts(zone, name, at - _OVER, at + _AHEAD)
        grid.remember((*observed, *issued, *expected))


def best_known(grid: GridSignal, log: Reader, start: datetime, end: datetime) -> Series:
    """The newest that is known of ``[start, end)``: of each time what the first source has that says anything of it.

    What is held back as an outlier is no price either: what was known of that time before counts, if anything.
    """
    found: list[IntensityPoint] = []
    for state in grid.states:
        found = _filled(found, _sound(grid, state, log, start, end))
    return Series(tuple(found))


def best_prices(feed: PriceFeed, log: Reader, start: datetime, end: datetime) -> PriceSeries:
    """As ``best_known``: what was published of the prices of ``[start, end)``, in the region's currency."""
    found: list[PricePoint] = []
    for state in feed.states:
        stored = log.prices(state.provider.zone, state.provider.name, start, end)
        found = _filled(found, (point for point in stored if point.currency == feed.currency))
    return PriceSeries(tuple(found))


def _sound(
    grid: GridSignal, state: SourceState, log: Reader, start: datetime, end: datetime
) -> Iterable[IntensityPoint]:
    stored = log.points(state.provider.zone, state.provider.name, start - _CONTEXT, end)
    gate, known = grid.new_gate(), grid.observed_of(state)

    def is_believed(point: IntensityPoint) -> bool:
        believed = known.get(point.start)
        return believed is not None and believed.g_per_kwh == point.g_per_kwh

    sound = gate.sift({}, [point for point in stored if grid.wanted(point)], is_believed)
    sound += [believed for at in gate.held if (believed := known.get(at)) is not None]
    return (point for point in sorted(sound, key=lambda point: point.start) if point.end > start)


def _filled(points: list[P], more: Iterable[P]) -> list[P]:
    """``points``, and those of ``more`` that overlap none of them. Both ascend."""
    starts = [point.start for point in points]

    def is_free(point: P) -> bool:
        before = bisect_left(starts, point.end) - 1
        return before < 0 or points[before].end <= point.start

    return sorted([*points, *filter(is_free, more)], key=lambda point: point.start)
