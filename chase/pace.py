"""How much later than at full power a job is, by the settings it ran at: what has been spent of its allowed slowdown.

A unit done at a setting took T of that setting where full power would have taken T_0, and is T - T_0 late, by the
frontier. Whatever else holds a job up, an evaluation, a slow disk, would hold it up at full power as well and is not
counted. While no frontier is known yet, the time of the reports between which work was done is; it is settled against
the reference once there is one.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from zeus_core.frontier import Frontier, Setting


@dataclass(slots=True)
class Pace:
    """``begun`` are the units when this service first saw the job, ``counted`` those up to which ``delay_s`` goes."""

    begun: float
    counted: float
    delay_s: float = 0.0
    blind_s: float = 0.0
    blind_units: float = 0.0

    def advance(self, units_done: float, elapsed_s: float, in_force: Setting | None, frontier: Frontier | None) -> None:
        """Count the units since the last call, done within ``elapsed_s`` at the limit ``in_force``."""
        units, self.counted = units_done - self.counted, max(self.counted, units_done)
        if units <= 0:
            return
        if frontier is None:
            self.blind_s, self.blind_units = self.blind_s + elapsed_s, self.blind_units + units
            return
        reference_s = frontier.reference.seconds_per_unit
        if self.blind_units:
            self.delay_s += max(0.0, self.blind_s - self.blind_units * reference_s)
            self.blind_s = self.blind_units = 0.0
        if in_force is not None and in_force.power_limit_w is not None:
            self.delay_s += units * (seconds_per_unit(frontier, in_force.power_limit_w) - reference_s)


def seconds_per_unit(frontier: Frontier, power_limit_w: float) -> float:
    """At a limit: as measured, on a straight line between the measured ones, level beyond them."""
    known = sorted(
        (point.setting.power_limit_w, point.seconds_per_unit)
        for point in frontier.points
        if point.setting.power_limit_w is not None
    )
    if not known:
        return frontier.reference.seconds_per_unit
    right = bisect_left(known, (power_limit_w,))
    if right == len(known) or known[right][0] == power_limit_w or right == 0:
        return known[min(right, len(known) - 1)][1]
    (low_w, slow_s), (high_w, fast_s) = known[right - 1], known[right]
    return slow_s + (power_limit_w - low_w) / (high_w - low_w) * (fast_s - slow_s)
