"""What one window of the past says of a step to come: its usual value, and how today departs from what is usual.

Notation (i, t, k count steps of the window; numpy arrays are float64):

    m           steps an hour; d = 24 m steps a day, w = 7 d a week
    x   (n,)    intensity of each step, g/kWh, gaps bridged; n <= 28 d
    t   (r,)    the origin, the last step known; k the lead: x[t + k] is wanted; h = k / m the lead in hours
    c   (r,)    the usual value of step t + k, seen from t: a mean of the same time of yesterday, of the last 7 and 28
                days, and of the same weekday's; o (r,) the same of step t itself
    b   (r,)    the base: c + rho(h) (x[t] - o), the usual value and what will be left of today's departure from it
    a   (n,)    departure of each step from the mean of its time of day over the 7 and the 28 days before
    X   (r, p)  columns that may tell what the base misses: the change that it expects, departures of today, of the last
                days from the last weeks, the hour and the weekday, and products of today's and the hour

Means take as many days as the window has; nothing looks past t.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

DAY_H, WEEK_H, WINDOW_H = 24, 168, 672

# Weights of the usual value (the 7-day mean has the rest) and rho, by lead in hours. Set on six grids of 2022 and on
# January and February 2023: before the months that benchmarks/forecast.py judges.
_LEAD_H = np.array([0.0, 3.0, 6.0, 12.0, 24.0, 48.0, 96.0, 168.0])
_YESTERDAY = np.array([0.13, 0.20, 0.27, 0.35, 0.35, 0.15, 0.10, 0.10])
_MONTH = np.array([0.35, 0.30, 0.27, 0.20, 0.10, 0.10, 0.10, 0.10])
_WEEKDAY = np.array([0.20, 0.20, 0.22, 0.22, 0.22, 0.28, 0.35, 0.35])
_RHO = np.array([1.00, 0.90, 0.75, 0.50, 0.35, 0.25, 0.15, 0.05])


@dataclass(frozen=True)
class Window:
    """``ok`` (n,) says which steps were observed. ``phase`` counts the steps from a Thursday 00:00 UTC to ``x[0]``."""

    x: Floats
    ok: Bools
    phase: int
    m: int = 1

    @property
    def d(self) -> int:
        return DAY_H * self.m

    @property
    def w(self) -> int:
        return WEEK_H * self.m

    @property
    def last(self) -> int:
        return len(self.x) - 1

    def hour(self, i: Ints) -> Ints:
        """Of the day, UTC, for steps within the window or after it."""
        return (self.phase + i) % self.d // self.m

    def daily(self, i: Ints, days: int) -> Floats:
        """Mean of steps i, i - d, ..., as many of ``days`` as there are; of the whole window where there is none."""
        return self._before(self._daily[days], i)

    def weekly(self, i: Ints, *, or_daily: Ints) -> Floats:
        """Mean of steps i, i - w and i - 2 w, or where the window has no such weekday yet of yesterday's step."""
        return self._before(self._weekly, np.where(i >= 0, i, or_daily))

    def level(self, t: Ints, days: int) -> Floats:
        """Mean of the ``days`` up to step t."""
        return self._before(self._levels[days], t)

    @cached_property
    def departures(self) -> Floats:
        """(n, q) today's part of X: from the same time of day of 1, 7 and 28 days, and how a has changed of late."""
        t = np.arange(len(self.x))
        usual = [self.daily(t - self.d, days) for days in (1, 7, 28)]
        a = self.x - (usual[1] + usual[2]) / 2
        lags = sorted({1, 2, 3, *(hours * self.m for hours in (1, 2, 3, 6, 12))})
        changes = [a - a[np.maximum(t - lag, 0)] for lag in lags]
        return np.stack([self.x - mean for mean in usual] + changes, axis=1)

    @cached_property
    def waves(self) -> tuple[Floats, Floats]:
        """Of each step of the day, (d, 6), and of each of the week, (w, 4)."""
        return _waves(self.d, 3), _waves(self.w, 2)

    @cached_property
    def _daily(self) -> dict[int, Floats]:
        return {days: _means(self.x, self.d, days) for days in (1, 7, 28)}

    @cached_property
    def _weekly(self) -> Floats:
        return _means(self.x, self.w, 3)

    @cached_property
    def _levels(self) -> dict[int, Floats]:
        return {days: _means(self.x, 1, days * self.d) for days in (1, 3, 7, 28)}

    @cached_property
    def _overall(self) -> float:
        return float(self.x.mean())

    def _before(self, means: Floats, i: Ints) -> Floats:
        return np.where(i >= 0, means[np.maximum(i, 0)], self._overall)


