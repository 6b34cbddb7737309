from __future__ import annotations

import pytest
from scripted_gpu import Scripted
from standin import State

from chase.clock import ManualClock
from zeus_core.gpus.base import GpuError
from zeus_core.gpus.nvml import NvmlSystem
from zeus_core.meter import EnergyMeter


def ticks(meter: EnergyMeter, clock: ManualClock, count: int, seconds: float = 10) -> None:
    for _ in range(count):
        clock.advance(seconds)
        meter.sample()


def test_a_reset_is_a_new_epoch_not_negative_energy(meter: EnergyMeter, gpu: Scripted, clock: ManualClock):
    """When the counter begins again the piece is integrated, the epoch counted, and the window flagged (rule G13)."""
    meter.begin("epoch")
    ticks(meter, clock, 2)
    gpu.reset_counter()
    ticks(meter, clock, 2)
    measured = meter.end("epoch")
    assert measured.joules["GPU-0"] == pytest.approx(4000)
    assert measured.method["GPU-0"] == "integrated"
    assert measured.flags["GPU-0"] == {"reset", "mixed"}
    assert meter.read()["GPU-0"].epoch == 1


def test_a_reset_without_a_power_reading_is_a_gap(meter: EnergyMeter, gpu: Scripted, clock: ManualClock):
    """Where neither counter nor power tells of a piece, nothing is booked for it and it is said."""
    meter.begin("epoch")
    ticks(meter, clock, 2)
    gpu.reset_counter()
    gpu.power_fault = GpuError("no")
    ticks(meter, clock, 2)
    measured = meter.end("epoch")
    assert measured.joules["GPU-0"] == pytest.approx(3000)
    assert measured.flags["GPU-0"] == {"reset", "gap"}


@pytest.mark.parametrize("spike_j", [3.69e12, 9.2e18 / 1000, 1e9])
def test_a_spike_is_refused_counted_and_forgotten(
    meter: EnergyMeter, gpu: Scripted, clock: ManualClock, spike_j: float
):
    """A single impossible value costs nothing: it is thrown away, and the next good one closes the gap (G14)."""
    meter.begin("epoch")
    ticks(meter, clock, 2)
    gpu.counter_offset_j += spike_j
    ticks(meter, clock, 1)
    gpu.counter_offset_j -= spike_j
    ticks(meter, clock, 2)
    measured = meter.end("epoch")
    assert measured.joules["GPU-0"] == pytest.approx(5000)
    assert measured.flags["GPU-0"] == {"refused"}
    reading = meter.read()["GPU-0"]
    assert (reading.refused, reading.epoch) == (1, 0)


def test_a_counter_that_jumped_for_good_is_a_new_epoch(meter: EnergyMeter, gpu: Scripted, clock: ManualClock):
    """A counter that goes on plausibly from an impossible value is believed again, and the jump is never booked."""
    meter.begin("epoch")
    ticks(meter, clock, 2)
    gpu.counter_offset_j += 1e9
    ticks(meter, clock, 3)
    measured = meter.end("epoch")
    assert measured.joules["GPU-0"] == pytest.approx(5000)
    assert measured.flags["GPU-0"] == {"refused", "reset", "mixed"}
    ticks(meter, clock, 1)
    assert meter.read()["GPU-0"].joules == pytest.approx(6000)


def test_a_single_low_value_is_survived(meter: EnergyMeter, gpu: Scripted, clock: ManualClock):
    """A counter that once reads zero ends an epoch, and what it says afterwards is not booked twice."""
    meter.begin("epoch")
    ticks(meter, clock, 2)
    kept = gpu.counter_offset_j
    gpu.reset_counter()
    ticks(meter, clock, 1)
    gpu.counter_offset_j = kept
    ticks(meter, clock, 3)
    assert meter.end("epoch").joules["GPU-0"] == pytest.approx(6000)


