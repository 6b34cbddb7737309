"""What is expected: one step of it, and many as columns, since a week of five minutes is two thousand of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

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


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Columns (n,) of steps that ascend and do not overlap: from ``start_s`` to ``end_s`` in seconds since the epoch,
    median ``g`` and quantiles ``low`` and ``high`` in g/kWh, and who expects it.
    """

    start_s: Floats
    end_s: Floats
    g: Floats
    low: Floats
    high: Floats
    by: Sequence[str]

    def __len__(self) -> int:
        return len(self.g)

    def between(self, first: int, last: int) -> Steps:
        """Those from ``first`` on, up to ``last``, which is none of them."""
        if first <= 0 and last >= len(self.g):
            return self
        part = slice(max(first, 0), last)
        return self.picked(part, self.by[part])

    def picked(self, rows: slice | Bools, by: Sequence[str]) -> Steps:
        return Steps(self.start_s[rows], self.end_s[rows], self.g[rows], self.low[rows], self.high[rows], by)

    def each(self) -> tuple[Expected, ...]:
        times = (
            [datetime.fromtimestamp(at_s, UTC) for at_s in column.tolist()] for column in (self.start_s, self.end_s)
        )
        values = (column.tolist() for column in (self.g, self.low, self.high))
        return tuple(map(Expected, *times, *values, self.by))
