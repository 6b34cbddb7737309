"""The same interface over the privileged process's socket, for a service that runs without privileges."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from zeus_core.actuation.base import ActuationError, Applied, GpuState, HeldElsewhere, Wish
from zeus_core.actuation.plan import check_wish
from zeus_core.actuation.protocol import (
    MAX_BYTES,
    VERSION,
    Request,
    applied_from,
    decode,
    encode_request,
    state_from,
)

_T = TypeVar("_T")


class _ConnectionLost(ActuationError):
    """The server is gone, and so is everything that was in force through this connection."""


class RemoteActuator:
    """Connects at the first call, and again after a restart of the server. Thread-safe.

    While nothing is connected nothing of ours is in force: the server gives GPUs back with the connection. So
    ``apply``, ``describe`` and ``restore`` connect anew in silence, while ``keepalive`` raises once.

    Every method but ``close`` may raise ``ActuationError``; ``HeldElsewhere`` with the pid while another client is in
    control.
    """

    backend = "remote"

    def __init__(self, socket_path: Path, *, timeout_s: float = 10.0) -> None:
        self.lease_s: float | None = None  # known once connected
        self._path = socket_path
        self._timeout_s = timeout_s
        self._guard = threading.Lock()
        self._socket: socket.socket | None = None
        self._buffer = b""

    def describe(self) -> tuple[GpuState, ...]:
        return tuple(_parsed(state_from, self._ask(Request("describe"))))

    def apply(self, wishes: Mapping[str, Wish]) -> dict[str, Applied]:
        for uuid, wish in wishes.items():
            check_wish(uuid, wish)
        return self._results(Request("apply", wishes=wishes))

    def restore(self, uuids: Iterable[str] | None = None) -> dict[str, Applied]:
        return self._results(Request("restore", uuids=None if uuids is None else tuple(uuids)))

    def keepalive(self) -> None:
        self._ask(Request("keepalive"), again=False)

    def close(self) -> None:
        """Give back and hang up. A server that cannot be asked gives back because of the hanging up."""
        with self._guard:
            if self._socket is None:
                return
            try:
                self._exchange(Request("restore"))
            except ActuationError:
                pass  # see above
            finally:
                self._hang_up()

    def _results(self, request: Request) -> dict[str, Applied]:
        return {applied.uuid: applied for applied in _parsed(applied_from, self._ask(request))}

    def _ask(self, request: Request, *, again: bool = True) -> list[dict[str, Any]]:
        """``again``: on a connection that was lost since the last call, ask once more on a new one."""
        with self._guard:
            fresh = self._socket is None
            try:
                return self._exchange(request)
            except _ConnectionLost:
                if fresh or not again:
                    raise
            return self._exchange(request)

    def _exchange(self, request: Request) -> list[dict[str, Any]]:
        data = encode_request(request)
        if len(data) > MAX_BYTES:
            raise ActuationError(f"a request of {len(data)} bytes is too large: it may have {MAX_BYTES}")
        connection = self._socket or self._connect()
        try:
            reply = self._converse(connection, data)
        except TimeoutError as error:
            self._hang_up()
            raise ActuationError(
                f"the actuator at {self._path} did not answer within {self._timeout_s:g} s; "
                "the connection is closed, so that it gives the GPUs back"
            ) from error
        except OSError as error:
            self._hang_up()
            raise _ConnectionLost(
                f"the connection to the actuator at {self._path} was lost ({error}); "
                "it gives the GPUs back, if need be at its next start"
            ) from error
        if "error" in reply:
            raise _refusal(reply)
        results = reply.get("ok")
        if not isinstance(results, list):
            raise _broken(f"neither ok nor error in {sorted(reply)}")
        return results

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._buffer = b""
        try:
            connection.settimeout(self._timeout_s)
            connection.connect(str(self._path))
            hello = self._read_line(connection, time.monotonic() + self._timeout_s)
            self.lease_s = _lease_of(hello)
        except OSError as error:
            connection.close()
            raise ActuationError(self._unreachable(error)) from error
        except ActuationError:
            connection.close()
            raise
        self._socket = connection
        return connection

    def _converse(self, connection: socket.socket, data: bytes) -> dict[str, Any]:
        deadline = time.monotonic() + self._timeout_s
        connection.settimeout(self._timeout_s)
        connection.sendall(data)
        return self._read_line(connection, deadline)

    def _read_line(self, connection: socket.socket, deadline: float) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            if len(self._buffer) > MAX_BYTES:
                raise _broken(f"a line of more than {MAX_BYTES} bytes")
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            data = connection.recv(MAX_BYTES)
            if not data:
                raise ConnectionResetError("the server closed it")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return decode(line)

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _unreachable(self, error: OSError) -> str:
        if isinstance(error, PermissionError):
            return f"uid {os.geteuid()} may not connect to {self._path}: start `chase actuator` for this uid"
        return f"no actuator answers at {self._path} ({error}): is `chase actuator` running?"


def _lease_of(hello: Mapping[str, Any]) -> float:
    """Of the server's greeting. Raises ``HeldElsewhere`` or ``ActuationError`` where it is none."""
    if "error" in hello:
        raise _refusal(hello)
    try:
        greeting = hello["hello"]
        version, lease_s = greeting["version"], float(greeting["lease_s"])
    except (KeyError, TypeError, ValueError) as error:
        raise _broken("its greeting") from error
    if version != VERSION:
        raise ActuationError(f"the actuator speaks version {version}, this client {VERSION}: update both together")
    return lease_s


def _refusal(reply: Mapping[str, Any]) -> ActuationError:
    error = reply["error"]
    if not isinstance(error, dict):
        return _broken("its error")
    message = f"the actuator refused: {error.get('message')}"
    if error.get("code") == "busy":
        return HeldElsewhere(message, pid=error.get("pid"))
    return ActuationError(message)


def _parsed(parse: Callable[[Mapping[str, Any]], _T], results: Iterable[Mapping[str, Any]]) -> list[_T]:
    try:
        return [parse(result) for result in results]
    except (KeyError, TypeError, ValueError) as error:
        raise _broken(str(error)) from error


def _broken(what: str) -> ActuationError:
    return ActuationError(f"the actuator broke its protocol: {what}")
