"""Small grids and a small card, written as the files that a cell names."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from chase.replay import Cell

START = datetime(2023, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)

# Limit in W, seconds an epoch, mean draw in W: 1.00, 1.02, 1.08, 1.25 and 1.8 times as long as at full power.
SWEEP = ((300, 1000.0, 285.0), (250, 1020.0, 245.0), (200, 1080.0, 198.0), (150, 1250.0, 152.0), (100, 1800.0, 110.0))


def waves(hours: int, *, per_hour: int = 1, level: float = 300.0, swing: float = 150.0) -> list[float]:
    """A day's swing with a slower one under it and a little that looks like noise, never two days alike."""
    times = [i / per_hour for i in range(hours * per_hour)]
    return [
        level
        + swing * math.sin(2 * math.pi * t / 24)
        + 0.3 * swing * math.sin(2 * math.pi * t / 61)
        + 0.1 * swing * math.sin(t * t)
        for t in times
    ]


def trace_file(folder: Path, values: Sequence[float], *, step: timedelta = HOUR, name: str = "XX_2023.csv") -> Path:
    path = folder / name
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["start_utc", "lifecycle_gco2e_per_kwh"])
        rows.writerows([(START + i * step).isoformat(), repr(value)] for i, value in enumerate(values))
    return path


def sweep_file(folder: Path, points: Sequence[tuple[float, float, float]] = SWEEP) -> Path:
    path = folder / "summary_power_toy.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["network", "power_limit", "time_per_epoch", "average_power"])
        rows.writerows(["toy", *point] for point in points)
    return path


def cell(trace: Path, **given: Any) -> Cell:
    """Three days at 5 % from the tenth day on, with perfect foresight, unless told otherwise."""
    profile = sweep_file(trace.parent)
    usual: dict[str, Any] = {
        "trace": str(trace),
        "profile": f"{profile}:network=toy",
        "start": START + timedelta(days=10),
        "days": 3.0,
        "policy": "budget",
        "settings": {"max_slowdown": 0.05},
        "forecast": "perfect",
    }
    return Cell(**{**usual, **given})
