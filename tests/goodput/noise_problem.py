"""Linear regression in PyTorch, of which the noise scale is known: see test_goodput_noise_scale.py."""

from __future__ import annotations

import torch
from torch import nn

D, KNOWN = 20, 41.0  # d + 1 + d sigma^2 / |delta|^2, with a sigma and a |delta| of 1


def model_at(delta: float = 1.0) -> nn.Linear:
    """At a distance of ``delta`` from the best weights, which are all zero."""
    model = nn.Linear(D, 1, bias=False)
    with torch.no_grad():
        model.weight.zero_()
        model.weight[0, 0] = delta
    return model


def loss_of(model, samples, generator):
    """The mean of as many new ones."""
    x = torch.randn(samples, D, generator=generator)
    return 0.5 * (model(x) - torch.randn(samples, 1, generator=generator)).square().mean()
