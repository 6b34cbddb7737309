"""The privileged process, from its socket's side."""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import standin
from actuation_harness import ORIGINAL_W, ROOT, ServerProcess, other_uid, until

from chase.clock import ManualClock
from zeus_core.actuation.base import ActuationError, Wish
from zeus_core.actuation.listening import listening
from zeus_core.actuation.local import LocalActuator
from zeus_core.actuation.protocol import MAX_BYTES, encode
from zeus_core.actuation.server import Server

LEASE_S = 30.0


class Line:
    """A client at the level of bytes."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(5)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rb")

    def send(self, message: dict[str, Any] | bytes) -> None:
        self.socket.sendall(message if isinstance(message, bytes) else encode(message))

    def read(self) -> dict[str, Any] | None:
        """None at the end."""
        try:
            line = self.file.readline()
        except ConnectionResetError:
            return None
        return json.loads(line) if line else None

    def close(self) -> None:
        self.file.close()
        self.socket.close()


class Desk:
    """A server in this process that moves only when told to, on a clock that does too."""

    def __init__(self, actuator: LocalActuator, listener: socket.socket, path: Path) -> None:
        self.clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.path = path
        self.actuator = actuator
        self.lines: list[Line] = []
        self.server = Server(actuator, listener, uid=os.getuid(), lease_s=LEASE_S, monotonic=self.clock.monotonic)

    def connect(self) -> Line:
        self.lines.append(Line(self.path))
        self.server.step(1)
        return self.lines[-1]

    def control(self) -> Line:
        line = self.connect()
        assert "hello" in line.read()
        return line

    def ask(self, line: Line, message: dict[str, Any] | bytes) -> dict[str, Any] | None:
        line.send(message)
        self.settle()
        return line.read()

    def settle(self) -> None:
        """Let the server deal with everything that has arrived."""
        for _ in range(20):
            self.server.step(0)

    def lower(self, line: Line, *uuids: str) -> None:
        wishes = {uuid: {"power_limit_w": 150.0} for uuid in uuids or self.actuator._held}
        assert "ok" in self.ask(line, {"op": "apply", "wishes": wishes})


@pytest.fixture
def desk(local: LocalActuator, place: Path) -> Iterator[Desk]:
    path = place / "actuator.sock"
    with listening(path, os.getuid()) as listener:
        desk = Desk(local, listener, path)
        yield desk
        desk.server.stop()
        desk.server.serve()
        for line in desk.lines:
            line.close()


def limits(state) -> list[float]:
    return [card.limit_w for card in state]


def count_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# Who may


def test_greeting(desk: Desk):
    """The server speaks first, and says its version, its lease and who it is."""
    hello = desk.connect().read()["hello"]
    assert hello == {"version": 1, "lease_s": LEASE_S, "backend": "local", "pid": os.getpid()}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else than the allowed user")
def test_wrong_uid_is_refused(start_server, standin_state):
    """Whoever is not the one user is told so and can do nothing, root included."""
    server = start_server(gid=0)
    line = Line(server.socket_path)
    error = line.read()["error"]
    assert error["code"] == "uid"
    assert str(other_uid()) in error["message"]
    assert line.read() is None
    line.close()
    assert limits(standin_state) == [ORIGINAL_W] * 2


def test_second_client_is_refused(desk: Desk, standin_state):
    """One client is in control; the next is told its pid, and changes nothing for the first."""
    first = desk.control()
    desk.lower(first)
    second = desk.connect()
    error = second.read()["error"]
    assert (error["code"], error["pid"]) == ("busy", os.getpid())
    assert second.read() is None
    assert limits(standin_state) == [150, 150]
    assert "ok" in desk.ask(first, {"op": "keepalive"})


def test_control_passes_on_when_the_first_is_gone(desk: Desk, standin_state):
    """A new client that comes with the end of the old one gets control, over GPUs that were given back."""
    first = desk.control()
    desk.lower(first)
    first.close()
    second = Line(desk.path)
    desk.lines.append(second)
    desk.server._accept()  # before the end of the first is noticed by itself
    assert "hello" in second.read()
    assert limits(standin_state) == [ORIGINAL_W] * 2
    desk.lower(second)


def test_many_connections(desk: Desk, standin_state):
    """A crowd is turned away one by one, and the client in control does not notice."""
    first = desk.control()
    before = count_descriptors()
    for _ in range(300):
        line = desk.connect()
        assert line.read()["error"]["code"] == "busy"
        line.close()
        desk.lines.remove(line)
    assert count_descriptors() <= before  # what an earlier test left may go meanwhile
    desk.lower(first)
    assert limits(standin_state) == [150, 150]


# What may be said


@pytest.mark.parametrize(
    "message",
    [
        {"op": "reset"},
        {"op": 5},
        {"op": ["apply"]},
        {},
        {"op": "describe", "verbose": True},
        {"op": "keepalive", "lease_s": 1e9},
        {"op": "apply"},
        {"op": "apply", "wishes": []},
        {"op": "apply", "wishes": {"GPU": 150}},
        {"op": "apply", "wishes": {"GPU": {"power_limit_mw": 150000}}},
        {"op": "apply", "wishes": {"GPU": {"power_limit_w": "150"}}},
        {"op": "apply", "wishes": {"GPU": {"power_limit_w": True}}},
        {"op": "apply", "wishes": {"GPU": {"power_limit_w": 10**400}}},
        {"op": "apply", "wishes": {"GPU": {"sm_clock_mhz": 900.5}}},
        {"op": "apply", "wishes": {"GPU": {"sm_clock_mhz": False}}},
        {"op": "apply", "wishes": {"GPU": {"power_limit_w": 150}}, "force": True},
        {"op": "restore"},
        {"op": "restore", "uuids": "GPU"},
        {"op": "restore", "uuids": [1]},
    ],
    ids=str,
)
def test_unknown_is_refused(desk: Desk, standin_state, message):
    """An op, field or type that is not in the protocol is refused; the client may go on."""
    line = desk.control()
    text = json.dumps(message).encode() + b"\n"
    assert desk.ask(line, text)["error"]["code"] == "refused"
    assert limits(standin_state) == [ORIGINAL_W] * 2
    desk.lower(line)


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"hello\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xfe\x00\n",
        b"[]\n",
        b'"apply"\n',
        b'{"op": "describe"\n',
        b'{"op": "describe"} {"op": "describe"}\n',
        b'{"op": "describe", "op": "restore"}\n',
        b'{"op": "apply", "wishes": {"GPU": {"power_limit_w": NaN}}}\n',
        b'{"op": "apply", "wishes": {"GPU": {"power_limit_w": Infinity}}}\n',
        b"[" * 60000 + b"\n",
        b"9" * 60000 + b"\n",
    ],
    ids=lambda data: data[:24],
)
def test_garbage_ends_the_connection(desk: Desk, standin_state, data: bytes):
    """What is no JSON object on one line ends the connection, and so gives everything back."""
    line = desk.control()
    desk.lower(line)
    assert desk.ask(line, data)["error"]["code"] == "broken"
    assert line.read() is None
    assert limits(standin_state) == [ORIGINAL_W] * 2
    desk.lower(desk.control())


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["endless", "ended"])
def test_oversized_message(desk: Desk, standin_state, end: bytes):
    """A message above the limit ends the connection before it is read to its end."""
    line = desk.control()
    desk.lower(line)
    uuid = "x" * (MAX_BYTES + 1)
    data = b'{"op":"restore","uuids":["' + uuid.encode() + b'"]}' + end
    line.socket.setblocking(False)
    sent = 0
    while sent < len(data):
        desk.server.step(0)
        if desk.server._client is None:
            break
        sent += line.socket.send(data[sent : sent + 8192])
    line.socket.settimeout(5)
    desk.settle()
    assert line.read()["error"]["code"] == "broken"
    assert limits(standin_state) == [ORIGINAL_W] * 2


def test_byte_by_byte(desk: Desk, standin_state):
    """A message may come in any pieces, and several in one."""
    line = desk.control()
    text = encode({"op": "apply", "wishes": {standin_state.uuids[0]: {"power_limit_w": 150}}})
    for at in range(len(text)):
        line.send(text[at : at + 1])
        desk.server.step(0)
    assert line.read()["ok"][0]["status"] == "applied"
    line.send(encode({"op": "keepalive"}) * 3)
    desk.settle()
    assert [line.read() for _ in range(3)] == [{"ok": []}] * 3


# The dead man's switch


def test_lease(desk: Desk, standin_state):
    """A client that falls silent loses control when its lease is over, not before, and is told."""
    line = desk.control()
    desk.lower(line)
    desk.clock.advance(LEASE_S - 0.1)
    desk.server.step(0)
    assert limits(standin_state) == [150, 150]
    desk.clock.advance(0.2)
    desk.server.step(0)
    assert limits(standin_state) == [ORIGINAL_W] * 2
    assert line.read()["error"]["code"] == "lease"
    assert line.read() is None


def test_keepalive_renews(desk: Desk, standin_state):
    """Each valid message renews the lease."""
    line = desk.control()
    desk.lower(line)
    for _ in range(5):
        desk.clock.advance(LEASE_S - 1)
        assert desk.ask(line, {"op": "keepalive"}) == {"ok": []}
    assert limits(standin_state) == [150, 150]


def test_half_a_line_renews_nothing(desk: Desk, standin_state):
    """Bytes that never become a message do not count as being alive, and neither does what is refused."""
    line = desk.control()
    desk.lower(line)
    line.send(b'{"op": "resurrect"}\n')
    for piece in (b'{"op":', b' "keep', b"alive"):
        desk.clock.advance(LEASE_S / 3 + 0.1)
        line.send(piece)
        desk.server.step(0)
        if desk.server._client is None:
            break
    assert desk.server._client is None
    assert limits(standin_state) == [ORIGINAL_W] * 2


def test_client_that_never_says_anything(desk: Desk):
    """Control without a word ends with the lease, so that it cannot be kept from others."""
    desk.control()
    desk.clock.advance(LEASE_S + 1)
    desk.server.step(0)
    desk.control()


def test_last_words_are_not_carried_out(desk: Desk, standin_state):
    """A request of a client that is gone already is not obeyed."""
    line = desk.control()
    line.send({"op": "apply", "wishes": {standin_state.uuids[0]: {"power_limit_w": 150}}})
    line.close()
    desk.settle()
    assert [write.watts for write in standin_state.writes()] == [ORIGINAL_W] * 2  # the probes


def test_client_that_does_not_listen(desk: Desk, standin_state, monkeypatch):
    """A client that reads no replies is dropped once they no longer fit, and everything is given back."""
    monkeypatch.setattr("zeus_core.actuation.server.SEND_TIMEOUT_S", 0.05)
    line = desk.control()
    desk.lower(line)
    for _ in range(5000):
        if desk.server._client is None:
            break
        line.socket.setblocking(False)
        if select.select([], [line.socket], [], 0)[1]:
            line.send(encode({"op": "describe"}))
        desk.server.step(0)
    assert desk.server._client is None
    assert limits(standin_state) == [ORIGINAL_W] * 2


def test_debts_are_paid_later(desk: Desk, standin_state):
    """What could not be given back at the end of a connection is tried again every second until it is."""
    line = desk.control()
    desk.lower(line)
    standin_state.fail(standin.SET_LIMIT, standin.UNKNOWN, gpu=0)
    line.close()
    desk.settle()
    assert limits(standin_state) == [150, ORIGINAL_W]
    standin_state.clear()
    desk.settle()
    assert limits(standin_state)[0] == 150
    desk.clock.advance(1.1)
    desk.server.step(0)
    assert limits(standin_state) == [ORIGINAL_W] * 2


def test_leftover_of_a_lost_gpu_is_tried_again(start_server, start_client, standin_state):
    """A leftover that could not be given back at the start is given back as soon as it can be."""
    first = start_server()
    start_client(first.socket_path).apply({uuid: Wish(150) for uuid in standin_state.uuids})
    first.kill()
    standin_state.fail(standin.SET_LIMIT, standin.GPU_IS_LOST, gpu=0)
    start_server()
    assert limits(standin_state) == [150, ORIGINAL_W]
    standin_state.clear()
    until(lambda: limits(standin_state) == [ORIGINAL_W] * 2)


def test_debts_are_said_once(desk: Desk, standin_state, caplog: pytest.LogCaptureFixture):
    """A GPU that stays lost fills no log."""
    line = desk.control()
    desk.lower(line)
    standin_state.fail("*", standin.GPU_IS_LOST, gpu=0)
    with caplog.at_level(logging.INFO):
        line.close()
        for _ in range(50):
            desk.clock.advance(1.1)
            desk.server.step(0)
    assert sum("giving back" in record.message and "lost" in record.message for record in caplog.records) == 1


def test_new_wish_ends_the_debt(desk: Desk, standin_state):
    """A GPU that was owed and is wished for again is not taken from its new client."""
    first = desk.control()
    desk.lower(first)
    fault = standin_state.fail(standin.SET_LIMIT, standin.UNKNOWN, gpu=0)
    first.close()
    desk.settle()
    fault.clear()
    desk.lower(desk.control())
    desk.clock.advance(2)
    desk.server.step(0)
    assert limits(standin_state) == [150, 150]


# The audit


def test_audit_line_per_change(desk: Desk, standin_state, caplog: pytest.LogCaptureFixture):
    """Each change is one line that says who asked for what, and what is in force; no change is no line."""
    line = desk.control()
    with caplog.at_level(logging.INFO, "zeus_core.actuation.server"):
        desk.lower(line, standin_state.uuids[0])
        desk.lower(line, standin_state.uuids[0])
    assert len(caplog.messages) == 1
    for part in (f"uid {os.getuid()} pid {os.getpid()}", standin_state.uuids[0], "asked 150 W", "in force 150 W"):
        assert part in caplog.messages[0]


def test_failure_is_said_once(desk: Desk, standin_state, caplog: pytest.LogCaptureFixture):
    """A GPU that fails at every tick fills no log; one line says it, and another that it is well again."""
    line = desk.control()
    desk.lower(line)
    standin_state[0].limit_w = 180
    with caplog.at_level(logging.INFO, "zeus_core.actuation.server"):
        for _ in range(5):
            desk.lower(line, standin_state.uuids[0])
        standin_state[0].limit_w = 200
        desk.ask(line, {"op": "restore", "uuids": None})
        desk.lower(line, standin_state.uuids[0])
    ours = [record.getMessage() for record in caplog.records if record.name.endswith("server")]
    assert [text.partition(";")[0].split()[-1] for text in ours] == ["foreign", "foreign", "restored", "applied"]


def test_audit_of_the_end(desk: Desk, standin_state, caplog: pytest.LogCaptureFixture):
    """Giving back is on the record too, with the reason."""
    line = desk.control()
    desk.lower(line)
    with caplog.at_level(logging.INFO, "zeus_core.actuation.server"):
        line.close()
        desk.settle()
    assert "no longer in control" in caplog.messages[0]
    assert sum("restored" in message for message in caplog.messages) == 2


# The socket


@pytest.mark.parametrize(("gid", "mode"), [(None, 0o600), (os.getgid(), 0o660)])
def test_socket_belongs_to_the_user(place: Path, gid: int | None, mode: int):
    """The socket has its owner, group and mode from the moment that it has its name."""
    path = place / "made" / "actuator.sock"
    with listening(path, other_uid(), gid):
        info = path.stat()
        assert stat.S_ISSOCK(info.st_mode)
        assert (info.st_uid, stat.S_IMODE(info.st_mode)) == (other_uid(), mode)
        assert list(path.parent.iterdir()) == [path]
    assert not path.exists()


def test_socket_is_nobodys_before_it_is_the_users(place: Path, monkeypatch: pytest.MonkeyPatch):
    """Until the socket has its owner, nobody else may connect."""
    seen = []
    chown = os.chown

    def noted_chown(path: Path, uid: int, gid: int) -> None:
        seen.append(stat.S_IMODE(path.stat().st_mode))
        chown(path, uid, gid)

    monkeypatch.setattr(os, "chown", noted_chown)
    with listening(place / "s", os.getuid()):
        assert set(seen) == {0o600}


def test_umask_is_left_as_it_was(place: Path):
    """Making the socket changes no setting of the process."""
    before = os.umask(0o027)
    try:
        with listening(place / "s", os.getuid()):
            assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_stale_socket_is_replaced(place: Path):
    """What a killed server left does not stop the next."""
    path = place / "s"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    with listening(path, os.getuid()):
        Line(path).close()


def test_file_is_not_replaced(place: Path):
    """A path that is somebody's file stays what it is, even for root."""
    (place / "precious").write_text("data")
    with pytest.raises(ActuationError, match="no socket"), listening(place / "precious", os.getuid()):
        pass
    assert (place / "precious").read_text() == "data"


