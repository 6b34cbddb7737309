"""The privileged process: sets GPUs on behalf of one uid, and gives them back when that client is gone.

It has no network, no database and no configuration of its own. One client is in control at a time, known by the
kernel's word (SO_PEERCRED). It is a dead man's switch: when the connection ends, or nothing valid was heard for a
lease, every GPU gets its original back at once; what fails is tried again every second. Killed itself, it leaves the
journal, which the next start and ``restore_leftovers`` read.
"""

from __future__ import annotations

import logging
import os
import select
import selectors
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from zeus_core.actuation.base import ActuationError, Applied, GpuState, Status
from zeus_core.actuation.listening import listening
from zeus_core.actuation.local import LocalActuator
from zeus_core.actuation.protocol import (
    MAX_BYTES,
    VERSION,
    ProtocolError,
    Request,
    decode_request,
    encode,
    encode_error,
    encode_ok,
)
from zeus_core.actuation.setter import Setter
from zeus_core.gpus.base import GpuSystem

log = logging.getLogger(__name__)

SEND_TIMEOUT_S = 2.0
RETRY_S = 1.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_REMEMBERED = 256
_QUIET = frozenset({Status.UNCHANGED, Status.NOTHING})


def run(
    system: GpuSystem,
    *,
    socket_path: Path,
    uid: int,
    gid: int | None = None,
    state_dir: Path,
    lock_dir: Path,
    lease_s: float,
    ramp_w_per_s: float,
    setter: Setter | None = None,
    ready: Callable[[], None] = lambda: None,
) -> int:
    """Serve ``uid`` until SIGTERM, SIGINT or SIGHUP; 0 when every GPU has been given back, 1 otherwise.

    ``ready`` is called once connections are accepted. Raises ``ActuationError`` when it cannot start. Main thread only.
    """
    actuator = LocalActuator(system, state_dir=state_dir, lock_dir=lock_dir, ramp_w_per_s=ramp_w_per_s, setter=setter)
    try:
        with listening(socket_path, uid, gid) as listener:
            server = Server(actuator, listener, uid=uid, lease_s=lease_s)
            with _stopped_by_signals(server.stop):
                ready()
                server.serve()
    finally:
        actuator.close()
    return 1 if actuator.owed else 0


@dataclass(slots=True)
class _Client:
    connection: socket.socket
    pid: int
    uid: int
    deadline: float
    buffer: bytearray = field(default_factory=bytearray)

    def __str__(self) -> str:
        return f"uid {self.uid} pid {self.pid}"


