"""What a run is measured by, in closed form: no controller, no clock, the true intensities.

Notation:

    U       units of the job                                                            [units]
    t_0     its start; c(t) intensity * PUE / 3.6e6                                     [g/J]
    r, P    rate and power of a point of the frontier, the host's power in P            [units/s], [W]

full power       P_0 * integral of c over U / r_0 seconds, its own and shorter time
fixed            E*(U, S) * mean of c over the time that it takes: one setting, or a constant mix of two neighbours on
                 the hull, in S seconds at the most (``chase.accounting``). A run's timing is by how much it emits less.
optimum          ``zeus_core.budget`` with the true prices up to the time allowed: nobody who keeps to that emits less
suspend-resume   the same with two levels only, full power and a pause that draws ``paused_w``
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from chase.accounting import best_fixed, hosted
from chase.pricing import J_PER_KWH, grams_of
from chase.replay.trace import Trace
from zeus_core.budget import Levels, Slots, solve
from zeus_core.frontier import Frontier, OperatingPoint


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a whole job."""

    seconds: float
    energy_j: float
    grams: float
    peak_w: float
    switches: int = 0


@dataclass(frozen=True, slots=True)
class Reference:
    """The job of ``units`` on a frontier, on a grid; ``host_w`` counts as long as it runs."""

    trace: Trace
    frontier: Frontier
    start: datetime
    units: float
    pue: float = 1.0
    host_w: float = 0.0

    def at(self, point: OperatingPoint) -> Cost:
        """All of it at one setting."""
        seconds, power_w = self.units * point.seconds_per_unit, point.power_w + self.host_w
        return Cost(seconds, power_w * seconds, self.grams(power_w, seconds), power_w)

    def full(self) -> Cost:
        return self.at(self.frontier.reference)

    def fixed(self, seconds: float) -> Cost:
        """The best fixed setting that takes no longer."""
        found = best_fixed(hosted(self.frontier, self.host_w), self.units, seconds)
        return Cost(found.seconds, found.energy_j, self.grams(found.power_w, found.seconds), found.power_w)

    def optimum(self, seconds: float) -> Cost:
        """Of all ways to do it within so many seconds the one of least grams."""
        return self._planned(Levels.of(self.frontier.points, host_w=self.host_w), seconds)

    def suspend_resume(self, seconds: float, paused_w: float) -> Cost:
        """Full power in the cleanest time, and a pause, host included, in the rest."""
        levels = Levels.of([self.frontier.reference], host_w=self.host_w, paused_w=paused_w + self.host_w)
        return self._planned(levels, seconds)

    def grams(self, power_w: float, seconds: float) -> float:
        """At one power from the start on."""
        return grams_of(power_w * seconds, self.trace.mean(self.start, seconds), self.pue) if seconds > 0 else 0.0

    def _planned(self, levels: Levels, seconds: float) -> Cost:
        length, g_per_kwh = self.trace.pieces(self.start, seconds)
        slots = Slots(length, g_per_kwh * self.pue / J_PER_KWH, len(length))
        plan = solve(levels, slots, self.units)
        peak_w = float((plan.energy_j[plan.seconds > 0] / plan.seconds[plan.seconds > 0]).max())
        return Cost(float(plan.seconds.sum()), float(plan.energy_j.sum()), plan.cost, peak_w)
