from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from store_cases import T0

from chase.clock import ManualClock
from chase.store import Store, Tuning


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(T0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "chase.sqlite"


@pytest.fixture
def open_store(path: Path, clock: ManualClock) -> Iterator[Callable[..., Store]]:
    """Opens stores at ``path`` that are closed at the end; retries come at once, so that no test waits for them."""
    opened: list[Store] = []

    def opening(**tuning: float) -> Store:
        store = Store(path, clock=clock, tuning=Tuning(**({"patience_s": 20.0, "retry_s": 0.01} | tuning)))
        opened.append(store)
        return store

    yield opening
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., Store]) -> Store:
    return open_store()
