"""A choice that stands: while nothing but time has passed, and the job gets on as it was planned, none is made anew.

A plan says what to do until its first slot is over, or until the moment within it at which its setting changes. To make
it again before that, of the same prices, frontier and wishes, gives the same choice but for rounding, and costs more
than all the rest of a tick. So a choice is kept, with the inputs that it was made of, until there is news of the grid,
of the job or of its owner's wishes, until its time is over or it is to be written down again, or until the job has done
more or less than it should have at its setting.

Notation:

    t       time since the choice was made                                          [s]
    u       units done since then
    T       seconds per unit at the limit in force, by the frontier                 [s]
    e       how long a job may go without a report                                  [s]

The job gets on as planned while |u T - t| <= e + 2 % of t. Nobody is at fault below that: it is within what a report
and the frontier's own error come to, and is counted at the next plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from chase.config import PolicyConfig
from chase.outlook import Outlook
from chase.pace import seconds_per_unit
from chase.policy import Choice, PolicyInput
from zeus_core.frontier import Frontier, Setting

_OFF_BY = 0.02


@dataclass(frozen=True, slots=True)
class Basis:
    """All that a choice rests on besides time and progress. Equal ones give the same choice."""

    edition: object
    frontier: Frontier
    wishes: PolicyConfig
    total_units: float | None
    hold: str | None
    barred: str
    in_force: Setting | None
    pue: float

    @classmethod
    def of(
        cls,
        outlook: Outlook,
        frontier: Frontier | None,
        wishes: PolicyConfig,
        *,
        total_units: float | None,
        hold: str | None,
        barred: str,
        in_force: Setting | None,
        pue: float,
    ) -> Basis | None:
        """None where there is more to it than this says: no plan, or one of a market's prices as well."""
        if frontier is None or wishes.name != "budget" or wishes.minimise != "carbon" or outlook.edition is None:
            return None
        return cls(outlook.edition, frontier, wishes, total_units, hold, barred, in_force, pue)


@dataclass(frozen=True, slots=True)
class Standing:
    """A choice, made at ``made_s`` when the job had done ``units``; it is meant to hold for ``lasts_s`` at the most."""

    given: PolicyInput
    choice: Choice
    basis: Basis
    made_s: float
    units: float
    lasts_s: float
    seconds_per_unit: float

    @classmethod
    def of(
        cls, given: PolicyInput, choice: Choice, basis: Basis | None, *, now_s: float, units: float, until_s: float
    ) -> Standing | None:
        """``until_s`` is when it is to be written down again. None where the choice was not made on such a basis."""
        if basis is None or given.horizon is None or given.capped is not None:
            return None
        in_force = basis.in_force or basis.frontier.reference.setting
        pace_s = seconds_per_unit(basis.frontier, (in_force.power_limit_w, in_force.batch_size))
        own_s = math.inf if choice.until_s is None else choice.until_s
        lasts_s = min(float(given.horizon.seconds[0]), own_s, until_s - now_s)
        return cls(given, choice, basis, now_s, units, lasts_s, pace_s)

    def holds(self, basis: Basis | None, *, now_s: float, units: float, silent_s: float) -> bool:
        """Whether it still does; a job may be silent for ``silent_s``."""
        passed_s = now_s - self.made_s
        if not passed_s < self.lasts_s or basis is None:
            return False
        off_s = abs((units - self.units) * self.seconds_per_unit - passed_s)
        return off_s <= silent_s + _OFF_BY * passed_s and basis == self.basis

    def left_s(self, now_s: float) -> float | None:
        """Of the time that the choice gave itself."""
        return None if self.choice.until_s is None else max(0.0, self.choice.until_s - (now_s - self.made_s))
