"""Combinations of settings that cannot be meant: each is good alone, together they are not."""

from __future__ import annotations

from collections.abc import Iterator

from chase.config.fields import is_percentile
from chase.config.models import Config, PolicyConfig
from chase.config.problems import show

Clash = tuple[tuple[str, ...], str]  # the dotted keys, and what to do


def clashes(config: Config) -> Iterator[Clash]:
    yield from _control(config)
    yield from _times(config)
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


def _times(config: Config) -> Iterator[Clash]:
    """Pairs of durations of which one must not, or must, exceed the other."""
    control, jobs, signal, profile = config.control, config.jobs, config.signal, config.profile
    if signal.usable_s < signal.fresh_s:
        yield (
            ("signal.usable_s", "signal.fresh_s"),
            f"usable_s {signal.usable_s:g} is less than fresh_s {signal.fresh_s:g}; what is fresh is usable",
        )
    if control.heartbeat_s < control.interval_s:
        yield _shorter("control.heartbeat_s", control.heartbeat_s, "control.interval_s", control.interval_s)
    if control.lease_s <= control.interval_s:
        yield _shorter("control.lease_s", control.lease_s, "control.interval_s", control.interval_s)
    if jobs.lease_s <= jobs.report_s:
        yield _shorter("jobs.lease_s", jobs.lease_s, "jobs.report_s", jobs.report_s)
    if profile.window_s < control.interval_s:
        yield _shorter("profile.window_s", profile.window_s, "control.interval_s", control.interval_s)


def _shorter(key: str, seconds: float, other: str, other_s: float) -> Clash:
    name, other_name = key.rsplit(".", 1)[1], other.rsplit(".", 1)[1]
    return (key, other), f"{name} {seconds:g} is not longer than {other_name} {other_s:g}; raise it or lower that"
