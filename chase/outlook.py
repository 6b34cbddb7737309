"""What the grid of a region looks like at one moment: the value to go by, the hours to come, and what they rest on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from providers.base import IntensityPoint, Kind

if TYPE_CHECKING:
    from chase.forecast.expected import Floats

FRESH, STALE, FALLBACK = "fresh", "stale", "fallback"


@dataclass(frozen=True, slots=True)
class Hour:
    """One step of time, an hour or what its source divides one into: how clean the grid is over ``[start, end)``.

    ``g_per_kwh`` is the median in gCO2eq/kWh, ``low`` and ``high`` the 10 and 90 % quantiles; of what was observed, and
    of what a source says without a spread, all three are one. ``by`` is a source, "chase" for our own forecast,
    "chase+SOURCE" for both in one, "persistence" or "typical". ``age_s`` is how old that is on which it rests: since
    the end of what was observed, or since the forecast was issued; None for what is typical.
    """

    start: datetime
    end: datetime
    g_per_kwh: float
    low: float
    high: float
    kind: Kind
    by: str
    age_s: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The same hours as columns (n,): ``start_s`` and ``end_s`` in seconds since the epoch, values in g/kWh."""

    start_s: Floats
    end_s: Floats
    g: Floats
    low: Floats
    high: Floats

    def __len__(self) -> int:
        return len(self.g)


class Coming(Protocol):
    """The hours to come in two forms, each made when somebody looks at it: there may be two thousand of them.

    ``edition`` is the same object for as long as nothing is known or expected otherwise, None where nobody can tell.
    """

    @property
    def edition(self) -> object: ...
    @property
    def hours(self) -> tuple[Hour, ...]: ...
    @property
    def curve(self) -> Curve: ...


class Nothing:
    """Nobody says anything."""

    hours: tuple[Hour, ...] = ()
    edition: object = None

    @property
    def curve(self) -> Curve:
        import numpy as np

        return Curve(*np.empty((5, 0)))


NOTHING = Nothing()


@dataclass(frozen=True, slots=True)
class Outlook:
    """The grid at ``at``: the value to go by now, the hours to come, and the recent points it compares with.

    ``now`` is None when there is nothing usable at all. ``age_s`` counts from the end of the interval observed; ``low``
    and ``high`` are given where ``now`` is expected and not observed. ``ahead``, and ``curve`` as columns, begins with
    the interval that runs now and has neither gap nor overlap as far as anybody says anything. ``remembered`` are
    values in g/kWh, evenly picked out of all of the history that is kept.
    """

    at: datetime
    now: IntensityPoint | None = None
    freshness: str = FALLBACK
    age_s: float | None = None
    coming: Coming = NOTHING
    past: Callable[[], tuple[IntensityPoint, ...]] = tuple
    note: str = ""
    low: float | None = None
    high: float | None = None
    memory: Callable[[], Sequence[float]] = tuple

    @property
    def remembered(self) -> Sequence[float]:
        return self.memory()

    @property
    def ahead(self) -> tuple[Hour, ...]:
        return self.coming.hours

    @property
    def curve(self) -> Curve:
        return self.coming.curve

    @property
    def recent(self) -> tuple[IntensityPoint, ...]:
        return self.past()

    @property
    def edition(self) -> object:
        """Equal for two outlooks between which nothing but time has passed; None where nobody can tell."""
        coming = self.coming.edition
        return None if coming is None else (coming, self.now, self.freshness)


def describe(outlook: Outlook) -> dict[str, Any]:
    """For status and the CLI: one flat dict."""
    now = outlook.now
    return {
        "g_per_kwh": now.g_per_kwh if now else None,
        "low": outlook.low,
        "high": outlook.high,
        "kind": now.kind.value if now else "none",
        "source": now.source if now else "",
        "zone": now.zone if now else "",
        "signal": now.signal.value if now else "",
        "scope": now.scope.value if now else "",
        "start": now.start if now else None,
        "end": now.end if now else None,
        "freshness": outlook.freshness,
        "age_s": outlook.age_s,
        "note": outlook.note,
    }
