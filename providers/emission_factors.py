"""What a kWh of each fuel emits, in gCO2eq: a cited table with a version, and dated exceptions of single zones.

Neither is changed without a new version, since each intensity computed from a mix names the one it used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType

from providers.base import BadRequest, Scope

VERSION = "ipcc-ar5.1"


class Fuel(StrEnum):
    COAL = "coal"
    LIGNITE = "lignite"
    COAL_GAS = "coal-gas"
    GAS = "gas"
    OIL = "oil"
    OIL_SHALE = "oil-shale"
    PEAT = "peat"
    BIOMASS = "biomass"
    WASTE = "waste"
    GEOTHERMAL = "geothermal"
    HYDRO = "hydro"
    NUCLEAR = "nuclear"
    SOLAR = "solar"
    WIND = "wind"
    WIND_OFFSHORE = "wind-offshore"
    MARINE = "marine"
    OTHER_RENEWABLE = "other-renewable"
    OTHER = "other"
    PUMPED_STORAGE = "pumped-storage"
    BATTERY = "battery"
    UNKNOWN = "unknown"


STORAGE = frozenset({Fuel.PUMPED_STORAGE, Fuel.BATTERY})

_IPCC = "IPCC AR5 WG3 (2014), Annex III, table A.III.2, medians"
_POST = "UK Parliamentary Office of Science and Technology (2014); direct: own assumption, the same figure"
_OWN = "own assumption"


@dataclass(frozen=True, slots=True)
class Factor:
    """gCO2eq/kWh of the whole life cycle and at the stack, and where the figures are from."""

    lifecycle: float
    direct: float
    citation: str


# Storage has none: it gives back what others generated (see providers.mix).
TABLE: Mapping[Fuel, Factor] = MappingProxyType(
    {
        Fuel.COAL: Factor(820, 760, f"{_IPCC}: pulverised coal"),
        Fuel.LIGNITE: Factor(1050, 1000, f"{_OWN}: hard coal and a quarter to a third more"),
        Fuel.COAL_GAS: Factor(820, 760, f"{_OWN}: as coal"),
        Fuel.GAS: Factor(490, 370, f"{_IPCC}: combined cycle"),
        Fuel.OIL: Factor(650, 650, _POST),
        Fuel.OIL_SHALE: Factor(900, 850, _OWN),
        Fuel.PEAT: Factor(1000, 950, _OWN),
        Fuel.BIOMASS: Factor(230, 0, f"{_IPCC}: dedicated biomass; direct: its carbon counts where it grew"),
        Fuel.WASTE: Factor(330, 330, _OWN),
        Fuel.GEOTHERMAL: Factor(38, 0, _IPCC),
        Fuel.HYDRO: Factor(24, 0, _IPCC),
        Fuel.NUCLEAR: Factor(12, 0, _IPCC),
        Fuel.SOLAR: Factor(45, 0, f"{_IPCC}: between photovoltaics on roofs (41) and in the field (48)"),
        Fuel.WIND: Factor(11, 0, f"{_IPCC}: onshore"),
        Fuel.WIND_OFFSHORE: Factor(12, 0, f"{_IPCC}: offshore"),
        Fuel.MARINE: Factor(17, 0, f"{_IPCC}: ocean"),
        Fuel.OTHER_RENEWABLE: Factor(50, 0, _OWN),
        Fuel.OTHER: Factor(700, 575, f"{_OWN}: thermal plants of many kinds"),
        Fuel.UNKNOWN: Factor(700, 575, f"{_OWN}: thermal plants of many kinds"),
    }
)


@dataclass(frozen=True, slots=True)
class ZoneFactors:
    """What holds instead in ``zones`` and their parts over ``[since, until)``, None being open.

    Other fuels keep the table's figure.
    """

    version: str
    zones: frozenset[str]
    scope: Scope
    since: datetime
    until: datetime | None
    g_per_kwh: Mapping[Fuel, float]
    citation: str

    def hold(self, zone: str, scope: Scope, at: datetime) -> bool:
        dated = self.since <= at and (self.until is None or at < self.until)
        return dated and scope is self.scope and any(f"{zone}-".startswith(f"{whole}-") for whole in self.zones)


_EM = "Electricity Maps, config/zones at b354f28 (facts only): from emissions trading and generation of the zone"
_LATEST = datetime(2025, 1, 1, tzinfo=UTC)


def _from_electricity_maps(*zones: str, g_per_kwh: Mapping[Fuel, float]) -> ZoneFactors:
    return ZoneFactors("em-2025.1", frozenset(zones), Scope.LIFECYCLE, _LATEST, None, g_per_kwh, _EM)


# Their coal is hard coal and lignite together, and their wind that on land and at sea.
EXCEPTIONS: tuple[ZoneFactors, ...] = (
    _from_electricity_maps(
        "DE",
        g_per_kwh={
            Fuel.COAL: 1113,
            Fuel.LIGNITE: 1113,
            Fuel.GAS: 503,
            Fuel.HYDRO: 10.7,
            Fuel.NUCLEAR: 5.13,
            Fuel.SOLAR: 35.1,
            Fuel.WIND: 12.62,
            Fuel.WIND_OFFSHORE: 12.62,
        },
    ),
    _from_electricity_maps("PL", g_per_kwh={Fuel.COAL: 1099, Fuel.LIGNITE: 1099}),
    _from_electricity_maps("FR", g_per_kwh={Fuel.COAL: 1029}),
    _from_electricity_maps("US-CAL-CISO", "CISO", g_per_kwh={Fuel.GAS: 516, Fuel.GEOTHERMAL: 77}),
)


@dataclass(frozen=True, slots=True)
class Factors:
    """The factors of one zone, scope and time. ``version`` says which, and goes with each value computed from them."""

    version: str
    by_fuel: Mapping[Fuel, float]

    def g_per_kwh(self, fuel: Fuel) -> float:
        """Raises ``ValueError`` for storage, which has no factor of its own."""
        if fuel in STORAGE:
            raise ValueError(f"{fuel} has no emission factor: it gives back what others generated")
        return self.by_fuel[fuel]


def factors_for(zone: str, scope: Scope, at: datetime) -> Factors:
    """Raises ``BadRequest`` for a scope without a table."""
    if scope is Scope.UNSPECIFIED:
        raise BadRequest("emission factors are of lifecycle or direct emissions, not unspecified")
    place = zone.upper().replace("_", "-")
    special = [these for these in EXCEPTIONS if these.hold(place, scope, at)]
    return _put_together(scope, tuple(special))


def _put_together(scope: Scope, special: tuple[ZoneFactors, ...]) -> Factors:
    direct = scope is Scope.DIRECT
    by_fuel = {fuel: float(factor.direct if direct else factor.lifecycle) for fuel, factor in TABLE.items()}
    for these in special:
        by_fuel.update(these.g_per_kwh)
    version = "+".join([VERSION, *(these.version for these in special)])
    return Factors(f"{version} {scope}", MappingProxyType(by_fuel))
