"""Energinet: day-ahead prices of DK1 and DK2 since October 2025, a quarter of an hour each, keyless.

Tomorrow is published at about 13:00 Danish time. Free to use, with attribution to Energinet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from providers.base import Capabilities, Market, PricePoint, PriceSeries
from providers.energinet_datasets import SOURCE, Area, Layout, start_of, starts_of, value_of
from providers.options import Options
from providers.price_reading import KWH_PER_MWH, price, prices_within
from providers.reading import check_interval, gather
from providers.steps import ends_by_distance

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

_CURRENCIES = ("EUR", "DKK")
_STEP = timedelta(minutes=15)
_LAYOUT = Layout(
    "DayAheadPrices",
    "TimeUTC",
    tuple(f"DayAheadPrice{currency}" for currency in _CURRENCIES),
    _STEP,
    timedelta(hours=24),
    timedelta(hours=48),
)


class EnerginetPrices:
    """Options: ``price_area`` (as for the intensity) and ``currency`` (EUR or DKK)."""

    name = SOURCE
    capabilities = Capabilities(observed=True, forecast=False, step_s=900.0, poll_s=900.0)

    def __init__(
        self,
        *,
        zone: str,
        options: Mapping[str, object],
        token: Secret | None = None,  # noqa: ARG002 - the signature that all providers share
        base_url: str | None,
        session: Session,
        now: Callable[[], datetime],
    ) -> None:
        self.zone = zone
        self._now = now
        given = Options(self.name, options)
        self._area = Area(zone, given, base_url, session)
        self._currency = given.text("currency", "EUR", choices=_CURRENCIES)
        given.finish()

    def prices(self, start: datetime, end: datetime) -> PriceSeries:
        check_interval(start, end)
        answer = self._area.dataset(_LAYOUT).answer(start, end, self._now())
        rows = self._area.rows(answer, _LAYOUT)
        until = ends_by_distance(starts_of(rows, _LAYOUT), alone=_STEP)
        points = gather(
            rows, lambda row: self._point(row, until, answer.fetched_at), where=f"{SOURCE} {self._area.name}"
        )
        return prices_within(points, start, end)

    def close(self) -> None:
        """The session is the caller's."""

    def _point(
        self, row: Mapping[str, Any], until: Mapping[datetime, datetime], fetched_at: datetime
    ) -> PricePoint | None:
        column = f"DayAheadPrice{self._currency}"
        start = start_of(row, _LAYOUT)
        per_kwh = price(value_of(row, column), f"{column} at {start.isoformat()}", per=KWH_PER_MWH)
        if per_kwh is None:
            return None
        return PricePoint(
            zone=self.zone,
            start=start,
            end=until[start],
            price_per_kwh=per_kwh,
            currency=self._currency,
            market=Market.DAY_AHEAD,
            source=self.name,
            fetched_at=fetched_at,
        )
