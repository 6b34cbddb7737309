"""SMARD, the market data of Germany's network agency: generation by fuel, keyless, also of its zones and neighbours.

There is no intensity in it; we compute one (see providers.mix). An index names the weeks, which begin on Monday in
Berlin and so have 167 or 169 hours when the clocks change; each fuel has a file for each week. A stamp is the start of
its interval in milliseconds, a figure MWh per interval, null where nothing is published yet. CC BY 4.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from providers.base import (
    BadRequest,
    Capabilities,
    NoData,
    ProviderError,
    SchemaError,
    Series,
    Transient,
)
from providers.emission_factors import Fuel
from providers.mix import MEMORY, Cell, collect, intensities, megawatts, scope_option, usable
from providers.options import Options, web_address
from providers.reading import check_interval, gather, record, records, shown, within
from providers.reply import Reply

if TYPE_CHECKING:
    from providers.redact import Secret
    from providers.session import Session

BASE_URL = "https://www.smard.de/app/chart_data"
_STEPS = {"hour": timedelta(hours=1), "quarterhour": timedelta(minutes=15)}
_REGIONS = ("DE", "50Hertz", "Amprion", "TenneT", "TransnetBW", "AT", "LU")
_LONGEST_WEEK = timedelta(days=7, hours=1)
_MOST_WEEKS = 6
_INDEXED = 4071  # every region has gas
_NO_MORE_NUCLEAR = datetime(2023, 4, 16, tzinfo=UTC)
_NUCLEAR = 1224
_FUELS: Mapping[int, Fuel] = MappingProxyType(
    {
        _INDEXED: Fuel.GAS,
        1223: Fuel.LIGNITE,
        _NUCLEAR: Fuel.NUCLEAR,
        1225: Fuel.WIND_OFFSHORE,
        1226: Fuel.HYDRO,
        1227: Fuel.OTHER,
        1228: Fuel.OTHER_RENEWABLE,
        4066: Fuel.BIOMASS,
        4067: Fuel.WIND,
        4068: Fuel.SOLAR,
        4069: Fuel.COAL,
    }
)

# What a region never is without: where files of it lack, or hold nulls for days, what is left would pass for the whole.
_BOTH = frozenset({Fuel.WIND, Fuel.SOLAR})
_ALWAYS: Mapping[str, frozenset[Fuel]] = MappingProxyType(
    {
        "DE": _BOTH | {Fuel.GAS, Fuel.COAL, Fuel.LIGNITE, Fuel.BIOMASS, Fuel.HYDRO},
        "50Hertz": _BOTH | {Fuel.GAS, Fuel.LIGNITE},
        "Amprion": _BOTH | {Fuel.GAS, Fuel.COAL, Fuel.LIGNITE},
        "TenneT": _BOTH | {Fuel.GAS, Fuel.HYDRO},
        "TransnetBW": _BOTH | {Fuel.COAL, Fuel.HYDRO},
        "AT": _BOTH | {Fuel.GAS, Fuel.HYDRO},
        "LU": _BOTH,
    }
)


class Smard:
    """Options: ``region`` (else the zone's country), ``resolution`` (hour, quarterhour) and ``scope``."""

    name = "smard"

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
        self.zone = zone
        self._session, self._now = session, now
        self._root = web_address(self.name, base_url, BASE_URL)
        given = Options(self.name, options)
        self._region = given.text("region", zone.partition("-")[0], choices=_REGIONS)
        self._resolution = given.text("resolution", "hour", choices=tuple(_STEPS))
        self._step = _STEPS[self._resolution]
        self._scope = scope_option(given)
        given.finish()
        if self._region not in _REGIONS:
            raise BadRequest(f"{self.name}: begin the zone with DE, AT or LU, or set region to {', '.join(_REGIONS)}")

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(observed=True, forecast=False, step_s=self._step / timedelta(seconds=1), poll_s=3600.0)

    def observe(self, start: datetime, end: datetime) -> Series:
        check_interval(start, end)
        now = self._now()
        if start > now:
            return Series()
        weeks = self._weeks(start - MEMORY, min(end, now))
        rows = collect(cell for week in weeks for cell in self._week(week))
        whole = (row for row in rows if _ALWAYS[self._region] <= row.mw.keys())
        points = intensities(
            usable(whole, start, now), zone=self.zone, scope=self._scope, source=self.name, fetched_at=now
        )
        if not points:
            raise NoData(f"{self._label}: too little is known of the mix from {start.isoformat()} on")
        return within(points, start, end)

    def forecast(self, start: datetime, end: datetime) -> Series:
        """It makes none of the mix."""
        check_interval(start, end)
        return Series()

    def close(self) -> None:
        """The session is the caller's."""

    def _weeks(self, start: datetime, end: datetime) -> list[datetime]:
        """The begins of the weeks that overlap ``[start, end]``."""
        reply = self._session.get_json(f"{self._folder(_INDEXED)}/index_{self._resolution}.json", judge=self._judge)
        stamps = records(record(reply, f"{self._label}: the index").get("timestamps"), f"{self._label}: timestamps")
        begins = sorted({_instant(stamp, "a timestamp of the index") for stamp in stamps})
        ends = {here: min(here + _LONGEST_WEEK, after) for here, after in pairwise(begins)}
        found = [at for at in begins if at <= end and ends.get(at, at + _LONGEST_WEEK) > start]
        if not found:
            raise NoData(f"{self._label} has nothing for {start.isoformat()} to {end.isoformat()}")
        if len(found) > _MOST_WEEKS:
            raise BadRequest(f"{self._label}: {len(found)} weeks are too many at once; ask for at most {_MOST_WEEKS}")
        return found

    def _week(self, begin: datetime) -> Iterator[Cell]:
        """Of a fuel that a region does not have there is no file."""
        for code, fuel in _FUELS.items():
            if code == _NUCLEAR and begin > _NO_MORE_NUCLEAR:
                continue
            try:
                yield from self._fuel(code, fuel, begin)
            except NoData:
                continue

    def _fuel(self, code: int, fuel: Fuel, begin: datetime) -> list[Cell]:
        name = f"{code}_{self._region}_{self._resolution}_{round(begin.timestamp() * 1000)}.json"
        reply = self._session.get_json(f"{self._folder(code)}/{name}", judge=self._judge_file)
        series = records(record(reply, f"{self._label}: {name}").get("series"), f"{self._label}: series of {name}")
        return gather(series, lambda pair: self._cell(code, fuel, begin, pair), where=f"{self._label} {fuel}")

    def _cell(self, code: int, fuel: Fuel, begin: datetime, pair: Any) -> Cell | None:
        if not isinstance(pair, list) or len(pair) != 2:  # noqa: PLR2004 - a pair
            raise SchemaError(f"{shown(pair)} is not a stamp and a figure")
        start = _instant(pair[0], "a stamp")
        if not begin <= start < begin + _LONGEST_WEEK or (start - begin) % self._step:
            raise SchemaError(f"the stamp {start.isoformat()} is no interval of the week from {begin.isoformat()}")
        mwh = megawatts(pair[1], f"{fuel} at {start.isoformat()}")
        hours = self._step / timedelta(hours=1)
        return None if mwh is None else Cell(start, start + self._step, str(code), fuel, mwh / hours)

    def _judge(self, reply: Reply) -> ProviderError | None:
        """It has no keys: a refusal is a gateway's."""
        if reply.status in {401, 403}:
            return Transient(f"{self._label}: refused with {reply.status} {reply.message}".rstrip())
        return None

    def _judge_file(self, reply: Reply) -> ProviderError | None:
        if reply.status == 404:  # noqa: PLR2004 - HTTP's own numbers are its names
            return NoData(f"{reply.url} is not there")
        return self._judge(reply)

    def _folder(self, code: int) -> str:
        return f"{self._root}/{code}/{self._region}"

    @property
    def _label(self) -> str:
        return f"{self.name} {self._region}"


def _instant(stamp: object, what: str) -> datetime:
    """Of milliseconds since 1970."""
    if isinstance(stamp, bool) or not isinstance(stamp, int) or not 0 <= stamp < 10**14:
        raise SchemaError(f"{what} is {shown(stamp)}, not milliseconds since 1970")
    return datetime.fromtimestamp(stamp / 1000, UTC)
