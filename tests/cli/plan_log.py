"""Databases whose last decisions have plans, made by the real policy and the real store."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from chase.clock import ManualClock
from chase.horizon import Horizon
from chase.policy import Grid, PolicyInput, Progress, Rules, choose
from chase.recording import decision
from chase.records import JobRecord
from chase.store import Store
from zeus_core.frontier import Frontier, OperatingPoint, Setting

AT = datetime(2026, 3, 1, 10, 20, tzinfo=UTC)
JOB = "ac" * 16
# A40, ResNet-50, batch 128: limit W, seconds per epoch, mean W (Zeus NSDI'23 traces).
A40 = [(300, 3739.5, 244.3), (275, 3777.3, 230.8), (250, 3804.2, 216.2), (225, 3862.4, 198.4), (200, 3992.4, 179.2)]
FRONTIER = Frontier.of(OperatingPoint(Setting(power_limit_w=float(w)), s, s * p) for w, s, p in A40)


def horizon(hours: int = 72, *, unit: str = "gCO2eq", scale: float = 1.0, by_day: float = 90.0) -> Horizon:
    """The rest of the running hour, and then hour by hour over days."""
    seconds = np.full(hours, 3600.0)
    seconds[0] = 2400.0
    price = np.array([200.0 + by_day * math.sin(2 * math.pi * (hour + 2) / 24) for hour in range(hours)]) * scale
    return Horizon.of(seconds, price, 0.9 * price, 1.2 * price, unit=unit)


def budget(**changes: object) -> PolicyInput:
    """20 epochs to do, 4 done, 2 minutes of the slack used."""
    grid = Grid(g_per_kwh=245.0, kind="measured", source="neso", age_s=60.0, freshness="fresh")
    grid = replace(grid, efficiency_above_g=240.0, speed_below_g=160.0, reference_g=290.0)
    given = PolicyInput(
        frontier=FRONTIER,
        rules=Rules(name="budget", max_slowdown=0.05),
        grid=grid,
        max_power_w=300.0,
        progress=Progress(units_left=20.0, units_done=4.0, delay_s=120.0),
        horizon=horizon(),
        host_w=60.0,
    )
    return replace(given, **changes)


def job(**changes: object) -> JobRecord:
    at = AT - timedelta(hours=4)
    made = JobRecord(
        id=JOB,
        name="resnet",
        uid=1000,
        pid=4242,
        gpus=("GPU-1",),
        units="epochs",
        region="gb",
        registered_at=at,
        total_units=24.0,
        units_done=4.0,
    )
    return replace(made, **changes)


def fill(path: Path, given: PolicyInput | None, record: JobRecord | None = None) -> Path:
    """A job and, if there is an input for it, the decision that it leads to."""
    store = Store(path, clock=ManualClock(AT))
    record = record or job()
    store.upsert_job(record)
    if given is not None:
        facts = {"why": "signal", "given": given, "choice": choose(given), "applied": {}, "control": "control"}
        store.add_decision(decision(at=AT, job_id=record.id, **facts))
    store.close()
    return path
