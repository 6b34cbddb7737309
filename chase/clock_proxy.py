"""Counting for a job that counts nothing: cycles of its GPUs' SMs stand for work, and everything says so.

Notation, of each GPU at a tick:

    f       clock of the SMs                                        [GHz]
    l       share of the time in which a kernel ran                 [1]

Work is the integral of f l, of the slowest GPU where there are several, in billions of cycles. A loop that waits for
its data or its network has a smaller l, and does not run slower at a lower clock as long as it waits. One that is bound
by memory has a full l and loses less than its clock does: then the job seems slower than it is, and what is allowed of
a slowdown is spent too early, not too late. What a cycle was good for nobody knows: a job that hangs at full load still
counts, so for one that is to be trusted with that, count steps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from chase.clock import Clock
from chase.events import EventLog
from chase.jobs import Job, JobTable
from zeus_core.gpus.base import Gpu, GpuError

UNITS = "Gcycles of the SM clock"
_MHZ = 1e-3  # in GHz


class ClockProxy:
    """Not thread-safe: the controller's lock covers it."""

    def __init__(self, gpus: Mapping[str, Gpu], clock: Clock, events: EventLog) -> None:
        self._gpus = gpus
        self._clock = clock
        self._events = events
        self._speed: dict[str, tuple[float, float]] = {}  # of a job: when it was looked at, and f l then

    def count(self, jobs: JobTable, after_s: float) -> None:
        """At every tick: add what was done since the last, and take on those that were silent for ``after_s``."""
        now_s = self._clock.monotonic()
        for job in jobs:
            if job.by_clock is None and not self._needs(job, now_s, after_s):
                self._speed.pop(job.id, None)
                continue
            ghz = self._ghz(job.gpus)
            if job.by_clock is None and ghz > 0:
                self._take_on(jobs, job)
            then_s, before = self._speed.get(job.id, (now_s, ghz))
            self._speed[job.id] = now_s, ghz
            if job.by_clock is not None:
                jobs.add_by_clock(job, (now_s - then_s) * (before + ghz) / 2.0)
        self._speed = {job.id: self._speed[job.id] for job in jobs if job.id in self._speed}

    def _needs(self, job: Job, now_s: float, after_s: float) -> bool:
        return job.units_done == 0 and now_s - job.moved_s >= after_s

    def _take_on(self, jobs: JobTable, job: Job) -> None:
        jobs.count_by_clock(job, UNITS)
        text = f"{job.name} counts nothing: the SM clock of its GPUs stands for its speed"
        self._events("by-clock", "warning", text, job_id=job.id, once=True)

    def _ghz(self, uuids: Collection[str]) -> float:
        """Of the slowest; 0 where one cannot be read."""
        try:
            return min(self._gpus[uuid].sm_clock_mhz() * self._gpus[uuid].utilisation() for uuid in uuids) * _MHZ
        except GpuError:
            return 0.0