@pytest.mark.parametrize(("factor", "good"), [(1.0, True), (1.4, True), (1.6, False), (100, False)])
def test_more_than_the_card_can_draw_is_refused(
    meter: EnergyMeter, gpu: Scripted, clock: ManualClock, factor: float, good: bool
):
    """Over a piece the counter may gain at most one and a half times the highest limit (rule G14)."""
    meter.sample()
    gpu.draw_w = factor * 300
    ticks(meter, clock, 1, seconds=60)
    assert meter.read()["GPU-0"].refused == (0 if good else 1)


def test_a_limit_raised_later_is_noticed(meter: EnergyMeter, gpu: Scripted, clock: ManualClock):
    """A host that allows more than it did is asked again before its energy is refused for good."""
    meter.sample()
    gpu.max_w = gpu.draw_w = 700
    ticks(meter, clock, 3)
    reading = meter.read()["GPU-0"]
    assert (reading.joules, reading.refused) == (pytest.approx(21_000), 1)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_counter_that_is_no_number_is_replaced_by_power(
    meter: EnergyMeter, gpu: Scripted, clock: ManualClock, value: float
):
    """Non-finite and negative counters are refused, and the power readings carry the energy on."""
    ticks(meter, clock, 2)
    gpu.energy_j = lambda: value  # type: ignore[method-assign]
    ticks(meter, clock, 3)
    reading = meter.read()["GPU-0"]
    assert (reading.joules, reading.refused, reading.method) == (pytest.approx(4000), 3, "integrated")


def test_a_bad_counter_that_recovers_is_not_booked_twice(
    meter: EnergyMeter, gpu: Scripted, clock: ManualClock, faults: dict[str, GpuError]
):
    """After pieces that power had to carry, the counter is taken up from where it is."""
    meter.begin("epoch")
    ticks(meter, clock, 2)
    gpu.counter_fault = faults["bad"]
    ticks(meter, clock, 2)
    gpu.counter_fault = None
    ticks(meter, clock, 2)
    measured = meter.end("epoch")
    assert measured.joules["GPU-0"] == pytest.approx(6000)
    assert measured.flags["GPU-0"] == {"refused", "mixed"}
    ticks(meter, clock, 1)
    assert meter.read()["GPU-0"].method == "counter"


def test_a_counter_that_stands_still_under_power_is_replaced(meter: EnergyMeter, gpu: Scripted, clock: ManualClock):
    """Some virtual cards show a counter that never moves; after five seconds the power readings take over (G11)."""
    gpu.energy_j = lambda: 0.0  # type: ignore[method-assign]
    meter.sample()
    ticks(meter, clock, 10, seconds=1)
    meter.begin("epoch")
    ticks(meter, clock, 5)
    measured = meter.end("epoch")
    assert measured.joules["GPU-0"] == pytest.approx(5000)
    assert measured.method["GPU-0"] == "integrated"
    assert measured.flags["GPU-0"] == {"stuck"}


def test_a_card_that_draws_nothing_may_stand_still(meter: EnergyMeter, gpu: Scripted, clock: ManualClock):
    """A counter at rest while the card is switched off is right."""
    gpu.draw_w = 0
    meter.begin("off")
    ticks(meter, clock, 3)
    measured = meter.end("off")
    assert (measured.total_j, measured.method["GPU-0"], measured.flags["GPU-0"]) == (0, "counter", frozenset())


@pytest.mark.parametrize("name", ["lost", "down"])
def test_a_failure_that_ends_is_bridged_by_the_counter(
    meter: EnergyMeter, gpu: Scripted, clock: ManualClock, faults: dict[str, GpuError], name: str
):
    """A GPU that answers again within its epoch has lost no energy, and the window says what happened."""
    meter.begin("epoch")
    ticks(meter, clock, 1)
    gpu.fault = faults[name]
    ticks(meter, clock, 6)
    assert meter.read()["GPU-0"].lost is (name == "lost")
    gpu.fault = None
    ticks(meter, clock, 1)
    measured = meter.end("epoch")
    assert measured.joules["GPU-0"] == pytest.approx(8000)
    assert measured.flags["GPU-0"] == {"lost" if name == "lost" else "gap"}
    assert not meter.read()["GPU-0"].lost


