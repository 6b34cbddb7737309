"""Ontario's system operator: generation by plant and by fuel, hourly, keyless, as XML files.

There is no intensity in it; we compute one (see providers.mix). An hour, 1 to 24, is named by its **end**, in Eastern
Standard Time all year: there are no clock changes. Two reports on the plants of 20 MW and more are read:

- by plant, one file a day, written again each hour, kept for three months: for today and yesterday;
- by fuel, one file a year (8 MB), written once a day: for the days before, of which its end alone is fetched.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING

from providers.base import (
    BadRequest,
    Capabilities,
    NoData,
    ProviderError,
    SchemaError,
    Series,
    Transient,
)
from providers.emission_factors import Fuel
from providers.mix import MEMORY, Cell, collect, fuel_of, intensities, megawatts, scope_option, usable
from providers.options import Options, web_address
from providers.reading import check_interval, gather, shown, within
from providers.reply import Reply
from providers.xml import parse, text_of

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from providers.redact import Secret
    from providers.session import Session

BASE_URL = "https://reports-public.ieso.ca/public"
_EST = timezone(timedelta(hours=-5))
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_HOURS = frozenset(map(str, range(1, 25)))
_BYTES_A_DAY = 32 * 1024  # of the yearly file; 22 KiB in 2026
_MOST_BYTES = 3 * 1024 * 1024
_MOST_SILENT = 0.05
_FUELS: Mapping[str, Fuel] = MappingProxyType(
    {
        "BIOFUEL": Fuel.BIOMASS,
        "GAS": Fuel.GAS,
        "HYDRO": Fuel.HYDRO,
        "NUCLEAR": Fuel.NUCLEAR,
        "OTHER": Fuel.OTHER,
        "SOLAR": Fuel.SOLAR,
        "WIND": Fuel.WIND,
    }
)
_log = logging.getLogger(__name__)


class Ieso:
    """Option: ``scope``. The zone is a label for Ontario."""

    name = "ieso"
    capabilities = Capabilities(observed=True, forecast=False, step_s=3600.0, poll_s=1800.0)

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
        self._root = web_address(self.name, base_url, BASE_URL)
        given = Options(self.name, options)
        self._scope = scope_option(given)
        given.finish()

    def observe(self, start: datetime, end: datetime) -> Series:
        check_interval(start, end)
        now = self._now()
        if start > now:
            return Series()
        rows = collect(self._cells(_day(start - MEMORY), _day(min(end, now)), _day(now)))
        points = intensities(
            usable(rows, start, now), zone=self.zone, scope=self._scope, source=self.name, fetched_at=now
        )
        if not points:
            raise NoData(f"{self.name}: too little is known of the mix from {start.isoformat()} on")
        return within(points, start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        """It makes none of the mix."""
        check_interval(start, end)
        return Series()

    def close(self) -> None:
        """The session is the caller's."""

    def _cells(self, first: date, last: date, today: date) -> list[Cell]:
        """Of the days from ``first`` to ``last``; without the older ones where only those cannot be had."""
        yesterday = today - _DAY
        recent = self._by_plant([day for day in (yesterday, today) if first <= day <= last])
        if first >= yesterday:
            return recent
        try:
            return [*self._by_fuel(first, min(last, yesterday - _DAY), today), *recent]
        except ProviderError as error:
            if not recent:
                raise
            _log.warning("%s: only today and yesterday are known, because %s", self.name, error)
            return recent

    def _by_plant(self, days: list[date]) -> list[Cell]:
        """Today has no file in its first hour. Neither day having one is another matter."""
        plants: dict[str, dict[str, dict[datetime, float]]] = defaultdict(lambda: defaultdict(dict))
        missing: list[ProviderError] = []
        for day in days:
            try:
                root = self._day_by_plant(day)
            except NoData as error:
                missing.append(error)
                continue
            for fuel, name, outputs in _outputs(root, day):
                plants[fuel][name].update(outputs)
        if len(missing) > 1:
            raise BadRequest(f"{missing[0]}, nor is yesterday's; check base_url")
        return [self._cell(start, fuel, mw) for fuel, known in plants.items() for start, mw in _summed(known)]

    def _day_by_plant(self, day: date) -> Element:
        url = f"{self._root}/GenOutputCapability/PUB_GenOutputCapability_{day:%Y%m%d}.xml"
        root = self._session.get_xml(url, judge=self._judge)
        dated = text_of(root, ".//Date")
        if dated != day.isoformat():
            raise SchemaError(f"{self.name} was asked for {day.isoformat()} and answered with {shown(dated)}")
        return root

    def _by_fuel(self, first: date, last: date, today: date) -> list[Cell]:
        """Of two years at most: a year's file is not read further back than some three months."""
        cells: list[Cell] = []
        for year in range(max(first.year, last.year - 1), last.year + 1):
            begin, end = max(first, date(year, 1, 1)), min(today, date(year, 12, 31))
            cells += self._year(year, (end - begin) / _DAY + 2)
        return [cell for cell in cells if first <= _day(cell.start) <= last]

    def _year(self, year: int, days: float) -> list[Cell]:
        """The end of a year's file, which is asked for unpacked: a part of a packed one could not be unpacked."""
        url = f"{self._root}/GenOutputbyFuelHourly/PUB_GenOutputbyFuelHourly_{year}.xml"
        size = min(int(days * _BYTES_A_DAY), _MOST_BYTES)
        wanted = {"Range": f"bytes=-{size}", "Accept-Encoding": "identity"}
        text = self._session.get_text(url, headers=wanted, judge=self._judge)
        begin, end = text.find("<DailyData>"), text.rfind("</DailyData>")
        if begin < 0 or end < begin:
            raise Transient(f"{self.name}: the file of {year} has no whole day in its last {size} bytes")
        body = parse(f"<DocBody>{text[begin:end]}</DailyData></DocBody>", url)
        return gather(_totals(body), lambda row: self._total(*row), where=f"{self.name} {year}")

    def _total(self, day: str, hour: str, total: Element) -> Cell | None:
        start = _start(date.fromisoformat(day), hour)
        mw = megawatts(text_of(total, "EnergyValue/Output"), f"Output of {day} hour {hour}")
        return None if mw is None else self._cell(start, text_of(total, "Fuel").upper(), mw)

    def _cell(self, start: datetime, code: str, mw: float) -> Cell:
        return Cell(start, start + _HOUR, code, fuel_of(code, _FUELS, self.name), mw)

    def _judge(self, reply: Reply) -> ProviderError | None:
        """It has no keys: a refusal is a gateway's."""
        if reply.status in {401, 403}:
            return Transient(f"{self.name}: refused with {reply.status} {reply.message}".rstrip())
        if reply.status == 404:  # noqa: PLR2004 - HTTP's own numbers are its names
            return NoData(f"{reply.url} is not there")
        return None


