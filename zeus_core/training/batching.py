"""The batch size that is in force in a training process, and when another one takes over.

A wish for another microbatch may come from any thread at any time; it is only noted. The training loop asks before
each optimizer step (``begin_step``): there the ranks agree, and at the boundary that the job declared the agreed size
takes over. A size that did not fit into the memory is out for good, and so are larger ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import optim

from zeus_core.training.agreement import Agreement
from zeus_core.training.batch_plan import BatchPlan
from zeus_core.training.lr_scaling import RateScale, leave_rates, rate_factor, rule_for

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Change:
    """From ``step`` (optimizer steps done so far) on, ``microbatch`` is in force and no longer ``before``."""

    step: int
    before: int
    microbatch: int
    accumulation: int
    global_batch: int


class Batching:
    """Which sizes are in force, by ``plan``, for an ``optimizer`` whose gradients ``world`` ranks share.

    ``agreement`` is needed where there are several ranks. Say where they hold parts of the model and not each the whole
    (``sharded``: FSDP, ZeRO-3, tensor parallel): their passes wait for each other, so that one that runs out of memory
    ends the job, where else a size's first step is tried by all or none.

    ``on_change`` is told of each change as it happens, ``on_out`` of each size that turned out to be impossible; both
    in the training's own thread.

    Raises ``ValueError`` for a plan that these ranks or this optimizer cannot follow.
    """

    def __init__(
        self,
        plan: BatchPlan,
        optimizer: optim.Optimizer,
        *,
        world: int = 1,
        agreement: Agreement | None = None,
        sharded: bool = False,
        on_change: Callable[[Change], None] | None = None,
        on_out: Callable[[int], None] | None = None,
    ) -> None:
        plan.check(world)
        if (agreement.world if agreement else 1) != world:
            raise ValueError(f"{world} ranks need an agreement of as many, not {agreement and agreement.world}")
        self.plan, self.optimizer, self.world, self.agreement = plan, optimizer, world, agreement
        self.sharded = sharded
        self.steps = 0
        self.microbatch = plan.microbatch
        self.out: frozenset[int] = frozenset()
        self.good: tuple[int, ...] = ()  # sizes that are known to fit, the latest last
        self._done_here: set[int] = set()  # of those, what this process has done: a resumed one may have less memory
        leave_rates(optimizer)  # which may have been another plan's before
        self.rate = None if plan.keep_global_batch else RateScale(optimizer)
        self._rule = None if plan.keep_global_batch else rule_for(optimizer, plan.rate_rule)
        self._on_change, self._on_out = on_change, on_out
        self._wish: int | None = None
        self._agreed = plan.microbatch
        self._checkpointed = False

    @property
    def accumulation(self) -> int:
        """Microbatches of one rank in one optimizer step."""
        return self.plan.accumulation(self.microbatch, self.world)

    @property
    def global_batch(self) -> int:
        """Samples in one optimizer step, of all ranks."""
        return self.plan.global_batch_at(self.microbatch, self.world)

    @property
    def tried(self) -> bool:
        """Whether this process has done a whole microbatch at the size in force, so that it is known to fit."""
        return self.microbatch in self._done_here

    def request(self, microbatch: int) -> None:
        """Wish for another size, from any thread; the latest wish counts, on rank 0 alone.

        A size that is out is wished for in vain. Raises ``ValueError`` for one that was not declared.
        """
        if microbatch not in self.plan.microbatches:
            raise ValueError(f"microbatch {microbatch!r} is none of the declared ones, {list(self.plan.microbatches)}")
        self._wish = microbatch

    def begin_step(self, *, epoch_begins: bool, may_change: bool = True) -> None:
        """Before each optimizer step, on every rank: agree on a wish, and apply what is agreed at a boundary.

        Not where it ``may_change`` not: then the next boundary counts.
        """
        self._agree()
        if not may_change:
            return
        boundary = self.plan.boundary
        if boundary == "accumulation" or (epoch_begins if boundary == "epoch" else self._checkpointed):
            self._apply(self._agreed)
        self._checkpointed = False

    def end_step(self, samples: int) -> None:
        """After each optimizer step of ``samples`` on all ranks together, on every rank."""
        self.steps += 1
        whole = samples >= self.microbatch * self.world  # the end of an epoch may be too small to show anything
        if whole:
            self._done_here.add(self.microbatch)
        if whole and self.good[-1:] != (self.microbatch,):
            self.good = (*(size for size in self.good if size != self.microbatch), self.microbatch)

    def checkpointed(self) -> None:
        """Say that a checkpoint was just made: on every rank, whichever of them has written it."""
        self._checkpointed = True

    def rule_out(self) -> bool:
        """The size in force does not fit: go on at the last good one below, or else at the next declared one.

        Gives False, and changes nothing, where there is none.
        """
        below = [size for size in self.plan.microbatches if size < self.microbatch and size not in self.out]
        if not below:
            return False
        last_good = next((size for size in reversed(self.good) if size in below), below[-1])
        self._put_out(self.microbatch)
        self._agreed = last_good
        self._apply(last_good)
        return True

    def state_dict(self) -> dict[str, Any]:
        return {
            "plan": self.plan.to_dict(),
            "steps": self.steps,
            "microbatch": self.microbatch,
            "out": sorted(self.out),
            "good": list(self.good),
            "rate": self.rate and self.rate.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on as the checkpoint did. Raises ``ValueError``, and says what differs, where it had another plan."""
        if differences := BatchPlan.from_dict(state["plan"]).differences(self.plan):
            raise ValueError(f"the checkpoint was made with another batch plan: {'; '.join(differences)}")
        self.steps, self.microbatch = state["steps"], state["microbatch"]
        self.out, self.good = frozenset(state["out"]), tuple(state["good"])
        if self.rate:
            self.rate.load_state_dict(state["rate"])
        self._agreed, self._checkpointed = self.microbatch, True

    def _agree(self) -> None:
        wish = self._wish
        wanted = None if wish in self.out or wish == self._agreed else wish
        if self.agreement is None:
            self._agreed = wanted or self._agreed
            return
        outcome = self.agreement.tick(self.steps, wanted, lambda size: size not in self.out)
        if outcome is None:
            return
        if outcome.verdict == "yes" and outcome.microbatch not in self.out:  # ruled out since the vote, by all
            self._agreed = outcome.microbatch
        elif outcome.verdict == "no":
            self._put_out(outcome.microbatch)

    def _apply(self, microbatch: int) -> None:
        before = self.microbatch
        if microbatch == before:
            return
        self.microbatch = microbatch
        if self.rate and self._rule:
            factor = rate_factor(self._rule, self.plan.global_batch, self.global_batch)
            self.rate.aim(factor, self.plan.warmup_steps)
        logger.info("microbatch %d from step %d on, before %d", microbatch, self.steps, before)
        if self._on_change:
            self._on_change(Change(self.steps, before, microbatch, self.accumulation, self.global_batch))

    def _put_out(self, microbatch: int) -> None:
        """Larger ones do not fit either."""
        newly = [size for size in self.plan.microbatches if size >= microbatch and size not in self.out]
        self.out |= {*newly}
        for size in newly:
            logger.warning("microbatch %d does not fit into the memory and is out", size)
            if self._on_out:
                self._on_out(size)
