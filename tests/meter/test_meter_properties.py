from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_gpu import ABSENT, BAD, DOWN, LOST, Scripted

from chase.clock import ManualClock
from zeus_core.meter import EnergyMeter

FAULTS = {"lost": LOST, "down": DOWN, "bad": BAD, "absent": ABSENT, "none": None}
seconds = st.one_of(st.just(0.0), st.floats(0.001, 100))
events = st.one_of(
    st.tuples(st.just("draw"), st.floats(0, 300)),
    st.tuples(st.just("wait"), seconds),
    st.tuples(st.just("reset"), st.none()),
    st.tuples(st.just("jump"), st.floats(-1e6, 1e9)),
    st.tuples(st.sampled_from(["fault", "counter_fault", "power_fault"]), st.sampled_from(sorted(FAULTS))),
)


def make(has_counter: bool) -> tuple[ManualClock, Scripted, EnergyMeter]:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    gpu = Scripted(clock)
    gpu.has_counter = has_counter
    return clock, gpu, EnergyMeter([gpu], monotonic=clock.monotonic)  # type: ignore[list-item]


def happen(clock: ManualClock, gpu: Scripted, event: tuple[str, object]) -> None:
    kind, value = event
    if kind == "draw":
        gpu.draw_w = float(value)  # type: ignore[arg-type]
    elif kind == "wait":
        clock.advance(float(value))  # type: ignore[arg-type]
    elif kind == "reset":
        gpu.reset_counter()
    elif kind == "jump":
        gpu.counter_offset_j += float(value)  # type: ignore[arg-type]
    else:
        setattr(gpu, kind, FAULTS[str(value)])


@given(st.booleans(), st.lists(events, max_size=40))
def test_whatever_happens_energy_never_falls(has_counter: bool, story: list[tuple[str, object]]):
    """Under resets, jumps and faults in any order no reading falls, none is negative, and none exceeds the possible."""
    clock, gpu, meter = make(has_counter)
    meter.begin("all")
    last = 0.0
    for event in story:
        happen(clock, gpu, event)
        meter.begin("step")
        meter.sample()
        assert meter.end("step").total_j >= 0
        reading = meter.read()["GPU-0"]
        assert reading.joules >= last
        last = reading.joules
    measured = meter.end("all")
    assert 0 <= measured.total_j <= 1.5 * 300 * (measured.seconds + 0.5 * (len(story) + 2)) + 1e-6


@given(st.booleans(), st.lists(st.tuples(st.floats(1, 300), st.floats(0.001, 20)), min_size=1, max_size=30))
def test_parts_sum_to_the_whole(has_counter: bool, pieces: list[tuple[float, float]]):
    """Windows that follow each other inside another sum to it, in seconds and in joules."""
    clock, gpu, meter = make(has_counter)
    meter.begin("whole")
    parts = []
    for at, (watts, length) in enumerate(pieces):
        meter.begin(f"part {at}")
        gpu.draw_w = watts
        clock.advance(length)
        parts.append(meter.end(f"part {at}"))
    whole = meter.end("whole")
    assert whole.seconds == pytest.approx(sum(part.seconds for part in parts))
    assert whole.total_j == pytest.approx(sum(part.total_j for part in parts), abs=1e-6)
    if has_counter:
        assert whole.total_j == pytest.approx(gpu.true_j, abs=1e-6)


@given(
    st.booleans(),
    st.lists(st.tuples(st.floats(0, 300), st.floats(0.01, 20)), min_size=2, max_size=20),
    st.lists(st.floats(0, 1), min_size=2, max_size=12),
)
def test_cuts_anywhere_in_the_past_sum_up(has_counter: bool, pieces: list[tuple[float, float]], cuts: list[float]):
    """The sampled past may be cut anywhere; the cuts' energies sum to that from the first to the last."""
    clock, gpu, meter = make(has_counter)
    meter.sample()
    for watts, length in pieces:
        gpu.draw_w = watts
        clock.advance(length)
        meter.sample()
    edges = sorted(cut * clock.monotonic() for cut in cuts)

    def measure(start: float, end: float) -> float:
        meter.begin("cut", at=start)
        return meter.end("cut", at=end).total_j

    parts = [measure(start, end) for start, end in pairwise(edges)]
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(measure(edges[0], edges[-1]), abs=1e-6)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(20, 300), st.floats(0.5, 10), st.booleans()), min_size=1, max_size=30))
def test_resets_blur_their_own_piece_only(pieces: list[tuple[float, float, bool]]):
    """However often the counter begins again, each reset is an epoch, and only its own piece is estimated."""
    clock, gpu, meter = make(has_counter=True)
    meter.begin("all")
    resets, blurred_j = 0, 0.0
    for watts, length, reset in pieces:
        gpu.draw_w = watts
        if reset and gpu.counter_offset_j + gpu.true_j > watts * length + 1:  # else nobody could tell
            gpu.reset_counter()
            resets += 1
            blurred_j += 300 * length
        clock.advance(length)
        meter.sample()
    measured = meter.end("all")
    assert measured.total_j == pytest.approx(gpu.true_j, abs=blurred_j + 1e-6)
    assert meter.read()["GPU-0"].epoch == resets
