"""What the policies share: the points that the owner allows, and a point as a choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chase.policy.base import BETWEEN, EFFICIENCY, SPEED, Candidate, Choice, PolicyInput
from zeus_core.frontier import Frontier, OperatingPoint


def without_signal(given: PolicyInput, frontier: Frontier) -> Choice:
    mode = given.rules.without_signal
    reason = f"no usable grid signal: the owner's default is {mode}"
    return chosen(given, frontier, mode_point(allowed(given, frontier), mode), "no-signal", reason, mode=mode)


def allowed(given: PolicyInput, frontier: Frontier) -> tuple[OperatingPoint, ...]:
    """Hull points within the owner's cap on slowdown, which is of each setting unless the policy budgets the whole job.

    The fastest is always allowed.
    """
    cap = None if given.rules.name == "budget" else given.rules.max_slowdown
    if cap is None:
        return frontier.hull
    return tuple(p for p in frontier.hull if frontier.slowdown(p) <= cap + 1e-9) or (frontier.fastest,)


def plannable(given: PolicyInput, frontier: Frontier) -> tuple[OperatingPoint, ...]:
    """What a plan may use: also what is slower than the point of least energy, for hours that are dirty enough."""
    del given
    return frontier.points


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
    points = allowed(given, frontier)
    if mode is None:
        mode = SPEED if point == points[0] else EFFICIENCY if point == points[-1] else BETWEEN
    candidates = tuple(
        Candidate(p.setting, p.seconds_per_unit, p.joules_per_unit, frontier.slowdown(p), cost(p) if cost else None)
        for p in points
    )
    return Choice(point.setting, mode, code, reason, candidates)
