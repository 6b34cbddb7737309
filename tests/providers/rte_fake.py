"""What the open data portal answers of éCO2mix around a given time: shapes as documented, figures invented."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from grid_server import Answer, Request, as_json

QUARTER = timedelta(minutes=15)
HOUR = timedelta(hours=1)
PATH = "/api/explore/v2.1/catalog/datasets/{}/exports/json"
REAL_TIME = PATH.format("eco2mix-national-tr")


def rte(now: Callable[[], datetime], *, keeps: timedelta = timedelta(days=60)) -> Callable[[Request], Answer]:
    """An export in real time: a value until half an hour ago, nulls until midnight; 400 without a range."""

    def answer(request: Request) -> Answer:
        times = re.findall(r"date_heure (>=|<) date'(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)'", request.query["where"])
        if [sign for sign, _ in times] != [">=", "<"] or request.query.get("timezone") != "UTC":
            return as_json({"error_code": "ODSQLSyntaxError", "message": "no such range"}, 400)
        start, end = (datetime.fromisoformat(text) for _, text in times)
        start = max(start, _quarter(now() - keeps))
        midnight = now().astimezone(ZoneInfo("Europe/Paris")).replace(hour=0, minute=0) + timedelta(days=1)
        count = max(0, (min(end, midnight.astimezone(UTC)) - start) // QUARTER)
        rows = [row(start + index * QUARTER, now()) for index in range(count)]
        wanted = [item for item in rows if item["taux_co2"] is not None or "is not null" not in request.query["where"]]
        return as_json(wanted)

    return answer


def row(at: datetime, now: datetime) -> dict:
    return {
        "perimetre": "France",
        "nature": "Données temps réel",
        "date_heure": f"{at:%Y-%m-%dT%H:%M:%S}+00:00",
        "taux_co2": 20 + at.hour if at + QUARTER <= now - 2 * QUARTER else None,
    }


def _quarter(at: datetime) -> datetime:
    return at.replace(minute=at.minute // 15 * 15, second=0, microsecond=0)
