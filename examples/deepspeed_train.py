"""A small training with DeepSpeed that counts its samples. Needs torch and deepspeed, and was never run by our tests.

chase exec -- deepspeed examples/deepspeed_train.py

DeepSpeed's engine steps once in ``gradient_accumulation_steps`` calls of ``step``; what is counted are samples, so that
does not matter here. Only the first rank of a node talks to the service.
"""

from __future__ import annotations

import deepspeed
import torch
from torch import nn

from chase.client import Job

SAMPLES, EPOCHS = 20_000, 3
CONFIG = {
    "train_micro_batch_size_per_gpu": 32,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}},
}


def main() -> None:
    x = torch.randn(SAMPLES, 8)
    rows = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    model = nn.Linear(8, 1)
    engine, _, loader, _ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), training_data=rows, config=CONFIG
    )
    with Job("deepspeed-linear", units="samples", total_units=EPOCHS * SAMPLES) as job:
        for _ in range(EPOCHS):
            left = SAMPLES
            for inputs, targets in loader:
                loss = nn.functional.mse_loss(engine(inputs.to(engine.device)), targets.to(engine.device))
                engine.backward(loss)
                engine.step()
                # Of all ranks that share the data, without what fills up the last batch.
                seen = min(len(inputs) * engine.dp_world_size, left)
                left -= seen
                job.step(seen)


if __name__ == "__main__":
    main()
