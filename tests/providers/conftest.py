"""A clock that moves when told, loopback servers, and sessions with tiny timeouts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chase.clock import ManualClock
from providers.session import Session

sys.path.insert(0, str(Path(__file__).parent))

from grid_server import NOW, GridServer


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def server() -> Iterator[GridServer]:
    grid = GridServer()
    yield grid
    grid.close()


@pytest.fixture
def elsewhere() -> Iterator[GridServer]:
    grid = GridServer()
    yield grid
    grid.close()


@pytest.fixture
def make_session(clock: ManualClock) -> Iterator[Callable[..., Session]]:
    """Sessions whose waits move ``clock``, while sockets keep to real timeouts."""
    made: list[Session] = []

    def make(**given: object) -> Session:
        defaults = {"timeout": (5.0, 5.0), "monotonic": clock.monotonic, "sleep": clock.advance, "now": clock.now}
        made.append(Session(**{**defaults, "jitter": lambda: 1.0, **given}))
        return made[-1]

    yield make
    for session in made:
        session.close()


@pytest.fixture
def session(make_session: Callable[..., Session]) -> Session:
    return make_session()
