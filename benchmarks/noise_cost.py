"""What measuring the noise scale adds to the steps of a small convolutional network.

    python benchmarks/noise_cost.py [STEPS]

Steps with and without it alternate, so that whatever else the machine does falls on both; the median of each counts.
"""

from __future__ import annotations

import statistics
import sys
import time

import torch
from torch import nn

from zeus_core.training.noise_scale import GradientNoise

COUNT, SIZE = 4, 16


def network() -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def main() -> int:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    inputs, labels = torch.randn(SIZE, 3, 16, 16), torch.arange(SIZE) % 10

    def seconds(noise: GradientNoise | None) -> float:
        began = time.perf_counter()
        for _ in range(COUNT):
            (nn.functional.cross_entropy(model(inputs), labels) / COUNT).backward()
            if noise is not None:
                noise.micro(SIZE, 1 / COUNT)
        if noise is not None:
            noise.step()
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - began

    took: dict[str, list[float]] = {"without": [], "not measured": [], "measured": []}
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 200):
        noise = GradientNoise(model.parameters(), every=2)
        took["measured"].append(seconds(noise))
        took["not measured"].append(seconds(noise))
        noise.remove()
        took["without"].append(seconds(None))
    for name, each in took.items():
        print(f"{name:14s} {statistics.median(each) * 1e3:8.3f} ms a step")
    return 0


if __name__ == "__main__":
    sys.exit(main())
