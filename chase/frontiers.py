"""Where a job's frontier comes from: a profile it names, an earlier measurement, or one made while it trains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from chase.clock import Clock
from chase.config import profile_path
from chase.config.models import PolicyConfig, ProfileConfig
from chase.errors import ConfigError
from chase.events import EventLog
from chase.jobs import Job
from chase.store import Store
from zeus_core.actuation.base import GpuState
from zeus_core.frontier import Frontier, OperatingPoint, Setting, Window
from zeus_core.gpus.base import PowerLimits
from zeus_core.gpus.simulated import GpuProfile, load_profile
from zeus_core.profiler import DriftWatch, plan_sweep
from zeus_core.sweeps import Sweeps

_PATIENCE = 3  # ticks
_BY_CLOCK = " by SM clock"
_SLOWEST = 0.5
_TRY_AGAIN_S = 3600.0  # what bound the limits may be gone by then


class FrontierBook:
    """Gives each job its frontier, or a profiler that measures it; keeps what was measured for the next run."""

    def __init__(
        self,
        config: ProfileConfig,
        store: Store,
        clock: Clock,
        events: EventLog,
        profiles: Mapping[str, GpuProfile] | None = None,
    ) -> None:
        self.config = config
        self._profiles = dict(profiles or {})  # beside the shipped ones
        self._store = store
        self._clock = clock
        self._events = events

    def seek(self, job: Job, states: Mapping[str, GpuState], *, why_not: str) -> str:
        """Give the job a frontier or a profiler if one can be had; otherwise the reason why not.

        ``why_not`` says why nothing can be measured now, empty if it can.
        """
        _follow(job)
        if job.frontier is not None or job.profiler is not None:
            return ""
        if self._clock.monotonic() < job.unmeasurable_until_s:
            return job.unmeasurable
        found = live_limits(job, states)
        if found is None:
            return "the power limits of its GPUs cannot be read"
        live, job.bounds = within(found, job.policy_config), _bounds(job.policy_config)
        if job.profile is not None:
            return self._from_profile(job, live)
        return "" if self._stored(job, states) else self._begin(job, live, states, why_not=why_not)

    def _begin(self, job: Job, live: PowerLimits, states: Mapping[str, GpuState], *, why_not: str) -> str:
        if live.headroom < self.config.min_headroom:
            return f"no headroom: the limit can only move within {live.min_w:g} to {live.default_w:g} W"
        if why_not:
            return f"its frontier cannot be measured: {why_not}; name a published one with --profile"
        self._measure(job, live, states)
        return ""

    def observed(self, job: Job, at_s: float, reported_s: float | None = None) -> None:
        """Hand a report, which came at ``reported_s``, to the profiler or to the drift watch.

        Call it right after the energy was read.
        """
        if job.profiler is not None:
            window = job.profiler.observe(at_s, job.units_done, job.energy_j, job.in_force, reported_s=reported_s)
            if window is not None:
                self._keep(job, job.profiler, window)
        elif job.drift is not None and job.drift.observe(at_s, job.units_done, job.in_force, reported_s=reported_s):
            self._drifted(job)

    def _drifted(self, job: Job) -> None:
        """What was booked against a frontier that does not hold is taken back."""
        text = f"{job.name} runs off its frontier ({job.frontier_source}) by more than {self.config.drift:.0%}"
        if job.adopted_at is not None:
            self._store.forget_references(job.id, job.adopted_at)
        if job.profile is not None:
            self._events("drift", "warning", f"{text}: no saving is booked against it", job_id=job.id)
            return
        self._events("drift", "warning", f"{text}: measuring it again", job_id=job.id)
        job.frontier, job.drift, job.frontier_source = None, None, "re-measure"

    def refused(self, job: Job, why: str) -> None:
        """The limit that the profiler wants was not put in force; after a few times it is left out of the sweep."""
        if job.profiler is None:
            return
        job.refusals = job.refusals + 1 if why else 0
        if job.refusals >= _PATIENCE:
            job.refusals = 0
            job.profiler.skip(why)
            self._finish(job, job.profiler)

    def impossible(self, job: Job, batch_size: int) -> None:
        """The job cannot run at a batch size that it named: what was known of it is of no use."""
        text = f"{job.name} cannot run at batch {batch_size}: it is left out"
        self._events("batch-size-out", "warning", text, job_id=job.id)
        if job.profiler is not None:
            job.profiler.leave_out(batch_size, text)
            self._finish(job, job.profiler)
        if job.frontier is not None and batch_size in job.frontier.batch_sizes:
            self._adopt(job, job.frontier.without(batch_size), job.frontier_source)

    def key(self, job: Job, states: Mapping[str, GpuState]) -> str:
        """What makes two runs alike: their owner, the GPUs and original limits, the job's name and its unit.

        And its own batch size where it may have others, and that of the whole training where it recurs; and what people
        allow, where that is less than the GPUs do: what was measured within it is not all there is.
        """
        gpus = sorted(f"{states[uuid].name}@{original_w(states[uuid]):g}W" for uuid in job.gpus)
        found = live_limits(job, states)
        allowed = within(found, job.policy_config) if found is not None else None
        kept = [f"{allowed.min_w:g} to {allowed.max_w:g} W"] if allowed is not None and allowed != found else []
        batch = [] if job.batch_size is None else [f"batch {job.batch_size}"]
        trained = [] if job.global_batch is None else [f"trained at batch {job.global_batch}"]
        return "|".join([f"uid {job.uid}", *gpus, job.name, job.units, *batch, *trained, *kept])

    def _from_profile(self, job: Job, live: PowerLimits) -> str:
        assert job.profile is not None  # noqa: S101  the caller has looked
        try:
            profile = self._profiles.get(job.profile) or load_profile(profile_path(job.profile))
            frontier = frontier_of_profile(profile, gpus=len(job.gpus), batch_size=job.batch_size).capped(
                live.default_w
            )
        except (ConfigError, ValueError) as error:
            return f"profile {job.profile} cannot be used: {error}"
        self._adopt(job, frontier, f"profile {job.profile}")
        return ""

    def _stored(self, job: Job, states: Mapping[str, GpuState]) -> bool:
        if job.frontier_source == "re-measure":
            return False
        frontier = self._store.load_frontier(self.key(job, states), self._oldest())
        if frontier is None or not {*job.batch_sizes} <= {*frontier.batch_sizes}:
            return False
        for size in {*frontier.batch_sizes} - {*job.batch_sizes}:
            frontier = frontier.without(size)
        self._adopt(job, frontier, "measured before")
        return True

    def _measure(self, job: Job, live: PowerLimits, states: Mapping[str, GpuState]) -> None:
        plan = plan_sweep(
            live,
            live.default_w,
            points=self.config.points,
            window_s=self.config.window_s,
            visits=self.config.visits,
            min_headroom=self.config.min_headroom,
            max_slowdown=_slowest_measured(job.policy_config),
        )
        job.frontier_key = self.key(job, states)
        windows = self._store.open_windows(job.frontier_key, self._oldest())
        plan = replace(plan, reference=replace(plan.reference, batch_size=job.batch_size))
        job.profiler = Sweeps(plan, len(job.gpus), windows, batch_sizes=job.batch_sizes)
        self._finish(job, job.profiler)

    def _keep(self, job: Job, profiler: Sweeps, window: Window) -> None:
        self._store.add_windows(job.frontier_key, [window], job_id=job.id, at=self._clock.now())
        self._finish(job, profiler)

    def _finish(self, job: Job, profiler: Sweeps) -> None:
        """Adopt and keep the frontier once there is nothing left to measure."""
        if not profiler.done:
            return
        job.profiler = None
        try:
            frontier = profiler.frontier()
        except ValueError as error:
            job.unmeasurable = f"its frontier cannot be measured: {error} ({profiler.note})"
            job.unmeasurable_until_s = self._clock.monotonic() + _TRY_AGAIN_S
            return
        self._store.save_frontier(job.frontier_key, frontier, self._clock.now())
        self._adopt(job, frontier, "measured")
        text = f"frontier of {job.name} measured: {len(frontier.points)} points, {len(frontier.hull)} on the hull"
        self._events("frontier-measured", "info", text, job_id=job.id)

    def _oldest(self) -> datetime:
        return self._clock.now() - timedelta(days=self.config.max_age_d)

    def _adopt(self, job: Job, frontier: Frontier, source: str) -> None:
        job.frontier, job.adopted_at = frontier, self._clock.now()
        job.frontier_source = source if job.by_clock is None else f"{source.removesuffix(_BY_CLOCK)}{_BY_CLOCK}"
        job.drift = DriftWatch(frontier, tolerance=self.config.drift, after_s=self.config.drift_s)


def _slowest_measured(chosen: PolicyConfig) -> float | None:
    """A budget of the whole job has a use for settings that are slower than it, but not for ever slower ones."""
    if chosen.name != "budget":
        return chosen.max_slowdown
    return max(_SLOWEST, chosen.max_slowdown or 0.0)


def original_w(state: GpuState) -> float:
    """The limit that was found, whether or not ours is in force now; 0 where it cannot be read."""
    return state.original_w if state.original_w is not None else state.power_limit_w or 0.0


def live_limits(job: Job, states: Mapping[str, GpuState]) -> PowerLimits | None:
    """What all the job's GPUs allow: one limit goes to each of them. ``default_w`` is the lowest original."""
    known = [states[uuid] for uuid in job.gpus if uuid in states]
    if len(known) < len(job.gpus) or any(state.min_w is None or not original_w(state) for state in known):
        return None
    lowest = max(state.min_w or 0.0 for state in known)
    top = min(original_w(state) for state in known)
    return PowerLimits(min(lowest, top), top, top)


