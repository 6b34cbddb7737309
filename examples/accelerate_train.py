"""A small training with Hugging Face's Accelerate that counts its samples. Needs torch and accelerate.

chase exec -- accelerate launch --cpu examples/accelerate_train.py

Each rank runs the same lines; only the first of a node talks to the service. A step is one of the optimizer, which with
accumulation is one in several batches.
"""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from chase.client import Job

SAMPLES, BATCH, EPOCHS = 2_000, 32, 3


def main() -> None:
    torch.manual_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=2)
    x = torch.randn(SAMPLES, 8)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=BATCH, shuffle=True)
    model = nn.Linear(8, 1)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2), loader)
    with Job("accelerate-linear", units="samples", total_units=EPOCHS * SAMPLES) as job:
        for _ in range(EPOCHS):
            for inputs, targets in loader:
                with accelerator.accumulate(model):
                    loss = nn.functional.mse_loss(model(inputs), targets)
                    accelerator.backward(loss)
                    optimizer.step()
                    optimizer.zero_grad()
                job.step(len(inputs) * accelerator.num_processes)
        accelerator.print(f"loss {loss.item():.4f}, {job.units_done:.0f} samples, {job.mode}")


if __name__ == "__main__":
    main()
