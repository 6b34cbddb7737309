"""Electricity Maps: day-ahead prices of the zones that have a power exchange, by token.

``history`` is the last 24 hours, ``combined`` the running hour and the 24 after it. Beyond the auction it goes on with
what the vendor expects; only the ``source`` of a row tells, and a row that names no exchange is no price.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from providers.base import BadRequest, Capabilities, Market, NoData, PlanError, PricePoint, PriceSeries, SchemaError
from providers.electricity_maps_api import SOURCE, Api
from providers.electricity_maps_reply import check_label, checked, common, starts, step_of, updated_at
from providers.options import Options
from providers.price_reading import price, prices_within, unit
from providers.reading import check_interval, ends, gather, instant, record

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

_GRANULARITY = "hourly"
_LONGEST_SOURCE = 100


class ElectricityMapsPrices:
    """Options: ``version`` (v4 alone has prices), ``header``."""

    name = SOURCE
    capabilities = Capabilities(observed=True, forecast=False, step_s=3600.0, poll_s=900.0, needs_key=True)

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
        self._api = Api(zone, given, token=token, base_url=base_url, session=session)
        given.finish()
        if not self._api.is_v4:
            raise BadRequest(f"{self.name}: prices need version v4")

    def prices(self, start: datetime, end: datetime) -> PriceSeries:
        """From a day back to a day ahead, as far as there was an auction; the past and the future are two requests."""
        check_interval(start, end)
        now = self._now()
        running = now.replace(minute=0, second=0, microsecond=0)
        wanted = ["history"] * (start < running) + ["combined"] * (end >= running)
        found: list[PricePoint] = []
        missing: list[NoData | PlanError] = []
        for temporality in wanted:
            try:
                found += self._points(temporality)
            except (NoData, PlanError) as error:
                missing.append(error)
        if missing and not found:
            raise missing[0]
        if len(currencies := {point.currency for point in found}) > 1:
            raise SchemaError(f"{self.name} {self.zone}: prices in {' and '.join(sorted(currencies))}")
        return prices_within(found, start, end)

    def close(self) -> None:
        """The session is the caller's."""

    def _points(self, temporality: str) -> list[PricePoint]:
        reply, rows = checked(self._api.ask(f"price-day-ahead/{temporality}", common(_GRANULARITY)), self.zone)
        until = ends(starts(rows), step_of(reply, _GRANULARITY))
        return gather(rows, lambda row: self._point(row, until), where=f"{SOURCE} {self.zone}")

    def _point(self, row: Any, until: Mapping[datetime, datetime]) -> PricePoint | None:
        row = record(row, "a row")
        start = instant(row.get("datetime"), "datetime")
        check_label(row, "zone", self.zone)
        exchange = row.get("source")
        if row.get("value") is None or not isinstance(exchange, str) or not _is_exchange(exchange):
            return None
        money, per = unit(row.get("unit"), f"unit at {start.isoformat()}")
        per_kwh = price(row["value"], f"value at {start.isoformat()}", per=per)
        if per_kwh is None:
            return None
        return PricePoint(
            zone=self.zone,
            start=start,
            end=until[start],
            price_per_kwh=per_kwh,
            currency=money,
            market=Market.DAY_AHEAD,
            source=self.name,
            fetched_at=self._now(),
            updated_at=updated_at(row),
            licence=exchange[:_LONGEST_SOURCE],
        )


def _is_exchange(source: str) -> bool:
    plain = source.lower().replace(" ", "").replace("-", "").replace("_", "")
    return bool(plain) and "electricitymap" not in plain
