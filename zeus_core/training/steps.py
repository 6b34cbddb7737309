"""The training loop's steps: global batches, cut to the microbatch in force, and done again where one did not fit.

    steps = Steps(batching, loader)
    while loader.epoch < 90:
        for step in steps:  # the rest of the epoch
            with step:  # counted when this block ends; done again, smaller, when it ran out of memory
                for micro in step:
                    inputs, labels = micro.data
                    with micro.gradients(model):
                        (mean_loss(model(inputs), labels) * micro.weight).backward()
                optimizer.step()
                optimizer.zero_grad()

Notation:

    n      samples of this step on all ranks: B, or what is left of the epoch
    n_i    samples of microbatch i on this rank
    W      ranks, whose gradients are averaged (as ``DistributedDataParallel`` does)
    w_i    weight of microbatch i's mean loss, W n_i / n

The sum of w_i times the mean loss over microbatches, averaged over ranks, is the mean over the n samples: however they
are cut, and in the uneven last batch of an epoch too, where a mean of means would count some samples more than others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch
import torch.distributed as dist
from torch import nn, optim

from zeus_core.training.batching import Batching
from zeus_core.training.sampling import SampleLoader

if TYPE_CHECKING:
    from types import TracebackType

_NO_MEMORY = ("DefaultCPUAllocator: can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")


@dataclass(frozen=True, slots=True)
class Microbatch:
    """``data`` of ``samples`` n_i, with the ``weight`` w_i of their mean loss.

    A rank that has no sample left where others have takes a filler, with ``samples`` and ``weight`` 0, so that all
    ranks make as many passes. ``sync``: the ranks' gradients are exchanged in this backward pass. ``begins``: it is the
    first of a step that not all ranks may get through, or did not.
    """

    data: Any
    samples: int
    weight: float
    sync: bool
    begins: bool

    def gradients(self, model: nn.Module) -> AbstractContextManager[Any]:
        """What the forward and backward pass belong in: ``model.no_sync()`` where gradients are not to be exchanged."""
        model = getattr(model, "_orig_mod", model)  # of torch.compile, whose passes are the model's own
        if self.begins and type(model).__name__.startswith(("FSDP", "FullySharded")):
            raise RuntimeError("the ranks hold parts of this model: say so (sharded=True) to the batching")
        if not isinstance(model, nn.parallel.DistributedDataParallel):
            return nullcontext()
        if self.begins:
            # A rank may run out of memory before its forward pass as well as in it: were buffers sent there, the others
            # would wait for it. The step's last pass sees to it that the next step sends them.
            model.require_forward_param_sync = False
        return nullcontext() if self.sync else model.no_sync()


class _Refused(RuntimeError):
    """Another rank could not do this step."""


class Step:
    """One global batch of ``samples`` n, in so many microbatches."""

    def __init__(self, owner: Steps, *, again: bool) -> None:
        self._batching, self._loader, self._update = owner.batching, owner.loader, owner.update
        self.samples = min(self._batching.global_batch, self._loader.left)
        self.ended = self.failed = False
        self._trial = self._batching.world > 1 and not self._batching.tried and not self._batching.sharded
        self._delicate = self._trial or again
        self._all_given = self._voted = False
        self._size = self._batching.microbatch

    @property
    def exchanged(self) -> bool:
        """Whether its last pass has exchanged the ranks' gradients."""
        return self._batching.world > 1 and not self._trial and not self.failed

    def __len__(self) -> int:
        """Microbatches, the same on all ranks."""
        longest = math.ceil(self.samples / self._batching.world)
        return math.ceil(longest / self._size)

    def __iter__(self) -> Iterator[Microbatch]:
        share, last = self._loader.share(self.samples), len(self) - 1
        for i in range(last + 1):
            start, stop = i * self._size, min((i + 1) * self._size, share)
            own = max(0, stop - start)
            yield Microbatch(
                self._loader.part(start, stop) if own else self._loader.filler(),
                own,
                self._batching.world * own / self.samples,
                sync=i == last and not self._trial,
                begins=i == 0 and self._delicate,
            )
        self._all_given = True
        if self._trial:
            self._exchange()

    def __enter__(self) -> Self:
        self._update.begun = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if error is None:
            self._count()
            return False
        self.failed = self._do_again(error)
        self.ended = self.failed
        return self.failed

    def _count(self) -> None:
        if not self._all_given:  # left by a ``break``: nothing of it is used
            return
        self.ended = True
        self._batching.end_step(self.samples)
        self._loader.advance(self.samples)

    def _exchange(self) -> None:
        """The end of a size's first step where there are several ranks: all of them could do it, or none has."""
        self._vote(yes=True)
        _average(self._batching.optimizer, self._batching.world)

    def _vote(self, *, yes: bool) -> None:
        agreement, self._voted = self._batching.agreement, True
        verdict = agreement.vote(yes=yes) if agreement else "yes"
        if verdict == "lost":
            raise RuntimeError(f"a rank was lost in the first step at microbatch {self._size}")
        if verdict != "yes":
            raise _Refused(f"a rank could not run at microbatch {self._size}")

    def _do_again(self, error: BaseException) -> bool:
        """Whether the memory was the trouble and a smaller size is in force now. Then no gradient is left."""
        if not (isinstance(error, _Refused) or is_out_of_memory(error)):
            return False
        if self._update.begun:
            error.add_note("The optimizer had begun to change the weights, so this step cannot be done again.")
            return False
        if not self._all_failed(error) or not self._batching.rule_out():
            return False
        self._batching.optimizer.zero_grad(set_to_none=True)
        return True

    def _all_failed(self, error: BaseException) -> bool:
        if self._batching.world == 1 or isinstance(error, _Refused):
            return True
        if self._voted or not self._trial:
            error.add_note("Other ranks wait for this one's gradients: only a size's first step can be done again.")
            return False
        try:
            self._vote(yes=False)
        except _Refused:
            return True
        return False


