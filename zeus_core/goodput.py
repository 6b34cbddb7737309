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

without bias. The former is the mean of g_i g_j over all pairs i < j, the latter b times the sample variance: of all
unbiased estimates that treat the microbatches alike, those are the steadiest. Each is smoothed over steps before one is
divided by the other, for a ratio of two noisy numbers is biased. Late in a training |G|^2 is nearly nothing and its
estimate may be below it: then the noise scale is taken as infinite, and a larger batch costs nothing.

A step at batch size B makes the progress of 1 / (1 + B_noise / B) steps without noise (eq 2.7 there; the idea of
statistical efficiency is Pollux's, OSDI'21), so that a sample is worth

    e(B) = (B_noise + B0) / (B_noise + B)

of one at the job's own batch size B0. Time and energy for a unit of progress are those of a sample divided by e, and
its rate, samples per second times e, is Pollux's goodput.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from zeus_core.frontier import Frontier, OperatingPoint
from zeus_core.setting import Setting

_LEAST = 2  # microbatches
_KEYS = ("memory", "steps", "skipped", "means")


@dataclass(slots=True)
class NoiseScale:
    """Both estimates as moving averages over ``memory`` steps, without the bias of their beginning."""

    memory: float = 100.0
    steps: int = 0
    skipped: int = 0
    # Moving averages that began at 0: of |G|^2 and tr(Sigma), of their squares, and of their product.
    _means: tuple[float, ...] = (0.0,) * 5

    def __post_init__(self) -> None:
        if not (math.isfinite(self.memory) and self.memory >= 1.0):
            raise ValueError(f"memory must be at least 1 step, not {self.memory!r}")

    def observe(self, mean_square: float, square_of_mean: float, *, microbatch: float, count: int) -> bool:
        """One step: S of its ``count`` m microbatches of ``microbatch`` b samples each, and N.

        False, and only counted in ``skipped``, for what is no number. Raises ``ValueError`` for fewer than two
        microbatches: of one nothing can be told.
        """
        if count < _LEAST or not microbatch > 0:
            raise ValueError(f"a step needs at least 2 microbatches of samples, not {count!r} of {microbatch!r}")
        square = (count * square_of_mean - mean_square) / (count - 1)
        trace = microbatch * count / (count - 1) * (mean_square - square_of_mean)
        told = (square, trace, square * square, trace * trace, square * trace)
        if not all(map(math.isfinite, told)):
            self.skipped += 1
            return False
        kept = 1.0 - 1.0 / self.memory
        self._means = tuple(kept * old + new / self.memory for old, new in zip(self._means, told, strict=True))
        self.steps += 1
        return True

    @property
    def gradient_square(self) -> float | None:
        """|G|^2; None before the first step."""
        return self._means[0] / self._weight if self.steps else None

    @property
    def trace(self) -> float | None:
        """tr(Sigma); None before the first step."""
        return self._means[1] / self._weight if self.steps else None

    @property
    def value(self) -> float | None:
        """B_noise in samples, infinite where no gradient can be told from noise; None before the first step."""
        square, trace = self.gradient_square, self.trace
        if square is None or trace is None:
            return None
        return max(trace, 0.0) / square if square > 0 else math.inf

    @property
    def error(self) -> float | None:
        """Standard error of ``value`` in samples, to first order (delta method); None before the second step.

        Steps count as independent, as their samples are. Infinite where ``value`` is, and of no use where it is not
        well below it.
        """
        ratio, share = self.value, self._share
        if ratio is None or share == 1.0:
            return None
        if math.isinf(ratio):
            return math.inf
        square, trace, squares, traces, products = (mean / self._weight for mean in self._means)
        spread = (traces - trace**2) - 2 * ratio * (products - square * trace) + ratio**2 * (squares - square**2)
        return math.sqrt(max(spread, 0.0) * share / (1.0 - share)) / square

    @property
    def _weight(self) -> float:
        """Sum of the weights that the steps have in an average."""
        return 1.0 - (1.0 - 1.0 / self.memory) ** self.steps

    @property
    def _share(self) -> float:
        """Sum of the squared weights over their sum squared: 1 over so many steps as the average is worth."""
        kept = 1.0 - 1.0 / self.memory
        return (1.0 + kept**self.steps) / (1.0 + kept) / self.memory / self._weight if self.steps > 1 else 1.0

    def to_dict(self) -> dict[str, Any]:
        return {"memory": self.memory, "steps": self.steps, "skipped": self.skipped, "means": list(self._means)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> NoiseScale:
        """The inverse of ``to_dict``. Raises ``ValueError`` where something is missing."""
        if missing := [key for key in _KEYS if key not in data]:
            raise ValueError(f"the state of a noise scale lacks {', '.join(missing)}: was it written by to_dict?")
        return cls(data["memory"], data["steps"], data["skipped"], tuple(data["means"]))


def efficiency(batch: float, base: float, noise: float) -> float:
    """e: what a sample of a global ``batch`` is worth against one of ``base``. Raises ``ValueError``."""
    if not (0 < batch < math.inf and 0 < base < math.inf and noise >= 0):
        raise ValueError(
            f"batch sizes must be above 0 and the noise scale at least 0, not {batch!r}, {base!r}, {noise!r}"
        )
    return 1.0 if math.isinf(noise) else (noise + base) / (noise + batch)


def in_progress(frontier: Frontier, noise: float, *, batches: int = 1) -> Frontier:
    """A frontier of samples as one of progress, in samples at the reference's own batch size, which is left as it is.

    A step has ``batches`` of a setting's ``batch_size``: ranks times accumulation where the lever is the microbatch.
    Not for one whose units were counted as progress. Raises ``ValueError`` where a point has no batch size.
    """
    if batches < 1:
        raise ValueError(f"a step has at least 1 batch, not {batches!r}")
    base = batches * _batch(frontier.reference.setting)

    def worth(setting: Setting) -> float:
        return efficiency(batches * _batch(setting), base, noise)

    points = [_divided(point, worth(point.setting)) for point in frontier.points]
    windows = tuple(replace(each, units=each.units * worth(each.setting)) for each in frontier.windows)
    return replace(Frontier.of(points, frontier.reference.setting), windows=windows)


def _divided(point: OperatingPoint, worth: float) -> OperatingPoint:
    return replace(
        point, seconds_per_unit=point.seconds_per_unit / worth, joules_per_unit=point.joules_per_unit / worth
    )


def _batch(setting: Setting) -> int:
    if setting.batch_size is None:
        raise ValueError(f"the point at {setting} has no batch size, so nothing can be told of its progress")
    return setting.batch_size
