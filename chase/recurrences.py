"""Jobs that are trained again and again: what each time tries, what it took, and when it should end early.

The search itself is ``zeus_core.batch_size``. Here it meets the jobs: a recurrence begins when a recurring job comes,
its joules and seconds are the job's own as the ledger has them, and it ends with it. All is written down as it goes
on, so that a service that was started anew goes on with the recurrences that still run, and knows which do not.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chase.client.messages import Said
from chase.client.recurring import Recurring
from chase.clock import Clock
from chase.config.models import RecurrencesConfig
from chase.events import EventLog
from chase.jobs import Job, JobRefused, Peer
from chase.outlook import Outlook
from chase.records import RecurrenceRecord, TrialRecord
from chase.recurring_eta import eta_of
from chase.store import Store
from zeus_core.batch_size import Proposal, Spec, propose
from zeus_core.trials import Stage, Status, Trial, cost_of

_KEEP_S = 60.0  # between two writings of how far a trial is
_OUT_OF_MEMORY = "OutOfMemory"
_END = ("target", "higher_is_better", "max_epochs")  # which tell a training that arrived from one that failed
_GONE = ("lease over", "interrupted", "killed")


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a recurrence runs on: the model of its GPUs, and MaxPower, the original limits of all of them together."""

    gpu_model: str
    max_power_w: float


@dataclass(slots=True)
class Running:
    """A trial as it was at ``since_s``, when the job had drawn ``energy_j`` in this run of the service.

    ``gap_s`` is how long it trained before that with nobody looking: it drew then what it draws otherwise. ``asked`` is
    whether the training ever asked which size to try, and ``shared`` whether its joules were partly another job's.
    """

    record: TrialRecord
    recurring: Recurring
    stop_above: float | None
    since_s: float
    energy_j: float
    kept_s: float
    gap_s: float = 0.0
    reached: bool = False
    asked: bool = False
    shared: bool = False
    stop: str = ""


