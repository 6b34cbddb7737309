"""The client of the privileged process, when things go wrong on the other side."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from actuation_harness import NOBODY, ORIGINAL_W, until

from zeus_core.actuation.base import ActuationError, HeldElsewhere, Status, Wish
from zeus_core.actuation.protocol import MAX_BYTES, encode
from zeus_core.actuation.remote import RemoteActuator

HELLO = encode({"hello": {"version": 1, "lease_s": 30, "backend": "local", "pid": 1}})


def limits(state) -> list[float]:
    return [card.limit_w for card in state]


@pytest.fixture
def remote(start_server) -> Iterator[RemoteActuator]:
    """A client in this process."""
    server = start_server(uid=os.getuid())
    actuator = RemoteActuator(server.socket_path)
    yield actuator
    actuator.close()


@pytest.fixture
def impostor(place: Path) -> Iterator[Callable[..., RemoteActuator]]:
    """A client of a server that says the given bytes: first on connection, then after each request."""
    path = place / "impostor.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    threads: list[threading.Thread] = []
    clients: list[RemoteActuator] = []

    def speak(says: tuple[bytes, ...]) -> None:
        connection, _ = listener.accept()
        with connection:
            for words in says:
                connection.sendall(words)
                if not connection.recv(MAX_BYTES):
                    return

    def make(*says: bytes, timeout_s: float = 5.0) -> RemoteActuator:
        threads.append(threading.Thread(target=speak, args=(says,)))
        threads[-1].start()
        clients.append(RemoteActuator(path, timeout_s=timeout_s))
        return clients[-1]

    yield make
    for client in clients:
        client._hang_up()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()
    listener.close()


def test_nothing_is_asked_before_the_first_call(place: Path):
    """A client can be made before its server is there, and closed again."""
    RemoteActuator(place / "nothing.sock").close()


def test_no_server(place: Path):
    """Where nobody listens, the text says what to start."""
    actuator = RemoteActuator(place / "nothing.sock")
    for call in (actuator.describe, actuator.keepalive, actuator.restore, lambda: actuator.apply({})):
        with pytest.raises(ActuationError, match="is `chase actuator` running"):
            call()


def test_dead_socket(place: Path):
    """A socket without a server is no server."""
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(place / "dead.sock"))
    dead.close()
    with pytest.raises(ActuationError, match="is `chase actuator` running"):
        RemoteActuator(place / "dead.sock").describe()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a client of another user")
def test_user_who_may_not_connect(start_server, start_client):
    """A user who may not open the socket is told which uid may not."""
    server = start_server(uid=os.getuid())
    client = start_client(server.socket_path, NOBODY)
    with pytest.raises(ActuationError, match=f"uid {NOBODY} may not connect"):
        client.describe()


def test_lease_is_known(remote: RemoteActuator):
    """Once connected, the client knows how often it must be heard."""
    assert remote.lease_s is None
    remote.describe()
    assert remote.lease_s == 30.0


def test_second_client(remote: RemoteActuator, standin_state):
    """A client that comes second learns who is in control."""
    remote.describe()
    second = RemoteActuator(remote._path)
    with pytest.raises(HeldElsewhere, match="in control") as raised:
        second.apply({standin_state.uuids[0]: Wish(150)})
    assert raised.value.pid == os.getpid()


def test_restart_of_the_server(start_server, standin_state):
    """After a restart the next call connects anew, and the limits set before are gone."""
    uuid = standin_state.uuids[0]
    server = start_server(uid=os.getuid())
    actuator = RemoteActuator(server.socket_path)
    actuator.apply({uuid: Wish(150)})
    assert server.terminate() == 0
    assert limits(standin_state)[0] == ORIGINAL_W
    with pytest.raises(ActuationError, match="is `chase actuator` running"):
        actuator.apply({uuid: Wish(150)})
    start_server(uid=os.getuid())
    assert actuator.apply({uuid: Wish(150)})[uuid].status is Status.APPLIED
    actuator.close()
    assert limits(standin_state)[0] == ORIGINAL_W


def test_restart_between_two_calls(start_server, standin_state):
    """A server restarted while nobody asked is not noticed by apply, which sets again."""
    uuid = standin_state.uuids[0]
    server = start_server(uid=os.getuid())
    actuator = RemoteActuator(server.socket_path)
    actuator.apply({uuid: Wish(150)})
    server.terminate()
    start_server(uid=os.getuid())
    assert actuator.apply({uuid: Wish(150)})[uuid].status is Status.APPLIED
    actuator.close()


def test_keepalive_tells_of_a_lost_connection(start_server, standin_state):
    """A keepalive that finds the connection gone raises once, so that the caller knows that nothing is in force."""
    server = start_server(uid=os.getuid())
    actuator = RemoteActuator(server.socket_path)
    actuator.apply({standin_state.uuids[0]: Wish(150)})
    server.terminate()
    start_server(uid=os.getuid())
    with pytest.raises(ActuationError, match="lost"):
        actuator.keepalive()
    actuator.keepalive()
    actuator.close()


def test_lease_that_ran_out(start_server, standin_state):
    """A client that was silent for too long finds its GPUs given back, and may go on."""
    uuid = standin_state.uuids[0]
    server = start_server(uid=os.getuid(), lease_s=0.2)
    actuator = RemoteActuator(server.socket_path)
    actuator.apply({uuid: Wish(150)})
    until(lambda: limits(standin_state)[0] == ORIGINAL_W)
    with pytest.raises(ActuationError, match="lost"):
        actuator.keepalive()
    assert actuator.apply({uuid: Wish(150)})[uuid].status is Status.APPLIED
    actuator.close()


def test_server_that_does_not_answer(start_server, standin_state):
    """A server that hangs costs its timeout, no more, and the connection is given up."""
    server = start_server(uid=os.getuid())
    actuator = RemoteActuator(server.socket_path, timeout_s=0.3)
    actuator.apply({standin_state.uuids[0]: Wish(150)})
    server.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(ActuationError, match=r"did not answer within 0\.3 s"):
        actuator.keepalive()
    assert time.monotonic() - began < 2
    server.process.send_signal(signal.SIGCONT)
    until(lambda: limits(standin_state)[0] == ORIGINAL_W)


def test_close_of_a_dead_server(start_server, standin_state):
    """Closing never raises."""
    server = start_server(uid=os.getuid())
    actuator = RemoteActuator(server.socket_path)
    actuator.apply({standin_state.uuids[0]: Wish(150)})
    server.kill()
    actuator.close()
    actuator.close()


def test_threads_share_a_connection(remote: RemoteActuator, standin_state):
    """Answers reach the thread that asked."""
    first, second = standin_state.uuids
    wrong: list[str] = []

    def work(uuid: str) -> None:
        wrong.extend(uuid for _ in range(20) if list(remote.apply({uuid: Wish(150)})) != [uuid])

    threads = [threading.Thread(target=work, args=(uuid,)) for uuid in (first, second, first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_request_too_large(remote: RemoteActuator):
    """A request above the limit is refused here, and the connection stays."""
    remote.describe()
    with pytest.raises(ActuationError, match="too large"):
        remote.restore(["GPU-" + "x" * 90] * 1000)
    remote.keepalive()


def test_error_reply_keeps_the_connection(remote: RemoteActuator, standin_state):
    """A refusal is told in the server's words, and nothing in force is lost by it."""
    uuid = standin_state.uuids[0]
    remote.apply({uuid: Wish(150)})
    with pytest.raises(ActuationError, match="sm_clock_mhz"):
        remote.apply({uuid: Wish(150, 10**9)})
    remote.keepalive()
    assert limits(standin_state)[0] == 150


