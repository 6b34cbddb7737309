"""Prices as sources write them: checked, per kWh, and with their currency. Negative ones are real."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from providers.base import BadRequest, PricePoint, PriceSeries, SchemaError
from providers.options import Options
from providers.reading import shown

MOST_PER_KWH = 100.0  # of any currency: the dearest caps of the power markets are below a fifth of it
KWH_PER_MWH = 1000.0
_CURRENCY = re.compile(r"[A-Z]{3}")
_UNIT = re.compile(r"([A-Z]{3})\s*(?:/|per)\s*(MWh|kWh)", re.IGNORECASE)


def price(value: object, what: str, *, per: float = 1.0) -> float | None:
    """``value / per`` as a price of one kWh, None where the source says null; ``per`` is 1000 for one of an MWh."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SchemaError(f"{what} is {shown(value)}, not a number")
    if not abs(value) <= MOST_PER_KWH * per:  # not a number is not within, either
        raise SchemaError(f"{what} is {shown(value)}, which is not within {MOST_PER_KWH:g} a kWh")
    return value / per


def currency(value: object, what: str) -> str:
    """Three capital letters, as ISO 4217 has them."""
    if not isinstance(value, str) or not _CURRENCY.fullmatch(value):
        raise SchemaError(f"{what} is {shown(value)}, not a currency like EUR")
    return value


def currency_option(given: Options, default: str = "EUR") -> str:
    """The option ``currency``, ``default`` where it is not given; ``BadRequest`` for what is none."""
    said = given.text("currency", default)
    try:
        return said if said == default else currency(said, "option currency")
    except SchemaError as error:
        raise BadRequest(str(error)) from None


def unit(value: object, what: str) -> tuple[str, float]:
    """Currency, and how many kWh a price is for, from a text such as ``EUR / MWh``."""
    found = _UNIT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise SchemaError(f"{what} is {shown(value)}, not a unit like EUR/MWh")
    return found[1].upper(), KWH_PER_MWH if found[2].lower() == "mwh" else 1.0


def prices_within(points: Iterable[PricePoint], start: datetime, end: datetime) -> PriceSeries:
    """Those that overlap ``[start, end)``, so that asking for an instant finds the interval around it."""
    return PriceSeries.of(point for point in points if point.start < end and point.end > start)
