"""A job that is trained again and again: what it may be trained with, and when it is done.

    nightly = Recurring(batch_sizes=(32, 64, 128), default=64, target=0.84, max_epochs=30)
    with Job("ranking", units="samples", recurring=nightly) as job:
        loader = make_loader(job.batch_size)
        while not job.should_stop:
            train_an_epoch(loader, job)
            job.report(accuracy())

The service keeps what each recurrence took, and lets the next one try the batch size that promises most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chase.client.arguments import MOST_SIZES, real, whole, wholes

_MOST_EPOCHS = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurring:
    """``batch_sizes`` that may be tried, ``default`` among them; ``target`` is the metric at which training is done.

    One that has not reached it after ``max_epochs`` has failed. ``beta`` ends one early that costs more than so many
    times the cheapest that reached it; None never does. Raises ``ValueError`` or ``TypeError`` for what means nothing.
    """

    batch_sizes: tuple[int, ...]
    default: int
    target: float
    higher_is_better: bool = True
    max_epochs: int = 100
    beta: float | None = 2.0

    def __post_init__(self) -> None:
        self._as_plain()
        if (
            min(self.batch_sizes, default=0) < 1
            or len({*self.batch_sizes}) < len(self.batch_sizes)
            or (len(self.batch_sizes) > MOST_SIZES)
        ):
            text = f"batch_sizes must be 1 to {MOST_SIZES} different numbers from 1"
            raise ValueError(f"{text}, not {list(self.batch_sizes)!r}")
        if self.default not in self.batch_sizes:
            raise ValueError(f"default must be one of batch_sizes {list(self.batch_sizes)!r}, not {self.default!r}")
        if not isinstance(self.higher_is_better, bool):
            raise TypeError(f"higher_is_better must be true or false, not {self.higher_is_better!r}")
        if not math.isfinite(self.target):
            raise ValueError(f"target must be a finite number, not {self.target!r}")
        if not 1 <= self.max_epochs <= _MOST_EPOCHS:
            raise ValueError(f"max_epochs must be from 1 to {_MOST_EPOCHS}, not {self.max_epochs!r}")
        if self.beta is not None and not 1.0 < self.beta < math.inf:
            raise ValueError(f"beta must be more than 1, or None for no early end, not {self.beta!r}")

    def _as_plain(self) -> None:
        """What is sent is Python's own: numpy's whole numbers, a tensor of one number and any iterable are as good."""
        for name, made in (("batch_sizes", wholes), ("default", whole), ("max_epochs", whole), ("target", real)):
            object.__setattr__(self, name, made(name, getattr(self, name)))
        if self.beta is not None:
            object.__setattr__(self, "beta", real("beta", self.beta))

    def check_microbatch(self, own: int) -> None:
        """Raise ``ValueError`` unless each of the sizes is so many microbatches of a job's ``own`` size."""
        uneven = [size for size in self.batch_sizes if size % own]
        if uneven:
            text = f"batch_size {own} must divide each size that a recurrence may try"
            raise ValueError(f"{text}, but {', '.join(map(str, uneven))} is no multiple of it: name a smaller one")

    def reached_by(self, metric: float) -> bool:
        """False for a metric that is no number."""
        return metric >= self.target if self.higher_is_better else metric <= self.target

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Recurring:
        """The inverse. Raises as the class does, ``TypeError`` for other keys too."""
        return cls(**{**data, "batch_sizes": tuple(data["batch_sizes"])})
