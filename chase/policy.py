"""Which point of the frontier to run at now. Pure: the same input gives the same choice, so that any can be retaken.

Every policy takes a ``PolicyInput`` and returns a ``Choice``: the setting, the candidates with their costs, a code and
a sentence. Nothing in here reads a clock, a file or a GPU; whatever mattered is in the input, and the input is stored.

Two named modes recur: *speed-first* is the fastest point of the hull, *efficiency-first* the one of least energy per
unit of work, both within the owner's ``max_slowdown`` against the reference point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from zeus_core.frontier import Frontier, OperatingPoint, Setting
from zeus_core.selectors import Energy, MaxSlowdown, Selector, Time, ZeusCost

SPEED, EFFICIENCY, BETWEEN, OFF, PROFILING = "speed-first", "efficiency-first", "between", "off", "profiling"


@dataclass(frozen=True, slots=True)
class Grid:
    """The intensity a decision goes by, in gCO2eq/kWh, None if there is none.

    ``freshness`` is fresh, stale, or fallback for what stands in for an observed value: then ``low_g_per_kwh`` and
    ``high_g_per_kwh`` are its 10 and 90 % quantiles. ``efficiency_above_g`` and
    ``speed_below_g`` are the thresholds in force; ``reference_g`` is the fixed intensity of Chase's rule (MaxCI). Any
    of them is None where it is not known.
    """

    g_per_kwh: float | None = None
    kind: str = "none"
    source: str = ""
    age_s: float | None = None
    freshness: str = "fallback"
    efficiency_above_g: float | None = None
    speed_below_g: float | None = None
    reference_g: float | None = None
    low_g_per_kwh: float | None = None
    high_g_per_kwh: float | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """The owner's wishes, from ``[policy]``. ``max_slowdown`` 0.05 is five per cent of time; None is no cap."""

    name: str = "threshold"
    dwell_s: float = 600.0
    eta: float = 0.5
    selector: str = "energy"
    slowdown: float = 0.1
    max_slowdown: float | None = None
    without_signal: str = SPEED


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """All that a decision depends on.

    ``max_power_w`` is MaxPower of the papers: the original limits of all the job's GPUs. ``since_s`` is how long the
    current choice has held. ``barred`` says why this job may not be touched at all, empty if it may. ``measure`` is
    the setting that the profiler wants next, and ``note`` says how far it is, or why there is no frontier.
    """

    frontier: Frontier | None
    rules: Rules
    grid: Grid = field(default_factory=Grid)
    max_power_w: float = 0.0
    current_mode: str | None = None
    current: Setting | None = None
    since_s: float = math.inf
    hold: str | None = None
    barred: str = ""
    measure: Setting | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "frontier": self.frontier.to_dict() if self.frontier else None,
            "rules": asdict(self.rules),
            "grid": asdict(self.grid),
            "max_power_w": self.max_power_w,
            "current_mode": self.current_mode,
            "current": self.current.to_dict() if self.current else None,
            "since_s": self.since_s if math.isfinite(self.since_s) else None,
            "hold": self.hold,
            "barred": self.barred,
            "measure": self.measure.to_dict() if self.measure else None,
            "note": self.note,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PolicyInput:
        """The inverse of ``to_dict``."""
        return cls(
            frontier=Frontier.from_dict(data["frontier"]) if data["frontier"] else None,
            rules=Rules(**data["rules"]),
            grid=Grid(**data["grid"]),
            max_power_w=data["max_power_w"],
            current_mode=data["current_mode"],
            current=Setting(**data["current"]) if data["current"] is not None else None,
            since_s=math.inf if data["since_s"] is None else data["since_s"],
            hold=data["hold"],
            barred=data["barred"],
            measure=Setting(**data["measure"]) if data["measure"] is not None else None,
            note=data["note"],
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point that was weighed, its slowdown, and its cost in the policy's own unit, None where it has none."""

    setting: Setting
    seconds_per_unit: float
    joules_per_unit: float
    slowdown: float
    cost: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "setting": self.setting.to_dict()}


