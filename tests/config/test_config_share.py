"""Where the signal may be shared, and what protects it."""

from __future__ import annotations

import pytest

from chase.build import keep_of
from chase.config import load
from chase.config.fields import is_loopback, split_address
from chase.errors import ConfigError
from chase.store import Keep


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [
        ("127.0.0.1:8420", "127.0.0.1", 8420),
        ("[::1]:0", "::1", 0),
        ("localhost:65535", "localhost", 65535),
        ("127.9.9.9:1", "127.9.9.9", 1),
    ],
)
def test_an_address_of_this_machine_needs_no_token(env, listen, host, port):
    """Loopback in each of its forms: host and port are read, and nothing else is asked for."""
    share = load(overrides={"share.listen": listen}, env=env).config.share
    assert split_address(share.listen) == (host, port)
    assert is_loopback(host)


@pytest.mark.parametrize(
    "listen",
    [
        "8420",
        ":8420",
        "127.0.0.1",
        "::1:8420",
        "[::1]",
        "host:http",
        "host:65536",
        "host:-1",
        "http://host:80",
        "a b:80",
        "",
    ],
)
def test_what_is_no_address_is_refused(env, listen):
    """The error names the key and the form."""
    with pytest.raises(ConfigError, match=r"share\.listen.*must be HOST:PORT, such as 127\.0\.0\.1:8420"):
        load(overrides={"share.listen": listen}, env=env)


@pytest.mark.parametrize("listen", ["0.0.0.0:8420", "[::]:8420", "10.0.0.5:8420", "gpu-node-7:8420", "localhost.:80"])
def test_other_machines_need_a_token(env, listen):
    """Any other address, and any name, which may be anybody's."""
    with pytest.raises(ConfigError, match=r"share\.listen and share\.token_env: .*name a token with token_env"):
        load(overrides={"share.listen": listen}, env=env)
    named = load(overrides={"share.listen": listen, "share.token_env": "TOKEN"}, env=env)
    assert named.config.share.token_env == "TOKEN"


def test_nothing_is_shared_unless_asked_for(env):
    """By default no port is open."""
    assert load(env=env).config.share.listen is None


def test_the_store_keeps_what_is_configured(env):
    """Each of the four ages reaches the store."""
    days = {"keep_days": 1, "keep_signal_days": 2, "keep_vintages_days": 3, "keep_forecasts_days": 4}
    config = load(overrides={f"store.{name}": value for name, value in days.items()}, env=env).config
    assert keep_of(config) == Keep(log_days=1, signal_days=2, vintages_days=3, forecasts_days=4)
