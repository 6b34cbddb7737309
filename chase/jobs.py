"""The jobs under control: who registered them, on which GPUs, how far they are, and until when their word counts.

A job is known by an id that its client makes, so that a client finds its job again after the service was restarted.
Who calls is what the kernel says (SO_PEERCRED): a caller may touch only its own jobs, and no GPU that a job of another
user has. A job's setting is withheld from a GPU while only processes of other users run there. Root may touch any.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chase.clock import Clock
from chase.config import PolicyConfig
from chase.errors import ChaseError
from chase.pace import Pace
from chase.policy import FOLLOWS, LEADS, Progress, Rules
from chase.records import JobRecord
from chase.standing import Standing
from providers.base import IntensityPoint
from zeus_core.frontier import Frontier, Setting
from zeus_core.gpus.base import Process
from zeus_core.profiler import DriftWatch
from zeus_core.sweeps import Sweeps

MAX_JOBS = 256
MAX_JOBS_PER_USER = 64
MOST_UNITS = 1e15  # far beyond any count, and small enough that no product of it overflows
MAX_GPUS = 64
MAX_BATCH_SIZES = 16
MOST_BATCH = 2**31 - 1
MAX_EPOCHS = 10**9
_ID = re.compile(r"[0-9a-f]{8,32}")


class JobRefused(ChaseError):
    """A registration or report that cannot be taken. ``status`` is the HTTP status, ``code`` a stable word."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end of the socket, in the kernel's words."""

    uid: int
    pid: int

    def owns(self, job: Job) -> bool:
        return self.uid in {0, job.uid}


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a job says of itself. Raises ``JobRefused`` for what cannot be true.

    ``batch_sizes`` are those that the job can run at, empty where its batch size is its own business; ``batch_size`` is
    the one it was written for, with which all others are compared.
    """

    id: str
    name: str
    gpus: tuple[str, ...]
    units: str = "steps"
    total_units: float | None = None
    units_done: float = 0.0
    region: str | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    profile: str | None = None
    batch_size: int | None = None
    batch_sizes: tuple[int, ...] = ()
    joint: str = ""
    recurring: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise JobRefused(422, "bad-id", f"a job's id is 8 to 32 hexadecimal digits, not {self.id!r}")
        if not self.gpus or len(set(self.gpus)) != len(self.gpus) or len(self.gpus) > MAX_GPUS:
            raise JobRefused(422, "bad-gpus", f"a job names 1 to {MAX_GPUS} different GPUs, not {list(self.gpus)!r}")
        for name in ("total_units", "units_done"):
            value = getattr(self, name)
            if value is not None:
                _check_units(name, value)
        if self.joint not in {"", LEADS, FOLLOWS}:
            raise JobRefused(422, "bad-joint", f"joint must be {LEADS!r} or {FOLLOWS!r}, not {self.joint!r}")
        if self.batch_sizes or self.batch_size is not None:
            _check_batch_sizes(self.batch_size, self.batch_sizes)


@dataclass(slots=True)
class Account:
    """The interval that is being filled: what was reached when it began."""

    began: datetime
    began_s: float
    units: float
    energy_j: float
    power_limit_w: float | None
    used: IntensityPoint | None = None  # the intensity gone by at that moment
    methods: set[str] = field(default_factory=set)
    sharers: int = 1  # jobs on its GPUs, itself included


@dataclass(frozen=True, slots=True)
class Counted:
    """What a job's registration says of its units."""

    units: str
    total_units: float | None
    profile: str | None


