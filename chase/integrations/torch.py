"""A PyTorch training whose batch size follows the service, on one rank or many.

    plan = BatchPlan(global_batch=256, microbatch=64, microbatches=(16, 32, 64, 128), boundary="epoch")
    with Job("resnet", units="samples", batch_size=plan.microbatch, batch_sizes=plan.microbatches) as job:
        follower = Follower(job)
        batching = Batching(plan, optimizer, on_change=follower.changed, on_out=follower.out)
        steps = Steps(batching, loader)
        while loader.epoch < 90:
            for step in steps:
                with step:
                    ...
                follower.step(step, batching)

Ranks on several nodes, each node with a service of its own, also agree on one power limit (``SharedLimit``): that of
the node of rank 0. Without this each service would slow its own part of the job, and all ranks wait for the slowest.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import torch.distributed as dist

from chase.client import Job
from zeus_core.training.agreement import Agreement
from zeus_core.training.batching import Batching, Change
from zeus_core.training.steps import Step

logger = logging.getLogger("chase.client")

T = TypeVar("T")
_MW = 1000.0  # agreed on in whole milliwatts


class Follower:
    """Between a job and its batching. In the training's own thread, on every rank.

    ``worth`` says what a sample of a global batch is worth against one of the job's own (``zeus_core.goodput``), so
    that what is counted is progress; None counts samples, which is right where the global batch is kept.
    """

    def __init__(self, job: Job, worth: Callable[[int], float] | None = None) -> None:
        self._job = job
        self._worth = worth
        self._asked: int | None = None
        self._told = job.own_batch_size
        self._out, self._told_out = frozenset[int](), frozenset[int]()

    def changed(self, change: Change) -> None:
        """For ``Batching``'s ``on_change``. Of a joint job only the node that leads has declared sizes."""
        self._runs_at(change.microbatch)

    def out(self, microbatch: int) -> None:
        """For ``Batching``'s ``on_out``. Told after the next step, once another size is in force."""
        self._out |= {microbatch}

    def step(self, step: Step, batching: Batching) -> None:
        """After each step: count it, and pass on what is wanted. A step that is done again is not counted."""
        if batching.microbatch != self._told:  # it goes on from a checkpoint, of which the job knows nothing
            self._runs_at(batching.microbatch)
        for size in {*batching.out, *self._out} - {*self._told_out, batching.microbatch}:
            self._told_out |= {size}
            if self._job.own_batch_size is not None:
                self._job.cannot_run_at(size)
        if not step.failed:
            worth = 1.0 if self._worth is None else self._worth(batching.global_batch)
            self._job.step(step.samples if worth == 1.0 else step.samples * worth)
        wanted = self._job.batch_size if self._job.own_batch_size is not None else None
        if wanted is not None and wanted != self._asked:
            self._asked = wanted
            batching.request(wanted)

    def _runs_at(self, microbatch: int) -> None:
        self._told = microbatch
        if self._job.own_batch_size is not None:
            self._job.runs_at(microbatch)


class SharedLimit:
    """One power limit for all nodes of a ``joint`` job, through ``agreement``; to be stepped on every rank.

    A node that cannot set its GPUs (its service is away, or only observes) votes against a change, and then nobody
    makes it; it is proposed again after ``patience`` steps. After a rank was lost nothing is changed any more.
    """

    def __init__(self, job: Job, agreement: Agreement, *, local_rank: int, patience: int = 1000) -> None:
        self._job = job
        self._agreement = agreement
        self._talks = local_rank == 0
        self._patience = patience
        self._steps = 0
        self._agreed_mw: int | None = None
        self._refused: tuple[int, int] | None = None  # what, and until which step

    @property
    def power_limit_w(self) -> float | None:
        """What was agreed on last."""
        return None if self._agreed_mw is None else self._agreed_mw / _MW

    def step(self) -> None:
        """Before or after each optimizer step, always in the same place."""
        outcome = self._agreement.tick(self._steps, self._wanted(), self._can)
        self._steps += 1
        if outcome is None:
            return
        if outcome.verdict == "yes":
            self._agreed_mw = outcome.microbatch
            if self._talks:
                self._job.agreed(outcome.microbatch / _MW)
        elif outcome.verdict == "no":
            self._refused = outcome.microbatch, self._steps + self._patience
            logger.info("not all nodes can run at %g W: nothing changes", outcome.microbatch / _MW)

    def _wanted(self) -> int | None:
        limit_w = self._job.setting.power_limit_w if self._talks and self._job.controls else None
        wanted = None if limit_w is None else round(limit_w * _MW)
        refused = self._refused is not None and wanted == self._refused[0] and self._steps < self._refused[1]
        return None if refused or wanted == self._agreed_mw else wanted

    def _can(self, _: int) -> bool:
        return not self._talks or self._job.controls


def joint_part(env: Mapping[str, str] = os.environ) -> Literal["leads", "follows"] | None:
    """Which part a process of ``torchrun``, or of a launcher that sets the same variables, has in a joint job.

    None where all ranks are on one node.
    """
    rank, world, local = (int(env.get(name, "0") or 0) for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if not local or world <= local:
        return None
    return "leads" if rank < local else "follows"


def from_rank_0(value: T) -> T:
    """``value`` as rank 0 has it, on every rank: a batch size to try, whether to stop. Waits for all ranks."""
    if not (dist.is_available() and dist.is_initialized()):
        return value
    box: list[Any] = [value]
    dist.broadcast_object_list(box, src=0)
    found: T = box[0]
    return found
