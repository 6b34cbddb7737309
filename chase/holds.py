"""What people hold: an operator the whole node, an owner his own jobs, each until a time or until it is lifted."""

from __future__ import annotations

import os
from datetime import datetime

from chase.clock import Clock
from chase.events import EventLog
from chase.jobs import Job, JobRefused, Peer
from chase.records import HoldRecord
from chase.store import Store


class HoldBook:
    """Holds in force, kept in the database as well. Not thread-safe: the controller's lock covers it."""

    def __init__(self, store: Store, clock: Clock, events: EventLog) -> None:
        self._store = store
        self._clock = clock
        self._events = events
        self._holds = list(store.holds(clock.now()))
        self._operators = {0, os.geteuid()}

    @property
    def all(self) -> tuple[HoldRecord, ...]:
        return tuple(self._holds)

    def add(self, mode: str, peer: Peer, *, until: datetime | None, job_id: str | None) -> HoldRecord:
        """In place of the caller's earlier one for the same. Raises ``JobRefused`` for a time that is over."""
        now = self._clock.now()
        if until is not None and until <= now:
            raise JobRefused(422, "past", f"until {until.isoformat()} is over already")
        self.end(job_id, peer.uid)
        record = HoldRecord(mode=mode, made_at=now, uid=peer.uid, until=until, job_id=job_id)
        self._holds.append(record)
        self._store.add_hold(record)
        self._events("hold", "info", f"{mode} held until {until or 'it is lifted'}", job_id=job_id, uid=peer.uid)
        return record

    def end(self, job_id: str | None, uid: int) -> int:
        """Lift what ``uid`` may lift: an operator anything, others their own."""
        mine = [hold for hold in self._holds if hold.job_id == job_id and (uid in self._operators or hold.uid == uid)]
        for hold in mine:
            self._holds.remove(hold)
            self._store.end_hold(job_id, self._clock.now(), uid=hold.uid)
            self._events("hold-lifted", "info", f"the hold at {hold.mode} is lifted", job_id=job_id, uid=uid)
        return len(mine)

    def expire(self) -> None:
        now = self._clock.now()
        for hold in [hold for hold in self._holds if hold.until is not None and hold.until <= now]:
            self._holds.remove(hold)
            self._events("hold-over", "info", f"the hold at {hold.mode} is over", job_id=hold.job_id)

    def of(self, job: Job) -> HoldRecord | None:
        """The operator's before the owner's, and one for this job before one for all."""
        mine = [
            hold
            for hold in self._holds
            if hold.job_id == job.id or (hold.job_id is None and hold.uid in {*self._operators, job.uid})
        ]
        return max(mine, key=lambda hold: (hold.uid in self._operators, hold.job_id is not None), default=None)
