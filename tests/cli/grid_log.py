"""Hours of a grid and a market, as a service would have stored them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from providers.base import Boundary, IntensityPoint, Kind, Market, PricePoint, Scope, Signal

HOUR = timedelta(hours=1)


def hour_to(end: datetime, g_per_kwh: float, **facts: Any) -> IntensityPoint:
    """What the file of ``quiet_region`` might say of the hour up to ``end``, unless ``facts`` say otherwise."""
    usual = {
        "zone": "quiet",
        "kind": Kind.ESTIMATED,
        "signal": Signal.AVERAGE,
        "scope": Scope.LIFECYCLE,
        "boundary": Boundary.UNSPECIFIED,
        "source": "file",
        "fetched_at": end,
    }
    return IntensityPoint(start=end - HOUR, end=end, g_per_kwh=g_per_kwh, **{**usual, **facts})


def price_to(end: datetime, per_kwh: float, **facts: Any) -> PricePoint:
    """The same of a price."""
    usual = {"zone": "quiet", "currency": "EUR", "market": Market.DAY_AHEAD, "source": "file", "fetched_at": end}
    return PricePoint(start=end - HOUR, end=end, price_per_kwh=per_kwh, **{**usual, **facts})
