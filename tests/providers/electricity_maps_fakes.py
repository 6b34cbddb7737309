"""Electricity Maps beyond the intensities of grid_fakes.py: the list of zones, past ranges, mixes and prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

import grid_fakes
from grid_fakes import em_row, em_time
from grid_server import Answer, Request, as_json

HOUR = timedelta(hours=1)
ENDPOINTS = ("latest", "history", "forecast", "past-range")
OPEN = [f"carbon-intensity/{endpoint}" for endpoint in ENDPOINTS]
PLAN = {
    "error": "Request unauthorized for zoneKey=DE,requestType=past,dataType=carbon-intensity.",
    "message": "You do not have access to this specific endpoint for this specific zone.",
}
BARE = as_json({"error": "Invalid auth-token"}, 401)


def zones(access: Iterable[str] | None = OPEN, *keys: str) -> Answer:
    more = {} if access is None else {"access": list(access)}
    return as_json(
        {key: {"zoneName": "Somewhere", "countryName": "X", **more} for key in keys or ("DE", "FR", "DK-DK2")}
    )


def vendor(
    now: Callable[[], datetime], *, access: Iterable[str] | None = OPEN, refused: Answer | None = None, closed: str = ""
) -> Callable[[Request], Answer]:
    """All of it; requests whose path contains ``closed`` get ``refused``."""
    known = grid_fakes.electricity_maps(now)

    def answer(request: Request) -> Answer:
        signal, endpoint = request.path.split("/")[-2:]
        if refused is not None and closed in request.path:
            return refused
        if endpoint == "zones":
            return zones(access)
        if endpoint == "past-range":
            return past_range(request, now())
        if signal == "electricity-mix":
            return mixes(request, now())
        if signal == "price-day-ahead":
            return prices(request, now())
        return known(request)

    return answer


def past_range(request: Request, now: datetime) -> Answer:
    start, end = (datetime.fromisoformat(request.query[edge]) for edge in ("start", "end"))
    if end - start > timedelta(days=10):
        return as_json({"status": "error", "message": "the range is longer than 10 days"}, 400)
    first = start.replace(minute=0, second=0)
    starts = [first + n * HOUR for n in range((end - first) // HOUR + 1) if first + n * HOUR < end]
    rows = [{**em_row(at, now), "isEstimated": False, "estimationMethod": None} for at in starts]
    return as_json({"zone": request.query["zone"], "data": rows, "temporalGranularity": "hourly"})


def mixes(request: Request, now: datetime) -> Answer:
    hour = now.replace(minute=0, second=0, microsecond=0)
    rows = [mix_row(hour - back * HOUR, now, request.query["breakdownType"]) for back in range(23, -1, -1)]
    return as_json({"zone": request.query["zone"], "temporalGranularity": "hourly", "unit": "MW", "history": rows})


def mix_row(at: datetime, now: datetime, breakdown: str = "flow-traced", **modes: object) -> dict:
    late = now - at < 3 * HOUR
    flags = {"isEstimated": True, "estimationMethod": "ESTIMATED_FORECASTS_HIERARCHY"} if late else {}
    mix = {
        "nuclear": 300,
        "geothermal": None,
        "biomass": 100.5,
        "coal": 80,
        "wind": 400 + at.hour,
        "solar": 0,
        "hydro": 60,
        "gas": 60,
        "oil": None,
        "unknown": 10,
        "hydro storage": {"charge": 5, "discharge": 700},
        "battery storage": {"charge": 0, "discharge": None},
        "flows": {"exports": 489, "imports": 4500},
        **modes,
    }
    return {
        "datetime": em_time(at),
        "updatedAt": em_time(at + HOUR),
        "estimationMethod": "MEASURED",
        **flags,
        "breakdownType": breakdown,
        "mix": mix,
    }


def prices(request: Request, now: datetime) -> Answer:
    hour = now.replace(minute=0, second=0, microsecond=0)
    back, ahead = (23, 0) if request.path.endswith("history") else (0, 24)
    rows = [price_row(hour + n * HOUR) for n in range(-back, ahead + 1)]
    key = "history" if back else "data"
    return as_json({"zone": request.query["zone"], key: rows, "temporalGranularity": "hourly"})


def price_row(at: datetime, **changes: object) -> dict:
    return {
        "zone": "DE",
        "datetime": em_time(at),
        "createdAt": em_time(at - timedelta(days=1)),
        "updatedAt": em_time(at - timedelta(days=1)),
        "value": 100.25 - 10 * at.hour,
        "unit": "EUR/MWh",
        "source": "nordpool.com",
        **changes,
    }
