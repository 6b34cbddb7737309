from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable

import pytest
from standin import State

from zeus_core.gpus import nvml_errors
from zeus_core.gpus.base import (
    BadReading,
    GpuError,
    Lost,
    NoPermission,
    NotSupported,
    PowerLimits,
    Refused,
    Unavailable,
)
from zeus_core.gpus.nvml import NvmlGpu, NvmlSystem

CODES: dict[int, type[GpuError]] = {
    **dict.fromkeys((1, 5, 7, 9, 10, 12, 17, 18, 20, 21, 23, 27, 999, 4711), Unavailable),
    **dict.fromkeys((2, 19, 24, 29), Refused),
    **dict.fromkeys((3, 13, 22, 25, 26, 30), NotSupported),
    **dict.fromkeys((6, 8, 11, 14, 15, 16, 28), Lost),
    4: NoPermission,
}
UNSUPPORTED = {code for code, kind in CODES.items() if kind is NotSupported}

# Every function of the library that a GPU's methods call, the method, and the codes that the method lives with.
CALLS: list[tuple[str, Callable[[NvmlGpu], object], set[int]]] = [
    ("nvmlDeviceGetPowerManagementLimitConstraints", NvmlGpu.power_limits, set()),
    ("nvmlDeviceGetPowerManagementDefaultLimit", NvmlGpu.power_limits, set()),
    ("nvmlDeviceGetPowerManagementLimit", NvmlGpu.power_limit_w, set()),
    ("nvmlDeviceGetEnforcedPowerLimit", NvmlGpu.enforced_power_limit_w, set()),
    ("nvmlDeviceSetPowerManagementLimit", lambda gpu: gpu.set_power_limit_w(200), set()),
    ("nvmlDeviceGetFieldValues", NvmlGpu.power_w, UNSUPPORTED),
    ("field:186:0", NvmlGpu.power_w, UNSUPPORTED | {2}),
    ("nvmlDeviceGetTotalEnergyConsumption", NvmlGpu.energy_j, set()),
    ("nvmlDeviceGetClockInfo", NvmlGpu.sm_clock_mhz, set()),
    ("nvmlDeviceGetSupportedMemoryClocks", NvmlGpu.supported_sm_clocks_mhz, {7}),
    ("nvmlDeviceGetSupportedGraphicsClocks", NvmlGpu.supported_sm_clocks_mhz, {7}),
    ("nvmlDeviceSetGpuLockedClocks", lambda gpu: gpu.lock_sm_clocks_mhz(210, 1005), set()),
    ("nvmlDeviceResetGpuLockedClocks", NvmlGpu.reset_sm_clocks, set()),
    ("nvmlDeviceGetUtilizationRates", NvmlGpu.utilisation, set()),
    ("nvmlDeviceGetCurrentClocksEventReasons", NvmlGpu.throttle_reasons, UNSUPPORTED),
    ("nvmlDeviceGetComputeRunningProcesses_v3", NvmlGpu.processes, {7}),
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", NvmlGpu.processes, UNSUPPORTED | {7}),
    ("nvmlDeviceGetPersistenceMode", NvmlGpu.persistence, set()),
    ("nvmlDeviceGetMigMode", NvmlGpu.mig_enabled, UNSUPPORTED),
]


@pytest.mark.parametrize(("function", "method", "tolerated"), CALLS, ids=[call[0] for call in CALLS])
def test_every_error_at_every_call(
    standin_state: State,
    system: NvmlSystem,
    function: str,
    method: Callable[[NvmlGpu], object],
    tolerated: set[int],
):
    """Each NVML code at each call becomes one of our few errors with the UUID and the call, on that GPU alone."""
    first, second = system.gpus()
    assert isinstance(first, NvmlGpu)
    assert isinstance(second, NvmlGpu)
    for code in sorted(CODES.keys() - tolerated):
        fault = standin_state.fail(function, code, gpu=0)
        with pytest.raises(GpuError) as caught:
            method(first)
        assert type(caught.value) is CODES[code], f"{function}: {code}"
        assert caught.value.uuid == first.uuid
        assert caught.value.call.startswith("nvml")
        assert first.uuid in str(caught.value)
        method(second)
        fault.clear()
        method(first)


@pytest.mark.parametrize(
    ("function", "method"),
    [
        ("nvmlDeviceGetFieldValues", NvmlGpu.power_w),
        ("nvmlDeviceGetCurrentClocksEventReasons", NvmlGpu.throttle_reasons),
        ("nvmlDeviceGetGraphicsRunningProcesses_v3", NvmlGpu.processes),
        ("nvmlDeviceGetMigMode", NvmlGpu.mig_enabled),
    ],
)
def test_absence_is_a_capability_not_a_fault(gpu: NvmlGpu, standin_state: State, function: str, method):
    """Where there is another way, or where absence is the answer, an unsupported call raises nothing."""
    for code in UNSUPPORTED:
        fault = standin_state.fail(function, code)
        method(gpu)
        fault.clear()


