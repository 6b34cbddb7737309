"""The least carbon (or money) for the rest of a job within an allowed slowdown, by a plan made ever anew.

Notation:

    T_0     seconds per unit at the reference, the measured full-power point        [s]
    s       allowed slowdown of the whole job, 0.05 for five per cent
    U, u    units of the whole job, and those still to be done
    B       how much later than at full power what was done is done                 [s]

What is left of the time is u T_0 + s U T_0 - B, or up to the deadline, whichever is less. The reference is measured
once and never derived from a slowed state: a budget that is taken anew from wherever the job is now grows by itself
(ecosystem.md B53). B counts the slower settings alone: a stall would have held up full power as well.

A job whose length nobody knows plans over a rolling horizon of H seconds. It may use up what it has banked, s T_0 units
done less B, and no more than s of the time beyond: in H it does (H - s T_0 done + B) / (T_0 (1 + s)) units. So B is
never more than s (T_0 done + H). H is a day at first, and then as long again as the job has worked, up to a week: one
that ends after a day or two was not planned for a week.

Given that, ``zeus_core.budget`` has the plan; of it only what to do now is carried out. Changing the setting is not
free, and neighbours on the frontier are told apart by figures that have errors, so the setting in force stays while
what another one would gain is less than its own uncertainty, and for the shortest time that the owner sets. Neither
may cost the deadline.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chase.horizon import GRAMS, J_PER_KWH, Horizon, flat
from chase.policy.base import BETWEEN, EFFICIENCY, PAUSED, SPEED, Candidate, Choice, PolicyInput, Progress, Rules
from chase.policy.choosing import plannable, without_signal
from zeus_core.frontier import Frontier, OperatingPoint

if TYPE_CHECKING:
    from zeus_core.budget import Levels, Plan, Slots

DEFAULT_SLOWDOWN = 0.05
_SHORTEST_S, _LONGEST_S = 86400.0, 7 * 86400.0  # of the rolling horizon
_HOUR_S = 3600.0
_LEAST_S = 1.0  # less is rounding


@dataclass(frozen=True, slots=True)
class Allowance:
    """``work`` to be done within ``seconds``. ``ends`` is False for a job that goes on after that.

    ``slack_s`` is how much of it full power would not need, below 0 where it is late already; ``seconds`` never are.
    """

    work: float
    seconds: float
    ends: bool
    slack_s: float


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan and what it was made of."""

    allowance: Allowance
    horizon: Horizon
    levels: Levels
    points: tuple[OperatingPoint | None, ...]  # of the levels; a pause has none
    slots: Slots
    plan: Plan


def allowance(rules: Rules, progress: Progress, frontier: Frontier) -> Allowance:
    """What the owner allows: the module's notation."""
    full_s, slowdown = frontier.reference.seconds_per_unit, rules.max_slowdown
    if slowdown is None and (progress.deadline_s is None or progress.units_left is None):
        slowdown = DEFAULT_SLOWDOWN
    if progress.units_left is None:
        return _rolling(slowdown or 0.0, progress, full_s)
    work, limits = progress.units_left, []
    if slowdown is not None:
        limits.append(work * full_s + slowdown * full_s * (progress.units_done + work) - progress.delay_s)
    if progress.deadline_s is not None:
        limits.append(progress.deadline_s)
    return Allowance(work, max(min(limits), _LEAST_S), ends=True, slack_s=min(limits) - work * full_s)


def _rolling(slowdown: float, progress: Progress, full_s: float) -> Allowance:
    """Of a job of unknown length."""
    horizon_s = min(max(_SHORTEST_S, full_s * progress.units_done), _LONGEST_S)
    banked_s = slowdown * full_s * progress.units_done - progress.delay_s
    work = max(0.0, horizon_s - banked_s) / (full_s * (1.0 + slowdown))
    return Allowance(work, horizon_s, ends=False, slack_s=horizon_s - work * full_s)


def planned(given: PolicyInput, frontier: Frontier) -> Planned:
    """The plan for all that is left. Without a horizon all times are taken to be alike."""
    from zeus_core.budget import solve

    allowed_, horizon = allowance(given.rules, given.progress, frontier), given.horizon
    if horizon is None:
        horizon = flat(allowed_.seconds)
    levels, points = _levels(given, frontier)
    slots = horizon.slots(allowed_.seconds)
    return Planned(allowed_, horizon, levels, points, slots, solve(levels, slots, allowed_.work, may_end=allowed_.ends))


def _levels(given: PolicyInput, frontier: Frontier) -> tuple[Levels, tuple[OperatingPoint | None, ...]]:
    from zeus_core.budget import Levels

    rules = given.rules
    key = ("levels", rules.min_power_limit_w, rules.max_power_limit_w, given.host_w, given.paused_w)
    if key not in frontier.notes:
        levels = Levels.of(plannable(given, frontier), host_w=given.host_w, paused_w=given.paused_w)
        frontier.notes[key] = levels, tuple(map(frontier.at, levels.settings))
    found: tuple[Levels, tuple[OperatingPoint | None, ...]] = frontier.notes[key]
    return found


def choose(given: PolicyInput, frontier: Frontier) -> Choice:
    if given.horizon is None and given.rules.without_signal == SPEED:
        return without_signal(given, frontier)
    made = planned(given, frontier)
    level, until_s, code, why = _level(given, made) if made.plan.met else _flat_out(frontier, made)
    setting = made.levels.settings[level]
    reason = f"{_situation(given, made)}: {setting} {why}"
    if given.progress.deadline_s is not None and given.progress.units_left is None:
        reason += "; no plan is made for its deadline, since nobody knows how long it is"
    return Choice(setting, _mode(made.levels, level), code, reason, _candidates(frontier, made), until_s)


