"""The time-energy frontier of a job: what each setting costs in seconds and in joules.

Notation, per operating point k:

    T_k   seconds per unit of work             [s]
    E_k   joules per unit of work              [J]
    r_k   rate, 1 / T_k                        [1/s]
    P_k   average power, E_k / T_k             [W]

A unit is whatever the job counts. Energy is summed over all GPUs of the job, time is the maximum over its ranks.

Mixing two settings over *time* mixes rate and power linearly, so no mix beats the lower convex hull of (r, P). The map
(T, E) -> (1/T, E/T) is projective: it keeps lines and what lies below them, so that hull holds the same points as the
lower hull of (T, E), and one of them is best under every cost a*E + b*T with a, b >= 0, never another. Between
neighbours i (fast) and j (slow) the cost changes its mind at

    b / a = s_ij = (E_i - E_j) / (T_j - T_i)   [W]   (Chase's switch threshold in closed form)

and s falls along the hull. The code works with s alone: it needs no reciprocal, which two nearly equal times could
round to one rate.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from zeus_core.plain import Plain
from zeus_core.setting import Setting as Setting  # noqa: PLC0414  for all who work with frontiers


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
    """What one setting costs. ``spread`` is the relative standard deviation of E over its ``samples`` windows.

    It is 0 where there is one window and so nothing to tell it by.
    """

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
        if not (math.isfinite(self.spread) and self.spread >= 0 and self.samples >= 1):
            raise ValueError(f"an operating point of {self.samples!r} samples with a spread of {self.spread!r}")

    @property
    def rate(self) -> float:
        """Units per second."""
        return 1.0 / self.seconds_per_unit

    @property
    def power_w(self) -> float:
        return self.joules_per_unit / self.seconds_per_unit

    def to_dict(self) -> dict[str, Any]:
        return {
            "setting": self.setting.to_dict(),
            "seconds_per_unit": self.seconds_per_unit,
            "joules_per_unit": self.joules_per_unit,
            "spread": self.spread,
            "samples": self.samples,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> OperatingPoint:
        return cls(**{**data, "setting": Setting(**data["setting"])})


@dataclass(frozen=True)  # no slots: what follows from the points is kept once it was asked for
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
        ordered = tuple(sorted(points, key=_by_cost))
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
        groups = _by_setting(windows)
        points = [_pool(setting, group) for setting, group in groups.items()]
        units = {setting: math.fsum(window.units for window in group) for setting, group in groups.items()}
        fitted = cls.of(_monotone_in_limit(points, units), reference)
        return replace(fitted, windows=tuple(windows))

    @cached_property
    def pareto(self) -> tuple[OperatingPoint, ...]:
        """Points that no other beats in both time and energy, fastest first."""
        return pareto_front(self.points)

    @cached_property
    def hull(self) -> tuple[OperatingPoint, ...]:
        """The lower convex hull of (rate, power), fastest first, down to the point of least energy per unit."""
        return lower_hull(self.pareto)

    @cached_property
    def notes(self) -> dict[Hashable, Any]:
        """For those who work out something else from the points alone, and want to do so once."""
        return {}

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
        """s_ij for each pair of hull neighbours, in watts, falling along the hull.

        A cost a*E + b*T, a > 0, chooses the slower of the two exactly when b / a is at most this.
        """
        return self._switch_prices

    @cached_property
    def _switch_prices(self) -> tuple[float, ...]:
        return tuple(switch_price(fast, slow) for fast, slow in pairwise(self.hull))

    def at(self, setting: Setting) -> OperatingPoint | None:
        return next((point for point in self.points if point.setting == setting), None)

    @cached_property
    def batch_sizes(self) -> tuple[int, ...]:
        """Those that were measured, ascending; empty where the batch size is no lever."""
        return tuple(sorted({point.setting.batch_size for point in self.points if point.setting.batch_size}))

    def seconds_at(self, power_limit_w: float, batch_size: int | None = None) -> float:
        """Seconds per unit: as measured, on a straight line between measured limits, level beyond them.

        Of a batch size that was not measured nothing is known: it counts as the reference's.
        """
        reference = self.reference
        known = self._times.get(batch_size) or self._times.get(reference.setting.batch_size, ())
        if not known:
            return reference.seconds_per_unit
        right = bisect_left(known, (power_limit_w,))
        if right == len(known) or known[right][0] == power_limit_w or right == 0:
            return known[min(right, len(known) - 1)][1]
        (low_w, slow_s), (high_w, fast_s) = known[right - 1], known[right]
        return slow_s + (power_limit_w - low_w) / (high_w - low_w) * (fast_s - slow_s)

    @cached_property
    def _times(self) -> dict[int | None, tuple[tuple[float, float], ...]]:
        """By batch size: limit and seconds per unit of each point that has a limit, ascending."""
        found: dict[int | None, list[tuple[float, float]]] = defaultdict(list)
        for point in self.points:
            if point.setting.power_limit_w is not None:
                found[point.setting.batch_size].append((point.setting.power_limit_w, point.seconds_per_unit))
        return {batch_size: tuple(sorted(times)) for batch_size, times in found.items()}

    def without(self, batch_size: int) -> Frontier:
        """Of all other batch sizes. Raises ``ValueError`` where the reference is one of these points."""
        if self.reference.setting.batch_size == batch_size:
            raise ValueError(f"batch {batch_size} is the reference's own")
        kept = tuple(point for point in self.points if point.setting.batch_size != batch_size)
        windows = tuple(window for window in self.windows if window.setting.batch_size != batch_size)
        return Frontier(kept, self.reference, windows)

    def capped(self, power_limit_w: float) -> Frontier:
        """What is left at or below a limit, which becomes the reference: for a published curve on a capped card.

        The point at the limit is the measured one, or linear in the limit between its neighbours. A limit above all
        points changes nothing. Raises ``ValueError`` when none is at or below the limit.
        """
        below = [point for point in self.points if _limit(point.setting) <= power_limit_w]
        above = [point for point in self.points if _limit(point.setting) > power_limit_w]
        if not above:
            return self
        if not below:
            raise ValueError(f"no operating point lies at or below {power_limit_w:g} W")
        low = max(below, key=lambda point: _limit(point.setting))
        high = min(above, key=lambda point: _limit(point.setting))
        if _limit(low.setting) < power_limit_w and math.isfinite(_limit(high.setting)):
            below.append(_between(low, high, power_limit_w))
        return Frontier.of(below)

    def to_dict(self) -> Plain:
        """Points and reference. The raw windows are rows of their own in whatever keeps this.

        One and the same each time, since every decision has it in it.
        """
        return self._plain

    @cached_property
    def _plain(self) -> Plain:
        return Plain(points=[point.to_dict() for point in self.points], reference=self.reference.setting.to_dict())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Frontier:
        """The inverse of ``to_dict``. Raises ``ValueError``, ``KeyError`` or ``TypeError`` on anything else."""
        return cls.of(map(OperatingPoint.from_dict, data["points"]), Setting(**data["reference"]))


def pareto_front(points: Iterable[OperatingPoint]) -> tuple[OperatingPoint, ...]:
    """Points that no other beats in both time and energy, fastest first; of equals the lowest power limit."""
    front: list[OperatingPoint] = []
    for point in sorted(points, key=_by_cost):
        if not front or point.joules_per_unit < front[-1].joules_per_unit:
            front.append(point)
    return tuple(front)


def lower_hull(points: Iterable[OperatingPoint]) -> tuple[OperatingPoint, ...]:
    """Andrew's scan over the Pareto front: what is left has strictly falling switch prices."""
    hull: list[OperatingPoint] = []
    for point in pareto_front(points):
        while len(hull) > 1 and switch_price(hull[-2], hull[-1]) <= switch_price(hull[-1], point):
            hull.pop()
        hull.append(point)
    return tuple(hull)


