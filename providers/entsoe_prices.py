"""ENTSO-E's Transparency Platform: day-ahead prices of a bidding zone (A44), of tomorrow from about 13:00 CET on.

Quarter hours since 2025-10-01, hours before. Equal prices in a row are sent as one (curve type A03). Where two auctions
publish for one zone, as for DE_LU and AT, the one in position 1 is the coupled day-ahead market.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from providers.base import Capabilities, Market, NoData, PricePoint, PriceSeries, SchemaError
from providers.entsoe_document import Step, TimeSeries, cut, read
from providers.entsoe_platform import NAME, Platform
from providers.options import Options
from providers.price_reading import KWH_PER_MWH, MOST_PER_KWH, currency_option, prices_within
from providers.reading import check_interval, shown

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from providers.redact import Secret
    from providers.session import Session

_LONGEST = timedelta(days=60)
_DAY = timedelta(days=1)
_MOST = MOST_PER_KWH * KWH_PER_MWH
_POSITION = "classificationSequence_AttributeInstanceComponent.position"


class EntsoePrices:
    """One bidding zone, by name or EIC code. Option: ``currency`` (of the prices that are taken, by default EUR)."""

    name = NAME
    capabilities = Capabilities(observed=True, forecast=False, step_s=900.0, poll_s=900.0, needs_key=True)

    def __init__(
        self,
        *,
        zone: str,
        options: Mapping[str, object],
        token: Secret | None,
        base_url: str | None,
        session: Session,
        now: Callable[[], datetime],
    ) -> None:
        self.zone = zone
        self._now = now
        given = Options(self.name, options)
        self._currency = currency_option(given)
        given.finish()
        self._platform = Platform(zone, token, base_url, session)

    def prices(self, start: datetime, end: datetime) -> PriceSeries:
        """Asks for a day more at each side: the platform answers in market days."""
        check_interval(start, end)
        eic = self._platform.area.eic
        params = {"documentType": "A44", "in_Domain": eic, "out_Domain": eic, "contract_MarketAgreement.type": "A01"}
        replies = self._platform.ask(params, start - _DAY, end + _DAY, longest=_LONGEST)
        where = self._platform.label
        series = [one for root in replies for one in self._series(root)]
        wanted = (("", step) for one in series if self._wanted(one) for step in one.steps)
        steps = {step.start: step for _, step in cut(wanted)}
        if not steps:
            others = sorted({one.label("currency_Unit.name") for one in series} - {self._currency})
            hint = f", but some in {', '.join(map(shown, others))}: set option currency" if others else ""
            raise NoData(f"{where}: no day-ahead prices in {self._currency}{hint}")
        return prices_within(map(self._point, steps.values()), start, end)

    def close(self) -> None:
        """The session is the caller's."""

    def _series(self, root: Element) -> list[TimeSeries]:
        where = self._platform.label
        return read(root, document="Publication_MarketDocument", value="price.amount", most=_MOST, where=where)

    def _wanted(self, series: TimeSeries) -> bool:
        for tag in ("in_Domain.mRID", "out_Domain.mRID"):
            if series.label(tag) != self._platform.area.eic:
                wanted = self._platform.area.eic
                raise SchemaError(
                    f"{self._platform.label}: asked for {wanted} and answered with {shown(series.label(tag))}"
                )
        if (unit := series.label("price_Measure_Unit.name")) != "MWH":
            raise SchemaError(f"{self._platform.label}: prices are for {shown(unit)}, not for MWH")
        return series.label("currency_Unit.name") == self._currency and series.label(_POSITION) in {"", "1"}

    def _point(self, step: Step) -> PricePoint:
        return PricePoint(
            zone=self.zone,
            start=step.start,
            end=step.end,
            price_per_kwh=step.value / KWH_PER_MWH,
            currency=self._currency,
            market=Market.DAY_AHEAD,
            source=self.name,
            fetched_at=self._now(),
        )
