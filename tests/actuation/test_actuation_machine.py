"""Whatever happens in whatever order: the exact original comes back, or what somebody else set after us."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import standin
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from zeus_core.actuation.base import Status, Wish
from zeus_core.actuation.journal import Journal
from zeus_core.actuation.leftovers import restore_leftovers
from zeus_core.actuation.local import LocalActuator
from zeus_core.actuation.setter import DriverSetter
from zeus_core.gpus.base import Gpu
from zeus_core.gpus.nvml import NvmlSystem

GPUS = 3
CALLS = (
    "nvmlDeviceGetPowerManagementLimit",
    "nvmlDeviceGetPowerManagementLimitConstraints",
    "nvmlDeviceGetEnforcedPowerLimit",
    standin.SET_LIMIT,
    standin.SET_CLOCKS,
    standin.RESET_CLOCKS,
    "*",
)
CODES = (standin.INVALID_ARGUMENT, standin.NO_PERMISSION, standin.GPU_IS_LOST, standin.UNKNOWN, standin.TIMEOUT)

# Tens are wishes and fives are everybody else's, so that whose a limit is can be seen from its figure.
wishes = st.builds(
    Wish, st.none() | st.integers(5, 35).map(lambda tens: tens * 10.0), st.none() | st.sampled_from([600, 900, 1200])
)
others = st.integers(10, 29).map(lambda tens: tens * 10.0 + 5)
gpus = st.integers(0, GPUS - 1)


class Killed(BaseException):
    """SIGKILL, as far as one process can play it: nothing of the actuator runs after it."""


class MortalSetter(DriverSetter):
    def __init__(self) -> None:
        self.dies_in: int | None = None
        self.after = False

    def set_power_limit_w(self, gpu: Gpu, power_limit_w: float) -> None:
        last = self.dies_in == 1
        if self.dies_in is not None:
            self.dies_in -= 1
        if last and not self.after:
            raise Killed
        super().set_power_limit_w(gpu, power_limit_w)
        if last:
            raise Killed


class Actuation(RuleBasedStateMachine):
    """``found[i]`` is what GPU i must show in the end: what was there before us, or was set by others since."""

    @initialize(originals=st.lists(others, min_size=GPUS, max_size=GPUS))
    def start(self, originals: list[float]) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="act-"))
        self.state = standin.State.create(self.place / "cards", gpus=GPUS)
        self.env = standin_environment(self.state)
        standin.forget()
        for card, limit_w in zip(self.state, originals, strict=True):
            card.limit_w = limit_w
        self.found = list(originals)
        self.seen_writes = 0
        self.system = NvmlSystem()
        self.setter = MortalSetter()
        self.actuator: LocalActuator | None = None
        self.new_actuator()

    def new_actuator(self) -> None:
        self.actuator = LocalActuator(
            self.system, state_dir=self.place / "state", lock_dir=self.place / "locks", setter=self.setter
        )

    def die(self) -> None:
        """What the kernel does for a dead process: its locks go, and nothing else happens."""
        self.actuator._unlock_all()
        self.actuator = None
        self.setter.dies_in = None

    @precondition(lambda self: self.actuator)
    @rule(wanted=st.dictionaries(gpus, wishes, min_size=1))
    def apply(self, wanted: dict[int, Wish]) -> None:
        before = [card.limit_w for card in self.state]
        try:
            results = self.actuator.apply({self.state.uuids[index]: wish for index, wish in wanted.items()})
        except Killed:
            self.die()
            return
        group = {index: results[self.state.uuids[index]] for index, wish in wanted.items() if wish != Wish()}
        good = [applied.status.good for applied in group.values()]
        assert all(good) or not any(good)
        for index, applied in group.items():
            if applied.status in {Status.FOREIGN, Status.ROLLED_BACK}:
                assert self.state[index].limit_w == before[index]

    @precondition(lambda self: self.actuator)
    @rule(indices=st.none() | st.sets(gpus))
    def restore(self, indices: set[int] | None) -> None:
        uuids = None if indices is None else [self.state.uuids[index] for index in indices]
        try:
            results = self.actuator.restore(uuids)
        except Killed:
            self.die()
            return
        for index, uuid in enumerate(self.state.uuids):
            if uuid in results and results[uuid].status.good:
                assert self.state[index].limit_w == self.found[index]

    @rule(index=gpus, limit_w=others)
    def somebody_else_sets(self, index: int, limit_w: float) -> None:
        if limit_w >= self.state[index].min_w:  # the driver would refuse it of others too
            self.state[index].limit_w = self.found[index] = limit_w

    @rule(index=gpus)
    def driver_reloads(self, index: int) -> None:
        """A loss of the limit that nobody wanted, but that no one can tell from a foreign change."""
        card = self.state[index]
        card.limit_w = self.found[index] = 295.0
        card.raw.default_mw = 295_000

    @rule(index=gpus, min_w=st.sampled_from([50.0, 100.0, 150.0, 200.0]))
    def host_narrows(self, index: int, min_w: float) -> None:
        self.state[index].min_w = min(min_w, self.found[index])

    @rule(index=gpus, cap_w=st.sampled_from([0.0, 120.0, 250.0]))
    def outside_cap(self, index: int, cap_w: float) -> None:
        self.state[index].oob_cap_w = cap_w

    @rule(index=gpus, call=st.sampled_from(CALLS), code=st.sampled_from(CODES), count=st.none() | st.integers(1, 3))
    def fault(self, index: int, call: str, code: int, count: int | None) -> None:
        self.state.clear()
        self.state.fail(call, code, gpu=index, count=count)

    @rule()
    def faults_end(self) -> None:
        self.state.clear()

    @precondition(lambda self: self.actuator)
    @rule()
    def describe(self) -> None:
        try:
            states = self.actuator.describe()
        except Killed:
            self.die()
            return
        assert [state.uuid for state in states] == list(self.state.uuids)

    @precondition(lambda self: self.actuator)
    @rule(calls=st.integers(1, 4), after=st.booleans())
    def will_die_at_a_set(self, calls: int, after: bool) -> None:
        self.setter.dies_in, self.setter.after = calls, after

    @precondition(lambda self: self.actuator)
    @rule()
    def is_killed(self) -> None:
        self.die()

    @precondition(lambda self: self.actuator)
    @rule()
    def is_closed(self) -> None:
        try:
            self.actuator.close()
        except Killed:
            self.die()
        self.actuator = None
        self.setter.dies_in = None

    @precondition(lambda self: self.actuator is None)
    @rule()
    def starts_again(self) -> None:
        self.new_actuator()

    @precondition(lambda self: self.actuator is None)
    @rule()
    def is_restored_by_hand(self) -> None:
        restore_leftovers(self.system, self.place / "state", self.place / "locks")

    @invariant()
    def nothing_above_the_original(self) -> None:
        """Of what we set, that is; the card itself refuses what is outside its range, and is never asked for it."""
        if not hasattr(self, "state"):
            return
        writes = self.state.writes(function=standin.SET_LIMIT)
        for write in writes[self.seen_writes :]:
            assert write.watts <= self.found[write.gpu]
            assert write.code != standin.INVALID_ARGUMENT
        self.seen_writes = len(writes)

    def teardown(self) -> None:
        if not hasattr(self, "state"):
            return
        self.state.clear()
        self.setter.dies_in = None
        if self.actuator is None:
            self.new_actuator()
        self.actuator.close()
        try:
            assert [card.limit_w for card in self.state] == self.found
            assert Journal(self.place / "state").uuids() == []
            assert [card.locked_sm_mhz for card in self.state] == [None] * GPUS
        finally:
            self.system.close()
            self.env.undo()
            shutil.rmtree(self.place)


def standin_environment(state: standin.State):
    """The environment variable by which the library finds ``state``, until it is undone."""
    import pytest

    patch = pytest.MonkeyPatch()
    patch.setenv(standin.STATE_VARIABLE, str(state.path))
    return patch


Actuation.TestCase.settings = settings(
    max_examples=50, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_any_sequence(nvml_standin_library):
    """Applies, foreign changes, faults, caps, kills and restarts in any order end with every GPU given back."""
    Actuation.TestCase("runTest").runTest()
