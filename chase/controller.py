"""One tick: observe, decide, apply, record. The same code in the service, in the demo and in a replay.

It knows no scheduler and no socket. Every public method takes the one lock, since jobs report from the API's threads
while the ticks run in the scheduler's.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from chase import policy
from chase.accounting import JobSummary
from chase.cap_fallback import kept_low
from chase.capping import CapKeeper, members
from chase.client.messages import Said
from chase.clock import Clock
from chase.clock_proxy import ClockProxy
from chase.config import Config, PolicyConfig, RegionConfig, job_policy, profile_names
from chase.errors import ChaseError
from chase.events import EventLog
from chase.frontiers import FrontierBook, original_w
from chase.hardware import Hardware
from chase.holds import HoldBook
from chase.horizon import Horizon
from chase.jobs import Job, JobRefused, JobTable, Peer, Registration
from chase.ledger import Ledger, Rates
from chase.outlook import Outlook
from chase.policy import Choice, Grid, PolicyInput, Progress
from chase.prices import PriceFeed
from chase.prices_ahead import horizon_of
from chase.recording import Recorder
from chase.records import HoldRecord, JobRecord, RecurrenceRecord
from chase.recurrences import Hardware as Recurred
from chase.recurrences import RecurrenceBook, checked
from chase.signal import GridSignal
from chase.standing import Basis, Standing
from chase.store import Store
from chase.thresholds import Thresholds
from chase.wishes import joint_wishes
from providers.base import Kind
from zeus_core.actuation.base import Actuator, Applied, GpuState, Status
from zeus_core.frontier import Setting
from zeus_core.gpus.base import Gpu, GpuSystem
from zeus_core.gpus.profiles import GpuProfile
from zeus_core.meter import EnergyMeter
from zeus_core.profiler import same_setting

# A limit that was asked for and is not in force, though the GPU as such can be set.
_BLOCKED = frozenset({Status.BOUND, Status.FAILED, Status.NOT_SUPPORTED})
_EXACT = frozenset({Status.APPLIED, Status.UNCHANGED})
_OBSERVED = frozenset({Kind.MEASURED.value, Kind.ESTIMATED.value})
_STALLED_S = 120.0
_STALLED_REPORTS = 10
_SILENT_REPORTS = 2  # may be missing before a job is not on its way
_AHEAD = timedelta(days=7)
_CHOSEN = frozenset({policy.SPEED, policy.EFFICIENCY, policy.BETWEEN, policy.PAUSED})


@dataclass(frozen=True, slots=True)
class Known:
    """What of a job may change at any tick: as ``PolicyInput`` has it."""

    barred: str
    note: str
    hold: str | None
    measure: Setting | None


class Controller:
    """Holds the jobs and moves their GPUs.

    ``actuator`` None means that nothing can be set, for ``observe_reason``. The first of ``regions`` is the node's own;
    each has its signal. ``profiles`` are published curves beside the shipped ones, by the name that a job gives.
    """

    def __init__(
        self,
        *,
        config: Config,
        system: GpuSystem,
        actuator: Actuator | None,
        regions: Mapping[str, RegionConfig],
        signals: Mapping[str, GridSignal],
        store: Store,
        clock: Clock,
        events: EventLog,
        prices: Mapping[str, PriceFeed] | None = None,
        profiles: Mapping[str, GpuProfile] | None = None,
        observe_reason: str = "",
        recorder: Recorder | None = None,
    ) -> None:
        self.config = config
        self.system = system
        self.signals = dict(signals)
        self.prices = dict(prices or {})
        self._regions = dict(regions)
        self._home = next(iter(self._regions))  # where this node is; the first one given
        self.events = events
        self._hardware = Hardware(system, actuator, observe_reason, events)
        self._store = store
        self._clock = clock
        self._lock = threading.RLock()
        self.jobs = JobTable(clock=clock, lease_s=config.jobs.lease_s, users=self._hardware.users)
        self._ledger = Ledger(EnergyMeter(tuple(self.gpus.values()), monotonic=clock.monotonic), store, clock)
        self._profiles = frozenset({*profile_names(), *(profiles or ())})
        self._book = FrontierBook(config.profile, store, clock, events, profiles)
        self._recorder = recorder or Recorder(store, clock)
        self._by_clock = ClockProxy(self.gpus, clock, events)
        self._recurrences = RecurrenceBook(config.recurrences, store, clock, events)
        self._holds = HoldBook(store, clock, events)
        self._thresholds = {region: Thresholds() for region in self._regions}
        self._cap = CapKeeper(events)
        # Jobs of an earlier run that have not come back yet: they have two leases' time to do so.
        self._missing = {record.id: record for record in store.jobs(running=True)}
        self._missing_until_s = clock.monotonic() + 2 * config.jobs.lease_s
        self._closed = False
        self.ticked_s = clock.monotonic()

    # -- what the API calls -------------------------------------------------------------------------------------------

    def register(self, wanted: Registration, peer: Peer) -> Job:
        with self._lock:
            region = wanted.region or self._home
            if region not in self.signals:
                known = ", ".join(sorted(self.signals))
                raise JobRefused(422, "unknown-region", f"this service polls {known}, not {region!r}")
            if wanted.profile is not None and wanted.profile not in self._profiles:
                # Names alone: a path would make the service read a file on a caller's word.
                names = ", ".join(sorted(self._profiles))
                raise JobRefused(422, "unknown-profile", f"no profile is named {wanted.profile!r}; there are {names}")
            chosen = self._policy_of(region, wanted.policy)
            if wanted.recurring is not None:
                checked(dict(wanted.recurring), wanted.batch_size)
            before, earlier = len(self.jobs), self._earlier(wanted.id, peer)
            self._ledger.sample(self.jobs)  # what was drawn until now is not the new job's
            job = self.jobs.register(wanted, peer, known=tuple(self.gpus), region=region, policy=chosen)
            if len(self.jobs) > before:
                self._take_in(job, earlier)
            self._store.upsert_job(job.record())
            with self._alone_at_fault(job):
                alive = {*self._missing, *(other.id for other in self.jobs)}
                self._recurrences.begin(job, self.signals[region].outlook, self._runs_on(job), alive=alive)
            return job

    def _runs_on(self, job: Job) -> Recurred:
        """Of cards of several models the slowest decides; nobody has said which that is, so all are named."""
        models = sorted({self.gpus[uuid].name for uuid in job.gpus})
        limits = [original_w(self._hardware.states[uuid]) for uuid in job.gpus if uuid in self._hardware.states]
        if len(limits) < len(job.gpus) or not all(limits):  # before the first tick, or a card that is not there
            limits = [self._hardware.default_w(uuid) for uuid in job.gpus]
        return Recurred(f"{len(job.gpus)} x {', '.join(models)}", sum(limits))

    def _earlier(self, job_id: str, peer: Peer) -> JobRecord | None:
        """The job of that id as the database knows it. An id is no password: it stays its owner's."""
        record = self._missing.get(job_id) or self._store.job(job_id)
        if record is not None and peer.uid not in {0, record.uid}:
            raise JobRefused(403, "not-yours", f"job {job_id} belongs to another user")
        return record

    def _take_in(self, job: Job, earlier: JobRecord | None) -> None:
        self._missing.pop(job.id, None)
        self._ledger.open(job)
        if earlier is not None:
            self._recall(job)
        self.events("job-registered", "info", f"{job.name} registered on {len(job.gpus)} GPU(s)", job_id=job.id)

    def _recall(self, job: Job) -> None:
        """A job that comes back goes on where it was: its mode, its dwell, its fixed reference, what it has spent."""
        last = self._store.last_decision(job.id)
        if last is None:
            return
        try:
            given, chosen = PolicyInput.from_dict(last.inputs), last.choice["setting"]
        except (KeyError, TypeError, ValueError) as error:
            text = f"{job.name} begins anew: its last decision cannot be read: {error!r}"
            self.events("not-recalled", "warning", text, job_id=job.id)
            return
        job.mode, job.setting = last.mode, Setting(**chosen) if chosen is not None else None
        wished = chosen if given.capped is None else last.choice.get("wished")
        job.own = Setting(**wished) if wished is not None else None
        job.reference_g = given.grid.reference_g if given.grid.kind in _OBSERVED else None
        in_force = job.setting if last.control == "control" else None
        job.pace.recall(given.progress, in_force, given.frontier, self.config.control.heartbeat_s)
        held_s = given.since_s if (given.current_mode, given.current) == (job.mode, job.own) else 0.0
        job.changed_s = self._clock.monotonic() - held_s - max(0.0, (self._clock.now() - last.at).total_seconds())

    def report(self, job_id: str, peer: Peer, units_done: float, said: Said = Said()) -> Job:  # noqa: B008  frozen
        """Take a report. Energy is read in the same moment, so that a window's work and joules belong together.

        Where a tick holds it up, the work is that of the moment in which it came.
        """
        came_s = self._clock.monotonic()
        with self._lock:
            job = self.jobs.report(job_id, peer, units_done)
            self._hear(job, said)
            self._ledger.sample(self.jobs, only=job.gpus)
            if self._alone(job):
                self._book.observed(job, self._clock.monotonic(), came_s)
            return job

    def _hear(self, job: Job, said: Said) -> None:
        """What a job says besides how far it is."""
        if said.agreed_w is not None:
            job.agreed_w = said.agreed_w
        self._recurrences.hear(job, said)
        if said.batch_size is None and not said.impossible:
            return
        before, known = job.batch_in_force, {*job.batch_sizes}
        self.jobs.batch_is(job, said.batch_size, said.impossible)
        for size in known - {*job.batch_sizes}:
            self._book.impossible(job, size)
        if job.batch_in_force != before and job.in_force is not None:
            job.in_force = replace(job.in_force, batch_size=job.batch_in_force)
            job.pace.hold(self._clock.monotonic(), (job.pace.at[0], job.batch_in_force))

    def end(
        self,
        job_id: str,
        peer: Peer,
        reason: str,
        units_done: float,
        said: Said = Said(),  # noqa: B008  frozen
    ) -> tuple[JobSummary, int, str]:
        """The account of the job, how many decisions were taken for it, and the units in which it was counted."""
        with self._lock:
            job = self.jobs.report(job_id, peer, max(units_done, 0.0))
            self._hear(job, said)
            self._ledger.sample(self.jobs, only=job.gpus)
            self._end(job, reason)
        # The account of a long job takes a while: not while the others wait for their tick.
        summary = self._ledger.summary(job, self.signals[job.region], self._rates(job.region))
        return summary, self._store.decision_count(job.id), job.units

    def hold(self, mode: str, peer: Peer, *, until: datetime | None = None, job_id: str | None = None) -> HoldRecord:
        """Override the policy of one job, or of all the caller's; root's and the service's own user's is the node's.

        Raises ``JobRefused``.
        """
        with self._lock:
            if job_id is not None:
                self.jobs.get(job_id, peer)
            return self._holds.add(mode, peer, until=until, job_id=job_id)

    def pin(self, name: str, peer: Peer, batch_size: int | None) -> RecurrenceRecord:
        """All recurrences of a job at one batch size; None lets the search have its way. Raises ``JobRefused``."""
        with self._lock:
            return self._recurrences.pin(name, peer, batch_size)

    def reset(self, name: str, peer: Peer) -> RecurrenceRecord:
        """Search a recurring job's batch size anew. Raises ``JobRefused``."""
        with self._lock:
            return self._recurrences.reset(name, peer)

    def trial(self, job: Job) -> dict[str, Any]:
        """What a recurring job is told of its trial; nothing for any other."""
        with self._lock:
            return self._recurrences.told(job)

    def unhold(self, peer: Peer, *, job_id: str | None = None) -> int:
        with self._lock:
            if job_id is not None:
                self.jobs.get(job_id, peer)
            return self._holds.end(job_id, peer.uid)

    def reconfigure(self, config: Config, region: RegionConfig) -> None:
        """Take over what may change while running: policy, timings, measuring. Sources and paths need a restart."""
        with self._lock:
            self.config = config
            self._book.config = config.profile
            self._recurrences.config = config.recurrences
            self.jobs.lease_s = config.jobs.lease_s
            if region.id in self._regions:
                self._regions[region.id] = region
            for job in self.jobs:
                try:
                    job.policy_config = self._policy_of(job.region, job.policy)
                except JobRefused as error:
                    text = f"{job.name} keeps its policy: its own wishes do not go with the new one: {error}"
                    self.events("policy-kept", "warning", text, job_id=job.id)

    # -- the loop -----------------------------------------------------------------------------------------------------

    def tick(self) -> bool:
        """One round; True when a limit is still on its way up and wants another soon. Nothing after ``close``."""
        with self._lock:
            if self._closed:
                return False
            self._ledger.sample(self.jobs)
            self._expire()
            self._hardware.look(self.config.control.interval_s)
            self._count_by_clock()
            outlooks = {region: signal.outlook(_AHEAD) for region, signal in self.signals.items()}
            weighed = {job.id: self._weigh(job, outlooks[job.region]) for job in self.jobs}
            weighed |= self._under_cap(weighed)
            applied = self._apply({job_id: choice for job_id, (_, choice) in weighed.items()})
            for job in self.jobs:
                mine = {uuid: applied[uuid] for uuid in job.gpus if uuid in applied}
                with self._alone_at_fault(job):
                    self._write_down(job, *weighed[job.id], mine, outlooks[job.region])
            self.ticked_s = self._clock.monotonic()
            return any(result.status is Status.RAMPING for result in applied.values())

    def sample(self) -> None:
        """Read the meter between ticks: for GPUs whose energy is integrated from their power readings."""
        with self._lock:
            self._ledger.sample(self.jobs)

    @property
    def integrates(self) -> bool:
        """Whether some GPU has no energy counter, so that its energy depends on how often it is looked at."""
        self.sample()
        return self._ledger.integrates

    def close(self) -> None:
        """Give every GPU back and post what is open. Jobs stay registered in the database: they may come back."""
        with self._lock:
            self._closed = True
            try:
                self._hardware.close()
            finally:
                self._ledger.sample(self.jobs)
                for job in self.jobs:
                    with self._alone_at_fault(job):
                        self._ledger.post(job, self.signals[job.region].outlook(), self._rates(job.region), 0.0)
                        self._recurrences.keep(job)
                        self._store.upsert_job(job.record())

    @property
    def control(self) -> tuple[str, str]:
        """``control`` or ``observe``, and why."""
        return self._hardware.control

    @property
    def states(self) -> dict[str, GpuState]:
        return dict(self._hardware.states)

    @property
    def slices(self) -> Mapping[str, tuple[str, ...]]:
        """MIG instances of each GPU, as of the last tick."""
        return self._hardware.slices

    @property
    def holds(self) -> tuple[HoldRecord, ...]:
        return self._holds.all

    @property
    def gpus(self) -> Mapping[str, Gpu]:
        return self._hardware.gpus

    # -- observe ------------------------------------------------------------------------------------------------------

    def _count_by_clock(self) -> None:
        """And what was counted goes to the profiler, as after a report."""
        self._by_clock.count(self.jobs, self.config.jobs.clock_proxy_s)
        for job in self.jobs:
            if job.by_clock is not None and self._alone(job):
                with self._alone_at_fault(job):
                    self._book.observed(job, self._clock.monotonic())

    def _expire(self) -> None:
        for job in self.jobs.expired():
            self.events("lease-over", "warning", f"{job.name} said nothing for its lease: withdrawn", job_id=job.id)
            self._end(job, "lease over")
        if self._missing and self._clock.monotonic() > self._missing_until_s:
            self._close_missing()
        self._holds.expire()

    def _close_missing(self) -> None:
        for record in self._missing.values():
            self._store.end_job(record.id, self._clock.now(), "not seen since the service restarted", record.units_done)
        self._missing.clear()

    def _end(self, job: Job, reason: str) -> None:
        """First the GPUs, then the books: whatever is wrong with a job's figures, its cards are free."""
        self.jobs.remove(job)
        self._hardware.give_back(uuid for uuid in job.gpus if not self.jobs.on_gpu(uuid))
        with self._alone_at_fault(job):
            self._ledger.post(job, self.signals[job.region].outlook(), self._rates(job.region), 0.0)
        with self._alone_at_fault(job):
            self._recurrences.end(job, reason)
        self._holds.end(job.id, 0)
        self._store.end_job(job.id, self._clock.now(), reason, job.units_done)
        self.events("job-ended", "info", f"{job.name} ended: {reason}", job_id=job.id)

    # -- decide -------------------------------------------------------------------------------------------------------

    def _weigh(self, job: Job, outlook: Outlook) -> tuple[PolicyInput, Choice]:
        """What is known and what follows. A fault in one job's figures leaves that job alone, and no other."""
        try:
            known = self._known(job)
            job.standing = self._standing(job, known, outlook)
            if job.standing is not None:
                return job.standing.given, job.standing.choice
            return self._decide(job, known, outlook)
        except Exception as error:  # noqa: BLE001  whatever it is, it must not cost the other jobs their tick
            self._at_fault(job, error)
            job.standing = None
            fault = f"a fault in its figures ({type(error).__name__}: {error})"
            progress = job.progress(outlook.at)  # what was spent is known again after a restart
            given = PolicyInput(frontier=None, rules=job.rules, barred=fault, progress=progress)
            return given, policy.choose(given)

    def _under_cap(self, weighed: Mapping[str, tuple[PolicyInput, Choice]]) -> dict[str, tuple[PolicyInput, Choice]]:
        """What the node's power cap changes."""
        control = self.config.control
        if control.max_node_power_w is None:
            self._cap.over()
            return {}
        host_w = dict.fromkeys(self._regions, self.config.policy.host_power_w)
        try:
            host_w = {region: self._policy_of(region, {}).host_power_w for region in self._regions}
            groups = members(self.jobs, weighed, self._hardware.states, self._hardware.unable, host_w)
            return self._cap.keep(control.max_node_power_w, groups, control.interval_s)
        except Exception as error:  # noqa: BLE001  as above
            text = f"max_node_power_w cannot be worked out, jobs are kept low: {type(error).__name__}: {error}"
            self.events("node-cap-failed", "error", text, once=True)
            jobs, cap_w = list(self.jobs), control.max_node_power_w
            kept = self._cap.was_kept(cap_w, jobs)
            hardware = self._hardware
            return kept_low(cap_w, jobs, weighed, hardware.states, stuck=hardware.unable, host_w=host_w, stay=kept)

    @contextmanager
    def _alone_at_fault(self, job: Job) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  as above
            self._at_fault(job, error)

    def _at_fault(self, job: Job, error: Exception) -> None:
        text = f"{job.name}: {type(error).__name__}: {error}"
        self.events("job-failed", "error", text, job_id=job.id, once=True)

    def _standing(self, job: Job, known: Known, outlook: Outlook) -> Standing | None:
        """The last choice, if it still stands; what the node's power cap leaves of one depends on others."""
        if job.standing is None or job.joint or self.config.control.max_node_power_w is not None:
            return None
        basis, silent_s = self._basis(job, known, outlook), _SILENT_REPORTS * self.config.jobs.report_s
        now_s = self._clock.monotonic()
        return job.standing if job.standing.holds(basis, now_s=now_s, units=job.units_done, silent_s=silent_s) else None

    def _basis(self, job: Job, known: Known | PolicyInput, outlook: Outlook) -> Basis | None:
        if job.profiler is not None or known.note:
            return None
        return Basis.of(
            outlook,
            job.frontier,
            job.policy_config,
            total_units=job.total_units,
            hold=known.hold,
            barred=known.barred,
            in_force=job.in_force,
            pue=self._pue(job.region),
        )

    def _known(self, job: Job) -> Known:
        """What of a job may change at any tick."""
        barred = self._barred(job)
        known = job.frontier is not None and job.profiler is None
        why_not = "" if known else self._why_not_measure(job)
        note = "" if barred else self._book.seek(job, self._hardware.states, why_not=why_not)
        hold = self._holds.of(job)
        held = hold is not None and hold.mode != policy.EFFICIENCY
        if job.profiler is not None and (held or barred or why_not):
            job.profiler.interrupt("not free to measure")
        measure = job.profiler.wants if job.profiler is not None and not why_not else None
        job.pace.until(self._clock.monotonic())
        return Known(barred, note or _progress_note(job), hold.mode if hold else None, measure)

    def _decide(self, job: Job, known: Known | PolicyInput, outlook: Outlook) -> tuple[PolicyInput, Choice]:
        progress = job.progress(outlook.at)
        given = PolicyInput(
            frontier=job.frontier,
            rules=job.rules,
            grid=self._grid(job, outlook),
            max_power_w=sum(
                original_w(self._hardware.states[uuid]) for uuid in job.gpus if uuid in self._hardware.states
            ),
            current_mode=job.mode if job.mode in _CHOSEN else None,
            current=job.own,
            since_s=self._clock.monotonic() - job.changed_s,
            hold=known.hold,
            barred=known.barred,
            measure=known.measure,
            note=known.note,
            progress=progress,
            horizon=self._horizon(job, outlook, progress),
            host_w=job.policy_config.host_power_w,
            joint=job.joint,
            agreed=_agreed(job),
        )
        return given, policy.choose(given)

    def _horizon(self, job: Job, outlook: Outlook, progress: Progress) -> Horizon | None:
        """What a plan goes by: of the policies only one has a plan."""
        chosen = job.policy_config
        if chosen.name != "budget" or job.frontier is None:
            return None
        return horizon_of(
            outlook,
            self.prices[job.region].outlook() if job.region in self.prices else None,
            minimise=chosen.minimise,
            carbon_price_per_kg=chosen.carbon_price_per_kg,
            pue=self._pue(job.region),
            seconds=policy.allowance(job.rules, progress, job.frontier).seconds,
        )

    def _barred(self, job: Job) -> str:
        strangers = self.jobs.strangers(job)
        if strangers:
            return f"only processes of other users run on {', '.join(strangers)}"
        lost = [
            uuid
            for uuid in job.gpus
            if uuid not in self._hardware.states or not original_w(self._hardware.states[uuid])
        ]
        if lost:
            return f"GPU {', '.join(lost)} is not there or its power limit cannot be read"
        cut = [uuid for uuid in job.gpus if len(self.slices.get(uuid, ())) > 1]
        return f"GPU {', '.join(cut)} is cut into MIG instances, whose owners share its limit" if cut else ""

    def _alone(self, job: Job) -> bool:
        return all(len(self.jobs.on_gpu(uuid)) == 1 for uuid in job.gpus)

    def _why_not_measure(self, job: Job) -> str:
        if job.joint == policy.FOLLOWS:
            return "another node leads its ranks, and measures"
        if not self._alone(job):
            return "other jobs share its GPUs, and nobody can tell whose joules they are"
        control, reason = self.control
        if control != "control":
            return f"observe mode ({reason})"
        unable = [
            self._hardware.states[uuid].reason
            for uuid in job.gpus
            if uuid in self._hardware.states and not self._hardware.states[uuid].can_set
        ]
        if unable:
            return f"its limit cannot be set ({unable[0]})"
        return "its policy is off" if job.policy_config.name == "off" else ""

    def _grid(self, job: Job, outlook: Outlook) -> Grid:
        chosen, now = job.policy_config, outlook.now
        thresholds, past = self._thresholds[job.region], outlook.recent if chosen.name == "threshold" else ()
        reference_g = job.reference_g or chosen.max_intensity_g_per_kwh
        if reference_g is None and now is not None:
            day = [point.g_per_kwh for point in outlook.recent if outlook.at - point.start <= timedelta(hours=24)]
            reference_g = max([*day, now.g_per_kwh])
        if now is not None and now.kind.value in _OBSERVED:
            # Fixed for the job's life: a reference that moves would silently retune eta (papers A.7).
            job.reference_g = reference_g
        return Grid(
            g_per_kwh=now.g_per_kwh if now else None,
            kind=now.kind.value if now else "none",
            source=now.source if now else "",
            age_s=outlook.age_s,
            freshness=outlook.freshness,
            low_g_per_kwh=outlook.low,
            high_g_per_kwh=outlook.high,
            efficiency_above_g=thresholds.of(chosen.efficiency_above, past),  # None where nobody asks
            speed_below_g=thresholds.of(chosen.speed_below, past),
            reference_g=reference_g,
        )

    def _policy_of(self, region: str, wanted: Mapping[str, Any]) -> PolicyConfig:
        try:
            return job_policy(self.config, self._regions[region], wanted)
        except ChaseError as error:
            raise JobRefused(422, "bad-policy", str(error)) from error

    # -- apply --------------------------------------------------------------------------------------------------------

    def _apply(self, choices: Mapping[str, Choice]) -> dict[str, Applied]:
        settings = {job_id: choice.setting for job_id, choice in choices.items()}
        applied = self._hardware.apply(joint_wishes({job.id: job.gpus for job in self.jobs}, settings))
        self._hardware.give_back_but(uuid for job in self.jobs for uuid in job.gpus)
        return applied

    def _settle(self, job: Job, choice: Choice, applied: Mapping[str, Applied]) -> None:
        if (choice.own, choice.mode) != (job.own, job.mode):
            job.changed_s = self._clock.monotonic()
        job.setting, job.own, job.mode, job.reason = choice.setting, choice.own, choice.mode, choice.reason
        job.until_s = choice.until_s if job.standing is None else job.standing.left_s(self._clock.monotonic())
        job.in_force = self._in_force(job, applied)
        lowest_w = min(filter(None, self._hardware.limits_w(job.gpus, applied)), default=job.pace.at[0])
        job.pace.hold(self._clock.monotonic(), (lowest_w, job.batch_in_force))
        capped = choice.code in {policy.NODE_CAP, policy.AGREED}  # then it is not what the profiler wants
        self._book.refused(job, "" if capped else _why_not_in_force(job, choice, applied))

    def _in_force(self, job: Job, applied: Mapping[str, Applied]) -> Setting | None:
        """The one limit that all the job's GPUs were read back at, whoever wished for it, and the job's batch size;
        None if there is none.
        """
        if applied and not all(result.status in _EXACT for result in applied.values()):
            return None
        limits = set(self._hardware.limits_w(job.gpus, applied))
        limit_w = limits.pop() if len(limits) == 1 else None
        return None if limit_w is None else Setting(power_limit_w=limit_w, batch_size=job.batch_in_force)

    # -- record -------------------------------------------------------------------------------------------------------

    def _write_down(
        self, job: Job, given: PolicyInput, choice: Choice, applied: Mapping[str, Applied], outlook: Outlook
    ) -> None:
        self._settle(job, choice, applied)
        job.intensity_g = None if outlook.now is None else outlook.now.g_per_kwh
        self._record(job, given, choice, applied, outlook)
        self._ledger.post(job, outlook, self._rates(job.region), self.config.control.account_s)
        self._recurrences.watch(job, alone=self._alone(job))
        self._watch_progress(job)

    def _record(
        self, job: Job, given: PolicyInput, choice: Choice, applied: Mapping[str, Applied], outlook: Outlook
    ) -> None:
        if job.standing is not None:
            if not self._recorder.is_news(job, given, choice, applied):
                return
            # What is written down is how things are now, and a restart goes on from it.
            given, choice = self._as_now(job, given, choice, outlook)
        heartbeat_s = self.config.control.heartbeat_s
        self._recorder.record(job, given, choice, applied, control=self.control[0], heartbeat_s=heartbeat_s)
        job.standing = Standing.of(
            given,
            choice,
            self._basis(job, given, outlook),
            now_s=self._clock.monotonic(),
            units=job.units_done,
            until_s=job.recorded_s + heartbeat_s,
        )

    def _as_now(self, job: Job, given: PolicyInput, choice: Choice, outlook: Outlook) -> tuple[PolicyInput, Choice]:
        """The choice that stands, made anew; as it was where that comes out otherwise, which is the next tick's."""
        again, chosen = self._decide(job, given, outlook)
        return (again, chosen) if (chosen.setting, chosen.code) == (choice.setting, choice.code) else (given, choice)

    def _watch_progress(self, job: Job) -> None:
        """Full load without steps is a hang, and what it saves is no saving (rule G25)."""
        patience_s = max(_STALLED_S, _STALLED_REPORTS * self.config.jobs.report_s)
        if self._clock.monotonic() - job.moved_s < patience_s or job.units_done == 0:
            self.events.forget("no-progress", job_id=job.id)
        elif self._hardware.busy(job.gpus):
            text = f"{job.name} reports no progress for {patience_s:.0f} s at full GPU utilisation: it may hang"
            self.events("no-progress", "warning", text, job_id=job.id, once=True)

    def _rates(self, region: str) -> Rates:
        return Rates.of(self._regions[region], self.config.embodied, self.prices.get(region))

    def _pue(self, region: str) -> float:
        return self._regions[region].pue


def _agreed(job: Job) -> Setting | None:
    """Within what people permit on this node, whatever the ranks say."""
    if job.agreed_w is None:
        return None
    low_w, high_w = job.rules.min_power_limit_w or 0.0, job.rules.max_power_limit_w or math.inf
    return Setting(min(max(job.agreed_w, low_w), high_w), batch_size=job.batch_in_force)


def _progress_note(job: Job) -> str:
    if job.profiler is None:
        return ""
    done, total = job.profiler.progress
    return f"{done} of {total} windows"


def _why_not_in_force(job: Job, choice: Choice, applied: Mapping[str, Applied]) -> str:
    """Why the wish is not what is in force, though the GPU can be set; empty where it is."""
    blocked = next((result for result in applied.values() if result.status in _BLOCKED), None)
    if blocked is not None:
        return blocked.detail or blocked.status.value
    if choice.setting is None or job.in_force is None:
        return ""
    in_time = replace(job.in_force, batch_size=choice.setting.batch_size)  # a batch size changes at the job's own time
    if same_setting(in_time, choice.setting):
        return ""
    return f"{choice.setting} was asked for and {job.in_force} is in force"
