"""Taking a recorded decision again, from nothing but what was recorded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chase.errors import StoreError
from chase.figures import duration
from chase.horizon import GRAMS, Horizon
from chase.policy import NODE_CAP, Candidate, Choice, Grid, PolicyInput, choose, planned
from chase.records import DecisionRecord
from zeus_core.frontier import Setting

_SIX_FIGURES = 1e5


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision, its inputs, and the same decision taken anew; ``same`` is whether it came out as it was recorded."""

    record: DecisionRecord
    given: PolicyInput
    again: Choice
    same: bool

    def lines(self) -> list[str]:
        """For people."""
        record = self.record
        return [
            f"decision {record.id} for job {record.job_id} at {_iso(record)} (trigger: {record.trigger})",
            f"  chose   {_setting(self.again.setting)}, {record.mode}, by policy {record.policy} ({record.code})",
            f"  because {record.reason}",
            *_grid_lines(self.given),
            *_before_lines(self.given),
            *_plan_lines(self.given),
            *_candidate_lines(self.again, self.given),
            *_cap_lines(self.again),
            *_switch_lines(self.given),
            *_applied_lines(record),
            f"  retaken {'from these inputs: the same choice' if self.same else f'DIFFERENTLY: {self.again.reason}'}",
        ]

    def to_dict(self) -> dict[str, Any]:
        record = self.record
        return {
            "id": record.id,
            "at": _iso(record),
            "job_id": record.job_id,
            "trigger": record.trigger,
            "policy": record.policy,
            "control": record.control,
            "inputs": record.inputs,
            "recorded": record.choice,
            "retaken": self.again.to_dict(),
            "same": self.same,
            "applied": record.applied,
        }


def explain(record: DecisionRecord) -> Explanation:
    """Retake ``record``. Raises ``StoreError`` when its inputs cannot be read."""
    try:
        given = PolicyInput.from_dict(record.inputs)
        again = choose(given)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"the inputs of decision {record.id} cannot be read: {error!r}") from error
    retaken = again.to_dict()  # an earlier version wrote fewer fields
    return Explanation(record, given, again, all(retaken.get(key) == value for key, value in record.choice.items()))


def _grid_lines(given: PolicyInput) -> list[str]:
    grid = given.grid
    if grid.g_per_kwh is None:
        return ["  grid    no usable value"]
    age = f", {grid.age_s / 60:.0f} min old" if grid.age_s is not None else ""
    line = f"  grid    {grid.g_per_kwh:.1f}{_spread(grid)} g/kWh ({grid.kind} by {grid.source}, {grid.freshness}{age})"
    limits = (grid.speed_below_g, grid.efficiency_above_g)
    if None in limits or given.rules.name == "budget":
        return [line]
    return [line, f"          speed-first below {limits[0]:.1f}, efficiency-first above {limits[1]:.1f} g/kWh"]


def _spread(grid: Grid) -> str:
    """The 80 % interval of what is expected; what was observed has none."""
    low, high = grid.low_g_per_kwh, grid.high_g_per_kwh
    return "" if low is None or high is None or low == high else f" (80 % within {low:.0f} to {high:.0f})"


def _before_lines(given: PolicyInput) -> list[str]:
    if given.current_mode is None:
        return []
    return [f"  before  {_setting(given.current)}, {given.current_mode}, for {given.since_s:.0f} s"]


def _plan_lines(given: PolicyInput) -> list[str]:
    """What a plan rests on: the prices ahead, the time that is allowed, and what that makes of a unit of work."""
    frontier, horizon = given.frontier, given.horizon
    if frontier is None or horizon is None or given.rules.name != "budget":
        return []
    made = planned(given, frontier)
    allowed, unit, mu = made.allowance, _unit(horizon), made.plan.mu
    spent_s = given.progress.delay_s
    used = f"; {duration(spent_s)} used before" if spent_s >= 1 else ""
    slack = f"{duration(allowed.slack_s)} more than" if allowed.slack_s >= 1 else "no more than"
    worth = f"{mu:.4g} {unit} for one more unit of work" if math.isfinite(mu) else "none: all time is needed"
    return [
        f"  horizon {len(horizon.price)} slots, {duration(horizon.total_s)}: {_prices(horizon)}",
        f"  allowed {_rounded(allowed.work)} units within {duration(allowed.seconds)}, {slack} at full power{used}",
        f"  mu      {worth}",
    ]


