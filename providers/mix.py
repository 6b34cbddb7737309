"""From a generation mix to an intensity: what counts, what does not, and when too little of a mix is known.

    intensity = sum(generation x factor) / sum(generation)      over the fuels that generate

- **Storage** does not count, neither charging nor discharging: what it gives back is taken to be as dirty as the rest
  of that interval. (A trailing mean would make a value depend on how far back one happened to ask.)
- **Negative generation** is a station's own use, or pumping where pumps and turbines are one figure: it counts as 0.
  Where it is more than that could be, the figure is not believed, as if the fuel were not published.
- **Completeness**: newest intervals often lack fuels. One counts if every fuel that made 5 % in the last 24 h is there,
  and the fuels there made 90 % of what was generated in them. What was generated *now* says little: a calm night may
  well have half of it; only less than half of the lowest of those hours is taken for a figure that is being collected.
  Those 24 h are of intervals that counted, so that a fuel missing for days does not become the custom.
- **Unknown fuels** may be 10 % of an interval at most.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from providers.base import Boundary, IntensityPoint, Kind, SchemaError, Scope, Signal
from providers.emission_factors import STORAGE, Factors, Fuel, factors_for
from providers.options import Options
from providers.reading import shown

MEMORY = timedelta(hours=24)  # ask for this much before the first interval that is wanted
MOST_MW = 5e6  # all of the world's plants together run at less
_NOTABLE_SHARE = 0.05
_LEAST_COVERED = 0.90
_LEAST_OF_LOWEST = 0.50
_MOST_UNKNOWN = 0.10
_SELF_USE_MW = 100.0
_SELF_USE_SHARE = 0.01
_PUMPING = frozenset({Fuel.HYDRO})
_VAGUE = frozenset({Fuel.OTHER, Fuel.UNKNOWN})
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Generation:
    """Mean power in MW by fuel over ``[start, end)``, aware UTC.

    A fuel that is absent was not published, which is not 0. Storage is positive where it discharges.
    """

    start: datetime
    end: datetime
    mw: Mapping[Fuel, float]
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of a source, in MW; ``code`` is the source's own name of the fuel."""

    start: datetime
    end: datetime
    code: str
    fuel: Fuel
    mw: float


def scope_option(given: Options) -> Scope:
    return Scope(given.text("scope", Scope.LIFECYCLE, choices=(Scope.LIFECYCLE, Scope.DIRECT)))


def fuel_of(code: str, known: Mapping[str, Fuel], source: str) -> Fuel:
    """UNKNOWN, and a note in the log, for a code that the source did not have when this was written."""
    fuel = known.get(code)
    if fuel is None:
        _note(source, shown(code))
        return Fuel.UNKNOWN
    return fuel


@lru_cache(maxsize=256)
def _note(source: str, code: str) -> None:
    """Once for each code."""
    _log.warning("%s: fuel %s is not known here and counts as %s", source, code, Fuel.UNKNOWN)


def megawatts(value: object, what: str) -> float | None:
    """A number, or one in a text as some sources write it; None for null and for an empty text."""
    if value is None or value == "":
        return None
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not abs(number) <= MOST_MW:
        raise SchemaError(f"{what} is {shown(value)}, not a number of MW up to {MOST_MW:g}")
    return number


def collect(cells: Iterable[Cell], *, updated_at: datetime | None = None) -> list[Generation]:
    """Rows in order of time. Of two figures of one code and interval the later given wins; codes of one fuel add up.

    A fuel lacks in a row where a code of it does that other rows have: the sum would be too small.
    """
    rows: dict[tuple[datetime, datetime], dict[str, Cell]] = defaultdict(dict)
    codes: dict[Fuel, set[str]] = defaultdict(set)
    for cell in cells:
        rows[cell.start, cell.end][cell.code] = cell
        codes[cell.fuel].add(cell.code)
    made = []
    for (start, end), row in sorted(rows.items()):
        whole = (fuel for fuel, parts in codes.items() if parts <= row.keys())
        mw = {fuel: math.fsum(row[code].mw for code in codes[fuel]) for fuel in whole}
        made.append(Generation(start, end, mw, updated_at))
    return made


def usable(rows: Iterable[Generation], start: datetime, now: datetime) -> list[Generation]:
    """Those that can matter for what is wanted from ``start`` on, of which none has yet to begin.

    A row with an impossible time must not become the first one, by which the others are judged.
    """
    return [row for row in rows if row.end > start - MEMORY and row.start <= now]


