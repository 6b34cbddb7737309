"""ENTSO-E's Transparency Platform: intensity of a European bidding zone, computed from what its plants generate (A75).

By token (``securityToken`` in the query). Newest intervals often lack fuels, and are gaps until they are complete; they
come an hour or several late, and are revised without saying so. What a type consumes, such as pumps, is a series of its
own and no generation. Nothing of imports is counted. Licence: CC BY 4.0 for most items, with attribution.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from providers.base import Capabilities, NoData, SchemaError, Series
from providers.emission_factors import Fuel
from providers.entsoe_document import Hole, Step, TimeSeries, cut, read
from providers.entsoe_platform import NAME, Platform
from providers.mix import MEMORY, MOST_MW, Cell, Generation, collect, fuel_of, intensities, scope_option
from providers.options import Options
from providers.reading import check_interval, shown, within

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

_UNIT = "quantity_Measure_Unit.name"
_LONGEST = timedelta(days=8)  # in quarter hours about 2 MB; a year would be allowed
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
        generated = list(self._generated(start - MEMORY, min(end, now)))
        holes = [hole for series in generated for hole in series.holes]
        points = intensities(
            _without(holes, collect(_cells(generated))),
            zone=self._platform.area.name,
            scope=self._scope,
            source=self.name,
            fetched_at=now,
        )
        if not points and holes:
            raise SchemaError(f"{self._platform.label}: no interval of it can be used, because {holes[0].why}")
        if not points:
            raise NoData(f"{self._platform.label}: no interval of it has a whole mix yet")
        return within((replace(point, zone=self.zone) for point in points if point.start <= now), start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        """It expects the generation of wind and sun, and of all types together, but no mix."""
        check_interval(start, end)
        return Series()

    def close(self) -> None:
        """The session is the caller's."""

    def _generated(self, start: datetime, end: datetime) -> Iterator[TimeSeries]:
        """One for each type that generates; what a type consumes is left out."""
        eic, where = self._platform.area.eic, self._platform.label
        params = {"documentType": "A75", "processType": "A16", "in_Domain": eic}
        for root in self._platform.ask(params, start, end, longest=_LONGEST):
            for series in read(root, document="GL_MarketDocument", value="quantity", most=MOST_MW, where=where):
                if series.label("outBiddingZone_Domain.mRID"):
                    continue
                zone, unit = series.label("inBiddingZone_Domain.mRID"), series.label(_UNIT)
                if zone != eic:
                    raise SchemaError(f"{where}: asked for {eic} and answered with {shown(zone)}")
                if unit not in {"MAW", "MWH"}:
                    raise SchemaError(f"{where}: the unit is {shown(unit)}, not MAW or MWH")
                yield series


def _cells(generated: Iterable[TimeSeries]) -> Iterator[Cell]:
    for code, step in cut((series.label("psrType"), step) for series in generated for step in _in_megawatts(series)):
        yield Cell(step.start, step.end, code, fuel_of(code, _FUELS, NAME), step.value)


def _in_megawatts(series: TimeSeries) -> Iterator[Step]:
    """Energy is power times time."""
    if series.label(_UNIT) == "MAW":
        yield from series.steps
    else:
        for step in series.steps:
            yield replace(step, value=step.value / ((step.end - step.start) / timedelta(hours=1)))


def _without(holes: Iterable[Hole], rows: Iterable[Generation]) -> list[Generation]:
    """A fuel that was sent and cannot be read is not one that was not sent: of such intervals nothing is known."""
    joined: list[tuple[datetime, datetime]] = []
    for hole in sorted(holes, key=lambda hole: hole.start):
        last = joined.pop() if joined and hole.start <= joined[-1][1] else (hole.start, hole.end)
        joined.append((last[0], max(last[1], hole.end)))
    starts = [start for start, _ in joined]
    before = ((row, bisect_left(starts, row.end)) for row in rows)
    return [row for row, count in before if not count or joined[count - 1][1] <= row.start]
