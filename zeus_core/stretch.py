"""How much real training lies between two looks at a job's counters.

The counter of units moves in lumps, a step at a time, and is seen at each look only. So training is counted in *gaps*,
from one sighting of progress to the next, and a stretch must be long against what its edges can hide: a lump, or the
time between two looks, whichever is less.

A gap in which less was done than usual holds a stall: a hang, an evaluation, a checkpoint. It draws little power and
does none of the work (rule G25), so neither its time nor its energy is counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

RESOLUTION = 16.0  # a stretch is at least so many times what its edges can hide: 6 % at worst, 2.6 % of deviation
SLOW = 0.75  # a gap with less than this share of the usual work holds a stall;
LONG = 2.5  # so does a wait for one lump that takes so many usual gaps
STALL_S = 10.0  # and longer than this
OFTEN = 8  # one gap in so many: more than a stall now and then
GAPS = 3  # fewer tell nothing of the usual


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters at one moment: ``units`` and ``joules`` are cumulative, of the whole job."""

    at_s: float
    units: float
    joules: float = 0.0

    def follows(self, before: Sample | None) -> bool:
        """Finite, and nothing went backwards. A counter that restarted says nothing of the time between."""
        if not all(map(math.isfinite, (self.at_s, self.units, self.joules))):
            return False
        if before is None:
            return True
        return self.at_s >= before.at_s and self.units >= before.units and self.joules >= before.joules

    def as_of(self, reported_s: float | None, before: Sample | None) -> Sample:
        """This sample at ``reported_s``, when its units were true; the energy lies on the line from ``before``."""
        if reported_s is None or before is None or not before.at_s < reported_s < self.at_s:
            return self
        share = (reported_s - before.at_s) / (self.at_s - before.at_s)
        return replace(self, at_s=reported_s, joules=before.joules + share * (self.joules - before.joules))


@dataclass(frozen=True, slots=True)
class Gap:
    """From one sighting of progress to the next, or several of them together."""

    seconds: float
    units: float
    joules: float


class Stretch:
    """Training at one setting. ``last`` is the sample before the first that counts; with ``edge``, a sighting."""

    def __init__(self, last: Sample | None = None, *, edge: bool = False) -> None:
        self._last = last
        self._edge = last if edge else None
        self._gaps: list[Gap] = []
        self._looks = 0
        self._looked_s = 0.0
        self._idle = False  # whether a look since the edge saw no progress,
        self._idle_gaps = 0  # and in how many gaps one did
        self._training: Gap | None = None  # worked out, and nothing added since

    def add(self, sample: Sample) -> None:
        """Take in a sample that follows the last one."""
        last, self._last = self._last, sample
        if last is None:
            return
        self._training = None
        self._looks += 1
        self._looked_s += sample.at_s - last.at_s
        if sample.units == last.units:
            self._idle = True
            return
        edge, self._edge = self._edge, sample
        if edge is not None and sample.at_s > edge.at_s:
            gap = Gap(sample.at_s - edge.at_s, sample.units - edge.units, sample.joules - edge.joules)
            self._gaps.append(gap)
            self._idle_gaps += self._idle
        self._idle = False

    def training(self) -> Gap:
        """All usual gaps together."""
        if self._training is None:
            usual = self._usual()
            totals = (sum(g.seconds for g in usual), sum(g.units for g in usual), sum(g.joules for g in usual))
            self._training = Gap(*totals)
        return self._training

    def enough(self, seconds: float, units: float = 0.0) -> bool:
        """Whether there is that much training, in enough gaps and long enough for its edges."""
        if len(self._gaps) < GAPS:
            return False
        found = self.training()
        if found.seconds < seconds or found.units < units:
            return False
        lump_s = self._lump() * found.seconds / found.units
        return found.seconds >= RESOLUTION * min(lump_s, self._looked_s / self._looks)

    def _lump(self) -> float:
        """Units that come at once, as far as the gaps tell.

        Whole counts are multiples of it, so their common divisor is at least as large. Of fractions it is at most the
        least that was seen where looks often saw none, and taken for nothing where they saw some.
        """
        counts = [gap.units for gap in self._gaps]
        if all(count % 1 == 0 for count in counts):
            return float(math.gcd(*map(int, counts)))
        return min(counts) if OFTEN * self._idle_gaps > len(counts) else 0.0

    def _usual(self) -> list[Gap]:
        """The gaps without a stall. A stall only ever makes a gap longer and its rate lower: hence the quartiles.

        Each count may be off by a lump, the one that tells the usual rate and the one that is held against it, and a
        wait by a look.
        """
        if not self._gaps:
            return []
        quartile, lump = len(self._gaps) * 3 // 4, self._lump()
        rate = sorted((gap.units - lump) / gap.seconds for gap in self._gaps)[quartile]
        gap_s = sorted((gap.seconds for gap in self._gaps), reverse=True)[quartile]
        long_s = max(STALL_S, LONG * gap_s) + self._looked_s / self._looks
        return [
            gap
            for gap in self._gaps
            if gap.units + lump >= SLOW * rate * gap.seconds and (gap.units > 1.5 * lump or gap.seconds <= long_s)
        ]
