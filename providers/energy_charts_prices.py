"""energy-charts.info: day-ahead prices of the European bidding zones, keyless. The terms of use come with each reply:
some bidding zones are for private and internal use only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from providers.base import BadRequest, Capabilities, Market, PricePoint, PriceSeries
from providers.energy_charts_reply import BASE_URL, SOURCE, Row, days, judge, rows
from providers.options import Options, web_address
from providers.price_reading import KWH_PER_MWH, price, prices_within, unit
from providers.reading import check_interval, gather

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

_BIDDING_ZONE = re.compile(r"[A-Z]{2}\d?(-[A-Z][A-Za-z]+)*")
_NATIONAL = {"DE": "DE-LU", "LU": "DE-LU"}
_LONGEST_LICENCE = 400
_EURO_MWH = ("EUR", KWH_PER_MWH)
_UNSAID = (None, "", "No Unit")


class EnergyChartsPrices:
    """Option: ``bidding_zone`` (by default the zone: ``DK-DK1`` is DK1, and ``DE`` is DE-LU)."""

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
        self._session, self._now = session, now
        self._url = f"{web_address(self.name, base_url, BASE_URL)}/price"
        given = Options(self.name, options)
        self._bidding_zone = _bidding_zone(given.text("bidding_zone"), zone)
        given.finish()

    def prices(self, start: datetime, end: datetime) -> PriceSeries:
        check_interval(start, end)
        params = {"bzn": self._bidding_zone, **days(start, end)}
        reply = self._session.get_json(self._url, params=params, judge=judge)
        found = rows(reply, "price")
        money = _unit(reply)
        licence = _licence(reply)
        points = gather(found, lambda row: self._point(row, *money, licence), where=f"{SOURCE} {self._bidding_zone}")
        return prices_within(points, start, end)

    def close(self) -> None:
        """The session is the caller's."""

    def _point(self, row: Row, currency: str, per: float, licence: str) -> PricePoint | None:
        start = row.start
        per_kwh = price(row.values[0], f"price at {start.isoformat()}", per=per)
        if per_kwh is None:
            return None
        return PricePoint(
            zone=self.zone,
            start=start,
            end=row.end,
            price_per_kwh=per_kwh,
            currency=currency,
            market=Market.DAY_AHEAD,
            source=self.name,
            fetched_at=self._now(),
            licence=licence,
        )


def _unit(reply: Mapping[str, Any]) -> tuple[str, float]:
    """Prices are documented in EUR/MWh, also where the reply forgets to say so."""
    said = reply.get("unit")
    return _EURO_MWH if said in _UNSAID else unit(said, f"{SOURCE}: unit")


def _licence(reply: Mapping[str, Any]) -> str:
    said = reply.get("license_info")
    return " ".join(said.split())[:_LONGEST_LICENCE] if isinstance(said, str) else ""


def _bidding_zone(given: str, zone: str) -> str:
    repeated = re.fullmatch(r"([A-Z]{2})-(\1\d)", zone)
    found = given or (repeated[2] if repeated else _NATIONAL.get(zone, zone))
    if not _BIDDING_ZONE.fullmatch(found):
        raise BadRequest(f"{SOURCE}: {found!r} is no bidding zone; set the option bidding_zone, like DE-LU or IT-North")
    return found