@dataclass(frozen=True, slots=True)
class Choice:
    """What to set and why. ``setting`` None means: as the GPU was found. ``code`` is stable, for grep."""

    setting: Setting | None
    mode: str
    code: str
    reason: str
    candidates: tuple[Candidate, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "setting": self.setting.to_dict() if self.setting else None,
            "mode": self.mode,
            "code": self.code,
            "reason": self.reason,
            "candidates": [candidate.to_dict() for candidate in self.candidates],
        }


def choose(given: PolicyInput) -> Choice:
    """Decide: what forbids any change first, then the profiler, then a person's hold, then the named policy."""
    left_alone = _left_alone(given)
    if left_alone is not None:
        return left_alone
    frontier = given.frontier
    # Efficiency-first cannot be held before it is known where it is.
    if given.measure is not None and (given.hold is None or (given.hold == EFFICIENCY and frontier is None)):
        later = f" (then held at {given.hold})" if given.hold else ""
        reason = f"measuring the frontier at {given.measure}: {given.note}{later}"
        return Choice(given.measure, PROFILING, "profiling", reason)
    if frontier is None:
        reason = given.note or "no frontier is known yet"
        return Choice(None, OFF, "no-frontier", f"{reason}: the GPU is left as it was found")
    if given.hold is not None:
        point = _mode_point(_allowed(given, frontier), given.hold)
        reason = f"held at {given.hold} by a person"
        return _choice(given, frontier, point, f"hold-{given.hold}", reason, mode=given.hold)
    return _POLICIES[given.rules.name](given, frontier)


def _left_alone(given: PolicyInput) -> Choice | None:
    if given.barred:
        return Choice(None, OFF, "barred", f"{given.barred}: the GPU is left as it was found")
    if given.hold == OFF:
        return Choice(None, OFF, "hold-off", "held off by a person: the GPU is left as it was found")
    if given.rules.name == "off" and given.hold is None:
        return Choice(None, OFF, "off", "the policy is off: the GPU is left as it was found")
    return None


def threshold_g(spec: float | str, recent: Sequence[float]) -> float | None:
    """A threshold in g/kWh: a number is itself, ``p70`` the 70th percentile of ``recent``; None if that is empty."""
    if not isinstance(spec, str):
        return float(spec)
    ordered = sorted(recent)
    if not ordered:
        return None
    position = float(spec.removeprefix("p")) / 100.0 * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def _threshold(given: PolicyInput, frontier: Frontier) -> Choice:
    """Speed-first below one intensity, efficiency-first above another, and between them as before (hysteresis)."""
    grid = given.grid
    if grid.g_per_kwh is None or grid.efficiency_above_g is None or grid.speed_below_g is None:
        return _without_signal(given, frontier)
    mode, code, reason = _threshold_mode(given, grid.g_per_kwh, grid.efficiency_above_g, grid.speed_below_g)
    wait = given.rules.dwell_s - given.since_s
    if given.current_mode in {SPEED, EFFICIENCY} and mode != given.current_mode and wait > 0:
        reason = f"{reason}, but {given.current_mode} is kept for another {wait:.0f} s (minimum dwell)"
        mode, code = given.current_mode, "dwell"
    return _choice(given, frontier, _mode_point(_allowed(given, frontier), mode), code, reason, mode=mode)


def _threshold_mode(given: PolicyInput, now: float, above: float, below: float) -> tuple[str, str, str]:
    if now > above:
        return EFFICIENCY, "above-threshold", f"{now:.0f} g/kWh is above {above:.0f}: efficiency-first"
    if now < below:
        return SPEED, "below-threshold", f"{now:.0f} g/kWh is below {below:.0f}: speed-first"
    between = f"{now:.0f} g/kWh lies within {below:.0f} to {above:.0f}"
    if given.current_mode in {SPEED, EFFICIENCY}:
        return given.current_mode, "within-band", f"{between}: {given.current_mode} as before"
    mode = EFFICIENCY if now > (above + below) / 2 else SPEED
    return mode, "within-band", f"{between} and nothing was chosen before: {mode} is nearer"


