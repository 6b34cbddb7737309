"""The stand-in itself: what the other tests rely on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pynvml
import pytest
import standin
from standin import NO_PERMISSION, SET_CLOCKS, SET_LIMIT, State, Write


@pytest.fixture
def handle(standin_state: State):
    pynvml.nvmlInit()
    yield pynvml.nvmlDeviceGetHandleByIndex(0)
    standin_state.clear()
    pynvml.nvmlShutdown()


def run(state: State, code: str, **options) -> str:
    command = [sys.executable, "-c", f"from pynvml import *; nvmlInit(); h = nvmlDeviceGetHandleByIndex(0)\n{code}"]
    done = subprocess.run(command, env=state.env(), capture_output=True, text=True, check=True, **options)
    return done.stdout.strip()


def test_two_processes_see_one_card(handle, standin_state: State):
    """A limit set by one process is read by another, and by the test."""
    assert run(standin_state, "nvmlDeviceSetPowerManagementLimit(h, 180000)") == ""
    assert pynvml.nvmlDeviceGetPowerManagementLimit(handle) == 180_000
    pynvml.nvmlDeviceSetPowerManagementLimit(handle, 190_000)
    assert run(standin_state, "print(nvmlDeviceGetPowerManagementLimit(h))") == "190000"
    standin_state[0].limit_w = 200
    assert run(standin_state, "print(nvmlDeviceGetPowerManagementLimit(h))") == "200000"


def test_a_file_can_be_opened_again(standin_state: State, tmp_path):
    """Another ``State`` on the same file sees the same cards; any other file is refused."""
    again = State(standin_state.path)
    standin_state[1].limit_w = 123
    assert (again[1].limit_w, again.uuids) == (123, standin_state.uuids)
    other = tmp_path / "other"
    other.write_bytes(bytes(standin_state.path.stat().st_size))
    with pytest.raises(ValueError, match="not a file of stand-in cards"):
        State(other)


def test_only_the_configured_uid_may_write(handle, standin_state: State):
    """With a root uid every change by anybody else is refused and logged as such."""
    standin_state.root_uid = os.geteuid() + 1
    for change in (
        lambda: pynvml.nvmlDeviceSetPowerManagementLimit(handle, 150_000),
        lambda: pynvml.nvmlDeviceSetGpuLockedClocks(handle, 210, 1005),
        lambda: pynvml.nvmlDeviceResetGpuLockedClocks(handle),
        lambda: pynvml.nvmlDeviceSetPersistenceMode(handle, 0),
    ):
        with pytest.raises(pynvml.NVMLError_NoPermission):
            change()
    assert [write.code for write in standin_state.writes()] == [NO_PERMISSION] * 4
    assert standin_state[0].limit_w == 275
    standin_state.root_uid = os.geteuid()
    pynvml.nvmlDeviceSetPowerManagementLimit(handle, 150_000)
    assert standin_state[0].limit_w == 150


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another uid")
def test_a_process_of_another_uid_reads_but_does_not_write(standin_state: State):
    """The cards can be read by every uid, and written only by the one configured."""
    standin_state.root_uid = 0
    code = (
        "import os; os.setgid(65534); os.setuid(65534)\n"
        "nvmlShutdown(); nvmlInit(); h = nvmlDeviceGetHandleByIndex(0)\n"
        "print(nvmlDeviceGetPowerManagementLimit(h))\n"
        "try: nvmlDeviceSetPowerManagementLimit(h, 150000)\n"
        "except NVMLError_NoPermission: print('refused')"
    )
    assert run(standin_state, code) == "275000\nrefused"
    (write,) = standin_state.writes()
    assert (write.uid, write.code) == (65534, NO_PERMISSION)


def test_writes_are_logged_with_who_and_what(handle, standin_state: State):
    """The log holds every attempt in order, with its process, its value and its result."""
    pynvml.nvmlDeviceSetPowerManagementLimit(handle, 150_000)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceSetPowerManagementLimit(handle, 301_000)
    pynvml.nvmlDeviceSetGpuLockedClocks(handle, 210, 1005)
    first, second, third = standin_state.writes(gpu=0)
    expected = Write(first.at_ns, os.getpid(), os.geteuid(), 0, SET_LIMIT, 150_000, 0, 0)
    assert (first, first.watts) == (expected, 150)
    assert (second.value, second.code) == (301_000, 2)
    assert (third.function, third.value, third.value2) == (SET_CLOCKS, 210, 1005)
    assert standin_state.writes(gpu=1) == []
    assert standin_state.writes(function=SET_CLOCKS) == [third]
    standin_state.reset_counts()
    assert standin_state.writes() == []


def test_the_draw_is_the_least_of_demand_and_limits(standin_state: State):
    """Draw follows the load up to the limit in force, which a cap from outside may lower."""
    card = standin_state[0]
    assert card.draw_w == 30
    card.demand_w = 200
    assert card.draw_w == 200
    card.limit_w = 150
    assert card.draw_w == 150
    card.oob_cap_w = 120
    assert (card.draw_w, card.enforced_w, card.limit_w) == (120, 120, 150)


def test_energy_is_the_draw_over_time(handle, standin_state: State):
    """Between two readings of the counter lies the draw times the real time between them."""
    card = standin_state[0]
    card.demand_w = 250
    start_ns, start_mj = card.raw.energy_at_ns, card.raw.energy_mj
    while pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) < start_mj + 5000:
        pass
    with standin_state.locked():
        seconds = (card.raw.energy_at_ns - start_ns) / 1e9
        assert card.raw.energy_mj - start_mj == pytest.approx(250_000 * seconds)


def test_a_change_books_what_was_drawn_before(standin_state: State):
    """Raising the load does not reprice the time before it."""
    card = standin_state[0]
    before_ns, before_mj = card.raw.energy_at_ns, card.raw.energy_mj
    card.demand_w = 300
    idle_s = (card.raw.energy_at_ns - before_ns) / 1e9
    assert card.raw.energy_mj - before_mj == pytest.approx(30_000 * idle_s)


def test_faults_last_as_long_as_they_should(handle, standin_state: State):
    """A fault is for ever, for some calls, for one GPU, or until the next init; and can be cleared."""
    other = pynvml.nvmlDeviceGetHandleByIndex(1)
    standin_state.fail("nvmlDeviceGetPowerUsage", 15, gpu=0, count=2)
    for _ in range(2):
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            pynvml.nvmlDeviceGetPowerUsage(handle)
        pynvml.nvmlDeviceGetPowerUsage(other)
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == 30_000
    everything = standin_state.fail("*", 16, gpu=0)
    with pytest.raises(pynvml.NVMLError_ResetRequired):
        pynvml.nvmlDeviceGetName(handle)
    everything.clear()
    standin_state.fail("*", 18, until_init=True)
    with pytest.raises(pynvml.NVMLError_LibRmVersionMismatch):
        pynvml.nvmlDeviceGetName(handle)
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetName(handle) == "NVIDIA A40"
    pynvml.nvmlShutdown()


def test_a_hang_ends_when_it_is_cleared(handle, standin_state: State):
    """A call that hangs holds up its thread alone, and answers once it is let go."""
    hang = standin_state.hang("nvmlDeviceGetPowerUsage", gpu=0)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(pynvml.nvmlDeviceGetPowerUsage(handle)))
    thread.start()
    while not standin_state.calls("nvmlDeviceGetPowerUsage", gpu=0):
        pass
    assert pynvml.nvmlDeviceGetPowerManagementLimit(handle) == 275_000
    assert answers == []
    hang.clear()
    thread.join(10)
    assert answers == [30_000]


def test_calls_are_counted(handle, standin_state: State):
    """Calls are counted by function and GPU, over all processes."""
    standin_state.reset_counts()
    pynvml.nvmlDeviceGetPowerUsage(handle)
    run(standin_state, "nvmlDeviceGetPowerUsage(h)")
    assert standin_state.calls("nvmlDeviceGetPowerUsage") == 2
    assert standin_state.calls("nvmlDeviceGetPowerUsage", gpu=1) == 0
    assert standin_state.calls("nvmlInitWithFlags") == 1
    assert standin_state.calls(gpu=0) == 3


def test_a_killed_process_leaves_no_lock(handle, standin_state: State):
    """However a process ends, the next call of another goes through."""
    code = (
        "from pynvml import *; nvmlInit(); h = nvmlDeviceGetHandleByIndex(0); print(1, flush=True)\n"
        "while True: nvmlDeviceSetPowerManagementLimit(h, 150000)"
    )
    command = [sys.executable, "-c", code]
    for _ in range(3):
        with subprocess.Popen(command, env=standin_state.env(), stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        pynvml.nvmlDeviceSetPowerManagementLimit(handle, 160_000)
    assert standin_state[0].limit_w == 160


def test_a_driver_reload_forgets(handle, standin_state: State):
    """An unload leaves the default limit, free clocks and a counter that begins again."""
    pynvml.nvmlDeviceSetGpuLockedClocks(handle, 210, 1005)
    standin_state[0].energy_j = 1000
    standin_state.reload_driver()
    assert (standin_state[0].limit_w, standin_state[0].locked_sm_mhz) == (300, None)
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) < 1_000_000


def test_a_counter_may_move_in_steps(handle, standin_state: State):
    """A real counter is updated now and then; between two updates it stands."""
    standin_state[0].raw.energy_step_ns = 10**15
    standin_state[0].demand_w = 300
    assert len({pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) for _ in range(50)}) == 1


def test_without_an_init_nothing_answers(standin_state: State):
    """Every call before nvmlInit is Uninitialized, as with the real library."""
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


def test_the_layouts_agree():
    """Python's view of the shared file is C's."""
    import ctypes

    assert standin._library()[1].standin_sizeof() == ctypes.sizeof(standin._State)
