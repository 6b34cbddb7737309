"""Prices from a file that somebody else keeps: CSV, JSON or JSON lines, as ``file`` reads intensities.

Columns: ``start``, ``end`` where there is one, a price whose name says of how much (``price_per_kwh``,
``price_eur_per_mwh``) or the option ``unit``, ``currency`` where rows differ from the option, and ``zone``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from providers.base import Capabilities, Market, PricePoint, PriceSeries, SchemaError
from providers.options import Options
from providers.price_columns import KWH, PriceColumns, PriceEntry
from providers.price_reading import currency_option, prices_within
from providers.reading import check_interval
from providers.table import Row
from providers.watched_file import WatchedFile

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session


class FilePrices:
    """Options: ``path``, ``format``, ``column`` (of the price), ``unit`` (kWh or MWh), ``currency``, ``market``,
    ``step_s`` (of rows without an end), ``poll_s`` (how often to look), ``max_bytes``.
    """

    name = "file"

    def __init__(
        self,
        *,
        zone: str,
        options: Mapping[str, object],
        token: Secret | None = None,  # noqa: ARG002 - the signature that all providers share
        base_url: str | None = None,  # noqa: ARG002
        session: Session | None = None,  # noqa: ARG002
        now: Callable[[], datetime],
    ) -> None:
        self.zone = zone
        self._now = now
        given = Options(self.name, options)
        self._file = WatchedFile(given)
        self._column = given.text("column").lower()
        self._unit = given.text("unit", choices=tuple(KWH))
        self._currency = currency_option(given, default="")
        self._market = Market(given.text("market", Market.RETAIL, choices=tuple(Market)))
        self._step_s = given.number("step_s", 0.0, low=1.0, high=31 * 86400.0)
        self._poll_s = given.number("poll_s", 10.0, low=0.05, high=86400.0)
        given.finish()
        self._file.check_options()
        self._read_at = now()
        self._entries: tuple[PriceEntry, ...] = ()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(observed=True, forecast=False, step_s=self._step_s or 3600.0, poll_s=self._poll_s)

    def prices(self, start: datetime, end: datetime) -> PriceSeries:
        """Of several for one time the last in the file counts."""
        check_interval(start, end)
        self._file.refresh(self._take)
        near = (entry for entry in self._entries if entry.start < end and entry.end > start)
        return prices_within((point for entry in near if (point := self._point(entry)) is not None), start, end)

    def close(self) -> None:
        """No file stays open."""

    def _point(self, entry: PriceEntry) -> PricePoint | None:
        if entry.per_kwh is None:
            return None
        return PricePoint(
            zone=self.zone,
            start=entry.start,
            end=entry.end,
            price_per_kwh=entry.per_kwh,
            currency=entry.currency,
            market=self._market,
            source=self.name,
            fetched_at=self._read_at,
        )

    def _take(self, rows: Sequence[Row]) -> None:
        name = str(self._file.path)
        columns = PriceColumns.of(rows, name, value=self._column, unit=self._unit, currency=self._currency)
        entries = columns.entries(self._file.of_zone(rows, self.zone), self._step_s)
        if len(currencies := {entry.currency for entry in entries}) > 1:
            raise SchemaError(f"{name}: prices in {' and '.join(sorted(currencies))}; keep one currency to a file")
        self._entries, self._read_at = entries, self._now()