def _rounded(work: float) -> str:
    """Six figures, and all of those before the point."""
    return f"{work:,.0f}" if work >= _SIX_FIGURES else f"{work:,.6g}"


def _prices(horizon: Horizon) -> str:
    price, digits = horizon.price, 0 if horizon.unit == GRAMS else 4
    mean = float(price @ horizon.seconds) / horizon.total_s
    now, mean_, least, most = (f"{float(p):.{digits}f}" for p in (price[0], mean, price.min(), price.max()))
    return f"{now} {_unit(horizon)}/kWh now, {mean_} in the mean, {least} to {most}"


def _unit(horizon: Horizon) -> str:
    return "g" if horizon.unit == GRAMS else horizon.unit


def _candidate_lines(choice: Choice, given: PolicyInput) -> list[str]:
    """With a mark at the one that was wished for, which is the one chosen unless the node's cap has a say."""
    if not choice.candidates:
        return []
    horizon = given.horizon if given.rules.name == "budget" else None
    cost = "cost" if horizon is None else f"{_unit(horizon)}/h"
    lines = [f"  weighed   setting        s/unit      J/unit      W  slowdown  {cost:>10}"]
    lines += [_candidate_line(candidate, choice.own) for candidate in choice.candidates]
    if horizon is not None and any(candidate.cost is not None for candidate in choice.candidates):
        lines.append(f"          {cost} is what an hour there draws less what its work is worth, mu a unit. The least")
        lines.append("          is best; below 0 the work is worth more than it draws.")
    return lines


def _cap_lines(choice: Choice) -> list[str]:
    if choice.code != NODE_CAP:
        return []
    return [f"  capped  to {_setting(choice.setting)} by the node's cap, in place of {_setting(choice.wished)}"]


def _candidate_line(candidate: Candidate, wished: Setting | None) -> str:
    mark = "->" if candidate.setting == wished else "  "
    power_w = candidate.joules_per_unit / candidate.seconds_per_unit
    cost = f"{candidate.cost:11.4g}" if candidate.cost is not None else "          -"
    return (
        f"         {mark} {candidate.setting!s:<11} {candidate.seconds_per_unit:10.4g}"
        f"  {candidate.joules_per_unit:10.4g}  {power_w:5.0f}  {candidate.slowdown:+8.1%}  {cost}"
    )


def _switch_lines(given: PolicyInput) -> list[str]:
    """The closed form of A.7: at which intensity Chase's rule changes from one neighbour to the next."""
    frontier, grid, eta = given.frontier, given.grid, given.rules.eta
    if frontier is None or given.rules.name != "chase" or not grid.reference_g or not 0 < eta < 1:
        return []
    value = (1.0 - eta) / eta * given.max_power_w * grid.reference_g
    pairs = zip(frontier.hull, frontier.hull[1:], frontier.switch_prices(), strict=False)
    return [f"          {a.setting} -> {b.setting} above {value / price:.0f} g/kWh" for a, b, price in pairs]


def _applied_lines(record: DecisionRecord) -> list[str]:
    if not record.applied:
        return [f"  applied nothing ({record.control} mode)" if record.control == "observe" else "  applied nothing"]
    return [f"  applied {_result(uuid, result)}" for uuid, result in record.applied.items()]


def _result(uuid: str, result: Mapping[str, Any]) -> str:
    enforced = result.get("enforced_w")
    shown = f", {enforced:g} W in force" if enforced is not None else ""
    detail = f" ({result['detail']})" if result.get("detail") else ""
    return f"{uuid}: {result['status']}{shown}{detail}"


def _setting(setting: Setting | None) -> str:
    return str(setting) if setting is not None else "as found"


def _iso(record: DecisionRecord) -> str:
    return record.at.isoformat(timespec="seconds").replace("+00:00", "Z")
