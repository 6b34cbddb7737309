"""Records to store, and ways to look at a file without the code under test."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chase.records import DecisionRecord, EventRecord, HoldRecord, IntervalRecord, JobRecord
from providers.base import Boundary, IntensityPoint, Kind, Market, PricePoint, Scope, Signal
from zeus_core.frontier import Frontier, Setting, Window

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[2]

JOB = JobRecord(
    id="a1b2c3d4",
    name="train",
    uid=1000,
    pid=4242,
    gpus=("GPU-1", "GPU-2"),
    units="steps",
    region="gb",
    registered_at=T0,
    total_units=1e6,
    policy={"name": "threshold", "efficiency_above": "p60"},
)
DECISION = DecisionRecord(
    at=T0,
    job_id=JOB.id,
    trigger="signal",
    mode="efficiency-first",
    policy="threshold",
    code="above",
    reason="212 g/kWh is above 200",
    power_limit_w=200.0,
    intensity_g_per_kwh=212.4,
    intensity_kind="measured",
    intensity_age_s=600.5,
    inputs={"grid": {"g_per_kwh": 212.4}, "current": None},
    choice={"setting": {"power_limit_w": 200.0}, "candidates": [{"cost": 1.5}]},
    applied={"GPU-1": {"status": "ok", "enforced_w": 200.0}},
    control="control",
)
INTERVAL = IntervalRecord(
    job_id=JOB.id,
    start=T0,
    end=T0 + timedelta(seconds=60),
    units=48.0,
    energy_j=12_000.1,
    method="counter",
    power_limit_w=200.0,
    intensity_g_per_kwh=212.4,
    intensity_kind="measured",
    grams=0.708,
    reference_energy_j=14_400.0,
    reference_s=48.0,
    reference_grams=0.8496,
)
# What a service of today adds to it.
ACCOUNTED = {
    "host_energy_j": 600.0,
    "reference_host_energy_j": 480.0,
    "pue": 1.2,
    "used_intensity_g_per_kwh": 205.5,
    "used_intensity_kind": "estimated",
    "intensity_source": "neso",
    "price_per_kwh": -0.0123,
    "price_kind": "retail",
    "currency": "GBP",
    "cost": -0.02,
    "reference_cost": -0.024,
    "embodied_grams": 0.31,
}
EVENT = EventRecord(at=T0, code="gpu-lost", severity="error", message="GPU-1 is lost", gpu="GPU-1", data={"xid": 79})
HOLD = HoldRecord(mode="speed-first", made_at=T0, uid=1000, until=T0 + timedelta(hours=1))
POINT = IntensityPoint(
    zone="GB",
    start=T0,
    end=T0 + timedelta(minutes=30),
    g_per_kwh=212.4,
    kind=Kind.MEASURED,
    signal=Signal.AVERAGE,
    scope=Scope.DIRECT,
    boundary=Boundary.CONSUMPTION,
    source="neso",
    fetched_at=T0,
)
PRICE = PricePoint(
    zone="GB",
    start=T0,
    end=T0 + timedelta(minutes=30),
    price_per_kwh=-0.0123,
    currency="GBP",
    market=Market.RETAIL,
    source="octopus",
    fetched_at=T0,
    licence="of the supplier",
)
WINDOWS = (
    Window(Setting(300.0), 100.0, 30.0, 9000.0),
    Window(Setting(200.0), 100.0, 33.0, 7000.0),
    Window(Setting(300.0), 90.0, 27.5, 8123.4),
)
FRONTIER = Frontier.fit(WINDOWS, Setting(300.0))


def half_hours(count: int, *, first: int = 0, **changes: object) -> list[IntensityPoint]:
    """``count`` points after one another, each with its own value."""
    return [
        replace(
            POINT,
            start=POINT.start + timedelta(minutes=30 * i),
            end=POINT.end + timedelta(minutes=30 * i),
            **({"g_per_kwh": 100.0 + i} | changes),
        )
        for i in range(first, first + count)
    ]


def rows_of(path: Path, sql: str, *parameters: object) -> list[tuple]:
    """Straight from the file, without the code under test."""
    conn = sqlite3.connect(path)
    try:
        return conn.execute(sql, parameters).fetchall()
    finally:
        conn.close()


def count_of(path: Path, table: str) -> int:
    return rows_of(path, f"SELECT count(*) FROM {table}")[0][0]


def sound(path: Path) -> bool:
    return rows_of(path, "PRAGMA integrity_check") == [("ok",)] and not rows_of(path, "PRAGMA foreign_key_check")


def child(code: str, *arguments: object, **options: object) -> subprocess.Popen[str]:
    """Another process that runs ``code``; its output and input are text pipes."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


HOLDER = """
import sqlite3, sys
conn = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    conn.execute(statement).fetchall()
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def held(path: Path, *statements: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has executed ``statements`` and keeps its connection open."""
    with child(HOLDER, path, *statements) as process:
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.communicate("\n")
