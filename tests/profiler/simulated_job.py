"""A training job on a known curve, in simulated time, and a controller that ticks beside it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from zeus_core.frontier import Setting, Window
from zeus_core.profiler import Profiler, SweepPlan

IDLE_W = 70.0


def curve(seconds: float = 0.1, top_w: float = 300.0) -> Callable[[float], tuple[float, float]]:
    """A smooth A40-like card: (seconds a unit, watts) at a limit. Least energy a unit lies near 170 W."""

    def at(limit_w: float) -> tuple[float, float]:
        share = limit_w / top_w
        return seconds * (0.9 + 0.1 / share**3), 0.93 * limit_w + 5.0

    return at


def sweep_curve(rows: tuple[tuple[float, float, float], ...], units: float) -> Callable[[float], tuple[float, float]]:
    """A measured sweep, each row ``units`` units of work."""
    known = {limit_w: (seconds / units, joules / seconds) for limit_w, seconds, joules in rows}
    return known.__getitem__


@dataclass
class Job:
    """Counters move at the end of a step of ``step_units`` and are reported every ``report_s``.

    Speed is noisy, each second anew, and falls by the share ``slowing`` with every second. While ``paused`` there is no
    progress and the card idles.
    """

    at: Callable[[float], tuple[float, float]]
    noise: float = 0.0
    step_units: float = 0.0103
    slowing: float = 0.0
    seed: int = 0
    now_s: float = 0.0
    joules: float = 0.0
    paused: bool = False
    offset: float = 0.0
    report_s: float = 0.0
    jitter_s: float = 0.0
    reported: float = 0.0
    reported_at_s: float = 0.0
    _units: float = 0.0
    _next_report_s: float = 0.0
    _rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    @property
    def units(self) -> float:
        """As last reported."""
        return self.reported - self.offset

    def run(self, seconds: float, limit_w: float) -> None:
        while seconds > 1e-9:
            dt = min(1.0, seconds)
            seconds -= dt
            self.now_s += dt
            self._work(dt, limit_w)
            if self.now_s >= self._next_report_s:
                self._next_report_s = self.now_s + self.report_s + self._rng.uniform(-self.jitter_s, self.jitter_s)
                self.reported = self._units // self.step_units * self.step_units
                self.reported_at_s = self.now_s

    def restart_counter(self) -> None:
        self.offset = self.reported

    def _work(self, dt: float, limit_w: float) -> None:
        if self.paused:
            self.joules += IDLE_W * dt
            return
        unit_s, power_w = self.at(limit_w)
        unit_s *= (1.0 + self.slowing * self.now_s) * max(0.5, self._rng.gauss(1.0, self.noise))
        self._units += dt / unit_s
        self.joules += power_w * dt


@dataclass
class Controller:
    """Ticks a profiler beside a job: what it wants is in force one tick later, as read back."""

    profiler: Profiler
    job: Job
    tick_s: float = 10.0
    in_force: Setting = field(init=False)
    windows: list[Window] = field(default_factory=list)
    foreign: Setting | None = None
    rounding_w: float = 0.0
    tells_when: bool = True

    def __post_init__(self) -> None:
        self.in_force = self.profiler.plan.reference

    def tick(self) -> Window | None:
        actual = self.foreign or self.in_force
        self.job.run(self.tick_s, actual.power_limit_w or 300.0)
        read = Setting(power_limit_w=(actual.power_limit_w or 300.0) + self.rounding_w)
        job, reported_s = self.job, self.job.reported_at_s if self.tells_when else None
        window = self.profiler.observe(job.now_s, job.units, job.joules, read, reported_s=reported_s)
        if window is not None:
            self.windows.append(window)
        self.in_force = self.profiler.wants
        return window

    def run(self, ticks: int = 5000) -> Controller:
        for _ in range(ticks):
            if self.profiler.done:
                break
            self.tick()
        return self


def plan(*limits: float, **options: object) -> SweepPlan:
    """A sweep of these limits, falling; 300 to 100 W in steps of 25 if none is named."""
    chosen = limits or tuple(float(w) for w in range(300, 99, -25))
    return SweepPlan(limits=chosen, reference=Setting(power_limit_w=chosen[0]), **options)  # type: ignore[arg-type]


def by_limit(windows: list[Window] | tuple[Window, ...]) -> list[float]:
    return [window.setting.power_limit_w or 0.0 for window in windows]


def truth(job_curve: Callable[[float], tuple[float, float]], window: Window) -> Mapping[str, float]:
    """Relative error of a window's time and power against the curve that made it."""
    unit_s, power_w = job_curve(window.setting.power_limit_w or 0.0)
    return {
        "time": window.seconds / window.units / unit_s - 1,
        "power": window.joules / window.seconds / power_w - 1,
    }