@dataclass(slots=True)
class Job:
    """A job and all that the controller keeps of it. Times with ``_s`` are on the monotonic clock."""

    id: str
    name: str
    uid: int
    pid: int
    gpus: tuple[str, ...]
    units: str
    region: str
    registered_at: datetime
    lease_until_s: float
    policy_config: PolicyConfig
    policy: dict[str, Any]
    total_units: float | None = None
    units_done: float = 0.0
    moved_s: float = -math.inf  # when units_done last grew
    by_clock: Counted | None = None  # what it says it counts, where the service counts for it
    energy_j: float = 0.0
    profile: str | None = None
    batch_size: int | None = None  # its own, with which others are compared; None where that is no lever
    batch_sizes: tuple[int, ...] = ()  # those that are possible, as far as is known
    batch_in_force: int | None = None
    joint: str = ""  # whether this node leads or follows, of a job with ranks on several; empty for all others
    agreed_w: float | None = None  # the power limit that those agreed on
    recurring: dict[str, Any] | None = None
    global_batch: int | None = None  # of a recurring job, the size that this recurrence is trained with
    out: set[int] = field(default_factory=set)  # batch sizes that turned out impossible
    frontier: Frontier | None = None
    frontier_source: str = ""
    frontier_key: str = ""
    adopted_at: datetime | None = None
    bounds: tuple[float | None, float | None] = (None, None)  # the limits that people allowed when it was sought
    profiler: Sweeps | None = None
    drift: DriftWatch | None = None
    unmeasurable: str = ""
    unmeasurable_until_s: float = -math.inf
    refusals: int = 0
    intensity_g: float | None = None  # that its last choice went by
    reference_g: float | None = None
    mode: str | None = None
    setting: Setting | None = None
    until_s: float | None = None  # how long the choice is meant to hold, where that is not until the next value
    own: Setting | None = None  # what it would be at but for the node's power cap
    in_force: Setting | None = None
    changed_s: float = -math.inf
    reason: str = ""
    recorded: tuple[Any, ...] = ()
    recorded_s: float = -math.inf
    decisions: int = 0
    account: Account | None = None
    standing: Standing | None = None  # the last choice, where it may stand beyond its tick
    pace: Pace = field(default_factory=lambda: Pace(0.0, 0.0))
    _rules: tuple[PolicyConfig, Rules] | None = None

    @property
    def rules(self) -> Rules:
        """The owner's wishes as the policies take them."""
        if self._rules is None or self._rules[0] is not self.policy_config:
            self._rules = self.policy_config, _rules(self.policy_config)
        return self._rules[1]

    def progress(self, now: datetime) -> Progress:
        """A job that has done all it said it would, and goes on, is one of which nobody knows how long it is."""
        left = None if self.total_units is None else self.total_units - self.units_done
        deadline = self.policy_config.deadline
        return Progress(
            units_left=left if left is not None and left > 0 else None,
            units_done=max(0.0, self.units_done - self.pace.begun),
            delay_s=self.pace.delayed_s(self.frontier),
            deadline_s=None if deadline is None else (deadline - now).total_seconds(),
            units_before=self.pace.begun,
        )

    def trains_at(self, global_batch: int) -> None:
        """Of a recurring job: only microbatches that divide it are possible, and what was measured was at another."""
        if global_batch == self.global_batch:
            return
        before, declared = self.global_batch or 0, {*self.batch_sizes, *self.out}
        failed = {size for size in self.out if before % size == 0}
        self.out = failed | {size for size in declared if global_batch % size}
        self.batch_sizes = tuple(sorted(declared - self.out))
        self.global_batch = global_batch
        self.forget_frontier()

    def forget_frontier(self) -> None:
        """What was measured, or is being measured, is not of how it runs now."""
        self.frontier = self.profiler = self.drift = None
        self.frontier_source, self.unmeasurable = "", ""

    @property
    def trusted(self) -> bool:
        """Whether savings may be booked against the frontier: measured in this run, or seen to agree with it."""
        return self.frontier_source == "measured" or (self.drift is not None and self.drift.agreed)

    def record(self) -> JobRecord:
        return JobRecord(
            id=self.id,
            name=self.name,
            uid=self.uid,
            pid=self.pid,
            gpus=self.gpus,
            units=self.units,
            region=self.region,
            registered_at=self.registered_at,
            total_units=self.total_units,
            units_done=self.units_done,
            policy=self.policy,
        )


