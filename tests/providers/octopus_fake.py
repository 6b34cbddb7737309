"""What Octopus Energy answers around a given time: shapes as documented, figures invented."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from grid_server import Answer, Request, as_json

HALF_HOUR = timedelta(minutes=30)
HOUR = timedelta(hours=1)
FIRST = datetime(2018, 1, 1, tzinfo=UTC)
AGILE = "AGILE-24-10-01"
PRODUCTS = [
    {"code": "VAR-22-11-01", "direction": "IMPORT", "available_from": "2023-03-28T00:00:00Z", "available_to": None},
    {
        "code": "AGILE-23-12-06",
        "direction": "IMPORT",
        "available_from": "2023-12-06T00:00:00Z",
        "available_to": "2024-10-01T00:00:00+01:00",
    },
    {"code": AGILE, "direction": "IMPORT", "available_from": "2024-10-01T00:00:00+01:00", "available_to": None},
    {
        "code": "AGILE-OUTGOING-25-01-01",
        "direction": "EXPORT",
        "available_from": "2025-01-01T00:00:00Z",
        "available_to": None,
    },
    {"code": "AGILE-27-01-01", "direction": "IMPORT", "available_from": "2027-01-01T00:00:00Z", "available_to": None},
]


def octopus(now: Callable[[], datetime], *, most: int = 1500) -> Callable[[Request], Answer]:
    """Products, and half hours of any Agile until 23:00 in London; ``most`` rows a page, the newest first.

    ``next`` names the vendor's own host, as it would behind a proxy.
    """

    def answer(request: Request) -> Answer:
        query, parts = request.query, request.path.strip("/").split("/")
        if parts == ["v1", "products"]:
            return _page(request, PRODUCTS, min(most, 100))
        if len(parts) != 6 or parts[4] != f"E-1R-{parts[2]}-{parts[4][-1]}" or not parts[2].startswith("AGILE-"):
            return as_json({"detail": "No EnergyProduct matches the given query."}, 404)
        start, end = (datetime.fromisoformat(query[key]) for key in ("period_from", "period_to"))
        last = now().astimezone(ZoneInfo("Europe/London")).replace(hour=23, minute=0).astimezone(UTC)
        start, end = max(start, FIRST), min(end, last)
        count = max(0, (end - start) // HALF_HOUR)
        rates = [rate(start + index * HALF_HOUR) for index in reversed(range(count))]
        return _page(request, rates, min(most, int(query["page_size"])))

    return answer


def rate(at: datetime, pence: float | None = None, **more) -> dict:
    """Below zero around noon."""
    value = pence if pence is not None else abs(at.hour - 12) * 2.0 - 3.0
    return {
        "value_exc_vat": value,
        "value_inc_vat": round(value * 1.05, 4),
        "valid_from": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        "valid_to": f"{at + HALF_HOUR:%Y-%m-%dT%H:%M:%SZ}",
        "payment_method": None,
        **more,
    }


def _page(request: Request, rows: list[dict], size: int) -> Answer:
    page = int(request.query.get("page", "1"))
    if page > 1 and (page - 1) * size >= len(rows):
        return as_json({"detail": "Invalid page."}, 404)
    query = urlencode({**request.query, "page": str(page + 1)})
    following = f"https://api.octopus.energy{request.path}?{query}" if page * size < len(rows) else None
    shown = rows[(page - 1) * size : page * size]
    return as_json({"count": len(rows), "next": following, "previous": None, "results": shown})
