"""HTTP over the service's Unix socket, with the standard library alone: shared by the client and the CLI.

One request, one connection, one JSON object back. Nothing here retries; the caller knows whether it may wait.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import stat
import time
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from chase.errors import ChaseError, TryLater

MAX_BYTES = 8 * 1024 * 1024
SYSTEM_SOCKET = Path("/run/chase/chase.sock")

_USAGE = frozenset({400, 404, 413, 422})  # what was asked is wrong
_LATER = frozenset({429, 503})


class ApiError(ChaseError):
    """The service answered with an error. ``status`` is HTTP's, ``code`` the service's own stable word."""

    def __init__(self, message: str, *, status: int, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.exit_code = 2 if status in _USAGE else 1


def default_socket(env: Mapping[str, str] = os.environ) -> Path:
    """Where a client looks: ``CHASE_SOCKET``, else the system's service, else the user's own."""
    if env.get("CHASE_SOCKET"):
        return Path(env["CHASE_SOCKET"])
    return next((path for path in (SYSTEM_SOCKET, _user_socket(env)) if _exists(path)), SYSTEM_SOCKET)


def request(
    socket_path: Path | str,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    timeout_s: float = 5.0,
    max_bytes: int = MAX_BYTES,
) -> dict[str, Any]:
    """The JSON object that ``method path`` answers with. ``timeout_s`` bounds the whole of it, not each read.

    Raises ``TryLater`` when nobody answers or the service says that it is busy, ``ApiError`` for any other
    refusal, and ``ChaseError`` when the socket may not be used or the answer is not ours.
    """
    connection = _Connection(Path(socket_path), timeout_s)
    payload = None if body is None else json.dumps(body, allow_nan=False).encode()
    try:
        connection.request(method, path, payload, {"Content-Type": "application/json", "Connection": "close"})
        response = connection.getresponse()
        raw = response.read(max_bytes + 1)
        if len(raw) <= max_bytes and response.length:  # a bounded read does not tell of a cut by itself
            raise http.client.IncompleteRead(raw, response.length)
    except (OSError, http.client.HTTPException) as error:
        raise _unreachable(Path(socket_path), error) from error
    finally:
        connection.close()
    if len(raw) > max_bytes:
        raise ChaseError(f"the answer to {method} {path} at {socket_path} is larger than {max_bytes} bytes")
    return _parse(response.status, raw, f"{method} {path} at {socket_path}")


class _Connection(http.client.HTTPConnection):
    def __init__(self, socket_path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = socket_path

    def connect(self) -> None:
        self.sock = _Socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class _Socket(socket.socket):
    """One deadline for all reads: a peer that drips its answer byte by byte cannot hold the caller for ever."""

    _deadline_s = 0.0

    def connect(self, address: Any) -> None:
        self._deadline_s = time.monotonic() + (self.gettimeout() or 0.0)
        super().connect(address)

    def recv_into(self, *args: Any) -> int:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        self.settimeout(left_s)
        return super().recv_into(*args)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a directory that we may not look into
        return False


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:  # gone again
        return True


def _user_socket(env: Mapping[str, str]) -> Path:
    """The same rule as the configuration's ``run_dir`` of an unprivileged service."""
    if env.get("XDG_RUNTIME_DIR"):
        return Path(env["XDG_RUNTIME_DIR"]) / "chase" / "chase.sock"
    state = env.get("XDG_STATE_HOME") or str(Path(env.get("HOME") or "~").expanduser() / ".local" / "state")
    return Path(state) / "chase" / "run" / "chase.sock"


def _unreachable(path: Path, error: OSError | http.client.HTTPException) -> ChaseError:
    if isinstance(error, PermissionError):
        return ChaseError(f"{path}: not yours to use; ask to be put into the service's socket group ({error})")
    if isinstance(error, ConnectionRefusedError) and not _is_socket(path):
        return ChaseError(f"{path} is not a socket; name the service's with --socket or CHASE_SOCKET")
    if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
        return TryLater(f"no service answers at {path}; start one with 'chase serve', or name its socket with --socket")
    if isinstance(error, TimeoutError):
        return TryLater(f"the service at {path} did not answer in time")
    if type(error) is OSError and not error.errno:  # the path is longer than a socket's may be
        return ChaseError(f"{path}: {error}")
    return TryLater(f"the service at {path} broke off: {error or type(error).__name__}")


def _parse(status: int, raw: bytes, what: str) -> dict[str, Any]:
    try:
        data = json.loads(raw) if raw else {}
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) and status in _LATER:  # a server too busy to reach our own code
        raise TryLater(f"the service is busy (HTTP {status} for {what})")
    if not isinstance(data, dict):
        raise ChaseError(f"the answer to {what} (HTTP {status}) is not a JSON object; is another program there?")
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return data
    error = data.get("error")
    error = error if isinstance(error, dict) else {}
    message = str(error.get("message") or f"HTTP {status} for {what}")
    if status in _LATER:
        raise TryLater(message)
    raise ApiError(message, status=status, code=str(error.get("code", "")))
