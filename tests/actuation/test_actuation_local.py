"""What the local actuator makes of what drivers, hosts and disks do to it."""

from __future__ import annotations

import logging
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
import standin
from actuation_harness import ORIGINAL_W, Bench, SimulatedCards, StandinCards

from chase.clock import ManualClock
from zeus_core.actuation.base import ActuationError, HeldElsewhere, Status, Wish
from zeus_core.actuation.journal import Journal
from zeus_core.actuation.local import LocalActuator
from zeus_core.actuation.setter import DriverSetter
from zeus_core.gpus.base import Gpu, Unavailable
from zeus_core.gpus.nvml import NvmlSystem
from zeus_core.gpus.simulated import SimulatedSystem

GET_LIMIT = "nvmlDeviceGetPowerManagementLimit"
GET_ENFORCED = "nvmlDeviceGetEnforcedPowerLimit"


def statuses(results) -> list[Status]:
    return [applied.status for applied in results]


def entries(place: Path) -> list[str]:
    return Journal(place / "state").uuids()


# Capability


def test_probe_sets_the_current_value_back(local: LocalActuator, standin_state):
    """The setter is probed with the limit in force, once a GPU, before anything is journalled."""
    assert [(write.gpu, write.watts) for write in standin_state.writes()] == [(0, 275), (1, 275)]
    assert local.owed == frozenset()


def test_no_permission_is_a_capability(make_local, nvml: NvmlSystem, standin_state, place: Path):
    """Without the right to set, every GPU says why and what to do, and nothing is touched or journalled."""
    standin_state.root_uid = os.geteuid() + 1
    bench = Bench("standin", make_local(nvml), StandinCards(standin_state))
    for state in bench.actuator.describe():
        assert not state.can_set
        assert "CAP_SYS_ADMIN" in state.reason
        assert "chase actuator" in state.reason
        assert (state.power_limit_w, state.max_w) == (ORIGINAL_W, 300)
    assert statuses(bench.apply(150, 150)) == [Status.NO_PERMISSION, Status.NO_PERMISSION]
    assert (bench.limits(), entries(place)) == ([ORIGINAL_W, ORIGINAL_W], [])


def test_readable_but_not_settable(make_local, nvml: NvmlSystem, standin_state):
    """A range that can be read does not say that it can be set: laptops have one and refuse."""
    standin_state.fail(standin.SET_LIMIT, standin.NOT_SUPPORTED, gpu=0)
    bench = Bench("standin", make_local(nvml), StandinCards(standin_state))
    assert [state.can_set for state in bench.actuator.describe()] == [False, True]
    assert statuses(bench.apply(150, 150)) == [Status.NOT_SUPPORTED, Status.ROLLED_BACK]
    assert statuses([bench.actuator.apply({bench.uuids[1]: Wish(150)})[bench.uuids[1]]]) == [Status.APPLIED]


def test_capability_comes_back(make_local, nvml: NvmlSystem, standin_state):
    """A fault at the start does not make a GPU unsettable for ever."""
    standin_state.fail(standin.SET_LIMIT, standin.UNKNOWN, count=2)
    actuator = make_local(nvml, monotonic=lambda: 0.0)
    assert [state.can_set for state in actuator.describe()] == [True, True]


def test_permission_lost_later(bench_local: Bench, standin_state):
    """Rights taken away while a limit is in force are reported, and the debt stays on the books."""
    bench_local.apply(150, 150)
    standin_state.root_uid = os.geteuid() + 1
    assert statuses(bench_local.apply(200, 200)) == [Status.NO_PERMISSION, Status.ROLLED_BACK]
    assert [state.can_set for state in bench_local.actuator.describe()] == [False, True]
    assert statuses(bench_local.actuator.restore().values()) == [Status.NO_PERMISSION] * 2
    assert bench_local.actuator.owed == frozenset(bench_local.uuids)
    standin_state.root_uid = -1
    assert statuses(bench_local.actuator.restore().values()) == [Status.RESTORED] * 2
    assert bench_local.limits() == [ORIGINAL_W] * 2


