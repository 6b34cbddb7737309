"""For the Trainer of Lightning:

    trainer = Trainer(..., callbacks=[ChaseCallback("resnet50", region="gb")])

It counts samples where the training loader has a batch size, and optimizer steps where it has none. It logs ``chase/*``
through the module's own ``log``, at the Trainer's logging steps. A module with several optimizers counts the steps of
all of them, as Lightning does.
"""

from __future__ import annotations

from typing import Any

from chase.integrations.loop import TrainingLoop

try:
    from lightning.pytorch.callbacks import Callback
except ImportError as error:
    raise ImportError("chase.integrations.lightning needs lightning: pip install lightning") from error


class ChaseCallback(Callback):  # type: ignore[misc,unused-ignore]  # without lightning it is Any
    """``name`` and ``arguments`` as for ``chase.client.Job``."""

    def __init__(self, name: str, **arguments: Any) -> None:
        super().__init__()
        self.loop = TrainingLoop(name, **arguments)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        del pl_module
        self.loop.end("begun anew")  # one whose end was never told
        last = trainer.estimated_stepping_batches
        self.loop.begin(step=trainer.global_step, samples=_samples(trainer), last_step=last if last > 0 else None)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        self.loop.reached(trainer.global_step)
        if self.loop.runs:
            pl_module.log_dict(self.loop.scalars(), on_step=True, on_epoch=False, batch_size=1)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        del pl_module
        self.loop.reached(trainer.global_step)
        self.loop.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        del pl_module
        self.loop.reached(trainer.global_step)
        self.loop.end("interrupted" if isinstance(exception, KeyboardInterrupt) else _failed(exception))


def _failed(exception: BaseException) -> str:
    """The type alone: its text may hold what is nobody's business."""
    return f"failed: {type(exception).__name__}"


def _samples(trainer: Any) -> int | None:
    """Of one optimizer step, on all ranks."""
    size = getattr(trainer.train_dataloader, "batch_size", None)
    if not isinstance(size, int):
        return None
    return size * int(trainer.accumulate_grad_batches) * int(trainer.world_size)