class RecurrenceBook:
    """Not thread-safe: the controller's lock covers it."""

    def __init__(self, config: RecurrencesConfig, store: Store, clock: Clock, events: EventLog) -> None:
        self.config = config
        self._store = store
        self._clock = clock
        self._events = events
        self._running: dict[str, Running] = {}  # by job

    def begin(self, job: Job, outlook: Callable[[], Outlook], hardware: Hardware, *, alive: Collection[str]) -> None:
        """Give a recurring job its trial: a new one, or the one that it had before the service or its lease was gone.

        ``alive`` are the jobs that may still run; a trial of any other is lost.
        """
        if job.recurring is None or job.id in self._running:
            return
        recurring = checked(job.recurring, job.batch_size)
        record = self._recurrence(job, recurring)
        trials = self._without_lost(self._store.trials(record.key), {*alive, job.id})
        mine = next((trial for trial in reversed(trials) if trial.job_id == job.id), None)
        if mine is None or not _goes_on(mine):
            mine, proposal = self._new(job, record, trials, outlook(), hardware)
        else:
            mine = replace(mine, status=Status.RUNNING.value, ended_at=None)
            proposal = self._proposal(record, _counted(record, trials, mine.number), mine.eta, hardware)
            self._store.keep_trial(mine)
        now_s = self._clock.monotonic()
        gap_s = max(0.0, (self._clock.now() - mine.began_at).total_seconds() - mine.duration_s)
        self._running[job.id] = Running(mine, recurring, proposal.stop_above, now_s, job.energy_j, now_s, gap_s)
        job.trains_at(mine.batch_size)

    def hear(self, job: Job, said: Said) -> None:
        """What a report says of its epochs."""
        running = self._running.get(job.id)
        if running is None:
            return
        record = running.record
        size = said.global_batch if said.global_batch in running.recurring.batch_sizes else record.batch_size
        epochs = max(record.epochs, said.epochs or 0)
        metric = record.metric if said.metric is None else said.metric
        running.record = replace(record, batch_size=size or record.batch_size, epochs=epochs, metric=metric)
        running.reached |= said.reached is True
        running.asked |= said.global_batch is not None
        job.trains_at(running.record.batch_size)

    def watch(self, job: Job, *, alone: bool) -> None:
        """At every tick: whether it has become too dear, and from time to time how far it is.

        ``alone`` is whether no other job is on its GPUs.
        """
        running = self._running.get(job.id)
        if running is None:
            return
        if not (alone or running.shared):
            running.shared = True
            text = f"{job.name} shares its GPUs with another job: what it takes says nothing of its batch size"
            self._events("trial-shared", "warning", text, job_id=job.id)
        now = self._as_now(job, running)
        cost = cost_of(now.energy_j, now.duration_s, eta=now.eta, max_power_w=now.max_power_w)
        if running.stop_above is not None and cost > running.stop_above and not (running.reached or running.stop):
            running.stop = f"it has cost {cost:.4g} J by now, more than its limit of {running.stop_above:.4g} J"
            self._events("trial-too-dear", "info", f"{job.name} should end: {running.stop}", job_id=job.id)
        if self._clock.monotonic() - running.kept_s >= _KEEP_S:
            self.keep(job)

    def end(self, job: Job, reason: str) -> None:
        """With its job, as well or badly as that did."""
        running = self._running.pop(job.id, None)
        if running is not None:
            status = _status(running, reason)
            if running.reached and not running.asked:
                text = f"{job.name} never asked for job.batch_size: nobody knows what it was trained with"
                self._events("trial-not-asked", "warning", text, job_id=job.id)
            self._store.keep_trial(replace(self._as_now(job, running), status=status, ended_at=self._clock.now()))

    def keep(self, job: Job) -> None:
        """Write down how far it is."""
        running = self._running.get(job.id)
        if running is not None:
            running.kept_s = self._clock.monotonic()
            self._store.keep_trial(self._as_now(job, running))

    def told(self, job: Job) -> dict[str, Any]:
        """For the job: which recurrence it is, and why it should stop."""
        running = self._running.get(job.id)
        if running is None:
            return {}
        record = running.record
        trial = {name: getattr(record, name) for name in ("number", "batch_size", "stage", "reason")}
        return {"trial": trial, "stop": running.stop}

    # -- what people do -----------------------------------------------------------------------------------------------

    def pin(self, name: str, peer: Peer, batch_size: int | None) -> RecurrenceRecord:
        """Let all recurrences run at one size, or the search have its way again. Raises ``JobRefused``."""
        record = self._owned(name, peer)
        sizes = record.spec["batch_sizes"]
        if batch_size is not None and batch_size not in sizes:
            raise JobRefused(422, "bad-batch-size", f"{name} runs at {', '.join(map(str, sizes))}, not at {batch_size}")
        return self._changed(record, pinned_batch_size=batch_size)

    def reset(self, name: str, peer: Peer) -> RecurrenceRecord:
        """Begin the search anew; what was tried stays in the database. Raises ``JobRefused``."""
        record = self._owned(name, peer)
        last = max((trial.number for trial in self._store.trials(record.key)), default=0)
        return self._changed(record, first_trial=last + 1)

    def _owned(self, name: str, peer: Peer) -> RecurrenceRecord:
        known = [record for record in self._store.recurrences() if record.name == name]
        mine = [record for record in known if peer.uid in {0, record.uid}]
        if not known:
            raise JobRefused(404, "unknown-recurrence", f"no job {name!r} was trained here as a recurring one")
        if not mine:
            raise JobRefused(403, "not-yours", f"the recurring job {name!r} belongs to another user")
        if len(mine) > 1:
            owners = ", ".join(map(str, sorted(record.uid for record in mine)))
            raise JobRefused(409, "several-owners", f"users {owners} each have a job {name!r}: ask as one of them")
        return mine[0]

    def _changed(self, record: RecurrenceRecord, **changes: Any) -> RecurrenceRecord:
        changed = replace(record, changed_at=self._clock.now(), **changes)
        self._store.keep_recurrence(changed)
        return changed

    # -- trials -------------------------------------------------------------------------------------------------------

    def _recurrence(self, job: Job, recurring: Recurring) -> RecurrenceRecord:
        """What its owner says now counts; what was learnt of sizes still allowed is of use, for the same end."""
        key, spec = key_of(job.uid, job.name), recurring.to_dict()
        known = self._store.recurrence(key)
        record = known or RecurrenceRecord(key=key, uid=job.uid, name=job.name, spec={}, changed_at=self._clock.now())
        if record.spec == {**spec, "batch_sizes": list(recurring.batch_sizes)}:
            return record
        pinned = record.pinned_batch_size if record.pinned_batch_size in recurring.batch_sizes else None
        spec["batch_sizes"] = list(recurring.batch_sizes)
        first = record.first_trial
        if known is not None and any(spec[what] != record.spec.get(what) for what in _END):
            first = max((trial.number for trial in self._store.trials(key)), default=0) + 1
            text = f"{job.name} has another target by now, or other epochs for it: its batch size is searched anew"
            self._events("search-anew", "info", text, job_id=job.id)
        return self._changed(record, spec=spec, pinned_batch_size=pinned, first_trial=first)

    def _new(
        self,
        job: Job,
        record: RecurrenceRecord,
        trials: Sequence[TrialRecord],
        outlook: Outlook,
        hardware: Hardware,
    ) -> tuple[TrialRecord, Proposal]:
        number = trials[-1].number + 1 if trials else 1
        history = _counted(record, trials, number)
        took = [trial.duration_s for trial in history if trial.status == Status.CONVERGED]
        eta, why = eta_of(
            outlook,
            speed_first=self.config.speed_first_eta,
            efficiency_first=self.config.efficiency_first_eta,
            expected_s=statistics.median(took) if took else None,
            without_signal=job.policy_config.without_signal,
        )
        proposal = self._proposal(record, history, eta, hardware, number=number)
        trial = TrialRecord(
            key=record.key,
            number=number,
            job_id=job.id,
            batch_size=proposal.batch_size,
            stage=proposal.stage.value,
            status=Status.RUNNING.value,
            eta=eta,
            reason=f"{proposal.reason}; {why}",
            began_at=self._clock.now(),
            gpu_model=hardware.gpu_model,
            max_power_w=hardware.max_power_w,
        )
        self._store.keep_trial(trial)
        text = f"recurrence {number} of {job.name} tries batch {trial.batch_size} ({trial.stage}): {trial.reason}"
        self._events("trial-begun", "info", text, job_id=job.id)
        return trial, proposal

    def _proposal(
        self,
        record: RecurrenceRecord,
        history: Iterable[TrialRecord],
        eta: float,
        hardware: Hardware,
        *,
        number: int | None = None,
    ) -> Proposal:
        return proposed(record, history, eta, hardware, seed=self.config.seed, number=number)

    def _without_lost(self, history: Sequence[TrialRecord], alive: Collection[str]) -> list[TrialRecord]:
        """A trial whose job is gone says nothing of its batch size, and holds nobody up."""
        found = []
        for trial in history:
            if trial.ended_at is None and trial.job_id not in alive:
                lost = replace(trial, status=Status.LOST.value, ended_at=self._clock.now())
                self._store.keep_trial(lost)
                found.append(lost)
            else:
                found.append(trial)
        return found

    def _as_now(self, job: Job, running: Running) -> TrialRecord:
        record = running.record
        seconds = record.duration_s + self._clock.monotonic() - running.since_s
        joules = record.energy_j + job.energy_j - running.energy_j
        whole = 1.0 + running.gap_s / seconds if seconds > 0 else 1.0
        return replace(record, duration_s=seconds * whole, energy_j=joules * whole)