def test_clocks_where_the_limit_cannot_be_set(make_local, nvml: NvmlSystem, standin_state):
    """A laptop whose power limit is fixed can still be slowed by its clocks."""
    standin_state.fail(standin.SET_LIMIT, standin.NOT_SUPPORTED)
    bench = Bench("standin", make_local(nvml), StandinCards(standin_state))
    assert statuses(bench.apply(None, sm_clock_mhz=900)) == [Status.APPLIED]
    assert bench.cards.clocks(0) == (210, 900)
    assert statuses(bench.apply(150, sm_clock_mhz=900)) == [Status.NOT_SUPPORTED]
    assert bench.cards.clocks(0) == (210, 900)
    assert bench.actuator.restore()[bench.uuids[0]].status is Status.RESTORED
    assert bench.cards.clocks(0) is None


def test_slow_failing_setter_is_not_probed_all_the_time(make_local, profile):
    """A setter that takes long to fail is left in peace for ten times as long."""
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    calls = []

    class Molasses(DriverSetter):
        def set_power_limit_w(self, gpu: Gpu, power_limit_w: float) -> None:
            clock.advance(5)
            calls.append(clock.monotonic())
            raise Unavailable("timed out", uuid=gpu.uuid)

    actuator = make_local(SimulatedSystem(profile, 1), setter=Molasses(), monotonic=clock.monotonic)
    for _ in range(10):
        actuator.describe()
        clock.advance(10)
    assert calls == [5, 60]


# Verification


def test_setter_that_says_yes_and_means_no(make_local, nvml: NvmlSystem, standin_state, place: Path):
    """A change that is not there when read back has failed, however well it went."""

    class Politician(DriverSetter):
        def set_power_limit_w(self, gpu: Gpu, power_limit_w: float) -> None:
            if power_limit_w >= 200:
                super().set_power_limit_w(gpu, power_limit_w)

    bench = Bench("standin", make_local(nvml, setter=Politician()), StandinCards(standin_state))
    first, second = bench.apply(210, 150)
    assert (first.status, second.status) == (Status.ROLLED_BACK, Status.FAILED)
    assert "reads 275 W" in second.detail
    assert (bench.limits(), entries(place)) == ([ORIGINAL_W] * 2, [])


def test_bound_by_a_lower_cap(bench_local: Bench, standin_state):
    """A cap from outside that is lower than our limit is reported with what is in force, and is no failure."""
    standin_state[0].oob_cap_w = 170
    first, second = bench_local.apply(200, 200)
    assert (first.status, first.set_w, first.enforced_w) == (Status.BOUND, 200, 170)
    assert second.status is Status.APPLIED
    assert statuses(bench_local.apply(200, 200)) == [Status.BOUND, Status.UNCHANGED]
    assert statuses(bench_local.apply(150, 150)) == [Status.APPLIED, Status.APPLIED]
    bench_local.actuator.restore()
    assert bench_local.limits() == [ORIGINAL_W] * 2


def test_enforced_above_what_was_set(bench_local: Bench, standin_state):
    """A limit that is noted but not in force has failed, and is put back."""
    standin_state.answer(GET_ENFORCED, 275_000, gpu=0)
    first = bench_local.apply(150)[0]
    assert first.status is Status.FAILED
    assert "275 W is in force" in first.detail
    assert bench_local.limits()[0] == ORIGINAL_W


def test_driver_that_rounds(make_local, nvml: NvmlSystem, standin_state):
    """A driver that rounds to whole watts is believed: no second set, no foreign change, an exact original."""

    class Rounder(DriverSetter):
        def set_power_limit_w(self, gpu: Gpu, power_limit_w: float) -> None:
            super().set_power_limit_w(gpu, float(round(power_limit_w)))

    bench = Bench("standin", make_local(nvml, setter=Rounder()), StandinCards(standin_state))
    assert statuses(bench.apply(150.4)) == [Status.APPLIED]
    assert statuses(bench.apply(150.4)) == [Status.UNCHANGED]
    bench.actuator.restore()
    assert bench.limits()[0] == ORIGINAL_W