def switch_price(fast: OperatingPoint, slow: OperatingPoint) -> float:
    """s_ij of the module's notation: joules saved for each second that ``slow`` takes longer, in watts."""
    return (fast.joules_per_unit - slow.joules_per_unit) / (slow.seconds_per_unit - fast.seconds_per_unit)


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-decreasing sequence nearest to ``values`` in weighted least squares (pool adjacent violators).

    ``weights`` are positive. Equal neighbours are left alone, so a fit of a fit is the same to the last bit.
    """
    blocks: list[tuple[float, float, int]] = []  # mean, weight, length
    for value, weight in zip(values, weights, strict=True):
        mean, mass, length = value, weight, 1
        while blocks and blocks[-1][0] > mean:
            left_mean, left_mass, left_length = blocks.pop()
            mean = (left_mean * left_mass + mean * mass) / (left_mass + mass)
            mass += left_mass
            length += left_length
        blocks.append((mean, mass, length))
    return [mean for mean, _, length in blocks for _ in range(length)]


def _by_cost(point: OperatingPoint) -> tuple[float, float, float, int, int, str]:
    """Fastest first, then least energy; the rest makes the order independent of the input's."""
    at = point.setting
    levers = (_limit(at), at.sm_clock_mhz or 0, at.batch_size or 0, at.plan or "")
    return point.seconds_per_unit, point.joules_per_unit, *levers


