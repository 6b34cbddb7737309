"""The outlook pages' tables of California ISO, as they are and with their oddities. Figures are invented."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from grid_server import Answer, Request

CLOCK = ZoneInfo("America/Los_Angeles")
CO2 = "Time,Biogas CO2,Biomass CO2,Natural Gas CO2,Coal CO2,Imports CO2,Geothermal CO2"
LOAD = "Time,Hour ahead forecast,Current demand,Net demand,Net demand forecast,Demand response"
LABELS = tuple(f"{minute // 60:02}:{minute % 60:02}" for minute in range(0, 24 * 60, 5))
FOLLOWING = "00:00"


def caiso(now: Callable[[], datetime]) -> Callable[[Request], Answer]:
    """Today so far, days that are over, and 404 for those before July 2018 and to come."""

    def answer(request: Request) -> Answer:
        today = now().astimezone(CLOCK)
        name = request.path.rsplit("/", 1)[1].removesuffix(".csv")
        if "/current/" in request.path:
            so_far = [label for label in LABELS if label <= f"{today:%H:%M}"]
            return table(name, so_far, whole=LABELS)
        day = datetime.strptime(re.search(r"/history/(\d{8})/", request.path)[1], "%Y%m%d").date()  # noqa: DTZ007
        if not date(2018, 7, 1) <= day < today.date():
            return Answer(b"<html><body>404</body></html>", 404, content_type="text/html")
        return table(name, (*LABELS, FOLLOWING))

    return answer


def table(name: str, labels: Iterable[str], whole: Iterable[str] = ()) -> Answer:
    """Of the load there are rows to come, with forecasts alone."""
    labels = list(labels)
    if name == "co2":
        return as_csv(CO2, [co2_row(label) for label in labels])
    ahead = [f"{label},20000,,,18600," for label in list(whole)[len(labels) :]]
    return as_csv(LOAD, [*(load_row(label) for label in labels), *ahead])


def co2_row(label: str, gas: object = 5000, imports: object = 1800, coal: object = 0) -> str:
    return f"{label}, 80,110 ,{gas},{coal},{imports},7"


def load_row(label: str, demand: object = 20_000) -> str:
    return f"{label},20930,{demand},18000,18607,"


def as_csv(header: str, rows: Iterable[str]) -> Answer:
    return Answer("\r\n".join([header, *rows, ""]).encode(), content_type="text/csv")


def wall(day: date, label: str) -> datetime:
    return datetime.combine(day, time.fromisoformat(label), CLOCK)


def minutes(first: str, count: int) -> list[str]:
    at = datetime.combine(date(2000, 1, 1), time.fromisoformat(first))
    return [f"{at + n * timedelta(minutes=5):%H:%M}" for n in range(count)]