def test_a_gpu_lost_for_good_keeps_what_it_had(clock: ManualClock, gpu: Scripted, faults: dict[str, GpuError]):
    """A GPU lost in mid-window is flagged with what it drew until then, and the others go on (rule G15)."""
    other = type(gpu)(clock, "GPU-1")
    meter = EnergyMeter([gpu, other], monotonic=clock.monotonic)  # type: ignore[list-item]
    meter.begin("epoch")
    ticks(meter, clock, 2)
    gpu.fault = faults["lost"]
    ticks(meter, clock, 2)
    measured = meter.end("epoch")
    assert measured.joules == {"GPU-0": pytest.approx(2000), "GPU-1": pytest.approx(4000)}
    assert measured.flags == {"GPU-0": {"lost"}, "GPU-1": frozenset()}


def test_a_window_begun_while_a_gpu_is_lost_has_its_share_only(
    meter: EnergyMeter, gpu: Scripted, clock: ManualClock, faults: dict[str, GpuError]
):
    """What a GPU drew before a window that began in a gap is not the window's."""
    ticks(meter, clock, 1)
    gpu.fault = faults["lost"]
    ticks(meter, clock, 2)
    meter.begin("epoch")
    clock.advance(10)
    gpu.fault = None
    ticks(meter, clock, 1)
    measured = meter.end("epoch")
    assert measured.joules["GPU-0"] == pytest.approx(2000)
    assert measured.flags["GPU-0"] == {"lost"}


def test_a_gpu_found_late(meter: EnergyMeter, gpu: Scripted, clock: ManualClock, faults: dict[str, GpuError]):
    """A GPU that was gone from the start is measured from when it is found, and flagged before."""
    gpu.fault = faults["lost"]
    meter.begin("epoch")
    ticks(meter, clock, 2)
    gpu.fault = None
    ticks(meter, clock, 3)
    measured = meter.end("epoch")
    assert measured.joules["GPU-0"] == pytest.approx(2000)
    assert measured.flags["GPU-0"] == {"lost"}
    meter.begin("whole", at=0)
    meter.begin("later", at=30)
    assert meter.end("whole").flags["GPU-0"] == {"lost"}
    assert meter.end("later").flags["GPU-0"] == frozenset()


def test_short_failures_without_a_counter_are_bridged(
    meter: EnergyMeter, gpu: Scripted, clock: ManualClock, faults: dict[str, GpuError]
):
    """One power reading missed is interpolated over, and flagged."""
    gpu.has_counter = False
    meter.begin("epoch")
    ticks(meter, clock, 1)
    gpu.fault = faults["down"]
    ticks(meter, clock, 1)
    gpu.fault = None
    ticks(meter, clock, 1)
    measured = meter.end("epoch")
    assert measured.joules["GPU-0"] == pytest.approx(3000)
    assert measured.flags["GPU-0"] == {"gap"}


def test_long_failures_without_a_counter_are_not_made_up(
    meter: EnergyMeter, gpu: Scripted, clock: ManualClock, faults: dict[str, GpuError]
):
    """An hour without a reading is an hour without energy, and said to be."""
    gpu.has_counter = False
    meter.begin("epoch")
    ticks(meter, clock, 1)
    gpu.fault = faults["lost"]
    ticks(meter, clock, 360)
    gpu.fault = None
    ticks(meter, clock, 1)
    measured = meter.end("epoch")
    assert measured.joules["GPU-0"] == pytest.approx(1000)
    assert measured.flags["GPU-0"] == {"lost", "gap"}


