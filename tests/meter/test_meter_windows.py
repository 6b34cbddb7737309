from __future__ import annotations

import gc
import math
import subprocess
import sys
import threading
import tracemalloc

import pytest
from scripted_gpu import Scripted
from standin import State

from chase.clock import ManualClock
from zeus_core.gpus.nvml import NvmlSystem
from zeus_core.gpus.profiles import GpuProfile, ProfilePoint
from zeus_core.gpus.simulated import SimulatedSystem
from zeus_core.meter import MAX_WINDOWS, EnergyMeter


def test_a_window_is_the_difference_of_the_counter(meter: EnergyMeter, gpu: Scripted, clock: ManualClock):
    """Seconds are the clock's, joules the counter's, and nothing is flagged."""
    meter.begin("epoch")
    clock.advance(30)
    gpu.draw_w = 250
    clock.advance(10)
    measured = meter.end("epoch")
    assert measured.seconds == 40
    assert measured.joules == {"GPU-0": pytest.approx(30 * 100 + 10 * 250)}
    assert measured.total_j == pytest.approx(5500)
    assert measured.method == {"GPU-0": "counter"}
    assert measured.flags == {"GPU-0": frozenset()}


def test_windows_nest_and_overlap(meter: EnergyMeter, gpu: Scripted, clock: ManualClock):
    """Any number of windows may be open, and each measures its own stretch."""
    meter.begin("outer")
    clock.advance(1)
    meter.begin("inner")
    clock.advance(2)
    meter.begin("other")
    assert set(meter.windows()) == {"outer", "inner", "other"}
    assert meter.end("inner").total_j == pytest.approx(200)
    clock.advance(4)
    assert meter.end("outer").total_j == pytest.approx(700)
    assert meter.end("other").total_j == pytest.approx(400)
    assert meter.windows() == ()


def test_a_name_is_open_once(meter: EnergyMeter, clock: ManualClock):
    """A second begin is refused unless it says restart; a cancelled window is gone, and cancelling is safe."""
    meter.begin("epoch")
    clock.advance(5)
    with pytest.raises(ValueError, match="'epoch' is open already"):
        meter.begin("epoch")
    meter.begin("epoch", restart=True)
    clock.advance(1)
    assert meter.end("epoch").seconds == 1
    meter.begin("epoch")
    meter.cancel("epoch")
    meter.cancel("epoch")
    with pytest.raises(ValueError, match="no window is named 'epoch'; open: none"):
        meter.end("epoch")


def test_the_number_of_windows_is_bounded(meter: EnergyMeter):
    """Windows that are never ended do not grow without end; a restart of one of them is always possible."""
    for number in range(MAX_WINDOWS):
        meter.begin(f"window {number}")
    with pytest.raises(ValueError, match="some are never ended"):
        meter.begin("one more")
    meter.begin("window 7", restart=True)


def test_edges_in_the_past_are_interpolated(meter: EnergyMeter, gpu: Scripted, clock: ManualClock):
    """A window may open and close between samples; each edge lies on the straight line between its neighbours."""
    meter.sample()
    clock.advance(10)  # 100 W
    meter.sample()
    gpu.draw_w = 200
    clock.advance(10)  # 200 W
    meter.sample()
    meter.begin("step", at=5)
    measured = meter.end("step", at=12)
    assert measured.seconds == 7
    assert measured.joules["GPU-0"] == pytest.approx(5 * 100 + 2 * 200)
    assert measured.method["GPU-0"] == "counter"


@pytest.mark.parametrize("at", [-1.0, 10.5, math.nan, math.inf])
def test_an_edge_outside_the_samples_is_refused(meter: EnergyMeter, clock: ManualClock, at: float):
    """What was not sampled, or has not happened yet, is not made up."""
    meter.sample()
    clock.advance(10)
    meter.sample()
    with pytest.raises(ValueError, match="is not between"):
        meter.begin("step", at=at)


