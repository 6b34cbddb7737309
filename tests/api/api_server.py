"""A served API and callers of it, other users included."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any

from chase.api import create_app
from chase.serving import ApiServer
from chase.unixhttp import request


class Served:
    """One controller's API at ``path``, where every user can reach it."""

    def __init__(self, bench: Any) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="api-"))
        self._folder.chmod(0o755)
        self.path = self._folder / "chase.sock"
        app = create_app(bench.controller, lambda: bench.loaded.config, lambda: {"clock_rate": 1.0, "pid": os.getpid()})
        self._server = ApiServer(app, self.path, None)
        self.mode = self.path.stat().st_mode & 0o777
        self.path.chmod(0o666)

    def close(self) -> None:
        self._server.close()
        shutil.rmtree(self._folder)

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        return request(self.path, method, path, body)

    def raw(self, data: bytes) -> tuple[int, dict[str, Any]]:
        """Whatever bytes; the status and body of the answer."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(5)
            sock.connect(str(self.path))
            sock.sendall(data)
            answer = b""
            while chunk := sock.recv(65536):
                answer += chunk
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body) if body.startswith(b"{") else {}

    def post(
        self, path: str, body: bytes, *, headers: bytes = b"", length: int | None = None
    ) -> tuple[int, dict[str, Any]]:
        size = len(body) if length is None else length
        head = b"POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n" % path.encode()
        return self.raw(head + headers + b"Content-Length: %d\r\n\r\n" % size + body)

    def as_user(self, uid: int, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """The same from a process of another user; root only."""
        data = json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
        message = head.encode() + b"Content-Length: %d\r\n\r\n" % len(data) + data
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                os.write(writer, json.dumps(self.raw(message)).encode())
            finally:
                os._exit(0)
        os.close(writer)
        os.waitpid(pid, 0)
        with os.fdopen(reader, "rb") as pipe:
            status, answer = json.loads(pipe.read())
        return status, answer
