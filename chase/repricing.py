"""Recent intervals at the intensities as they are known by now: sources revise and complete their data for days."""

from __future__ import annotations

from datetime import datetime

from chase import accounting
from chase.store import Store
from providers.base import Series


def reprice_recent(store: Store, series: Series, *, pue: float, region: str, since: datetime) -> int:
    """Price anew what jobs of ``region``, also ended ones, drew since then: how many intervals have another price.

    What was booked with more certainty than ``series`` has is kept. Takes no lock but the store's own.
    """
    if not series.points:
        return 0
    rows = store.intervals(since=since, region=region)
    again = accounting.reprice(rows, series, pue=pue)
    return store.update_prices(new for old, new in zip(rows, again, strict=True) if new is not old)
