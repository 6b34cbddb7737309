"""What a reply of Electricity Maps says: its rows as points, once zone, scope and boundary are those asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from providers.base import Boundary, IntensityPoint, Kind, NoData, PlanError, SchemaError, Scope, Signal
from providers.electricity_maps_api import SOURCE
from providers.reading import ends, gather, instant, intensity, record, records, shown

STEPS = {
    "5_minutes": timedelta(minutes=5),
    "15_minutes": timedelta(minutes=15),
    "hourly": timedelta(hours=1),
}
_ROWS = ("history", "forecast", "data")  # by endpoint, not by version; ``latest`` is a row itself
_ITSELF = ("carbonIntensity", "mix", "value")
_SANDBOX = "SANDBOX_MODE_DATA"
_MEASURED = (None, "MEASURED")


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for, hence what the points are. ``now`` dates them."""

    signal: ClassVar[str] = "carbon-intensity"
    zone: str
    granularity: str
    scope: Scope
    flow_traced: bool
    estimations: bool
    is_v4: bool
    now: Callable[[], datetime]

    @property
    def boundary(self) -> Boundary:
        return Boundary.CONSUMPTION if self.flow_traced else Boundary.PRODUCTION

    def params(self) -> dict[str, str]:
        params = {**common(self.granularity, estimations=self.estimations), "emissionFactorType": self.scope.value}
        if self.is_v4:
            params["flowTraced"] = "true" if self.flow_traced else "false"
        return params

    def points(self, document: object, *, issued_at: datetime | None = None) -> list[IntensityPoint]:
        """Forecasts where ``issued_at`` is given. A null row is a gap, and so is one that cannot be read."""
        reply, rows = checked(document, self.zone)
        self._check_labels(reply)
        until = ends(starts(rows), step_of(reply, self.granularity))
        return gather(rows, lambda row: self._point(row, until, issued_at), where=f"{SOURCE} {self.zone}")

    def _check_labels(self, labelled: Mapping[str, Any]) -> None:
        """A reply need not say what it is, and neither need its rows, but they must not say otherwise."""
        check_label(labelled, "emissionFactorType", self.scope.value)
        check_label(labelled, "flowTraced", self.flow_traced)

    def _point(self, row: Any, until: Mapping[datetime, datetime], issued_at: datetime | None) -> IntensityPoint | None:
        row = record(row, "a row")
        start = instant(row.get("datetime"), "datetime")
        self._check_labels(row)
        if "carbonIntensity" not in row:
            raise SchemaError(f"carbonIntensity is missing at {start.isoformat()}")
        grams = intensity(row["carbonIntensity"], f"carbonIntensity at {start.isoformat()}")
        if grams is None:
            return None
        return IntensityPoint(
            zone=self.zone,
            start=start,
            end=until[start],
            g_per_kwh=grams,
            kind=Kind.FORECAST if issued_at else kind_of(row),
            signal=Signal.AVERAGE,
            scope=self.scope,
            boundary=self.boundary,
            source=SOURCE,
            fetched_at=self.now(),
            issued_at=issued_at,
            updated_at=updated_at(row),
            method=str(row.get("estimationMethod") or ""),
        )


def common(granularity: str, *, estimations: bool = True) -> dict[str, str]:
    """What every request says: else an unknown zone gets the data of where we seem to be."""
    params = {"temporalGranularity": granularity, "disableCallerLookup": "true"}
    return params if estimations else {**params, "disableEstimations": "true"}


def checked(document: object, zone: str) -> tuple[Mapping[str, Any], Sequence[Any]]:
    """Reply and rows, if it is of the zone asked for, has rows, and they are no sandbox's."""
    if document in ({}, []):
        raise NoData(f"{SOURCE} has nothing for zone {zone}")
    reply = record(document, f"{SOURCE}: the reply")
    if reply.get("zone") != zone:
        raise SchemaError(f"{SOURCE} was asked for zone {zone!r} and answered with {shown(reply.get('zone'))}")
    rows = rows_of(reply)
    if not rows:
        raise NoData(f"{SOURCE} has published nothing for zone {zone}")
    if _is_sandbox(reply, rows):
        raise PlanError(f"{SOURCE}: a sandbox key gives random data for {zone}; use a production key")
    return reply, rows


def rows_of(document: object) -> Sequence[Any]:
    reply = record(document, f"{SOURCE}: the reply")
    key = next((key for key in _ROWS if key in reply), "")
    if not key and any(key in reply for key in _ITSELF):
        return [reply]
    return records(reply.get(key or _ROWS[-1]), f"{SOURCE}: {key or _ROWS[-1]}")


def step_of(reply: Mapping[str, Any], asked: str) -> timedelta:
    """The reply's own, since a plan without short steps is given longer ones unsaid."""
    named = reply.get("temporalGranularity") or asked
    step = STEPS.get(str(named))
    if step is None:
        raise SchemaError(f"{SOURCE}: temporalGranularity is {shown(named)}, not {', '.join(STEPS)}")
    return step


def starts(rows: Sequence[Any]) -> list[datetime]:
    """Of the rows that have one."""
    return [at for row in rows if (at := _start(row)) is not None]


def check_label(labelled: Mapping[str, Any], key: str, wanted: object) -> None:
    got = labelled.get(key)
    if got is not None and got != wanted:
        raise SchemaError(f"{SOURCE} was asked for {key} {wanted!r} and answered with {shown(got)}")


def kind_of(row: Mapping[str, Any]) -> Kind:
    """``isEstimated`` decides; without it a method that is null or MEASURED does; without either it is an estimate."""
    estimated = row.get("isEstimated", row.get("estimationMethod", "unknown") not in _MEASURED)
    return Kind.MEASURED if estimated is False else Kind.ESTIMATED


def updated_at(row: Mapping[str, Any]) -> datetime | None:
    at = row.get("updatedAt")
    return None if at is None else instant(at, "updatedAt")


def _start(row: Any) -> datetime | None:
    try:
        return instant(row["datetime"], "datetime")
    except (SchemaError, KeyError, TypeError):
        return None


def _is_sandbox(reply: Mapping[str, Any], rows: Sequence[Any]) -> bool:
    """Rows of a forecast carry no method; then only a disclaimer beside them tells."""
    said = (str(value) for key, value in reply.items() if "disclaimer" in key.lower())
    methods = (row.get("estimationMethod") for row in rows if isinstance(row, dict))
    return _SANDBOX in methods or any("sandbox" in text.lower() for text in said)
