"""What a dead owner left: found, judged, and given back without a daemon and without a database."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import standin
from actuation_harness import ORIGINAL_W, Worker

from zeus_core.actuation.base import ActuationError, Applied, Status, Wish
from zeus_core.actuation.journal import Entry, Journal
from zeus_core.actuation.leftovers import restore_leftovers
from zeus_core.actuation.local import LocalActuator
from zeus_core.gpus.nvml import NvmlSystem


@pytest.fixture
def journal(place: Path) -> Journal:
    journal = Journal(place / "state")
    journal.prepare()
    return journal


@pytest.fixture
def leave(journal: Journal, standin_state):
    """Puts GPU 0 into the state that a dead owner would have left."""

    def leave_behind(limit_w: float, *, ours: tuple[float, ...] = (150.0,), **changes) -> str:
        uuid = standin_state.uuids[0]
        entry = replace(Entry.of(uuid, ORIGINAL_W, 300.0), ours=ours, pid=4242, **changes)
        journal.write(entry)
        standin_state[0].limit_w = limit_w
        return uuid

    return leave_behind


@pytest.fixture(params=["restore", "next start"])
def recover(request: pytest.FixtureRequest, place: Path, nvml: NvmlSystem, make_local):
    """Both ways to find leftovers: `chase restore`, and the next actuator to start."""

    def by_restore() -> dict[str, Applied]:
        return restore_leftovers(nvml, place / "state", place / "locks")

    return by_restore if request.param == "restore" else lambda: make_local(nvml).leftovers


SAME, OTHER = {}, {"boot_id": "another-boot"}


@pytest.mark.parametrize(
    ("boot", "found_w", "status", "left_w"),
    [
        (SAME, 150, Status.RESTORED, ORIGINAL_W),
        (SAME, 150.6, Status.RESTORED, ORIGINAL_W),
        (SAME, ORIGINAL_W, Status.RESTORED, ORIGINAL_W),
        (SAME, 180, Status.FOREIGN, 180),
        (SAME, 300, Status.FOREIGN, 300),
        (OTHER, 150, Status.RESTORED, ORIGINAL_W),
        (OTHER, 300, Status.RESTORED, ORIGINAL_W),
        (OTHER, ORIGINAL_W, Status.RESTORED, ORIGINAL_W),
        (OTHER, 180, Status.FOREIGN, 180),
    ],
)
def test_rules(recover, leave, standin_state, journal: Journal, *, boot, found_w, status, left_w):
    """Ours goes back to the original, in another boot the default too; a foreign limit stays; the journal closes."""
    uuid = leave(found_w, **boot)
    assert [(key, applied.status) for key, applied in recover().items()] == [(uuid, status)]
    assert standin_state[0].limit_w == left_w
    assert journal.uuids() == []


@pytest.mark.parametrize("found_w", [200, 150])
def test_killed_between_journal_and_change(recover, leave, standin_state, found_w: float):
    """Whether the last change was made or not, the original comes back."""
    leave(found_w, ours=(200.0, 150.0))
    recover()
    assert standin_state[0].limit_w == ORIGINAL_W


@pytest.mark.parametrize(("boot", "left"), [(SAME, None), (OTHER, (210, 900))])
def test_clocks(recover, leave, standin_state, boot, left):
    """A lock is reset in the boot that it was made in; after another it is somebody else's."""
    leave(ORIGINAL_W, ours=(), sm_clock_mhz=900, **boot)
    standin_state[0].raw.locked_min_mhz, standin_state[0].raw.locked_max_mhz = 210, 900
    recover()
    assert standin_state[0].locked_sm_mhz == left


def test_clocks_alone_leave_the_limit(recover, leave, standin_state):
    """An entry for clocks alone says nothing about the limit."""
    leave(300, ours=(), sm_clock_mhz=900)
    recover()
    assert standin_state[0].limit_w == 300


def test_nothing_left(recover):
    """Without a journal there is nothing to do."""
    assert recover() == {}


def test_twice(recover, leave, place: Path, nvml: NvmlSystem):
    """What is given back is not given back again."""
    leave(150)
    assert len(recover()) == 1
    assert restore_leftovers(nvml, place / "state", place / "locks") == {}


def test_gpu_that_is_not_there_now(recover, journal: Journal):
    """An original owed to a GPU that the node does not show stays on the books."""
    journal.write(replace(Entry.of("GPU-on-its-way-to-repair", ORIGINAL_W, 300.0), ours=(150.0,)))
    applied = recover()["GPU-on-its-way-to-repair"]
    assert applied.status is Status.LOST
    assert "275 W" in applied.detail
    assert journal.uuids() == ["GPU-on-its-way-to-repair"]


