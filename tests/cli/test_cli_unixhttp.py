"""The transport to the service's socket, against real servers on real sockets."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from chase import unixhttp
from chase.errors import ChaseError, TryLater


@pytest.fixture
def serve(tmp_path):
    """Start a server that reads one request, answers with the bytes given, and keeps what it was asked."""
    threads = []

    def start(answer: bytes, *, hold: threading.Event | None = None):
        path, asked = tmp_path / "s.sock", []
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
        listener.listen(1)

        def run():
            with listener, listener.accept()[0] as connection:
                asked.append(_read_request(connection))
                if hold is not None:
                    hold.wait(10)
                with contextlib.suppress(BrokenPipeError):  # the client had enough
                    connection.sendall(answer)

        thread = threading.Thread(target=run)
        thread.start()
        threads.append(thread)
        return path, asked

    yield start
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def _read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def _answer(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def _error(status: str, code: str, message: str) -> bytes:
    return _answer(json.dumps({"error": {"code": code, "message": message}}).encode(), status)


def test_a_request_carries_its_body_and_returns_the_object(serve):
    """Method, path and body arrive as given, and the answer comes back as a dict."""
    path, asked = serve(_answer(b'{"lease_s": 30}'))
    assert unixhttp.request(path, "POST", "/v1/jobs", {"name": "x"}) == {"lease_s": 30}
    assert asked[0].startswith(b"POST /v1/jobs HTTP/1.1\r\n")
    assert asked[0].endswith(b'{"name": "x"}')


def test_an_empty_answer_is_an_empty_object(serve):
    """A 204 is as good as {}."""
    path, _ = serve(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
    assert unixhttp.request(path, "DELETE", "/v1/holds", {"job": None}) == {}


@pytest.mark.parametrize(
    ("status", "exit_code"),
    [("400 Bad", 2), ("403 No", 1), ("404 Not found", 2), ("409 Conflict", 1), ("422 Bad", 2), ("500 Broken", 1)],
)
def test_a_refusal_has_its_text_its_code_and_an_exit_code(serve, status, exit_code):
    """What the caller asked wrongly is a usage error; the service's own words are the message."""
    path, _ = serve(_error(status, "some-code", "this is why"))
    with pytest.raises(unixhttp.ApiError, match="this is why") as caught:
        unixhttp.request(path, "GET", "/v1/x")
    assert (caught.value.status, caught.value.code, caught.value.exit_code) == (int(status[:3]), "some-code", exit_code)


@pytest.mark.parametrize("status", ["429 Slow down", "503 Busy"])
def test_busy_means_try_later(serve, status):
    """A service that is busy is not broken."""
    path, _ = serve(_error(status, "busy", "too many jobs"))
    with pytest.raises(TryLater, match="too many jobs"):
        unixhttp.request(path, "GET", "/v1/x")


def test_an_error_without_our_envelope_still_says_its_status(serve):
    """A 500 with another body is told by its number."""
    path, _ = serve(_answer(b'{"detail": "?"}', "500 Broken"))
    with pytest.raises(unixhttp.ApiError, match="HTTP 500"):
        unixhttp.request(path, "GET", "/v1/x")


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"[1]", b"\xff\xfe", b"null", b'{"cut": '])
def test_an_answer_that_is_no_object_is_named_as_such(serve, body):
    """Another program on our socket is found out, not believed."""
    path, _ = serve(_answer(body))
    with pytest.raises(ChaseError, match="not a JSON object"):
        unixhttp.request(path, "GET", "/v1/status")


def test_an_answer_over_the_limit_is_refused(serve):
    """Memory stays bounded whatever the other side sends."""
    path, _ = serve(_answer(b'{"x": "' + b"y" * 2000 + b'"}'))
    with pytest.raises(ChaseError, match="larger than 1000 bytes"):
        unixhttp.request(path, "GET", "/v1/status", max_bytes=1000)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
        b"SSH-2.0-hello\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70000,
    ],
)
def test_a_cut_or_foreign_answer_means_try_later(serve, answer):
    """A service that dies in the middle, or no HTTP at all, is one kind of error."""
    path, _ = serve(answer)
    with pytest.raises(TryLater, match="broke off"):
        unixhttp.request(path, "GET", "/v1/status")


