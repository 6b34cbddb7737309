"""Measuring the frontier of a job while it trains, and noticing later that it no longer holds.

State machines over cumulative counters, fed at every control tick: no thread, no I/O and no clock of their own.
Profiling is training: no work is done twice, some of it is only done slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from zeus_core.frontier import Frontier, OperatingPoint, Setting, Window
from zeus_core.gpus.base import PowerLimits
from zeus_core.stretch import Gap, Sample, Stretch

SAME_LIMIT_W = 0.5  # drivers round a limit; closer than this is the same one
MIN_STEP_W = 5.0  # nearer limits differ by less than the noise
WORSE = 1.01  # a rise in energy. Limits above the draw measure flat: +0.01 %, +0.03 %, +2.4 % (A40, ShuffleNet)
RISES = 3  # so many in a row end the descent
IMPOSSIBLE = 1.5  # mean power above this share of the limits is a broken counter (rule G14)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What to measure: ``limits`` in watts, falling, the first of them being that of ``reference``.

    A window holds at least ``window_s`` seconds of training, ``min_units`` units and a few sightings of progress, and
    begins ``settle_s`` after its setting came in force. Each limit gets ``visits`` windows. ``max_slowdown`` (0.2:
    twenty per cent) is how slow the owner lets the job be: the descent stops at the first limit beyond it.
    """

    limits: tuple[float, ...]
    reference: Setting
    window_s: float = 30.0
    min_units: float = 0.0
    visits: int = 2
    settle_s: float = 5.0
    max_slowdown: float | None = None

    def __post_init__(self) -> None:
        if not self.limits or self.limits[0] != self.reference.power_limit_w:
            raise ValueError(f"limits must begin at the reference ({self.reference}), not {self.limits!r}")
        if any(high - low <= SAME_LIMIT_W for high, low in pairwise(self.limits)) or not self.limits[-1] > 0:
            raise ValueError(f"limits must be positive and fall by more than {SAME_LIMIT_W} W, not {self.limits!r}")
        if not (self.window_s > 0 and self.min_units >= 0 and self.settle_s >= 0 and self.visits >= 1):
            raise ValueError("a window needs seconds, and a limit a visit")

    def setting(self, limit_w: float) -> Setting:
        """``limit_w`` with all other levers as in the reference."""
        return replace(self.reference, power_limit_w=limit_w)


