"""How long a job-year takes through the real controller and a real SQLite file, at a tick an hour and one in 5 minutes.

    python benchmarks/replay_speed.py [--days 363] [--policies threshold budget] [--only HOW ...] [--directory DIR]

``ticks`` is the controller alone: a report, a tick and the rows of both, with a value of the grid each hour that costs
nothing to learn. It runs without an actuator, with that of a replay (``cards``) and with the one that sets real GPUs
(``local``). ``replay`` is a whole cell as ``chase replay`` runs it: polls, forecast (persistence) and accounts. One
job on one simulated A40, on a made-up grid. Times are of the process's CPUs, so that a busy machine says nearly the
same; the writer's thread is in them. Exit status 1 when a year takes longer than it may: 1 s hourly and 10 s in steps
of 5 minutes.
"""

from __future__ import annotations

import argparse
import csv
import math
import platform
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chase.clock import ManualClock
from chase.config import RegionConfig, load
from chase.controller import Controller
from chase.events import EventLog
from chase.jobs import Peer, Registration
from chase.replay.cards import Cards
from chase.replay.cell import Cell
from chase.replay.feed import Feed, Publication
from chase.replay.forecasts import forecaster_of
from chase.replay.profiles import profile_of
from chase.replay.run import run_cell
from chase.replay.trace import load_trace
from chase.signal import GridSignal, Limits
from chase.store import Store, Tuning
from zeus_core.actuation.base import Actuator
from zeus_core.actuation.local import LocalActuator
from zeus_core.gpus.simulated import SimulatedSystem

START = datetime(2023, 1, 1, tzinfo=UTC)
HOUR_S, FIVE_MINUTES_S = 3600.0, 300.0
LIMIT_S = {HOUR_S: 1.0, FIVE_MINUTES_S: 10.0}
YEAR_S = 365 * 86400.0
PROFILE = "a40-resnet50"
OWNER = Peer(1000, 4321)
KINDS = ("none", "cards", "local")
WARM_DAYS = 2.0


@dataclass(frozen=True)
class Measured:
    """What ``ticks`` ticks took, with all that is written on the disk."""

    what: str
    step_s: float
    ticks: int
    cpu_s: float
    wall_s: float
    rows: str

    @property
    def year_s(self) -> float:
        return self.cpu_s / self.ticks * YEAR_S / self.step_s

    @property
    def fits(self) -> bool:
        return self.year_s <= LIMIT_S[self.step_s]

    def line(self) -> str:
        us, wall_us = (1e6 * seconds / self.ticks for seconds in (self.cpu_s, self.wall_s))
        allowed = f"{self.year_s:7.2f} s of {LIMIT_S[self.step_s]:4.0f} s{'' if self.fits else '  TOO LONG'}"
        return f"{self.what:28} {self.step_s:5.0f} s {us:8.0f} {wall_us:8.0f}  {allowed:24} {self.rows}"


def ticks(kind: str, policy: str, step_s: float, days: float, *, trace: Path, folder: Path) -> Measured:
    """Report and tick, and nothing else, until the rows of all of them are in the file."""
    with ExitStack() as stack:
        bench = Bench(kind, policy, trace, folder, stack)
        bench.run(HOUR_S, WARM_DAYS)
        cpu_s, wall_s, count = bench.run(step_s, days)
        rows = bench.rows()
    return Measured(f"ticks, {policy}, {kind}", step_s, count, cpu_s, wall_s, rows)


