"""A source of prices that a test writes the script of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from providers.base import Capabilities, Market, PricePoint, PriceSeries, ProviderError

NOW = datetime(2026, 3, 4, 12, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def price(start: datetime, value: float = 0.2, *, step: timedelta = HOUR, **more: object) -> PricePoint:
    facts = {"zone": "XX", "currency": "EUR", "market": Market.DAY_AHEAD, "source": "tariff", "fetched_at": NOW}
    return PricePoint(start=start, end=start + step, price_per_kwh=value, **{**facts, **more})


def hours(first: datetime, count: int, value: Callable[[int], float] = float, **more: object) -> list[PricePoint]:
    return [price(first + n * HOUR, value(n), **more) for n in range(count)]


class Tariff:
    """Answers with ``points`` of the time asked for, or raises ``error``; what it was asked is in ``asked``."""

    def __init__(
        self, points: Iterable[object] = (), *, name: str = "tariff", zone: str = "XX", poll_s: float = 900.0
    ) -> None:
        self.points = list(points)
        self.error: Exception | None = None
        self.name, self.zone = name, zone
        self.asked: list[tuple[datetime, datetime]] = []
        self.capabilities = Capabilities(observed=True, forecast=False, step_s=3600.0, poll_s=poll_s)

    def prices(self, start: datetime, end: datetime) -> PriceSeries:
        self.asked.append((start, end))
        if self.error is not None:
            raise self.error
        inside = [p for p in self.points if not isinstance(p, PricePoint) or (p.start < end and p.end > start)]
        return PriceSeries(tuple(inside))

    def close(self) -> None:
        """There is nothing to give back."""


def failing(error: ProviderError, **more: object) -> Tariff:
    tariff = Tariff(**more)
    tariff.error = error
    return tariff
