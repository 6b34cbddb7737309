"""How much later than at full power a job is, by the settings it ran at: what has been spent of its allowed slowdown.

Notation:

    T_w     seconds per unit at a place w, which is a power limit and a batch size, by the frontier    [s]
    T_0     the same at its reference                                                                  [s]
    t_w     time at that place since the job last said that it had got on                              [s]
    u       units that it then says it has done

Of the u units u (t_w / T_w) / sum(t / T) were done at w, and each of those is T_w - T_0 late. Whatever else holds a job
up, an evaluation, a slow disk, would hold it up at full power as well: of the time only its proportions count. Until
the job says something, though, all time counts as if it worked, t_w (1 - T_0 / T_w): one that says something every
hour has no hour for nothing. While no frontier is known the units are kept by their places, and count once one is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from chase.policy import Progress
from zeus_core.frontier import Frontier, Setting

Place = tuple[float | None, int | None]  # the lowest power limit in watts of the job's GPUs, and its batch size
NOWHERE: Place = (None, None)


@dataclass(slots=True)
class Pace:
    """``begun`` are the units when this service first saw the job, ``counted`` those up to which ``delay_s`` goes.

    ``now_s`` is the moment, on a monotonic clock, up to which time is counted, and ``at`` where the job has been since
    then. By places: ``spent_s`` is t, and ``unpriced`` are units that no frontier was known for.
    """

    begun: float
    counted: float
    now_s: float = 0.0
    at: Place = NOWHERE
    delay_s: float = 0.0
    spent_s: dict[Place, float] = field(default_factory=dict)
    unpriced: dict[Place, float] = field(default_factory=dict)

    def until(self, now_s: float) -> None:
        """Time has passed, where it was."""
        self.spent_s[self.at] = self.spent_s.get(self.at, 0.0) + now_s - self.now_s
        self.now_s = now_s

    def hold(self, now_s: float, at: Place) -> None:
        """From now on it is there."""
        self.until(now_s)
        self.at = at

    def advance(self, units_done: float, now_s: float, frontier: Frontier | None) -> None:
        """Count the units that were done since the last call."""
        self.until(now_s)
        units, self.counted = units_done - self.counted, max(self.counted, units_done)
        if units <= 0:
            return
        worked = {at: t / seconds_per_unit(frontier, at) for at, t in self.spent_s.items()}
        total = sum(worked.values())
        shares = {at: part / total for at, part in worked.items()} if total > 0 else {self.at: 1.0}
        for at, share in shares.items():
            self.unpriced[at] = self.unpriced.get(at, 0.0) + share * units
        self.spent_s.clear()
        if frontier is not None:
            self.delay_s += self._owed_s(frontier)
            self.unpriced.clear()

    def _owed_s(self, frontier: Frontier) -> float:
        """What the units come to that no frontier was known for."""
        full_s = frontier.reference.seconds_per_unit
        return sum(units * (seconds_per_unit(frontier, at) - full_s) for at, units in self.unpriced.items())

    def delayed_s(self, frontier: Frontier | None) -> float:
        """So far, with the time in it of which nobody knows yet what it was good for."""
        if frontier is None:
            return self.delay_s
        full_s = frontier.reference.seconds_per_unit
        pending_s = sum(t * (1.0 - full_s / seconds_per_unit(frontier, at)) for at, t in self.spent_s.items())
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
        unit_s = frontier.seconds_at(setting.power_limit_w, setting.batch_size)
        since = self.counted - self.begun - then.units_done
        units = min(max(0.0, since), most_s / unit_s)
        self.delay_s += units * (unit_s - frontier.reference.seconds_per_unit)


def seconds_per_unit(frontier: Frontier | None, at: Place) -> float:
    """Where nothing is known of a limit it counts as the reference, and without a frontier all are alike."""
    if frontier is None:
        return 1.0
    limit_w, batch_size = at
    return frontier.reference.seconds_per_unit if limit_w is None else frontier.seconds_at(limit_w, batch_size)
