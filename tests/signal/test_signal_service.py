"""A service polls at once, and then in the slots of its sources; one poll serves all its jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from chase.config import load
from chase.endpoint import spread_s
from chase.service import Service
from chase.unixhttp import request

REGION = """
[region]
id = "home"
name = "Home"
time_zone = "UTC"
signal = "average"
scope = "direct"
currency = "GBP"

[[sources]]
provider = "neso"
zone = "GB"
base_url = "{url}"
"""


@pytest.fixture
def api():
    """A grid API that is down, and counts who asks."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def service(tmp_path, api, monkeypatch):
    monkeypatch.setattr("platform.node", lambda: "node-17")
    file = tmp_path / "region.toml"
    file.write_text(REGION.format(url=api[0]))
    overrides = {
        "service.state_dir": tmp_path / "state",
        "service.run_dir": tmp_path / "run",
        "control.gpus": "simulated",
        "control.interval_s": 0.05,
    }
    made = Service(load(region=file, overrides=overrides, env={}))
    made.startup()
    yield made
    made.shutdown()


def test_the_timer_meets_the_slots(service):
    """Its next firing is at a multiple of the source's period on the wall clock, moved by this node's own seconds."""
    (state,) = service.controller.signals["home"].states
    poll_s = state.observing.poll_s
    job = service._scheduler.get_job("poll home")
    offset_s = spread_s(poll_s, "node-17", "neso", "GB")
    past_s = (job.next_run_time.timestamp() - offset_s) % poll_s
    assert min(past_s, poll_s - past_s) < 1.0
    assert job.trigger.interval.total_seconds() == poll_s
    assert job.next_run_time > datetime.now(UTC)
    assert 0 < offset_s < 0.1 * poll_s


def test_jobs_and_ticks_ask_nobody(service, api):
    """Two jobs, many ticks and a look at the status: the source has been asked once, when the service started."""
    path = service.config.service.socket_path
    for gpu, number in zip(service.system.gpus(), "ab", strict=False):
        body = {"id": number * 16, "name": f"train-{number}", "gpus": [gpu.uuid], "profile": "a40-resnet50"}
        assert request(path, "POST", "/v1/jobs", body)["id"] == number * 16
    (state,) = service.controller.signals["home"].states
    for _ in range(200):
        service._stop.wait(0.05)
        if state.observing.problem and state.forecasting.problem:
            break
    before = list(api[1])
    for _ in range(40):
        service.controller.tick()
        request(path, "GET", "/v1/status")
    assert before
    assert api[1] == before
