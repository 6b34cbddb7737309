"""The zones of ENTSO-E's Transparency Platform: names and their usual spellings, EIC codes, and since and until when.

Generation and day-ahead prices are published by bidding zone, which is seldom the country: Germany is half of DE_LU.
The last character of an EIC checks the fifteen before it (EIC reference manual, "check character").
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from providers.base import BadRequest
from providers.options import did_you_mean

_EIC = {
    "AL": "10YAL-KESH-----5",
    "AT": "10YAT-APG------L",
    "BA": "10YBA-JPCC-----D",
    "BE": "10YBE----------2",
    "BG": "10YCA-BULGARIA-R",
    "CH": "10YCH-SWISSGRIDZ",
    "CY": "10YCY-1001A0003J",
    "CZ": "10YCZ-CEPS-----N",
    "DE_AT_LU": "10Y1001A1001A63L",
    "DE_LU": "10Y1001A1001A82H",
    "DK_1": "10YDK-1--------W",
    "DK_2": "10YDK-2--------M",
    "EE": "10Y1001A1001A39I",
    "ES": "10YES-REE------0",
    "FI": "10YFI-1--------U",
    "FR": "10YFR-RTE------C",
    "GB": "10YGB----------A",
    "GR": "10YGR-HTSO-----Y",
    "HR": "10YHR-HEP------M",
    "HU": "10YHU-MAVIR----U",
    "IE_SEM": "10Y1001A1001A59C",
    "IT_CALA": "10Y1001C--00096J",
    "IT_CNOR": "10Y1001A1001A70O",
    "IT_CSUD": "10Y1001A1001A71M",
    "IT_NORD": "10Y1001A1001A73I",
    "IT_ROSN": "10Y1001A1001A77A",
    "IT_SARD": "10Y1001A1001A74G",
    "IT_SICI": "10Y1001A1001A75E",
    "IT_SUD": "10Y1001A1001A788",
    "LT": "10YLT-1001A0008Q",
    "LV": "10YLV-1001A00074",
    "MD": "10Y1001A1001A990",
    "ME": "10YCS-CG-TSO---S",
    "MK": "10YMK-MEPSO----8",
    "NL": "10YNL----------L",
    "NO_1": "10YNO-1--------2",
    "NO_2": "10YNO-2--------T",
    "NO_3": "10YNO-3--------J",
    "NO_4": "10YNO-4--------9",
    "NO_5": "10Y1001A1001A48H",
    "PL": "10YPL-AREA-----S",
    "PT": "10YPT-REN------W",
    "RO": "10YRO-TEL------P",
    "RS": "10YCS-SERBIATSOV",
    "SE_1": "10Y1001A1001A44P",
    "SE_2": "10Y1001A1001A45N",
    "SE_3": "10Y1001A1001A46L",
    "SE_4": "10Y1001A1001A47J",
    "SI": "10YSI-ELES-----O",
    "SK": "10YSK-SEPS-----K",
    "XK": "10Y1001C--00100H",
}
_ALIASES = {
    "IE(SEM)": "IE_SEM",
    "SEM": "IE_SEM",
    "IT_NO": "IT_NORD",
    "IT_NORTH": "IT_NORD",
    "IT_CNO": "IT_CNOR",
    "IT_CSO": "IT_CSUD",
    "IT_SO": "IT_SUD",
    "IT_SAR": "IT_SARD",
    "IT_SIC": "IT_SICI",
}
_COUNTRIES = {
    "DE": "'DE_LU'",
    "DK": "'DK_1' or 'DK_2'",
    "IE": "'IE_SEM'",
    "IT": "'IT_NORD', 'IT_CNOR', 'IT_CSUD', 'IT_SUD', 'IT_CALA', 'IT_SICI' or 'IT_SARD'",
    "LU": "'DE_LU'",
    "NO": "'NO_1' to 'NO_5'",
    "SE": "'SE_1' to 'SE_4'",
    "UK": "'GB'",
}
_NUMBERED = re.compile(r"(?:(SE|NO|DK)_)?(SE|NO|DK)_?(\d)")
_FORM = re.compile(r"[0-9A-Z-]{15}[0-9A-Z]")
_BREXIT = "nothing of Great Britain has been published since; the provider neso has it"


@dataclass(frozen=True, slots=True)
class Area:
    """A zone by its name here, with the time ``[since, until)`` that it has data for; ``after`` is what to do then."""

    name: str
    eic: str
    since: datetime | None = None
    until: datetime | None = None
    after: str = ""

    def clip(self, start: datetime, end: datetime) -> tuple[datetime, datetime]:
        """What of ``[start, end)`` the zone existed in; ``BadRequest`` if nothing."""
        first, last = max(start, self.since or start), min(end, self.until or end)
        if self.until is not None and start >= self.until:
            raise BadRequest(f"entsoe: zone {self.name} ended at {self.until:%Y-%m-%d}: {self.after}")
        if self.since is not None and end <= self.since:
            raise BadRequest(f"entsoe: zone {self.name} began at {self.since:%Y-%m-%d}")
        return first, last


_DATED = {
    "DE_AT_LU": Area("DE_AT_LU", "", until=datetime(2018, 9, 30, 22, tzinfo=UTC), after="take DE_LU or AT"),
    "DE_LU": Area("DE_LU", "", since=datetime(2018, 9, 30, 22, tzinfo=UTC)),
    "GB": Area("GB", "", until=datetime(2021, 7, 1, tzinfo=UTC), after=_BREXIT),
    "IT_CALA": Area("IT_CALA", "", since=datetime(2020, 12, 31, 23, tzinfo=UTC)),
    "IT_ROSN": Area("IT_ROSN", "", until=datetime(2020, 12, 31, 23, tzinfo=UTC), after="take IT_CALA"),
}


def area(zone: str) -> Area:
    """By name in any usual spelling (``DK_2``, ``DK2``, ``DK-DK2``) or by EIC. ``BadRequest`` says what was meant."""
    if _FORM.fullmatch(zone):
        return _by_code(zone)
    spelt = zone.strip().upper().replace("-", "_")
    numbered = _NUMBERED.fullmatch(spelt)
    if numbered and numbered[1] in {None, numbered[2]}:
        spelt = f"{numbered[2]}_{numbered[3]}"
    name = _ALIASES.get(spelt, spelt)
    if name in _COUNTRIES:
        raise BadRequest(f"entsoe: {zone} is a country, not a bidding zone (did you mean {_COUNTRIES[name]}?)")
    if name not in _EIC:
        raise BadRequest(f"entsoe: there is no zone {zone!r}{did_you_mean(spelt, _EIC)}; an EIC code will do as well")
    return _named(name)


def _by_code(eic: str) -> Area:
    if _check_character(eic[:15]) != eic[15]:
        raise BadRequest(f"entsoe: zone {eic!r} looks like an EIC code, but its last character does not fit the others")
    name = next((name for name, known in _EIC.items() if known == eic), "")
    return _named(name) if name else Area(eic, eic)


def _named(name: str) -> Area:
    return replace(_DATED.get(name, Area(name, "")), eic=_EIC[name])


def _check_character(fifteen: str) -> str:
    """Values 0-9, A-Z and - as 0 to 36, weighted 16 down to 2. Codes that would end in ``-`` are not given out."""
    values = (36 if character == "-" else int(character, 36) for character in fifteen)
    remainder = 36 - (sum(value * weight for value, weight in zip(values, range(16, 1, -1), strict=True)) - 1) % 37
    return "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[remainder : remainder + 1]