def test_a_window_does_not_end_before_it_begins(meter: EnergyMeter, clock: ManualClock):
    """An end before the begin is refused, and the window stays open."""
    meter.sample()
    clock.advance(10)
    meter.begin("step")
    with pytest.raises(ValueError, match="began at 10"):
        meter.end("step", at=3)
    clock.advance(1)
    assert meter.end("step").seconds == 1


def test_readings_run_from_the_first_sample(meter: EnergyMeter, gpu: Scripted, clock: ManualClock):
    """Readings count from zero at the first sample, and reading touches no GPU."""
    reading = meter.read()["GPU-0"]
    assert (reading.joules, reading.at, reading.method, reading.epoch) == (0, None, "counter", 0)
    clock.advance(5)
    assert meter.sample()["GPU-0"].joules == 0
    clock.advance(5)
    gpu.fault = RuntimeError("nobody may ask")  # type: ignore[assignment]
    assert meter.read()["GPU-0"].at == 5
    gpu.fault = None
    reading = meter.sample()["GPU-0"]
    assert (reading.joules, reading.at, reading.lost, reading.refused) == (pytest.approx(500), 10, False, 0)


def test_with_a_counter_the_power_is_not_read(meter: EnergyMeter, gpu: Scripted, clock: ManualClock):
    """One call a GPU and sample is what a healthy counter costs."""
    meter.sample()
    first = gpu.power_reads
    for _ in range(10):
        clock.advance(10)
        meter.sample()
    assert (first, gpu.power_reads) == (1, 1)


def test_without_a_counter_power_is_integrated(meter: EnergyMeter, gpu: Scripted, clock: ManualClock):
    """Without a counter the trapezoid of the power readings is the energy, and it is labelled so (rule G11)."""
    gpu.has_counter = False
    meter.begin("epoch")
    clock.advance(10)
    meter.sample()
    gpu.draw_w = 200
    clock.advance(10)
    measured = meter.end("epoch")
    assert measured.joules["GPU-0"] == pytest.approx(10 * 100 + 10 * (100 + 200) / 2)
    assert measured.method == {"GPU-0": "integrated"}
    assert measured.flags == {"GPU-0": frozenset()}
    assert meter.read()["GPU-0"].method == "integrated"


def test_constant_power_is_not_zero_energy(meter: EnergyMeter, gpu: Scripted, clock: ManualClock):
    """Equal readings are readings: a flat draw is integrated like any other."""
    gpu.has_counter = False
    meter.begin("flat")
    for _ in range(6):
        clock.advance(5)
        meter.sample()
    assert meter.end("flat").joules["GPU-0"] == pytest.approx(3000)


def test_integrated_edges_are_interpolated(meter: EnergyMeter, gpu: Scripted, clock: ManualClock):
    """A window between two power samples gets its share of the piece, not nothing."""
    gpu.has_counter = False
    meter.sample()
    clock.advance(10)
    meter.sample()
    meter.begin("step", at=2)
    assert meter.end("step", at=6).joules["GPU-0"] == pytest.approx(400)


def test_samples_far_apart_are_flagged(meter: EnergyMeter, gpu: Scripted, clock: ManualClock):
    """Two power readings a minute apart are integrated, and called sparse."""
    gpu.has_counter = False
    meter.begin("long")
    clock.advance(60)
    measured = meter.end("long")
    assert measured.joules["GPU-0"] == pytest.approx(6000)
    assert measured.flags["GPU-0"] == {"sparse"}


@pytest.mark.parametrize(("seconds", "flagged"), [(0.0, True), (0.1, True), (0.49, True), (0.5, False), (30, False)])
def test_windows_below_the_resolution_are_flagged(
    meter: EnergyMeter, clock: ManualClock, seconds: float, flagged: bool
):
    """A window so short that the counter's steps are a fifth of it says so."""
    meter.sample()
    clock.advance(1)
    meter.begin("short")
    clock.advance(seconds)
    assert ("below_resolution" in meter.end("short").flags["GPU-0"]) is flagged


