"""What sources give intensities in, as grams per kWh."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from providers.reading import intensity

POUND_G = 453.59237  # exactly, by definition since 1959
G_PER_KWH: Mapping[str, float] = MappingProxyType(
    {
        "g_per_kwh": 1.0,
        "kg_per_kwh": 1000.0,
        "kg_per_mwh": 1.0,
        "t_per_mwh": 1000.0,
        "lb_per_kwh": POUND_G,
        "lb_per_mwh": POUND_G / 1000.0,
    }
)


def grams(value: object, what: str, unit: str) -> float | None:
    """A value in one of ``G_PER_KWH`` as grams per kWh, with the checks of ``intensity`` before and after."""
    number = intensity(value, what)
    return None if number is None else intensity(number * G_PER_KWH[unit], f"{what} in g/kWh")