def _day(at: datetime) -> date:
    return at.astimezone(_EST).date()


def _start(day: date, hour: str) -> datetime:
    if hour not in _HOURS:
        raise SchemaError(f"Hour is {shown(hour)}, not 1 to 24")
    return datetime(day.year, day.month, day.day, int(hour) - 1, tzinfo=_EST).astimezone(UTC)


def _outputs(root: Element, day: date) -> Iterator[tuple[str, str, dict[datetime, float]]]:
    """Fuel, name and hours of each plant. Of plants with one name the second is another plant."""
    seen: Counter[tuple[str, str]] = Counter()
    for plant in root.iter("Generator"):
        fuel, name = text_of(plant, "FuelType").upper(), text_of(plant, "GeneratorName")
        seen[fuel, name] += 1
        yield fuel, f"{name} {seen[fuel, name]}", dict(_hourly(plant, day))


def _hourly(plant: Element, day: date) -> Iterator[tuple[datetime, float]]:
    """An hour without a figure is left out, and so is nonsense."""
    for output in plant.iterfind("Outputs/Output"):
        try:
            mw = megawatts(text_of(output, "EnergyMW"), "EnergyMW")
            start = _start(day, text_of(output, "Hour"))
        except SchemaError:
            continue
        if mw is not None:
            yield start, mw


def _summed(plants: Mapping[str, Mapping[datetime, float]]) -> Iterator[tuple[datetime, float]]:
    """Hours of a fuel. One is left out where plants without a figure made more than 5 % of it when last heard of."""
    last: dict[str, float] = {}
    for start in sorted({start for hours in plants.values() for start in hours}):
        known = {name: hours[start] for name, hours in plants.items() if start in hours}
        silent = sum(max(mw, 0.0) for name, mw in last.items() if name not in known)
        if silent <= _MOST_SILENT * (silent + sum(known.values())):
            yield start, sum(known.values())
        last.update(known)


def _totals(body: Element) -> Iterator[tuple[str, str, Element]]:
    for daily in body.iterfind("DailyData"):
        for hourly in daily.iterfind("HourlyData"):
            for total in hourly.iterfind("FuelTotal"):
                yield text_of(daily, "Day"), text_of(hourly, "Hour"), total
