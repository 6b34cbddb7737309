"""A job under the budget policy, simulated with nothing but ``choose``, and what its decisions are taken from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from chase.horizon import Horizon
from chase.policy import BETWEEN, EFFICIENCY, SPEED, Choice, PolicyInput, Progress, Rules, choose
from zeus_core.frontier import Frontier, OperatingPoint, Setting

HOUR, DAY = 3600.0, 86400.0


def point(limit_w: float, seconds: float, joules: float, spread: float = 0.0, samples: int = 1) -> OperatingPoint:
    return OperatingPoint(Setting(power_limit_w=limit_w), seconds, joules, spread, samples)


# A unit is a second of work at full power. 100 W is the point of least energy, 60 W one of less power still.
FULL, MIDDLE, FRUGAL, LOW = point(300, 1.0, 300), point(200, 1.1, 220), point(100, 1.5, 150), point(60, 3.0, 180)
FRONTIER = Frontier.of([FULL, MIDDLE, FRUGAL, LOW])
ONE = Frontier.of([FULL])


def horizon(prices: Sequence[float], seconds: float = HOUR, *, tail: Sequence[float] = (), **more: object) -> Horizon:
    price = np.array(prices, float)
    return Horizon.of(np.full(len(price), seconds), price, price, price, tail=np.array(tail, float), **more)


def asked(
    prices: Sequence[float] | Horizon | None,
    *,
    frontier: Frontier | None = FRONTIER,
    max_slowdown: float | None = 0.1,
    dwell_s: float = 0.0,
    without_signal: str = SPEED,
    left: float | None = 10 * HOUR,
    done: float = 0.0,
    delay_s: float = 0.0,
    deadline_s: float | None = None,
    **more: object,
) -> PolicyInput:
    """What a decision is taken from, in a few words."""
    rules = Rules(name="budget", max_slowdown=max_slowdown, dwell_s=dwell_s, without_signal=without_signal)
    ahead = horizon(prices) if isinstance(prices, list | tuple) else prices
    progress = Progress(left, done, delay_s, deadline_s)
    return PolicyInput(frontier=frontier, rules=rules, progress=progress, horizon=ahead, max_power_w=300.0, **more)


def held(setting: Setting, since_s: float, mode: str = BETWEEN) -> dict[str, object]:
    """The part of an input that says what was chosen before."""
    return {"current": setting, "current_mode": mode, "since_s": since_s}


@dataclass
class Run:
    """What became of a job. ``limits`` are those it ran at, one after the other."""

    finish_s: float = 0.0
    stalled_s: float = 0.0
    energy_j: float = 0.0
    earliest_s: float = 0.0  # from the moment at which it had stalled
    limits: list[float] = field(default_factory=list)
    choices: list[tuple[float, Choice]] = field(default_factory=list)
    allowed: list[tuple[float, Progress]] = field(default_factory=list)

    @property
    def changes(self) -> int:
        """But for those of the last ten seconds, which are rounding."""
        settings = [choice.setting for now_s, choice in self.choices if now_s < self.finish_s - 10.0]
        return sum(a != b for a, b in pairwise(settings))


@dataclass
class Simulated:
    """``ahead`` is what is said of the prices from a time on. ``stall`` is when the job stands still, and how long."""

    ahead: Callable[[float], Horizon | None]
    frontier: Frontier = FRONTIER
    rules: Rules = field(default_factory=lambda: Rules(name="budget", max_slowdown=0.1, dwell_s=0.0))
    units: float | None = 10 * HOUR
    deadline_s: float | None = None
    interval_s: float = HOUR
    stall: tuple[float, float] | None = None
    until_s: float = 400 * DAY
    host_w: float = 0.0

    def run(self) -> Run:
        run, now_s, done, delay_s = Run(), 0.0, 0.0, 0.0
        current, mode, since_s = None, None, float("inf")
        stall = self.stall
        while now_s < self.until_s:
            left = None if self.units is None else self.units - done
            deadline_s = None if self.deadline_s is None else self.deadline_s - now_s
            progress = Progress(left, done, delay_s, deadline_s)
            choice = self._choice(progress, now_s, current, mode, since_s)
            run.allowed.append((now_s, progress))
            run.choices.append((now_s, choice))
            run.limits.append(choice.setting.power_limit_w)
            at = self.frontier.at(choice.setting)
            since_s = since_s if (choice.setting, choice.mode) == (current, mode) else 0.0
            current, mode = choice.setting, choice.mode
            step_s = max(1.0, min(self.interval_s, choice.until_s or self.interval_s))
            if left is not None and left <= at.rate * step_s:
                run.finish_s = now_s + left / at.rate
                run.energy_j += (at.power_w + self.host_w) * left / at.rate
                return run
            now_s, since_s = now_s + step_s, since_s + step_s
            done += at.rate * step_s
            delay_s += at.rate * step_s * (at.seconds_per_unit - self.frontier.reference.seconds_per_unit)
            run.energy_j += (at.power_w + self.host_w) * step_s
            if stall is not None and now_s >= stall[0]:
                now_s, since_s, run.stalled_s, stall = now_s + stall[1], since_s + stall[1], stall[1], None
                if self.units is not None:
                    run.earliest_s = now_s + (self.units - done) / self.frontier.fastest.rate
        return run

    def _choice(
        self, progress: Progress, now_s: float, current: Setting | None, mode: str | None, since_s: float
    ) -> Choice:
        return choose(
            PolicyInput(
                frontier=self.frontier,
                rules=self.rules,
                max_power_w=300.0,
                current=current,
                current_mode=mode,
                since_s=since_s,
                progress=progress,
                horizon=self.ahead(now_s),
                host_w=self.host_w,
            )
        )

    @property
    def share_s(self) -> float:
        """What one interval at the slowest costs."""
        slowest = min(point.rate for point in self.frontier.points)
        return max(self.interval_s, 1.0) * (1.0 - slowest / self.frontier.fastest.rate)


def every(prices: Sequence[float], seconds: float = HOUR) -> Callable[[float], Horizon]:
    """What is known of these prices, from a time on, by one who knows them all."""

    def ahead(now_s: float) -> Horizon:
        first = min(int(now_s // seconds), len(prices) - 1)
        price = np.array(prices[first:], float)
        length = np.full(len(price), seconds)
        length[0] = max((first + 1) * seconds - now_s, 1.0)
        return Horizon.of(length, price, price, price)

    return ahead


any_price = st.floats(-200, 900).map(lambda value: round(value, 1))


@st.composite
def frontiers(draw: st.DrawFn, spreads: Sequence[float] = (0.0, 0.02, 0.3)) -> Frontier:
    """Of one to seven points with any powers at all; the highest limit is the fastest, and the reference."""
    count = draw(st.integers(1, 7))
    slower = sorted(draw(st.lists(st.floats(0.01, 2.0), min_size=count - 1, max_size=count - 1, unique=True)))
    unit_s = draw(st.floats(0.5, 5.0))
    spread = draw(st.sampled_from(spreads))
    points = []
    for k, slowdown in enumerate([0.0, *slower]):
        power_w = draw(st.floats(50, 400))
        seconds = unit_s * (1 + slowdown)
        points.append(point(400.0 - 30 * k, seconds, power_w * seconds, spread, draw(st.integers(1, 4))))
    return Frontier.of(points)


@st.composite
def horizons(draw: st.DrawFn, seconds: Sequence[float] = (300.0, 1800.0, HOUR)) -> Horizon:
    """Of one to thirty slots, in grams or in money, with or without a tail."""
    price = np.array(draw(st.lists(any_price, min_size=1, max_size=30)))
    first_s, step_s = draw(st.floats(0.01, 3600)), draw(st.sampled_from(seconds))
    length = np.full(len(price), step_s)
    length[0] = min(first_s, step_s)
    tail = np.array(draw(st.lists(any_price, max_size=40)))
    scale, unit = draw(st.sampled_from([(1.0, "gCO2eq"), (0.001, "EUR")]))
    apart = np.abs(price) * scale * draw(st.floats(0, 0.5))
    middle = price * scale
    pue = draw(st.sampled_from([1.0, 1.2, 1.58]))
    return Horizon.of(length, middle, middle - apart, middle + apart, tail=tail * scale, unit=unit, pue=pue)


@st.composite
def inputs(draw: st.DrawFn) -> PolicyInput:
    """Any that can be: with and without a horizon, a length, a deadline, and something that was chosen before."""
    frontier = draw(frontiers())
    mode = draw(st.sampled_from([None, SPEED, BETWEEN, EFFICIENCY]))
    return asked(
        draw(st.none() | horizons()),
        frontier=frontier,
        max_slowdown=draw(st.none() | st.floats(0, 0.5)),
        left=draw(st.none() | st.floats(1e-6, 1e9)),
        done=draw(st.floats(0, 1e9)),
        delay_s=draw(st.floats(-1e6, 1e6)),
        deadline_s=draw(st.none() | st.floats(-1e6, 1e8)),
        without_signal=draw(st.sampled_from([SPEED, EFFICIENCY])),
        dwell_s=draw(st.sampled_from([0.0, 600.0])),
        host_w=draw(st.floats(0, 500)),
        current=draw(st.sampled_from(frontier.points)).setting if mode else None,
        current_mode=mode,
        since_s=draw(st.floats(0, 1000) | st.just(float("inf"))),
    )