def within(live: PowerLimits, chosen: PolicyConfig) -> PowerLimits:
    """What people allow of ``live``: their ceiling stands for the original limit. Bounds outside end there."""
    low, high = _bounds(chosen)
    top = live.max_w if high is None else live.clamp(high)
    return PowerLimits(live.min_w if low is None else min(live.clamp(low), top), top, top)


def _bounds(chosen: PolicyConfig) -> tuple[float | None, float | None]:
    return chosen.min_power_limit_w, chosen.max_power_limit_w


def _follow(job: Job) -> None:
    """People changed what they allow: a sweep begins anew, and a frontier is sought anew if there may be more to it."""
    (old_low, old_high), (low, high) = job.bounds, _bounds(job.policy_config)
    lower = old_low is not None and (low is None or low < old_low)
    higher = old_high is not None and (high is None or high > old_high)
    if lower or higher:
        job.frontier = job.drift = None
        job.frontier_source = ""
    if job.bounds != (low, high):
        job.profiler, job.unmeasurable_until_s = None, -math.inf


def frontier_of_profile(profile: GpuProfile, *, gpus: int, batch_size: int | None = None) -> Frontier:
    """A published curve of one GPU, for ``gpus`` in data parallel: units come ``gpus`` times as fast, joules stay.

    ``batch_size`` is that of the job, where it may have others: a published curve knows of none.
    """
    return Frontier.of(
        OperatingPoint(
            Setting(power_limit_w=point.power_limit_w, batch_size=batch_size),
            point.seconds_per_unit / gpus,
            point.seconds_per_unit * point.watts,
        )
        for point in profile.points
    )