def test_management_limit_not_supported(make_local, nvml: NvmlSystem, standin_state):
    """Where only the enforced limit can be read, it stands for both."""
    standin_state.fail(GET_LIMIT, standin.NOT_SUPPORTED)
    bench = Bench("standin", make_local(nvml), StandinCards(standin_state))
    assert statuses(bench.apply(150)) == [Status.APPLIED]
    bench.actuator.restore()
    assert bench.limits()[0] == ORIGINAL_W


def test_enforced_limit_not_supported(make_local, nvml: NvmlSystem, standin_state):
    """Where only the requested limit can be read, it stands for both."""
    standin_state.fail(GET_ENFORCED, standin.NOT_SUPPORTED)
    bench = Bench("standin", make_local(nvml), StandinCards(standin_state))
    assert statuses(bench.apply(150)) == [Status.APPLIED]
    assert bench.actuator.describe()[0].enforced_w == 150


# The live range


def test_range_that_narrows(bench_local: Bench, standin_state):
    """The range is read at every change, since hosts narrow it."""
    bench_local.apply(150)
    standin_state[0].min_w = 200
    assert bench_local.apply(150)[0].set_w == 200
    assert bench_local.limits()[0] == 200


def test_no_headroom(bench_local: Bench, standin_state):
    """Where nothing below the original is allowed, nothing is done, and it is said."""
    standin_state[0].min_w = 290
    applied = bench_local.apply(150)[0]
    assert (applied.status, applied.set_w) == (Status.UNCHANGED, ORIGINAL_W)
    assert "no headroom" in applied.detail
    assert bench_local.limits()[0] == ORIGINAL_W


def test_original_above_a_narrowed_range(bench_local: Bench, standin_state):
    """An original that is not allowed any more is approached, stays owed, and is set once it is allowed."""
    bench_local.apply(150)
    standin_state[0].max_w = 250
    for _ in range(2):
        assert bench_local.actuator.restore()[bench_local.uuids[0]].status is Status.FAILED
        assert bench_local.limits()[0] == 250
    assert bench_local.actuator.owed == {bench_local.uuids[0]}
    standin_state[0].max_w = 300
    assert bench_local.actuator.restore()[bench_local.uuids[0]].status is Status.RESTORED
    assert bench_local.limits()[0] == ORIGINAL_W


# The ramp


@pytest.fixture
def ramped(make_local, profile) -> tuple[Bench, ManualClock]:
    """A simulated bench that may rise by 50 W a second."""
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    system = SimulatedSystem(profile, 2, monotonic=clock.monotonic)
    cards = SimulatedCards(system)
    return Bench("simulated", make_local(system, ramp_w_per_s=50, monotonic=clock.monotonic), cards), clock


def test_rises_are_rationed(ramped):
    """A rise takes as many calls as the ramp needs; each says that it is under way."""
    bench, clock = ramped
    bench.apply(100)
    seen = []
    for _ in range(4):
        clock.advance(1)
        applied = bench.apply(270)[0]
        seen.append((applied.status, bench.limits()[0]))
    assert seen == [(Status.RAMPING, 150), (Status.RAMPING, 200), (Status.RAMPING, 250), (Status.APPLIED, 270)]


def test_a_long_wait_saves_nothing_up(ramped):
    """However long ago the last change was, one call rises by one second's worth."""
    bench, clock = ramped
    bench.apply(100)
    clock.advance(3600)
    bench.apply(270)
    assert bench.limits()[0] == 150


def test_less_than_a_watt_waits(ramped):
    """A rise that would be less than a watt is put off, and said to be under way."""
    bench, clock = ramped
    bench.apply(100)
    clock.advance(0.01)
    assert bench.apply(270)[0].status is Status.RAMPING
    assert bench.limits()[0] == 100


def test_falls_are_at_once(ramped):
    """Going down needs no ramp."""
    bench, _ = ramped
    assert bench.apply(100)[0].status is Status.APPLIED
    assert bench.limits()[0] == 100


def test_giving_back_is_at_once(ramped):
    """Neither restore nor an empty wish waits for the ramp."""
    bench, _ = ramped
    bench.apply(100, 100)
    bench.apply(None)
    bench.actuator.restore()
    assert bench.limits() == [ORIGINAL_W] * 2


