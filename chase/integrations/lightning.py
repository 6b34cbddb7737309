"""For the Trainer of Lightning:

    trainer = Trainer(..., callbacks=[ChaseCallback("resnet50", region="gb")])

It counts samples where the training loader has a batch size, and optimizer steps where it has none. With manual
optimization, where a batch may be several steps of several optimizers, a step is a batch. It logs ``chase/*`` through
the Trainer's loggers, at its logging steps.
"""

from __future__ import annotations

import contextlib
import logging
import math
import sys
from typing import TYPE_CHECKING, Any

from chase.integrations.loop import Samples, TrainerHooks, end_reason, quietly

try:
    # Two names of one library; a trainer of one is best met by a callback of the same.
    if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules and not TYPE_CHECKING:
        from pytorch_lightning.callbacks import Callback
    else:
        from lightning.pytorch.callbacks import Callback
except ImportError as error:
    raise ImportError("chase.integrations.lightning needs lightning: pip install lightning") from error


class ChaseCallback(TrainerHooks, Callback):  # type: ignore[misc,unused-ignore]  # without lightning it is Any
    """With a ``chase.client.Job``, or the name and arguments of one (``TrainingLoop``)."""

    @quietly
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        del pl_module
        self.loop.end("begun anew")  # one whose end was never told
        progress = trainer.fit_loop.epoch_loop.batch_progress
        self.loop.begin(
            step=_position(trainer),
            samples=_samples(trainer),
            last_step=_last(trainer),
            in_epoch=int(progress.current.processed) // _accumulation(trainer),
            local_rank=int(trainer.local_rank),
            level=logging.getLogger(Callback.__module__.removesuffix(".callbacks.callback")).getEffectiveLevel(),
        )

    @quietly
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """An epoch's first comes after all hooks that may have changed the batch size or the accumulation for it."""
        del pl_module, batch
        if batch_idx != 0:
            return
        self.loop.epoch(_position(trainer), _samples(trainer))
        job, size = self.job, _batch_size(trainer)
        if job is not None and job.own_batch_size is not None and size is not None:
            job.runs_at(size)

    @quietly
    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        del pl_module
        new = self.reached(_position(trainer))
        if new and trainer.loggers and trainer._logger_connector.should_update_logs:  # noqa: SLF001
            self._log(trainer)

    @quietly
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        del pl_module
        self.reached(_position(trainer))
        self.loop.end()

    @quietly
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        del pl_module
        try:
            self.loop.reached(_position(trainer))
        finally:
            self.loop.end(end_reason(exception))

    def _log(self, trainer: Any) -> None:
        """Straight to the loggers: ``log`` of the module would put each number on the device, and wait for it."""
        found = self.loop.scalars()
        for each in trainer.loggers:
            each.log_metrics(found, step=trainer.fit_loop.epoch_loop._batches_that_stepped)  # noqa: SLF001


def _position(trainer: Any) -> int:
    """Steps so far; with manual optimization batches, each counted once however many optimizers step in it."""
    if trainer.lightning_module.automatic_optimization:
        return int(trainer.global_step)
    return int(trainer.fit_loop.epoch_loop.batch_progress.total.processed)


def _last(trainer: Any) -> float | None:
    """The step after which training ends, as far as it is known."""
    if trainer.lightning_module.automatic_optimization:
        with contextlib.suppress(Exception):  # some versions refuse to say where accumulation changes
            last = float(trainer.estimated_stepping_batches)
            return last if last > 0 else None
        return None
    epochs, batches = trainer.max_epochs, trainer.num_training_batches
    known = epochs is not None and epochs > 0 and math.isfinite(batches) and trainer.max_steps == -1
    return float(epochs * batches) if known else None


def _accumulation(trainer: Any) -> int:
    return int(trainer.accumulate_grad_batches) if trainer.lightning_module.automatic_optimization else 1


def _batch_size(trainer: Any) -> int | None:
    """Of one rank and batch. None for a loader without one, as of several together."""
    loader = trainer.train_dataloader
    size = getattr(loader, "batch_size", None) or getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
    return size if isinstance(size, int) else None


def _samples(trainer: Any) -> Samples | None:
    size, rows = _batch_size(trainer), None
    if size is None:
        return None
    with contextlib.suppress(Exception):
        rows = len(trainer.train_dataloader.dataset)
    ranks = (trainer.distributed_sampler_kwargs or {}).get("num_replicas") or 1
    return Samples.of(size * int(ranks), _accumulation(trainer), trainer.num_training_batches, rows)
