"""US EIA, API v2: generation by fuel of the balancing authorities of the United States, hourly, by a free key.

There is no intensity in it; we compute one (see providers.mix). A period is named by its **end**, in UTC. Figures come
an hour to a day late, some fuels later than others, and are revised for days. An unknown respondent has no rows and no
error. The key can go only into the query. Public domain; the EIA asks to be named.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from providers.base import (
    AuthError,
    BadRequest,
    Capabilities,
    NoData,
    ProviderError,
    RateLimited,
    SchemaError,
    Series,
    Transient,
)
from providers.emission_factors import Fuel
from providers.mix import MEMORY, Cell, collect, fuel_of, intensities, megawatts, scope_option, usable
from providers.options import Options, web_address
from providers.reading import check_interval, gather, record, records, shown, within
from providers.reply import Reply

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

BASE_URL = "https://api.eia.gov"
_PATH = "/v2/electricity/rto/fuel-type-data/data/"
_HOUR = timedelta(hours=1)
_PAGE = 5000
_MOST_PAGES = 24  # a year of a respondent with a dozen fuels
_PERIOD = re.compile(r"\d{4}-\d\d-\d\dT\d\d")
_FUELS: Mapping[str, Fuel] = MappingProxyType(
    {
        "BAT": Fuel.BATTERY,
        "BM": Fuel.BIOMASS,
        "COL": Fuel.COAL,
        "GEO": Fuel.GEOTHERMAL,
        "NG": Fuel.GAS,
        "NUC": Fuel.NUCLEAR,
        "OES": Fuel.BATTERY,
        "OIL": Fuel.OIL,
        "OTH": Fuel.OTHER,
        "PS": Fuel.PUMPED_STORAGE,
        "SNB": Fuel.SOLAR,  # with a battery beside it, as WNB has
        "SUN": Fuel.SOLAR,
        "UES": Fuel.BATTERY,
        "UNK": Fuel.UNKNOWN,
        "WAT": Fuel.HYDRO,
        "WNB": Fuel.WIND,
        "WND": Fuel.WIND,
    }
)
_log = logging.getLogger(__name__)


class Eia:
    """Options: ``respondent`` (CISO, ERCO, PJM...; else the last part of the zone) and ``scope``."""

    name = "eia"
    capabilities = Capabilities(observed=True, forecast=False, step_s=3600.0, poll_s=1800.0, needs_key=True)

    def __init__(
        self,
        *,
        zone: str,
        options: Mapping[str, object],
        token: Secret | None,
        base_url: str | None,
        session: Session,
        now: Callable[[], datetime],
    ) -> None:
        self.zone = zone
        self._token, self._session, self._now = token, session, now
        self._root = web_address(self.name, base_url, BASE_URL)
        given = Options(self.name, options)
        self._respondent = given.text("respondent") or zone.rpartition("-")[2]
        self._scope = scope_option(given)
        given.finish()
        if not re.fullmatch(r"[A-Z0-9]{2,5}", self._respondent):
            raise BadRequest(
                f"{self.name}: the respondent must be a code like CISO, not {self._respondent!r}; "
                "end the zone with it (US-CAL-CISO) or set the option respondent"
            )
        self._accepted = False  # the key has worked since it was last refused

    def observe(self, start: datetime, end: datetime) -> Series:
        check_interval(start, end)
        now = self._now()
        if start > now:
            return Series()
        cells = gather(self._rows(start - MEMORY, min(end, now)), self._cell, where=self._label)
        points = intensities(
            usable(collect(cells), start, now), zone=self.zone, scope=self._scope, source=self.name, fetched_at=now
        )
        if not points:
            raise NoData(f"{self._label}: too little is known of the mix of {_period(start)} to {_period(end)}")
        return within(points, start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        """It makes none of the mix."""
        check_interval(start, end)
        return Series()

    def close(self) -> None:
        """The session is the caller's."""

    def _rows(self, start: datetime, end: datetime) -> Iterator[Any]:
        """All pages. ``start`` and ``end`` of a query are both inclusive, and name periods by their ends."""
        span = {"start": _period(start + _HOUR), "end": _period(end + _HOUR)}
        offset = 0
        for _ in range(_MOST_PAGES):
            rows, total = self._page(span, offset)
            yield from rows
            offset += len(rows)
            if offset >= total:
                return
        raise BadRequest(f"{self._label}: {total} rows are too many at once; ask for a shorter interval")

    def _page(self, span: Mapping[str, str], offset: int) -> tuple[list[Any], int]:
        reply = record(self._ask(span, offset).get("response"), f"{self._label}: response")
        rows, total = records(reply.get("data"), f"{self._label}: data"), str(reply.get("total"))
        if reply.get("warnings"):
            _log.info("%s: the reply has warnings, so it may not be whole", self._label)
        if not re.fullmatch(r"\d{1,9}", total):
            raise SchemaError(f"{self._label}: total is {shown(total)}, not a number of rows")
        if not rows and offset:
            raise Transient(f"{self._label}: of {total} rows those from {offset} on were not sent")
        if not rows:
            raise NoData(f"{self._label} has nothing for {span['start']} to {span['end']}, or is no respondent")
        return list(rows), int(total)

    def _ask(self, span: Mapping[str, str], offset: int) -> Mapping[str, Any]:
        if not self._token:
            raise AuthError(f"{self.name} needs a key: set the environment variable that token_env names")
        params: dict[str, str | Secret] = {
            "api_key": self._token,
            "frequency": "hourly",
            "data[]": "value",
            "facets[respondent][]": self._respondent,
            **span,
            "sort[0][column]": "period",
            "sort[0][direction]": "asc",
            "sort[1][column]": "fueltype",  # else rows of one period may change places between two pages
            "sort[1][direction]": "asc",
            "offset": str(offset),
            "length": str(_PAGE),
        }
        reply = self._session.get_json(self._root + _PATH, params=params, judge=self._judge)
        self._accepted = True
        return record(reply, f"{self._label}: the reply")

    def _cell(self, row: Any) -> Cell | None:
        row = record(row, "a row")
        if row.get("respondent") != self._respondent:
            raise SchemaError(f"asked for {self._respondent}, it sent {shown(row.get('respondent'))}")
        unit, code, period = row.get("value-units"), row.get("fueltype"), row.get("period")
        if unit != "megawatthours":
            raise SchemaError(f"value-units is {shown(unit)}, not megawatthours")
        if not isinstance(code, str) or not isinstance(period, str) or not _PERIOD.fullmatch(period):
            raise SchemaError(f"fueltype {shown(code)}, period {shown(period)}: not a code and an hour in UTC")
        mw = megawatts(row.get("value"), f"{code} at {period}")
        until = datetime.fromisoformat(period).replace(tzinfo=UTC)
        return None if mw is None else Cell(until - _HOUR, until, code, fuel_of(code, _FUELS, self.name), mw)

    def _judge(self, reply: Reply) -> ProviderError | None:
        """An ``error`` in the body counts, whatever the status: they have disagreed."""
        error = reply.data.get("error") if isinstance(reply.data, dict) else None
        if not error:
            return None
        said = f"{self._label}: {reply.status} {reply.message}".rstrip()
        code = str(error.get("code") if isinstance(error, dict) else reply.data.get("code"))
        if code.startswith("API_KEY"):
            return AuthError(f"{said}: check the key")
        if "RATE" in code or (reply.status == 403 and self._accepted):  # noqa: PLR2004 - HTTP's own numbers
            self._accepted = False
            return RateLimited(f"{said}: a key that asks too often is suspended", retry_after_s=reply.retry_after_s)
        return BadRequest(said) if code in {"400", "404"} else None

    @property
    def _label(self) -> str:
        return f"{self.name} {self._respondent}"


def _period(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H}"
