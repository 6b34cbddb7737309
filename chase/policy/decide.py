"""The one way to decide: what forbids any change first, then the profiler, then a person, then the named policy."""

from __future__ import annotations

from collections.abc import Callable

from chase.policy import budget, rules
from chase.policy.base import EFFICIENCY, OFF, PROFILING, Choice, PolicyInput
from chase.policy.choosing import allowed, chosen, mode_point
from zeus_core.frontier import Frontier


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
        point = mode_point(allowed(given, frontier), given.hold)
        reason = f"held at {given.hold} by a person"
        return chosen(given, frontier, point, f"hold-{given.hold}", reason, mode=given.hold)
    return _POLICIES[given.rules.name](given, frontier)


def _left_alone(given: PolicyInput) -> Choice | None:
    if given.barred:
        return Choice(None, OFF, "barred", f"{given.barred}: the GPU is left as it was found")
    if given.hold == OFF:
        return Choice(None, OFF, "hold-off", "held off by a person: the GPU is left as it was found")
    if given.rules.name == "off" and given.hold is None:
        return Choice(None, OFF, "off", "the policy is off: the GPU is left as it was found")
    return None


_POLICIES: dict[str, Callable[[PolicyInput, Frontier], Choice]] = {
    "budget": budget.choose,
    "threshold": rules.threshold,
    "chase": rules.chase,
    "static": rules.static,
}
