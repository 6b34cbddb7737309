"""What another node's share answers: the shape of ``chase.share``, figures invented."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import datetime, timedelta

from grid_server import Answer, Request

HOUR = timedelta(hours=1)
SERIES = {"source": "neso", "zone": "GB", "signal": "average", "scope": "direct", "boundary": "consumption"}


def chase_node(now: Callable[[], datetime], **changes: object) -> Callable[[Request], Answer]:
    """Hours until the last full one as observed, and those to come as forecast at the full hour; with its tag."""

    def answer(request: Request) -> Answer:
        body = json.dumps(document(request.query, now(), **changes)).encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        if request.headers.get("if-none-match") == tag:
            return Answer(status=304, headers={"ETag": tag})
        return Answer(body, headers={"ETag": tag})

    return answer


def document(query: dict[str, str], now: datetime, **changes: object) -> dict[str, object]:
    start, end = (datetime.fromisoformat(query[name]) for name in ("start", "end"))
    hour = now.replace(minute=0, second=0, microsecond=0)
    hours = [start + i * HOUR for i in range((end - start) // HOUR)]
    return {
        "version": 1,
        "region": "gb",
        "zones": ["GB", "GB-13"],
        **SERIES,
        "observed": [observed(at) for at in hours if at < hour],
        "forecast": [expected(at, hour) for at in hours if at + HOUR > now],
        **changes,
    }


def observed(at: datetime) -> dict[str, object]:
    read = stamp(at + HOUR * 1.25)
    return {**span(at), "g_per_kwh": 100.0 + at.hour, "kind": "measured", "fetched_at": read}


def expected(at: datetime, hour: datetime) -> dict[str, object]:
    issued = {"issued_at": stamp(hour - HOUR), "fetched_at": stamp(hour)}
    return {**span(at), "g_per_kwh": 200.0 + at.hour, "kind": "forecast", "method": "model", **issued}


def span(at: datetime) -> dict[str, str]:
    return {"start": stamp(at), "end": stamp(at + HOUR)}


def stamp(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
