"""What the learning rate does when the global batch changes.

Notation:

    B0, B    global batch that the rates and the schedule were chosen for, and the one in force      [samples]
    f        factor on every learning rate: B / B0 (linear), or its square root (sqrt)

linear is for SGD (Goyal et al. 2017, arXiv:1706.02677, section 2.1), sqrt for optimizers that divide by the root of
the squared gradient's mean (Malladi et al. 2022, arXiv:2205.10287, definition 4.2; it also asks for other betas and
eps, which are left alone here). For any other optimizer nobody knows, so a rule must be named.

f multiplies the rates of all parameter groups while the optimizer takes its step, and they are put back right after
it. So a scheduler never sees it, and neither undoes it nor compounds it, be it written in closed form (``base_lrs``)
or step on step from the group's own rate, as ``CosineAnnealingLR`` and ``OneCycleLR`` are; and a checkpoint of the
optimizer holds the schedule's rates, so that resuming cannot apply f twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import optim
from torch.utils.hooks import RemovableHandle

from zeus_core.training.batch_plan import Rule

_SQRT = (
    optim.Adadelta,
    optim.Adagrad,
    optim.Adam,
    optim.Adamax,
    optim.AdamW,
    optim.NAdam,
    optim.RAdam,
    optim.RMSprop,
    optim.SparseAdam,
)
_LINEAR = (optim.SGD, optim.ASGD)


def rule_for(optimizer: optim.Optimizer, named: Rule | None = None) -> Rule:
    """The rule that is named, else the known one. Raises ``ValueError`` where none is known."""
    if named is not None:
        return named
    if isinstance(optimizer, _SQRT):
        return "sqrt"
    if isinstance(optimizer, _LINEAR):
        return "linear"
    raise ValueError(
        f"no learning-rate rule is known for {type(optimizer).__name__}: name one (rate_rule='sqrt' or 'linear'), "
        "or keep the global batch"
    )


def rate_factor(rule: Rule, before: float, after: float) -> float:
    """The factor f of a global batch that goes from ``before`` to ``after``.

    Raises ``ValueError`` where their ratio is not finite and positive.
    """
    ratio = after / before if before else math.nan
    if not (math.isfinite(ratio) and ratio > 0):
        raise ValueError(f"the ratio of two global batches must be finite and positive, not {after!r} / {before!r}")
    return ratio if rule == "linear" else math.sqrt(ratio)


class RateScale:
    """Multiplies the learning rates of ``optimizer`` by ``factor`` in each of its steps, until it has another one."""

    def __init__(self, optimizer: optim.Optimizer) -> None:
        self._from = self._to = 1.0
        self._warmup_steps = self._taken = 0
        self._kept: list[Any] = []
        leave_rates(optimizer)
        _HOOKS[optimizer] = [
            optimizer.register_step_pre_hook(self._scale),
            optimizer.register_step_post_hook(self._put_back),
        ]

    @property
    def factor(self) -> float:
        """That of the next step: what a log should multiply the rate of a parameter group by."""
        return self._after(self._taken + 1)

    def aim(self, factor: float, warmup_steps: int) -> None:
        """Let f go to ``factor``: a rise takes ``warmup_steps`` steps, a fall none, for too high a rate does harm.

        Raises ``ValueError`` for a factor that is not finite and positive.
        """
        if not (math.isfinite(factor) and factor > 0):
            raise ValueError(f"the factor on a learning rate must be finite and positive, not {factor!r}")
        self._from, self._to, self._taken = self._after(self._taken), factor, 0
        self._warmup_steps = warmup_steps if factor > self._from else 0

    def state_dict(self) -> dict[str, Any]:
        return {"from": self._from, "to": self._to, "warmup_steps": self._warmup_steps, "taken": self._taken}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._from, self._to = state["from"], state["to"]
        self._warmup_steps, self._taken = state["warmup_steps"], state["taken"]

    def _after(self, steps: int) -> float:
        if steps >= self._warmup_steps:
            return self._to
        return self._from + (self._to - self._from) * steps / self._warmup_steps

    def _scale(self, optimizer: optim.Optimizer, *_: Any) -> None:
        if self._kept:  # the step before failed
            self._restore(optimizer)
        factor = self.factor
        if factor != 1.0:
            self._kept = _times(optimizer.param_groups, factor)

    def _put_back(self, optimizer: optim.Optimizer, *_: Any) -> None:
        self._restore(optimizer)
        self._taken = min(self._taken + 1, self._warmup_steps)

    def _restore(self, optimizer: optim.Optimizer) -> None:
        for group, rate in zip(optimizer.param_groups, self._kept, strict=False):
            if isinstance(rate, torch.Tensor):
                group["lr"].copy_(rate)
            else:
                group["lr"] = rate
        self._kept = []


# By optimizer, as it holds on to a scale that nobody else knows any more.
_HOOKS: WeakKeyDictionary[optim.Optimizer, list[RemovableHandle]] = WeakKeyDictionary()


def leave_rates(optimizer: optim.Optimizer) -> None:
    """Let the ``RateScale`` that ``optimizer`` may have do nothing any more: what it was for has ended."""
    for hook in _HOOKS.pop(optimizer, []):
        hook.remove()


def _times(groups: list[dict[str, Any]], factor: float) -> list[Any]:
    """Multiply the rates of all groups; gives those before. A tensor stays the same one: a CUDA graph may read it."""
    rates = [group["lr"] for group in groups]
    # Groups without a rate of their own share the optimizer's tensor, which is multiplied once for all of them.
    tensors = {id(rate): rate for rate in rates if isinstance(rate, torch.Tensor)}
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    for tensor in tensors.values():
        tensor.mul_(factor)
    for group, rate in zip(groups, rates, strict=True):
        if id(rate) not in tensors:
            group["lr"] = rate * factor
    return [before.get(id(rate), rate) for rate in rates]


class SampleSchedule:
    """A learning-rate scheduler that counts samples: one of its steps is ``samples_per_step`` samples, not one update.

    So a schedule chosen for a global batch B0 = ``samples_per_step`` is as long in epochs at any other, and the uneven
    last batch of an epoch counts as what it is. Save its state and the scheduler's own. Raises ``TypeError`` for one
    that goes by a metric.
    """

    def __init__(self, scheduler: optim.lr_scheduler.LRScheduler, samples_per_step: int) -> None:
        if samples_per_step.__class__ is not int or samples_per_step < 1:
            raise ValueError(f"samples_per_step must be a whole number of at least 1, not {samples_per_step!r}")
        if isinstance(scheduler, optim.lr_scheduler.ReduceLROnPlateau):
            raise TypeError("ReduceLROnPlateau goes by a metric, not by samples: step it as ever, after an evaluation")
        self._scheduler, self._samples_per_step = scheduler, samples_per_step
        self.samples = 0

    def advance(self, samples: int) -> None:
        """Count the samples of one optimizer step, all ranks together, after it."""
        due = (self.samples + samples) // self._samples_per_step - self.samples // self._samples_per_step
        self.samples += samples
        for _ in range(due):
            self._scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        return {"samples": self.samples, "samples_per_step": self._samples_per_step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises ``ValueError`` where the checkpoint's schedule counted in other steps."""
        if state["samples_per_step"] != self._samples_per_step:
            raise ValueError(
                f"samples_per_step was {state['samples_per_step']} in the checkpoint and is {self._samples_per_step}: "
                "the schedule would jump"
            )
        self.samples = state["samples"]