def _means(x: Floats, stride: int, count: int) -> Floats:
    """(n,) of x[i], x[i - stride], ..., ``count`` of them or as many as there are."""
    sums = x.cumsum() if stride == 1 else _running(x, stride)
    reach = count * stride
    total = sums.copy()
    total[reach:] -= sums[:-reach]
    return total / np.minimum(np.arange(len(x)) // stride + 1, count)


def _running(x: Floats, stride: int) -> Floats:
    """s[i] = x[i] + x[i - stride] + x[i - 2 stride] + ..."""
    sums = x.copy()
    for i in range(stride, len(x), stride):
        part = sums[i : i + stride]
        part += sums[i - stride : i - stride + len(part)]
    return sums


def remaining(h: Floats) -> Floats:
    """The share rho of a departure that is left after so many hours."""
    return along(h, _LEAD_H, _RHO)


def along(h: Floats, leads_h: Floats, values: Floats) -> Floats:
    """Of values at some leads, the straight line between them; the first before, the last after."""
    found: Floats = np.interp(h, leads_h, values)
    return found


def base(window: Window, t: Ints, k: Ints) -> Floats:
    """b, (r,), of origins t and leads k, which broadcast."""
    h = k / window.m
    yesterday, month, weekday = (along(h, _LEAD_H, weight) for weight in (_YESTERDAY, _MONTH, _WEEKDAY))

    def usual(day: Ints, week: Ints) -> Floats:
        rest = 1 - yesterday - month - weekday
        days = yesterday * window.daily(day, 1) + rest * window.daily(day, 7) + month * window.daily(day, 28)
        return days + weekday * window.weekly(week, or_daily=day)

    there = usual(alike(t, k, window.d), alike(t, k, window.w))
    return there + remaining(h) * (window.x[t] - usual(t - window.d, t - window.w))


def design(window: Window, t: Ints, k: Ints) -> Floats:
    """X, (r, p), of origins t and leads k, which broadcast; its last ``CALENDAR`` columns depend on the time alone."""
    t, k = np.broadcast_arrays(t, k)
    today, target = window.departures[t], window.phase + t + k
    day, week = window.waves[0][target % window.d], window.waves[1][target % window.w]
    crossed = [today[:, [column]] * day[:, :4] for column in (1, 3)]
    change = (base(window, t, k) - window.x[t])[:, None]
    return np.concatenate([change, today, _levels(window, t, k), *crossed, np.ones((len(t), 1)), day, week], axis=1)


CALENDAR = 11


def _levels(window: Window, t: Ints, k: Ints) -> Floats:
    """(r, 7) the usual values against the 7-day one, and the last days' level against the last week's."""
    day, week = alike(t, k, window.d), alike(t, k, window.w)
    shapes = (window.daily(day, 1), window.daily(day, 28), window.weekly(week, or_daily=day))
    levels = (window.level(t, 1), window.level(t - window.d, 1), window.level(t, 3), window.level(t, 28))
    usual, level = window.daily(day, 7), window.level(t, 7)
    return np.stack([shape - usual for shape in shapes] + [other - level for other in levels], axis=1)


def alike(t: Ints, k: Ints, stride: int) -> Ints:
    """The last step up to t at the time of day, or of the week, of step t + k."""
    return t + k - stride * -(-k // stride)


def _waves(length: int, count: int) -> Floats:
    """(length, 2 count): sine and cosine of 1, 2, ... turns."""
    turns = 2 * np.pi * np.outer(np.arange(length) / length, np.arange(1, count + 1))
    return np.stack([np.sin(turns), np.cos(turns)], axis=2).reshape(length, -1)
