"""RTE's éCO2mix (France) by the French networks' open data portal: keyless, direct emissions of what is generated.

Imports are not counted. The data set of real time has quarters of an hour and keeps some weeks; its rows for the rest
of the day are there already, with nulls. What is older is in the consolidated one, by half hours. No forecast.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

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
from providers.options import Options, web_address
from providers.reading import check_interval, ends, gather, instant, intensity, record, records, shown, within

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.reply import Reply
    from providers.session import Session

BASE_URL = "https://odre.opendatasoft.com"
_PATH = "api/explore/v2.1/catalog/datasets"
_STEPS = {"eco2mix-national-tr": timedelta(minutes=15), "eco2mix-national-cons-def": timedelta(minutes=30)}
_REAL_TIME = next(iter(_STEPS))
_COLUMNS = ("perimetre", "nature", "date_heure", "taux_co2")
_LONGEST_RANGE = timedelta(days=90)
_PLACE = "France"


class Rte:
    """Option: ``dataset``, by default that of real time."""

    name = "rte"

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
        if not re.match(r"FR\b", zone):
            raise BadRequest(f"rte knows France alone; zone {zone!r} must be FR or start with FR-")
        self.zone = zone
        self._session, self._now = session, now
        given = Options(self.name, options)
        dataset = given.text("dataset", _REAL_TIME, choices=tuple(_STEPS))
        given.finish()
        # Its pages have 100 rows, which is a day; an export has them all.
        self._url = f"{web_address(self.name, base_url, BASE_URL)}/{_PATH}/{dataset}/exports/json"
        self._step = _STEPS[dataset]

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(observed=True, forecast=False, step_s=self._step / timedelta(seconds=1), poll_s=900.0)

    def observe(self, start: datetime, end: datetime) -> Series:
        check_interval(start, end)
        now = self._now()
        if start > now:
            return Series()
        rows = [row for span in _ranges(start, min(end, now), self._step) for row in self._rows(*span)]
        return within((point for point in self._points(rows) if point.start <= now), start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        """It has none: its ``prevision`` columns are of consumption."""
        check_interval(start, end)
        return Series()

    def close(self) -> None:
        """The session is the caller's."""

    def _rows(self, first: datetime, last: datetime) -> Sequence[Any]:
        when = f"date_heure >= date'{_stamp(first)}' and date_heure < date'{_stamp(last)}'"
        params = {
            "select": ",".join(_COLUMNS),
            "where": f"{when} and taux_co2 is not null",
            "order_by": "date_heure",
            "timezone": "UTC",
        }
        reply = self._session.get_json(self._url, params=params, judge=_judge)
        return [] if reply == {} else records(reply, f"{self.name}: the reply")

    def _points(self, rows: Sequence[Any]) -> list[IntensityPoint]:
        if not rows:
            raise NoData(f"{self.name} has published nothing for this time")
        starts = [at for row in rows if (at := _start(row)) is not None]
        until = ends(starts, self._step)
        return gather(rows, lambda row: self._point(record(row, "a row"), until), where=self.name)

    def _point(self, row: Mapping[str, Any], until: Mapping[datetime, datetime]) -> IntensityPoint | None:
        start = instant(row.get("date_heure"), "date_heure")
        if row.get("perimetre", _PLACE) != _PLACE:
            raise SchemaError(f"{self.name} was asked for {_PLACE} and answered with {shown(row['perimetre'])}")
        if "taux_co2" not in row:
            raise SchemaError("taux_co2 is missing")
        grams = intensity(row["taux_co2"], f"taux_co2 at {start.isoformat()}")
        if grams is None:
            return None
        return IntensityPoint(
            zone=self.zone,
            start=start,
            end=until[start],
            g_per_kwh=grams,
            kind=Kind.MEASURED,
            signal=Signal.AVERAGE,
            scope=Scope.DIRECT,
            boundary=Boundary.PRODUCTION,
            source=self.name,
            fetched_at=self._now(),
            method=_word(row.get("nature")),
        )


def _ranges(start: datetime, end: datetime, step: timedelta) -> Iterator[tuple[datetime, datetime]]:
    """``[start, end)`` from hour to hour, in pieces that one request may ask for."""
    first, last = start.replace(minute=0, second=0, microsecond=0), end + step
    while first < end:
        piece = min(first + _LONGEST_RANGE, last)
        yield first, piece
        first = piece


def _judge(reply: Reply) -> ProviderError | None:
    """It needs no key, so what refuses is a gateway."""
    if reply.status in {401, 403}:
        return Transient(f"rte: refused with {reply.status} {reply.message}".rstrip())
    return None


def _start(row: Any) -> datetime | None:
    """Of a row with a value: in half hourly data every other row is empty, and ends nothing."""
    try:
        if row["taux_co2"] is None:
            return None
        return instant(row["date_heure"], "date_heure")
    except (SchemaError, KeyError, TypeError):
        return None


def _word(value: object) -> str:
    """How final the figure is, in the source's own words."""
    return " ".join(value.split())[:60] if isinstance(value, str) else ""


def _stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
