"""One position of a job's levers. Apart from the frontier, since every training process knows it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@dataclass(frozen=True, slots=True)
class Setting:
    """One position of every lever. A field that is None is a lever that is not used."""

    power_limit_w: float | None = None
    sm_clock_mhz: int | None = None
    batch_size: int | None = None
    plan: str | None = None
    paused: bool = False

    def __str__(self) -> str:
        if self.paused:
            return "paused"
        parts = [
            f"{self.power_limit_w:g} W" if self.power_limit_w is not None else "",
            f"{self.sm_clock_mhz} MHz" if self.sm_clock_mhz is not None else "",
            f"batch {self.batch_size}" if self.batch_size is not None else "",
            f"plan {self.plan}" if self.plan is not None else "",
        ]
        return ", ".join(part for part in parts if part) or "as found"

    def to_dict(self) -> dict[str, Any]:
        levers = zip(_LEVERS, _levers(self), strict=True)
        return {key: value for key, value in levers if value is not None and value is not False}


_LEVERS = tuple(lever.name for lever in fields(Setting))
_levers = attrgetter(*_LEVERS)