def _flat_out(frontier: Frontier, made: Planned) -> tuple[int, float | None, str, str]:
    """As ``_level``, where there is nothing to plan with."""
    allowed_, fastest = made.allowance, made.levels.fastest
    longer_s = 1.0 / float(made.levels.rate[fastest]) - frontier.reference.seconds_per_unit
    late_s = allowed_.work * longer_s - allowed_.slack_s
    if late_s > _LEAST_S and allowed_.ends:
        return fastest, None, "late", f"is the fastest, and still {_span(late_s)} late"
    why = "all the time that is left is needed" if allowed_.ends else "the time allowed so far is spent"
    return fastest, None, "plan", f"is the fastest, and {why}"


def _level(given: PolicyInput, made: Planned) -> tuple[int, float | None, str, str]:
    """The level to run at now, for how long if not for the whole slot, a code and why."""
    plan, slot_s = made.plan, float(made.slots.seconds[0])
    level, until_s, held = plan.level, None, _held(given, made.levels)
    if plan.then_level != level and plan.first_s < slot_s - _LEAST_S:
        until_s = plan.first_s
        short = until_s < max(given.rules.dwell_s, _LEAST_S) and held != level
        if short and _in_time(made, plan.then_level, slot_s):
            level, until_s = plan.then_level, None
    if held is None or held == level:
        return level, until_s, "plan", _worth(given, made)
    wait_s = min(given.rules.dwell_s - given.since_s, slot_s)
    if wait_s > 0 and _in_time(made, held, wait_s):
        return held, wait_s, "dwell", f"is kept for another {wait_s:.0f} s (minimum dwell)"
    if _within_doubt(made, held, level) and _in_time(made, held, slot_s):
        text = f"is kept: {made.levels.settings[level]} would gain less than the profile's own error"
        return held, None, "hysteresis", text
    return level, until_s, "plan", _worth(given, made)


def _held(given: PolicyInput, levels: Levels) -> int | None:
    """What was chosen before; what was only set to be measured was not."""
    if given.current_mode is None:
        return None
    return next((k for k, setting in enumerate(levels.settings) if setting == given.current), None)


def _in_time(made: Planned, level: int, seconds: float) -> bool:
    """Whether the rest can still be done in time, at the fastest, after so long at a level."""
    left = made.allowance.work - float(made.levels.rate[level]) * seconds
    return left / float(made.levels.rate[-1]) <= made.allowance.seconds - seconds + _LEAST_S


def _within_doubt(made: Planned, held: int, level: int) -> bool:
    """Whether what is gained is less than one standard error of the two powers that are compared."""
    cost = _running_cost(made)
    gain = cost[held] - cost[level]
    doubt_w = math.hypot(_error_w(made.points[held]), _error_w(made.points[level]))
    return max(gain, 0.0) < abs(float(made.slots.price[0])) * doubt_w


def _error_w(point: OperatingPoint | None) -> float:
    return 0.0 if point is None else point.power_w * point.spread / math.sqrt(point.samples)


def _running_cost(made: Planned) -> list[float]:
    """Of each level now, a second: what it draws at this price less what its work is worth."""
    found: list[float] = (float(made.slots.price[0]) * made.levels.power_w - made.plan.mu * made.levels.rate).tolist()
    return found


def _candidates(frontier: Frontier, made: Planned) -> tuple[Candidate, ...]:
    """Fastest first; costs are per hour, in the horizon's unit. Where there is no slack, lost time has no price."""
    costs = [cost * _HOUR_S for cost in _running_cost(made)] if made.plan.met else [None] * len(made.points)
    return tuple(
        Candidate(p.setting, p.seconds_per_unit, p.joules_per_unit, frontier.slowdown(p), cost)
        for p, cost in zip(reversed(made.points), reversed(costs), strict=True)
        if p is not None
    )


def _mode(levels: Levels, level: int) -> str:
    if level < levels.runs_from:
        return PAUSED
    if level == levels.fastest:
        return SPEED
    return EFFICIENCY if level <= levels.ends_from else BETWEEN


def _situation(given: PolicyInput, made: Planned) -> str:
    if given.horizon is None:
        return f"no usable grid signal, and {_span(made.allowance.seconds)} for the rest"
    price, seconds, allowed_ = made.slots.price, made.slots.seconds, made.allowance
    digits, unit = (0, "g") if made.horizon.unit == GRAMS else (4, made.horizon.unit)
    now = f"{float(made.horizon.price[0]):.{digits}f} {unit}/kWh now"
    if allowed_.slack_s <= 0:
        return f"{now}, no slack"
    mean = float(price @ seconds / seconds.sum()) * J_PER_KWH / made.horizon.pue
    time = f"{_span(allowed_.seconds)} {'left' if allowed_.ends else 'ahead'}"
    return f"{now}, {mean:.{digits}f} in the mean of the {time} ({_span(allowed_.slack_s)} more than at full power)"


def _worth(given: PolicyInput, made: Planned) -> str:
    if given.horizon is None:
        return "costs least where all times are alike"
    unit = "g" if made.horizon.unit == GRAMS else made.horizon.unit
    return f"costs least, a unit of work being worth {made.plan.mu:.4g} {unit}" if made.plan.mu else "costs least"


def _span(seconds: float) -> str:
    if seconds >= 2 * 86400:
        return f"{seconds / 86400:.1f} d"
    return f"{seconds / _HOUR_S:.1f} h" if seconds >= _HOUR_S else f"{seconds / 60:.0f} min"
