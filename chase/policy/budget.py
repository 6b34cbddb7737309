"""The least carbon (or money) for the rest of a job within an allowed slowdown, by a plan made anew at every tick.

Notation:

    T_0     seconds per unit at the reference, the measured full-power point        [s]
    s       allowed slowdown of the whole job, 0.05 for five per cent
    U, u    units of the whole job, and those still to be done
    B       how much later than at full power what was done is done                 [s]

What is left of the time is u T_0 + s U T_0 - B, or up to the deadline, whichever is less. The reference is measured
once and never derived from a slowed state: a budget that is taken anew from wherever the job is now grows by itself
(ecosystem.md B53). B counts the slower settings alone: a stall would have held up full power as well.

A job whose length nobody knows plans over a rolling horizon of H seconds. It may use up what it has banked, s T_0 units
done less B, and no more than s of the time beyond: in H it does (H - s T_0 done + B) / (T_0 (1 + s)) units.

Given that, ``zeus_core.budget`` has the plan; of it only what to do now is carried out. Changing the setting is not
free, and neighbours on the frontier are told apart by figures that have errors, so the setting in force stays while
what another one would gain is less than its own uncertainty, and for the shortest time that the owner sets. Neither
may cost the deadline.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chase.horizon import GRAMS, Horizon, flat
from chase.policy.base import BETWEEN, EFFICIENCY, PAUSED, SPEED, Candidate, Choice, PolicyInput, Progress, Rules
from chase.policy.choosing import plannable, without_signal
from zeus_core.frontier import Frontier, OperatingPoint

if TYPE_CHECKING:
    from zeus_core.budget import Levels, Plan, Slots

DEFAULT_SLOWDOWN = 0.05
_ROLLING_S = 7 * 86400.0
_HOUR_S = 3600.0
_LATE_S = 1.0  # less is rounding
_SOONEST_S = 1.0  # a rest of time shorter than this is none


@dataclass(frozen=True, slots=True)
class Allowance:
    """``work`` to be done within ``seconds``. ``ends`` is False for a job that goes on after that."""

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
        banked_s = (slowdown or 0.0) * full_s * progress.units_done - progress.delay_s
        work = max(0.0, _ROLLING_S - banked_s) / (full_s * (1.0 + (slowdown or 0.0)))
        return Allowance(work, _ROLLING_S, ends=False, slack_s=_ROLLING_S - work * full_s)
    work, limits = progress.units_left, []
    if slowdown is not None:
        limits.append(work * full_s + slowdown * full_s * (progress.units_done + work) - progress.delay_s)
    if progress.deadline_s is not None:
        limits.append(progress.deadline_s)
    seconds = max(min(limits), _SOONEST_S)
    return Allowance(work, seconds, ends=True, slack_s=seconds - work * full_s)


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
    level, until_s, code, why = _level(given, made)
    setting = made.levels.settings[level]
    reason = f"{_situation(given, made)}: {setting} {why}"
    return Choice(setting, _mode(made.levels, level), code, reason, _candidates(frontier, made), until_s)


def _level(given: PolicyInput, made: Planned) -> tuple[int, float | None, str, str]:
    """The level to run at now, for how long if not for the whole slot, a code and why."""
    plan, slot_s = made.plan, float(made.slots.seconds[0])
    if not plan.met:
        short_s = made.allowance.work / float(made.levels.rate[-1]) - made.allowance.seconds
        if short_s > _LATE_S and made.allowance.ends:
            return plan.level, None, "late", f"is the fastest, and still {_span(short_s)} late"
        return plan.level, None, "plan", "is the fastest, and all the time that is left is needed"
    level, until_s = plan.level, plan.first_s if plan.first_s < slot_s and plan.end != 0 else None
    held = _held(given, made.levels)
    if (
        until_s is not None
        and until_s < given.rules.dwell_s
        and held != level
        and _in_time(made, plan.then_level, slot_s)
    ):
        level, until_s = plan.then_level, None
    if held is None or held == level:
        return level, until_s, "plan", _worth(made)
    wait_s = min(given.rules.dwell_s - given.since_s, slot_s)
    if wait_s > 0 and _in_time(made, held, wait_s):
        return held, wait_s, "dwell", f"is kept for another {wait_s:.0f} s (minimum dwell)"
    if _within_doubt(made, held, level) and _in_time(made, held, slot_s):
        text = f"is kept: {made.levels.settings[level]} would gain less than the profile's own error"
        return held, None, "hysteresis", text
    return level, until_s, "plan", _worth(made)


def _held(given: PolicyInput, levels: Levels) -> int | None:
    return next((k for k, setting in enumerate(levels.settings) if setting == given.current), None)


def _in_time(made: Planned, level: int, seconds: float) -> bool:
    """Whether the rest can still be done in time, at the fastest, after so long at a level."""
    fastest = float(made.levels.rate[-1])
    left = made.allowance.work - float(made.levels.rate[level]) * seconds
    return left <= fastest * (made.allowance.seconds - seconds) * (1 + 1e-12)


def _within_doubt(made: Planned, held: int, level: int) -> bool:
    """Whether what is gained is less than one standard error of the two powers that are compared."""
    cost = _running_cost(made)
    gain = cost[held] - cost[level]
    doubt_w = math.hypot(_error_w(made.points[held]), _error_w(made.points[level]))
    return gain < abs(float(made.slots.price[0])) * doubt_w


def _error_w(point: OperatingPoint | None) -> float:
    return 0.0 if point is None else point.power_w * point.spread / math.sqrt(point.samples)


def _running_cost(made: Planned) -> list[float]:
    """Of each level now, a second: what it draws at this price less what its work is worth."""
    mu = made.plan.mu if math.isfinite(made.plan.mu) else 0.0
    found: list[float] = (float(made.slots.price[0]) * made.levels.power_w - mu * made.levels.rate).tolist()
    return found


def _candidates(frontier: Frontier, made: Planned) -> tuple[Candidate, ...]:
    """Fastest first; costs are per hour, in the horizon's unit."""
    rows = zip(made.points, _running_cost(made), strict=True)
    return tuple(
        Candidate(p.setting, p.seconds_per_unit, p.joules_per_unit, frontier.slowdown(p), cost * _HOUR_S)
        for p, cost in reversed(list(rows))
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
    price, seconds = made.slots.price, made.slots.seconds
    per_kwh = 3.6e6 / made.horizon.pue
    mean = float((price * seconds).sum() / seconds.sum()) * per_kwh
    now, unit = float(made.horizon.price[0]), "g" if made.horizon.unit == GRAMS else made.horizon.unit
    digits = 0 if made.horizon.unit == GRAMS else 4
    time = f"{_span(made.allowance.seconds)} {'left' if made.allowance.ends else 'ahead'}"
    return f"{now:.{digits}f} {unit}/kWh now, {mean:.{digits}f} in the mean of the {time} ({_slack(made.allowance)})"


def _slack(allowed_: Allowance) -> str:
    if allowed_.slack_s <= 0:
        return "no slack"
    return f"{_span(allowed_.slack_s)} more than at full power"


def _worth(made: Planned) -> str:
    unit = "g" if made.horizon.unit == GRAMS else made.horizon.unit
    return f"costs least, a unit of work being worth {made.plan.mu:.4g} {unit}" if made.plan.mu else "costs least"


def _span(seconds: float) -> str:
    if seconds >= 2 * 86400:
        return f"{seconds / 86400:.1f} d"
    return f"{seconds / _HOUR_S:.1f} h" if seconds >= _HOUR_S else f"{seconds / 60:.0f} min"