def intensities(
    rows: Iterable[Generation],
    *,
    zone: str,
    scope: Scope,
    source: str,
    fetched_at: datetime,
    boundary: Boundary = Boundary.PRODUCTION,
    table: Callable[[str, Scope, datetime], Factors] = factors_for,
) -> list[IntensityPoint]:
    """One point for each row of which enough is known; the others are gaps.

    Give rows from ``MEMORY`` before the first one that matters: the first 24 h are judged by themselves.
    """
    ordered = sorted({row.start: row for row in rows}.values(), key=lambda row: row.start)
    usual = _Usual(_Counted.of(row) for row in ordered if row.start < ordered[0].start + MEMORY)
    points = []
    for row in ordered:
        counted = _Counted.of(row)
        if not usual.accepts(counted):
            _log.debug("%s %s: too little is known of the mix at %s", source, zone, row.start.isoformat())
            continue
        usual.add(counted)
        factors = table(zone, scope, row.start)
        points.append(
            IntensityPoint(
                zone=zone,
                start=row.start,
                end=row.end,
                g_per_kwh=counted.g_per_kwh(factors),
                kind=Kind.MEASURED,
                signal=Signal.AVERAGE,
                scope=scope,
                boundary=boundary,
                source=source,
                fetched_at=fetched_at,
                updated_at=row.updated_at,
                method=counted.method(factors),
            )
        )
    return points


@dataclass(frozen=True, slots=True)
class _Counted:
    """What of a row counts: no storage, nothing negative, nothing that cannot be."""

    start: datetime
    hours: float
    mw: Mapping[Fuel, float]
    total: float

    @classmethod
    def of(cls, row: Generation) -> _Counted:
        given = {fuel: mw for fuel, mw in row.mw.items() if fuel not in STORAGE}
        most = max(_SELF_USE_MW, _SELF_USE_SHARE * sum(mw for mw in given.values() if mw > 0))
        mw = {fuel: max(mw, 0.0) for fuel, mw in given.items() if mw >= -most or fuel in _PUMPING}
        return cls(row.start, (row.end - row.start) / timedelta(hours=1), mw, math.fsum(mw.values()))

    def share(self, fuel: Fuel) -> float:
        return self.mw.get(fuel, 0.0) / self.total if self.total > 0 else 0.0

    def g_per_kwh(self, factors: Factors) -> float:
        return math.fsum(mw * factors.g_per_kwh(fuel) for fuel, mw in self.mw.items()) / self.total

    def method(self, factors: Factors) -> str:
        """The factors, and how much of the generation is of a known fuel where that is not all."""
        known = math.floor(100 * (1 - sum(self.share(fuel) for fuel in _VAGUE)) + 1e-9)
        return factors.version if known >= 100 else f"{factors.version}, {known} % of known fuel"  # noqa: PLR2004


class _Usual:
    """The last 24 h of rows that counted; to begin with, the first 24 h of all rows."""

    def __init__(self, first: Iterable[_Counted]) -> None:
        self._rows: deque[_Counted] = deque()
        self._mwh: dict[Fuel, float] = defaultdict(float)
        self._notable: dict[Fuel, datetime] = {}  # when last
        for row in first:
            self._count(row)

    def accepts(self, row: _Counted) -> bool:
        if row.total <= 0 or row.share(Fuel.UNKNOWN) > _MOST_UNKNOWN:
            return False
        if any(fuel not in row.mw for fuel, last in self._notable.items() if last > self._rows[-1].start - MEMORY):
            return False
        covered = sum(mwh for fuel, mwh in self._mwh.items() if fuel in row.mw)
        if covered < _LEAST_COVERED * sum(self._mwh.values()):
            return False
        lowest = min((usual.total for usual in self._rows if usual.total > 0), default=0.0)
        return row.total >= _LEAST_OF_LOWEST * lowest

    def add(self, row: _Counted) -> None:
        """A row that counted; those it began with are there already."""
        if row.start > self._rows[-1].start:
            self._count(row)

    def _count(self, row: _Counted) -> None:
        self._rows.append(row)
        self._weigh(row, 1)
        self._notable.update((fuel, row.start) for fuel in row.mw if row.share(fuel) >= _NOTABLE_SHARE)
        while self._rows[0].start <= row.start - MEMORY:
            self._weigh(self._rows.popleft(), -1)

    def _weigh(self, row: _Counted, sign: int) -> None:
        for fuel, mw in row.mw.items():
            self._mwh[fuel] += sign * mw * row.hours
