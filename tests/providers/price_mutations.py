"""As mutating.check, for prices: no price that was not sent, none too large, none elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from mutating import outcome

from providers.base import PricePoint
from providers.price_reading import MOST_PER_KWH


def numbers(document: object) -> set[float]:
    if isinstance(document, dict):
        return set().union(*map(numbers, document.values()))
    if isinstance(document, list):
        return set().union(*map(numbers, document))
    real = isinstance(document, int | float) and not isinstance(document, bool)
    return {float(document)} if real and abs(document) < 1e300 else set()


def check_prices(
    ask: Callable[[datetime, datetime], Iterable[PricePoint]],
    start: datetime,
    end: datetime,
    document: object,
    *,
    per: float,
) -> None:
    """``per`` is how many kWh, or pence in a pound, a written price is divided by."""
    written = {number / per for number in numbers(document)}
    for point in outcome(ask, start, end):
        assert point.price_per_kwh in written
        assert abs(point.price_per_kwh) <= MOST_PER_KWH
        assert point.start < end
        assert point.end > start
