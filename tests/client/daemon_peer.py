"""A service for the client's tests: a real HTTP server on a Unix socket that can misbehave."""

from __future__ import annotations

import contextlib
import http.server
import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KEYS = {"id", "name", "pid", "gpus", "units", "total_units", "units_done", "region", "policy", "profile"}
LEVERS = {"batch_size", "batch_sizes", "recurring", "joint"}  # said only by who has them
SAID = {"units_done", "agreed_w", "batch_size", "global_batch", "impossible", "epochs", "metric", "reached"}
UUIDS = ("GPU-11111111-1111-1111-1111-111111111111", "GPU-22222222-2222-2222-2222-222222222222")
GPUS = [{"uuid": uuid, "index": index, "name": "NVIDIA A40", "pci_bus_id": ""} for index, uuid in enumerate(UUIDS)]
SUMMARY = {
    "energy_j": 71_300.0,
    "grams": 4.12,
    "seconds": 250.0,
    "units": 1200.0,
    "method": "counter",
    "reference_energy_j": 83_000.0,
    "reference_grams": 4.8,
    "slowdown": 0.062,
    "decisions": 5,
}
ANSWER_S = 10.0


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    body: dict[str, Any]


@dataclass
class PeerDaemon:
    """Follows the contract unless ``trouble`` names one of the ways of ``_Handler``."""

    path: Path
    report_s: float = 0.02
    lease_s: float = 30.0
    clock_rate: float = 1.0
    trouble: str = ""
    mode: str = "speed-first"
    setting: dict[str, Any] = field(default_factory=dict)
    reason: str = "the grid is clean"
    control: str = "control"
    more: dict[str, Any] = field(default_factory=dict)
    simulated: bool | None = None
    summary: dict[str, Any] | None = field(default_factory=lambda: dict(SUMMARY))
    gpus: list[dict[str, Any]] = field(default_factory=lambda: list(GPUS))
    refusal: tuple[int, str, str] | None = None
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    ended: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.changed = threading.Condition()
        self.stopping = threading.Event()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> PeerDaemon:
        self.stopping.clear()
        self.path.unlink(missing_ok=True)
        self._server = _Server(str(self.path), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def stop(self, *, leave_socket: bool = False) -> None:
        """As a killed service (the socket's file stays behind) or one that ended."""
        if self._server is None or self._thread is None:
            return
        self.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server = None
        if not leave_socket:
            self.path.unlink(missing_ok=True)

    def restart(self) -> None:
        """A new process: it knows of no job."""
        self.stop(leave_socket=True)
        self.jobs.clear()
        self.start()

    @contextlib.contextmanager
    def running(self) -> Iterator[PeerDaemon]:
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def wait_for(self, told: Callable[[], Any], what: str = "") -> Any:
        """Until ``told()`` is true, looked at after each request. Fails loudly, as a test should."""
        with self.changed:
            if not self.changed.wait_for(told, ANSWER_S):
                raise AssertionError(f"the service was never told {what}; it was asked {self.asked[-5:]}")
            return told()

    def only_job(self) -> dict[str, Any]:
        (job,) = self.jobs.values()
        return job

    def count(self, method: str, end: str) -> int:
        return sum(1 for each in self.asked if each.method == method and each.path.endswith(end))

    def answer(self, asked: Asked) -> tuple[int, dict[str, Any]]:
        if self.refusal is not None and asked.method == "POST":
            status, code, message = self.refusal
            return status, {"error": {"code": code, "message": message}}
        if asked.path == "/v1/status":
            service = {} if self.simulated is None else {"service": {"simulated": self.simulated}}
            return 200, {**service, "gpus": self.gpus, "jobs": list(self.jobs.values())}
        if asked.path == "/v1/jobs":
            return self._register(asked.body)
        _, _, _, job_id, verb = asked.path.split("/")
        if job_id not in self.jobs:
            return 404, {"error": {"code": "unknown-job", "message": f"no job {job_id}"}}
        return self._report(job_id, asked.body) if verb == "report" else self._end(job_id, asked.body)

    def _register(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if set(body) - LEVERS != KEYS:
            return 422, {"error": {"code": "bad-body", "message": f"keys: {sorted(set(body) ^ KEYS)}"}}
        self.jobs[body["id"]] = {**self.jobs.get(body["id"], {}), **body}
        return 200, {"id": body["id"], "report_s": self.report_s, "clock_rate": self.clock_rate, **self._told()}

    def _report(self, job_id: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        assert {"units_done"} <= set(body) <= SAID
        self.jobs[job_id] |= body
        return 200, self._told()

    def _end(self, job_id: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.ended[job_id] = {**self.jobs.pop(job_id), **body}
        return 200, {"summary": self.summary}

    def _told(self) -> dict[str, Any]:
        return {
            "setting": self.setting,
            "mode": self.mode,
            "control": self.control,
            "observed": self.control == "observe",
            "lease_s": self.lease_s,
            "reason": self.reason,
            **self.more,
        }


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        self._handle()

    def do_GET(self) -> None:
        self._handle()

    def _handle(self) -> None:
        peer = self.server.peer
        raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        asked = Asked(self.command, self.path, json.loads(raw) if raw else {})
        with peer.changed:
            peer.asked.append(asked)
            if peer.trouble:
                peer.changed.notify_all()
            else:
                status, answer = peer.answer(asked)
                peer.changed.notify_all()
        if peer.trouble:
            getattr(self, f"_{peer.trouble}")()
        else:
            self._send(status, json.dumps(answer).encode())

    def _send(self, status: int, body: bytes, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def _error(self) -> None:
        self._send(500, b"Internal Server Error")

    def _busy(self) -> None:
        self._send(503, b'{"error": {"code": "busy", "message": "starting"}}')

    def _garbage(self) -> None:
        self.wfile.write(b"\x00\xff not HTTP at all\r\n\r\n")
        self.close_connection = True

    def _html(self) -> None:
        self._send(200, b"<html>hello</html>")

    def _list(self) -> None:
        self._send(200, b"[1, 2]")

    def _deep(self) -> None:
        self._send(200, b"[" * 60_000)

    def _empty(self) -> None:
        self._send(200, b"")

    def _huge(self) -> None:
        self._send(200, b'{"reason": "' + b"x" * 20_000_000 + b'"}')

    def _half(self) -> None:
        self._send(200, b'{"setting": {"power_limit_w": 18', length=4000)

    def _cut(self) -> None:
        self.close_connection = True

    def _nonsense(self) -> None:
        body = {"setting": {"power_limit_w": "full"}, "mode": 7, "lease_s": -1, "report_s": None, "reason": []}
        self._send(200, json.dumps(body).encode())

    def _nan(self) -> None:
        self._send(200, b'{"setting": {"power_limit_w": NaN}, "lease_s": Infinity, "report_s": NaN}')

    def _silent(self) -> None:
        self.server.peer.stopping.wait()
        self.close_connection = True

    def _drip(self) -> None:
        """A byte now and then, for ever: each read of the client's succeeds."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not self.server.peer.stopping.wait(0.05):
            self.wfile.write(b"x")
            self.wfile.flush()
        self.close_connection = True

    def log_message(self, *_args: object) -> None:
        """Tests have enough to say."""


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: str, peer: PeerDaemon) -> None:
        self.peer = peer
        super().__init__(path, _Handler)

    def get_request(self) -> tuple[Any, Any]:
        request, _ = super().get_request()
        return request, ("", 0)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away."""


TROUBLES = tuple(
    name[1:]
    for name in vars(_Handler)
    if name[1:]
    in {"error", "busy", "garbage", "html", "list", "deep", "empty", "huge", "half", "cut", "nonsense", "nan"}
)
