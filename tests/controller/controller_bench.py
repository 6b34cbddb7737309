"""A controller over simulated cards, a manual clock and a real database; what surrounds it is real too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from chase.clock import ManualClock
from chase.config import RegionConfig, load, profile_path
from chase.controller import Controller
from chase.events import EventLog
from chase.jobs import Job, Peer, Registration
from chase.prices import PriceFeed
from chase.signal import GridSignal, Limits
from chase.store import Store
from providers.base import (
    Boundary,
    Capabilities,
    IntensityPoint,
    Kind,
    PriceProvider,
    Scope,
    Series,
    Signal,
    Transient,
)
from zeus_core.actuation.local import LocalActuator
from zeus_core.gpus.simulated import SimulatedGpu, SimulatedSystem, load_profile

START = datetime(2026, 3, 2, tzinfo=UTC)
CLEAN, MIDDLE, DIRTY = 100.0, 250.0, 500.0
OWNER = Peer(1000, 4321)


@dataclass
class Grid:
    """A source that says one value for the hour, or fails."""

    clock: ManualClock
    g_per_kwh: float | None = CLEAN
    name: str = "fake-grid"
    zone: str = "XX"
    capabilities: Capabilities = field(
        default_factory=lambda: Capabilities(observed=True, forecast=False, step_s=3600, poll_s=1)
    )

    def observe(self, start: datetime, end: datetime) -> Series:
        if self.g_per_kwh is None:
            raise Transient("the grid is silent")
        at = self.clock.now().replace(minute=0, second=0, microsecond=0)
        return Series.of(
            [
                IntensityPoint(
                    zone="XX",
                    start=at,
                    end=at + timedelta(hours=1),
                    g_per_kwh=self.g_per_kwh,
                    kind=Kind.MEASURED,
                    signal=Signal.AVERAGE,
                    scope=Scope.DIRECT,
                    boundary=Boundary.PRODUCTION,
                    source=self.name,
                    fetched_at=self.clock.now(),
                )
            ]
        )

    def forecast(self, start: datetime, end: datetime) -> Series:
        return Series()

    def close(self) -> None: ...


class Bench:
    """The controller and everything around it, with the passing of time in the test's hand."""

    def __init__(
        self,
        folder: Path,
        *,
        actuate: bool = True,
        gpus: int = 2,
        grid: Callable[[ManualClock], Grid] = Grid,
        prices: PriceProvider | None = None,
        **settings: Any,
    ) -> None:
        self.clock = ManualClock(START)
        defaults = {
            "policy.efficiency_above": 300.0,
            "policy.speed_below": 200.0,
            "policy.dwell_s": 0.0,
            "control.ramp_w_per_s": 0.0,
            "service.state_dir": folder,
            "service.run_dir": folder,
        }
        overrides = {**defaults, **{key.replace("__", "."): value for key, value in settings.items()}}
        policy = folder / "policy.toml"  # a file, so that a job may wish for another
        policy.write_text('[policy]\nname = "threshold"\n')
        self.loaded = load(service_file=policy, region="gb", overrides=overrides, env={})
        region = RegionConfig(
            id="test",
            name="Test",
            time_zone="UTC",
            signal="average",
            scope="direct",
            currency="EUR",
            sources=(),
            pue=1.2,
        )
        self.system = SimulatedSystem(load_profile(profile_path("a40-resnet50")), gpus, monotonic=self.clock.monotonic)
        self.gpus: tuple[SimulatedGpu, ...] = self.system.gpus()
        self.store = Store(folder / "chase.sqlite", clock=self.clock)
        self.events = EventLog(self.store, self.clock)
        self.grid = grid(self.clock)
        self.signal = GridSignal("test", [self.grid], clock=self.clock, limits=Limits(), store=self.store)
        self.prices = PriceFeed(
            "test", [prices] if prices else [], currency="EUR", time_zone="UTC", clock=self.clock, store=self.store
        )
        self.actuator = (
            LocalActuator(
                self.system, state_dir=folder / "act", lock_dir=folder / "locks", monotonic=self.clock.monotonic
            )
            if actuate
            else None
        )
        self.controller = Controller(
            config=self.loaded.config,
            system=self.system,
            actuator=self.actuator,
            regions={"test": region},
            signals={"test": self.signal},
            prices={"test": self.prices} if prices else {},
            store=self.store,
            clock=self.clock,
            events=self.events,
            observe_reason="" if actuate else "a test observes",
        )
        self._jobs: dict[str, Job] = {}

    def register(self, *gpus: int, job_id: str = "a" * 16, peer: Peer = OWNER, **more: Any) -> Job:
        """A job on GPUs by index, working at what the cards give."""
        more.setdefault("profile", "a40-resnet50")
        more = {"name": "train", **more}
        wanted = Registration(id=job_id, gpus=tuple(self.gpus[i].uuid for i in gpus), **more)
        job = self.controller.register(wanted, peer)
        self._jobs[job.id] = job
        for index in gpus:
            self.gpus[index].occupy(peer.pid, peer.uid)
        return job

    def run(self, seconds: float, *, step_s: float = 5.0, report: bool = True) -> None:
        """Let time pass: jobs train and report, the grid is polled, the controller ticks."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            self.clock.advance(step_s)
            if report:
                self.report(step_s)
            self.signal.poll()
            self.prices.poll()
            self.controller.tick()

    def report(self, seconds: float) -> None:
        by_uuid = {gpu.uuid: gpu for gpu in self.gpus}
        for job in self._jobs.values():
            if job in self.controller.jobs:
                units = job.units_done + sum(by_uuid[uuid].rate() for uuid in job.gpus) * seconds
                self.controller.report(job.id, Peer(job.uid, job.pid), units)

    @property
    def limits(self) -> list[float]:
        return [gpu.power_limit_w() for gpu in self.gpus]

    def decisions(self) -> list[Any]:
        return self.store.decisions()

    def codes(self) -> list[str]:
        return [event.code for event in self.store.events()]

    def close(self) -> None:
        self.controller.close()
        self.store.close()
