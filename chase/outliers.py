"""Values too odd to act on: held back until something agrees with them.

Two intensities a and b (g/kWh) differ by the factor

    f(a, b) = (max(a, b) + c) / (min(a, b) + c)        with c = 20 g/kWh

A value is *odd* when it differs by more than a factor F from everything that speaks for it: from the range of its own
source over the week before, from the intervals beside it, and from what is typical of its hour. So a zero, which a
source may put where it knows nothing, is odd exactly where the week has not been below c (F - 1) = 20 g/kWh.

F = 2. In the hourly data of 2022 and 2023 of 14 grids, lifecycle and direct, in the polled logs and in a month of
marginal intensity in steps of 5 minutes (320 000 values) two values are odd by that (GB direct, 4 g/kWh in a gale:
2.1), and the factor of the next is 1.6. A wrong unit (lb for kg is 2.2), a fuel missing from a mix and a default value
are further off. c is where the figures of hydro and nuclear grids lie: 5 g after 15 is weather there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import cached_property

from providers.base import IntensityPoint, Kind

FACTOR = 2.0
_SMALL_G = 20.0
_WEEK = timedelta(days=7)
# Two days hold two of each hour: with one, the first night or the first weekend would be odd.
_LEAST_SPAN, _LEAST_POINTS = timedelta(hours=48), 24
_TRIM = 100  # one in so many at either end does not count: a wrong value that got in must not open the door to others
_BESIDE = timedelta(hours=3)  # further apart, the weather may have changed
_RANGE_HOLDS = timedelta(hours=6)
_RUN = 6  # so many odd ones in a row, even of different sizes, are how the source is now
_ZERO_G, _ZEROS = (
    1.0,
    timedelta(hours=24),
)  # a placeholder repeats itself, so zeros speak for each other only after a day

Typical = Callable[[datetime], float | None]
Vouch = Callable[[IntensityPoint], bool]


def nobody(_: IntensityPoint) -> bool:
    return False


def differ(one: float, other: float) -> float:
    """The factor f by which two intensities in g/kWh differ."""
    return (max(one, other) + _SMALL_G) / (min(one, other) + _SMALL_G)


class Gate:
    """What one source said and is not gone by, in ``held``, ascending. ``factor`` is F; up to 1 it holds nothing."""

    def __init__(self, factor: float = FACTOR, typical: Typical = lambda _: None) -> None:
        self.held: dict[datetime, IntensityPoint] = {}
        self._factor = factor
        self._typical = typical

    def sift(
        self, known: dict[datetime, IntensityPoint], points: Collection[IntensityPoint], vouch: Vouch = nobody
    ) -> list[IntensityPoint]:
        """What of ``points``, and of those held so far, may be gone by. ``known``, which ascends, are those that are.

        A run of odd values is taken in when the next interval says alike, when ``vouch`` (another source) does for one
        of them, or when it is long.
        """
        waiting = {**self.held, **{point.start: point for point in points}}
        if self._factor <= 1 or not waiting:
            return list(points)
        self.held = {}
        line, run, taken = _Line(known), list[IntensityPoint](), list[IntensityPoint]()
        for _, point in sorted(waiting.items()):
            believed = [point]
            if self._is_odd(point, line):
                self.held[point.start] = point
                run = [*run, point] if line.continues(run, point) else [point]
                believed = run if vouch(point) or self._is_confirmed(run) else []
            for one in believed:
                self.held.pop(one.start, None)
                line.add(one)
            taken += believed
        return taken

    def _is_odd(self, point: IntensityPoint, line: _Line) -> bool:
        value, factor = point.g_per_kwh, self._factor
        if point.kind is Kind.TYPICAL or any(differ(value, beside) <= factor for beside in line.beside(point)):
            return False
        week = line.week_before(point.start)
        if week is None or differ(value, min(max(value, week[0]), week[1])) <= factor:
            return False
        typical = self._typical(point.start)
        return typical is None or differ(value, typical) > factor

    def _is_confirmed(self, run: list[IntensityPoint]) -> bool:
        newest = run[-1].g_per_kwh
        if all(point.g_per_kwh < _ZERO_G for point in run):
            return run[-1].end - run[0].start >= _ZEROS
        alike = len(run) > 1 and newest >= _ZERO_G and differ(newest, run[-2].g_per_kwh) <= self._factor
        return alike or len(run) >= _RUN


class _Line:
    """Points in order of time, and what each is compared with. Put in order only where one comes in between others."""

    def __init__(self, known: dict[datetime, IntensityPoint]) -> None:
        self._known = known
        self._added: list[IntensityPoint] = []
        self._last = known[next(reversed(known))] if known else None
        self._ranges: dict[datetime, tuple[float, float] | None] = {}

    def add(self, point: IntensityPoint) -> None:
        self._added.append(point)
        if self._last is None or point.start >= self._last.start:
            self._last = point
        if "_points" in self.__dict__:
            self._put(point)

    def _put(self, point: IntensityPoint) -> None:
        at = bisect_left(self._starts, point.start)
        if self._starts[at : at + 1] == [point.start]:
            self._points[at] = point
        else:
            self._starts.insert(at, point.start)
            self._points.insert(at, point)

    @cached_property
    def _points(self) -> list[IntensityPoint]:
        points = {**self._known, **{point.start: point for point in self._added}}
        return [points[start] for start in sorted(points)]

    @cached_property
    def _starts(self) -> list[datetime]:
        return [point.start for point in self._points]

    def continues(self, run: list[IntensityPoint], point: IntensityPoint) -> bool:
        """Whether ``point`` is the next one after ``run``, with nothing that was believed between them."""
        if not run or point.start - run[-1].end > _BESIDE:
            return False
        return bisect_right(self._starts, run[-1].start) == bisect_left(self._starts, point.start)

    def beside(self, point: IntensityPoint) -> list[float]:
        """The values just before and just after."""
        if self._last is None or self._last.start < point.start:
            last = self._last
            return [last.g_per_kwh] if last is not None and point.start - last.end <= _BESIDE else []
        before, after = bisect_left(self._starts, point.start) - 1, bisect_right(self._starts, point.start)
        found = []
        if before >= 0 and point.start - self._points[before].end <= _BESIDE:
            found.append(self._points[before].g_per_kwh)
        if after < len(self._points) and self._starts[after] - point.end <= _BESIDE:
            found.append(self._points[after].g_per_kwh)
        return found

    def week_before(self, start: datetime) -> tuple[float, float] | None:
        """Least and greatest value, without the few extreme ones; None where too little is known to say what is odd."""
        epoch = start - (start - datetime.min.replace(tzinfo=start.tzinfo)) % _RANGE_HOLDS
        if epoch not in self._ranges:
            self._ranges[epoch] = self._range(epoch)
        return self._ranges[epoch]

    def _range(self, end: datetime) -> tuple[float, float] | None:
        first, last = bisect_left(self._starts, end - _WEEK), bisect_left(self._starts, end)
        if last - first < _LEAST_POINTS or end - self._starts[first] < _LEAST_SPAN:
            return None
        values = sorted(point.g_per_kwh for point in self._points[first:last])
        trim = max(1, len(values) // _TRIM)
        return values[trim], values[-1 - trim]
