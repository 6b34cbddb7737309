"""A job over a trainer's hooks, which may come twice, unpaired, or not at all.

What is counted follows from the trainer's own step number, and not from how often a hook was called: a step whose end
was never told counts with the next one, and a hook that comes twice counts nothing. A step is an optimizer step:

    B    samples in a full step, of all ranks together: microbatch x accumulation x ranks that share the data
    S    steps in an epoch
    E    samples in an epoch; its last step has what the others left, so (S - 1) B < E <= S B

After s steps there were floor(s / S) E + min((s mod S) B, E) samples. Training that is resumed at a step goes on from
there: what was done before is not this run's.
"""

from __future__ import annotations

import atexit
import functools
import logging
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self

from chase.client import Job
from chase.client.counter import MOST
from zeus_core.setting import Setting

if TYPE_CHECKING:
    from chase.integrations.torch import SharedLimit

logger = logging.getLogger("chase.client")

P = ParamSpec("P")

# How `chase/mode` is told where only numbers are.
MODES = {"speed-first": 0.0, "between": 0.5, "efficiency-first": 1.0}
_UNITS = ("samples", "steps")


@dataclass(frozen=True, slots=True)
class Samples:
    """B, S and E of the module's notation. Without S and E each step is a full one."""

    batch: int
    epoch_steps: int | None = None
    epoch_samples: int = 0

    def after(self, steps: int) -> int:
        if self.epoch_steps is None:
            return steps * self.batch
        epochs, rest = divmod(steps, self.epoch_steps)
        return epochs * self.epoch_samples + min(rest * self.batch, self.epoch_samples)

    @classmethod
    def of(cls, microbatch: int, accumulation: int, batches: float | None, rows: int | None) -> Samples:
        """Of a loader of so many ``batches`` an epoch, over ``rows``; ``microbatch`` is that of all ranks together.

        ``rows`` count where they are what the batches hold: not so where a sampler draws some of them, or some twice.
        """
        full = microbatch * accumulation
        if not batches or not math.isfinite(batches):
            return cls(full)
        most = int(batches) * microbatch
        epoch = rows if rows is not None and most - microbatch < rows <= most else most
        return cls(full, math.ceil(batches / accumulation), epoch)


_STEPS, _NOTHING = Samples(1), Samples(0)


class TrainingLoop:
    """``job`` is a ``Job``, or the name of one that is made when a training begins, with these ``arguments`` of its.

    A ``Job`` remains the caller's: it is begun where it has not been, and never ended. Of one that is made here the
    trainer knows the units (samples, or steps if they are wanted) and their total. One with ``joint`` shares its limit
    with the other nodes, in each step that is ``reached`` (``chase.integrations.torch.SharedLimit``).

    Raises ``ValueError`` or ``TypeError`` for what means nothing, before the training begins; after that nothing here
    raises.
    """

    def __init__(self, job: Job | str, **arguments: Any) -> None:
        self._given = job if isinstance(job, Job) else None
        if self._given is not None and arguments:
            raise TypeError(f"a Job has its arguments already: leave out {', '.join(arguments)}")
        if "recurring" in arguments:
            raise TypeError(
                "a trainer's loader is there before its callback: make the Job yourself, the loader with its "
                "batch_size, and give the callback that Job (docs/recurrences.md)"
            )
        self._arguments = arguments
        said: Job = self._given if self._given is not None else Job(job, **arguments)  # type: ignore[arg-type]
        self._name = said.name
        self._units = said.units if self._given is not None else arguments.get("units")
        if self._units not in {None, *_UNITS}:
            raise ValueError(
                f"units must be one of {_UNITS}, which is what a trainer tells, not {self._units!r}; "
                "count other units in the training itself, with chase.client.Job alone"
            )
        self._samples = _STEPS
        self._origin = self._step = 0
        self._level: _Level | None = None
        self._old_error = 0
        self._troubles: set[str] = set()
        self._shared: SharedLimit | None = None
        self.job: Job | None = None

    @property
    def runs(self) -> bool:
        return self.job is not None

    def begin(
        self,
        *,
        step: int,
        samples: Samples | None,
        last_step: float | None,
        in_epoch: int = 0,
        local_rank: int = 0,
        level: int = logging.NOTSET,
    ) -> None:
        """At ``step`` of ``last_step``, which may be infinite or None; ``in_epoch`` of them are of this epoch.

        ``samples`` None is not known: then steps are counted. ``local_rank`` is the trainer's, which may have told
        nobody else, and ``level`` is the least that it logs. Where one runs already, a hook came twice.
        """
        if self.runs:
            return
        self._origin, self._step = step - in_epoch, step
        self._samples = self._counted(samples)
        self._old_error = id(getattr(sys, "last_value", None))  # not the error itself, whose frames hold tensors
        self.job = self._given or self._made(last_step, local_rank)
        self._level = _Level.onto(logger, level)
        self.job.start()
        atexit.register(self._left)
        if self.job.joint is not None:
            self._shared = _shared_limit(self.job, local_rank)

    def epoch(self, step: int, samples: Samples | None) -> None:
        """One begins at ``step``, and its steps may be of another size from now on."""
        self.reached(step)
        self._origin, self._samples = self._step, self._recounted(samples)

    def reached(self, step: int) -> bool:
        """The trainer's step number, at any time. Whether it is a new one."""
        if self.job is None or step <= self._step:
            return False
        done = self._after(step) - self._after(self._step)
        self._step = step
        if done > 0:
            self.job.step(done)
        if self._shared is not None:
            self._shared.step()
        return True

    def end(self, reason: str = "done") -> None:
        """Once, or as often as the trainer likes; a training that begins after that is another job."""
        if self.job is None:
            return
        atexit.unregister(self._left)
        if self._given is None:
            self.job.close(reason)
        if self._level is not None:
            logger.removeFilter(self._level)
        self.job = self._shared = None

    def scalars(self) -> dict[str, float]:
        """For the trainer's own logger; empty while there is no job."""
        return {} if self.job is None else scalars(self.job)

    def trouble(self, where: str) -> None:
        """An exception of ours. Told once for each hook."""
        again = where in self._troubles
        self._troubles.add(where)
        text = "%s went wrong; the training goes on without it"
        logger.log(logging.DEBUG if again else logging.WARNING, text, where, exc_info=True)

    def _after(self, step: int) -> int:
        return self._samples.after(step - self._origin)

    def _counted(self, samples: Samples | None) -> Samples:
        if self._units == "steps":
            return _STEPS
        if samples is None and self._units == "samples":
            counted = "nothing is counted" if self._given else "steps are counted"
            logger.warning("the trainer does not tell how many samples a step has: %s", counted)
            return _NOTHING if self._given else _STEPS
        return samples or _STEPS

    def _recounted(self, samples: Samples | None) -> Samples:
        """In the unit that was begun with."""
        fixed = self._samples is _STEPS or self._samples is _NOTHING
        return self._samples if samples is None or fixed else samples

    def _made(self, last_step: float | None, local_rank: int) -> Job:
        units = "steps" if self._samples is _STEPS else "samples"
        env = {**(self._arguments.get("env") or os.environ), "LOCAL_RANK": str(local_rank)}
        said = {"total_units": self._total(last_step), **self._arguments, "units": units, "env": env}
        return Job(self._name, **said)

    def _total(self, last_step: float | None) -> float | None:
        if last_step is None or not math.isfinite(last_step):
            return None
        total = self._after(int(last_step)) - self._after(self._step)
        return total if 0 < total <= MOST else None

    def _left(self) -> None:
        """The interpreter exits, and of an end the trainer has told nothing."""
        error = getattr(sys, "last_value", None)
        new = isinstance(error, BaseException) and id(error) != self._old_error
        self.end(end_reason(error) if new else "left without an end")


