"""One GPU in our hands: what it was, what we set, and what somebody else did since."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from zeus_core.actuation.base import Applied, GpuState, Status, Wish
from zeus_core.actuation.faults import ForeignLimit, JournalError, status_of
from zeus_core.actuation.journal import TOLERANCE_W, Entry, Journal, near
from zeus_core.actuation.plan import Plan, goal_w, ramped_w
from zeus_core.actuation.readings import (
    clock_range_mhz,
    persistence_hint,
    read_enforced_w,
    read_limit_w,
    try_enforced_w,
)
from zeus_core.actuation.setter import Setter
from zeus_core.gpus.base import Gpu, GpuError, PowerLimits, Refused

log = logging.getLogger(__name__)

_EXACT_W = 0.01
_PROBE_REST = 10  # a probe that fails rests ten times as long as it took
_REMEMBERED = 8

_T = TypeVar("_T")


class HeldGpu:
    """Everything about one GPU whose lock we hold. Not thread-safe: ``LocalActuator`` is.

    The limit found before the first change is the ceiling: we lower it or go back to it, nothing else.
    """

    def __init__(
        self, gpu: Gpu, *, setter: Setter, journal: Journal, ramp_w_per_s: float, monotonic: Callable[[], float]
    ) -> None:
        self.gpu = gpu
        self.entry: Entry | None = None
        self.foreign_w: float | None = None
        self.fault: GpuError | None = None  # why the power limit cannot be set
        self._setter = setter
        self._journal = journal
        self._ramp_w_per_s = ramp_w_per_s
        self._monotonic = monotonic
        self._changed_at = -math.inf
        self._probe_due = -math.inf
        self._asked_w: float | None = None  # what we set last, which the driver may have rounded
        self._clocks_mhz: tuple[int, int] | None = None
        self._told: tuple[object, GpuState] | None = None  # what a state is made of, and the state

    def probe(self) -> None:
        """Set the current limit back (rule G6): that it can be read, or has a range, does not say it can be set."""
        began = self._monotonic()
        try:
            self._setter.set_power_limit_w(self.gpu, read_limit_w(self.gpu))
            self.fault = None
        except GpuError as error:
            self.fault = error
        now = self._monotonic()
        self._probe_due = now + _PROBE_REST * (now - began)

    def probe_again(self) -> None:
        """Where the last set failed: a fault that went away is noticed, a slow one is not met all the time."""
        if self.fault is not None and self._monotonic() >= self._probe_due:
            self.probe()

    def state(self) -> GpuState:
        self.probe_again()
        current_w = enforced_w = limits = None
        reason = str(self.fault) if self.fault else ""
        try:
            current_w, enforced_w = read_limit_w(self.gpu), read_enforced_w(self.gpu)
            limits = self.gpu.power_limits()
            self._look_for_foreign(current_w)
        except GpuError as error:
            reason = reason or str(error)
        original_w = self.entry.original_w if self.entry else None
        seen = (current_w, enforced_w, limits, original_w, self.foreign_w, self.fault, reason)
        if self._told is None or self._told[0] != seen:  # made anew only where something is new
            self._told = seen, self._state(current_w, enforced_w, limits, reason)
        return self._told[1]

    def _state(
        self, current_w: float | None, enforced_w: float | None, limits: PowerLimits | None, reason: str
    ) -> GpuState:
        return GpuState(
            uuid=self.gpu.uuid,
            name=self.gpu.name,
            index=self.gpu.index,
            power_limit_w=current_w,
            enforced_w=enforced_w,
            min_w=limits.min_w if limits else None,
            max_w=limits.max_w if limits else None,
            default_w=limits.default_w if limits else None,
            original_w=self.entry.original_w if self.entry else None,
            foreign_w=self.foreign_w,
            can_set=self.fault is None,
            reason=reason,
        )

    def plan(self, wish: Wish) -> Plan:
        """Changes nothing. Raises ``GpuError`` or ``ForeignLimit`` where the wish cannot be met."""
        touches_limit = wish.power_limit_w is not None or (self.entry is not None and bool(self.entry.ours))
        self.probe_again()
        if self.fault is not None and touches_limit:
            raise self.fault
        current_w, limits = read_limit_w(self.gpu), self.gpu.power_limits()
        self._look_for_foreign(current_w)
        if self.foreign_w is not None:
            raise ForeignLimit(self._foreign_text(self.foreign_w))
        original_w = self.entry.original_w if self.entry and self.entry.ours else None
        target_w, detail = goal_w(wish.power_limit_w, current_w=current_w, original_w=original_w, limits=limits)
        limit_w = ramped_w(
            target_w,
            current_w=current_w,
            limits=limits,
            ramp_w_per_s=self._ramp_w_per_s,
            since_change_s=self._monotonic() - self._changed_at,
        )
        ramping = limit_w < target_w
        leave = self._stands(limit_w, current_w) or (ramping and near(limit_w, current_w))
        return Plan(
            wish=wish,
            limits=limits,
            current_w=current_w,
            limit_w=None if leave else limit_w,
            ramping=ramping,
            clocks_mhz=None if wish.sm_clock_mhz is None else clock_range_mhz(self.gpu, wish.sm_clock_mhz),
            clocks_before=self._clocks_mhz,
            fresh=self.entry is None,
            detail=detail,
        )

    def carry_out(self, plan: Plan) -> Applied:
        """Raises ``GpuError`` or ``JournalError``; then ``put_back`` is due."""
        lock_changes = plan.clocks_mhz != plan.clocks_before
        set_w = plan.current_w
        if plan.limit_w is not None:
            set_w = plan.limit_w
            self._change_limit(set_w, plan)
        if lock_changes:
            self._change_lock(plan.clocks_mhz, plan)
        enforced_w = read_enforced_w(self.gpu)
        if enforced_w >= set_w + TOLERANCE_W:
            raise self._refused(f"{set_w:g} W is set, but {enforced_w:g} W is in force")
        if plan.ramping:
            status = Status.RAMPING
        elif enforced_w <= set_w - TOLERANCE_W:
            status = Status.BOUND
        else:
            status = Status.UNCHANGED if plan.limit_w is None and not lock_changes else Status.APPLIED
        return self._applied(status, plan.wish, set_w=set_w, enforced_w=enforced_w, detail=plan.detail)

    def put_back(self, plan: Plan) -> str:
        """Undo ``carry_out``, whole or half. Says what went wrong, or nothing."""
        if plan.fresh:
            back = self.give_back()
            return "" if back.status.good else back.detail
        try:
            if plan.limit_w is not None:
                _insist(lambda: self._change_limit(plan.current_w, plan))
            if plan.clocks_mhz != plan.clocks_before:
                _insist(lambda: self._change_lock(plan.clocks_before, plan))
        except (GpuError, JournalError) as error:
            return str(error)
        return ""

    def give_back(self) -> Applied:
        """The original again, at once and exactly, with the journal closed. A foreign limit stays."""
        if self.entry is None:
            return self._applied(Status.NOTHING)
        errors: list[GpuError] = []
        original_w, foreign = self.entry.original_w, ""
        try:
            foreign = _insist(self._restore_limit)
        except GpuError as error:
            errors.append(error)
        try:
            _insist(self._free_clocks)
        except GpuError as error:
            errors.append(error)
        if errors:
            return self.failed(errors[0])
        detail = self._forget()
        if foreign:
            detail = f"{foreign}; {detail}" if detail else foreign
            return self._applied(Status.FOREIGN, enforced_w=try_enforced_w(self.gpu), detail=detail)
        return self._applied(Status.RESTORED, set_w=original_w, enforced_w=try_enforced_w(self.gpu), detail=detail)

    def failed(self, error: Exception, wish: Wish | None = None, also: str = "") -> Applied:
        detail = f"{error}; and it could not be put back: {also}" if also else str(error)
        status = status_of(error)
        enforced_w = None if status is Status.LOST else try_enforced_w(self.gpu)
        return self._applied(status, wish, enforced_w=enforced_w, detail=detail)

    def rolled_back(self, wish: Wish, reason: str, trouble: str = "") -> Applied:
        """Another GPU of the group failed; ``trouble`` says that this one could not be put back."""
        if trouble:
            return self._applied(Status.FAILED, wish, detail=f"{reason}; and it could not be put back: {trouble}")
        return self._applied(Status.ROLLED_BACK, wish, enforced_w=try_enforced_w(self.gpu), detail=reason)

    def _stands(self, limit_w: float, current_w: float) -> bool:
        """Whether setting ``limit_w`` again would change nothing."""
        return abs(limit_w - current_w) < _EXACT_W or (limit_w == self._asked_w and near(limit_w, current_w))

    # Changes, each written down before it is made

    def _change_limit(self, limit_w: float, plan: Plan) -> None:
        entry = self.entry or Entry.of(self.gpu.uuid, plan.current_w, plan.limits.default_w)
        if not entry.ours:
            entry = replace(entry, original_w=plan.current_w, ours=(plan.current_w,))
        if limit_w not in entry.ours or self.entry is None:
            entry = replace(entry, ours=(*entry.ours, limit_w)[-_REMEMBERED:])
            self._journal.write(entry)
        self.entry = entry
        self._set(limit_w)
        self._asked_w = limit_w
        self._settle(replace(entry, ours=(self._verified(limit_w),)))

    def _change_lock(self, clocks_mhz: tuple[int, int] | None, plan: Plan) -> None:
        if clocks_mhz is None:
            self._free_clocks()
            return
        entry = self.entry or Entry.of(self.gpu.uuid, plan.current_w, plan.limits.default_w)
        entry = replace(entry, sm_clock_mhz=clocks_mhz[1])
        self._journal.write(entry)
        self.entry = entry
        self._setter.lock_sm_clocks_mhz(self.gpu, *clocks_mhz)
        self._clocks_mhz = clocks_mhz
        log.debug("%s: SM clocks locked to %d..%d MHz", self.gpu.uuid, *clocks_mhz)

    def _restore_limit(self) -> str:
        """Empty, or what to say of a foreign limit that was left in force."""
        entry = self.entry
        if entry is None or not entry.ours:
            return ""
        current_w = read_limit_w(self.gpu)
        if not (entry.is_ours(current_w) or near(current_w, entry.original_w)):
            return self._foreign_text(current_w)
        if abs(current_w - entry.original_w) >= _EXACT_W:
            self._set_original(entry)
        return ""

    def _set_original(self, entry: Entry) -> None:
        try:
            self._set(entry.original_w)
        except Refused:
            self._set_nearest(entry)
            raise
        self._verified(entry.original_w)

    def _set_nearest(self, entry: Entry) -> None:
        """The host has narrowed the range below the original: go as near as it allows, and stay in debt."""
        limits = self.gpu.power_limits()
        if limits.max_w >= entry.original_w or near(limits.max_w, read_limit_w(self.gpu)):
            return
        entry = replace(entry, ours=(*entry.ours, limits.max_w)[-_REMEMBERED:])
        try:
            self._journal.write(entry)
        except JournalError as error:
            log.warning("%s: %s", self.gpu.uuid, error)
            return
        self.entry = entry
        self._set(limits.max_w)

    def _set(self, limit_w: float) -> None:
        try:
            self._setter.set_power_limit_w(self.gpu, limit_w)
        except GpuError as error:
            self.fault = error
            raise
        self._changed_at = self._monotonic()
        log.debug("%s: power limit set to %g W", self.gpu.uuid, limit_w)

    def _verified(self, limit_w: float) -> float:
        """The limit as read back, since a driver or a command may say yes and mean no."""
        in_force_w = read_limit_w(self.gpu)
        if not near(in_force_w, limit_w):
            raise self._refused(f"{limit_w:g} W was set without an error, but the limit reads {in_force_w:g} W")
        return in_force_w

    def _free_clocks(self) -> None:
        if self.entry is None or self.entry.sm_clock_mhz is None:
            return
        self._setter.reset_sm_clocks(self.gpu)
        self._clocks_mhz = None
        log.debug("%s: SM clocks reset", self.gpu.uuid)
        self._settle(replace(self.entry, sm_clock_mhz=None))

    def _settle(self, entry: Entry) -> None:
        """Narrow the entry to what is verified. The file may lag behind: it then names more than needed."""
        self.entry = entry
        try:
            self._journal.write(entry, settled=True)
        except JournalError as error:
            log.warning("%s: %s", self.gpu.uuid, error)

    def _forget(self) -> str:
        """Close the journal; says what went wrong, which harms nobody while the original is in force."""
        self.entry = self.foreign_w = self._asked_w = None
        try:
            self._journal.remove(self.gpu.uuid)
        except JournalError as error:
            log.warning("%s: %s", self.gpu.uuid, error)
            return str(error)
        return ""

    # What others do

    def _look_for_foreign(self, current_w: float) -> None:
        entry = self.entry
        ours = entry is None or not entry.ours or current_w in entry.ours or entry.is_ours(current_w)
        known, self.foreign_w = self.foreign_w, None if ours else current_w
        if self.foreign_w is not None and known is None:
            log.warning("%s: %s", self.gpu.uuid, self._foreign_text(current_w))

    def _foreign_text(self, current_w: float) -> str:
        ours = " or ".join(f"{limit_w:g}" for limit_w in self.entry.ours) if self.entry else ""
        text = f"somebody else set the limit to {current_w:g} W where we had {ours} W; theirs is respected"
        hint = persistence_hint(self.gpu)
        return f"{text}; {hint}" if hint else text

    def _refused(self, text: str) -> Refused:
        return Refused(text, uuid=self.gpu.uuid, call="set_power_limit_w")

    def _applied(
        self,
        status: Status,
        wish: Wish | None = None,
        *,
        set_w: float | None = None,
        enforced_w: float | None = None,
        detail: str = "",
    ) -> Applied:
        return Applied(
            uuid=self.gpu.uuid,
            status=status,
            requested_w=wish.power_limit_w if wish else None,
            set_w=set_w,
            enforced_w=enforced_w,
            sm_clock_mhz=self._clocks_mhz[1] if self._clocks_mhz else None,
            detail=detail,
        )


def _insist(action: Callable[[], _T]) -> _T:
    """Try again once: a fault may be gone at the next call, and a GPU is owed its original."""
    try:
        return action()
    except GpuError:
        return action()
