"""A job over a trainer's hooks, which may come twice, unpaired, or not at all.

What is counted is the trainer's own step number, and not how often a hook was called: a step whose end was never told
counts with the next one, and a hook that comes twice counts nothing. A step is an optimizer step, of so many samples.
Training that is resumed at a step goes on from there: what was done before is not this run's.
"""

from __future__ import annotations

import logging
import math
from typing import Any

from chase.client import Job

logger = logging.getLogger("chase.client")

# How `chase/mode` is told where only numbers are.
MODES = {"speed-first": 0.0, "between": 0.5, "efficiency-first": 1.0}


class TrainingLoop:
    """``arguments`` are those of ``chase.client.Job``, but for what the trainer knows: units and their total.

    Nothing here raises into the training.
    """

    def __init__(self, name: str, **arguments: Any) -> None:
        self._name, self._arguments = name, arguments
        self._step = 0
        self._samples = 1
        self.job: Job | None = None
        Job(name, **arguments)  # what means nothing is told now, and not when the training begins

    @property
    def runs(self) -> bool:
        return self.job is not None

    def begin(self, *, step: int, samples: int | None, last_step: float | None) -> None:
        """At ``step`` of ``last_step``, which may be infinite or None; ``samples`` of a step, None where not known.

        Where one runs already, a hook came twice: what is known by now is not asked again.
        """
        if self.runs:
            return
        self._step, self._samples = step, samples or 1
        known = last_step is not None and math.isfinite(last_step) and last_step > step
        total = (last_step - step) * self._samples if known and last_step is not None else None
        said = {"units": "samples" if samples else "steps", "total_units": total, **self._arguments}
        self.job = Job(self._name, **said).start()

    def reached(self, step: int) -> None:
        """The trainer's step number, at any time."""
        if self.job is None or step <= self._step:
            return
        self.job.step((step - self._step) * self._samples)
        self._step = step

    def end(self, reason: str = "done") -> None:
        """Once, or as often as the trainer likes; a training that begins after that is another job."""
        if self.job is not None:
            self.job.close(reason)
            self.job = None

    def scalars(self) -> dict[str, float]:
        """For the trainer's own logger; empty while there is no job."""
        job = self.job
        if job is None:
            return {}
        found = {"chase/units_done": job.units_done, "chase/connected": float(job.connected)}
        if job.setting.power_limit_w is not None:
            found["chase/power_limit_w"] = job.setting.power_limit_w
        if job.mode in MODES:
            found["chase/mode"] = MODES[job.mode]
        return found
