"""One step of what is expected."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

OWN, PERSISTENCE, TYPICAL = "chase", "persistence", "typical"


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected over ``[start, end)``, aware UTC, in gCO2eq/kWh.

    ``g_per_kwh`` is the median, ``low`` and ``high`` the 10 and 90 % quantiles. ``by`` says who expects it: "chase",
    "persistence", "typical", a source's name where its forecast was taken, "chase+SOURCE" where both had a part.
    """

    start: datetime
    end: datetime
    g_per_kwh: float
    low: float
    high: float
    by: str