def test_every_code_that_pynvml_knows_has_its_own_text():
    """No code of the pynvml that is installed falls through to the catch-all."""
    import pynvml

    known = {value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_") and value}
    assert known - nvml_errors._CODES.keys() == set()


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_text_says_what_to_do(code: int):
    """A message names the GPU, the call, what happened and what to do about it."""
    error = nvml_errors.translate(code, uuid="GPU-1", call="nvmlThing")
    place, call, rest = str(error).split(": ", 2)
    what, advice = rest.split("; ", 1)
    assert (place, call) == ("GPU-1", "nvmlThing")
    assert what
    assert len(advice) > 15


def test_without_permission_the_text_names_the_ways_to_get_it(gpu: NvmlGpu, standin_state: State):
    """A user who may not change the card learns of root, CAP_SYS_ADMIN and the actuator; the card is untouched (G1)."""
    standin_state.root_uid = os.geteuid() + 1
    with pytest.raises(NoPermission, match=r"CAP_SYS_ADMIN.*chase actuator"):
        gpu.set_power_limit_w(200)
    assert standin_state[0].limit_w == 275
    assert gpu.power_limit_w() == 275


@pytest.mark.parametrize("code", [17, 999])
def test_a_container_that_lost_its_gpus_is_told_why(gpu: NvmlGpu, standin_state: State, code: int):
    """The texts of the errors that follow a daemon-reload on the host say so, and name CDI (rule G18)."""
    standin_state.fail("nvmlDeviceGetPowerManagementLimit", code)
    with pytest.raises(Unavailable, match=r"daemon-reload.*CDI"):
        gpu.power_limit_w()


@pytest.mark.parametrize("code", [1, 18])
def test_a_lost_session_is_opened_anew_once(gpu: NvmlGpu, standin_state: State, code: int):
    """After a fork or a driver upgrade, shutdown and init cure the session, and the caller never knows (rule G17)."""
    standin_state.reset_counts()
    standin_state.fail("*", code, until_init=True)
    assert gpu.power_limit_w() == 275
    assert standin_state.calls("nvmlInitWithFlags") == 1


def test_a_version_mismatch_that_stays_is_said_without_a_storm(gpu: NvmlGpu, standin_state: State):
    """A mismatch that only a restart cures is opened anew once, not at every call (rule G17)."""
    standin_state.reset_counts()
    standin_state.fail("nvmlDeviceGetPowerManagementLimit", 18)
    for _ in range(5):
        with pytest.raises(Unavailable, match="driver was upgraded under this process: restart it"):
            gpu.power_limit_w()
    assert standin_state.calls("nvmlInitWithFlags") == 1


def test_a_driver_that_comes_back_is_used_again(gpu: NvmlGpu, standin_state: State):
    """While the driver is gone every call is Unavailable; when it is back the same object works."""
    gone = standin_state.fail("nvmlInitWithFlags", 9)
    standin_state.fail("*", 1, until_init=True)
    with pytest.raises(Unavailable, match="not loaded"):
        gpu.power_limit_w()
    with pytest.raises(Unavailable, match="not loaded"):
        gpu.power_limit_w()
    gone.clear()
    assert gpu.power_limit_w() == 275


@pytest.mark.parametrize("code", [4, 9, 12, 18, 999])
def test_no_driver_is_unavailable_not_a_crash(standin_state: State, code: int):
    """A node whose NVML cannot be initialised has no GPUs to ask, and says why."""
    standin_state.fail("nvmlInitWithFlags", code)
    system = NvmlSystem(call_budget_s=20)
    with pytest.raises(Unavailable):
        system.gpus()
    standin_state.clear()
    assert len(system.gpus()) == 2
    system.close()


def test_no_library_at_all(tmp_path, standin_state: State):
    """Where libnvidia-ml.so.1 does not exist, the text says to install the driver."""
    code = (
        "import ctypes\n"
        "from zeus_core.gpus.nvml import NvmlSystem\n"
        "import pynvml\n"
        "def absent(*args, **kwargs): raise OSError('no such file')\n"
        "pynvml.CDLL = absent\n"
        "try: NvmlSystem().gpus()\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Unavailable NVML: nvmlInit: libnvidia-ml.so.1 was not found; install")


@pytest.mark.parametrize("code", [15, 28, 999])
def test_one_lost_gpu_leaves_the_others(standin_state: State, code: int):
    """A GPU that cannot even be identified is named as missing, and found again when it is back (rules G15, G20)."""
    fault = standin_state.fail("nvmlDeviceGetHandleByIndex_v2", code, gpu=0)
    system = NvmlSystem(call_budget_s=20)
    assert [gpu.index for gpu in system.gpus()] == [1]
    assert isinstance(system.missing[0], CODES[code])
    fault.clear()
    assert [gpu.index for gpu in system.gpus()] == [0, 1]
    assert system.missing == {}
    system.close()


def test_a_gpu_that_hangs_is_lost_alone(impatient: NvmlSystem, standin_state: State):
    """A call that never returns costs its caller the budget, later callers nothing, and other GPUs nothing (G15)."""
    first, second = impatient.gpus()
    hang = standin_state.hang("nvmlDeviceGetPowerManagementLimit", gpu=0)
    with pytest.raises(Lost, match=r"no answer for \d\.\d s; the GPU hangs"):
        first.power_limit_w()
    calls = standin_state.calls(gpu=0)
    for _ in range(20):
        with pytest.raises(Lost):
            first.power_w()
    assert standin_state.calls(gpu=0) == calls
    assert second.power_limit_w() == 275
    hang.clear()
    assert _eventually(first.power_limit_w) == 275


def test_a_write_given_up_before_it_began_is_never_made(impatient: NvmlSystem, standin_state: State):
    """A limit whose caller was told that it failed does not reach the card later, when the GPU is back."""
    first = impatient.gpus()[0]
    hang = standin_state.hang("nvmlDeviceGetPowerManagementLimit", gpu=0)

    def read() -> None:
        with pytest.raises(Lost):
            first.power_limit_w()

    reader = threading.Thread(target=read)
    reader.start()
    while not standin_state.calls("nvmlDeviceGetPowerManagementLimit", gpu=0):
        pass
    with pytest.raises(Lost):
        first.set_power_limit_w(111)
    reader.join()
    hang.clear()
    _eventually(first.power_limit_w)
    assert standin_state.writes() == []


def test_closing_does_not_wait_for_a_gpu_that_hangs(standin_state: State):
    """A hung GPU does not keep its owner from ending."""
    others = set(threading.enumerate())
    system = NvmlSystem(call_budget_s=1.5)
    first = system.gpus()[0]
    hang = standin_state.hang("nvmlDeviceGetPowerManagementLimit", gpu=0)
    with pytest.raises(Lost):
        first.power_limit_w()
    shutdown = standin_state.hang("nvmlShutdown")
    system.close()
    for fault in (hang, shutdown):
        fault.clear()
    for thread in set(threading.enumerate()) - others:
        if thread.name.startswith("nvml"):
            thread.join(20)


def test_a_process_with_a_hung_gpu_can_exit(standin_state: State):
    """The thread left behind in the driver does not keep the process alive."""
    standin_state.hang("nvmlDeviceGetPowerManagementLimit", gpu=0)
    code = (
        "from zeus_core.gpus.nvml import NvmlSystem\n"
        "from zeus_core.gpus.base import Lost\n"
        "gpu = NvmlSystem(call_budget_s=1.5).gpus()[0]\n"
        "try: gpu.power_limit_w()\n"
        "except Lost: print('lost')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=standin_state.env(), capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout == "lost\n"


def test_a_slow_call_within_the_budget_is_an_answer(gpu: NvmlGpu, standin_state: State):
    """Slow is not hung."""
    standin_state.hang("nvmlDeviceGetPowerManagementLimit", milliseconds=100)
    assert gpu.power_limit_w() == 275


def test_a_driver_that_hangs_as_a_whole_is_unavailable(impatient: NvmlSystem, standin_state: State):
    """When even counting the GPUs hangs, there is no driver to ask."""
    hang = standin_state.hang("nvmlDeviceGetCount_v2")
    with pytest.raises(Unavailable, match="the NVIDIA driver hangs"):
        impatient.gpus()
    hang.clear()
    assert len(_eventually(impatient.gpus)) == 2


def test_a_forked_child_opens_a_session_of_its_own(gpu: NvmlGpu, standin_state: State):
    """NVML does not survive a fork; the child initialises again and the parent's session goes on (rule G17)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is tested
        child = os.fork()
    if child == 0:
        try:
            os._exit(0 if gpu.power_limit_w() == 275 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gpu.power_limit_w() == 275


SENTINELS = [0xFFFFFFFF, 0x7FFFFFF0, 0x7FFFFFFF]


@pytest.mark.parametrize("sentinel", SENTINELS)
@pytest.mark.parametrize(
    ("function", "method"),
    [
        ("nvmlDeviceGetPowerManagementLimit", NvmlGpu.power_limit_w),
        ("nvmlDeviceGetPowerManagementLimitConstraints", NvmlGpu.power_limits),
        ("nvmlDeviceGetPowerManagementDefaultLimit", NvmlGpu.power_limits),
        ("nvmlDeviceGetEnforcedPowerLimit", NvmlGpu.enforced_power_limit_w),
        ("field:186:0", NvmlGpu.power_w),
        ("nvmlDeviceGetClockInfo", NvmlGpu.sm_clock_mhz),
        ("nvmlDeviceGetUtilizationRates", NvmlGpu.utilisation),
    ],
)
def test_sentinels_are_refused_and_counted(gpu: NvmlGpu, standin_state: State, function: str, method, sentinel: int):
    """A blank value is no reading: it is refused, counted, and the next good one is used (rule G14)."""
    standin_state.answer(function, sentinel, count=1)
    with pytest.raises(BadReading, match="cannot be true"):
        method(gpu)
    assert gpu.rejected.total() == 1
    method(gpu)
    assert gpu.rejected.total() == 1


def test_the_system_counts_for_all_its_gpus(system: NvmlSystem, standin_state: State):
    """The refused readings of a node are the sum of its GPUs'."""
    standin_state.answer("nvmlDeviceGetClockInfo", 0xFFFFFFFF)
    for gpu in system.gpus():
        with pytest.raises(BadReading):
            gpu.sm_clock_mhz()
    assert system.rejected == 2


@pytest.mark.parametrize("millijoules", [2**64 - 1, 2**63 - 16, 2**63 - 14, 2**47, 10**18])
def test_impossible_counters_are_refused(gpu: NvmlGpu, standin_state: State, millijoules: int):
    """Petajoules and the known blanks are no energy (rule G14)."""
    standin_state.answer("nvmlDeviceGetTotalEnergyConsumption", millijoules)
    with pytest.raises(BadReading):
        gpu.energy_j()
    assert gpu.rejected == {"nvmlDeviceGetTotalEnergyConsumption": 1}


@pytest.mark.parametrize(("milliwatts", "good"), [(0, True), (450_000, True), (450_001, False), (2**31, False)])
def test_power_up_to_one_and_a_half_times_the_highest_limit(
    gpu: NvmlGpu, standin_state: State, milliwatts: int, good: bool
):
    """A draw above 1.5 times the highest limit is a fault, not a reading (rule G14)."""
    standin_state.answer("field:186:0", milliwatts)
    if good:
        assert gpu.power_w() == milliwatts / 1000
    else:
        with pytest.raises(BadReading):
            gpu.power_w()


def test_the_bound_keeps_the_widest_limits_seen(gpu: NvmlGpu, standin_state: State):
    """A host that narrows the limits does not turn true readings into faults."""
    gpu.power_limits()
    standin_state[0].max_w = 120
    assert gpu.power_limits().max_w == 120
    standin_state.answer("field:186:0", 290_000)
    assert gpu.power_w() == 290


def test_a_card_without_limits_still_has_a_bound(gpu: NvmlGpu, standin_state: State):
    """Where no limits are known, five kilowatts is the bound."""
    standin_state.fail("nvmlDeviceGetPowerManagementLimitConstraints", 3)
    standin_state.answer("field:186:0", 4_000_000, count=1)
    assert gpu.power_w() == 4000
    standin_state.answer("field:186:0", 5_100_000)
    with pytest.raises(BadReading):
        gpu.power_w()


def test_limits_the_wrong_way_round_are_refused(gpu: NvmlGpu, standin_state: State):
    """A least limit above the greatest is no range."""
    standin_state[0].min_w, standin_state[0].max_w = 300, 100
    with pytest.raises(BadReading):
        gpu.power_limits()


def test_a_limit_of_nothing_is_refused(gpu: NvmlGpu, standin_state: State):
    """Zero watts is how some drivers say that they do not know."""
    standin_state.answer("nvmlDeviceGetPowerManagementLimit", 0)
    with pytest.raises(BadReading):
        gpu.power_limit_w()


def test_readable_but_unsettable(gpu: NvmlGpu, standin_state: State):
    """A laptop's card shows a range and refuses every limit as not supported: that is a capability (rule G6)."""
    standin_state.fail("nvmlDeviceSetPowerManagementLimit", 3)
    assert gpu.power_limits() == PowerLimits(100, 300, 300)
    with pytest.raises(NotSupported):
        gpu.set_power_limit_w(gpu.power_limit_w())


def _eventually(read: Callable[[], object]):
    """The answer once the thread that hung is back, which takes it a few milliseconds."""
    for _ in range(200):
        try:
            return read()
        except GpuError:
            threading.Event().wait(0.02)
    raise AssertionError("the GPU never came back")
