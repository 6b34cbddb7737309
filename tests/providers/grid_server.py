"""A real HTTP server on loopback that answers as it is told: well, slowly, partly, wrongly, elsewhere."""

from __future__ import annotations

import gzip
import json
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

NOW = datetime(2026, 3, 4, 9, 20, tzinfo=UTC)


@dataclass(frozen=True)
class Request:
    """``values`` holds each parameter as often as it was given, ``query`` the last of them."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]
    values: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """``declared`` overrides Content-Length; ``first_s`` and ``each_s`` are silences before headers and each byte."""

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    declared: int | None = None
    first_s: float = 0.0
    each_s: float = 0.0
    chunked: bool = False
    drip_headers: bool = False


Answerer = Callable[[Request], Answer]


def as_json(document: object, status: int = 200, **headers: str) -> Answer:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(json.dumps(document).encode(), status, headers=given)


def html(status: int = 200, text: str = "<!DOCTYPE html><html><body>Sign in</body></html>") -> Answer:
    return Answer(text.encode(), status, content_type="text/html; charset=utf-8")


def cut(answer: Answer) -> Answer:
    """Half of the body under the full length."""
    return Answer(answer.body[: len(answer.body) // 2], answer.status, declared=len(answer.body))


def overlong(answer: Answer) -> Answer:
    """The length declared is too short, so that the reader sees half of the JSON."""
    return Answer(answer.body, answer.status, declared=len(answer.body) // 2)


def silent(seconds: float = 5.0) -> Answer:
    return Answer(b"{}", first_s=seconds)


def dripping(answer: Answer, each_s: float = 0.05, *, chunked: bool = False) -> Answer:
    return Answer(answer.body, each_s=each_s, chunked=chunked)


def zipped(answer: Answer) -> Answer:
    return Answer(gzip.compress(answer.body), answer.status, headers={"Content-Encoding": "gzip"})


def bomb(mebibytes: int) -> Answer:
    """Valid JSON, mostly blanks, in a body a thousandth of its size."""
    packer = zlib.compressobj(wbits=31)
    blanks = b" " * 1024 * 1024
    packed = b"".join([packer.compress(b"{}"), *(packer.compress(blanks) for _ in range(mebibytes)), packer.flush()])
    return Answer(packed, headers={"Content-Encoding": "gzip"})


class GridServer:
    """``answers`` are played in turn, the last one for ever; each may be a function of the request."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.released = threading.Event()
        self._answers: list[Answer | Answerer] = [as_json({})]
        self._lock = threading.Lock()
        self._server = _Quiet(("127.0.0.1", 0), _Handler)
        self._server.grid = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.005,), daemon=True)
        self._thread.start()
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}"

    @property
    def answer(self) -> Answer | Answerer:
        """The one to be played next."""
        return self._answers[0]

    def answer_with(self, *answers: Answer | Answerer) -> None:
        self._answers = list(answers)

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def play(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return answer if isinstance(answer, Answer) else answer(request)


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    grid: GridServer

    def handle_error(self, request, client_address):
        """Clients that hang up are what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the body of each answer waits 40 ms for its headers' receipt
    server: _Quiet

    def do_GET(self):
        parts = urlsplit(self.path)
        values = parse_qs(parts.query)
        query = {name: given[-1] for name, given in values.items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.grid.play(Request(parts.path, query, headers, values))
        self.server.grid.released.wait(answer.first_s)
        if answer.drip_headers:
            self._drip(b"HTTP/1.1 200 OK\r\n" + b"X-Slow: yes\r\n" * 1000, answer.each_s)
        else:
            self._send(answer)

    def _send(self, answer: Answer):
        length = len(answer.body) if answer.declared is None else answer.declared
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header(*(("Transfer-Encoding", "chunked") if answer.chunked else ("Content-Length", str(length))))
        self.end_headers()
        self.close_connection = length != len(answer.body) or answer.chunked
        if answer.chunked:
            self.wfile.write(b"%x\r\n" % len(answer.body))
        self._drip(answer.body, answer.each_s)

    def _drip(self, body: bytes, each_s: float):
        if not each_s:
            self.wfile.write(body)
            return
        for byte in body:
            if self.server.grid.released.wait(each_s):
                return
            self.wfile.write(bytes([byte]))

    def log_message(self, *_):
        """The tests look at ``requests``."""
