"""Measuring the gradient noise scale in a PyTorch training: of its microbatches, on one rank or many.

    noise = GradientNoise(model.parameters(), every=20)
    for micro in step:
        with micro.gradients(model):
            (mean_loss(...) * micro.weight).backward()
        noise.micro(micro.samples, micro.weight)
    noise.step()  # once the gradients of all ranks are in, before they are unscaled or clipped
    optimizer.step()

A hook on each parameter sees the gradient of one microbatch before it is added to the others, and before the ranks'
gradients are averaged; what is in ``.grad`` at the end is the mean of all. So there is no copy of any gradient. The
hooks exist only in each ``every``-th step, which takes a norm of each gradient and waits for the device once: in the
others neither the backward pass nor the device sees anything of this. Several ranks exchange ten numbers in it.

A step needs two microbatches or ranks, all microbatches of one size: else it is not measured, and ``why`` says so. Adam
and the like divide each component by its own scale, and the noise scale that would matter to them is that of the
divided gradients; this is the plain one. Where ranks hold parts of a model (FSDP, tensor parallel) no rank sees a whole
gradient: not supported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from zeus_core.goodput import NoiseScale

_LEAST = 2
_SAME = 1e-12  # relative variance over ranks of what is one number


@dataclass(slots=True)
class _Seen:
    """What one step has shown so far."""

    norms: dict[int, torch.Tensor] = field(default_factory=dict)  # of the microbatch at hand, by parameter
    squares: list[torch.Tensor] = field(default_factory=list)  # of the microbatches before it
    kinds: set[tuple[int, float]] = field(default_factory=set)  # their samples and weights
    whole: bool = True


class GradientNoise:
    """``scale`` holds the estimate, the same on all ranks of ``group`` (None: all there are).

    Its ``memory`` is in measured steps. ``why`` is the reason that the last step which was due was not measured.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        every: int = 20,
        memory: float = 100.0,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        if every < 1:
            raise ValueError(f"every must be at least 1, not {every!r}")
        self.scale = NoiseScale(memory)
        self.every = every
        self.why: str | None = None
        self._group = group
        self._parameters = _trainable(parameters)
        self._device = self._parameters[0].device
        double = any(each.dtype in {torch.float64, torch.complex128} for each in self._parameters)
        self._dtype = torch.float64 if double else torch.float32
        self._wide = torch.float32 if self._device.type == "mps" else torch.float64  # of what ranks exchange
        self._steps = 0
        self._ends = False
        self._handles: list[Any] = []
        self._seen = _Seen()
        self._begin()

    def micro(self, samples: int, weight: float) -> None:
        """After each microbatch's backward pass: its samples, and what its mean loss was multiplied by."""
        if not self._handles:
            return
        seen = self._seen
        seen.kinds.add((samples, weight))
        if seen.norms and samples > 0 and weight > 0:
            seen.squares.append(_square(list(seen.norms.values())))
        else:
            seen.whole = False
        seen.norms = {}

    def step(self, loss_scale: float | Callable[[], float] = 1.0) -> bool:
        """Before the optimizer's step, on every rank; whether it was measured.

        ``loss_scale`` is what losses are multiplied by in mixed precision. ``scaler.get_scale``, not called, makes
        the device be waited for in measured steps only.
        """
        measured = False
        if self._handles:
            self.why = self._measure(loss_scale)
            measured = self.why is None
        self._steps += 1
        self._begin()
        return measured

    def remove(self) -> None:
        """Measure nothing from now on. On all ranks in the same step."""
        self._ends = True
        self._begin()

    def state_dict(self) -> dict[str, Any]:
        """To be taken between two steps."""
        return {"steps": self._steps, "scale": self.scale.to_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._steps, self.scale = state["steps"], NoiseScale.from_dict(state["scale"])
        self._begin()

    def _begin(self) -> None:
        """A step with nothing in it yet, and with hooks where it is due. What is frozen may have changed."""
        self._seen = _Seen()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._steps % self.every == 0 and not self._ends:
            for index, each in enumerate(self._parameters):
                if each.requires_grad:
                    hook: Any = each.register_hook  # untyped in torch
                    self._handles.append(hook(partial(self._add, index)))

    def _add(self, index: int, gradient: torch.Tensor) -> None:
        """Once for each parameter and microbatch: of a gradient that comes in parts the norm is not known."""
        self._seen.whole = self._seen.whole and index not in self._seen.norms
        self._seen.norms[index] = self._norm(gradient)

    def _measure(self, loss_scale: float | Callable[[], float]) -> str | None:
        """Take the step into the scale; else why not. All ranks come to the same answer, from the same sums."""
        total, count, bad, ranks, *ones = self._sums()
        (size, other_size), (weight, other_weight), (mean, other_mean) = _over_ranks(ones, ranks)
        if bad or other_size or other_weight:
            return "its microbatches were not of one size and weight, or a gradient came in parts or not at all"
        if count < _LEAST:
            return "it had one microbatch"
        if other_mean:
            return "the ranks' gradients were not averaged yet, or are of parts of a model"
        scale = weight * (loss_scale() if callable(loss_scale) else loss_scale)
        if not 0 < scale < math.inf:
            return "its loss scale was no positive number"
        # .grad is the ranks' mean of their sums of weighted gradients.
        square_of_mean = mean / (scale * count / ranks) ** 2
        told = self.scale.observe(total / count / scale**2, square_of_mean, microbatch=size, count=round(count))
        return None if told else "its gradients were not finite"

    def _sums(self) -> list[float]:
        """Over ranks: of |g_i|^2, microbatches, faults and 1; of size, weight and |g|^2; of the squares of these."""
        seen, wide = self._seen, torch.zeros((), device=self._device, dtype=self._wide)
        (size, weight), *others = seen.kinds or {(0, 0.0)}
        fault = bool(others or seen.norms or not (seen.whole and seen.squares))
        trained = [each.grad for each in self._parameters if each.requires_grad and each.grad is not None]
        mean = wide + _square([self._norm(gradient) for gradient in trained]) if trained else wide
        total = wide + torch.stack(seen.squares).sum() if seen.squares else wide
        ones = torch.stack([wide + size, wide + weight, mean])
        said = torch.cat([torch.stack([total, wide + len(seen.squares), wide + fault, wide + 1]), ones, ones**2])
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(said, group=self._group)
        found: list[float] = said.tolist()
        return found

    def _norm(self, gradient: torch.Tensor) -> torch.Tensor:
        """In single precision at least, and without a copy in that."""
        values = gradient.detach()
        values = values.coalesce().values() if values.is_sparse else values
        values = torch.view_as_real(values) if values.is_complex() else values
        norm: torch.Tensor = torch.linalg.vector_norm(values, dtype=self._dtype)
        return norm.to(self._device, non_blocking=True)


def _square(norms: list[torch.Tensor]) -> torch.Tensor:
    """Of a gradient, from the norms of its parts."""
    return torch.stack(norms).square().sum()


def _over_ranks(sums: Sequence[float], ranks: float) -> list[tuple[float, bool]]:
    """For each number its mean over ranks, and whether they differ; ``sums`` has those of their squares behind."""
    half = len(sums) // 2
    means = [(a / ranks, b / ranks) for a, b in zip(sums[:half], sums[half:], strict=True)]
    return [(mean, ranks > 1 and square - mean**2 > _SAME * mean**2) for mean, square in means]


def _trainable(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """Each once. Raises ``ValueError`` where there is none, or only parts of each."""
    known = list(dict.fromkeys(parameters))
    if not known:
        raise ValueError("there are no parameters, so there is no gradient to measure: give those of the model")
    if any(hasattr(each, "placements") for each in known):
        raise ValueError("ranks hold parts of this model (DTensor): its gradients' norms cannot be measured here")
    return known
