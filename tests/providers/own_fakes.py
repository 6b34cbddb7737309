"""What an organisation's own servers answer: a Carbon Aware SDK WebAPI and a Prometheus. Figures are invented."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from grid_server import Answer, Request, as_json

STEP = timedelta(minutes=5)
HOUR = timedelta(hours=1)


def carbon_aware(now: Callable[[], datetime]) -> Callable[[Request], Answer]:
    """Five minutes each where it observed; an hour each, for a day, where it expects."""

    def answer(request: Request) -> Answer:
        return as_json(carbon_aware_document(request, now()))

    return answer


def carbon_aware_document(request: Request, now: datetime) -> list:
    if request.path.endswith("/forecasts/current"):
        return [carbon_aware_forecast(now)]
    assert request.query["time"].endswith("Z")
    start, end = (datetime.fromisoformat(request.query[name]) for name in ("time", "toTime"))
    first = start - (start - datetime(1970, 1, 1, tzinfo=UTC)) % STEP
    return [observed(first + n * STEP, 300.0 + (first + n * STEP).hour) for n in range((end - first) // STEP + 1)]


def observed(at: datetime, rating: object, **changes: object) -> dict:
    return {"location": "IE", "time": at.isoformat(), "rating": rating, "duration": "00:05:00", **changes}


def expected(at: datetime, value: object, **changes: object) -> dict:
    return {"location": "IE", "timestamp": at.isoformat(), "duration": 60, "value": value, **changes}


def carbon_aware_forecast(now: datetime, **changes: object) -> dict:
    hour = now.replace(minute=0, second=0, microsecond=0)
    data = [expected(hour + n * HOUR, 200.0 + n) for n in range(24)]
    return {
        "generatedAt": (hour - HOUR).isoformat(),
        "requestedAt": now.isoformat(),
        "location": "northeurope",
        "dataStartAt": hour.isoformat(),
        "dataEndAt": (hour + 24 * HOUR).isoformat(),
        "windowSize": 60,
        "optimalDataPoints": data[:1],
        "forecastData": data,
        **changes,
    }


def prometheus(request: Request) -> Answer:
    return as_json(prometheus_document(request))


def prometheus_document(request: Request) -> dict:
    """One series whose value is 400 and the hour."""
    query = request.query
    if request.path.endswith("/query"):
        at = seconds(query["time"])
        return success("vector", [{"metric": METRIC, "value": [at, value_at(at)]}])
    start, end, step = seconds(query["start"]), seconds(query["end"]), int(query["step"])
    assert (end - start) // step < 11_000
    values = [[at, value_at(at)] for at in range(start, end + 1, step)]
    return success("matrix", [{"metric": METRIC, "values": values}])


METRIC = {"__name__": "grid_intensity", "zone": "DE"}


def success(shape: str, result: object, **more: object) -> dict:
    return {"status": "success", "data": {"resultType": shape, "result": result}, **more}


def seconds(stamp: str) -> int:
    return round(datetime.fromisoformat(stamp).timestamp())


def value_at(at: int) -> str:
    return f"{400 + datetime.fromtimestamp(at, UTC).hour}"
