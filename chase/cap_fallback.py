"""What keeps the node's power cap in a tick in which it cannot be worked out.

A job stays where it was, or goes lower, where all of them were within the cap before. Where that is not known, each GPU
that can be set gets an equal share of what the others and the host leave, as its power limit and not below its lowest:
a limit is never exceeded, so that this needs no knowledge of what is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from chase.capping import Weighed
from chase.frontiers import original_w
from chase.jobs import Job
from chase.node_cap import UNTOUCHED
from chase.policy import Choice, PolicyInput, under_cap
from zeus_core.actuation.base import GpuState
from zeus_core.frontier import Setting


def kept_low(
    cap_w: float,
    jobs: Sequence[Job],
    weighed: Mapping[str, Weighed],
    states: Mapping[str, GpuState],
    *,
    stuck: Collection[str],
    host_w: Mapping[str, float],
    stay: bool,
) -> dict[str, Weighed]:
    """What changes. ``stay`` is whether the jobs were within the cap before, ``stuck`` are the GPUs that cannot be set.

    ``host_w`` is by region, for each job.
    """
    before = _as_before(jobs, weighed) if stay else None
    if before is not None:
        return before
    left_w = cap_w - math.fsum(host_w[job.region] for job in jobs)
    return _in_shares(left_w, jobs, weighed, states, stuck)


def _as_before(jobs: Iterable[Job], weighed: Mapping[str, Weighed]) -> dict[str, Weighed] | None:
    """No job higher than it was; None where one is to be left alone, and so may draw more than before."""
    found: dict[str, Weighed] = {}
    for job in jobs:
        given, choice = weighed[job.id]
        if job.setting is None or job.setting.power_limit_w is None:
            continue
        if choice.code in UNTOUCHED:
            return None
        if _wish_w(choice) > job.setting.power_limit_w:
            found[job.id] = _moved(given, choice, job.setting, "it stays where it was")
    return found


def _in_shares(
    left_w: float,
    jobs: Sequence[Job],
    weighed: Mapping[str, Weighed],
    states: Mapping[str, GpuState],
    stuck: Collection[str],
) -> dict[str, Weighed]:
    movable = [
        job for job in jobs if weighed[job.id][1].code not in UNTOUCHED and not any(uuid in stuck for uuid in job.gpus)
    ]
    free = {uuid for job in movable for uuid in job.gpus}
    fixed = {uuid for job in jobs for uuid in job.gpus if uuid in states} - free
    left_w -= math.fsum(_most_w(states[uuid], stuck=uuid in stuck) for uuid in fixed)
    found: dict[str, Weighed] = {}
    for job in movable:
        given, choice = weighed[job.id]
        mine = [states[uuid] for uuid in job.gpus if uuid in states]
        lowest_w = max((state.min_w or 0.0 for state in mine), default=0.0)
        limit_w = max(lowest_w, float(math.floor(left_w / len(free))))
        top_w = max((_most_w(state) for state in mine), default=math.inf)
        if min(_wish_w(choice), top_w) > limit_w:
            share = f"{limit_w:g} W for each GPU is its share"
            found[job.id] = _moved(given, choice, Setting(power_limit_w=limit_w), share)
    return found


def _moved(given: PolicyInput, choice: Choice, setting: Setting, why: str) -> Weighed:
    given = replace(given, capped=setting, cap_note=f"max_node_power_w cannot be worked out in this tick: {why}")
    return given, under_cap(given, choice)


def _wish_w(choice: Choice) -> float:
    limit_w = None if choice.setting is None else choice.setting.power_limit_w
    return math.inf if limit_w is None else limit_w


def _most_w(state: GpuState, *, stuck: bool = False) -> float:
    """What it draws at most where nothing of ours is in force, or where what is in force cannot be changed."""
    found_w = state.enforced_w or state.power_limit_w if stuck else original_w(state)
    return found_w or state.max_w or 0.0
