"""What of a tick is written down: a decision when something it depends on has changed, and why then."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from chase.clock import Clock
from chase.jobs import Job
from chase.policy import Choice, PolicyInput
from chase.records import DecisionRecord
from chase.store import Store
from zeus_core.actuation.base import Applied, Status

Fingerprint = tuple[Any, ...]

# What a change is called, for each part of a fingerprint in its order.
_TRIGGERS = ("hold", "signal", "signal", "signal", "gpu", "policy", "policy", "policy")
_MEASURING = "profiling"
_SETTLED = frozenset({Status.APPLIED, Status.UNCHANGED, Status.RAMPING})


def fingerprint(given: PolicyInput, choice: Choice, applied: Mapping[str, Applied]) -> Fingerprint:
    """Everything whose change is news. Set now and set before are the same state of affairs."""
    statuses = tuple(
        [(uuid, "good" if applied[uuid].status in _SETTLED else applied[uuid].status.value) for uuid in sorted(applied)]
    )
    grid = given.grid
    return (given.hold, grid.g_per_kwh, grid.kind, grid.source, statuses, given.rules, choice.setting, choice.code)


def trigger(before: Fingerprint, now: Fingerprint) -> str:
    """Why there is something to record: the first thing that differs; empty if nothing does."""
    if not before:
        return "job"
    if (before[-1] == _MEASURING) != (now[-1] == _MEASURING):
        return "profile"
    if before == now:
        return ""
    return next((name for name, old, new in zip(_TRIGGERS, before, now, strict=True) if old != new), "")


class Recorder:
    """Writes decisions down: news at once, and what stays as it is after every ``heartbeat_s``."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def is_news(self, job: Job, given: PolicyInput, choice: Choice, applied: Mapping[str, Applied]) -> bool:
        return job.recorded != fingerprint(given, choice, applied)

    def record(
        self,
        job: Job,
        given: PolicyInput,
        choice: Choice,
        applied: Mapping[str, Applied],
        *,
        control: str,
        heartbeat_s: float,
    ) -> None:
        now = fingerprint(given, choice, applied)
        why, now_s = trigger(job.recorded, now), self._clock.monotonic()
        if why == "" and now_s - job.recorded_s < heartbeat_s:
            return
        job.recorded, job.recorded_s, job.decisions = now, now_s, job.decisions + 1
        facts = {"why": why or "heartbeat", "given": given, "choice": choice, "applied": applied, "control": control}
        self._write(job, facts)

    def _write(self, job: Job, facts: dict[str, Any]) -> None:
        self._store.note_progress(job.id, job.units_done)
        self._store.add_decision(decision(at=self._clock.now(), job_id=job.id, **facts))


class CountingRecorder(Recorder):
    """Counts them as the other does, and writes none: for a replay whose database nobody will read."""

    def _write(self, job: Job, facts: dict[str, Any]) -> None:
        pass


def decision(
    *,
    at: datetime,
    job_id: str,
    why: str,
    given: PolicyInput,
    choice: Choice,
    applied: Mapping[str, Applied],
    control: str,
) -> DecisionRecord:
    """The row, with all that taking it again needs."""
    return DecisionRecord(
        at=at,
        job_id=job_id,
        trigger=why,
        mode=choice.mode,
        policy=given.rules.name,
        code=choice.code,
        reason=choice.reason,
        power_limit_w=choice.setting.power_limit_w if choice.setting else None,
        intensity_g_per_kwh=given.grid.g_per_kwh,
        intensity_kind=given.grid.kind,
        intensity_age_s=given.grid.age_s,
        inputs=given.to_dict(),
        choice=choice.to_dict(),
        applied={uuid: _plain(result) for uuid, result in applied.items()},
        control=control,
    )


def _plain(result: Applied) -> dict[str, Any]:
    return {
        "status": result.status.value,
        "requested_w": result.requested_w,
        "set_w": result.set_w,
        "enforced_w": result.enforced_w,
        "detail": result.detail,
    }
