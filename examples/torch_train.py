"""A real, small PyTorch training on the CPU that counts its samples. Needs the extra ``torch``.

chase exec -- python examples/torch_train.py

The client is three lines: the ``with``, the ``step``, and, for who wants to see it, the setting.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from chase.client import Job


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--batch-size", type=int, default=64)
    return parser.parse_args()


def rings(samples: int) -> TensorDataset:
    """Points in the plane, labelled by whether they lie between two circles: not separable by a line."""
    inner, outer = 0.7, 1.6
    points = torch.randn(samples, 2)
    radius = points.norm(dim=1)
    return TensorDataset(points, ((radius > inner) & (radius < outer)).long())


def main() -> None:
    options = parse()
    torch.manual_seed(0)
    loader = DataLoader(rings(options.samples), batch_size=options.batch_size, shuffle=True)
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss_of = nn.CrossEntropyLoss()
    with Job("rings", units="samples", total_units=options.epochs * options.samples) as job:
        for epoch in range(options.epochs):
            total = 0.0
            for points, labels in loader:
                optimizer.zero_grad()
                loss = loss_of(model(points), labels)
                loss.backward()
                optimizer.step()
                total += loss.item() * len(points)
                job.step(len(points))
            print(f"epoch {epoch} loss {total / options.samples:.4f} {job.mode} {job.setting}", flush=True)


if __name__ == "__main__":
    main()
