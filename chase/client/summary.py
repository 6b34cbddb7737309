"""What a job cost, as it comes over the socket when it ends. Apart from the messages that every training needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from chase.client.messages import MOST, number, text

# A marginal intensity, and a price, may be negative; and more may be used than at full power.
_SIGNED = frozenset(
    {
        *("slowdown", "grams", "reference_grams", "cost", "reference_cost"),
        *("saved_grams", "efficiency_grams", "timing_grams"),
    }
)

_TEXTS = frozenset({"method", "currency", "counted_in"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a job cost, by the service's account. None is not known.

    The reference is the same units at full power: the point measured at the limit that was found. What was saved of
    its grams is efficiency and timing (``chase.accounting``).
    """

    energy_j: float | None = None
    host_energy_j: float | None = None
    grams: float | None = None
    cost: float | None = None
    currency: str | None = None
    seconds: float | None = None
    units: float | None = None
    method: str | None = None
    reference_energy_j: float | None = None
    reference_host_energy_j: float | None = None
    reference_grams: float | None = None
    reference_cost: float | None = None
    slowdown: float | None = None
    saved_grams: float | None = None
    saved_grams_sd: float | None = None
    efficiency_grams: float | None = None
    timing_grams: float | None = None
    compared_share: float | None = None  # of the energy, that which was compared; the rest counts the same
    decisions: float | None = None
    counted_in: str | None = None  # what one of the units is: not always what the job said, see chase.clock_proxy

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Summary:
        numbers = {
            f.name: number(data, f.name, low=-MOST if f.name in _SIGNED else 0.0)
            for f in fields(cls)
            if f.name not in _TEXTS
        }
        method, currency, counted_in = (text(data, name) for name in ("method", "currency", "counted_in"))
        return cls(**numbers, method=method, currency=currency, counted_in=counted_in)