class Steps:
    """Iterates over the steps that are left of the epoch. Its state is all that a checkpoint needs of both.

    Raises ``ValueError`` where ``batching`` and ``loader`` are for different numbers of ranks.
    """

    def __init__(self, batching: Batching, loader: SampleLoader) -> None:
        if batching.world != loader.world:
            raise ValueError(f"the batching is for {batching.world} ranks and the loader for {loader.world}")
        self.batching, self.loader = batching, loader
        self.update = _Update()
        self._exchanges = 0  # steps in which passes have exchanged gradients
        batching.optimizer.register_step_pre_hook(self.update.begin)

    def __iter__(self) -> Iterator[Step]:
        epoch, again = self.loader.epoch, False
        while self.loader.epoch == epoch:
            if again:
                torch.cuda.empty_cache()  # by now nothing holds the failed step's tensors
            else:
                # After its first exchange DistributedDataParallel talks to all ranks in the next forward pass, which a
                # rank may be without in a size's first step.
                may_change = self._exchanges != 1
                self.batching.begin_step(epoch_begins=self.loader.position == 0, may_change=may_change)
            step = Step(self, again=again)
            yield step
            if not step.ended:
                raise RuntimeError("a step ends with its `with` block, after its last microbatch: this one did not")
            again = step.failed
            self._exchanges += step.exchanged

    def state_dict(self) -> dict[str, Any]:
        """The same on all ranks; to be taken between two steps."""
        return {"batching": self.batching.state_dict(), "loader": self.loader.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises ``ValueError`` where the checkpoint had another plan or another order of samples."""
        if missing := [name for name in ("batching", "loader") if name not in state]:
            raise ValueError(f"the state of the steps lacks {', '.join(missing)}: was it written by state_dict?")
        before = self.loader.state_dict()
        self.loader.load_state_dict(state["loader"])
        try:
            self.batching.load_state_dict(state["batching"])
        except ValueError:
            self.loader.load_state_dict(before)  # all or nothing
            raise


class _Update:
    """Whether the optimizer has begun to change the weights. It knows nobody, for the optimizer holds on to it."""

    begun = False

    def begin(self, *_: Any) -> None:
        self.begun = True


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device or the host had no memory left for a tensor."""
    known = isinstance(error, RuntimeError) and any(text in str(error) for text in _NO_MEMORY)
    return known or isinstance(error, torch.OutOfMemoryError)


def _average(optimizer: optim.Optimizer, world: int) -> None:
    """The gradients' mean over ranks; a parameter that has none on any rank keeps none."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if not parameters:
        return
    used = torch.tensor([float(each.grad is not None) for each in parameters], device=parameters[0].device)
    dist.all_reduce(used)
    for parameter, ranks in zip(parameters, used.tolist(), strict=True):
        if ranks:
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            dist.all_reduce(parameter.grad)
            parameter.grad.div_(world)
