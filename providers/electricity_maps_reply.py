"""What a reply of Electricity Maps says: its rows as points, once zone, scope and boundary are those asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from providers.base import Boundary, IntensityPoint, Kind, NoData, PlanError, SchemaError, Scope, Signal
from providers.reading import ends, gather, instant, intensity, record, records, shown

SOURCE = "electricity_maps"
STEPS = {
    "5_minutes": timedelta(minutes=5),
    "15_minutes": timedelta(minutes=15),
    "hourly": timedelta(hours=1),
}
_ROWS = ("history", "forecast", "data")  # by endpoint, not by version; ``latest`` is a row itself
_SANDBOX = "SANDBOX_MODE_DATA"
_MEASURED = (None, "MEASURED")


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for, hence what the points are. ``now`` dates them."""

    zone: str
    granularity: str
    scope: Scope
    flow_traced: bool
    now: Callable[[], datetime]

    def points(self, document: object, *, issued_at: datetime | None = None) -> list[IntensityPoint]:
        """Forecasts where ``issued_at`` is given. A null row is a gap, and so is one that cannot be read."""
        if document in ({}, []):
            raise NoData(f"{SOURCE} has nothing for zone {self.zone}")
        reply = record(document, f"{SOURCE}: the reply")
        if reply.get("zone") != self.zone:
            answered = shown(reply.get("zone"))
            raise SchemaError(f"{SOURCE} was asked for zone {self.zone!r} and answered with {answered}")
        self._check_labels(reply)
        rows = rows_of(reply)
        if not rows:
            raise NoData(f"{SOURCE} has published nothing for zone {self.zone}")
        if _is_sandbox(reply, rows):
            raise PlanError(f"{SOURCE}: a sandbox key gives random data for {self.zone}; use a production key")
        until = ends([at for row in rows if (at := _start(row)) is not None], self._step(reply))
        return gather(rows, lambda row: self._point(row, until, issued_at), where=f"{SOURCE} {self.zone}")

    def _check_labels(self, labelled: Mapping[str, Any]) -> None:
        """A reply need not say what it is, and neither need its rows, but they must not say otherwise."""
        for key, wanted in (("emissionFactorType", self.scope.value), ("flowTraced", self.flow_traced)):
            got = labelled.get(key)
            if got is not None and got != wanted:
                raise SchemaError(f"{SOURCE} was asked for {key} {wanted!r} and answered with {shown(got)}")

    def _step(self, reply: Mapping[str, Any]) -> timedelta:
        """The reply's own, since a plan without short steps is given longer ones unsaid."""
        named = reply.get("temporalGranularity") or self.granularity
        step = STEPS.get(str(named))
        if step is None:
            raise SchemaError(f"{SOURCE}: temporalGranularity is {shown(named)}, not {', '.join(STEPS)}")
        return step

    def _point(self, row: Any, until: Mapping[datetime, datetime], issued_at: datetime | None) -> IntensityPoint | None:
        row = record(row, "a row")
        start = instant(row.get("datetime"), "datetime")
        self._check_labels(row)
        if "carbonIntensity" not in row:
            raise SchemaError(f"carbonIntensity is missing at {start.isoformat()}")
        grams = intensity(row["carbonIntensity"], f"carbonIntensity at {start.isoformat()}")
        if grams is None:
            return None
        updated = row.get("updatedAt")
        return IntensityPoint(
            zone=self.zone,
            start=start,
            end=until[start],
            g_per_kwh=grams,
            kind=Kind.FORECAST if issued_at else _kind(row),
            signal=Signal.AVERAGE,
            scope=self.scope,
            boundary=Boundary.CONSUMPTION if self.flow_traced else Boundary.PRODUCTION,
            source=SOURCE,
            fetched_at=self.now(),
            issued_at=issued_at,
            updated_at=None if updated is None else instant(updated, "updatedAt"),
            method=str(row.get("estimationMethod") or ""),
        )


def rows_of(document: object) -> Sequence[Any]:
    reply = record(document, f"{SOURCE}: the reply")
    if "carbonIntensity" in reply:
        return [reply]
    key = next((key for key in _ROWS if key in reply), _ROWS[-1])
    return records(reply.get(key), f"{SOURCE}: {key}")


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


def _kind(row: Mapping[str, Any]) -> Kind:
    """``isEstimated`` decides; without it a method that is null or MEASURED does; without either it is an estimate."""
    estimated = row.get("isEstimated", row.get("estimationMethod", "unknown") not in _MEASURED)
    return Kind.MEASURED if estimated is False else Kind.ESTIMATED
