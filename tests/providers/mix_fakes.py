"""What healthy sources of generation mixes answer around a given time: shapes as documented, figures invented."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta, timezone
from xml.sax.saxutils import escape

from grid_server import Answer, Request, as_json

HOUR = timedelta(hours=1)
EST = timezone(timedelta(hours=-5))
EIA_MW = {"NG": 8000, "COL": 20, "NUC": 2260, "WAT": 2400, "WND": 2500, "SUN": 0, "OIL": 40, "OTH": 900, "BAT": -600}
IESO_MW = {"NUCLEAR": 9600, "GAS": 2000, "HYDRO": 4200, "WIND": 1500, "SOLAR": 0, "BIOFUEL": 30, "OTHER": 0}
SMARD_MWH = {
    1223: 9000.0,
    1225: 2500.0,
    1226: 1800.0,
    1227: 1300.0,
    1228: 120.0,
    4066: 4300.0,
    4067: 11000.0,
    4068: 0.0,
    4069: 5000.0,
    4071: 8000.0,
}


def sun(at: datetime) -> int:
    """Between 14 and 23 UTC, so that nights have none."""
    return max(0, 3000 - 600 * abs(at.hour - 18))


# EIA


def eia(now: Callable[[], datetime], *, delay: timedelta = 2 * HOUR, page: int = 5000) -> Callable[[Request], Answer]:
    """All fuels of a respondent up to ``delay`` ago, in pages, as its query asks: periods are ends, both inclusive."""

    def answer(request: Request) -> Answer:
        query = request.query
        first, last = (datetime.fromisoformat(query[name]).replace(tzinfo=UTC) for name in ("start", "end"))
        last = min(last, now() - delay)
        periods = [first + n * HOUR for n in range(max(0, (last - first) // HOUR + 1))]
        rows = [row for period in periods for row in eia_hour(period, query["facets[respondent][]"])]
        offset, length = int(query["offset"]), min(page, int(query["length"]))
        return as_json(eia_reply(rows[offset : offset + length], len(rows)))

    return answer


def eia_hour(period: datetime, respondent: str = "CISO", **changed: object) -> list[dict]:
    mw = {**EIA_MW, "SUN": sun(period - HOUR), **changed}
    return [eia_row(period, fuel, value, respondent) for fuel, value in mw.items()]


def eia_row(period: datetime, fuel: str, value: object, respondent: str = "CISO") -> dict:
    return {
        "period": f"{period:%Y-%m-%dT%H}",
        "respondent": respondent,
        "respondent-name": "A balancing authority",
        "fueltype": fuel,
        "type-name": "A fuel",
        "value": str(value) if isinstance(value, int | float) else value,
        "value-units": "megawatthours",
    }


def eia_reply(rows: list, total: int | None = None, **more: object) -> dict:
    said = str(len(rows) if total is None else total)
    response = {"total": said, "dateFormat": 'YYYY-MM-DD"T"HH24', "frequency": "hourly", "data": rows, **more}
    return {"response": response, "request": {"command": "/v2/", "params": {}}, "apiVersion": "2.1.12"}


# IESO


def ieso(now: Callable[[], datetime]) -> Callable[[Request], Answer]:
    """Plants of any day up to the last whole hour, and the year's file up to the end of yesterday, or its last part."""

    def answer(request: Request) -> Answer:
        here = now().astimezone(EST)
        by_day = re.search(r"/GenOutputCapability/PUB_GenOutputCapability_(\d{8})\.xml$", request.path)
        if by_day:
            day = datetime.strptime(by_day[1], "%Y%m%d").replace(tzinfo=EST).date()
            hours = 24 if day < here.date() else here.hour if day == here.date() else 0
            return as_xml(ieso_plants(day, hours)) if hours else Answer(b"not found", 404, "text/plain")
        year = int(re.search(r"/GenOutputbyFuelHourly/PUB_GenOutputbyFuelHourly_(\d{4})\.xml$", request.path)[1])
        last = min(here.date() - timedelta(days=1), date(year, 12, 31))
        days = [date(year, 1, 1) + timedelta(days=n) for n in range(366)]
        return ranged(ieso_year(year, [day for day in days if day <= last and day.year == year]), request)

    return answer


def as_xml(text: str, status: int = 200) -> Answer:
    return Answer(text.encode(), status, "text/xml")


def ranged(text: str, request: Request) -> Answer:
    """The last bytes of it where that is what was asked for."""
    wanted = re.fullmatch(r"bytes=-(\d+)", request.headers.get("range", ""))
    size = len(text.encode())
    return as_xml(text[-int(wanted[1]) :], 206) if wanted and int(wanted[1]) < size else as_xml(text)


def ieso_plants(day: date, hours: int, **changed: object) -> str:
    """Two plants a fuel, which make two and one third of it. ``changed`` is MW by fuel, or None for N/A."""
    plants = []
    for fuel, mw in {**IESO_MW, **changed}.items():
        for name, share in ((f"{fuel}-A", 2), (f"{fuel}-B", 1)):
            rows = [(hour, _ieso_mw(fuel, mw, day, hour, share)) for hour in range(1, hours + 1)]
            plants.append(ieso_plant(name, fuel, rows))
    return ieso_day(day, plants)


