"""The policies that look at what is now: two thresholds, the Chase paper's rule, and one selector without a signal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from chase.policy.base import EFFICIENCY, SPEED, Choice, PolicyInput
from chase.policy.choosing import allowed, chosen, mode_point, without_signal
from zeus_core.frontier import Frontier
from zeus_core.selectors import Energy, MaxSlowdown, Selector, Time, ZeusCost


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


def threshold(given: PolicyInput, frontier: Frontier) -> Choice:
    """Speed-first below one intensity, efficiency-first above another, and between them as before (hysteresis)."""
    grid = given.grid
    if grid.g_per_kwh is None or grid.efficiency_above_g is None or grid.speed_below_g is None:
        return without_signal(given, frontier)
    mode, code, reason = _threshold_mode(given, grid.g_per_kwh, grid.efficiency_above_g, grid.speed_below_g)
    wait = given.rules.dwell_s - given.since_s
    if given.current_mode in {SPEED, EFFICIENCY} and mode != given.current_mode and wait > 0:
        reason = f"{reason}, but {given.current_mode} is kept for another {wait:.0f} s (minimum dwell)"
        mode, code = given.current_mode, "dwell"
    return chosen(given, frontier, mode_point(allowed(given, frontier), mode), code, reason, mode=mode)


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


def chase(given: PolicyInput, frontier: Frontier) -> Choice:
    """Eq 6 of the Chase paper: argmin of [eta*P*CI + (1 - eta)*MaxPower*MaxCI] / throughput over the hull."""
    grid = given.grid
    if grid.g_per_kwh is None or grid.reference_g is None or grid.reference_g <= 0 or given.max_power_w <= 0:
        return without_signal(given, frontier)
    relative = grid.g_per_kwh / grid.reference_g
    rule = ZeusCost(given.rules.eta, given.max_power_w).priced(relative)
    best = rule.choose(allowed(given, frontier))
    code, reason = (
        "eq6",
        (
            f"{grid.g_per_kwh:.0f} g/kWh is {relative:.2f} of the job's reference {grid.reference_g:.0f}: "
            f"{best.setting} costs least at eta {given.rules.eta:g}"
        ),
    )
    held = frontier.at(given.current) if given.current else None
    wait = given.rules.dwell_s - given.since_s
    if held is not None and held != best and wait > 0 and held in allowed(given, frontier):
        code, reason = (
            "dwell",
            f"{reason}, but {held.setting} is kept for another {wait:.0f} s (minimum dwell)",
        )
        best = held
    return chosen(given, frontier, best, code, reason, cost=rule.cost)


def static(given: PolicyInput, frontier: Frontier) -> Choice:
    """One selector, no signal: what Zeus does."""
    selector = _selector(given, frontier)
    point = selector.choose(allowed(given, frontier))
    cost = selector.cost if isinstance(selector, ZeusCost) else None
    return chosen(
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
