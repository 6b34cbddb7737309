"""What the policies share: the points that the owner allows, and a point as a choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from chase.policy.base import BETWEEN, EFFICIENCY, SPEED, Candidate, Choice, PolicyInput, Rules
from zeus_core.frontier import Frontier, OperatingPoint, lower_hull


def without_signal(given: PolicyInput, frontier: Frontier) -> Choice:
    mode = given.rules.without_signal
    reason = f"no usable grid signal: the owner's default is {mode}"
    return chosen(given, frontier, mode_point(allowed(given, frontier), mode), "no-signal", reason, mode=mode)


def allowed(given: PolicyInput, frontier: Frontier) -> tuple[OperatingPoint, ...]:
    """Hull points within the owner's cap on slowdown, which is of each setting unless the policy budgets the whole job.

    The fastest is always allowed.
    """
    return _weighed(given.rules, frontier)[0]


def _weighed(rules: Rules, frontier: Frontier) -> tuple[tuple[OperatingPoint, ...], tuple[Candidate, ...]]:
    """Those points, and how they are told where they have no cost."""
    cap = None if rules.name == "budget" else rules.max_slowdown
    key = ("allowed", cap, rules.min_power_limit_w, rules.max_power_limit_w)
    if key not in frontier.notes:
        points = permitted(rules, frontier)
        hull = frontier.hull if points == frontier.points else lower_hull(points)
        if cap is not None:
            hull = tuple(p for p in hull if frontier.slowdown(p) <= cap + 1e-9) or hull[:1]
        frontier.notes[key] = (
            hull,
            tuple(Candidate(p.setting, p.seconds_per_unit, p.joules_per_unit, frontier.slowdown(p)) for p in hull),
        )
    found: tuple[tuple[OperatingPoint, ...], tuple[Candidate, ...]] = frontier.notes[key]
    return found


def plannable(given: PolicyInput, frontier: Frontier) -> tuple[OperatingPoint, ...]:
    """What a plan may use: also what is slower than the point of least energy, for hours that are dirty enough."""
    return permitted(given.rules, frontier)


def permitted(rules: Rules, frontier: Frontier) -> tuple[OperatingPoint, ...]:
    """Points, fastest first, whose power limits lie within people's floor and ceiling; the nearest where none does."""
    if rules.min_power_limit_w is None and rules.max_power_limit_w is None:
        return frontier.points
    nearest_w = min(_outside_w(rules, point) for point in frontier.points)
    return tuple(point for point in frontier.points if _outside_w(rules, point) == nearest_w)


def not_permitted(rules: Rules, frontier: Frontier) -> str:
    """A remark for where no point is within the floor and ceiling; empty where one is."""
    if any(_outside_w(rules, point) == 0.0 for point in frontier.points):
        return ""
    low_w, high_w = rules.min_power_limit_w, rules.max_power_limit_w
    bounds = [f"at least {low_w:g} W"] if low_w is not None else []
    bounds += [f"at most {high_w:g} W"] if high_w is not None else []
    return f"no limit of {' and '.join(bounds)} is known of, and the nearest is taken"


def _outside_w(rules: Rules, point: OperatingPoint) -> float:
    """How far from people's limits; no limit at all is as high as can be."""
    limit_w = math.inf if point.setting.power_limit_w is None else point.setting.power_limit_w
    low_w, high_w = rules.min_power_limit_w or 0.0, rules.max_power_limit_w
    return max(low_w - limit_w, limit_w - high_w if high_w is not None else 0.0, 0.0)


def mode_point(points: Sequence[OperatingPoint], mode: str) -> OperatingPoint:
    return points[0] if mode == SPEED else points[-1]


def chosen(
    given: PolicyInput,
    frontier: Frontier,
    point: OperatingPoint,
    code: str,
    reason: str,
    *,
    mode: str | None = None,
    cost: Callable[[OperatingPoint], float] | None = None,
) -> Choice:
    points, candidates = _weighed(given.rules, frontier)
    if mode is None:
        mode = SPEED if point == points[0] else EFFICIENCY if point == points[-1] else BETWEEN
    if cost is not None:
        candidates = tuple(
            Candidate(p.setting, p.seconds_per_unit, p.joules_per_unit, told.slowdown, cost(p))
            for p, told in zip(points, candidates, strict=True)
        )
    return Choice(point.setting, mode, code, reason, candidates)
