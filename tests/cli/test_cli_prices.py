"""``chase signal prices``: what is stored, what the sources say, and what is said when there is nothing."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from grid_log import HOUR, price_to

from chase.clock import ManualClock
from chase.store import Store

REGION = """\
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
zone = "DE-LU"
base_url = "{url}"
"""


@pytest.fixture
def market():
    """A loopback energy-charts with two days of prices around now, in EUR/MWh; ``answer`` replaces its reply."""
    first = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 24 * HOUR
    seconds = [int((first + n * HOUR).timestamp()) for n in range(48)]
    document = {"unix_seconds": seconds, "price": [float(n) - 10 for n in range(48)], "unit": "EUR / MWh"}

    class Handler(BaseHTTPRequestHandler):
        answer: tuple[int, object] = (200, {**document, "license_info": "CC BY 4.0 (a test)", "deprecated": False})

        def do_GET(self):
            status, reply = self.answer
            body = json.dumps(reply).encode()
            self.send_response(status)
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
def priced(tmp_path, market):
    """The file of a region whose prices come from the loopback market."""
    path = tmp_path / "priced.toml"
    path.write_text(REGION.format(url=f"http://127.0.0.1:{market.server_port}"))
    return path


@pytest.fixture
def stored(tmp_path):
    """A database with four hours of prices, the first of which is in force now."""
    path, now = tmp_path / "stored.sqlite", datetime.now(UTC)
    first = now.replace(minute=0, second=0, microsecond=0)
    store = Store(path, clock=ManualClock(now))
    facts = {"zone": "DE-LU", "source": "energy_charts", "fetched_at": now}
    store.add_prices(price_to(first + (n + 1) * HOUR, 0.1 * n - 0.05, **facts) for n in range(4))
    store.close()
    return path


def test_what_the_service_stored_is_shown_without_asking_anybody(run, priced, stored, market):
    """The price in force, its market and source, and what is published of the next hours; negative is a price."""
    market.handler.answer = (500, {})
    document = json.loads(run("signal", "prices", priced, "--db", stored, "--json").stdout)
    assert document["price_per_kwh"] == pytest.approx(-0.05)
    assert (document["currency"], document["market"], document["freshness"]) == ("EUR", "day-ahead", "fresh")
    assert [point["price_per_kwh"] for point in document["ahead"]] == pytest.approx([-0.05, 0.05, 0.15, 0.25])
    assert document["note"] == ""
    out = run("signal", "prices", priced, "--db", stored).stdout
    assert "Price priced: -0.0500 EUR/kWh, day-ahead, published by energy_charts (DE-LU), fresh" in out


def test_refresh_asks_the_sources(run, priced, tmp_path):
    """Nothing is stored, so it is what the market says now, per kWh, with the terms that came with it."""
    document = json.loads(
        run("signal", "prices", priced, "--refresh", "--db", tmp_path / "no.sqlite", "--json", "--hours", 3).stdout
    )
    assert document["price_per_kwh"] == pytest.approx(0.014)
    assert document["licence"] == "CC BY 4.0 (a test)"
    assert 3 <= len(document["ahead"]) <= 4  # three hours from now on, of which the running one is a part


def test_without_asking_it_says_that_nobody_was_asked(run, priced, tmp_path):
    """The remedy is named, and nothing goes over the network."""
    result = run("signal", "prices", priced, "--db", tmp_path / "no.sqlite")
    assert result.exit_code == 0
    assert "nothing usable" in result.stdout
    assert "--refresh" in result.stdout


def test_a_source_that_fails_is_named(run, priced, tmp_path, market):
    """What it answered stands beside the gap."""
    market.handler.answer = (404, {"detail": "no content found"})
    document = json.loads(run("signal", "prices", priced, "--refresh", "--db", tmp_path / "no.sqlite", "--json").stdout)
    assert document["price_per_kwh"] is None
    assert "NoData" in document["sources"][0]["problem"]


def test_the_dearest_hour_has_the_longest_bar(run, priced, stored):
    """What is free or better has none."""
    lines = run("signal", "prices", priced, "--db", stored).stdout.splitlines()
    rows = [line for line in lines if "energy_charts" in line and ":00:00Z" in line]
    assert [row.count("█") for row in rows] == [0, 6, 19, 32]


def test_a_region_without_prices_says_what_to_add(run, quiet_region):
    """It is a question that its file cannot answer."""
    result = run("signal", "prices", quiet_region)
    assert result.exit_code == 2
    assert "region quiet names no source of prices: add [[prices]] to its file" in result.stderr