def ieso_day(day: object, plants: Iterable[str]) -> str:
    body = f"<Date>{day}</Date><Generators>{''.join(plants)}</Generators>"
    return f'<IMODocument xmlns="http://www.theIMO.com/schema"><IMODocBody>{body}</IMODocBody></IMODocument>'


def ieso_plant(name: str, fuel: str, rows: Iterable[tuple[object, object]]) -> str:
    outputs = "".join(
        f"<Output><Hour>{hour}</Hour>{'' if mw is None else f'<EnergyMW>{mw}</EnergyMW>'}</Output>" for hour, mw in rows
    )
    best = "<AvailCapacity><Hour>1</Hour><EnergyMW>9999</EnergyMW></AvailCapacity>"
    fuel = f"<FuelType>{escape(fuel)}</FuelType>"
    parts = f"{fuel}<Outputs>{outputs}</Outputs><Capabilities>{best}</Capabilities>"
    return f"<Generator><GeneratorName>{name}</GeneratorName>{parts}</Generator>"


def ieso_year(year: int, days: Iterable[date]) -> str:
    daily = "".join(ieso_daily(day) for day in days)
    body = f"<DocBody><DeliveryYear>{year}</DeliveryYear>{daily}</DocBody>"
    head = "<DocHeader><DocTitle>Generator Output by Fuel Type Hourly Report</DocTitle></DocHeader>"
    return f'<?xml version="1.0" encoding="UTF-8"?><Document xmlns="http://www.ieso.ca/schema">{head}{body}</Document>'


def ieso_daily(day: object, hours: Iterable[object] = range(1, 25), **changed: object) -> str:
    hourly = []
    for hour in hours:
        fuels = [
            ieso_fuel(fuel, _ieso_mw(fuel, mw, day, hour, 3) if isinstance(day, date) else mw)
            for fuel, mw in {**IESO_MW, **changed}.items()
        ]
        hourly.append(f"<HourlyData><Hour>{hour}</Hour>{''.join(fuels)}</HourlyData>")
    return f"<DailyData><Day>{day}</Day>{''.join(hourly)}</DailyData>"


def ieso_fuel(fuel: str, mw: object) -> str:
    quality, output = ("-3", "") if mw is None else ("0", f"<Output>{mw}</Output>")
    value = f"<EnergyValue><OutputQuality>{quality}</OutputQuality>{output}</EnergyValue>"
    return f"<FuelTotal><Fuel>{escape(fuel)}</Fuel>{value}</FuelTotal>"


def _ieso_mw(fuel: str, mw: object, day: date, hour: int, share: int) -> object:
    if fuel == "SOLAR" and mw == 0:
        mw = sun(datetime(day.year, day.month, day.day, hour - 1, tzinfo=EST).astimezone(UTC)) / 10
    return mw if mw is None else mw * share / 3


# SMARD


def smard(now: Callable[[], datetime], *, delay: timedelta = 2 * HOUR) -> Callable[[Request], Answer]:
    """The weeks of half a year, each whole, with null for what is not yet published."""

    def answer(request: Request) -> Answer:
        code, region, name = re.search(r"/(\d+)/(\w+)/([^/]+)$", request.path).groups()
        if name in {"index_hour.json", "index_quarterhour.json"}:
            return as_json({"timestamps": [milliseconds(at) for at in smard_weeks(now())]})
        stamp = re.fullmatch(rf"{code}_{region}_(hour|quarterhour)_(\d+)\.json", name)
        if int(code) not in SMARD_MWH:
            return as_json({"message": "not found"}, 404)
        step = HOUR if stamp[1] == "hour" else HOUR / 4
        return as_json(smard_week(int(code), int(stamp[2]), step, now() - delay))

    return answer


def smard_weeks(now: datetime) -> list[datetime]:
    """Begins of weeks: midnight in Berlin, which is UTC+1 in this winter."""
    monday = (now + HOUR).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=(now + HOUR).weekday())
    return [monday - HOUR - timedelta(weeks=back) for back in range(25, -1, -1)]


def smard_week(code: int, begin_ms: int, step: timedelta, until: datetime, hours: int = 168) -> dict:
    begin = datetime.fromtimestamp(begin_ms / 1000, UTC)
    starts = [begin + n * step for n in range(round(hours * HOUR / step))]
    series = [[milliseconds(at), _smard_mwh(code, at) * (step / HOUR) if at + step <= until else None] for at in starts]
    return {"meta_data": {"version": 1, "created": milliseconds(until)}, "series": series}


def milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _smard_mwh(code: int, at: datetime) -> float:
    return 4.0 * sun(at + 6 * HOUR) if code == 4068 else SMARD_MWH[code]
