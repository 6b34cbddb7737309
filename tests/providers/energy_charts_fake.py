"""What energy-charts.info answers around a given time: shapes as documented, figures invented."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from grid_server import Answer, Request, as_json

QUARTER = timedelta(minutes=15)
HOUR = timedelta(hours=1)
LICENCE = "CC BY 4.0 (creativecommons.org/licenses/by/4.0) from an operator"
QUARTERS_SINCE = datetime(2025, 9, 30, 22, tzinfo=UTC)  # prices are hourly before


def energy_charts(now: Callable[[], datetime], zone: str = "Europe/Berlin") -> Callable[[Request], Answer]:
    """``/co2eq`` and ``/price`` for whole days of ``zone``, the last one included; nothing from 2000 and before."""

    def answer(request: Request) -> Answer:
        first, last = (date.fromisoformat(request.query[key]) for key in ("start", "end"))
        local = ZoneInfo(zone)
        start = datetime.combine(first, time(), local).astimezone(UTC)
        end = datetime.combine(last + timedelta(days=1), time(), local).astimezone(UTC)
        tomorrow = datetime.combine(now().astimezone(local).date() + timedelta(days=2), time(), local).astimezone(UTC)
        starts = list(_slots(start, min(end, tomorrow), prices=request.path.endswith("/price")))
        if not starts or first.year <= 2000:
            return as_json({"detail": "no content found"}, 404)
        return as_json(prices(starts) if request.path.endswith("/price") else intensities(starts, now()))

    return answer


def intensities(starts: list[datetime], now: datetime) -> dict:
    """Observed until half an hour ago, expected from then on."""
    seen = [at + QUARTER <= now - 2 * QUARTER for at in starts]
    return {
        "unix_seconds": [seconds(at) for at in starts],
        "co2eq": [300.5 + at.hour if known else None for at, known in zip(starts, seen, strict=True)],
        "co2eq_forecast": [None if known else 400.25 + at.hour for at, known in zip(starts, seen, strict=True)],
        "deprecated": False,
    }


def prices(starts: list[datetime]) -> dict:
    return {
        "license_info": LICENCE,
        "unix_seconds": [seconds(at) for at in starts],
        "price": [84.5 - 8 * at.hour for at in starts],
        "unit": "EUR / MWh",
        "deprecated": False,
    }


def seconds(at: datetime) -> int:
    return int(at.timestamp())


def _slots(start: datetime, end: datetime, *, prices: bool):
    while start < end:
        yield start
        start += HOUR if prices and start < QUARTERS_SINCE else QUARTER
