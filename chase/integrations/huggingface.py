"""For the Trainer of Hugging Face's transformers:

    callback = ChaseCallback("bert-qa", region="gb")
    trainer = Trainer(..., callbacks=[callback])
    trainer.train()

It counts samples, and knows how many there will be. ``callback.attach(trainer)`` instead of ``callbacks=`` puts it in
front of the Trainer's own reporters, so that they log ``chase/*`` as well; otherwise only the progress bar shows them.
The Trainer tells no callback of an exception: then the job ends when the process does.
"""

from __future__ import annotations

from typing import Any

from chase.integrations.loop import TrainingLoop

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError("chase.integrations.huggingface needs transformers: pip install transformers") from error


class ChaseCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]  # without transformers it is Any
    """``name`` and ``arguments`` as for ``chase.client.Job``."""

    def __init__(self, name: str, **arguments: Any) -> None:
        self.loop = TrainingLoop(name, **arguments)

    def attach(self, trainer: Any) -> ChaseCallback:
        """Before all other callbacks of ``trainer``, which log what it adds."""
        trainer.callback_handler.callbacks.insert(0, self)
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        del control
        self.loop.end("begun anew")  # one whose end was never told
        samples = args.train_batch_size * args.gradient_accumulation_steps * max(1, args.world_size)
        self.loop.begin(step=state.global_step, samples=samples, last_step=state.max_steps or None)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        del args, control
        self.loop.reached(state.global_step)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The last step of an epoch need not be told on its own."""
        del args, control
        self.loop.reached(state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        del args, state, control
        if logs is not None:
            logs.update(self.loop.scalars())

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        del args, control
        self.loop.reached(state.global_step)
        self.loop.end()