class JobTable:
    """Registration, reports and leases. Not thread-safe: the controller's lock covers it."""

    def __init__(self, *, clock: Clock, lease_s: float, users: Callable[[str], Iterable[Process]]) -> None:
        self._jobs: dict[str, Job] = {}
        self._all: tuple[Job, ...] = ()  # the same in their order; never changed, since status asks from other threads
        self._on: dict[str, tuple[Job, ...]] = {}  # by GPU
        self._clock = clock
        self._users = users
        self.lease_s = lease_s

    def __iter__(self) -> Iterator[Job]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._jobs)

    def on_gpu(self, uuid: str) -> Sequence[Job]:
        return self._on.get(uuid, ())

    def get(self, job_id: str, peer: Peer) -> Job:
        job = self._jobs.get(job_id)
        if job is None:
            raise JobRefused(404, "unknown-job", f"no job {job_id} is registered here; register it again")
        if not peer.owns(job):
            raise JobRefused(403, "not-yours", f"job {job_id} belongs to another user")
        return job

    def register(
        self, wanted: Registration, peer: Peer, *, known: Sequence[str], region: str, policy: PolicyConfig
    ) -> Job:
        """Take a job in, or find it again by its id. Raises ``JobRefused``."""
        if wanted.id in self._jobs:
            job = self.get(wanted.id, peer)
            self._counts_itself(job)
            if (wanted.gpus, region) != (job.gpus, job.region):
                raise JobRefused(409, "other-gpus", f"job {job.id} is registered on other GPUs or in another region")
            _restate(job, wanted, policy)
            self._progress(job, wanted.units_done)
            return job
        self._check_room(peer)
        for uuid in wanted.gpus:
            self._may_use(uuid, peer, known)
        job = Job(
            id=wanted.id,
            name=wanted.name,
            uid=peer.uid,
            pid=peer.pid,
            gpus=wanted.gpus,
            units=wanted.units,
            region=region,
            registered_at=self._clock.now(),
            lease_until_s=self._clock.monotonic() + self.lease_s,
            policy_config=policy,
            policy=dict(wanted.policy),
            total_units=wanted.total_units,
            units_done=wanted.units_done,
            moved_s=self._clock.monotonic(),
            profile=wanted.profile,
            batch_size=wanted.batch_size,
            batch_sizes=tuple(sorted(wanted.batch_sizes)),
            batch_in_force=wanted.batch_size,
            joint=wanted.joint,
            recurring=None if wanted.recurring is None else dict(wanted.recurring),
            pace=Pace(wanted.units_done, wanted.units_done, self._clock.monotonic()),
        )
        self._jobs[job.id] = job
        self._reorder()
        return job

    def report(self, job_id: str, peer: Peer, units_done: float) -> Job:
        _check_units("units_done", units_done)
        job = self.get(job_id, peer)
        if units_done > 0:
            self._counts_itself(job)
        self._progress(job, units_done)
        return job

    def count_by_clock(self, job: Job, units: str) -> None:
        """From now on the service counts for a job, in ``units`` of its own, until the job does."""
        job.by_clock = Counted(job.units, job.total_units, job.profile)
        self._count_anew(job, units, None, None)

    def add_by_clock(self, job: Job, units: float) -> None:
        """What is counted for it; no sign of life of the job's own."""
        if units > 0:
            now_s = self._clock.monotonic()
            job.pace.advance(job.units_done + units, now_s, job.frontier)
            job.units_done, job.moved_s = job.units_done + units, now_s

    def _counts_itself(self, job: Job) -> None:
        if job.by_clock is not None:
            said, job.by_clock = job.by_clock, None
            self._count_anew(job, said.units, said.total_units, said.profile)

    def _count_anew(self, job: Job, units: str, total_units: float | None, profile: str | None) -> None:
        """From 0, in other units: whatever was known by the old ones is let go."""
        job.units, job.total_units, job.profile = units, total_units, profile
        job.standing = None
        job.forget_frontier()
        job.units_done, job.moved_s = 0.0, self._clock.monotonic()
        job.pace = Pace(0.0, 0.0, job.pace.now_s, job.pace.at, job.pace.delay_s)
        if job.account is not None:
            job.account.units = 0.0

    def batch_is(self, job: Job, in_force: int | None, impossible: Collection[int]) -> None:
        """Take what a report says of batch sizes. Raises ``JobRefused`` for one that the job never named."""
        strange = {size for size in (in_force, *impossible) if size is not None} - {*job.batch_sizes, *job.out}
        if strange:
            names = ", ".join(map(str, job.batch_sizes)) or "none"
            raise JobRefused(422, "bad-batch-size", f"the job named batch sizes {names}, and not {min(strange)}")
        now = job.batch_in_force if in_force is None else in_force
        elsewhere = now != job.batch_size and now not in impossible
        gone = {*impossible} - (set() if elsewhere else {job.batch_size})  # something must be left to compare with
        job.out |= gone & {*job.batch_sizes}
        job.batch_sizes = tuple(size for size in job.batch_sizes if size not in gone)
        job.batch_in_force = now
        if job.batch_size in gone:  # then what it runs at instead is what all others are compared with
            job.batch_size = job.batch_in_force
            job.forget_frontier()

    def remove(self, job: Job) -> None:
        self._jobs.pop(job.id, None)
        self._reorder()

    def expired(self) -> list[Job]:
        now_s = self._clock.monotonic()
        return [job for job in self._all if now_s > job.lease_until_s]

    def strangers(self, job: Job) -> list[str]:
        """The job's GPUs on which somebody else's processes run and none of the job's owner."""
        if job.uid == 0:
            return []
        return [uuid for uuid in job.gpus if _foreign(self._users(uuid), job.uid)]

    def _reorder(self) -> None:
        self._all = tuple(self._jobs.values())
        used = {uuid for job in self._all for uuid in job.gpus}
        self._on = {uuid: tuple(job for job in self._all if uuid in job.gpus) for uuid in used}

    def _progress(self, job: Job, units_done: float) -> None:
        now_s = self._clock.monotonic()
        job.lease_until_s = now_s + self.lease_s
        if units_done > job.units_done:  # a launcher and its child both report; the count never falls
            job.pace.advance(units_done, now_s, job.frontier)
            job.units_done = units_done
            job.moved_s = now_s

    def _check_room(self, peer: Peer) -> None:
        mine = sum(job.uid == peer.uid for job in self)
        if len(self._jobs) >= MAX_JOBS or (peer.uid != 0 and mine >= MAX_JOBS_PER_USER):
            raise JobRefused(
                503, "too-many-jobs", f"{len(self._jobs)} jobs are registered already, {mine} of them yours"
            )

    def _may_use(self, uuid: str, peer: Peer, known: Sequence[str]) -> None:
        if uuid not in known:
            raise JobRefused(404, "unknown-gpu", f"this node has no GPU {uuid}; it has {', '.join(known) or 'none'}")
        if peer.uid == 0:
            return
        if any(job.uid != peer.uid for job in self.on_gpu(uuid)):
            raise JobRefused(403, "gpu-taken", f"a job of another user is registered on GPU {uuid}")