def test_neither_counter_nor_power(meter: EnergyMeter, gpu: Scripted, clock: ManualClock, faults: dict[str, GpuError]):
    """A GPU that tells nothing is unmeasured, which is not the same as zero."""
    gpu.has_counter = False
    gpu.power_fault = faults["absent"]
    meter.begin("epoch")
    ticks(meter, clock, 2)
    measured = meter.end("epoch")
    assert measured.total_j == 0
    assert measured.flags["GPU-0"] == {"gap", "unmeasured"}


@pytest.mark.parametrize("watts", [float("nan"), float("inf"), -5.0, 450.1, 3.69e12])
def test_an_impossible_draw_is_refused(meter: EnergyMeter, gpu: Scripted, clock: ManualClock, watts: float):
    """Power readings are judged too, and one that cannot be true is bridged."""
    gpu.has_counter = False
    meter.begin("epoch")
    ticks(meter, clock, 1)
    gpu.power_w = lambda: watts  # type: ignore[method-assign]
    ticks(meter, clock, 1)
    del gpu.power_w
    ticks(meter, clock, 1)
    measured = meter.end("epoch")
    assert measured.joules["GPU-0"] == pytest.approx(3000)
    assert measured.flags["GPU-0"] == {"refused"}


def test_a_counter_alone_is_enough(meter: EnergyMeter, gpu: Scripted, clock: ManualClock, faults: dict[str, GpuError]):
    """A card with a counter and no power reading, or no limits, is measured all the same."""
    gpu.power_fault = gpu.limits_fault = faults["absent"]
    meter.begin("epoch")
    ticks(meter, clock, 2)
    measured = meter.end("epoch")
    assert (measured.total_j, measured.flags["GPU-0"]) == (pytest.approx(2000), frozenset())


@pytest.fixture(params=["lost", "down", "bad", "absent"])
def fault(request: pytest.FixtureRequest, faults: dict[str, GpuError]) -> GpuError:
    return faults[request.param]


@pytest.mark.parametrize("where", ["fault", "counter_fault", "power_fault", "limits_fault"])
def test_no_fault_of_a_gpu_reaches_the_caller(
    meter: EnergyMeter, gpu: Scripted, clock: ManualClock, fault: GpuError, where: str
):
    """Whatever a GPU answers, sampling raises nothing and the figure never falls."""
    meter.begin("epoch")
    last = 0.0
    for step in range(8):
        setattr(gpu, where, fault if step in {0, 1, 4, 5} else None)
        ticks(meter, clock, 1)
        assert meter.read()["GPU-0"].joules >= last
        last = meter.read()["GPU-0"].joules
    assert meter.end("epoch").total_j == pytest.approx(last)


def test_a_driver_reload_on_real_cards(standin_state: State):
    """Through NVML, a counter that begins again is an epoch, and no energy is negative."""
    system = NvmlSystem()
    meter = EnergyMeter(system.gpus())
    standin_state[0].energy_j = 1000
    meter.begin("epoch")
    standin_state.reload_driver()
    measured = meter.end("epoch")
    system.close()
    assert all(joules >= 0 for joules in measured.joules.values())
    assert "reset" in measured.flags[standin_state.uuids[0]]


def test_a_hung_card_costs_the_others_nothing(standin_state: State):
    """Through NVML, a card that hangs in mid-window is lost and flagged while the other is measured (rule G15)."""
    system = NvmlSystem(call_budget_s=1.5)
    meter = EnergyMeter(system.gpus())
    meter.begin("epoch")
    hang = standin_state.hang("nvmlDeviceGetTotalEnergyConsumption", gpu=0)
    for _ in range(50):
        meter.sample()
    measured = meter.end("epoch")
    hang.clear()
    system.close()
    assert "lost" in measured.flags[standin_state.uuids[0]]
    assert measured.flags[standin_state.uuids[1]] <= {"below_resolution"}
    assert measured.joules[standin_state.uuids[1]] == pytest.approx(30 * measured.seconds, rel=0.25)