class TrainerHooks:
    """What a trainer's callback has, whichever trainer's. Also a context manager, which ends the job with its block."""

    def __init__(self, job: Job | str, **arguments: Any) -> None:
        super().__init__()
        self.loop = TrainingLoop(job, **arguments)
        self._wanted = Setting()

    @property
    def job(self) -> Job | None:
        """While a training runs."""
        return self.loop.job

    def on_advice(self, setting: Setting) -> None:
        """The service wants something else than before. In the training's thread, after a step, on local rank 0.

        Does nothing: for a subclass that can change its batch size.
        """

    def reached(self, step: int) -> bool:
        new, job = self.loop.reached(step), self.loop.job
        if new and job is not None and job.setting != self._wanted:
            self._wanted = job.setting
            self.on_advice(self._wanted)
        return new

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.loop.end(end_reason(error))


def quietly(hook: Callable[P, None]) -> Callable[P, None]:
    """A method of ``TrainerHooks`` that never raises: what is wrong with it is told, and the training goes on."""

    @functools.wraps(hook)
    def safe(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            hook(*args, **kwargs)
        except Exception:  # noqa: BLE001  a trainer of another version, a logger without its server
            hooks = args[0]
            if isinstance(hooks, TrainerHooks):
                hooks.loop.trouble(hook.__qualname__)

    return safe


def scalars(job: Job) -> dict[str, float]:
    """What is worth a chart: also for loops that log by themselves."""
    setting = job.setting
    found = {"chase/units_done": job.units_done, "chase/connected": float(job.connected)}
    if setting.power_limit_w is not None:
        found["chase/power_limit_w"] = setting.power_limit_w
    if setting.batch_size is not None:
        found["chase/batch_size"] = float(setting.batch_size)
    if job.intensity_g_per_kwh is not None:
        found["chase/intensity_g_per_kwh"] = job.intensity_g_per_kwh
    if job.mode in MODES:
        found["chase/mode"] = MODES[job.mode]
    return found


def _shared_limit(job: Job, local_rank: int) -> SharedLimit | None:
    """Of the ranks of a joint job. None where they are not to be found, which is told."""
    from chase.integrations.torch import SharedLimit
    from zeus_core.training.agreement import Agreement

    try:
        return SharedLimit(job, Agreement.of_job(), local_rank=local_rank)
    except (RuntimeError, ValueError) as error:
        logger.warning("the job is joint, and its ranks cannot be found (%s): no limit is set", error)
        return None


def end_reason(error: BaseException | None) -> str:
    """The error's type alone: its text may hold what is nobody's business."""
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return "done"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else f"failed: {type(error).__name__}"


class _Level(logging.Filter):
    """Says no more than the trainer does on this rank, while it trains."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= self._level

    @classmethod
    def onto(cls, ours: logging.Logger, level: int) -> _Level | None:
        """None where somebody has set a level for us: that goes before."""
        if not level or ours.level or logging.getLogger("chase").level:
            return None
        found = cls(level)
        ours.addFilter(found)
        return found
