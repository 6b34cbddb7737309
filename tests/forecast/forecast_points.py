"""Histories of made-up grids, as points and as windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import numpy as np

from chase.forecast.window import Window
from providers.base import Boundary, IntensityPoint, Kind, Scope, Signal

START = datetime(2026, 3, 2, tzinfo=UTC)  # a Monday
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def point(
    start: datetime,
    value: float,
    *,
    length: timedelta = HOUR,
    fetched: datetime | None = None,
    issued: datetime | None = None,
    source: str = "test",
) -> IntensityPoint:
    """Observed, or with ``issued`` a forecast."""
    return IntensityPoint(
        zone="XX",
        start=start,
        end=start + length,
        g_per_kwh=value,
        kind=Kind.FORECAST if issued else Kind.MEASURED,
        signal=Signal.AVERAGE,
        scope=Scope.DIRECT,
        boundary=Boundary.PRODUCTION,
        source=source,
        fetched_at=fetched or issued or start + length,
        issued_at=issued,
    )


def history(values: Iterable[float], *, start: datetime = START, length: timedelta = HOUR) -> list[IntensityPoint]:
    return [point(start + i * length, float(value), length=length) for i, value in enumerate(values)]


def wave(hour: float) -> float:
    """A perfect daily wave, 100 to 300 g/kWh."""
    return 200 + 100 * math.sin(2 * math.pi * hour / 24)


def days(count: float, length: timedelta = HOUR, of: Callable[[float], float] = wave) -> list[IntensityPoint]:
    step_h = length / HOUR
    return history((of(i * step_h) for i in range(round(24 * count / step_h))), length=length)


def grid(hours: int, seed: int = 1, *, swing: float = 60.0, noise: float = 8.0) -> np.ndarray:
    """A grid as they are: a daily wave, weekends lower, and weather that comes and goes over a day or so."""
    random = np.random.default_rng(seed)
    weather = np.zeros(hours)
    for i in range(1, hours):
        weather[i] = 0.97 * weather[i - 1] + random.normal(0, noise)
    i = np.arange(hours)
    weekend = np.where(i // 24 % 7 >= 5, -30.0, 0.0)
    return np.maximum(300 + swing * np.sin(2 * np.pi * i / 24) + weekend + weather, 1.0)


def window(x: Iterable[float], *, m: int = 1, phase: int = 0) -> Window:
    values = np.array(list(x), float)
    return Window(values, np.ones(len(values), bool), phase, m)
