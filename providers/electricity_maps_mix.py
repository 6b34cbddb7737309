"""Intensity from Electricity Maps' ``electricity-mix`` (v4) by our own table of emission factors.

Traced mixes are of what is consumed, imports included, plain ones of what is generated. null is not 0; what stands
under ``flows`` is no fuel; storage is an object with charge and discharge, and does not count (see ``mix``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, ClassVar

from providers.base import Boundary, IntensityPoint, Kind, NoData, Scope
from providers.electricity_maps_api import SOURCE
from providers.electricity_maps_reply import check_label, checked, common, kind_of, starts, step_of, updated_at
from providers.emission_factors import Fuel
from providers.mix import Generation, fuel_of, intensities, megawatts
from providers.reading import ends, gather, instant, record

_FUELS = MappingProxyType(
    {
        "biomass": Fuel.BIOMASS,
        "coal": Fuel.COAL,
        "gas": Fuel.GAS,
        "geothermal": Fuel.GEOTHERMAL,
        "hydro": Fuel.HYDRO,
        "nuclear": Fuel.NUCLEAR,
        "oil": Fuel.OIL,
        "solar": Fuel.SOLAR,
        "unknown": Fuel.UNKNOWN,
        "wind": Fuel.WIND,
    }
)


@dataclass(frozen=True, slots=True)
class AskedMix:
    """As ``Asked``, for the mix."""

    signal: ClassVar[str] = "electricity-mix"
    zone: str
    granularity: str
    scope: Scope
    flow_traced: bool
    estimations: bool
    now: Callable[[], datetime]

    @property
    def boundary(self) -> Boundary:
        return Boundary.CONSUMPTION if self.flow_traced else Boundary.PRODUCTION

    @property
    def _breakdown(self) -> str:
        return "flow-traced" if self.flow_traced else "normal"

    def params(self) -> dict[str, str]:
        """The mix has a word of its own for what ``flowTraced`` says elsewhere."""
        return {**common(self.granularity, estimations=self.estimations), "breakdownType": self._breakdown}

    def points(self, document: object) -> list[IntensityPoint]:
        """A row that cannot be read, or of which too little is known, is a gap."""
        reply, rows = checked(document, self.zone)
        check_label(reply, "unit", "MW")
        until = ends(starts(rows), step_of(reply, self.granularity))
        mixes = gather(rows, lambda row: self._mix(row, until), where=f"{SOURCE} {self.zone}")
        said = {mix.generation.start: mix for mix in mixes}
        computed = intensities(
            (mix.generation for mix in mixes),
            zone=self.zone,
            scope=self.scope,
            source=SOURCE,
            fetched_at=self.now(),
            boundary=self.boundary,
        )
        if not computed:
            raise NoData(f"{SOURCE} {self.zone}: no interval has a whole mix")
        return [said[point.start].labelled(point) for point in computed]

    def _mix(self, row: Any, until: Mapping[datetime, datetime]) -> _Mix | None:
        row = record(row, "a row")
        start = instant(row.get("datetime"), "datetime")
        check_label(row, "breakdownType", self._breakdown)
        if row.get("mix") is None:
            return None
        modes = record(row["mix"], f"mix at {start.isoformat()}")
        return _Mix(Generation(start, until[start], _megawatts(modes, start), updated_at(row)), row)


@dataclass(frozen=True, slots=True)
class _Mix:
    generation: Generation
    row: Mapping[str, Any]

    @property
    def start(self) -> datetime:
        return self.generation.start

    @property
    def end(self) -> datetime:
        return self.generation.end

    def labelled(self, point: IntensityPoint) -> IntensityPoint:
        """With what the source says of its figures."""
        how = str(self.row.get("estimationMethod") or "")
        kind = kind_of(self.row)
        method = f"{point.method}; {how}" if kind is Kind.ESTIMATED and how else point.method
        return replace(point, kind=kind, method=method)


def _megawatts(modes: Mapping[str, Any], start: datetime) -> dict[Fuel, float]:
    """Objects are storage or flows. One figure that cannot be read makes the whole row one."""
    found: dict[Fuel, float] = {}
    for mode, value in modes.items():
        mw = None if isinstance(value, dict) else megawatts(value, f"{mode} at {start.isoformat()}")
        if mw is not None:
            fuel = fuel_of(mode, _FUELS, SOURCE)
            found[fuel] = found.get(fuel, 0.0) + mw
    return found