def key_of(uid: int, name: str) -> str:
    """Whose it is and what it is called: what makes two trainings recurrences of one job."""
    return f"uid {uid}|{name}"


def checked(recurring: dict[str, Any], microbatch: int | None = None) -> Recurring:
    """As the client would have it. Raises ``JobRefused``."""
    try:
        known = Recurring.from_dict(recurring)
        if microbatch is not None:
            known.check_microbatch(microbatch)
    except (TypeError, ValueError, KeyError) as error:
        raise JobRefused(422, "bad-recurring", f"recurring: {error}") from None
    return known


def proposed(
    record: RecurrenceRecord,
    history: Iterable[TrialRecord],
    eta: float,
    hardware: Hardware,
    *,
    seed: int,
    number: int | None = None,
) -> Proposal:
    """What is to be tried next, of the same rows and words always the same."""
    recurring = checked(record.spec)
    spec = Spec(
        batch_sizes=recurring.batch_sizes,
        default=recurring.default,
        max_power_w=hardware.max_power_w,
        beta=recurring.beta,
        seed=seed,
    )
    trials = [
        Trial(
            row.number,
            row.batch_size,
            Status(row.status),
            row.energy_j,
            row.duration_s,
            row.epochs,
            row.gpu_model,
            Stage(row.stage),
        )
        for row in history
    ]
    pinned = record.pinned_batch_size
    return propose(spec, trials, eta=eta, number=number, gpu_model=hardware.gpu_model, pinned=pinned)


def _counted(record: RecurrenceRecord, trials: Iterable[TrialRecord], before: int) -> list[TrialRecord]:
    return [trial for trial in trials if record.first_trial <= trial.number < before]


def _goes_on(trial: TrialRecord) -> bool:
    """Whether its job, which is here again, is still at it: it ran on without the service, or beyond its lease."""
    return trial.ended_at is None or trial.status == Status.LOST


def _status(running: Running, reason: str) -> str:
    """What ends before its epochs are over, by somebody's hand or a fault of the code, says nothing of its size."""
    if _OUT_OF_MEMORY in reason:
        return Status.OUT_OF_MEMORY.value
    if running.shared or not running.asked:
        return Status.LOST.value
    if running.reached:
        return Status.CONVERGED.value
    if running.stop and not reason.startswith(_GONE):
        return Status.STOPPED.value
    over = running.record.epochs >= running.recurring.max_epochs
    return (Status.FAILED if over else Status.LOST).value
