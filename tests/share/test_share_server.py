"""Where the share listens, and what it must have before it does."""

from __future__ import annotations

import socket

import pytest
from share_bench import TOKEN, Caller, span

from chase.config import load
from chase.config.models import ShareConfig
from chase.errors import ChaseError, ConfigError
from chase.service import needs_restart
from chase.share.server import ShareServer


def start(listen: str, token_env: str | None = None, **env: str) -> ShareServer:
    return ShareServer(ShareConfig(listen=listen, token_env=token_env), [], env=env)


def test_it_listens_until_it_is_closed():
    """On the port that it tells; afterwards nobody does."""
    server = start("127.0.0.1:0")
    caller = Caller(server.url)
    assert caller.get("/v1/grid/xx/intensity", span(1, 1)).status == 404
    server.close()
    with pytest.raises(ConnectionRefusedError):
        caller.get("/")


def test_version_six_has_brackets():
    """In the address it is given, and in the one it tells."""
    try:
        server = start("[::1]:0")
    except ChaseError:
        pytest.skip("this machine has no IPv6")
    try:
        assert server.url.startswith("http://[::1]:")
        assert Caller(server.url).get("/").status == 404
    finally:
        server.close()


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "node-7.cluster:8420"])
def test_without_a_token_it_does_not_listen_to_other_machines(listen):
    """Also where the check of the configuration was passed by."""
    with pytest.raises(ConfigError, match=r"can be reached from other machines; set share\.token_env"):
        start(listen)


@pytest.mark.parametrize(
    "token", ["", "short", "x" * 15, "letters and spaces in it", "ünïcödé-ünïcödé-ünïcödé", "new\nline-new-line-new"]
)
def test_a_token_that_protects_nothing_is_refused(token):
    """Missing, short, or not what a header can carry: the error names the variable and not what it holds."""
    with pytest.raises(ConfigError, match=r"share\.token_env: FLEET holds no token of at least 16") as caught:
        start("127.0.0.1:0", "FLEET", FLEET=token)
    assert not token or token not in str(caught.value)


def test_a_token_is_wanted_where_one_is_named():
    """On this machine too."""
    server = start("127.0.0.1:0", "FLEET", FLEET=f" {TOKEN}\n")
    try:
        caller = Caller(server.url)
        assert caller.get("/").status == 401
        assert caller.get("/", Authorization=f"Bearer {TOKEN}").status == 404
        assert TOKEN not in repr(server)
    finally:
        server.close()


def test_a_port_that_is_taken():
    """The error names the key, the address and the reason."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ChaseError, match=rf"share\.listen: cannot listen on 127\.0\.0\.1 port {port}: .*in use"):
            start(f"127.0.0.1:{port}")


def test_an_address_that_is_not_ours():
    """TEST-NET is nobody's."""
    with pytest.raises(ChaseError, match=r"share\.listen: cannot listen on 192\.0\.2\.1"):
        start("192.0.2.1:8420", "FLEET", FLEET=TOKEN)


def test_a_reload_says_that_sharing_needs_a_restart(tmp_path):
    """The port stays as it was, and the event names the key."""
    loads = (load(overrides={"share.listen": listen}, env={"HOME": str(tmp_path)}) for listen in (None, "127.0.0.1:0"))
    assert needs_restart(*loads) == ["share.listen"]
