"""ENTSO-E's Transparency Platform: intensity of a European bidding zone, computed from what its plants generate (A75).

By token (``securityToken`` in the query). Newest intervals often lack fuels, and are gaps until they are complete; they
come an hour or several late, and are revised without saying so. What a type consumes, such as pumps, is a series of its
own and no generation. Nothing of imports is counted. Licence: CC BY 4.0 for most items, with attribution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from providers.base import Capabilities, NoData, SchemaError, Series
from providers.emission_factors import Fuel
from providers.entsoe_document import Step, TimeSeries, cut, read
from providers.entsoe_platform import NAME, Platform
from providers.mix import MEMORY, MOST_MW, Cell, collect, fuel_of, intensities, scope_option
from providers.options import Options
from providers.reading import check_interval, shown, within

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

_LONGEST = timedelta(days=8)  # in quarter hours about 2 MB; a year would be allowed
_GENERATED, _CONSUMED = "inBiddingZone_Domain.mRID", "outBiddingZone_Domain.mRID"
_FUELS = MappingProxyType(
    {
        "B01": Fuel.BIOMASS,
        "B02": Fuel.LIGNITE,
        "B03": Fuel.COAL_GAS,
        "B04": Fuel.GAS,
        "B05": Fuel.COAL,
        "B06": Fuel.OIL,
        "B07": Fuel.OIL_SHALE,
        "B08": Fuel.PEAT,
        "B09": Fuel.GEOTHERMAL,
        "B10": Fuel.PUMPED_STORAGE,
        "B11": Fuel.HYDRO,
        "B12": Fuel.HYDRO,
        "B13": Fuel.MARINE,
        "B14": Fuel.NUCLEAR,
        "B15": Fuel.OTHER_RENEWABLE,
        "B16": Fuel.SOLAR,
        "B17": Fuel.WASTE,
        "B18": Fuel.WIND_OFFSHORE,
        "B19": Fuel.WIND,
        "B20": Fuel.OTHER,
        "B25": Fuel.BATTERY,
    }
)


class Entsoe:
    """One bidding zone, by name or EIC code. Option: ``scope``."""

    name = NAME
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
        self._scope = scope_option(given)
        given.finish()
        self._platform = Platform(zone, token, base_url, session)

    def observe(self, start: datetime, end: datetime) -> Series:
        """Asks for a day more, to know which fuels belong to a whole mix."""
        check_interval(start, end)
        now = self._now()
        if start > now:
            return Series()
        params = {"documentType": "A75", "processType": "A16", "in_Domain": self._platform.area.eic}
        replies = self._platform.ask(params, start - MEMORY, min(end, now), longest=_LONGEST)
        where = self._platform.label
        document, value = "GL_MarketDocument", "quantity"
        series = [one for root in replies for one in read(root, document=document, value=value, where=where)]
        points = intensities(
            collect(self._cells(series)),
            zone=self._platform.area.name,
            scope=self._scope,
            source=self.name,
            fetched_at=now,
        )
        if not points:
            raise NoData(f"{where}: no interval of it has a whole mix yet")
        return within((replace(point, zone=self.zone) for point in points if point.start <= now), start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        """It expects the generation of wind and sun, and of all types together, but no mix."""
        check_interval(start, end)
        return Series()

    def close(self) -> None:
        """The session is the caller's."""

    def _cells(self, series: Iterable[TimeSeries]) -> Iterator[Cell]:
        for code, step in cut(self._generated(series)):
            yield Cell(step.start, step.end, code, fuel_of(code, _FUELS, NAME), step.value)

    def _generated(self, series: Iterable[TimeSeries]) -> Iterator[tuple[str, Step]]:
        """Type and step in MW, without what the types consume."""
        for one in series:
            if one.label(_CONSUMED):
                continue
            zone, unit = one.label(_GENERATED), one.label("quantity_Measure_Unit.name")
            if zone != self._platform.area.eic:
                wanted = self._platform.area.eic
                raise SchemaError(f"{self._platform.label}: asked for {wanted} and answered with {shown(zone)}")
            if unit not in {"MAW", "MWH"}:
                raise SchemaError(f"{self._platform.label}: the unit is {shown(unit)}, not MAW or MWH")
            for step in one.steps:
                hours = (step.end - step.start) / timedelta(hours=1) if unit == "MWH" else 1.0
                if abs(step.value / hours) <= MOST_MW:
                    yield one.label("psrType"), replace(step, value=step.value / hours)
