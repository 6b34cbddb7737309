"""For the Trainer of Hugging Face's transformers:

    callback = ChaseCallback("bert-qa", region="gb")
    with callback.attach(trainer):
        trainer.train()

It counts samples, and knows how many there will be. ``attach`` puts it in front of the Trainer's own reporters, so
that they log ``chase/*`` with each loss; with ``Trainer(callbacks=[callback])`` only the progress bar shows them. The
Trainer tells no callback of an exception: with the block the job ends there, without it when the process does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sized
from typing import Any

from chase.integrations.loop import Samples, TrainerHooks, quietly

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError("chase.integrations.huggingface needs transformers: pip install transformers") from error


class ChaseCallback(TrainerHooks, TrainerCallback):  # type: ignore[misc,unused-ignore]  # without transformers it is Any
    """With a ``chase.client.Job``, or the name and arguments of one (``TrainingLoop``)."""

    def attach(self, trainer: Any) -> ChaseCallback:
        """Before all other callbacks of ``trainer``, which log what it adds; once, however often it is called."""
        callbacks = trainer.callback_handler.callbacks
        callbacks[:] = [self, *(each for each in callbacks if each is not self)]
        return self

    @quietly
    def on_train_begin(self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **_: Any) -> None:
        del control
        self.loop.end("begun anew")  # one whose end was never told
        samples = _samples(args, train_dataloader)
        # Resumed in an epoch, the Trainer leaves out what was used of it, or else begins it again.
        skipped = 0 if args.ignore_data_skip else state.global_step % (samples.epoch_steps or 1)
        self.loop.begin(
            step=state.global_step,
            samples=samples,
            last_step=state.max_steps or None,
            in_epoch=skipped,
            local_rank=args.local_process_index,
            level=args.get_process_log_level(),
        )

    @quietly
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        del args, control
        self.reached(state.global_step)

    @quietly
    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The last step of an epoch need not be told on its own."""
        del args, control
        self.reached(state.global_step)

    @quietly
    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Only with a loss: the others are what ``evaluate`` and ``train`` return to their caller."""
        del args, state, control
        if logs is not None and "loss" in logs:
            logs.update(self.loop.scalars())

    @quietly
    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        del args, control
        self.reached(state.global_step)
        self.loop.end()


def _samples(args: Any, loader: Any) -> Samples:
    rows = _length(getattr(loader, "dataset", None))
    microbatch = int(args.train_batch_size) * max(1, int(args.world_size))
    if rows is not None:  # then the loader knows better: a size found by trial, ranks that share a batch
        with contextlib.suppress(Exception):
            microbatch = int(loader.total_batch_size)
    return Samples.of(microbatch, int(args.gradient_accumulation_steps), _length(loader), rows)


def _length(sized: Sized | None) -> int | None:
    """None for what has none, which some tell only when they are asked."""
    try:
        return None if sized is None else len(sized)
    except Exception:  # noqa: BLE001
        return None
