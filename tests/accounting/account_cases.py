"""Jobs with a known account: frontiers, and intervals that follow them exactly."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import strategies as st

from chase import accounting
from chase.records import IntervalRecord
from providers.base import Boundary, IntensityPoint, Kind, Scope, Series, Signal
from zeus_core.frontier import Frontier, OperatingPoint, Setting

T0 = datetime(2026, 1, 1, tzinfo=UTC)
J_PER_KWH = 3.6e6


def point(start_s: float, end_s: float, g_per_kwh: float, kind: Kind = Kind.MEASURED) -> IntensityPoint:
    return IntensityPoint(
        zone="GB",
        start=later(T0, start_s),
        end=later(T0, end_s),
        g_per_kwh=g_per_kwh,
        kind=kind,
        signal=Signal.AVERAGE,
        scope=Scope.LIFECYCLE,
        boundary=Boundary.CONSUMPTION,
        source="file",
        fetched_at=T0,
    )


def series(*points: IntensityPoint) -> Series:
    return Series.of(points)


def frontier(*limit_seconds_joules: tuple[float, float, float]) -> Frontier:
    return Frontier.of(OperatingPoint(Setting(limit), s, j) for limit, s, j in limit_seconds_joules)


# Full power 300 W, 250 W, 200 W: 1.00, 1.05, 1.25 seconds and 300, 252, 240 joules a unit.
THREE = frontier((300.0, 1.0, 300.0), (250.0, 1.05, 252.0), (200.0, 1.25, 240.0))


def booked(start_s: float = 0.0, lasts_s: float = 60.0, **facts: Any) -> IntervalRecord:
    """An interval that began so long after T0; but for ``facts`` what one minute at 200 W would be, at no price."""
    known: dict[str, Any] = {"units": 48.0, "energy_j": 12_000.0, "method": "counter", "power_limit_w": 200.0}
    known |= {"start": later(T0, start_s), "end": later(T0, start_s + lasts_s)}
    return accounting.interval(**({"job_id": "job"} | known | facts))


def later(when: datetime, seconds: float) -> datetime:
    return when + timedelta(seconds=seconds)


def moved(row: IntervalRecord, seconds: float) -> IntervalRecord:
    """The same, so much later."""
    return replace(row, start=later(row.start, seconds), end=later(row.end, seconds))


def close(value: float, scale: float) -> Any:
    """Equal, to the microseconds in which intervals are kept."""
    return pytest.approx(value, rel=1e-6, abs=1e-6 * max(1.0, abs(scale)))


def work(
    frontier: Frontier,
    steps: list[tuple[float, float, float | None]],
    *,
    kind: Kind = Kind.MEASURED,
    pue: float = 1.0,
    **more: Any,
) -> list[IntervalRecord]:
    """Intervals one after the other, each ``(power limit, units, g/kWh)``, exactly as the frontier says."""
    rows, at_s = [], 0.0
    for limit_w, units, g_per_kwh in steps:
        done = next(p for p in frontier.points if p.setting.power_limit_w == limit_w)
        seconds = units * done.seconds_per_unit
        known = series() if g_per_kwh is None else series(point(at_s, at_s + seconds + 1, g_per_kwh, kind))
        facts = {
            "units": units,
            "energy_j": units * done.joules_per_unit,
            "power_limit_w": limit_w,
            "frontier": frontier,
        }
        rows.append(booked(at_s, seconds, series=known, pue=pue, **facts, **more))
        at_s += seconds
    return rows


def standstill(
    start_s: float, seconds: float, energy_j: float, g_per_kwh: float | None = 100.0, **more: Any
) -> IntervalRecord:
    """An interval without progress."""
    known = series() if g_per_kwh is None else series(point(start_s, start_s + seconds, g_per_kwh))
    facts = {"units": 0.0, "energy_j": energy_j, "power_limit_w": 300.0, "series": known, "frontier": THREE}
    return booked(start_s, seconds, **facts, **more)


@st.composite
def frontiers(draw: st.DrawFn) -> Frontier:
    """One to six settings with any times and energies: slower ones may cost more, as measured ones do.

    Times are a microsecond apart at least: between two that differ by rounding alone any energy is the right one.
    """
    count = draw(st.integers(1, 6))
    micros = draw(st.lists(st.integers(500_000, 5_000_000), min_size=count, max_size=count))
    times = [value / 1e6 for value in micros]
    energies = draw(st.lists(st.floats(50.0, 500.0), min_size=count, max_size=count))
    return frontier(*((100.0 + 10.0 * i, times[i], energies[i]) for i in range(count)))


@st.composite
def jobs(draw: st.DrawFn, intensities: st.SearchStrategy[float]) -> tuple[Frontier, list[IntervalRecord]]:
    """A frontier, and intervals at any of its settings under ``intensities``."""
    chosen = draw(frontiers())
    limits = st.sampled_from([p.setting.power_limit_w for p in chosen.points])
    steps = draw(st.lists(st.tuples(limits, st.floats(10.0, 1000.0), intensities), min_size=1, max_size=8))
    return chosen, work(chosen, steps, pue=draw(st.sampled_from([1.0, 1.4])))
