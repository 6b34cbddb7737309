"""The time-energy frontier of a job: what each setting costs in seconds and in joules.

Notation, per operating point k:

    T_k   seconds per unit of work             [s]
    E_k   joules per unit of work              [J]
    r_k   rate, 1 / T_k                        [1/s]
    P_k   average power, E_k / T_k             [W]

A unit is whatever the job counts. Energy is summed over all GPUs of the job, time is the maximum over its ranks.

Mixing two settings over *time* mixes rate and power linearly, so no mix beats the lower convex hull of (r, P). The map
(T, E) -> (1/T, E/T) is projective: it keeps lines, so a point is on that hull exactly when some cost a*E + b*T with
a, b >= 0 chooses it, as long as it is not slower than the point of least energy (papers: Chase, closed form A.7).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Setting:
    """One position of every lever. A field that is None is a lever that is not used."""

    power_limit_w: float | None = None
    sm_clock_mhz: int | None = None
    batch_size: int | None = None
    plan: str | None = None
    paused: bool = False

    def __str__(self) -> str:
        if self.paused:
            return "paused"
        parts = [
            f"{self.power_limit_w:g} W" if self.power_limit_w is not None else "",
            f"{self.sm_clock_mhz} MHz" if self.sm_clock_mhz is not None else "",
            f"batch {self.batch_size}" if self.batch_size is not None else "",
            f"plan {self.plan}" if self.plan is not None else "",
        ]
        return ", ".join(part for part in parts if part) or "as found"

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value not in (None, False)}


@dataclass(frozen=True, slots=True)
class Window:
    """One raw measurement: ``units`` of real work at ``setting`` took ``seconds`` and ``joules`` (all GPUs together).

    Raises ``ValueError`` for anything that is not finite and positive.
    """

    setting: Setting
    units: float
    seconds: float
    joules: float

    def __post_init__(self) -> None:
        for name in ("units", "seconds", "joules"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} of a window must be finite and positive, not {value!r}")


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """What one setting costs. ``spread`` is the relative standard deviation of E over its ``samples`` windows."""

    setting: Setting
    seconds_per_unit: float
    joules_per_unit: float
    spread: float = 0.0
    samples: int = 1

    def __post_init__(self) -> None:
        for name in ("seconds_per_unit", "joules_per_unit"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} of an operating point must be finite and positive, not {value!r}")

    @property
    def rate(self) -> float:
        """Units per second."""
        return 1.0 / self.seconds_per_unit

    @property
    def power_w(self) -> float:
        return self.joules_per_unit / self.seconds_per_unit

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "setting": self.setting.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> OperatingPoint:
        return cls(**{**data, "setting": Setting(**data["setting"])})


@dataclass(frozen=True, slots=True)
class Frontier:
    """The measured operating points of a job, fitted, and what of them is worth choosing.

    ``reference`` is the measured point at the job's original setting; slowdowns are against it and it is never
    re-derived from a slowed state (rule G24). ``points`` are all settings, fastest first. Build one with ``fit`` from
    raw windows or with ``of`` from points.
    """

    points: tuple[OperatingPoint, ...]
    reference: OperatingPoint
    windows: tuple[Window, ...] = ()

    @classmethod
    def of(cls, points: Iterable[OperatingPoint], reference: Setting | None = None) -> Frontier:
        """From operating points; the reference is that of ``reference``, or the highest power limit if None.

        Raises ``ValueError`` when there are no points, two for one setting, or none for ``reference``.
        """
        ordered = tuple(sorted(points, key=lambda point: (point.seconds_per_unit, point.joules_per_unit)))
        if not ordered:
            raise ValueError("a frontier needs at least one operating point")
        settings = [point.setting for point in ordered]
        if len(set(settings)) != len(settings):
            raise ValueError("a frontier has one operating point for each setting")
        if reference is None:
            reference = max(ordered, key=lambda point: (_limit(point.setting), point.rate)).setting
        found = next((point for point in ordered if point.setting == reference), None)
        if found is None:
            raise ValueError(f"the reference setting ({reference}) was not measured")
        return cls(ordered, found)

    @classmethod
    def fit(cls, windows: Sequence[Window], reference: Setting | None = None) -> Frontier:
        """From raw windows: pooled for each setting, with time made monotone in the power limit.

        Short windows are noisy enough that the paper's own controller switched on noise alone (A.6), so a lower
        limit that looks faster than a higher one is pooled with it (``isotonic``). The raw windows stay beside.
        """
        points = [_pool(setting, group) for setting, group in _by_setting(windows).items()]
        fitted = cls.of(_monotone_in_limit(points), reference)
        return replace(fitted, windows=tuple(windows))

    @property
    def pareto(self) -> tuple[OperatingPoint, ...]:
        """Points that no other beats in both time and energy, fastest first."""
        front: list[OperatingPoint] = []
        for point in self.points:
            if not front or point.joules_per_unit < front[-1].joules_per_unit:
                front.append(point)
        return tuple(front)

    @property
    def hull(self) -> tuple[OperatingPoint, ...]:
        """The lower convex hull of (rate, power), fastest first, down to the point of least energy per unit."""
        return _lower_hull(self.pareto)

    @property
    def fastest(self) -> OperatingPoint:
        """Speed-first."""
        return self.hull[0]

    @property
    def frugal(self) -> OperatingPoint:
        """Efficiency-first: least energy per unit; any slower is worse on both axes."""
        return self.hull[-1]

    def slowdown(self, point: OperatingPoint) -> float:
        """Time per unit against the reference, minus one; 0.05 is five per cent slower."""
        return point.seconds_per_unit / self.reference.seconds_per_unit - 1.0

    def switch_prices(self) -> tuple[float, ...]:
        """For each pair of hull neighbours (i fast, j slow), (E_i - E_j) / (T_j - T_i): watts saved by being slow.

        A cost a*E + b*T chooses j over i exactly when b / a is at most this. Falls along the hull.
        """
        return tuple(
            (fast.joules_per_unit - slow.joules_per_unit) / (slow.seconds_per_unit - fast.seconds_per_unit)
            for fast, slow in zip(self.hull, self.hull[1:], strict=False)
        )

    def at(self, setting: Setting) -> OperatingPoint | None:
        return next((point for point in self.points if point.setting == setting), None)

    def to_dict(self) -> dict[str, Any]:
        return {
            "points": [point.to_dict() for point in self.points],
            "reference": self.reference.setting.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Frontier:
        """The inverse of ``to_dict``. Raises ``ValueError``, ``KeyError`` or ``TypeError`` on anything else."""
        return cls.of(map(OperatingPoint.from_dict, data["points"]), Setting(**data["reference"]))


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-decreasing sequence nearest to ``values`` in weighted least squares (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight, length
    for value, weight in zip(values, weights, strict=True):
        mean, mass, length = value, weight, 1
        while blocks and blocks[-1][0] >= mean:
            left_mean, left_mass, left_length = blocks.pop()
            mean = (left_mean * left_mass + mean * mass) / (left_mass + mass)
            mass += left_mass
            length += left_length
        blocks.append((mean, mass, length))
    return [mean for mean, _, length in blocks for _ in range(length)]


def _limit(setting: Setting) -> float:
    return math.inf if setting.power_limit_w is None else setting.power_limit_w


def _by_setting(windows: Iterable[Window]) -> dict[Setting, list[Window]]:
    groups: dict[Setting, list[Window]] = defaultdict(list)
    for window in windows:
        groups[window.setting].append(window)
    return groups


def _pool(setting: Setting, windows: Sequence[Window]) -> OperatingPoint:
    """Totals, not a mean of ratios: long windows count for more."""
    units = sum(window.units for window in windows)
    energy = sum(window.joules for window in windows) / units
    variance = sum(window.units * (window.joules / window.units - energy) ** 2 for window in windows) / units
    seconds = sum(window.seconds for window in windows) / units
    return OperatingPoint(setting, seconds, energy, math.sqrt(variance) / energy, len(windows))


def _monotone_in_limit(points: Sequence[OperatingPoint]) -> list[OperatingPoint]:
    """Time per unit made non-increasing in the power limit, apart for each position of the other levers."""
    families: dict[Setting, list[OperatingPoint]] = defaultdict(list)
    for point in points:
        families[replace(point.setting, power_limit_w=None)].append(point)
    fitted: list[OperatingPoint] = []
    for family in families.values():
        ordered = sorted(family, key=lambda point: -_limit(point.setting))
        times = isotonic([p.seconds_per_unit for p in ordered], [float(p.samples) for p in ordered])
        fitted += [replace(p, seconds_per_unit=t) for p, t in zip(ordered, times, strict=True)]
    return fitted


def _lower_hull(front: Sequence[OperatingPoint]) -> tuple[OperatingPoint, ...]:
    """Andrew's scan over a Pareto front in order of falling rate."""
    hull: list[OperatingPoint] = []
    for point in front:
        while len(hull) > 1 and not _below(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return tuple(hull)


def _below(left: OperatingPoint, middle: OperatingPoint, right: OperatingPoint) -> bool:
    """Whether ``middle`` lies under the chord from ``left`` to ``right`` in (rate, power)."""
    share = (left.rate - middle.rate) / (left.rate - right.rate)
    return middle.power_w < left.power_w + share * (right.power_w - left.power_w)
