"""The main job in half a minute: the real service, store, API and client, on simulated GPUs and a replayed day.

Each region gets a service of its own with two simulated A40s. A training thread uses the real client over the real
socket; how fast it trains is what the simulated cards do at the limit that the service put in force. The clock moves
with its steps: on a busy machine the day takes longer, and is the same day.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import logging
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import ClassVar, Self, TextIO

import structlog

from chase.client import Job
from chase.clock import ScaledClock
from chase.config import Loaded, RegionConfig, SourceConfig, load, profile_path
from chase.demo.report import report
from chase.service import Service
from zeus_core.gpus.simulated import SimulatedGpu, SimulatedSystem, load_profile

REGIONS = ("gb", "us-cal-ciso")
DAY = datetime(2023, 6, 14, tzinfo=UTC)
PROFILE = "a40-resnet50"
_HISTORY = timedelta(days=7)
_HOUR = timedelta(hours=1)
_FULL_POWER_H = 22.0  # of work
_SLOWDOWN = 0.05
_SLEEP_S, _LONGEST_S = 0.001, 0.004  # real ones, of a step of training
# Simulated seconds: measuring takes the first hours, the rest of the day is what the frontier is for. A report takes
# some real milliseconds, which are many simulated ones: against more frequent reports that would look like stalls.
_SETTINGS = {
    "control.gpus": "simulated",
    "control.interval_s": 240.0,
    "control.account_s": 300.0,
    "control.heartbeat_s": 86400.0,
    "control.ramp_w_per_s": 0.0,
    "simulated.profile": PROFILE,
    "profile.window_s": 1200.0,
    "profile.points": 5,
    "profile.drift_s": 86400.0,
    "jobs.report_s": 240.0,
    "jobs.lease_s": 86400.0,
    "policy.dwell_s": 1800.0,
    "policy.max_slowdown": _SLOWDOWN,
}


def run(out: TextIO, *, folder: Path | None = None, seconds: float = 25.0, regions: tuple[str, ...] = REGIONS) -> int:
    """Show it on ``out``. One simulated day takes ``seconds``; databases stay in ``folder``. Exit status."""
    folder = folder or Path(tempfile.mkdtemp(prefix="chase-demo-"))
    rate = 86400.0 / seconds
    out.write(
        f"chase demo: SIMULATED GPUs and a typical day's grid; service, store, API and client are the real ones.\n"
        f"A job of {_FULL_POWER_H:g} hours at full power may take {_SLOWDOWN:.0%} longer, in {' and '.join(regions)} at"
        f" once; a day passes in about {seconds:.0f} seconds ...\n"
    )
    out.flush()
    # A process each, as on two nodes: in one, two services and two trainers would wait for one interpreter lock.
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    with ProcessPoolExecutor(len(regions), mp_context=context, initializer=_begin, initargs=(stop,)) as pool:
        days = [pool.submit(_one_day, region, folder, rate) for region in regions]
        try:
            results = [day.result() for day in days]
        except BaseException:
            stop.set()  # the services give their GPUs back, and end
            raise
    out.writelines(text for text, _ in results)
    out.write("\nNothing above is a measurement of real hardware. On a real node: see 'Quick start' in the README.\n")
    return 0 if all(given_back for _, given_back in results) else 1


def _begin(stop: Event) -> None:
    """In a process of a region. A Ctrl-C at the terminal reaches it, too, and is the parent's to tell."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _Day.stop = stop


def _one_day(region: str, folder: Path, rate: float) -> tuple[str, bool]:
    """What is to be said of a region's day, and whether its GPUs were given back."""
    with _quiet(folder / f"{region}.log"), _Day(region, folder, rate) as day:
        day.wait()
    text = io.StringIO()
    report(day, text)
    return text.getvalue(), day.given_back