def test_living_server_is_not_replaced(place: Path):
    """Two servers do not share one path."""
    again = listening(place / "s", os.getuid())
    with listening(place / "s", os.getuid()), pytest.raises(ActuationError, match="another server answers"), again:
        pass


def test_successor_keeps_its_socket(place: Path):
    """A server that ends removes only its own socket."""
    path = place / "s"
    with listening(path, os.getuid()):
        path.unlink()
        successor = socket.socket(socket.AF_UNIX)
        successor.bind(str(path))
    assert path.exists()
    successor.close()


def test_path_too_long(place: Path):
    """A path that no socket can have is said to be too long."""
    with pytest.raises(ActuationError, match="too long"), listening(place / ("x" * 100), os.getuid()):
        pass


def test_place_that_is_none(place: Path):
    """A socket that cannot be made is named, and nothing is left behind."""
    (place / "file").write_text("")
    with pytest.raises(ActuationError, match="cannot listen"), listening(place / "file" / "s", os.getuid()):
        pass
    assert list(place.iterdir()) == [place / "file"]


# The process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_signals_give_back(start_server, start_client, standin_state, number: int):
    """A signal ends the server with everything given back, status 0, and no socket left."""
    server: ServerProcess = start_server()
    assert server.said == b"ready"
    start_client(server.socket_path).tell("churn", list(standin_state.uuids), 1)
    until(lambda: standin_state[0].limit_w != ORIGINAL_W)
    assert server.terminate(number) == 0
    assert limits(standin_state) == [ORIGINAL_W] * 2
    assert not server.socket_path.exists()


def test_status_when_something_is_owed(start_server, start_client, standin_state):
    """A server that cannot give everything back ends with status 1."""
    server = start_server()
    start_client(server.socket_path).tell("churn", list(standin_state.uuids), 1)
    until(lambda: standin_state[0].limit_w != ORIGINAL_W)
    standin_state.fail("*", standin.GPU_IS_LOST, gpu=0)
    assert server.terminate() == 1
    assert limits(standin_state)[1] == ORIGINAL_W


def test_second_server_is_refused(start_server):
    """A second privileged process for the same GPUs does not start."""
    first = start_server()
    second = start_server()
    assert second.said == b""
    assert second.wait() == 1
    assert f"held by process {first.process.pid}" in first.log.read_text()


def test_imports_are_few():
    """The privileged process loads no numpy, pydantic, requests, sqlite or anything of the controller."""
    code = (
        "import sys, zeus_core.actuation.server, zeus_core.actuation.command, zeus_core.gpus.nvml;"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    loaded = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True)
    heavy = {"numpy", "pydantic", "requests", "sqlite3", "chase", "providers", "click", "structlog", "asyncio", "ssl"}
    assert heavy.isdisjoint(loaded.stdout.split())
