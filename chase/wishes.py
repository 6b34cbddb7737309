"""What all jobs together want of the GPUs: where two share one the faster wish wins, and who shares goes together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from zeus_core.actuation.base import Wish
from zeus_core.frontier import Setting

Number = TypeVar("Number", int, float)


def joint_wishes(
    jobs: Mapping[str, Sequence[str]], settings: Mapping[str, Setting | None]
) -> tuple[dict[str, Wish], ...]:
    """One group for each set of GPUs that must change together or not at all.

    ``jobs`` maps a job's id to its GPUs, ``settings`` to what it wants (None: as found, which is the fastest of all).
    A synchronous job's GPUs are one group; jobs that share a GPU share a group.
    """
    return tuple({gpu: _fastest(gpu, jobs, settings) for gpu in group} for group in _groups(jobs.values()))


def _fastest(gpu: str, jobs: Mapping[str, Sequence[str]], settings: Mapping[str, Setting | None]) -> Wish:
    wanted = [settings.get(job) for job, gpus in jobs.items() if gpu in gpus]
    limits = [setting.power_limit_w if setting else None for setting in wanted]
    clocks = [setting.sm_clock_mhz if setting else None for setting in wanted]
    return Wish(_most(limits), _most(clocks))


def _most(values: Sequence[Number | None]) -> Number | None:
    present = [value for value in values if value is not None]
    return max(present) if len(present) == len(values) and present else None


def _groups(gpu_sets: Iterable[Sequence[str]]) -> list[list[str]]:
    """Connected components of the GPUs, where a job connects all of its own; in order of first mention."""
    groups: list[list[str]] = []
    for gpus in gpu_sets:
        touching = [group for group in groups if set(group) & set(gpus)]
        merged = [gpu for group in touching for gpu in group]
        merged += [gpu for gpu in gpus if gpu not in merged]
        groups = [group for group in groups if group not in touching] + [merged]
    return groups
