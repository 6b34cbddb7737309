"""The one way to decide: what forbids any change first, then the profiler, then a person, then the named policy.

Of a job with ranks on several nodes a choice is only a wish, until all of them have agreed on it. The node's power cap
has the last word: what it leaves was worked out for all jobs together and is part of the input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from chase.policy import budget, rules
from chase.policy.base import AGREED, EFFICIENCY, LEADS, NODE_CAP, OFF, PROFILING, Choice, PolicyInput
from chase.policy.choosing import allowed, chosen, mode_point, not_permitted
from zeus_core.frontier import Frontier, Setting


def choose(given: PolicyInput) -> Choice:
    return under_cap(given, _together(given, _wished(given)))


def _together(given: PolicyInput, choice: Choice) -> Choice:
    """What the ranks of a job agreed on; to leave the GPUs as they were found, nobody is asked."""
    if not given.joint or _left_alone(given) is not None:
        return choice
    known = str(given.agreed) if given.agreed else "nothing"
    agreed = f"{known} is what the job's ranks agreed on"
    wish = f"this node wishes for {choice.setting}: {choice.reason}" if given.joint == LEADS else "another node leads"
    wished = choice.setting if given.joint == LEADS else given.agreed
    return replace(choice, setting=given.agreed, code=AGREED, reason=f"{agreed}; {wish}", wished=wished)


def under_cap(given: PolicyInput, choice: Choice) -> Choice:
    """What the node's power cap leaves of a choice, as ``given.capped`` has it."""
    if given.capped is None:
        return choice
    reason = f"{given.cap_note}; but for the cap: {choice.reason}"
    return replace(choice, setting=given.capped, code=NODE_CAP, reason=reason, wished=choice.own)


def _wished(given: PolicyInput) -> Choice:
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
        return _without_frontier(given)
    choice = _held(given, frontier, given.hold) if given.hold else _POLICIES[given.rules.name](given, frontier)
    remark = not_permitted(given.rules, frontier)
    return replace(choice, reason=f"{choice.reason}; {remark}") if remark else choice


def _held(given: PolicyInput, frontier: Frontier, mode: str) -> Choice:
    point = mode_point(allowed(given, frontier), mode)
    return chosen(given, frontier, point, f"hold-{mode}", f"held at {mode} by a person", mode=mode)


def _without_frontier(given: PolicyInput) -> Choice:
    """A person's ceiling needs no frontier."""
    reason, ceiling_w = given.note or "no frontier is known yet", given.rules.max_power_limit_w
    if ceiling_w is None:
        return Choice(None, OFF, "no-frontier", f"{reason}: the GPU is left as it was found")
    text = f"{reason}: no more than max_power_limit_w {ceiling_w:g} W, and else as it was found"
    return Choice(Setting(power_limit_w=ceiling_w), OFF, "no-frontier", text)


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