def test_an_empty_window_is_nothing(meter: EnergyMeter):
    """A window of no length has no energy."""
    meter.begin("now")
    measured = meter.end("now")
    assert (measured.seconds, measured.total_j) == (0, 0)


def test_a_meter_of_no_gpus(clock: ManualClock):
    """A node without GPUs measures time."""
    meter = EnergyMeter([], monotonic=clock.monotonic)
    meter.begin("epoch")
    clock.advance(3)
    measured = meter.end("epoch")
    assert (measured.seconds, measured.total_j, measured.flags) == (3, 0, {})


def test_memory_is_bounded(meter: EnergyMeter, clock: ManualClock):
    """A window of days over many samples costs no more than one of hours, and is still exact."""

    def held_after(samples: int) -> int:
        for _ in range(samples):
            clock.advance(10)
            meter.sample()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    meter.begin("days")
    before, after = held_after(1000), held_after(9000)
    tracemalloc.stop()
    assert after - before < 500_000
    assert meter.end("days").total_j == pytest.approx(100_000 * 100)


def test_what_is_forgotten_is_refused(meter: EnergyMeter, clock: ManualClock):
    """An edge older than what is kept is an error, not a guess."""
    for _ in range(600):
        clock.advance(10)
        meter.sample()
    with pytest.raises(ValueError, match="the oldest sample remembered"):
        meter.begin("old", at=20)


def test_threads_share_a_meter(clock: ManualClock):
    """Threads that sample and measure while time goes on lose no energy and raise nothing."""
    points = (ProfilePoint(100, 4, 100), ProfilePoint(300, 1, 260))
    profile = GpuProfile("toy", "A40", "counting", "step", "made up", "CC0-1.0", 100, 300, 300, 20, points)
    cards = SimulatedSystem(profile, 2, monotonic=clock.monotonic).cards
    meter = EnergyMeter(cards, monotonic=clock.monotonic)
    meter.begin("all")
    cards[0].occupy(1, 1)
    totals: list[float] = []
    time_goes = threading.Lock()

    def work(number: int) -> None:
        for step in range(50):
            meter.begin(f"{number}/{step}")
            with time_goes:
                clock.advance(0.7)
            meter.sample()
            totals.append(meter.end(f"{number}/{step}").total_j)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clock.advance(1)
    measured = meter.end("all")
    assert len(totals) == 300
    assert min(totals) >= 0
    assert measured.seconds == pytest.approx(300 * 0.7 + 1)
    assert measured.joules == {card.uuid: pytest.approx(card.energy_j()) for card in cards}
    assert set(measured.flags.values()) == {frozenset()}


def test_on_real_cards(standin_state: State):
    """Through NVML, the window's joules are the draw times its seconds, card by card."""
    standin_state[0].demand_w = 200
    system = NvmlSystem()
    meter = EnergyMeter(system.gpus())
    meter.begin("busy")
    while meter.sample()[standin_state.uuids[0]].joules < 200:
        pass
    measured = meter.end("busy")
    system.close()
    assert measured.joules[standin_state.uuids[0]] == pytest.approx(200 * measured.seconds, rel=0.25)
    assert measured.joules[standin_state.uuids[1]] == pytest.approx(30 * measured.seconds, rel=0.25)
    assert set(measured.method.values()) == {"counter"}
    assert standin_state.writes() == []


def test_no_process_is_spawned(standin_state: State):
    """Metering starts no process, and only the one daemon thread a GPU and one for the node."""
    code = (
        "import threading, pathlib\n"
        "from zeus_core.gpus.nvml import NvmlSystem\n"
        "from zeus_core.meter import EnergyMeter\n"
        "meter = EnergyMeter(NvmlSystem().gpus())\n"
        "meter.begin('a'); meter.sample(); meter.end('a')\n"
        "print(sorted(thread.name for thread in threading.enumerate()))\n"
        "children = pathlib.Path('/proc/self/task').glob('*/children')\n"
        "print([child.read_text() for child in children if child.read_text()])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=standin_state.env(), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["['MainThread', 'nvml', 'nvml-0', 'nvml-1']", "[]"]
