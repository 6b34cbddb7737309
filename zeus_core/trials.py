"""One training of a job that is trained again and again: what it tried, what it took, and what that costs.

``batch_size`` searches over them, and ``other_gpus`` translates those of other hardware.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """What became of a trial. ``LOST`` says nothing of its batch size: the job was killed."""

    RUNNING = "running"
    CONVERGED = "converged"
    FAILED = "failed"
    STOPPED = "stopped early"
    OUT_OF_MEMORY = "out of memory"
    LOST = "lost"


class Stage(StrEnum):
    """Why a size is tried."""

    PRUNING = "pruning"
    CONCURRENT = "concurrent"
    SAMPLING = "sampling"
    PINNED = "pinned"


@dataclass(frozen=True, slots=True)
class Trial:
    """One training: ``number`` from 1 in the order in which they began, and what it took until it ended.

    ``gpu_model`` tells trainings on other hardware, whose joules and seconds are others.
    """

    number: int
    batch_size: int
    status: Status = Status.RUNNING
    joules: float = 0.0
    seconds: float = 0.0
    epochs: float = 0.0
    gpu_model: str = ""
    stage: Stage | None = None

    def __post_init__(self) -> None:
        for name in ("joules", "seconds", "epochs"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} of a trial must be finite and at least 0, not {value!r}")

    def to_dict(self) -> dict[str, Any]:
        words = {"status": self.status.value, "stage": self.stage.value if self.stage else None}
        return {**{name: getattr(self, name) for name in self.__slots__}, **words}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trial:
        stage = data.get("stage")
        return cls(**{**data, "status": Status(data["status"]), "stage": Stage(stage) if stage else None})


def cost_of(joules: float, seconds: float, *, eta: float, max_power_w: float) -> float:
    """Eq 2 of papers B.1, in joules."""
    return eta * joules + (1.0 - eta) * max_power_w * seconds
