"""How much later than at full power a job is, by the settings it ran at: what has been spent of its allowed slowdown.

Notation:

    T_w     seconds per unit at a power limit of w watts, by the frontier; T_0 at its reference    [s]
    t_w     time at that limit since the job last said that it had got on                          [s]
    u       units that it then says it has done

Of the u units u (t_w / T_w) / sum(t / T) were done at w, and each of those is T_w - T_0 late. Whatever else holds a job
up, an evaluation, a slow disk, would hold it up at full power as well: of the time only its proportions count. Until
the job says something, though, all time counts as if it worked, t_w (1 - T_0 / T_w): one that says something every
hour has no hour for nothing. While no frontier is known the units are kept by their limits, and count once one is.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from chase.policy import Progress
from zeus_core.frontier import Frontier, Setting


@dataclass(slots=True)
class Pace:
    """``begun`` are the units when this service first saw the job, ``counted`` those up to which ``delay_s`` goes.

    ``now_s`` is the moment, on a monotonic clock, up to which time is counted, and ``limit_w`` the lowest limit of the
    job's GPUs since then, None before it is known. By limits: ``spent_s`` is t, and ``unpriced`` are units that no
    frontier was known for.
    """

    begun: float
    counted: float
    now_s: float = 0.0
    limit_w: float | None = None
    delay_s: float = 0.0
    spent_s: dict[float | None, float] = field(default_factory=dict)
    unpriced: dict[float | None, float] = field(default_factory=dict)

    def until(self, now_s: float) -> None:
        """Time has passed, at the limit that was in force."""
        self.spent_s[self.limit_w] = self.spent_s.get(self.limit_w, 0.0) + now_s - self.now_s
        self.now_s = now_s

    def hold(self, now_s: float, limit_w: float | None) -> None:
        """From now on it is at this limit."""
        self.until(now_s)
        self.limit_w = limit_w

    def advance(self, units_done: float, now_s: float, frontier: Frontier | None) -> None:
        """Count the units that were done since the last call."""
        self.until(now_s)
        units, self.counted = units_done - self.counted, max(self.counted, units_done)
        if units <= 0:
            return
        worked = {limit_w: t / _seconds(frontier, limit_w) for limit_w, t in self.spent_s.items()}
        total = sum(worked.values())
        shares = {limit_w: part / total for limit_w, part in worked.items()} if total > 0 else {self.limit_w: 1.0}
        for limit_w, share in shares.items():
            self.unpriced[limit_w] = self.unpriced.get(limit_w, 0.0) + share * units
        self.spent_s.clear()
        if frontier is not None:
            self.delay_s += self._owed_s(frontier)
            self.unpriced.clear()

    def _owed_s(self, frontier: Frontier) -> float:
        """What the units come to that no frontier was known for."""
        full_s = frontier.reference.seconds_per_unit
        return sum(units * (_seconds(frontier, w) - full_s) for w, units in self.unpriced.items())

    def delayed_s(self, frontier: Frontier | None) -> float:
        """So far, with the time in it of which nobody knows yet what it was good for."""
        if frontier is None:
            return self.delay_s
        full_s = frontier.reference.seconds_per_unit
        pending_s = sum(t * (1.0 - full_s / _seconds(frontier, limit_w)) for limit_w, t in self.spent_s.items())
        return self.delay_s + self._owed_s(frontier) + max(0.0, pending_s)

    def recall(self, then: Progress, setting: Setting | None, frontier: Frontier | None, most_s: float) -> None:
        """Go on from what was known at the last decision of an earlier run.

        The units since then were done at its ``setting``, for ``most_s`` at the most, since nobody decided for longer
        without writing it down, and after that at full power.
        """
        if then.units_before is None:
            return
        self.begun, self.delay_s = then.units_before, then.delay_s
        if frontier is None or setting is None or setting.power_limit_w is None:
            return
        unit_s, since = seconds_per_unit(frontier, setting.power_limit_w), self.counted - self.begun - then.units_done
        units = min(max(0.0, since), most_s / unit_s)
        self.delay_s += units * (unit_s - frontier.reference.seconds_per_unit)


def _seconds(frontier: Frontier | None, limit_w: float | None) -> float:
    """Where nothing is known of a limit it counts as the reference, and without a frontier all are alike."""
    if frontier is None:
        return 1.0
    return frontier.reference.seconds_per_unit if limit_w is None else seconds_per_unit(frontier, limit_w)


def seconds_per_unit(frontier: Frontier, power_limit_w: float) -> float:
    """At a limit: as measured, on a straight line between the measured ones, level beyond them."""
    known = frontier.times
    if not known:
        return frontier.reference.seconds_per_unit
    right = bisect_left(known, (power_limit_w,))
    if right == len(known) or known[right][0] == power_limit_w or right == 0:
        return known[min(right, len(known) - 1)][1]
    (low_w, slow_s), (high_w, fast_s) = known[right - 1], known[right]
    return slow_s + (power_limit_w - low_w) / (high_w - low_w) * (fast_s - slow_s)