@pytest.mark.parametrize(
    "hello",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"{}\n",
        b"[]\n",
        b'{"hello": null}\n',
        b'{"hello": {"version": 1, "lease_s": "soon"}}\n',
        b'{"error": "no"}\n',
        b"x" * (2 * MAX_BYTES),
    ],
    ids=lambda data: data[:30],
)
def test_greeting_that_is_none(impostor, hello: bytes):
    """Whoever else listens there is not taken for an actuator."""
    with pytest.raises(ActuationError):
        impostor(hello).describe()


def test_other_version(impostor):
    """A server of another version is named as that."""
    hello = encode({"hello": {"version": 2, "lease_s": 30}})
    with pytest.raises(ActuationError, match="update both"):
        impostor(hello).describe()


def test_server_that_hangs_up_at_once(impostor):
    """A connection that ends before its greeting is an actuator that is not there."""
    with pytest.raises(ActuationError, match="closed it"):
        impostor().describe()


@pytest.mark.parametrize(
    "reply",
    [
        b"nonsense\n",
        b"{}\n",
        b'{"ok": {}}\n',
        b'{"ok": [5]}\n',
        b'{"ok": [{"uuid": "a"}]}\n',
        b'{"ok": [{"uuid": "a", "status": "splendid"}]}\n',
        b'{"ok": [{"uuid": "a", "status": "applied", "colour": "red"}]}\n',
        b'{"error": {"code": "refused", "message": "no"}}\n',
    ],
    ids=lambda data: data[:50],
)
def test_reply_that_is_none(impostor, reply: bytes):
    """A reply that is not in the protocol is an error, not a result."""
    with pytest.raises(ActuationError):
        impostor(HELLO, reply).apply({"a": Wish(150)})


def test_slow_drip(impostor):
    """A reply that never ends is given up at the timeout, however steadily it comes."""
    actuator = impostor(HELLO, b"{", timeout_s=0.2)
    with pytest.raises(ActuationError, match="did not answer"):
        actuator.describe()
