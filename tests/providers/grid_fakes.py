"""What healthy sources answer around a given time: shapes as documented and recorded, figures invented."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from grid_server import Answer, Request, as_json

HALF_HOUR = timedelta(minutes=30)
HOUR = timedelta(hours=1)


def neso(now: Callable[[], datetime]) -> Callable[[Request], Answer]:
    """National and regional ranges, ``fw24h`` and ``fw48h``; ranges include the half hour that ends at ``from``."""

    def answer(request: Request) -> Answer:
        first, ahead = re.search(r"/intensity/([^/]+)/([^/]+)", request.path).groups()
        start = _neso_time(first)
        hours = {"fw24h": 24, "fw48h": 48}.get(ahead)
        end = start + timedelta(hours=hours) if hours else _neso_time(ahead)
        starts = [start + index * HALF_HOUR for index in range(-1, (end - start) // HALF_HOUR)]
        if "/regional/" not in request.path:
            return as_json({"data": [neso_row(at, now()) for at in starts]})
        key, value = request.path.split("/")[-2:]
        rows = [_neso_regional_row(at) for at in starts]
        place = {"dnoregion": "Somewhere", "shortname": "Somewhere", "data": rows}
        return as_json({"data": {**place, key: int(value) if key == "regionid" else value}})

    return answer


def neso_row(at: datetime, now: datetime) -> dict:
    actual = 90 + at.hour if at + HALF_HOUR <= now - HALF_HOUR else None
    return {**_neso_span(at), "intensity": {"forecast": 100 + at.hour, "actual": actual, "index": "moderate"}}


def _neso_regional_row(at: datetime) -> dict:
    mix = [{"fuel": "gas", "perc": 38.1}, {"fuel": "wind", "perc": 31.0}]
    return {**_neso_span(at), "intensity": {"forecast": 80 + at.hour, "index": "low"}, "generationmix": mix}


def _neso_span(at: datetime) -> dict:
    return {"from": f"{at:%Y-%m-%dT%H:%MZ}", "to": f"{at + HALF_HOUR:%Y-%m-%dT%H:%MZ}"}


def _neso_time(text: str) -> datetime:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:[03]0Z", text), text
    return datetime.fromisoformat(text)


def electricity_maps(now: Callable[[], datetime]) -> Callable[[Request], Answer]:
    """``latest``, ``history`` (24 rows, the last one running) and ``forecast`` (first row: the running hour)."""

    def answer(request: Request) -> Answer:
        zone, endpoint = request.query["zone"], request.path.rsplit("/", 1)[1]
        hour = now().replace(minute=0, second=0, microsecond=0)
        if endpoint == "latest":
            return as_json(em_row(hour, now()) | {"zone": zone, "temporalGranularity": "hourly"})
        if endpoint == "history":
            rows = [em_row(hour - back * HOUR, now()) for back in range(23, -1, -1)]
            return as_json({"zone": zone, "history": rows, "temporalGranularity": "hourly"})
        count = int(request.query["horizonHours"]) + 1
        rows = [{"carbonIntensity": 200 + ahead, "datetime": em_time(hour + ahead * HOUR)} for ahead in range(count)]
        document = {"zone": zone, "forecast": rows, "updatedAt": em_time(now()), "temporalGranularity": "hourly"}
        return as_json(document)

    return answer


def em_row(at: datetime, now: datetime) -> dict:
    estimated = now - at < 3 * HOUR
    return {
        "carbonIntensity": 140 + at.hour,
        "datetime": em_time(at),
        "updatedAt": em_time(at - timedelta(minutes=9)),
        "createdAt": em_time(at - timedelta(days=3)),
        "emissionFactorType": "lifecycle",
        "flowTraced": True,
        "isEstimated": estimated,
        "estimationMethod": "FORECASTS_HIERARCHY" if estimated else None,
    }


def em_time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.000Z"
