"""California ISO's outlook pages, without a key: five minutes each, direct emissions of what serves its load.

Intensity is 1000 x (the sum of the CO2 columns, in t/h, of ``co2.csv``) / (``Current demand``, in MW, of
``netdemand.csv``). Imports are among the emissions, and what is exported is taken off them, so it is the intensity of
consumption. At noon in spring exports can take off more than there was: such a sum is no intensity, and a gap. The
files have no date; a ``current`` one that is still yesterday's is not taken for today's.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING

from providers.base import (
    BadRequest,
    Boundary,
    Capabilities,
    IntensityPoint,
    Kind,
    NoData,
    ProviderError,
    SchemaError,
    Scope,
    Series,
    Signal,
    Transient,
)
from providers.caiso_day import CLOCK, Cells, Table, parse
from providers.options import Options, web_address
from providers.reading import check_interval, ends, gather, intensity, within

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.reply import Reply
    from providers.session import Session

BASE_URL = "https://www.caiso.com/outlook"
_ZONES = ("CAISO", "CISO", "US-CAL-CISO")
_STEP = timedelta(minutes=5)
_AHEAD = timedelta(minutes=15)  # rows later than that are of a file of another day
_MOST_DAYS = 8
_SETTLED = timedelta(hours=6)
_KEEP_S, _KEEP_FRESH_S = 6 * 3600.0, 900.0
_LEAST_MW, _MOST_MW = 1000.0, 200_000.0
_GAS, _IMPORTS = "natural gas co2", "imports co2"
_DEMANDS = ("current demand", "demand")
_log = logging.getLogger(__name__)


class Caiso:
    """It has no options."""

    name = "caiso"
    capabilities = Capabilities(observed=True, forecast=False, step_s=300.0, poll_s=300.0)

    def __init__(
        self,
        *,
        zone: str,
        options: Mapping[str, object],
        token: Secret | None = None,  # noqa: ARG002 - the signature that all providers share
        base_url: str | None,
        session: Session,
        now: Callable[[], datetime],
    ) -> None:
        if zone not in _ZONES:
            raise BadRequest(f"caiso knows California ISO alone; zone {zone!r} must be one of {', '.join(_ZONES)}")
        self.zone = zone
        self._session, self._now = session, now
        self._root = web_address(self.name, base_url, BASE_URL)
        Options(self.name, options).finish()
        self._past: dict[date, tuple[float, list[IntensityPoint]]] = {}  # with when it is to be read again
        self._current: dict[str, tuple[date, str]] = {}

    def observe(self, start: datetime, end: datetime) -> Series:
        """The last eight days of the range at most. Of them one that is over and fails costs itself alone."""
        check_interval(start, end)
        now = self._now()
        if start > now:
            return Series()
        first, last, today = (at.astimezone(CLOCK).date() for at in (start, min(end, now), now))
        points: list[IntensityPoint] = []
        failure: ProviderError | None = None
        for day in _newest(first, last):
            try:
                points += self._joined(day, "current") if day == today else self._gone_by(day)
            except ProviderError as error:
                if day == today and not isinstance(error, NoData):
                    raise
                failure = failure or error
                _log.debug("%s: %s", self._label, error)
        if failure is not None and not points:
            raise failure
        return within((point for point in points if point.start <= now), start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        """It has none of emissions."""
        check_interval(start, end)
        return Series()

    def close(self) -> None:
        """The session is the caller's."""

    def _gone_by(self, day: date) -> list[IntensityPoint]:
        """Kept for some hours, or for minutes where it has only just ended and may not be complete."""
        until, points = self._past.get(day, (float("-inf"), []))
        if self._session.monotonic() < until:
            return points
        points = self._joined(day, f"history/{day:%Y%m%d}")
        ended = datetime.combine(day + timedelta(days=1), time(0), CLOCK)
        keep_s = _KEEP_S if self._now() - ended > _SETTLED else _KEEP_FRESH_S
        self._past[day] = (self._session.monotonic() + keep_s, points)
        for old in sorted(self._past)[: -2 * _MOST_DAYS]:
            del self._past[old]
        return points

    def _joined(self, day: date, folder: str) -> list[IntensityPoint]:
        """Rows that both tables have."""
        emitted = _emissions(self._table(folder, "co2", day), day, self._now())
        demand = _demand(self._table(folder, "netdemand", day), day, self._now())
        if max([*emitted, *demand], default=self._now()) > self._now() + _AHEAD:
            raise NoData(f"{self._label}: {folder} has rows of times to come, so it is not of {day.isoformat()}")
        until = ends(list(emitted), _STEP)
        rows = [(at, until[at], 1000.0 * tonnes / demand[at]) for at, tonnes in emitted.items() if at in demand]
        points = gather(rows, self._point, where=self._label)
        if not points:
            raise NoData(f"{self._label} has published nothing in {folder}")
        return points

    def _table(self, folder: str, name: str, day: date) -> Table:
        """The ``current`` one of a new day must have changed since the day before."""
        current = folder == "current"
        judge = self._judge if current else self._judge_past
        text = self._session.get_text(f"{self._root}/{folder}/{name}.csv", judge=judge)
        if current:
            of, before = self._current.get(name, (day, ""))
            if of < day and text == before:
                raise NoData(f"{self._label}: {folder}/{name}.csv is still that of {of.isoformat()}")
            self._current[name] = (day, text)
        return parse(text, f"{self._label}: {folder}/{name}.csv")

    def _point(self, row: tuple[datetime, datetime, float]) -> IntensityPoint | None:
        start, end, value = row
        grams = intensity(value, f"emissions over demand at {start.isoformat()}") if value >= 0 else None
        if grams is None:
            return None
        return IntensityPoint(
            zone=self.zone,
            start=start,
            end=end,
            g_per_kwh=grams,
            kind=Kind.MEASURED,
            signal=Signal.AVERAGE,
            scope=Scope.DIRECT,
            boundary=Boundary.CONSUMPTION,
            source=self.name,
            fetched_at=self._now(),
            method="CO2 over current demand",
        )

    def _judge(self, reply: Reply) -> ProviderError | None:
        """It has no keys: a refusal is a gateway's, which may let in nobody from outside of the United States."""
        if reply.status in {401, 403}:
            return Transient(f"{self._label}: refused with {reply.status}; from here it may not be reached")
        return None

    def _judge_past(self, reply: Reply) -> ProviderError | None:
        if reply.status == 404:  # noqa: PLR2004 - HTTP's own numbers are its names
            return NoData(f"{self._label} has no {reply.url}")
        return self._judge(reply)

    @property
    def _label(self) -> str:
        return f"{self.name} {self.zone}"


