"""A small training with Hugging Face's Accelerate that counts its samples. Needs torch and accelerate.

chase exec -- accelerate launch --cpu examples/accelerate_train.py

Each rank runs the same lines; only the first of a node talks to the service. What is counted are samples, so that it
does not matter that a step of the optimizer is one in several batches.
"""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from chase.client import Job
from chase.integrations.loop import scalars

SAMPLES, BATCH, EPOCHS = 2_000, 32, 3


def main() -> None:
    torch.manual_seed(0)
    accelerator = Accelerator(
        gradient_accumulation_steps=2
    )  # with log_with=..., its trackers chart what is logged below
    x = torch.randn(SAMPLES, 8)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=BATCH, shuffle=True)
    model = nn.Linear(8, 1)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2), loader)
    with Job("accelerate-linear", units="samples", total_units=EPOCHS * SAMPLES) as job:
        for epoch in range(EPOCHS):
            left = SAMPLES
            for inputs, targets in loader:
                with accelerator.accumulate(model):
                    loss = nn.functional.mse_loss(model(inputs), targets)
                    accelerator.backward(loss)
                    optimizer.step()
                    optimizer.zero_grad()
                # Of all ranks; the last batch is filled up with samples that have been there.
                seen = min(len(inputs) * accelerator.num_processes, left)
                left -= seen
                job.step(seen)
            accelerator.log(scalars(job), step=epoch)
        accelerator.print(f"loss {loss.item():.4f}, {job.units_done:.0f} samples, {job.mode}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
