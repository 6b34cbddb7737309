"""Choosing one operating point of a frontier.

Notation, per operating point:

    E       joules per unit of work                                  [J]
    T       seconds per unit of work                                 [s]
    price   what a joule costs, zero or negative too                 [money/J]
    value   what a second costs, at least zero, in the same money    [money/s]

    cost = price * E + value * T

Zeus's cost is the same with price eta and value (1 - eta) * MaxPower, its money then being joules. Whatever the price,
only points of the lower hull are chosen: under a negative price a point that wastes energy would cost less than any
other, but it buys nothing that a faster one does not.

Every choice is the same for the same points in any order. On equal cost the point of less energy wins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from zeus_core.frontier import OperatingPoint, lower_hull, pareto_front


class Selector(Protocol):
    """``choose`` raises ``ValueError`` when there is nothing to choose from."""

    def choose(self, points: Sequence[OperatingPoint]) -> OperatingPoint: ...


@dataclass(frozen=True, slots=True)
class PricedEnergy:
    """Least ``price`` * E + ``value_of_time`` * T."""

    price: float
    value_of_time: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.price):
            raise ValueError(f"the price of energy must be finite, not {self.price!r}")
        if not (math.isfinite(self.value_of_time) and self.value_of_time >= 0):
            raise ValueError(f"the value of time must be finite and at least 0, not {self.value_of_time!r}")

    def cost(self, point: OperatingPoint) -> float:
        """Money for one unit of work."""
        return self.price * point.joules_per_unit + self.value_of_time * point.seconds_per_unit

    def choose(self, points: Sequence[OperatingPoint]) -> OperatingPoint:
        """Walks down the hull while the joules saved are worth the seconds lost.

        The saving per second falls along the hull, so the walk ends at the argmin of ``cost``. Unlike a comparison of
        rounded costs it can never speed up when energy gets dearer, and nothing divides by a price.
        """
        hull = lower_hull(_some(points))
        if self.price < 0:
            return hull[0]  # said outright: the product below can be too small to have a sign
        for fast, slow in pairwise(hull):
            saved_j = fast.joules_per_unit - slow.joules_per_unit
            lost_s = slow.seconds_per_unit - fast.seconds_per_unit
            if self.price * saved_j < self.value_of_time * lost_s:
                return fast
        return hull[-1]


@dataclass(frozen=True, slots=True)
class ZeusCost:
    """Least eta * E + (1 - eta) * MaxPower * T: ``eta`` 0 is time only, 1 energy only (Zeus, NSDI'23, Eq 2 and 7).

    ``max_power_w`` is summed over the same GPUs as E: one GPU's limit times their number. With one GPU's limit alone
    time would count for too little in a job of several.
    """

    eta: float
    max_power_w: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.eta <= 1.0:
            raise ValueError(f"eta must lie within 0 to 1, not {self.eta!r}")
        if not (math.isfinite(self.max_power_w) and self.max_power_w > 0):
            raise ValueError(f"max_power_w must be finite and positive, not {self.max_power_w!r}")

    def priced(self, relative_price: float) -> PricedEnergy:
        """The same trade while a joule costs ``relative_price`` times what it costs at the reference.

        This is Chase's Eq 6 divided by its reference: eta * E * relative_price + (1 - eta) * MaxPower * T. At 1 it is
        Zeus's own cost.
        """
        return PricedEnergy(self.eta * relative_price, (1.0 - self.eta) * self.max_power_w)

    def cost(self, point: OperatingPoint) -> float:
        """Joules for one unit of work, part of them standing for time."""
        return self.priced(1.0).cost(point)

    def choose(self, points: Sequence[OperatingPoint]) -> OperatingPoint:
        return self.priced(1.0).choose(points)


@dataclass(frozen=True, slots=True)
class Energy:
    """Least energy per unit."""

    def cost(self, point: OperatingPoint) -> float:
        return point.joules_per_unit

    def choose(self, points: Sequence[OperatingPoint]) -> OperatingPoint:
        return pareto_front(_some(points))[-1]


@dataclass(frozen=True, slots=True)
class Time:
    """Least time per unit."""

    def cost(self, point: OperatingPoint) -> float:
        return point.seconds_per_unit

    def choose(self, points: Sequence[OperatingPoint]) -> OperatingPoint:
        return pareto_front(_some(points))[0]


@dataclass(frozen=True, slots=True)
class MaxSlowdown:
    """Least energy among the points that take at most ``factor`` times as long as ``reference``; 1.1 is ten per cent.

    The reference is the measured full-power point, never the point the job is at. Where nothing is that fast, the
    fastest is chosen. Times need not be monotone in the power limit.
    """

    factor: float
    reference: OperatingPoint

    def __post_init__(self) -> None:
        if not (math.isfinite(self.factor) and self.factor >= 1.0):
            raise ValueError(f"the factor of a slowdown must be finite and at least 1, not {self.factor!r}")

    def choose(self, points: Sequence[OperatingPoint]) -> OperatingPoint:
        bound_s = self.factor * self.reference.seconds_per_unit
        admissible = [point for point in _some(points) if point.seconds_per_unit <= bound_s]
        return Energy().choose(admissible) if admissible else Time().choose(points)


def _some(points: Sequence[OperatingPoint]) -> Sequence[OperatingPoint]:
    if not points:
        raise ValueError("there is no operating point to choose from")
    return points
