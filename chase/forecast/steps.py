"""From points with any start and end to steps of one length, and back.

Notation: c counts steps from the epoch, so that step c is ``[origin + c s, origin + (c + 1) s)`` in seconds, s the
length of a step; values are g/kWh.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

import numpy as np

from chase.forecast.window import DAY_H, WEEK_H, WINDOW_H, Bools, Floats, Ints, Window
from providers.base import IntensityPoint

_STEPS_S = (300, 360, 600, 720, 900, 1200, 1800, 3600)  # the whole parts of an hour from 5 min on
_LONGEST = timedelta(days=1)  # a value for more than a day says nothing of its hours


@dataclass(frozen=True)
class Points:
    """Columns of points, each (r,): start, end, and when it was said, in seconds since the epoch; g/kWh."""

    start: Floats
    end: Floats
    said: Floats
    value: Floats

    @classmethod
    def of(cls, points: Iterable[IntensityPoint], *, vintages: bool = False) -> Self:
        """Those that tell of their hours, ascending, whatever order they come in.

        Of several with one start there is the one said last, or with ``vintages`` all.
        """
        rows = {_row(point) for point in points if point.end - point.start <= _LONGEST}
        newest = rows if vintages else {row[0]: row for row in sorted(rows, key=_age)}.values()
        return cls(*np.array(sorted(newest), float).reshape(-1, 4).T)


def _row(point: IntensityPoint) -> tuple[float, float, float, float]:
    said = point.issued_at or point.fetched_at
    return point.start.timestamp(), point.end.timestamp(), said.timestamp(), point.g_per_kwh


def _age(row: tuple[float, float, float, float]) -> tuple[float, ...]:
    return row[2], row[1], row[3]


@dataclass(frozen=True)
class Clockwork:
    """Where the steps lie. ``m`` of them are an hour."""

    step_s: int
    origin_s: float = 0.0

    @classmethod
    def of(cls, points: Points, step: timedelta | None) -> Self:
        """Steps as long as the points mostly are, that begin where most of them do."""
        step_s = int(step.total_seconds()) if step else _usual_step_s(points)
        offsets, counts = np.unique(points.start % step_s, return_counts=True)
        return cls(step_s, float(offsets[np.argmax(counts)]) if len(offsets) else 0.0)

    @property
    def m(self) -> int:
        return 3600 // self.step_s

    def first(self, at_s: float | Floats) -> Ints:
        """The step in which a time lies."""
        return np.floor((np.asarray(at_s) - self.origin_s) / self.step_s).astype(np.int64)

    def after(self, at_s: float | Floats) -> Ints:
        """The first step that begins no earlier than a time."""
        return -np.floor((self.origin_s - np.asarray(at_s)) / self.step_s).astype(np.int64)

    def start_s(self, c: Ints) -> Floats:
        return self.origin_s + c.astype(np.float64) * self.step_s

    def values(self, points: Points, first: int, count: int, column: str = "value") -> tuple[Floats, Bools]:
        """Mean of a column of the points over each of ``count`` steps, and whether they cover half of it."""
        total, covered = np.zeros(count), np.zeros(count)
        values, c = getattr(points, column), self.first(points.start)
        while (open_ := self.start_s(c) < points.end).any():
            start = self.start_s(c)
            overlap = np.minimum(points.end, start + self.step_s) - np.maximum(points.start, start)
            use = open_ & (first <= c) & (c < first + count)
            np.add.at(total, c[use] - first, overlap[use] * values[use])
            np.add.at(covered, c[use] - first, overlap[use])
            c = c + 1
        ok = covered >= self.step_s / 2
        return np.where(ok, total / np.maximum(covered, 1e-9), np.nan), ok


def _usual_step_s(points: Points) -> int:
    if not len(points.start):
        return _STEPS_S[-1]
    usual = float(np.median(points.end - points.start))
    return next((step_s for step_s in reversed(_STEPS_S) if step_s <= usual + 1), _STEPS_S[0])


def check_step(step: timedelta) -> None:
    """Raises ``ValueError`` for a step that is no whole part of an hour, or under five minutes."""
    if step.total_seconds() not in _STEPS_S:
        allowed = ", ".join(str(step_s // 60) for step_s in _STEPS_S)
        raise ValueError(f"a step must be one of {allowed} minutes, not {step}")


@dataclass(frozen=True)
class History:
    """The last 28 days as a window whose ``x[0]`` is step ``first``."""

    clockwork: Clockwork
    first: int
    window: Window

    @classmethod
    def of(cls, points: Points, clockwork: Clockwork) -> Self | None:
        """None where nothing was observed."""
        if not len(points.start):
            return None
        end = int(clockwork.after(points.end.max()))
        first = max(int(clockwork.first(points.start.min())), end - WINDOW_H * clockwork.m)
        x, ok = clockwork.values(points, first, end - first)
        if not ok.any():
            return None
        known = np.flatnonzero(ok)
        first, inside = first + int(known[0]), slice(known[0], known[-1] + 1)
        return cls(clockwork, first, window_of(x[inside], ok[inside], first, clockwork.m))

    @property
    def last(self) -> int:
        return self.first + self.window.last

    def at(self, c: Ints) -> Floats:
        """What was observed of step c, gaps bridged; not a number outside of the window."""
        i = c - self.first
        inside = (i >= 0) & (i <= self.window.last)
        return np.where(inside, self.window.x[np.clip(i, 0, self.window.last)], np.nan)


def window_of(x: Floats, ok: Bools, first: int, m: int) -> Window:
    """Of steps from ``first`` on, of which the first and the last were observed."""
    return Window(bridged(x, ok, first, DAY_H * m), ok, first % (WEEK_H * m), m)


def whole_days(window: Window, least: int, most: int) -> tuple[int, Window]:
    """What it says up to the last midnight (UTC), of ``most`` days, and which of its steps that begins with.

    It is the same until the next one, whatever comes meanwhile. Of fewer than ``least`` days it is the window itself.
    """
    end = len(window.x) - (window.phase + len(window.x)) % window.d
    since = max(0, end - most * window.d)
    known = since + np.flatnonzero(window.ok[since:end])
    if len(known) < least * window.d:
        return 0, window
    inside = slice(known[0], known[-1] + 1)
    return int(known[0]), window_of(window.x[inside], window.ok[inside], window.phase + int(known[0]), window.m)


def bridged(x: Floats, ok: Bools, first: int, d: int) -> Floats:
    """Gaps filled, for means and lags to reckon with: the mean of the time of day, shifted as its neighbours are."""
    if ok.all():
        return x
    i = np.arange(len(x))
    slot = (first + i) % d
    counts = np.bincount(slot[ok], minlength=d)
    sums = np.bincount(slot[ok], x[ok], minlength=d)
    usual = np.where(counts > 0, sums / np.maximum(counts, 1), x[ok].mean())[slot]
    return np.where(ok, x, usual + np.interp(i, i[ok], (x - usual)[ok]))