def test_a_service_that_does_not_answer_times_out(serve):
    """A hung service costs the timeout, no more."""
    done = threading.Event()
    path, _ = serve(b"", hold=done)
    try:
        with pytest.raises(TryLater, match="did not answer in time"):
            unixhttp.request(path, "GET", "/v1/status", timeout_s=0.05)
    finally:
        done.set()


def test_no_socket_and_no_listener_mean_try_later(tmp_path):
    """A service that is not there is told with what to do, whether its socket was left behind or not."""
    path = tmp_path / "s.sock"
    with pytest.raises(TryLater, match=r"no service answers at .*chase serve"):
        unixhttp.request(path, "GET", "/v1/status")
    left = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    left.bind(str(path))
    left.close()
    with pytest.raises(TryLater, match="no service answers"):
        unixhttp.request(path, "GET", "/v1/status")


def test_a_path_too_long_for_a_socket_is_said(tmp_path):
    """The kernel's limit of about a hundred characters gets a text with the path."""
    with pytest.raises(ChaseError, match="too long"):
        unixhttp.request(tmp_path / ("x" * 200), "GET", "/v1/status")


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed to be refused")
def test_a_socket_of_others_is_a_matter_of_groups(tmp_path):
    """Permission refused is told as such, not as a service that is down."""
    path = tmp_path / "s.sock"
    code = (
        "import os, sys; from chase import unixhttp; os.setgid(65534); os.setuid(65534)\n"
        "try: unixhttp.request(sys.argv[1], 'GET', '/v1/status')\n"
        "except Exception as e: print(type(e).__name__, e)"
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(1)
        path.chmod(0o660)
        parents = [path.parent, *path.parent.parents[:2]]
        for parent in parents:
            parent.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, timeout=30
        )
    assert done.stdout.startswith("ChaseError")
    assert "socket group" in done.stdout


def test_the_socket_is_looked_for_in_one_order(tmp_path, monkeypatch):
    """CHASE_SOCKET first, then the system's, then the user's; the system's is named when there is none."""
    system, runtime = tmp_path / "system.sock", tmp_path / "run"
    own = runtime / "chase" / "chase.sock"
    own.parent.mkdir(parents=True)
    monkeypatch.setattr(unixhttp, "SYSTEM_SOCKET", system)
    env = {"XDG_RUNTIME_DIR": str(runtime), "HOME": str(tmp_path)}
    assert unixhttp.default_socket(env) == system
    own.touch()
    assert unixhttp.default_socket(env) == own
    system.touch()
    assert unixhttp.default_socket(env) == system
    assert unixhttp.default_socket({**env, "CHASE_SOCKET": "/x.sock"}) == Path("/x.sock")


def test_the_users_socket_is_where_an_unprivileged_service_puts_it(tmp_path, monkeypatch):
    """Without a runtime directory the socket lies beside the state."""
    monkeypatch.setattr(unixhttp, "SYSTEM_SOCKET", tmp_path / "none.sock")
    for env in ({"HOME": str(tmp_path)}, {"HOME": "/nowhere", "XDG_STATE_HOME": str(tmp_path / ".local/state")}):
        own = tmp_path / ".local/state/chase/run/chase.sock"
        own.parent.mkdir(parents=True, exist_ok=True)
        own.touch()
        assert unixhttp.default_socket(env) == own


def test_the_transport_needs_the_standard_library_alone():
    """A training process that imports it gets no dependency."""
    code = "print(*sorted({name.split('.')[0] for name in sys.modules} - sys.stdlib_module_names))"

    def modules(first: str) -> set[str]:
        command = [sys.executable, "-c", f"{first}; {code}"]
        return set(subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.split())

    assert modules("import sys, chase.unixhttp") - modules("import sys") == {"chase"}
