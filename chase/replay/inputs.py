"""What a cell names, loaded and checked: grid, card, rules, and what its run will be measured by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Literal

from chase.clock import minute
from chase.config import Config, PolicyConfig, RegionConfig, job_policy
from chase.errors import ChaseError, ConfigError
from chase.frontiers import frontier_of_profile, within
from chase.policy.budget import DEFAULT_SLOWDOWN
from chase.prices_ahead import CARBON
from chase.replay.cell import BUDGETED, CLOSED, FORECASTS, Cell
from chase.replay.profiles import profile_of
from chase.replay.reference import Reference
from chase.replay.trace import Trace, load_trace
from providers.base import Scope, Signal
from zeus_core.frontier import Frontier
from zeus_core.gpus.base import PowerLimits
from zeus_core.gpus.profiles import GpuProfile

REGION = "replay"
DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a cell names, loaded. ``seen`` is the trace that decisions go by: not the true one for a placebo."""

    trace: Trace
    seen: Trace
    profile: GpuProfile
    frontier: Frontier
    rules: PolicyConfig
    reference: Reference

    @classmethod
    def of(cls, cell: Cell) -> Inputs:
        """Raises ``ChaseError`` naming what is wrong with the cell."""
        _check(cell)
        trace = load_trace(Path(cell.trace), column=cell.column, signal=Signal(cell.signal))
        seen = trace if cell.shuffle is None else _shuffled(trace, cell.shuffle)
        profile = profile_of(cell.profile)
        rules = _rules(cell, trace)
        frontier = _bounded(_frontier(profile, cell.gpus), profile, rules)
        units = cell.days * DAY_S / frontier.reference.seconds_per_unit
        reference = Reference(trace, frontier, cell.start, units, cell.pue, rules.host_power_w)
        made = cls(trace, seen, profile, frontier, rules, reference)
        made.check_length(cell)
        return made

    def check_length(self, cell: Cell) -> None:
        first, last = self.trace.start, self.trace.end
        needed_s = self.allowed_s(cell) or cell.days * DAY_S
        if first <= cell.start and cell.start + timedelta(seconds=needed_s) <= last:
            return
        raise ChaseError(
            f"{cell.trace} is of {minute(first)} to {minute(last)}, and a job of {cell.days:g} days from"
            f" {minute(cell.start)} on needs {needed_s / DAY_S:.1f} days of it: begin at another time, or make it"
            " shorter"
        )

    def allowed_s(self, cell: Cell) -> float | None:
        """How long the job may take; None for a policy that keeps no budget."""
        if cell.policy not in BUDGETED:
            return None
        full_s, slowdown, deadline = cell.days * DAY_S, self.rules.max_slowdown, self.rules.deadline
        limits = [] if deadline is None else [(deadline - cell.start).total_seconds()]
        if slowdown is not None or deadline is None:
            limits.append(full_s * (1.0 + (DEFAULT_SLOWDOWN if slowdown is None else slowdown)))
        return max(full_s, min(limits))


_RANGES = (
    ("days", 1e-3, 3660.0),
    ("gpus", 1, 64),
    ("pue", 1.0, 5.0),
    ("delay_s", 0.0, DAY_S),
    ("first_words", 0.0, 1.0),
    ("interval_s", 1.0, DAY_S),
)


def _check(cell: Cell) -> None:
    """Raises ``ChaseError`` for what no trace and no profile could make right."""
    if cell.start.utcoffset() != timedelta(0):
        raise ChaseError(f"start must be a UTC time such as 2023-03-01T00:00Z, not {cell.start.isoformat()}")
    if cell.forecast not in FORECASTS:
        raise ChaseError(f"forecast {cell.forecast!r} is unknown; there are {', '.join(FORECASTS)}")
    for name, least, most in _RANGES:
        value = getattr(cell, name)
        if value is not None and not least <= value <= most:
            raise ChaseError(f"{name} must be from {least:g} to {most:g}, not {value!r}")


def _rules(cell: Cell, trace: Trace) -> PolicyConfig:
    """The settings, checked as those of any job are; a closed form has those of the policy that it is the limit of."""
    name = cell.policy if cell.policy not in CLOSED else "budget" if cell.policy in BUDGETED else "static"
    if "name" in cell.settings:
        raise ChaseError(f"the replay's policy is {cell.policy!r} already: leave name out of its settings")
    try:
        made = job_policy(replay_config(), region_of(trace, cell.pue), {"name": name, **cell.settings})
    except ConfigError as error:
        raise ChaseError(f"the replay's policy {cell.policy!r}: {error}") from error
    if made.minimise != CARBON:
        raise ChaseError(f"a replay has no prices of electricity: minimise must be {CARBON}, not {made.minimise}")
    return made


@lru_cache(maxsize=1)
def replay_config() -> Config:
    """As shipped, but that nobody writes the same thing down again every quarter of an hour, and joules by the hour.

    An interval ends where the limit changes all the same, so that its power is one and its price exact.
    """
    return Config.model_validate({"control": {"heartbeat_s": DAY_S, "account_s": 3600.0}})


def region_of(trace: Trace, pue: float) -> RegionConfig:
    return RegionConfig(
        id=REGION,
        name=trace.name,
        time_zone="UTC",
        signal=trace.signal.value,
        scope=scope_of(trace),
        currency="EUR",
        sources=(),
        pue=pue,
    )


def scope_of(trace: Trace) -> Literal["lifecycle", "direct"]:
    """Of a region, which must be one of them; what does not say which it is, is taken for either."""
    return "direct" if trace.scope is Scope.DIRECT else "lifecycle"


@lru_cache(maxsize=32)
def _shuffled(trace: Trace, seed: int) -> Trace:
    return trace.shuffled(seed)


def _bounded(frontier: Frontier, profile: GpuProfile, rules: PolicyConfig) -> Frontier:
    """What people allow of it, for the references: their ceiling is full power, as it is to the controller."""
    if rules.min_power_limit_w is None and rules.max_power_limit_w is None:
        return frontier
    allowed = within(PowerLimits(profile.min_w, profile.default_w, profile.default_w), rules)
    capped = frontier.capped(allowed.max_w)
    points = [point for point in capped.points if (point.setting.power_limit_w or allowed.max_w) >= allowed.min_w]
    return Frontier.of(points or capped.points[:1])


@lru_cache(maxsize=32)
def _frontier(profile: GpuProfile, gpus: int) -> Frontier:
    return frontier_of_profile(profile, gpus=gpus)
