"""The two cards of ``standin_state`` through the real pynvml module, and simulated cards on a clock of our own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from standin import State

from chase.clock import ManualClock
from zeus_core.gpus.nvml import NvmlGpu, NvmlSystem
from zeus_core.gpus.simulated import GpuProfile, ProfilePoint


@pytest.fixture
def system(standin_state: State) -> Iterator[NvmlSystem]:
    """Patient enough for a busy machine."""
    yield from _opened(standin_state, 20.0)


@pytest.fixture
def impatient(standin_state: State) -> Iterator[NvmlSystem]:
    """For calls that hang."""
    yield from _opened(standin_state, 1.5)


def _opened(state: State, budget_s: float) -> Iterator[NvmlSystem]:
    system = NvmlSystem(call_budget_s=budget_s)
    yield system
    state.clear()
    system.close()


@pytest.fixture
def gpu(system: NvmlSystem) -> NvmlGpu:
    first = system.gpus()[0]
    assert isinstance(first, NvmlGpu)
    return first


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def profile() -> GpuProfile:
    points = ((100, 4.0, 100), (200, 2.0, 180), (300, 1.0, 260))
    return GpuProfile(
        name="toy",
        gpu="NVIDIA A40",
        workload="counting",
        unit="step",
        source="made up",
        licence="CC0-1.0",
        min_w=100,
        max_w=300,
        default_w=300,
        idle_w=20,
        points=tuple(ProfilePoint(*map(float, point)) for point in points),
    )