class _Day:
    """One region's service and its training job, from midnight on, until it is done or ``stop`` is set."""

    stop: ClassVar[Event]

    def __init__(self, region: str, folder: Path, rate: float) -> None:
        # A Unix socket's path is short, whatever folder the database is in.
        self._run_dir = Path(tempfile.mkdtemp(prefix="chase-"))
        self.loaded = _configuration(region, folder, self._run_dir)
        self.region: RegionConfig = self.loaded.region
        self.db = self.loaded.config.service.db_path
        self.clock = TrainingClock(DAY, rate)
        system = SimulatedSystem(load_profile(profile_path(PROFILE)), 2, seed=1, monotonic=self.clock.monotonic)
        self.gpus: tuple[SimulatedGpu, ...] = system.gpus()  # type: ignore[assignment]
        self.originals = [gpu.power_limit_w() for gpu in self.gpus]
        self.service = Service(self.loaded, clock=self.clock, system=system)
        self.job_id = ""
        self._trainer = threading.Thread(target=self._train, name=f"train {region}")

    def __enter__(self) -> Self:
        self.service.startup()
        self._trainer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._trainer.join()
        self.service.shutdown()
        shutil.rmtree(self._run_dir, ignore_errors=True)

    def wait(self) -> None:
        self._trainer.join()

    @property
    def given_back(self) -> bool:
        return [gpu.power_limit_w() for gpu in self.gpus] == self.originals

    def _train(self) -> None:
        """What a training loop does, with the GPU's speed in place of the GPU."""
        units = sum(gpu.rate_at(gpu.power_limit_w()) for gpu in self.gpus) * _FULL_POWER_H * 3600
        with contextlib.ExitStack() as stack:
            for gpu in self.gpus:
                gpu.occupy(os.getpid(), os.getuid())
                stack.callback(gpu.vacate, os.getpid())
            job = stack.enter_context(
                Job(
                    "resnet50",
                    units="samples",
                    total_units=units,
                    gpus=[gpu.uuid for gpu in self.gpus],
                    socket=self.loaded.config.service.socket_path,
                    env={},
                )
            )
            self.job_id = job.id
            self._steps(job, units)

    def _steps(self, job: Job, units: float) -> None:
        owed, last_s = 0.0, time.monotonic()
        while job.units_done < units and not self.stop.is_set():
            time.sleep(_SLEEP_S)
            now_s = time.monotonic()
            owed += sum(gpu.rate() for gpu in self.gpus) * self.clock.run(min(now_s - last_s, _LONGEST_S))
            last_s = now_s
            job.step(int(owed))
            owed -= int(owed)


class TrainingClock(ScaledClock):
    """Stands still while training does: a thread that waits for a busy machine is no slow GPU."""

    def __init__(self, start: datetime, rate: float) -> None:
        super().__init__(start, rate)
        self._passed_s = 0.0

    def monotonic(self) -> float:
        return self._passed_s

    def run(self, real_s: float) -> float:
        """Let so much of real time pass; as simulated seconds."""
        seconds = real_s * self.rate
        self._passed_s += seconds
        return seconds


def _configuration(region: str, folder: Path, run_dir: Path) -> Loaded:
    # The simulated GPUs of both regions have the same names, so each region keeps its originals in a place of its own.
    settings = {**_SETTINGS, "service.state_dir": folder / region, "service.run_dir": run_dir}
    loaded = load(region=region, overrides={**settings, "service.db": folder / f"{region}.sqlite"}, env={})
    trace = folder / f"{region}.csv"
    source = SourceConfig(
        provider="file",
        zone=region,
        options={"path": str(trace), "scope": loaded.region.scope, "kind": "typical"},
    )
    _write_trace(trace, loaded.region)
    return dataclasses.replace(loaded, region=loaded.region.model_copy(update={"sources": (source,)}))


def _write_trace(path: Path, region: RegionConfig) -> None:
    """The region's typical profile as the file that its source reads: a week of history, the day, and one more."""
    assert region.typical is not None  # noqa: S101  every shipped region has one
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["start", "end", "g_per_kwh"])
        at = DAY - _HISTORY
        while at < DAY + timedelta(days=2):
            rows.writerow([at.isoformat(), (at + _HOUR).isoformat(), region.typical.at(at.month, at.hour)])
            at += _HOUR


@contextlib.contextmanager
def _quiet(path: Path) -> Iterator[None]:
    """The services' own talk goes to a file beside the databases."""
    before = structlog.get_config()
    with path.open("w") as file:
        structlog.configure(
            processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer()],
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            logger_factory=structlog.PrintLoggerFactory(file=file),
            cache_logger_on_first_use=False,
        )
        try:
            yield
        finally:
            structlog.configure(**before)
