"""What another batch size costs in progress: the gradient noise scale, and a frontier in units of progress.

Notation (McCandlish et al. 2018, arXiv:1812.06162, appendix A.1):

    b        samples of one microbatch; m of them, on all ranks together, make one step of B = m b
    g_i      mean gradient of microbatch i, and g the mean of all
    G        gradient of the whole distribution
    Sigma    covariance of a single sample's gradient
    B_noise  noise scale, tr(Sigma) / |G|^2: the batch size at which half of each sample's worth is lost       [samples]

E |g_i|^2 = |G|^2 + tr(Sigma) / b and E |g|^2 = |G|^2 + tr(Sigma) / B, so that with S the mean of |g_i|^2 and N = |g|^2

    |G|^2      is estimated by  (m N - S) / (m - 1)
    tr(Sigma)  is estimated by  b m / (m - 1) (S - N)

without bias, and each on its own, smoothed over steps before one is divided by the other: a ratio of two noisy numbers
is biased. Late in a training |G|^2 is nearly nothing and its estimate may be below it: then the noise scale is taken
as infinite, and a larger batch costs nothing.

A step at batch size B makes the progress of 1 / (1 + B_noise / B) steps without noise (eq 2.7 there; the idea of
statistical efficiency is Pollux's, OSDI'21), so that a sample is worth

    e(B) = (B_noise + B0) / (B_noise + B)

of one at the job's own batch size B0. Time and energy for a unit of progress are those of a sample divided by e.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from zeus_core.frontier import Frontier, OperatingPoint

_LEAST = 2  # microbatches


@dataclass(slots=True)
class NoiseScale:
    """Both estimates as moving averages over ``memory`` steps, without the bias of their beginning."""

    memory: float = 100.0
    steps: int = 0
    skipped: int = 0
    _square: float = 0.0
    _trace: float = 0.0

    def __post_init__(self) -> None:
        if not self.memory >= 1.0:
            raise ValueError(f"memory must be at least 1 step, not {self.memory!r}")

    def observe(self, mean_square: float, square_of_mean: float, *, microbatch: float, count: int) -> bool:
        """One step: S of its ``count`` m microbatches of ``microbatch`` b samples each, and N.

        False, and only counted in ``skipped``, for what is no number. Raises ``ValueError`` for fewer than two
        microbatches: of one nothing can be told.
        """
        if count < _LEAST or not microbatch > 0:
            raise ValueError(f"a step needs at least 2 microbatches of samples, not {count!r} of {microbatch!r}")
        if not (math.isfinite(mean_square) and math.isfinite(square_of_mean)):
            self.skipped += 1
            return False
        kept = 1.0 - 1.0 / self.memory
        self._square = kept * self._square + (count * square_of_mean - mean_square) / (count - 1) / self.memory
        trace = microbatch * count / (count - 1) * (mean_square - square_of_mean)
        self._trace = kept * self._trace + trace / self.memory
        self.steps += 1
        return True

    @property
    def gradient_square(self) -> float | None:
        """|G|^2; None before the first step."""
        return self._square / self._weight if self.steps else None

    @property
    def trace(self) -> float | None:
        """tr(Sigma); None before the first step."""
        return self._trace / self._weight if self.steps else None

    @property
    def value(self) -> float | None:
        """B_noise in samples, infinite where no gradient can be told from noise; None before the first step."""
        square, trace = self.gradient_square, self.trace
        if square is None or trace is None:
            return None
        return max(trace, 0.0) / square if square > 0 else math.inf

    @property
    def _weight(self) -> float:
        return 1.0 if self.memory == 1.0 else 1.0 - (1.0 - 1.0 / self.memory) ** self.steps

    def to_dict(self) -> dict[str, Any]:
        return {
            "memory": self.memory,
            "steps": self.steps,
            "skipped": self.skipped,
            "square": self._square,
            "trace": self._trace,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> NoiseScale:
        return cls(data["memory"], data["steps"], data["skipped"], data["square"], data["trace"])


def efficiency(batch: float, base: float, noise: float) -> float:
    """e: what a sample of a global ``batch`` is worth against one of ``base``. Raises ``ValueError``."""
    if not (batch > 0 and base > 0 and noise >= 0):
        raise ValueError(
            f"batch sizes must be above 0 and the noise scale at least 0, not {batch!r}, {base!r}, {noise!r}"
        )
    return 1.0 if math.isinf(noise) else (noise + base) / (noise + batch)


def in_progress(frontier: Frontier, noise: float) -> Frontier:
    """A frontier of samples as one of progress, in samples of the reference's own batch size, which is left as it is.

    Each setting's ``batch_size`` is the global batch. Raises ``ValueError`` where one has none.
    """
    base = _batch(frontier.reference)
    points = tuple(_worth(point, efficiency(_batch(point), base, noise)) for point in frontier.points)
    return Frontier.of(points, frontier.reference.setting)


def _worth(point: OperatingPoint, worth: float) -> OperatingPoint:
    return replace(
        point, seconds_per_unit=point.seconds_per_unit / worth, joules_per_unit=point.joules_per_unit / worth
    )


def _batch(point: OperatingPoint) -> int:
    if point.setting.batch_size is None:
        raise ValueError(f"the point at {point.setting} has no batch size, so nothing can be told of its progress")
    return point.setting.batch_size
