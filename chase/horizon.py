"""The prices ahead, as a plan needs them: of each slot of time from now on, and how they spread after that.

A price is of a kilowatt-hour, in grams of CO2eq, in money, or in both together where a kilogram of CO2eq is given a
price. What the outlook expects is its median: planning against it and doing so again with every new value came closer
to the optimum, on real grids, than planning against the mean, against its quantiles as separate cases, or against
whole paths of past errors (docs/policies.md has the figures). The quantiles say how wrong the plan may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from zeus_core.budget import Slots

Floats = NDArray[np.float64]

J_PER_KWH = 3.6e6
GRAMS = "gCO2eq"
_TAIL = 32  # slots that stand for all that comes after the last one
_DIGITS = {GRAMS: 1}  # of a price; money has more


@dataclass(frozen=True, eq=False)
class Horizon:
    """``seconds`` (n,) of each slot from now on, the median ``price`` (n,) of a kWh in ``unit``; ``low``, ``high``:
    its 10 and 90 % quantiles.

    ``tail`` (m,) are prices that are equally likely after the last slot; empty where nothing is known of them, and then
    the slots' own stand for them. ``pue`` is what each joule of the hardware draws at the meter.
    """

    seconds: Floats
    price: Floats
    low: Floats
    high: Floats
    tail: Floats
    unit: str = GRAMS
    pue: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < len(self.seconds) == len(self.price) == len(self.low) == len(self.high):
            raise ValueError(
                "each slot of a horizon has a length, a price and its quantiles, and there is at least one"
            )

    @property
    def total_s(self) -> float:
        return float(self.seconds.sum())

    def rounded(self) -> Horizon:
        """As it is written down and read again, so that a decision can be taken again to the last bit.

        The quantiles, which no choice depends on, are kept as whole per cent of the price.
        """
        digits = _DIGITS.get(self.unit, 5)
        price, tail = np.round(self.price, digits), np.round(self.tail, digits)
        low, high = (price * (1.0 + _per_cent(bound, price) / 100.0) for bound in (self.low, self.high))
        return Horizon(np.round(self.seconds, 3), price, low, high, tail, self.unit, self.pue)

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
        later = _spread(self.tail if len(self.tail) else self.price)
        length = np.concatenate([self.seconds, np.full(len(later), (seconds - ends[-1]) / len(later))])
        return Slots(length, np.concatenate([self.price, later]) * per_j, len(self.price))

    def to_dict(self) -> dict[str, Any]:
        """Compact: lengths as runs of equal ones."""
        return {
            "seconds": _runs(self.seconds),
            "price": self.price.tolist(),
            "low_per_cent": _per_cent(self.low, self.price).tolist(),
            "high_per_cent": _per_cent(self.high, self.price).tolist(),
            "tail": self.tail.tolist(),
            "unit": self.unit,
            "pue": self.pue,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Horizon:
        """The inverse of ``to_dict``. Raises ``ValueError``, ``KeyError`` or ``TypeError`` on anything else."""
        seconds = np.repeat([run[0] for run in data["seconds"]], [int(run[1]) for run in data["seconds"]])
        price, tail = np.array(data["price"], float), np.array(data["tail"], float)
        low, high = (price * (1.0 + np.array(data[name]) / 100.0) for name in ("low_per_cent", "high_per_cent"))
        return cls(seconds.astype(float), price, low, high, tail, data["unit"], data["pue"])


def flat(seconds: float, price: float = 1.0) -> Horizon:
    """All at one price: for what is to be done where nothing is known of the grid."""
    only = np.array([price])
    return Horizon(np.array([seconds]), only, only, only, np.empty(0))


def _spread(prices: Floats) -> Floats:
    """So many that stand for them, as evenly likely."""
    if len(prices) <= _TAIL:
        return prices
    found: Floats = np.quantile(prices, (np.arange(_TAIL) + 0.5) / _TAIL)
    return found


def _per_cent(bound: Floats, price: Floats) -> NDArray[np.int64]:
    """How far a bound lies from the price, in whole per cent of it; 0 where the price is 0."""
    apart = np.divide(bound - price, price, out=np.zeros_like(price), where=price != 0)
    found: NDArray[np.int64] = np.round(100.0 * apart).astype(np.int64)
    return found


def _runs(values: Floats) -> list[list[float]]:
    starts = np.flatnonzero(np.concatenate([[True], np.diff(values) != 0]))
    counts = np.diff(np.concatenate([starts, [len(values)]]))
    return [[float(values[i]), int(n)] for i, n in zip(starts, counts, strict=True)]


def spread(prices: Sequence[float]) -> Floats:
    """The tail of a horizon, of prices that were and are expected."""
    return _spread(np.array(prices, float))
