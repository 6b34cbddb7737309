from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.clock import ManualClock
from zeus_core.gpus.base import Gpu, PowerLimits, Process, Refused
from zeus_core.gpus.simulated import GpuProfile, SimulatedGpu, SimulatedSystem


@pytest.fixture
def card(profile: GpuProfile, clock: ManualClock) -> SimulatedGpu:
    return SimulatedSystem(profile, 1, monotonic=clock.monotonic).cards[0]


def test_nobody_can_take_it_for_real(profile: GpuProfile):
    """Kind, UUID and name all say that the card is simulated."""
    system = SimulatedSystem(profile, 2)
    assert system.kind == "simulated"
    assert all(gpu.uuid.startswith("SIM-") for gpu in system.gpus())
    assert {gpu.name for gpu in system.gpus()} == {"Simulated A40"}
    system.close()


def test_the_same_seed_gives_the_same_cards(profile: GpuProfile):
    """UUIDs depend on profile, seed and index only, and differ when any of them does."""
    first, again, other = (SimulatedSystem(profile, 3, seed=seed).gpus() for seed in (1, 1, 2))
    assert [gpu.uuid for gpu in first] == [gpu.uuid for gpu in again]
    assert len({gpu.uuid for gpu in (*first, *other)}) == 6
    assert len({gpu.pci_bus_id for gpu in first}) == 3


def test_it_is_a_gpu_like_any(card: SimulatedGpu):
    """The protocol of a GPU is kept, with the profile's limits."""
    gpu: Gpu = card
    assert gpu.power_limits() == PowerLimits(100, 300, 300)
    assert (gpu.power_limit_w(), gpu.enforced_power_limit_w()) == (300, 300)
    assert gpu.persistence()
    assert not gpu.mig_enabled()
    assert gpu.uuid in repr(gpu)


def test_idle_and_at_work(card: SimulatedGpu):
    """A card draws its idle power until a process works on it, then what the profile says for its limit."""
    assert (card.power_w(), card.utilisation(), card.throttle_reasons()) == (20, 0, {"gpu_idle"})
    card.occupy(7, 1000)
    assert (card.power_w(), card.utilisation(), card.throttle_reasons()) == (260, 1, frozenset())
    assert card.processes() == (Process(7, 1000),)
    card.set_power_limit_w(200)
    assert (card.power_w(), card.throttle_reasons()) == (180, {"sw_power_cap"})
    card.vacate(7)
    card.vacate(7)
    assert (card.power_w(), card.processes()) == (20, ())


def test_loads_add_up_to_one_at_most(card: SimulatedGpu):
    """Two processes share a card; together they cannot use more than all of it."""
    card.occupy(7, 1000, load=0.5)
    assert card.power_w() == 20 + 240 / 2
    card.occupy(8, 1001, load=0.8)
    assert (card.power_w(), card.utilisation(), card.rate()) == (260, 1, 1)
    card.occupy(8, 1001, load=0.0)
    assert card.rate() == 0.5


@pytest.mark.parametrize("load", [-0.1, 1.1, float("nan")])
def test_a_load_is_a_fraction(card: SimulatedGpu, load: float):
    """A load outside 0 to 1 is refused."""
    with pytest.raises(ValueError, match="load must lie between 0 and 1"):
        card.occupy(1, 1, load)


@pytest.mark.parametrize("watts", [99.9, 300.1, float("nan"), float("inf"), 0, -1])
def test_a_limit_outside_the_range_is_refused(card: SimulatedGpu, watts: float):
    """As a driver does, the card refuses a limit outside its range and keeps the one it had."""
    with pytest.raises(Refused, match="outside 100 to 300 W"):
        card.set_power_limit_w(watts)
    assert card.power_limit_w() == 300


def test_energy_is_the_exact_integral(card: SimulatedGpu, clock: ManualClock):
    """Changes of load, limit and clocks between two readings are all in the counter, to the joule."""
    clock.advance(10)  # idle: 20 W
    card.occupy(7, 1000)
    clock.advance(100)  # 260 W
    card.set_power_limit_w(200)
    clock.advance(50)  # 180 W
    card.lock_sm_clocks_mhz(210, 210)
    low_w = card.power_w()
    clock.advance(10)
    card.reset_sm_clocks()
    clock.advance(1)  # 180 W
    card.vacate(7)
    assert card.energy_j() == pytest.approx(10 * 20 + 100 * 260 + 50 * 180 + 10 * low_w + 180)


@given(st.lists(st.tuples(st.floats(100, 300), st.floats(0, 1), st.floats(0, 1e4)), max_size=12), st.booleans())
def test_energy_does_not_depend_on_who_looks(steps: list[tuple[float, float, float]], looking: bool):
    """Reading the counter between changes alters nothing, and it never falls."""
    profile = _profile()
    totals = []
    for look in (True, False):
        now = [0.0]
        card = SimulatedSystem(profile, 1, monotonic=lambda now=now: now[0]).cards[0]
        seen, last = [], 0.0
        for limit_w, load, seconds in steps:
            card.set_power_limit_w(limit_w)
            card.occupy(1, 1, load)
            now[0] += seconds
            if look:
                seen.append(card.energy_j())
                assert seen[-1] >= last
                last = seen[-1]
        totals.append(card.energy_j())
    assert totals[0] == pytest.approx(totals[1])


