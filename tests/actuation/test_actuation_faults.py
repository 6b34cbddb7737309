"""Each NVML error at each call of the set path: the group holds, and the original comes back."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import standin
from actuation_harness import ORIGINAL_W, Bench, StandinCards

from zeus_core.actuation.base import Status
from zeus_core.actuation.journal import Journal
from zeus_core.actuation.setter import DriverSetter
from zeus_core.gpus.base import Gpu

CODES = {
    "uninitialized": standin.UNINITIALIZED,
    "invalid": standin.INVALID_ARGUMENT,
    "not supported": standin.NOT_SUPPORTED,
    "no permission": standin.NO_PERMISSION,
    "not found": standin.NOT_FOUND,
    "no driver": standin.DRIVER_NOT_LOADED,
    "timeout": standin.TIMEOUT,
    "lost": standin.GPU_IS_LOST,
    "reset": standin.RESET_REQUIRED,
    "mismatch": standin.LIB_RM_VERSION_MISMATCH,
    "in use": standin.IN_USE,
    "unknown": standin.UNKNOWN,
    "unheard of": 4242,
}
GETTERS = {
    "limit": "nvmlDeviceGetPowerManagementLimit",
    "range": "nvmlDeviceGetPowerManagementLimitConstraints",
    "default": "nvmlDeviceGetPowerManagementDefaultLimit",
    "enforced": "nvmlDeviceGetEnforcedPowerLimit",
    "set": standin.SET_LIMIT,
    "clocks": "nvmlDeviceGetSupportedMemoryClocks",
    "lock": standin.SET_CLOCKS,
}
ONCE, ALWAYS = 1, None


class Trigger(DriverSetter):
    """Lets a fault begin right after the limit of GPU 1 was set, so that reading back is what fails."""

    def __init__(self) -> None:
        self.fire = None

    def set_power_limit_w(self, gpu: Gpu, power_limit_w: float) -> None:
        super().set_power_limit_w(gpu, power_limit_w)
        if gpu.index == 1 and self.fire is not None:
            fire, self.fire = self.fire, None
            fire()


@pytest.fixture
def trigger() -> Trigger:
    return Trigger()


@pytest.fixture
def armed(make_local, nvml, standin_state, trigger: Trigger) -> Bench:
    return Bench("standin", make_local(nvml, setter=trigger, monotonic=lambda: 0.0), StandinCards(standin_state))


def check_all_or_none(bench: Bench, before: list[float], results) -> None:
    """Every GPU was set, or every GPU that is not itself in failure is where it was."""
    if all(applied.status.good for applied in results):
        assert bench.limits() == [150, 150]
        return
    assert not any(applied.status.good for applied in results)
    for applied, was_w, now_w in zip(results, before, bench.limits(), strict=True):
        if applied.status is Status.ROLLED_BACK:
            assert now_w == was_w


def check_given_back(bench: Bench, standin_state, place: Path) -> None:
    """Once the fault is gone, restore brings the exact originals, and never was more than they set."""
    standin_state.clear()
    for applied in bench.actuator.restore().values():
        assert applied.status in {Status.RESTORED, Status.NOTHING}
    assert bench.limits() == [ORIGINAL_W] * 2
    assert [bench.cards.clocks(index) for index in (0, 1)] == [None, None]
    assert Journal(place / "state").uuids() == []
    for write in standin_state.writes(function=standin.SET_LIMIT):
        assert 100 <= write.watts <= ORIGINAL_W


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
@pytest.mark.parametrize("call", GETTERS.values(), ids=GETTERS)
def test_fault_of_one_gpu(armed: Bench, standin_state, place: Path, call: str, code: int):
    """A call that fails on the second GPU leaves all of the group set or none, and everything can be given back."""
    for count in (ONCE, ALWAYS):
        for before_w in (None, 200):
            armed.apply(before_w, before_w)
            limits = armed.limits()
            assert limits == [before_w or ORIGINAL_W] * 2
            standin_state.fail(call, code, gpu=1, count=count)
            check_all_or_none(armed, limits, armed.apply(150, 150, sm_clock_mhz=900))
            check_given_back(armed, standin_state, place)


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
@pytest.mark.parametrize("call", ["limit", "enforced", "set"])
def test_fault_after_the_set(armed: Bench, trigger, standin_state, place: Path, *, call: str, code: int):
    """A change that was made but cannot be verified is undone, now or as soon as it is possible."""
    for count in (ONCE, ALWAYS):
        limits = armed.limits()
        trigger.fire = partial(standin_state.fail, GETTERS[call], code, gpu=1, count=count)
        check_all_or_none(armed, limits, armed.apply(150, 150))
        check_given_back(armed, standin_state, place)


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
@pytest.mark.parametrize("call", [*GETTERS.values(), standin.RESET_CLOCKS], ids=[*GETTERS, "reset"])
def test_fault_while_giving_back(armed: Bench, standin_state, place: Path, call: str, code: int):
    """A GPU that cannot be given back now stays owed; the other is given back, and a passing fault is outlived."""
    armed.apply(150, 150, sm_clock_mhz=900)
    standin_state.fail(call, code, gpu=1)
    first, second = armed.actuator.restore().values()
    assert first.status is Status.RESTORED
    assert (second.status is Status.RESTORED) == (armed.uuids[1] not in armed.actuator.owed)
    check_given_back(armed, standin_state, place)


@pytest.mark.parametrize("call", [GETTERS["limit"], standin.SET_LIMIT, standin.RESET_CLOCKS])
def test_single_fault_while_giving_back(armed: Bench, standin_state, place: Path, call: str):
    """One failing call does not keep a GPU: it is tried again at once."""
    armed.apply(150, 150, sm_clock_mhz=900)
    standin_state.fail(call, standin.UNKNOWN, gpu=1, count=1)
    assert [applied.status for applied in armed.actuator.restore().values()] == [Status.RESTORED] * 2
    check_given_back(armed, standin_state, place)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (standin.NO_PERMISSION, Status.NO_PERMISSION),
        (standin.NOT_SUPPORTED, Status.NOT_SUPPORTED),
        (standin.GPU_IS_LOST, Status.LOST),
        (standin.RESET_REQUIRED, Status.LOST),
        (standin.INVALID_ARGUMENT, Status.FAILED),
        (standin.UNKNOWN, Status.FAILED),
    ],
)
def test_status_of_each_kind_of_error(armed: Bench, standin_state, code: int, status: Status):
    """The result names the kind of failure, and its text the GPU and the call."""
    standin_state.fail(standin.SET_LIMIT, code, gpu=1)
    failed = armed.apply(150, 150)[1]
    assert failed.status is status
    assert armed.uuids[1] in failed.detail
    assert standin.SET_LIMIT in failed.detail


@pytest.mark.parametrize("value", [0, 2**32 - 1], ids=["zero", "sentinel"])
@pytest.mark.parametrize("call", ["limit", "default", "enforced"])
def test_reading_that_cannot_be_true(armed: Bench, standin_state, place: Path, call: str, value: int):
    """A sentinel is neither an original nor a proof."""
    standin_state.answer(GETTERS[call], value, gpu=1)
    check_all_or_none(armed, armed.limits(), armed.apply(150, 150))
    check_given_back(armed, standin_state, place)
