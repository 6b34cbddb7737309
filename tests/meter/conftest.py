"""One scripted GPU under a meter, and the kinds of fault it may have."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from scripted_gpu import ABSENT, BAD, DOWN, LOST, Scripted

from chase.clock import ManualClock
from zeus_core.gpus.base import GpuError
from zeus_core.meter import EnergyMeter


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def gpu(clock: ManualClock) -> Scripted:
    return Scripted(clock)


@pytest.fixture
def meter(gpu: Scripted, clock: ManualClock) -> EnergyMeter:
    return EnergyMeter([gpu], monotonic=clock.monotonic)  # type: ignore[list-item]


@pytest.fixture
def faults() -> dict[str, GpuError]:
    return {"lost": LOST, "down": DOWN, "bad": BAD, "absent": ABSENT}