def test_a_clock_that_steps_back_costs_nothing(profile: GpuProfile):
    """A counter never falls, even on a clock that does."""
    now = [100.0]
    card = SimulatedSystem(profile, 1, monotonic=lambda: now[0]).cards[0]
    now[0] = 110.0
    before = card.energy_j()
    now[0] = 50.0
    assert card.energy_j() == before
    now[0] = 111.0
    assert card.energy_j() == pytest.approx(before + 20)


def test_a_locked_clock_slows_and_saves(card: SimulatedGpu):
    """A locked SM clock bounds the clock, the rate and the draw; a reset frees them."""
    card.occupy(7, 1000)
    full = (card.rate(), card.power_w(), card.sm_clock_mhz())
    card.lock_sm_clocks_mhz(210, 1200)
    assert card.locked_sm_clocks_mhz == (210, 1200)
    assert card.throttle_reasons() == {"applications_clocks_setting"}
    slow = (card.rate(), card.power_w(), card.sm_clock_mhz())
    assert all(less < more for less, more in zip(slow, full, strict=True))
    card.reset_sm_clocks()
    assert (card.rate(), card.power_w(), card.sm_clock_mhz()) == full
    with pytest.raises(Refused):
        card.lock_sm_clocks_mhz(500, 400)


def test_the_highest_clock_locked_is_no_limit(card: SimulatedGpu):
    """Locking the top of the supported clocks changes neither rate nor draw."""
    card.occupy(7, 1000)
    top = card.supported_sm_clocks_mhz()[-1]
    card.lock_sm_clocks_mhz(top, top)
    assert (card.rate(), card.power_w(), card.sm_clock_mhz()) == (1, 260, top)


def test_clocks_rise_with_the_limit(card: SimulatedGpu):
    """The SM clock lies in the supported range, is least when idle, and never falls as the limit rises."""
    clocks = card.supported_sm_clocks_mhz()
    assert card.sm_clock_mhz() == clocks[0]
    card.occupy(7, 1000)
    seen = []
    for limit_w in range(100, 301, 20):
        card.set_power_limit_w(limit_w)
        seen.append(card.sm_clock_mhz())
    assert seen == sorted(seen)
    assert clocks[0] <= seen[0] < seen[-1] == clocks[-1]


def test_noise_is_of_the_reading_and_of_the_seed(profile: GpuProfile):
    """Readings scatter around the true draw as the seed says, the same for every looker; the energy does not."""
    clocks = [[0.0], [0.0]]
    cards = [
        SimulatedSystem(profile, 1, seed=3, noise=0.02, monotonic=lambda now=now: now[0]).cards[0] for now in clocks
    ]
    for card in cards:
        card.occupy(7, 1000)
    readings = []
    for step in range(500):
        for now in clocks:
            now[0] = float(step)
        cards[1].power_w()
        left, right = (card.power_w() for card in cards)
        assert left == right
        readings.append(left)
    mean = sum(readings) / len(readings)
    spread = (sum((watts - mean) ** 2 for watts in readings) / len(readings)) ** 0.5
    assert mean == pytest.approx(260, rel=0.005)
    assert spread == pytest.approx(260 * 0.02, rel=0.2)
    assert cards[0].energy_j() == pytest.approx(260 * 499)


def test_counts_and_noise_are_not_negative(profile: GpuProfile):
    """A system of less than no cards, or with negative noise, is refused."""
    assert SimulatedSystem(profile, 0).gpus() == ()
    for count, noise in ((-1, 0.0), (1, -0.1)):
        with pytest.raises(ValueError, match="must not be negative"):
            SimulatedSystem(profile, count, noise=noise)


def test_it_runs_on_the_machines_clock_too(profile: GpuProfile):
    """Without a clock of its own it draws power in real time."""
    card = SimulatedSystem(profile, 1).cards[0]
    card.occupy(7, 1000)
    began, start = time.monotonic(), card.energy_j()
    while (joules := card.energy_j() - start) < 1:
        pass
    assert joules <= 260 * (time.monotonic() - began) + 1


def test_threads_may_share_it(card: SimulatedGpu, clock: ManualClock):
    """Concurrent changes lose no energy and raise nothing."""

    def fidget(pid: int) -> None:
        for _ in range(200):
            card.occupy(pid, 1)
            card.set_power_limit_w(200)
            card.energy_j()
            card.vacate(pid)

    threads = [threading.Thread(target=fidget, args=(pid,)) for pid in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    before = card.energy_j()
    clock.advance(10)
    assert card.energy_j() == pytest.approx(before + 200)


def _profile() -> GpuProfile:
    from zeus_core.gpus.simulated import ProfilePoint

    points = (ProfilePoint(100, 4, 100), ProfilePoint(200, 2, 180), ProfilePoint(300, 1, 260))
    return GpuProfile("toy", "NVIDIA A40", "counting", "step", "made up", "CC0-1.0", 100, 300, 300, 20, points)