def plan_sweep(
    limits: PowerLimits,
    original_w: float,
    points: int = 10,
    *,
    window_s: float = 30.0,
    min_units: float = 0.0,
    visits: int = 2,
    min_headroom: float = 0.1,
    max_slowdown: float | None = None,
) -> SweepPlan:
    """From the original limit down to the live minimum: up to ``points`` limits, evenly, between the ends whole watts.

    Only the original where less than ``min_headroom`` of the default limit could be taken away. An original outside
    the live constraints cannot be set (rule G7): the nearest limit that can stands for it.
    """
    if points < 1:
        raise ValueError(f"a sweep needs at least 1 point, not {points}")
    top = limits.clamp(original_w)
    room = top - limits.min_w
    steps = min(points - 1, int(room // MIN_STEP_W)) if room >= min_headroom * limits.default_w else 0
    inner = [float(round(top - room * step / steps)) for step in range(1, steps)]
    ends = [limits.min_w] if steps else []
    return SweepPlan(
        limits=(top, *inner, *ends),
        reference=Setting(power_limit_w=top),
        window_s=window_s,
        min_units=min_units,
        visits=visits,
        max_slowdown=max_slowdown,
    )


class Profiler:
    """Says which setting it wants, is told what happened, and gives the frontier.

    The first pass goes down, the next one up again over the same limits, so that each limit's visits lie around the
    same middle and a slow drift of the job cancels. What comes next depends on the finished windows alone: a profiler
    made from stored ``windows`` goes on where theirs stopped.

    ``gpus`` is how many GPUs the joules are summed over.
    """

    def __init__(self, plan: SweepPlan, gpus: int = 1, windows: Sequence[Window] = ()) -> None:
        settings = {plan.setting(limit) for limit in plan.limits}
        self.plan = plan
        self._gpus = gpus
        self._windows = [window for window in windows if window.setting in settings]
        self._out_of_reach: set[float] = set()
        self._note = ""
        self._next = self._target()
        self._stretch = Stretch()
        self._last: Sample | None = None  # the last tick,
        self._sample: Sample | None = None  # and as of when its units were reported
        self._since_s: float | None = None  # when the wanted setting was first seen in force

    @property
    def wants(self) -> Setting:
        """The setting to put in force now; the reference once there is nothing left to measure."""
        return self.plan.setting(self.plan.limits[0] if self._next is None else self._next)

    @property
    def done(self) -> bool:
        return self._next is None

    @property
    def note(self) -> str:
        """What it is waiting for, for people."""
        return self._note

    @property
    def windows(self) -> tuple[Window, ...]:
        """All finished windows, those it was resumed from included, in the order they were measured."""
        return tuple(self._windows)

    @property
    def progress(self) -> tuple[int, int]:
        """Windows finished, and needed as far as can be told: an early end of the descent makes the latter fall."""
        needed = self._needed()
        finished = sum(min(len(self._at(limit)), visits) for limit, visits in needed.items())
        return finished, sum(needed.values())

    def frontier(self) -> Frontier:
        """Fitted to what was measured so far. Raises ``ValueError`` while the reference was not."""
        return Frontier.fit(self._windows, self.plan.reference)

    def observe(
        self,
        at_s: float,
        units_done: float,
        energy_j: float,
        setting_in_force: Setting | None,
        *,
        reported_s: float | None = None,
    ) -> Window | None:
        """One tick: counters at ``at_s``, and the setting read back from all the job's GPUs.

        ``reported_s`` is when the job said ``units_done``, where that was earlier. Without it a window is as unsure as
        the age of the report. Returns a window when one was finished; ``wants`` may be another setting from then on.
        """
        tick = Sample(at_s, units_done, energy_j)
        if self.done or not self._in_order(tick, setting_in_force):
            return None
        self._take(tick.as_of(reported_s, self._last))
        self._last = tick
        if not self._stretch.enough(self.plan.window_s, self.plan.min_units):
            return None
        return self._finish(self._stretch.training())

    def interrupt(self, reason: str) -> None:
        """Drop the open window: what was measured since it began may not be the job at that setting."""
        self._stretch = Stretch()
        self._last = self._since_s = None
        self._note = reason

    def skip(self, reason: str) -> None:
        """Leave the wanted limit out: it cannot be had (somebody's lower limit binds, the driver refuses).

        Without the reference there is nothing to compare with, so skipping it ends the profile.
        """
        if self._next is not None:
            self._out_of_reach.add(self._next)
        self._next = self._target()
        self.interrupt(reason)

    def _in_order(self, tick: Sample, setting_in_force: Setting | None) -> bool:
        """Whether the tick belongs to the open window, which it drops otherwise."""
        if not same_setting(setting_in_force, self.wants):
            self.interrupt(f"waiting for {self.wants} to be in force")
            return False
        if not tick.follows(self._last):
            self.interrupt("a counter went backwards or is not a number")
            return False
        return True

    def _take(self, sample: Sample) -> None:
        self._since_s = sample.at_s if self._since_s is None else self._since_s
        if sample.at_s - self._since_s < self.plan.settle_s:
            self._stretch = Stretch(sample)
        else:
            self._stretch.add(sample)
        self._sample = sample
        seconds = self._stretch.training().seconds
        self._note = f"{seconds:.0f} s of at least {self.plan.window_s:.0f} s at {self.wants}"

    def _finish(self, found: Gap) -> Window | None:
        wanted, power_w = self.wants, found.joules / found.seconds
        if not 0.0 < power_w <= IMPOSSIBLE * self._gpus * self.plan.limits[0]:
            self.interrupt(f"{power_w:.0f} W on average cannot be true")
            return None
        window = Window(wanted, found.units, found.seconds, found.joules)
        self._windows.append(window)
        self._next = self._target()
        if self.wants == wanted:  # in force and settled already
            self._stretch = Stretch(self._sample, edge=True)
        else:
            self.interrupt(f"waiting for {self.wants} to be in force")
        return window

    def _at(self, limit_w: float) -> list[Window]:
        setting = self.plan.setting(limit_w)
        return [window for window in self._windows if window.setting == setting]

    def _target(self) -> float | None:
        """The limit to measure next: the least visited, down in one pass and up in the next."""
        needed = self._needed()
        for visit in range(self.plan.visits):
            order = list(needed) if visit % 2 == 0 else list(reversed(needed))
            for limit in order:
                if len(self._at(limit)) <= visit < needed[limit]:
                    return limit
        return None

    def _needed(self) -> dict[float, int]:
        """Visits for each limit within reach, in falling order, down to where the descent ends.

        A limit too slow for the owner gets no second visit. Decided by first visits alone, so that it stays decided.
        """
        if self.plan.limits[0] in self._out_of_reach:
            return {}
        reach = [limit for limit in self.plan.limits if limit not in self._out_of_reach]
        first: list[Window] = []
        for limit in reach:
            visits = self._at(limit)
            if not visits:
                break
            first.append(visits[0])
            if _too_slow(first, self.plan.max_slowdown):
                return dict.fromkeys(reach[: len(first) - 1], self.plan.visits) | {limit: 1}
            if _worsened(first):
                return dict.fromkeys(reach[: len(first)], self.plan.visits)
        return dict.fromkeys(reach, self.plan.visits)


class DriftWatch:
    """Tells once that a job no longer runs at the rate its frontier says, so that it should be measured again.

    All settings should be, the reference too: windows from before and after a drift do not belong in one frontier.
    A point is off when its rate is off by ``tolerance`` (and by twice the spread that the point was measured with), in
    the same direction, for ``after_s`` seconds of training at that setting on end. Stalls and pauses do not count.
    """

    def __init__(self, frontier: Frontier, tolerance: float = 0.05, after_s: float = 600.0) -> None:
        self._points = frontier.points
        self._tolerance = tolerance
        self._after_s = after_s
        self._slice_s = after_s / 10.0
        self._runs: dict[Setting, tuple[int, float]] = {}  # faster 1, as measured 0, slower -1; seconds of it
        self._told = False
        self._agreed = False
        self._point: OperatingPoint | None = None
        self._at: Setting | None = None  # the setting that was found to be that point's
        self._last: Sample | None = None
        self._stretch = Stretch()

    @property
    def agreed(self) -> bool:
        """Whether some stretch of training ran at the rate that the frontier says, and no drift was told since."""
        return self._agreed and not self._told

    def observe(
        self,
        at_s: float,
        units_done: float,
        setting_in_force: Setting | None,
        *,
        reported_s: float | None = None,
    ) -> bool:
        """One tick, as for the profiler; True the one time that the drift is certain."""
        tick = Sample(at_s, units_done)
        point = self._point_of(setting_in_force)
        if point is not self._point or not tick.follows(self._last):
            self._point, self._last, self._stretch = point, None, Stretch()
        if point is None or self._told or not tick.follows(None):
            return False
        sample, self._last = tick.as_of(reported_s, self._last), tick
        self._stretch.add(sample)
        if self._stretch.enough(self._slice_s):
            self._told = self._judge(point, self._stretch.training())
            self._stretch = Stretch(sample, edge=True)
        return self._told

    def _point_of(self, setting: Setting | None) -> OperatingPoint | None:
        if setting is None or setting is not self._at:
            self._at = setting
            return next((point for point in self._points if same_setting(setting, point.setting)), None)
        return self._point

    def _judge(self, point: OperatingPoint, found: Gap) -> bool:
        excess = found.units / found.seconds * point.seconds_per_unit - 1.0
        within = abs(excess) <= max(self._tolerance, 2.0 * point.spread)
        side = 0 if within else 1 if excess > 0 else -1
        self._agreed = self._agreed or within
        before, seconds = self._runs.get(point.setting, (side, 0.0))
        # The first slice of a new run may be half of what was before it, so it does not count yet.
        self._runs[point.setting] = side, seconds + found.seconds if side == before else 0.0
        return side != 0 and self._runs[point.setting][1] >= self._after_s


def same_setting(found: Setting | None, wanted: Setting) -> bool:
    """Whether ``found`` is ``wanted``, up to the rounding of a power limit by the driver."""
    if found is None or found == wanted:
        return found is not None
    if found.power_limit_w is None or wanted.power_limit_w is None:
        return False
    near = abs(found.power_limit_w - wanted.power_limit_w) <= SAME_LIMIT_W
    return near and replace(found, power_limit_w=wanted.power_limit_w) == wanted


def _worsened(first: Sequence[Window]) -> bool:
    """Whether energy per unit has risen ``RISES`` times in a row, going down."""
    energy = [window.joules / window.units for window in first[-RISES - 1 :]]
    return len(energy) > RISES and all(after > WORSE * before for before, after in pairwise(energy))


def _too_slow(first: Sequence[Window], max_slowdown: float | None) -> bool:
    """Whether the lowest limit so far takes longer than the owner lets it."""
    times = [window.seconds / window.units for window in first]
    return max_slowdown is not None and times[-1] > (1.0 + max_slowdown) * times[0]