# Groups


def test_group_is_put_back_when_one_fails(bench_local: Bench, standin_state):
    """When the second GPU refuses, the first goes back to what was in force before the call."""
    bench_local.apply(200, 200)
    standin_state.fail(standin.SET_LIMIT, standin.INVALID_ARGUMENT, gpu=1)
    first, second = bench_local.apply(150, 150)
    assert (first.status, second.status) == (Status.ROLLED_BACK, Status.FAILED)
    assert bench_local.uuids[1] in first.detail
    assert (first.enforced_w, bench_local.limits()) == (200, [200, 200])


def test_group_that_was_never_changed_before(bench_local: Bench, standin_state, place: Path):
    """A first group that fails leaves originals in force and no journal behind."""
    standin_state.fail(standin.SET_LIMIT, standin.INVALID_ARGUMENT, gpu=1)
    bench_local.apply(150, 150)
    assert (bench_local.limits(), entries(place)) == ([ORIGINAL_W] * 2, [])


def test_clocks_are_put_back_too(bench_local: Bench, standin_state):
    """A failed group gets its clock locks back as they were."""
    bench_local.apply(200, 200, sm_clock_mhz=900)
    standin_state.fail(standin.SET_CLOCKS, standin.INVALID_ARGUMENT, gpu=1)
    assert statuses(bench_local.apply(150, 150, sm_clock_mhz=600)) == [Status.ROLLED_BACK, Status.FAILED]
    standin_state.clear()
    assert bench_local.limits() == [200, 200]
    assert [bench_local.cards.clocks(index) for index in (0, 1)] == [(210, 900), (210, 900)]


def test_rollback_that_fails_is_said(bench_local: Bench, standin_state):
    """A GPU that cannot be put back is a failure of its own, and stays owed."""

    class Fate(DriverSetter):
        def set_power_limit_w(self, gpu: Gpu, power_limit_w: float) -> None:
            super().set_power_limit_w(gpu, power_limit_w)
            if gpu.index == 0 and power_limit_w == 150:
                standin_state.fail(standin.SET_LIMIT, standin.UNKNOWN)

    bench_local.apply(200, 200)
    for held in bench_local.actuator._held.values():
        held._setter = Fate()
    first, second = bench_local.apply(150, 150)
    assert (first.status, second.status) == (Status.FAILED, Status.FAILED)
    assert "could not be put back" in first.detail
    standin_state.clear()
    bench_local.actuator.restore()
    assert bench_local.limits() == [ORIGINAL_W] * 2


def test_lost_gpu_fails_its_own_group_only(bench_local: Bench, standin_state):
    """A GPU off the bus stops its own group; another job's GPU is served, and given back."""
    first, second = bench_local.uuids
    bench_local.apply(200, 200)
    standin_state.fail("*", standin.GPU_IS_LOST, gpu=0)
    assert bench_local.actuator.apply({first: Wish(150)})[first].status is Status.LOST
    assert bench_local.actuator.apply({second: Wish(150)})[second].status is Status.APPLIED
    lost, fine = bench_local.actuator.describe()
    assert (lost.can_set, lost.power_limit_w, fine.power_limit_w) == (True, None, 150)
    assert "bus" in lost.reason
    assert statuses(bench_local.actuator.restore().values()) == [Status.LOST, Status.RESTORED]
    assert bench_local.limits()[1] == ORIGINAL_W
    standin_state.clear()
    bench_local.actuator.close()
    assert bench_local.limits() == [ORIGINAL_W] * 2


def test_giving_back_is_not_undone_by_a_failing_group(bench_local: Bench, standin_state):
    """A GPU that is released in the same call stays released when the others fail."""
    bench_local.apply(200, 200)
    standin_state.fail(standin.SET_LIMIT, standin.INVALID_ARGUMENT, gpu=1)
    assert statuses(bench_local.apply(None, 150)) == [Status.RESTORED, Status.FAILED]
    assert bench_local.limits() == [ORIGINAL_W, 200]


# The journal


