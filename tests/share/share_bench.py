"""A region over sources that a test sets, the server of its signal, and a caller who sends whatever bytes."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

from signal_bench import HOUR, NOW, Source

from chase.clock import ManualClock
from chase.config.models import ShareConfig
from chase.prices import PriceFeed
from chase.share.document import Shared
from chase.share.server import ShareServer
from chase.signal import GridSignal, Limits
from providers.base import Capabilities, Market, PricePoint, PriceSeries

TOKEN = "a-token-of-a-fleet-0123456789"


@dataclass
class Market24:
    """Prices of each hour around now."""

    name: str = "market"
    zone: str = "BZN"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(observed=True, forecast=False, step_s=3600, poll_s=900)

    def prices(self, start: datetime, end: datetime) -> PriceSeries:
        first = start.replace(minute=0, second=0, microsecond=0)
        return PriceSeries.of(price(first + i * HOUR) for i in range((end - first) // HOUR))

    def close(self) -> None: ...


def price(at: datetime) -> PricePoint:
    return PricePoint(
        zone="BZN",
        start=at,
        end=at + HOUR,
        price_per_kwh=-0.01 * at.hour,
        currency="EUR",
        market=Market.DAY_AHEAD,
        source="market",
        fetched_at=NOW,
        licence="CC BY 4.0",
    )


@dataclass
class Region:
    """``xx``: a source with three days observed and two expected, and a market."""

    name: str = "xx"
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    observed: dict[datetime, float] = field(default_factory=lambda: {NOW - i * HOUR: 100.0 + i for i in range(1, 73)})
    expected: dict[datetime, float] = field(default_factory=lambda: {NOW + i * HOUR: 200.0 + i for i in range(48)})
    others: tuple[Source, ...] = ()
    history_h: float = 168.0

    def __post_init__(self) -> None:
        self.source = Source(observed=self.observed, expected=self.expected)
        sources = (self.source, *self.others)
        self.grid = GridSignal(self.name, sources, clock=self.clock, limits=Limits(history_h=self.history_h))
        self.prices = PriceFeed(self.name, [Market24()], currency="EUR", time_zone="UTC", clock=self.clock)
        self.poll()

    def poll(self) -> None:
        self.grid.poll()
        self.prices.poll()

    @property
    def shared(self) -> Shared:
        return Shared(self.name, self.grid, self.prices)


@dataclass
class Told:
    status: int
    headers: dict[str, str]
    body: Any


class Caller:
    """Each call on a connection of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.address = (urlsplit(url).hostname, urlsplit(url).port)

    def get(self, path: str, query: dict[str, str] | None = None, **headers: str) -> Told:
        return self.ask("GET", f"{path}?{urlencode(query)}" if query else path, **headers)

    def intensity(self, place: str = "xx", *, back_h: float = 72, ahead_h: float = 48, **headers: str) -> Told:
        return self.get(f"/v1/grid/{place}/intensity", span(back_h, ahead_h), **headers)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Told:
        connection = http.client.HTTPConnection(*self.address, timeout=10)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
            answer = connection.getresponse()
            raw = answer.read()
        finally:
            connection.close()
        found = {name.lower(): text for name, text in answer.getheaders()}
        return Told(answer.status, found, json.loads(raw) if raw.startswith((b"{", b"[")) else raw)

    def raw(self, data: bytes) -> bytes:
        """Whatever bytes; all that comes until the other side closes."""
        with socket.create_connection(self.address, timeout=10) as sock:
            sock.sendall(data)
            return b"".join(iter(lambda: sock.recv(65536), b""))

    def idle(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=10)


def span(back_h: float, ahead_h: float) -> dict[str, str]:
    return {"start": text(NOW - back_h * HOUR), "end": text(NOW + ahead_h * HOUR)}


def text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


@contextmanager
def served(*regions: Region, listen: str = "127.0.0.1:0", token: str | None = None) -> Iterator[Caller]:
    env = {"TOKEN": token} if token else {}
    config = ShareConfig(listen=listen, token_env="TOKEN" if token else None)
    server = ShareServer(config, [region.shared for region in regions], env=env)
    try:
        yield Caller(server.url)
    finally:
        server.close()


def until(condition, what: str, within_s: float = 10.0):
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.01)
    return found
