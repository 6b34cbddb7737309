"""Measuring the gradient noise scale in a PyTorch training: of its microbatches, on one rank or many.

    noise = GradientNoise(model.parameters(), every=20)
    for micro in step:
        with micro.gradients(model):
            (mean_loss(...) * micro.weight).backward()
        noise.micro(micro.samples, micro.weight)
    noise.step()  # before optimizer.step(), once the gradients of all ranks are in
    optimizer.step()

A hook on each parameter sees the gradient of one microbatch before it is added to the others, and before the ranks'
gradients are averaged; what is in ``.grad`` at the end is the mean of all. So there is no copy of any gradient. Only
each ``every``-th step is measured; in the others a hook costs a comparison. A measured step waits for the device once.

Microbatches of one step must be of one size: an uneven step is not measured. Adam and the like divide each component
by its own scale, and the noise scale that would matter to them is that of the divided gradients; this is the plain one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from zeus_core.goodput import NoiseScale

_LEAST = 2


class GradientNoise:
    """``scale`` holds the estimate. ``loss_scale`` is what losses are multiplied by in mixed precision."""

    def __init__(self, parameters: Iterable[nn.Parameter], *, every: int = 20, memory: float = 100.0) -> None:
        if every < 1:
            raise ValueError(f"every must be at least 1, not {every!r}")
        self.scale = NoiseScale(memory)
        self.every = every
        self._parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self._steps = 0
        self._measures = True
        self._square: torch.Tensor | None = None  # of the microbatch at hand
        self._squares: list[torch.Tensor] = []
        self._sizes: set[int] = set()
        self._handles = [each.register_hook(self._add) for each in self._parameters]  # type: ignore[no-untyped-call]

    def micro(self, samples: int, weight: float) -> None:
        """After each microbatch's backward pass: its samples, and what its mean loss was multiplied by."""
        square, self._square = self._square, None
        if not self._measures:
            return
        self._sizes.add(samples)
        if square is not None and samples > 0 and weight > 0:
            self._squares.append(square / weight**2)

    def step(self, loss_scale: float = 1.0) -> bool:
        """Before the optimizer's step, on every rank; whether it was measured."""
        measured, squares = self._measures, self._squares
        sizes, self._squares, self._sizes = self._sizes, [], set()
        self._steps += 1
        self._measures = self._steps % self.every == 0
        return measured and self._measure(squares, sizes, loss_scale)

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self._steps, "scale": self.scale.to_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._steps, self.scale = state["steps"], NoiseScale.from_dict(state["scale"])
        self._measures = self._steps % self.every == 0

    def _add(self, gradient: torch.Tensor) -> None:
        if self._measures:
            square = _square(gradient)
            self._square = square if self._square is None else self._square + square

    def _measure(self, squares: list[torch.Tensor], sizes: set[int], loss_scale: float) -> bool:
        """Sums over ranks: of the squares, of how many there are, of the samples, and whether one was uneven."""
        even = len(sizes) == 1 and bool(squares)
        size = float(max(sizes, default=0))
        device = self._parameters[0].device
        total = torch.stack(squares).sum() if squares else torch.zeros((), device=device)
        said = torch.stack([total, *torch.tensor([len(squares), size * even, not even], device=device).float()])
        ranks = 1
        if dist.is_available() and dist.is_initialized():
            ranks = dist.get_world_size()
            dist.all_reduce(said)
        mean = torch.stack([_square(p.grad) for p in self._parameters if p.grad is not None]).sum()
        total_, count, size_sum, uneven, mean_ = torch.cat([said, mean.reshape(1).to(device)]).tolist()
        if uneven or count < _LEAST or size_sum != size * ranks:
            return False
        scaled = loss_scale**2
        return self.scale.observe(total_ / count / scaled, mean_ / scaled, microbatch=size, count=round(count))


def _square(gradient: torch.Tensor) -> torch.Tensor:
    """Of the norm, in single precision at least."""
    values = gradient.coalesce().values() if gradient.is_sparse else gradient
    kept = values.detach()
    return (kept if kept.dtype == torch.float64 else kept.float()).square().sum()