def test_journal_is_written_before_the_change(make_local, nvml: NvmlSystem, standin_state, place: Path):
    """At the moment of the change the file names the limit before and the one to come."""
    seen = []

    class Witness(DriverSetter):
        def set_power_limit_w(self, gpu: Gpu, power_limit_w: float) -> None:
            entry = Journal(place / "state").read(gpu.uuid)
            seen.append(entry and (entry.original_w, entry.default_w, entry.ours))
            super().set_power_limit_w(gpu, power_limit_w)

    bench = Bench("standin", make_local(nvml, setter=Witness()), StandinCards(standin_state))
    bench.apply(150)
    bench.apply(200)
    assert seen == [None, None, (275, 300, (275, 150)), (275, 300, (150, 200))]
    assert Journal(place / "state").read(bench.uuids[0]).ours == (200,)


def test_clock_lock_is_journalled_before(make_local, nvml: NvmlSystem, standin_state, place: Path):
    """A killed process's lock can be found and reset."""
    seen = []

    class Witness(DriverSetter):
        def lock_sm_clocks_mhz(self, gpu: Gpu, low_mhz: int, high_mhz: int) -> None:
            seen.append(Journal(place / "state").read(gpu.uuid).sm_clock_mhz)

    Bench("standin", make_local(nvml, setter=Witness()), StandinCards(standin_state)).apply(None, sm_clock_mhz=900)
    assert seen == [900]


def test_full_disk_means_no_change(bench_local: Bench, standin_state):
    """What cannot be written down is not done; what was done before can still be given back."""
    from test_actuation_journal import full_disk

    with full_disk():
        results = bench_local.apply(150, 150)
    assert statuses(results) == [Status.FAILED, Status.ROLLED_BACK]
    assert "nothing was changed" in results[0].detail
    assert len(standin_state.writes(function=standin.SET_LIMIT)) == 2  # the probes
    bench_local.apply(200, 200)
    with full_disk():
        assert statuses(bench_local.apply(150, 150)) == [Status.FAILED, Status.ROLLED_BACK]
        assert bench_local.limits() == [200, 200]
        assert statuses(bench_local.actuator.restore().values()) == [Status.RESTORED, Status.RESTORED]
    assert bench_local.limits() == [ORIGINAL_W] * 2


def test_full_disk_and_clocks(bench_local: Bench):
    """A clock lock that cannot be written down is not taken either."""
    from test_actuation_journal import full_disk

    with full_disk():
        assert statuses(bench_local.apply(None, sm_clock_mhz=900)) == [Status.FAILED]
    assert bench_local.cards.clocks(0) is None


def test_state_directory_removed_while_running(bench_local: Bench, place: Path):
    """The originals are also in memory while the process lives."""
    bench_local.apply(150, 150)
    for path in (place / "state" / "originals").iterdir():
        path.unlink()
    (place / "state" / "originals").rmdir()
    bench_local.actuator.restore()
    assert bench_local.limits() == [ORIGINAL_W] * 2


def test_no_place_for_the_journal(nvml: NvmlSystem, place: Path):
    """Without a state directory there is no actuator."""
    (place / "file").write_text("")
    with pytest.raises(ActuationError, match="file"):
        LocalActuator(nvml, state_dir=place / "file", lock_dir=place / "locks")


# Ownership


def test_second_actuator_is_refused(local: LocalActuator, nvml: NvmlSystem, place: Path):
    """Each GPU has one actuator; the second is told the pid of the first."""
    with pytest.raises(HeldElsewhere) as raised:
        LocalActuator(nvml, state_dir=place / "other", lock_dir=place / "locks")
    assert raised.value.pid == os.getpid()


def test_refused_actuator_lets_go_of_what_it_had(make_local, nvml: NvmlSystem, place: Path):
    """An actuator that gets only some of the GPUs keeps none."""
    from zeus_core.actuation.lock import GpuLock

    first, second = nvml.gpus()
    lock = GpuLock.acquire(place / "locks", second.uuid)
    with pytest.raises(HeldElsewhere):
        make_local(nvml)
    GpuLock.acquire(place / "locks", first.uuid).release()
    lock.release()


