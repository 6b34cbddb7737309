"""WattTime as it answers: logins, tokens that end, and the three kinds of refusal. Figures are invented."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from grid_server import Answer, Request, as_json, html

STEP = timedelta(minutes=5)
USER, PASSWORD = "rack", "Pass:word/98765+"


class FakeWattTime:
    """``valid`` are the tokens that are taken; ``logins`` counts them."""

    def __init__(self, now: Callable[[], datetime], *, uses: int | None = None) -> None:
        self.now, self.uses = now, uses
        self.logins = 0
        self.valid: dict[str, int] = {}
        self.refusal: Answer = as_json({"message": "Token has expired"}, 401)
        self.change: Callable[[dict], dict] = lambda document: document
        self.gathered: threading.Barrier | None = None
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Answer:
        if request.path == "/login":
            return self._login(request.headers["authorization"])
        with self._lock:
            token = request.headers["authorization"].removeprefix("Bearer ")
            if self.valid.get(token, 0) <= 0:
                return self.refusal
            if self.uses is not None:
                self.valid[token] -= 1
        return as_json(self.change(document(request, self.now())))

    def revoke(self) -> None:
        self.valid.clear()

    def _login(self, header: str) -> Answer:
        expected = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if header != f"Basic {expected}":
            return html(403)
        with self._lock:
            self.logins += 1
            token = f"PlainToken98765.{self.logins}"
            self.valid[token] = 1_000_000 if self.uses is None else self.uses
        return as_json({"token": token})


def document(request: Request, now: datetime) -> dict:
    """Of the endpoint asked, as far as ``now`` is known."""
    query = request.query
    meta = {
        "region": query["region"],
        "signal_type": query["signal_type"],
        "units": "lbs_co2_per_mwh",
        "data_point_period_seconds": 300,
        "model": {"date": query.get("model", "2025-12-01")},
        "warnings": [],
    }
    first = now.replace(minute=now.minute // 5 * 5, second=0, microsecond=0)
    if request.path == "/v3/forecast":
        count = int(query["horizon_hours"]) * 12
        data = [{"point_time": stamp(first + n * STEP), "value": 600.0 + n % 288} for n in range(count)]
        return {"data": data, "meta": {**meta, "generated_at": stamp(first), "generated_at_period_seconds": 300}}
    start, end = (datetime.fromisoformat(query[name]) for name in ("start", "end"))
    count = (min(end, now) - start) // STEP + 1
    return {"data": [row(start + n * STEP, 700.0 + (start + n * STEP).hour) for n in range(count)], "meta": meta}


def row(at: datetime, value: object, **changes: object) -> dict:
    updated = stamp(at + timedelta(minutes=4))
    return {"point_time": stamp(at), "value": value, "last_updated": updated, "imputed_data_used": False, **changes}


def stamp(at: datetime) -> str:
    return at.isoformat()