class Bench:
    """A controller and what is around it. The signal is asked outside of what is measured."""

    def __init__(self, kind: str, policy: str, trace: Path, folder: Path, stack: ExitStack) -> None:
        self.clock = ManualClock(START + timedelta(days=8))
        self.path = folder / "ticks.sqlite"
        profile, said = profile_of(PROFILE), Publication(load_trace(trace), 0.0, 0.0)
        system = SimulatedSystem(profile, 1, monotonic=self.clock.monotonic)
        self.card = system.cards[0]
        self.store = Store(self.path, clock=self.clock, tuning=Tuning(linger_s=5.0, patience_s=60.0))
        stack.callback(self.store.close, 60.0)
        settings = {"policy.name": policy, "service.state_dir": folder, "service.run_dir": folder}
        loaded = load(region="gb", overrides={**settings, "jobs.lease_s": 1e6}, env={})
        self.signal = GridSignal(
            "test",
            [Feed(said, self.clock.now)],
            clock=self.clock,
            limits=Limits.of(loaded.config.signal),
            store=self.store,
            forecaster=forecaster_of(said, "persistence", None),
        )
        self.controller = Controller(
            config=loaded.config,
            system=system,
            actuator=self._actuator(kind, system, folder),
            regions={"test": region()},
            signals={"test": self.signal},
            store=self.store,
            clock=self.clock,
            events=EventLog(self.store, self.clock, aloud=False),
            observe_reason="nothing is set",
        )
        self.card.occupy(OWNER.pid, OWNER.uid)
        self.signal.poll()
        wanted = Registration(id="0" * 16, name="bench", gpus=(self.card.uuid,), total_units=1e12, profile=PROFILE)
        self.job = self.controller.register(wanted, OWNER)

    def run(self, step_s: float, days: float) -> tuple[float, float, int]:
        """Seconds of CPU and of the wall clock, and how many ticks."""
        self.store.flush(60.0)
        count, done, polls_s = round(days * 86400.0 / step_s), self.job.units_done, [0.0, 0.0]
        began = clocks()
        for _ in range(count):
            done += self.card.rate() * step_s
            self.clock.advance(step_s)
            if self.clock.now().minute == 0:
                before = clocks()
                self.signal.poll()
                polls_s = [total + after - b for total, after, b in zip(polls_s, clocks(), before, strict=True)]
            self.controller.report(self.job.id, OWNER, done)
            self.controller.tick()
        if not self.store.flush(60.0):
            raise SystemExit("the store did not get done")
        cpu_s, wall_s = (end - start - polls for start, end, polls in zip(began, clocks(), polls_s, strict=True))
        return cpu_s, wall_s, count

    def rows(self) -> str:
        return f"{len(self.store.decisions())} decisions, {len(self.store.intervals())} intervals, {size(self.path)}"

    def _actuator(self, kind: str, system: SimulatedSystem, folder: Path) -> Actuator | None:
        if kind == "none":
            return None
        if kind == "cards":
            return Cards(system.cards)
        places = {"state_dir": folder / "state", "lock_dir": folder / "locks"}
        return LocalActuator(system, **places, monotonic=self.clock.monotonic)


def replayed(policy: str, step_s: float, days: float, *, trace: Path, folder: Path) -> Measured:
    """A cell, whole."""
    settings = {"max_slowdown": 0.02} if policy == "budget" else {}
    cell = Cell(
        trace=str(trace),
        profile=PROFILE,
        start=START + timedelta(days=8),
        days=days,
        policy=policy,
        settings=settings,
        forecast="persistence",
        interval_s=step_s,
    )
    run_cell(replace(cell, days=WARM_DAYS))
    path, began = folder / "replay.sqlite", clocks()
    result = run_cell(cell, db=path)
    cpu_s, wall_s = (end - start for start, end in zip(began, clocks(), strict=True))
    rows = f"{result.decisions} decisions, {size(path)}"
    return Measured(f"replay, {policy}", step_s, result.ticks, cpu_s, wall_s, rows)


def clocks() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


def size(path: Path) -> str:
    conn = sqlite3.connect(path)
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    conn.close()
    return f"{path.stat().st_size / 1e6:.1f} MB"


def region() -> RegionConfig:
    fixed = {"time_zone": "UTC", "signal": "average", "scope": "direct", "currency": "EUR"}
    return RegionConfig(id="test", name="Test", sources=(), pue=1.2, **fixed)


def grid(path: Path, hours: int) -> Path:
    """Days with two peaks, weeks, and weather of three days; from 120 to 480 g/kWh."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["start", "g_per_kwh"])
        for hour in range(hours):
            day, week, weather = (2 * math.pi * hour / period for period in (24, 168, 71))
            value = 300 + 60 * math.sin(day) + 40 * math.sin(2 * day) + 20 * math.sin(week) + 50 * math.sin(weather)
            rows.writerow([(START + timedelta(hours=hour)).isoformat(), f"{value:.1f}"])
    return path


def measured(options: argparse.Namespace, folder: Path) -> Iterator[Measured]:
    trace = grid(folder / "grid.csv", round(24 * (options.days * 1.1 + 20)))
    for policy in options.policies:
        for step_s in LIMIT_S:
            for kind in KINDS:
                if kind in options.only:
                    with tempfile.TemporaryDirectory(dir=folder) as place:
                        yield ticks(kind, policy, step_s, options.days, trace=trace, folder=Path(place))
            if "replay" in options.only:
                with tempfile.TemporaryDirectory(dir=folder) as place:
                    yield replayed(policy, step_s, options.days, trace=trace, folder=Path(place))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=363.0)
    parser.add_argument("--policies", nargs="+", default=["threshold", "budget"])
    parser.add_argument("--only", nargs="+", default=[*KINDS, "replay"], choices=[*KINDS, "replay"])
    parser.add_argument("--directory", type=Path, help="where the databases are made (default: the temporary one)")
    options = parser.parse_args(arguments)
    print(f"Python {platform.python_version()}, {options.days:g} days; a year at that pace")
    print(f"{'':28} {'step':>7} {'us CPU':>8} {'us wall':>8}  {'a year, and the limit':24}")
    good = True
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        for found in measured(options, Path(directory)):
            print(found.line(), flush=True)
            good &= found.fits
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
