"""A signal over a clock that a test moves, and what it says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from signal_bench import NOW, Source

from chase.clock import ManualClock
from chase.signal import GridSignal, Limits


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def events() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def make(clock, events) -> Callable[..., GridSignal]:
    def build(*sources: Source, **options: object) -> GridSignal:
        return GridSignal(
            "xx",
            sources,
            clock=clock,
            limits=options.pop("limits", Limits(fresh_s=5400, usable_s=21600, history_h=168)),
            on_event=lambda code, severity, message, **_: events.append((code, message)),
            **options,
        )

    return build
