"""The service polls the prices of its region, keeps them, and knows them after a restart."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from chase.config import load
from chase.outlook import FRESH
from chase.service import Service, needs_restart

HOUR = timedelta(hours=1)
REGION = """
[region]
id = "priced"
name = "A region with prices"
time_zone = "Europe/Berlin"
signal = "average"
scope = "lifecycle"
currency = "EUR"
[typical]
source = "a test"
year = 2023
licence = "none"
scope = "lifecycle"
flat_g_per_kwh = 300
[[prices]]
provider = "energy_charts"
zone = "{zone}"
base_url = "{url}"
"""


@pytest.fixture
def market():
    """A loopback energy-charts: a day of prices back and one ahead, in EUR/MWh; ``up`` says whether it answers."""
    first = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 24 * HOUR
    seconds = [int((first + n * HOUR).timestamp()) for n in range(48)]
    body = json.dumps({"unix_seconds": seconds, "price": [float(n) for n in range(48)], "unit": "EUR/MWh"}).encode()

    class Handler(BaseHTTPRequestHandler):
        up = True

        def do_GET(self):
            self.send_response(200 if self.up else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Nothing on stderr."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    server.handler = Handler
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def start(tmp_path, market):
    """A started service on two simulated cards; stopped at the end."""
    with ExitStack() as stack:

        def make() -> Service:
            service = Service(loaded(tmp_path, market))
            stack.callback(service.shutdown)
            service.startup()
            return service

        yield make


def loaded(folder, market, zone="DE-LU"):
    path = folder / "priced.toml"
    path.write_text(REGION.format(url=f"http://127.0.0.1:{market.server_port}", zone=zone))
    values = {
        "service.state_dir": folder / "state",
        "service.run_dir": folder / "run",
        "control.gpus": "simulated",
        "control.interval_s": 0.1,
        "control.ramp_w_per_s": 0.0,
    }
    return load(region=path, overrides=values, env={})


def until(condition, what):
    deadline, pause = time.monotonic() + 15, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, what
        pause.wait(0.02)


def stored(service):
    now = datetime.now(UTC)
    return service.store.prices(zone="DE-LU", source="energy_charts", start=now - 24 * HOUR, end=now + 24 * HOUR)


def test_prices_are_polled_and_kept(start):
    """At the start and then at the source's pace: what it published is in the database, with its currency."""
    service = start()
    until(lambda: len(stored(service)) > 0, "prices in the database")

    now = stored(service).at(datetime.now(UTC))

    assert now.price_per_kwh == pytest.approx(0.024, abs=0.0011)  # the hour may have turned since
    assert now.currency == "EUR"


def test_a_restart_knows_the_prices_before_anybody_is_asked(start, market):
    """What an earlier run kept is in force at once, also while the market is down."""
    first = start()
    until(lambda: len(stored(first)) > 0, "prices in the database")
    first.shutdown()
    market.handler.up = False

    second = start()

    assert second._prices.outlook().freshness == FRESH


def test_a_region_without_prices_polls_none(tmp_path, market):
    """The feed is there, and empty; no tick is wasted on it."""
    given = loaded(tmp_path, market)
    bare = given.region.model_copy(update={"prices": ()})
    service = Service(dataclasses.replace(given, region=bare))
    try:
        service.startup()
        assert service._scheduler.get_job("prices") is None
        assert service._scheduler.get_job("control") is not None
    finally:
        service.shutdown()


def test_other_prices_need_a_restart(tmp_path, market):
    """Like other sources: what the service was built of once is named when it changes."""
    before = loaded(tmp_path, market)
    after = loaded(tmp_path, market, zone="AT")
    assert needs_restart(before, after) == ["the region's sources"]