def _limit(setting: Setting) -> float:
    return math.inf if setting.power_limit_w is None else setting.power_limit_w


def _between(low: OperatingPoint, high: OperatingPoint, power_limit_w: float) -> OperatingPoint:
    share = (power_limit_w - _limit(low.setting)) / (_limit(high.setting) - _limit(low.setting))

    def mix(a: float, b: float) -> float:
        return a + share * (b - a)

    return OperatingPoint(
        replace(low.setting, power_limit_w=power_limit_w),
        mix(low.seconds_per_unit, high.seconds_per_unit),
        mix(low.joules_per_unit, high.joules_per_unit),
        max(low.spread, high.spread),
        min(low.samples, high.samples),
    )


def _by_setting(windows: Iterable[Window]) -> dict[Setting, list[Window]]:
    groups: dict[Setting, list[Window]] = defaultdict(list)
    for window in windows:
        groups[window.setting].append(window)
    return groups


def _pool(setting: Setting, windows: Sequence[Window]) -> OperatingPoint:
    """Totals, not a mean of ratios: long windows count for more. ``fsum`` gives one result for any order."""
    units = math.fsum(window.units for window in windows)
    seconds = math.fsum(window.seconds for window in windows) / units
    energy = math.fsum(window.joules for window in windows) / units
    scatter = math.fsum(window.units * (window.joules / window.units - energy) ** 2 for window in windows)
    samples = len(windows)
    variance = scatter / units * samples / (samples - 1) if samples > 1 else 0.0
    return OperatingPoint(setting, seconds, energy, math.sqrt(variance) / energy, samples)


def _monotone_in_limit(points: Sequence[OperatingPoint], units: Mapping[Setting, float]) -> list[OperatingPoint]:
    """Time per unit made non-increasing in the power limit, apart for each position of the other levers.

    Weighted by ``units`` measured, so a pooled time is the pooled seconds over the pooled units.
    """
    families: dict[Setting, list[OperatingPoint]] = defaultdict(list)
    for point in points:
        families[replace(point.setting, power_limit_w=None)].append(point)
    fitted: list[OperatingPoint] = []
    for family in families.values():
        ordered = sorted(family, key=lambda point: -_limit(point.setting))
        times = isotonic([p.seconds_per_unit for p in ordered], [units[p.setting] for p in ordered])
        fitted += [replace(p, seconds_per_unit=t) for p, t in zip(ordered, times, strict=True)]
    return fitted