def test_damaged_journal(recover, leave, standin_state, journal: Journal):
    """A journal that cannot be read is kept aside and reported; the GPU is left as it is."""
    uuid = leave(150)
    path = journal.directory / f"{uuid}.json"
    path.write_bytes(path.read_bytes()[:40])
    applied = recover()[uuid]
    assert applied.status is Status.FAILED
    assert "nvidia-smi" in applied.detail
    assert standin_state[0].limit_w == 150
    assert [each.name for each in journal.directory.iterdir()] == [f"{uuid}.json.damaged-1"]


def test_fault_keeps_the_entry(recover, leave, standin_state, journal: Journal):
    """What cannot be given back now is given back the next time."""
    uuid = leave(150)
    standin_state.fail(standin.SET_LIMIT, standin.GPU_IS_LOST, gpu=0)
    assert recover()[uuid].status is Status.LOST
    assert journal.uuids() == [uuid]


def test_leftover_is_still_owed_by_the_next_actuator(leave, standin_state, make_local, nvml: NvmlSystem):
    """An actuator that could not give a leftover back at its start does so when it is asked, or at its end."""
    uuid = leave(150)
    standin_state.fail(standin.SET_LIMIT, standin.GPU_IS_LOST, gpu=0)
    actuator = make_local(nvml)
    assert actuator.owed == {uuid}
    standin_state.clear()
    actuator.apply({uuid: Wish(120)})
    actuator.close()
    assert standin_state[0].limit_w == ORIGINAL_W


def test_living_holder_is_left_alone(place: Path, nvml: NvmlSystem, standin_state, local: LocalActuator):
    """What a living actuator has in force is no leftover; the result names the holder."""
    uuid = standin_state.uuids[0]
    local.apply({uuid: Wish(150)})
    applied = restore_leftovers(nvml, place / "state", place / "locks")[uuid]
    assert applied.status is Status.FAILED
    assert str(os.getpid()) in applied.detail
    assert standin_state[0].limit_w == 150


def test_no_driver(leave, standin_state, place: Path):
    """Without a driver nothing can be given back, and the text says that something is owed."""
    leave(150)
    standin_state.fail("nvmlInitWithFlags", standin.DRIVER_NOT_LOADED)
    with pytest.raises(ActuationError, match="to be given back"):
        restore_leftovers(NvmlSystem(), place / "state", place / "locks")


def test_no_driver_and_nothing_owed(standin_state, place: Path):
    """Where nothing is owed no driver is asked."""
    standin_state.fail("nvmlInitWithFlags", standin.DRIVER_NOT_LOADED)
    assert restore_leftovers(NvmlSystem(), place / "state", place / "locks") == {}


def test_with_a_setter_command(leave, standin_state, place: Path, nvml: NvmlSystem, setter_script: list[str]):
    """Where only the site's command may set, it gives back too."""
    from zeus_core.actuation.command import CommandSetter

    uuid = leave(150)
    found = restore_leftovers(nvml, place / "state", place / "locks", setter=CommandSetter(setter_script))
    assert found[uuid].status is Status.RESTORED
    assert standin_state[0].limit_w == ORIGINAL_W


@pytest.mark.parametrize("after", [False, True], ids=["before the set", "after the set"])
@pytest.mark.parametrize("at", [3, 4, 5, 6])
def test_process_that_dies_at_a_set(place: Path, nvml: NvmlSystem, standin_state, at: int, after: bool):
    """A process killed right before or right after any change, by itself, leaves what is needed to undo it."""
    paths = {"state_dir": str(place / "state"), "lock_dir": str(place / "locks")}
    worker = Worker("local", json.dumps({**paths, "die_at": at, "die_after": after}))
    wishes = [{uuid: Wish(limit_w) for uuid in standin_state.uuids} for limit_w in (200, 150)]
    with suppress(EOFError, BrokenPipeError):
        for wish in wishes:
            worker.apply(wish)
    assert worker.process.wait(timeout=10) == -signal.SIGKILL
    worker.kill()
    found = restore_leftovers(nvml, place / "state", place / "locks")
    assert all(applied.status is Status.RESTORED for applied in found.values())
    assert [card.limit_w for card in standin_state] == [ORIGINAL_W] * 2
    assert Journal(place / "state").uuids() == []