def test_closed_actuator_says_so(local: LocalActuator, nvml: NvmlSystem, make_local):
    """After close nothing can be set through it, and another may own the GPUs."""
    local.close()
    for call in (lambda: local.apply({}), local.restore):
        with pytest.raises(ActuationError, match="closed"):
            call()
    make_local(nvml)


def test_no_driver(make_local, standin_state):
    """Without a driver there is no actuator, and the text says what to check."""
    standin_state.fail("nvmlInitWithFlags", standin.DRIVER_NOT_LOADED)
    with pytest.raises(ActuationError, match="driver is not loaded"):
        make_local(NvmlSystem())


def test_no_gpus(make_local, profile):
    """A node without GPUs has nothing to set, and that is no error."""
    actuator = make_local(SimulatedSystem(profile, 0))
    assert (actuator.describe(), actuator.restore(), actuator.apply({})) == ((), {}, {})


# Talk


def test_foreign_change_is_logged_once(bench_local: Bench, caplog: pytest.LogCaptureFixture):
    """However often it is seen, one line says it."""
    bench_local.apply(200)
    with caplog.at_level(logging.WARNING):
        bench_local.cards.foreign(0, 180)
        for _ in range(3):
            bench_local.apply(150)
            bench_local.actuator.describe()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "180 W" in caplog.text
    assert "200 W" in caplog.text


def test_persistence_is_hinted_at(bench_local: Bench, standin_state):
    """A limit that was dropped may be the driver's doing, where persistence mode is off."""
    bench_local.apply(200)
    standin_state[0].raw.persistence = 0
    standin_state.reload_driver()
    applied = bench_local.apply(200)[0]
    assert applied.status is Status.FOREIGN
    assert "persistence mode is off" in applied.detail


def test_close_says_what_it_could_not_give_back(bench_local: Bench, standin_state, caplog, place: Path):
    """What is still owed at the end is an error in the log and stays in the journal."""
    bench_local.apply(150, 150)
    standin_state.fail("*", standin.GPU_IS_LOST, gpu=0)
    bench_local.actuator.close()
    assert [record.levelname for record in caplog.records if "not given back" in record.message] == ["ERROR"]
    assert entries(place) == [bench_local.uuids[0]]


# Threads


def test_threads_do_not_mix_their_groups(make_local, nvml: NvmlSystem, standin_state):
    """Groups of several threads come one after the other: both GPUs always have one thread's wish."""

    class Leisurely(DriverSetter):
        """Gives other threads a chance between the GPUs of a group."""

        def set_power_limit_w(self, gpu: Gpu, power_limit_w: float) -> None:
            super().set_power_limit_w(gpu, power_limit_w)
            threading.Event().wait(0.002)

    bench = Bench("standin", make_local(nvml, setter=Leisurely()), StandinCards(standin_state))
    standin_state.reset_counts()

    def work(limit_w: float) -> None:
        for _ in range(5):
            bench.apply(limit_w, limit_w)
            bench.actuator.describe()

    threads = [threading.Thread(target=work, args=(limit_w,)) for limit_w in (100, 130, 160, 190)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writes = [(write.gpu, write.watts) for write in standin_state.writes()]
    for (first, first_w), (second, second_w) in zip(writes[::2], writes[1::2], strict=True):
        assert (first, second, first_w) == (0, 1, second_w)
    bench.actuator.restore()
    assert bench.limits() == [ORIGINAL_W] * 2


@pytest.mark.parametrize("real", [True, False])
def test_only_for_cards_that_are_there_the_disk_is_waited_for(
    request, real, make_local, place: Path, monkeypatch: pytest.MonkeyPatch
):
    """A journal of simulated cards is written and read as any other; no power cut could leave them in our limit."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    get = request.getfixturevalue
    system = get("nvml") if real else SimulatedSystem(get("profile"), 2)
    actuator, uuid = make_local(system), system.gpus()[0].uuid
    assert actuator.apply({uuid: Wish(200.0)})[uuid].status is Status.APPLIED
    entry = Journal(place / "state").read(uuid)
    assert entry.ours == (200.0,)
    actuator.close()
    assert entries(place) == []
    assert bool(synced) == real