def _chase(given: PolicyInput, frontier: Frontier) -> Choice:
    """Eq 6 of the Chase paper: argmin of [eta*P*CI + (1 - eta)*MaxPower*MaxCI] / throughput over the hull."""
    grid = given.grid
    if grid.g_per_kwh is None or grid.reference_g is None or grid.reference_g <= 0 or given.max_power_w <= 0:
        return _without_signal(given, frontier)
    relative = grid.g_per_kwh / grid.reference_g
    rule = ZeusCost(given.rules.eta, given.max_power_w).priced(relative)
    best = rule.choose(_allowed(given, frontier))
    code, reason = (
        "eq6",
        (
            f"{grid.g_per_kwh:.0f} g/kWh is {relative:.2f} of the job's reference {grid.reference_g:.0f}: "
            f"{best.setting} costs least at eta {given.rules.eta:g}"
        ),
    )
    held = frontier.at(given.current) if given.current else None
    wait = given.rules.dwell_s - given.since_s
    if held is not None and held != best and wait > 0 and held in _allowed(given, frontier):
        code, reason = (
            "dwell",
            f"{reason}, but {held.setting} is kept for another {wait:.0f} s (minimum dwell)",
        )
        best = held
    return _choice(given, frontier, best, code, reason, cost=rule.cost)


def _static(given: PolicyInput, frontier: Frontier) -> Choice:
    """One selector, no signal: what Zeus does."""
    selector = _selector(given, frontier)
    point = selector.choose(_allowed(given, frontier))
    cost = selector.cost if isinstance(selector, ZeusCost) else None
    return _choice(
        given,
        frontier,
        point,
        "static",
        f"{point.setting} is the choice of selector {given.rules.selector}",
        cost=cost,
    )


def _selector(given: PolicyInput, frontier: Frontier) -> Selector:
    selectors: dict[str, Selector] = {
        "energy": Energy(),
        "time": Time(),
        "zeus-cost": ZeusCost(given.rules.eta, given.max_power_w),
        "max-slowdown": MaxSlowdown(1.0 + given.rules.slowdown, frontier.reference),
    }
    return selectors[given.rules.selector]


def _without_signal(given: PolicyInput, frontier: Frontier) -> Choice:
    mode = given.rules.without_signal
    reason = f"no usable grid signal: the owner's default is {mode}"
    return _choice(given, frontier, _mode_point(_allowed(given, frontier), mode), "no-signal", reason, mode=mode)


def _allowed(given: PolicyInput, frontier: Frontier) -> tuple[OperatingPoint, ...]:
    """Hull points within the owner's cap on slowdown; the fastest is always allowed."""
    cap = given.rules.max_slowdown
    if cap is None:
        return frontier.hull
    return tuple(p for p in frontier.hull if frontier.slowdown(p) <= cap + 1e-9) or (frontier.fastest,)


def _mode_point(allowed: Sequence[OperatingPoint], mode: str) -> OperatingPoint:
    return allowed[0] if mode == SPEED else allowed[-1]


def _choice(
    given: PolicyInput,
    frontier: Frontier,
    point: OperatingPoint,
    code: str,
    reason: str,
    *,
    mode: str | None = None,
    cost: Callable[[OperatingPoint], float] | None = None,
) -> Choice:
    allowed = _allowed(given, frontier)
    if mode is None:
        mode = SPEED if point == allowed[0] else EFFICIENCY if point == allowed[-1] else BETWEEN
    candidates = tuple(
        Candidate(p.setting, p.seconds_per_unit, p.joules_per_unit, frontier.slowdown(p), cost(p) if cost else None)
        for p in allowed
    )
    return Choice(point.setting, mode, code, reason, candidates)


_POLICIES: dict[str, Callable[[PolicyInput, Frontier], Choice]] = {
    "threshold": _threshold,
    "chase": _chase,
    "static": _static,
}
