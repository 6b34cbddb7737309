"""What OpenElectricity says of one region: energy and emissions by hour of its API, or power of its public file.

Storage (``battery``, which comes as a net figure beside its two halves, and ``pumps``) does not count. A figure that
cannot be read spoils its interval, since a sum without it would be too small; one that is null was not published.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from providers.base import NoData, SchemaError
from providers.emission_factors import STORAGE, Fuel
from providers.mix import Cell, Generation, collect, fuel_of, megawatts
from providers.reading import instant, record, records, shown

SOURCE = "open_electricity"
HOUR = timedelta(hours=1)
HALF_HOUR = timedelta(minutes=30)
_UNITS = {"energy": "MWh", "emissions": "t"}
_STEPS = {"5m": timedelta(minutes=5), "30m": HALF_HOUR}
_MOST_SLOTS = 20_000
_LONGEST_CODE = 40
_NO_STACK = frozenset({Fuel.HYDRO, Fuel.WIND, Fuel.WIND_OFFSHORE, Fuel.SOLAR, Fuel.NUCLEAR})
_NO_PLANT = ("imports", "exports", "interconnector", "curtailment", "demand")
_FUELS = {  # by the beginning of a technology's name
    "coal": Fuel.COAL,
    "coal_brown": Fuel.LIGNITE,
    "gas": Fuel.GAS,
    "distillate": Fuel.OIL,
    "bioenergy": Fuel.BIOMASS,
    "hydro": Fuel.HYDRO,
    "wind": Fuel.WIND,
    "wind_offshore": Fuel.WIND_OFFSHORE,
    "solar": Fuel.SOLAR,
    "nuclear": Fuel.NUCLEAR,
    "battery": Fuel.BATTERY,
    "pumps": Fuel.PUMPED_STORAGE,
}


@dataclass(frozen=True, slots=True)
class Region:
    """``must`` is what it cannot be without: a reply that lacks it was cut, however good it looks."""

    code: str
    network: str
    offset: timezone
    must: str


_AEST, _AWST = timezone(timedelta(hours=10)), timezone(timedelta(hours=8))
REGIONS = {
    region.code: region
    for region in (
        Region("NSW1", "NEM", _AEST, "coal"),
        Region("QLD1", "NEM", _AEST, "coal"),
        Region("SA1", "NEM", _AEST, "wind"),
        Region("TAS1", "NEM", _AEST, "hydro"),
        Region("VIC1", "NEM", _AEST, "coal"),
        Region("WEM", "WEM", _AWST, "gas"),
    )
}


@dataclass(slots=True)
class Hours:
    """Energy in MWh and emissions in tonnes, by start of the hour and technology."""

    energy: dict[datetime, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    emissions: dict[datetime, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    spoiled: set[datetime] = field(default_factory=set)

    def read(self, document: object, region: Region) -> None:
        """Take a reply of ``/data/network`` in; an empty one adds nothing."""
        reply = record(document, f"{SOURCE}: the reply")
        blocks = [record(block, "a block") for block in records(reply.get("data"), f"{SOURCE}: data")]
        for metric, into in (("energy", self.energy), ("emissions", self.emissions)):
            mine = [block for block in blocks if block.get("metric") == metric]
            if blocks and not mine:
                raise SchemaError(f"{SOURCE} answered without {metric}")
            for block in mine:
                self._read_block(block, into, region)

    def generations(self) -> list[Generation]:
        """An hour's MWh are its mean MW."""
        return collect(
            Cell(start, start + HOUR, code, _fuel(code), mwh)
            for start, row in self.energy.items()
            if start not in self.spoiled
            for code, mwh in row.items()
        )

    def g_per_kwh(self, start: datetime) -> float | None:
        """Emissions over generation; None where one is negative, or where what burns has none told."""
        energy = {code: max(mwh, 0.0) for code, mwh in self.energy[start].items() if _fuel(code) not in STORAGE}
        told = self.emissions.get(start, {})
        burning = [code for code, mwh in energy.items() if mwh > 0 and _fuel(code) not in _NO_STACK]
        total = math.fsum(energy.values())
        if total <= 0 or any(code not in told for code in burning) or any(tonnes < 0 for tonnes in told.values()):
            return None
        return 1000.0 * math.fsum(told.get(code, 0.0) for code in energy) / total

    def _read_block(self, block: Mapping[str, Any], into: dict[datetime, dict[str, float]], region: Region) -> None:
        metric = block["metric"]
        for key, wanted in (("unit", _UNITS[metric]), ("interval", "1h"), ("network_code", region.network)):
            if block.get(key) != wanted:
                raise SchemaError(f"{SOURCE}: {key} of {metric} is {shown(block.get(key))}, not {wanted!r}")
        results = [record(row, "a result") for row in records(block.get("results"), f"{SOURCE}: results")]
        mine = [(code, row) for row in results if (code := _technology(row, region))]
        if results and not mine:
            raise SchemaError(f"{SOURCE} was asked for {region.code} and answered with other regions")
        if metric == "energy":  # what has no stack may be left out of emissions
            _check_must([code for code, _ in mine], region)
        for code, row in mine:
            for sample in records(row.get("data"), f"{SOURCE}: data of {code}"):
                self._read_sample(sample, code, into, region)

    def _read_sample(self, sample: Any, code: str, into: dict[datetime, dict[str, float]], region: Region) -> None:
        if not isinstance(sample, list) or len(sample) != 2:  # noqa: PLR2004 - a time and a value
            raise SchemaError(f"{SOURCE}: a sample of {code} is {shown(sample)}")
        at = network_time(sample[0], region)
        try:
            value = megawatts(sample[1], code)
        except SchemaError:
            self.spoiled.add(at)
        else:
            if value is not None:
                into[at][code] = value


