"""The prices ahead, as a plan needs them: of each slot of time from now on, and how they spread after that.

A price is of a kilowatt-hour, in grams of CO2eq, in money, or in both together where a kilogram of CO2eq is given a
price. What the outlook expects is its median: planning against it and doing so again with every new value came closer
to the optimum, on real grids, than planning against the mean, against its quantiles as separate cases, or against
whole paths of past errors (decision 9 has the figures). The quantiles say how wrong the plan may be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from zeus_core.budget import Slots

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

J_PER_KWH = 3.6e6
GRAMS = "gCO2eq"
_TAIL = 32  # slots that stand for all that comes after the last one
_NONE: Floats = np.empty(0)
_DIGITS, _MONEY_DIGITS = {GRAMS: 1}, 5  # of a price


@dataclass(frozen=True, eq=False)
class Horizon:
    """``seconds`` (n,) of each slot from now on, and the median ``price`` (n,) of a kWh in ``unit``.

    ``below`` and ``above`` (n,) say how far its 10 and 90 % quantiles lie from it, in whole per cent of it. ``tail``
    (m,) are prices that are equally likely after the last slot; empty where nothing is known of them, and then the
    slots' own stand for them. ``pue`` is what each joule of the hardware draws at the meter.

    Made by ``of``, all is rounded as it is written down, so that a decision can be taken again to the last bit.
    """

    seconds: Floats
    price: Floats
    below: Ints
    above: Ints
    tail: Floats
    unit: str = GRAMS
    pue: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < len(self.seconds) == len(self.price) == len(self.below) == len(self.above):
            raise ValueError("each slot of a horizon has a length, a price and its range, and there is at least one")
        if not (np.isfinite(self.price).all() and np.isfinite(self.tail).all()):
            raise ValueError("the prices of a horizon must be finite")
        if not (np.isfinite(self.seconds).all() and (self.seconds > 0).all()):
            raise ValueError("the slots of a horizon must be finite and longer than 0 s")

    @classmethod
    def of(
        cls,
        seconds: Floats,
        price: Floats,
        low: Floats,
        high: Floats,
        *,
        tail: Floats = _NONE,
        unit: str = GRAMS,
        pue: float = 1.0,
    ) -> Horizon:
        if not all(np.isfinite(values).all() for values in (price, low, high)):
            raise ValueError("the prices of a horizon and their quantiles must be finite")
        digits = _DIGITS.get(unit, _MONEY_DIGITS)
        price, tail = price.round(digits) + 0.0, tail.round(digits) + 0.0  # and no minus on a zero
        below, above = _per_cent(low, price), _per_cent(high, price)
        return cls(seconds.round(3), price, below, above, tail, unit, pue)

    @property
    def low(self) -> Floats:
        return self.price + np.abs(self.price) * (self.below / 100.0)

    @property
    def high(self) -> Floats:
        return self.price + np.abs(self.price) * (self.above / 100.0)

    @property
    def total_s(self) -> float:
        return float(self.seconds.sum())

    def slots(self, seconds: float) -> Slots:
        """The first so many ``seconds`` as the solver takes them, its prices in units of ``unit`` per joule."""
        from zeus_core.budget import Slots

        per_j = self.pue / J_PER_KWH
        ends = np.cumsum(self.seconds)
        if seconds <= ends[-1]:
            count = int(np.searchsorted(ends, seconds)) + 1
            length = self.seconds[:count].copy()
            length[-1] -= ends[count - 1] - seconds
            count -= bool(length[-1] <= 0 and count > 1)
            return Slots(length[:count], self.price[:count] * per_j, count)
        later = spread(self.tail if len(self.tail) else self.price)
        length = np.concatenate([self.seconds, np.full(len(later), (seconds - ends[-1]) / len(later))])
        return Slots(length, np.concatenate([self.price, later]) * per_j, len(self.price))

    def to_dict(self) -> dict[str, Any]:
        """Compact: lengths as runs of equal ones, prices as whole ``parts`` of the unit."""
        parts = float(10 ** _DIGITS.get(self.unit, _MONEY_DIGITS))
        return {
            "seconds": _runs(self.seconds),
            "parts": parts,
            "price": (self.price * parts).round().astype(np.int64).tolist(),
            "below_per_cent": self.below.tolist(),
            "above_per_cent": self.above.tolist(),
            "tail": (self.tail * parts).round().astype(np.int64).tolist(),
            "unit": self.unit,
            "pue": self.pue,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Horizon:
        """The inverse of ``to_dict``. Raises ``ValueError``, ``KeyError`` or ``TypeError`` on anything else."""
        seconds = np.repeat([run[0] for run in data["seconds"]], [int(run[1]) for run in data["seconds"]])
        price, tail = (np.array(data[name], float) / data["parts"] for name in ("price", "tail"))
        below, above = (np.array(data[name], np.int64) for name in ("below_per_cent", "above_per_cent"))
        return cls(seconds.astype(float), price, below, above, tail, data["unit"], data["pue"])


def flat(seconds: float, price: float = 1.0) -> Horizon:
    """All at one price: for what is to be done where nothing is known of the grid."""
    only = np.array([price])
    return Horizon.of(np.array([seconds]), only, only, only)


def _runs(values: Floats) -> list[list[float]]:
    """[value, how many] of each run of equal ones."""
    starts = np.flatnonzero(values[1:] != values[:-1]) + 1
    edges = [0, *starts.tolist(), len(values)]
    return [[float(values[a]), b - a] for a, b in pairwise(edges)]


def _per_cent(bound: Floats, price: Floats) -> Ints:
    """How far a bound lies from the price; 0 where the price is 0."""
    apart = 100.0 * (bound - price)
    found: Ints = np.divide(apart, np.abs(price), out=np.zeros_like(price), where=price != 0).round().astype(np.int64)
    return found


def spread(prices: Floats) -> Floats:
    """So many that stand for them, ascending and as evenly likely."""
    if len(prices) <= _TAIL:
        return np.sort(prices)
    found: Floats = np.sort(prices)[((np.arange(_TAIL) + 0.5) * (len(prices) / _TAIL)).astype(np.int64)]
    return found
