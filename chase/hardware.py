"""The node's GPUs as the controller sees and sets them: what is found, what can be set, what is in force.

With no actuator, or while it does not answer, everything is still looked at and nothing is set.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from chase.events import EventLog
from zeus_core.actuation.base import ActuationError, Actuator, Applied, GpuState, Status, Wish
from zeus_core.gpus.base import Gpu, GpuError, GpuSystem, Process

_FULL_LOAD = 0.9


class Hardware:
    """``actuator`` None means that nothing can be set, for ``observe_reason``.

    ``states`` and ``slices``, the MIG instances of each GPU, are those of the last ``look``.
    """

    def __init__(self, system: GpuSystem, actuator: Actuator | None, observe_reason: str, events: EventLog) -> None:
        self.gpus: dict[str, Gpu] = {gpu.uuid: gpu for gpu in system.gpus()}
        self.states: dict[str, GpuState] = {}
        self.slices: dict[str, tuple[str, ...]] = {}
        self._actuator = actuator
        self._observe_reason = observe_reason
        self._events = events
        self._trouble = ""  # with the actuator
        self._stuck: set[str] = set()  # GPUs that did not take what was last asked of them

    @property
    def control(self) -> tuple[str, str]:
        """``control`` or ``observe``, and why."""
        if self._actuator is None:
            return "observe", self._observe_reason
        if self.states and not any(state.can_set for state in self.states.values()):
            return "observe", next(
                (state.reason for state in self.states.values() if state.reason), "nothing can be set"
            )
        return ("observe", self._trouble) if self._trouble else ("control", "")

    @property
    def unable(self) -> set[str]:
        """GPUs that need not do as they are told."""
        if self._actuator is None:
            return set(self._stuck)
        return self._stuck | {uuid for uuid, state in self.states.items() if not state.can_set}

    def users(self, uuid: str) -> tuple[Process, ...]:
        try:
            return self.gpus[uuid].processes()
        except GpuError:
            return ()

    def busy(self, uuids: Iterable[str]) -> bool:
        """Whether all of them are at full load."""
        try:
            return all(self.gpus[uuid].utilisation() >= _FULL_LOAD for uuid in uuids)
        except GpuError:
            return False

    def default_w(self, uuid: str) -> float:
        """The limit that a card comes with; 0 where it cannot be read."""
        try:
            return self.gpus[uuid].power_limits().default_w
        except GpuError:
            return 0.0

    # -- look ---------------------------------------------------------------------------------------------------------

    def look(self, interval_s: float) -> None:
        """As it is now; ``interval_s`` is when it will be looked at again, which keeps the actuator's lease."""
        self.states = self._described(interval_s)
        self.slices = {uuid: _slices(gpu) for uuid, gpu in self.gpus.items()}

    def _described(self, interval_s: float) -> dict[str, GpuState]:
        if self._actuator is None:
            return self._seen(self._observe_reason)
        try:
            self._actuator.keepalive()
            states = {state.uuid: state for state in self._actuator.describe()}
        except ActuationError as error:
            self._failed(error)
            return self._seen(self._trouble)
        if self._trouble:
            self._trouble = ""
            self._events.forget("actuator-failed")
            self._events("actuator-back", "info", "the actuator answers again")
        lease_s = self._actuator.lease_s
        if lease_s is not None and lease_s <= interval_s:
            text = f"the actuator's lease of {lease_s:g} s is over before each tick ({interval_s:g} s): raise --lease-s"
            self._events("lease-too-short", "error", text, once=True)
        return states

    def _failed(self, error: ActuationError) -> None:
        self._trouble = f"{error}; start `chase actuator --uid {os.geteuid()}` as root if it is not running"
        self._events("actuator-failed", "error", self._trouble, once=True)

    def _seen(self, reason: str) -> dict[str, GpuState]:
        return {uuid: _seen_state(gpu, reason) for uuid, gpu in self.gpus.items()}

    # -- set ----------------------------------------------------------------------------------------------------------

    def apply(self, groups: Sequence[Mapping[str, Wish]]) -> dict[str, Applied]:
        """Each group all together or not at all; nothing where nothing can be set.

        What only falls goes first: all together never have more than before or after.
        """
        if self._actuator is None:
            return {}
        applied: dict[str, Applied] = {}
        try:
            for group in sorted(groups, key=self._rises):
                if any(wish.power_limit_w is not None or self._held(uuid) for uuid, wish in group.items()):
                    applied.update(self._actuator.apply(group))
        except ActuationError as error:
            self._failed(error)
            applied = {uuid: Applied(uuid, Status.FAILED, detail=str(error)) for group in groups for uuid in group}
        for result in applied.values():
            self._note(result)
        return applied

    def give_back(self, uuids: Iterable[str]) -> None:
        """As they were found."""
        unwanted = list(uuids)
        if self._actuator is not None and unwanted:
            try:
                for result in self._actuator.restore(unwanted).values():
                    self._note(result)
            except ActuationError as error:
                self._failed(error)

    def give_back_but(self, used: Iterable[str]) -> None:
        """Those that are set and that nobody uses any more."""
        kept = set(used)
        self.give_back(uuid for uuid in self.states if self._held(uuid) and uuid not in kept)

    def close(self) -> None:
        if self._actuator is not None:
            self._actuator.close()

    def limits_w(self, uuids: Iterable[str], applied: Mapping[str, Applied]) -> Iterator[float | None]:
        """Of each, as set just now, else as found when it was looked at."""
        for uuid in uuids:
            if uuid in applied and applied[uuid].set_w is not None:
                yield applied[uuid].set_w
            elif uuid in self.states:
                yield self.states[uuid].power_limit_w

    def _rises(self, group: Mapping[str, Wish]) -> bool:
        found = {uuid: state.power_limit_w or 0.0 for uuid, state in self.states.items()}
        limits = ((found.get(uuid, 0.0), wish.power_limit_w) for uuid, wish in group.items())
        return any(wish_w is None or wish_w > found_w for found_w, wish_w in limits)

    def _held(self, uuid: str) -> bool:
        return uuid in self.states and self.states[uuid].original_w is not None

    def _note(self, result: Applied) -> None:
        (self._stuck.discard if result.status.good else self._stuck.add)(result.uuid)
        if result.status is Status.FOREIGN:
            self._events("foreign-change", "warning", f"{result.uuid}: {result.detail}", gpu=result.uuid, once=True)
        elif not result.status.good:
            text = f"{result.uuid}: {result.status.value}: {result.detail}"
            self._events("apply-failed", "warning", text, gpu=result.uuid, once=True)
        else:
            for code in ("foreign-change", "apply-failed"):
                self._events.forget(code, gpu=result.uuid)


def _slices(gpu: Gpu) -> tuple[str, ...]:
    try:
        return gpu.mig_uuids()
    except GpuError:
        return ()


def _seen_state(gpu: Gpu, reason: str) -> GpuState:
    """What can be read of a GPU without an actuator."""
    limits = limit_w = enforced_w = None
    try:
        limits, limit_w, enforced_w = gpu.power_limits(), gpu.power_limit_w(), gpu.enforced_power_limit_w()
    except GpuError as error:
        reason = str(error)
    return GpuState(
        uuid=gpu.uuid,
        name=gpu.name,
        index=gpu.index,
        power_limit_w=limit_w,
        enforced_w=enforced_w,
        min_w=limits.min_w if limits else None,
        max_w=limits.max_w if limits else None,
        default_w=limits.default_w if limits else None,
        original_w=None,
        foreign_w=None,
        can_set=False,
        reason=reason,
    )