@dataclass(slots=True)
class HalfHours:
    """Power in MW of the public file over whole half hours: some of its series have five minutes and some have thirty.

    ``since`` is the start of a half hour.
    """

    since: datetime
    parts: dict[str, int] = field(default_factory=dict)
    slots: dict[tuple[datetime, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    spoiled: set[datetime] = field(default_factory=set)

    def read(self, document: object, region: Region) -> None:
        file = record(document, f"{SOURCE}: the file")
        names = {str(file.get(key)).upper() for key in ("code", "region", "network")}
        if region.code not in names:
            raise SchemaError(f"{SOURCE} was asked for {region.code} and answered with {shown(sorted(names))}")
        plants = [plant for plant in map(_plant, records(file.get("data"), f"{SOURCE}: data")) if plant]
        if not plants:
            raise NoData(f"{SOURCE} has published nothing for {region.code}")
        _check_must([code for code, _ in plants], region)
        for code, history in plants:
            self._read_history(code, history, region)

    def generations(self) -> list[Generation]:
        return collect(
            Cell(slot, slot + HALF_HOUR, code, _fuel(code), math.fsum(values) / len(values))
            for (slot, code), values in self.slots.items()
            if len(values) == self.parts[code] and slot not in self.spoiled
        )

    def _read_history(self, code: str, history: Mapping[str, Any], region: Region) -> None:
        step = _STEPS.get(str(history.get("interval")))
        if step is None:
            raise SchemaError(f"{SOURCE}: interval of {code} is {shown(history.get('interval'))}, not 5m or 30m")
        start = network_time(history.get("start"), region)
        values = records(history.get("data"), f"{SOURCE}: data of {code}")
        if len(values) > _MOST_SLOTS:
            raise SchemaError(f"{SOURCE}: {code} has {len(values)} values")
        self.parts[code] = HALF_HOUR // step
        for index in range(max(0, -((start - self.since) // step)), len(values)):
            self._read_value(start + index * step, code, values[index])

    def _read_value(self, at: datetime, code: str, value: object) -> None:
        slot = at - (at - self.since) % HALF_HOUR
        try:
            mw = megawatts(value, code)
        except SchemaError:
            self.spoiled.add(slot)
            return
        if mw is not None:
            self.slots[slot, code].append(mw)


def _check_must(codes: Sequence[str], region: Region) -> None:
    if not any(code.startswith(region.must) for code in codes):
        raise SchemaError(f"{SOURCE} answered for {region.code} without {region.must}, of which it always has some")


def network_time(value: object, region: Region) -> datetime:
    """Times come with their offset, or without it in that of the network, which knows no summer time."""
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            at = None
        if at is not None and at.tzinfo is None:
            value = at.replace(tzinfo=region.offset).isoformat()
    return instant(value, "a time")


def _technology(row: Mapping[str, Any], region: Region) -> str:
    """The technology of a result of this region, or its group; nothing for one of another."""
    columns = record(row.get("columns"), f"{SOURCE}: columns")
    if columns.get("region", columns.get("network_region")) != region.code:
        return ""
    return str(columns.get("fueltech") or columns.get("fueltech_group"))[:_LONGEST_CODE]


def _plant(row: Any) -> tuple[str, Mapping[str, Any]] | None:
    row = record(row, f"{SOURCE}: a series")
    code = row.get("fuel_tech")
    if row.get("type") != "power" or not isinstance(code, str) or code.startswith(_NO_PLANT):
        return None
    return code[:_LONGEST_CODE], record(row.get("history"), f"{SOURCE}: history of {code[:_LONGEST_CODE]}")


def _fuel(code: str) -> Fuel:
    """Of a group, or of a technology by the group that its name begins with."""
    name = code
    while name not in _FUELS and "_" in name:
        name = name.rpartition("_")[0]
    return _FUELS[name] if name in _FUELS else fuel_of(code, _FUELS, SOURCE)
