"""Combinations of settings that cannot be meant, though each is good alone; and those that can hardly be meant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from chase.config.fields import is_loopback, is_percentile, split_address
from chase.config.models import Config, PolicyConfig
from chase.config.problems import show
from chase.config.regions import RegionConfig

Clash = tuple[tuple[str, ...], str]  # the dotted keys, and what to do


def clashes(config: Config) -> Iterator[Clash]:
    yield from _control(config)
    yield from _times(config)
    yield from _share(config)
    yield from policy_clashes(config.policy)


def policy_clashes(policy: PolicyConfig) -> Iterator[Clash]:
    """Grams against grams and percentile against percentile; the two kinds cannot be compared beforehand."""
    low, high = policy.speed_below, policy.efficiency_above
    keys = ("policy.speed_below", "policy.efficiency_above")
    if is_percentile(low) == is_percentile(high) and _rank(low) > _rank(high):
        yield keys, f"speed_below {show(low)} is above efficiency_above {show(high)}; between them a job would be both"
    if policy.max_slowdown is not None and policy.selector == "max-slowdown" and policy.slowdown > policy.max_slowdown:
        keys = ("policy.slowdown", "policy.max_slowdown")
        yield keys, f"slowdown {policy.slowdown:g} is more than max_slowdown {policy.max_slowdown:g} allows; lower it"
    low_w, high_w = policy.min_power_limit_w, policy.max_power_limit_w
    if low_w is not None and high_w is not None and low_w > high_w:
        keys = ("policy.min_power_limit_w", "policy.max_power_limit_w")
        text = f"min_power_limit_w {low_w:g} is above max_power_limit_w {high_w:g}"
        yield keys, f"{text}; lower the first or raise the second"


def policy_doubts(policy: PolicyConfig, region: RegionConfig, now: datetime) -> Iterator[tuple[str, str]]:
    """Settings of a policy in force in a region that do nothing there, each with what happens instead and the fix."""
    if policy.name != "budget":
        return
    if policy.minimise != "carbon" and not region.prices:
        found = f"minimise {show(policy.minimise)}: region {region.id} has no [[prices]], so carbon alone is made least"
        yield "policy.minimise", f"{found}; give the region a source of prices, or leave minimise away"
    if policy.deadline is not None and policy.deadline <= now:
        found = f"deadline {show(policy.deadline)} is over, so jobs that know their length run at full speed"
        yield "policy.deadline", f"{found}; give a later one, or max_slowdown in its place"


def _rank(threshold: float | str) -> float:
    return float(threshold[1:]) if isinstance(threshold, str) else threshold


def _control(config: Config) -> Iterator[Clash]:
    control, simulated = config.control, config.simulated
    if control.gpus == "nvml" and simulated.rate != 1.0:
        keys = ("simulated.rate", "control.gpus")
        yield (
            keys,
            f"rate {simulated.rate:g} with real GPUs; real time cannot be hurried: set it to 1 or gpus to simulated",
        )
    if control.gpus == "nvml" and simulated.start is not None:
        yield ("simulated.start", "control.gpus"), "a simulated time with real GPUs; remove start or simulate the GPUs"
    if control.actuator == "command" and not control.setter_command:
        yield ("control.actuator", "control.setter_command"), 'actuator "command" needs a setter_command; name it'


def _share(config: Config) -> Iterator[Clash]:
    """A node's signal says what it buys and when it works: nobody beyond the machine reads it without a token."""
    listen = config.share.listen
    if listen is not None and config.share.token_env is None and not is_loopback(split_address(listen)[0]):
        keys = ("share.listen", "share.token_env")
        yield keys, f"{listen} can be reached from other machines; name a token with token_env, or listen on 127.0.0.1"


# The first must not be shorter than the second, and may be equal to it where that is said.
_LONGER = (
    ("signal.usable_s", "signal.fresh_s", True),
    ("signal.history_h", "signal.percentile_h", True),
    ("control.heartbeat_s", "control.interval_s", True),
    ("jobs.lease_s", "jobs.report_s", False),
    ("profile.window_s", "control.interval_s", True),
)


def _times(config: Config) -> Iterator[Clash]:
    for key, other, may_be_equal in _LONGER:
        seconds, other_s = _value(config, key), _value(config, other)
        if seconds < other_s or (seconds == other_s and not may_be_equal):
            relation = "is shorter than" if may_be_equal else "must be longer than"
            names = f"{_name(key)} {seconds:g} {relation} {_name(other)} {other_s:g}"
            yield (key, other), f"{names}; raise the first or lower the second"


def _value(config: Config, key: str) -> float:
    section, name = key.split(".")
    return float(getattr(getattr(config, section), name))


def _name(key: str) -> str:
    return key.partition(".")[2]
