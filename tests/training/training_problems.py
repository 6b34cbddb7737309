"""Small real models and data that the tests of the training side share."""

from __future__ import annotations

from contextlib import contextmanager

import torch
from torch import nn
from torch.utils.data import TensorDataset

from zeus_core.training.sampling import Order


@contextmanager
def one_thread():
    """Sums in one order, and no fight for the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Images(nn.Sequential):
    """A small convolutional network on 8 x 8 images of three kinds."""

    def __init__(self, seed=0):
        torch.manual_seed(seed)
        super().__init__(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3))

    @staticmethod
    def dataset(length):
        generator = torch.Generator().manual_seed(1)
        inputs = torch.randn(length, 1, 8, 8, generator=generator)
        stripes = torch.stack([torch.zeros(8, 8), torch.eye(8), torch.eye(8).flip(0)])
        labels = torch.arange(length) % 3
        return TensorDataset(inputs + 2 * stripes[labels].unsqueeze(1), labels)

    def loss(self, inputs, labels):
        return nn.functional.cross_entropy(self(inputs), labels)


class Letters(nn.Module):
    """A small transformer that tells the next of 12 letters, which is the one before, the one before that, or noise."""

    def __init__(self, seed=0):
        torch.manual_seed(seed)
        super().__init__()
        self.embed = nn.Embedding(12, 16)
        self.place = nn.Parameter(torch.randn(10, 16) * 0.1)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 12)

    @staticmethod
    def dataset(length):
        generator = torch.Generator().manual_seed(2)
        text = torch.randint(0, 12, (length, 11), generator=generator)
        text[:, 4:] = torch.where(torch.rand(length, 7, generator=generator) < 0.8, text[:, 2:9], text[:, 4:])
        return TensorDataset(text[:, :-1], text[:, 1:])

    def forward(self, text):
        mask = nn.Transformer.generate_square_subsequent_mask(10)
        return self.head(self.layer(self.embed(text) + self.place, src_mask=mask, is_causal=True))

    def loss(self, inputs, labels):
        return nn.functional.cross_entropy(self(inputs).flatten(0, 1), labels.flatten())


def train_as_ever(model, optimizer, dataset, *, global_batch, epochs, seed=0, after_step=lambda samples: None):
    """The plain loop that the others are compared with: whole global batches, in the same order."""
    for epoch in range(epochs):
        order = torch.from_numpy(Order(len(dataset), seed, epoch, shuffle=True).indices)
        for batch in order.split(global_batch):
            optimizer.zero_grad()
            model.loss(*(column[batch] for column in dataset.tensors)).backward()
            optimizer.step()
            after_step(len(batch))


def largest_difference(ours, theirs):
    return float((weights(ours) - weights(theirs)).abs().max())


def weights(model):
    """All in one, but for the bias of attention's keys: no output depends on it, so that its gradient is rounding
    alone, which Adam divides by its own size and so makes into whole steps.
    """
    state = {name: value.detach().clone() for name, value in model.named_parameters()}
    for name, value in state.items():
        if name.endswith("in_proj_bias"):
            value.view(3, -1)[1] = 0
    return torch.cat([value.flatten() for value in state.values()])
