"""Recent intervals at the intensities and prices as they are known by now: sources revise theirs for days."""

from __future__ import annotations

from datetime import datetime

from chase import accounting
from chase.store import Store
from providers.base import PriceSeries, Series


def reprice_recent(
    store: Store,
    series: Series,
    *,
    pue: float,
    region: str,
    since: datetime,
    prices: PriceSeries = PriceSeries(),  # noqa: B008  frozen
) -> int:
    """Price anew what jobs of ``region``, also ended ones, drew since then: how many intervals have another price.

    What was booked with more certainty than ``series`` and ``prices`` have is kept. Takes no lock but the store's own.
    """
    if not series.points and not prices.points:
        return 0
    rows = store.intervals(since=since, region=region)
    again = accounting.reprice(rows, series, pue=pue, prices=prices)
    return store.update_prices(new for old, new in zip(rows, again, strict=True) if new is not old)
