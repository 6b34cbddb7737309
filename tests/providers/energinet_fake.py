"""What Energi Data Service answers around a given time: shapes as documented, figures invented."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from grid_server import Answer, Request, as_json

MINUTES5 = timedelta(minutes=5)
QUARTER = timedelta(minutes=15)
HOUR = timedelta(hours=1)
FIRST = datetime(2022, 1, 1, tzinfo=UTC)
DANISH = ZoneInfo("Europe/Copenhagen")


def energinet(now: Callable[[], datetime]) -> Callable[[Request], Answer]:
    """The three datasets, newest first, for the areas and columns asked for; 400 for a request that is not clear."""

    def answer(request: Request) -> Answer:
        query, name = request.query, request.path.removeprefix("/dataset/")
        if query.get("timezone") != "UTC" or int(query["limit"]) <= 0:
            return as_json({"message": "Danish time, or every row there is"}, 400)
        start, end = (datetime.strptime(query[key], "%Y-%m-%dT%H:%M").replace(tzinfo=UTC) for key in ("start", "end"))
        step = QUARTER if name == "DayAheadPrices" else MINUTES5
        until = {"CO2Emis": now() - 2 * MINUTES5}.get(name, _end_of_tomorrow(now()))
        rows = [
            {key: value for key, value in row(name, at, area).items() if key in query["columns"].split(",")}
            for at in _backwards(max(start, FIRST), min(end, until), step)
            for area in json.loads(query["filter"])["PriceArea"]
        ]
        limit = int(query["limit"])
        return as_json({"total": len(rows), "limit": limit, "dataset": name, "records": rows[:limit]})

    return answer


def row(name: str, at: datetime, area: str) -> dict:
    """DK2 is always 100 g/kWh or EUR/MWh above DK1."""
    more = {"DK1": 0.0, "DK2": 100.0}[area]
    local = at.astimezone(DANISH)
    if name == "DayAheadPrices":
        euro = 60.5 - 10 * at.hour + more
        times = {"TimeUTC": stamp(at), "TimeDK": stamp(local)}
        return {**times, "PriceArea": area, "DayAheadPriceEUR": euro, "DayAheadPriceDKK": euro * 8}
    grams = (70.0 if name == "CO2Emis" else 200.0) + at.hour + more
    return {"Minutes5UTC": stamp(at), "Minutes5DK": stamp(local), "PriceArea": area, "CO2Emission": grams}


def stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S}"


def _end_of_tomorrow(now: datetime) -> datetime:
    return (now.astimezone(DANISH).replace(hour=0, minute=0) + timedelta(days=2)).astimezone(UTC)


def _backwards(start: datetime, end: datetime, step: timedelta):
    """From ``start`` (included) to ``end`` (not), the newest first."""
    count = max(0, -((start - end) // step))
    yield from (at for at in (start + index * step for index in reversed(range(count))) if at < end)
