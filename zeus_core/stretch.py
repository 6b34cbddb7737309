"""How much real training lies between two ticks of a counter.

A job's counter of units moves in lumps: a step may take longer than a tick. So training is counted from one sighting
of progress to another, never between. A gap far beyond the usual one is a stall: a hang draws little power and does no
work (rule G25), and neither its time nor its energy is counted.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

LUMPS_STEADY = 3  # times that progress must be seen where every tick sees some
LUMPS_COARSE = 8  # and where some tick sees none: an edge may then be off by a whole tick
STALL_S = 30.0  # a longer gap without progress is a stall,
STALL_GAPS = 4.0  # unless it is shorter than so many of the job's usual ones
GAPS_KEPT = 9


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters at one moment: ``units`` and ``joules`` are cumulative, of the whole job."""

    at_s: float
    units: float
    joules: float

    def follows(self, before: Sample | None) -> bool:
        """Finite, and nothing went backwards. A counter that restarted says nothing of the time between."""
        if not all(map(math.isfinite, (self.at_s, self.units, self.joules))):
            return False
        if before is None:
            return True
        return self.at_s >= before.at_s and self.units >= before.units and self.joules >= before.joules


class Stretch:
    """Real training at one setting. ``last`` is the sample before the first that counts; with ``edge``, a sighting."""

    def __init__(self, last: Sample | None = None, *, edge: bool = False) -> None:
        self.seconds = self.units = self.joules = 0.0
        self._last = last
        self._edge = last if edge else None
        self._seen = 0
        self._coarse = False
        self._gaps: deque[float] = deque(maxlen=GAPS_KEPT)

    def add(self, sample: Sample) -> None:
        """Take in a sample that follows the last one."""
        moved = self._last is not None and sample.units > self._last.units
        self._last = sample
        if not moved:
            self._coarse = self._coarse or self._edge is not None
            return
        if self._edge is not None:
            self._count(self._edge, sample)
        self._edge = sample

    def enough(self, seconds: float, units: float = 0.0) -> bool:
        """Whether there is that much of it, in lumps small enough to trust the edges."""
        lumps = LUMPS_COARSE if self._coarse else LUMPS_STEADY
        return self.seconds >= seconds and self.units >= units and self._seen >= lumps

    def _count(self, edge: Sample, sample: Sample) -> None:
        gap_s = sample.at_s - edge.at_s
        stalled = gap_s > max(STALL_S, STALL_GAPS * self._usual_s())
        self._gaps.append(gap_s)
        if stalled or not gap_s:
            return
        self.seconds += gap_s
        self.units += sample.units - edge.units
        self.joules += sample.joules - edge.joules
        self._seen += 1

    def _usual_s(self) -> float:
        """Median of the last gaps, so that neither one stall nor one odd tick moves it; 0 where nothing is known."""
        return sorted(self._gaps)[(len(self._gaps) - 1) // 2] if self._gaps else 0.0
