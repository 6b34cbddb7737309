"""A feed over a clock that a test moves, and what it says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from price_bench import NOW, Tariff

from chase.clock import ManualClock
from chase.prices import PriceFeed


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def events() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def make(clock, events) -> Callable[..., PriceFeed]:
    def build(*sources: Tariff, **options: object) -> PriceFeed:
        given = {"currency": "EUR", "time_zone": "Europe/Berlin", "clock": clock, **options}
        return PriceFeed(
            "xx", sources, on_event=lambda code, severity, message, **_: events.append((code, message)), **given
        )

    return build