def _check_batch_sizes(own: int | None, sizes: Sequence[int]) -> None:
    possible = all(1 <= size <= MOST_BATCH for size in sizes) and len(set(sizes)) == len(sizes)
    if not possible or not 1 <= len(sizes) <= MAX_BATCH_SIZES:
        text = f"batch_sizes must be 1 to {MAX_BATCH_SIZES} different whole numbers from 1, not {list(sizes)!r}"
        raise JobRefused(422, "bad-batch-sizes", text)
    if own not in sizes:
        raise JobRefused(422, "bad-batch-sizes", f"batch_size must be one of batch_sizes {list(sizes)!r}, not {own!r}")


def _check_units(name: str, value: float) -> None:
    if not 0 <= value <= MOST_UNITS:  # false for NaN
        raise JobRefused(422, "bad-units", f"{name} must be a number from 0 to {MOST_UNITS:g}, not {value!r}")


def _rules(chosen: PolicyConfig) -> Rules:
    """Of the settings those that a decision depends on, under the same names."""
    return Rules(**{name: getattr(chosen, name) for name in Rules.__slots__})


def _restate(job: Job, wanted: Registration, policy: PolicyConfig) -> None:
    """What is said later counts: a launcher registers before its command knows what it counts.

    Another name, unit, profile or choice of batch sizes makes another frontier, and what was known is let go.
    """
    if wanted.units != job.units:
        # Other things, so there may be fewer. Where nothing was counted before, all of these were done since.
        job.units_done = wanted.units_done if job.units_done > 0 else 0.0
        job.pace = Pace(job.units_done, job.units_done, job.pace.now_s, job.pace.at, job.pace.delay_s)
        if job.account is not None:
            job.account.units = job.units_done
    trained = job.global_batch or 0  # of a recurrence that has begun already, only what divides its size is possible
    job.out |= {size for size in wanted.batch_sizes if trained % size}
    own = job.batch_size if wanted.batch_size in job.out else wanted.batch_size
    levers = (own, set(wanted.batch_sizes) - job.out)
    said = (wanted.name, wanted.units, wanted.profile, *levers)
    if said != (job.name, job.units, job.profile, job.batch_size, {*job.batch_sizes}):
        job.units, job.profile = wanted.units, wanted.profile
        job.batch_size, job.batch_sizes = own, tuple(sorted(levers[1]))
        job.batch_in_force = own
        job.forget_frontier()
    job.name, job.total_units = wanted.name, wanted.total_units
    job.policy, job.policy_config = dict(wanted.policy), policy
    job.joint = wanted.joint
    job.recurring = job.recurring if wanted.recurring is None else dict(wanted.recurring)


def _foreign(processes: Iterable[Process], uid: int) -> bool:
    """Whether somebody runs here and ``uid`` does not. A pid unknown to this kernel is somebody else's."""
    owners = {process.uid for process in processes}
    return bool(owners) and uid not in owners