class Server:
    """One listener, at most one client, one thread. ``step`` is one round of the loop that ``serve`` runs."""

    def __init__(
        self,
        actuator: LocalActuator,
        listener: socket.socket,
        *,
        uid: int,
        lease_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._actuator = actuator
        self._listener = listener
        self._uid = uid
        self._lease_s = lease_s
        self._monotonic = monotonic
        self._client: _Client | None = None
        self._debts = actuator.owed  # of leftovers that could not be given back at the start
        self._retry_at = monotonic() + RETRY_S
        self._stopping = False
        self._said: dict[str, str] = {}
        self._woken, self._wake = socket.socketpair()
        self._wake.setblocking(False)
        listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def serve(self) -> None:
        """Until ``stop``. Whatever ends it, the GPUs are given back."""
        try:
            while not self._stopping:
                self.step(self._patience_s())
        finally:
            self._drop("the actuator stops")
            for each in (self._selector, self._woken, self._wake):
                each.close()

    def stop(self) -> None:
        """From any thread or signal handler."""
        self._stopping = True
        with suppress(OSError):
            self._wake.send(b"\0")

    def step(self, timeout_s: float | None) -> None:
        """Wait for what happens, at most ``timeout_s`` (None is for ever), and deal with it."""
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._listener:
                self._accept()
            elif self._client and key.fileobj is self._client.connection:
                self._receive(self._client)
        if self._client and self._monotonic() >= self._client.deadline:
            self._send(self._client, encode_error("lease", f"nothing was heard for {self._lease_s:g} s"))
            self._drop("its lease is over")
        if self._debts and self._monotonic() >= self._retry_at:
            self._give_back(self._debts)

    def _patience_s(self) -> float | None:
        due = [self._client.deadline] if self._client else []
        due += [self._retry_at] if self._debts else []
        return max(0.0, min(due) - self._monotonic()) if due else None

    # Who is in control

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            log.warning("a connection could not be accepted: %s", error)
            return
        connection.settimeout(SEND_TIMEOUT_S)
        pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        client = _Client(connection, pid, uid, self._monotonic() + self._lease_s)
        if self._client and _hung_up(self._client.connection):
            self._drop("it is gone")
        if uid != self._uid:
            self._refuse(client, "uid", f"this actuator serves uid {self._uid}, not uid {uid}", None)
        elif self._client:
            self._refuse(client, "busy", f"process {self._client.pid} is in control", self._client.pid)
        else:
            self._welcome(client)

    def _welcome(self, client: _Client) -> None:
        self._client = client
        self._selector.register(client.connection, selectors.EVENT_READ)
        log.info("%s is in control", client)
        hello = {
            "version": VERSION,
            "lease_s": self._lease_s,
            "backend": self._actuator.backend,
            "pid": os.getpid(),
        }
        self._send(client, encode({"hello": hello}))

    def _refuse(self, client: _Client, code: str, message: str, holder: int | None) -> None:
        log.warning("%s refused: %s", client, message)
        with client.connection, suppress(OSError):
            client.connection.sendall(encode_error(code, message, holder))

    def _drop(self, reason: str) -> None:
        if self._client:
            log.info("%s is no longer in control: %s", self._client, reason)
            self._selector.unregister(self._client.connection)
            self._client.connection.close()
            self._client = None
        self._give_back(self._actuator.owed)

    def _give_back(self, uuids: frozenset[str]) -> None:
        results = self._actuator.restore(uuids)
        self._debts = self._actuator.owed & uuids
        self._retry_at = self._monotonic() + RETRY_S
        for applied in results.values():
            self._audit("giving back", applied)

    # What is asked

    def _receive(self, client: _Client) -> None:
        try:
            data = b"" if _hung_up(client.connection) else client.connection.recv(MAX_BYTES)
        except OSError:
            data = b""
        if not data:
            self._drop("it is gone")
            return
        client.buffer += data
        while self._client is client and (end := client.buffer.find(b"\n")) >= 0:
            line = bytes(client.buffer[:end])
            del client.buffer[: end + 1]
            self._answer(client, line)
        if self._client is client and len(client.buffer) > MAX_BYTES:
            self._answer(client, bytes(client.buffer))

    def _answer(self, client: _Client, line: bytes) -> None:
        try:
            request = decode_request(line)
            reply = encode_ok(self._perform(client, request))
            client.deadline = self._monotonic() + self._lease_s
        except ProtocolError as error:
            log.warning("%s: refused: %s", client, error)
            self._send(client, encode_error(error.code, str(error)))
            if error.broken:
                self._drop("it broke the protocol")
            return
        except ActuationError as error:
            reply = encode_error("refused", str(error))
        self._send(client, reply)

    def _perform(self, client: _Client, request: Request) -> tuple[Applied | GpuState, ...]:
        if request.op == "describe":
            return self._actuator.describe()
        if request.op == "keepalive":
            return ()
        results: Mapping[str, Applied]
        if request.op == "apply":
            self._debts -= request.wishes.keys()
            results = self._actuator.apply(request.wishes)
        else:
            results = self._actuator.restore(request.uuids)
        for applied in results.values():
            self._audit(f"{client}: {request.op}", applied)
        return tuple(results.values())

    def _audit(self, who: str, applied: Applied) -> None:
        """A line per change, and one for a failure, however often it is met again."""
        if applied.status in _QUIET:
            self._said.pop(applied.uuid, None)
            return
        text = _in_words(applied)
        if applied.status.good or self._said.get(applied.uuid) != text:
            log.log(logging.INFO if applied.status.good else logging.WARNING, "%s: %s", who, text)
        if len(self._said) >= _REMEMBERED:
            self._said.clear()
        self._said[applied.uuid] = text

    def _send(self, client: _Client, data: bytes) -> None:
        """A client that does not read is as good as gone."""
        try:
            client.connection.sendall(data)
        except OSError as error:
            if self._client is client:
                self._drop(f"it does not listen: {error}")


def _in_words(applied: Applied) -> str:
    figures = (
        ("asked", applied.requested_w, "W"),
        ("set", applied.set_w, "W"),
        ("in force", applied.enforced_w, "W"),
        ("SM clocks", applied.sm_clock_mhz, "MHz"),
    )
    known = [f"{name} {value:g} {unit}" for name, value, unit in figures if value is not None]
    return "; ".join([f"{applied.uuid} {applied.status}", *known, *([applied.detail] if applied.detail else [])])


def _hung_up(connection: socket.socket) -> bool:
    """Whether the other end is closed, even with unread data before the end: nobody waits for an answer to it."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    def handle(number: int, _frame: FrameType | None) -> None:
        log.info("%s: giving everything back", signal.Signals(number).name)
        stop()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