def _newest(first: date, last: date) -> Iterator[date]:
    for back in range(min((last - first).days + 1, _MOST_DAYS)):
        yield last - timedelta(days=back)


def _emissions(table: Table, day: date, now: datetime) -> dict[datetime, float]:
    """Tonnes per hour, of rows in which each source is that reports at all that day."""
    named = [name for name in table.columns if name.endswith("co2") and not name.startswith("total")]
    if missing := [name for name in (_GAS, _IMPORTS) if name not in named]:
        raise SchemaError(f"caiso: co2.csv has no column {', '.join(missing)}")
    filled = table.filled()
    reporting = [name for name in named if name in filled or name in {_GAS, _IMPORTS}]
    rows = {at: [_tonnes(cells, name) for name in reporting] for at, cells in table.at(day, now).items()}
    return {at: math.fsum(row) for at, row in rows.items() if not any(map(math.isnan, row))}


def _tonnes(cells: Cells, name: str) -> float:
    """NaN where it is missing or cannot be: imports alone may be negative, and without gas this grid does not run."""
    value = cells[name]
    if value is None or (value < 0 and name != _IMPORTS) or (value == 0 and name == _GAS):
        return math.nan
    return value


def _demand(table: Table, day: date, now: datetime) -> dict[datetime, float]:
    """Megawatts, as far as such a grid can have them: 0 has stood for nothing known."""
    name = next((name for name in _DEMANDS if name in table.columns), None)
    if name is None:
        raise SchemaError(f"caiso: netdemand.csv has no column {_DEMANDS[0]}")
    loads = {at: cells[name] for at, cells in table.at(day, now).items()}
    return {at: load for at, load in loads.items() if load is not None and _LEAST_MW <= load <= _MOST_MW}
