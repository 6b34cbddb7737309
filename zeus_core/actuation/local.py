"""The actuator that changes GPUs itself: groups, ownership, and giving everything back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from zeus_core.actuation.base import ActuationError, Applied, GpuState, Status, Wish
from zeus_core.actuation.faults import ForeignLimit, JournalError
from zeus_core.actuation.held import HeldGpu
from zeus_core.actuation.journal import Journal
from zeus_core.actuation.leftovers import give_back_leftover
from zeus_core.actuation.lock import GpuLock
from zeus_core.actuation.plan import Plan, check_wish
from zeus_core.actuation.setter import DriverSetter, Setter
from zeus_core.gpus.base import GpuError, GpuSystem

log = logging.getLogger(__name__)
_NOTHING = Wish()


class LocalActuator:
    """Owns every GPU of the system from construction to ``close``. Thread-safe.

    Construction takes the locks, gives back what a dead predecessor left (see ``leftovers``) and probes the setter.
    A GPU that cannot be set is no error here: ``describe`` says why.

    A wish with neither lever gives the GPU back at once, whatever becomes of the rest of its group. All other wishes of
    one ``apply`` are a group: all or none. A rise is rationed by ``ramp_w_per_s`` (0 is no ramp); giving back is not.

    Raises ``HeldElsewhere`` when another actuator has one of the GPUs, ``ActuationError`` when there is no driver to
    ask or no place for the journal.
    """

    def __init__(
        self,
        system: GpuSystem,
        *,
        state_dir: Path,
        lock_dir: Path,
        ramp_w_per_s: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
        setter: Setter | None = None,
    ) -> None:
        self._setter = setter or DriverSetter()
        self._guard = threading.RLock()
        self._locks: list[GpuLock] = []
        journal = Journal(state_dir, durable=system.kind != "simulated")
        journal.prepare()
        try:
            gpus = system.gpus()
        except GpuError as error:
            raise ActuationError(f"no GPU can be controlled: {error}") from error
        self._held = {
            gpu.uuid: HeldGpu(gpu, setter=self._setter, journal=journal, ramp_w_per_s=ramp_w_per_s, monotonic=monotonic)
            for gpu in gpus
        }
        self._lock_all(lock_dir)
        self.leftovers = self._give_back_leftovers(journal)
        for held in self._held.values():
            held.probe()
            if held.fault is not None:
                log.warning("%s: the power limit cannot be set: %s", held.gpu.uuid, held.fault)

    @property
    def backend(self) -> str:
        return self._setter.backend

    @property
    def lease_s(self) -> None:
        """There is none: this actuator dies with its process, and leaves a journal."""
        return

    @property
    def owed(self) -> frozenset[str]:
        """The GPUs that something of ours is, or may be, in force on."""
        with self._guard:
            return frozenset(uuid for uuid, held in self._held.items() if held.entry is not None)

    def describe(self) -> tuple[GpuState, ...]:
        with self._guard:
            return tuple(held.state() for held in self._held.values())

    def apply(self, wishes: Mapping[str, Wish]) -> dict[str, Applied]:
        """Raises ``ActuationError`` for a wish that makes no sense or after ``close``; nothing was touched then."""
        for uuid, wish in wishes.items():
            check_wish(uuid, wish)
        with self._guard:
            self._check_open()
            unwanted = [uuid for uuid, wish in wishes.items() if wish == _NOTHING]
            results = self.restore(unwanted) if unwanted else {}
            results |= self._apply_group({uuid: wish for uuid, wish in wishes.items() if uuid not in results})
            return {uuid: results[uuid] for uuid in wishes}

    def restore(self, uuids: Iterable[str] | None = None) -> dict[str, Applied]:
        with self._guard:
            self._check_open()
            return {uuid: self._give_back(uuid) for uuid in (tuple(self._held) if uuids is None else uuids)}

    def keepalive(self) -> None:
        """See ``lease_s``."""

    def close(self) -> None:
        """Give everything back and let the GPUs go. What could not be given back stays in the journal."""
        with self._guard:
            if not self._locks:
                return
            results = self.restore(self.owed)
            for uuid in self.owed:
                log.error("%s: not given back, but kept in the journal: %s", uuid, results[uuid].detail)
            self._unlock_all()

    def _apply_group(self, wishes: Mapping[str, Wish]) -> dict[str, Applied]:
        plans: dict[str, Plan] = {}
        failed: dict[str, Applied] = {}
        for uuid, wish in wishes.items():
            held = self._held.get(uuid)
            if held is None:
                failed[uuid] = self._unknown(uuid, wish)
                continue
            try:
                plans[uuid] = held.plan(wish)
            except (GpuError, ForeignLimit) as error:
                failed[uuid] = held.failed(error, wish)
        if failed:
            return self._roll_back(plans, [], failed)
        return self._carry_out(plans)

    def _carry_out(self, plans: Mapping[str, Plan]) -> dict[str, Applied]:
        done: dict[str, Applied] = {}
        for uuid, plan in plans.items():
            held = self._held[uuid]
            try:
                done[uuid] = held.carry_out(plan)
            except (GpuError, JournalError) as error:
                failed = {uuid: held.failed(error, plan.wish, also=held.put_back(plan))}
                return self._roll_back(plans, list(done), failed)
        return done

    def _roll_back(self, plans: Mapping[str, Plan], done: list[str], failed: dict[str, Applied]) -> dict[str, Applied]:
        """Put back those that are done, last first; every GPU of the group gets a result."""
        first = next(iter(failed.values()))
        reason = f"{first.uuid} failed: {first.detail}"
        trouble = {uuid: self._held[uuid].put_back(plans[uuid]) for uuid in reversed(done)}
        others = {
            uuid: self._held[uuid].rolled_back(plan.wish, reason, trouble.get(uuid, ""))
            for uuid, plan in plans.items()
            if uuid not in failed
        }
        return others | failed

    def _give_back(self, uuid: str) -> Applied:
        held = self._held.get(uuid)
        return held.give_back() if held else self._unknown(uuid)

    def _unknown(self, uuid: str, wish: Wish | None = None) -> Applied:
        known = ", ".join(self._held) or "none"
        requested_w = wish.power_limit_w if wish else None
        return Applied(uuid, Status.FAILED, requested_w, detail=f"no GPU of this node has this UUID; it has {known}")

    def _lock_all(self, lock_dir: Path) -> None:
        try:
            for uuid in self._held:
                self._locks.append(GpuLock.acquire(lock_dir, uuid))
        except ActuationError:
            self._unlock_all()
            raise

    def _unlock_all(self) -> None:
        while self._locks:
            self._locks.pop().release()

    def _give_back_leftovers(self, journal: Journal) -> dict[str, Applied]:
        found = {uuid: give_back_leftover(journal, uuid, self._held.get(uuid)) for uuid in journal.uuids()}
        return {uuid: applied for uuid, applied in found.items() if applied is not None}

    def _check_open(self) -> None:
        if not self._locks and self._held:
            raise ActuationError("this actuator is closed: it has given its GPUs back")
