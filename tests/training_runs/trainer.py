"""A real training on CPU, as a script: what its card's limit is slows it, and with a service it changes its batch size.

    trainer.py OUT.json --model digits|text --seeds 3 4 --epochs 6 --rule keep|sqrt [--fixed] [--checkpoint FILE]
                        [--global 32] [--recurring 32 64]

With --recurring it is one training of many, at the global batch that this one tries; its metric is the epochs done, and
so its target all of them. Under torchrun the ranks share one training, and each writes to OUT.json.RANK. What is
written is what became of it, one entry for each seed: the weights, accuracy, steps, samples, the learning rates that
the schedule went through, and each change of the batch size.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch
from torch import nn

from chase.client import Job, Recurring
from chase.integrations.torch import Follower, SharedLimit, joint_part
from zeus_core.training.agreement import Agreement
from zeus_core.training.batch_plan import BatchPlan
from zeus_core.training.batching import Batching, Change
from zeus_core.training.lr_scaling import SampleSchedule
from zeus_core.training.sampling import SampleLoader
from zeus_core.training.steps import Step, Steps

RANK, WORLD, LOCAL_RANK = (
    int(os.environ.get(name, default))
    for name, default in zip(("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("0", "1", "0"), strict=True)
)
GLOBAL = 32
SIZES = tuple(size // WORLD for size in (8, 16, 32))
OWN = 16 // WORLD
FULL_W = 275.0


class Card:
    """The one this process sees: how slow its limit makes a step. Read through the real calls of the driver."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._read = None
        if step_s > 0:
            import pynvml

            pynvml.nvmlInit()
            card = pynvml.nvmlDeviceGetHandleByIndex(LOCAL_RANK)
            self._read = lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(card) / 1000.0

    def wait(self) -> None:
        if self._read is not None:
            time.sleep(self._step_s * (FULL_W / self._read()) ** 0.5)


def digits() -> tuple[nn.Module, torch.utils.data.TensorDataset, torch.utils.data.TensorDataset]:
    """A small convolutional network on scikit-learn's 1797 digits; 200 of them are kept for the test."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16.0
    labels = torch.tensor(data.target)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 10),
    )
    cut = len(images) - 200
    return (
        model,
        torch.utils.data.TensorDataset(images[:cut], labels[:cut]),
        torch.utils.data.TensorDataset(images[cut:], labels[cut:]),
    )


class Text(nn.Module):
    """A transformer of one layer that tells the next letter."""

    def __init__(self, letters: int, length: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(letters, 32)
        self.places = nn.Parameter(torch.randn(length, 32) * 0.02)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.out = nn.Linear(32, letters)
        self.mask = nn.Transformer.generate_square_subsequent_mask(length)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.layer(self.letters(tokens) + self.places, src_mask=self.mask)).transpose(1, 2)


def text() -> tuple[nn.Module, torch.utils.data.TensorDataset, torch.utils.data.TensorDataset]:
    """Words of an invented language in which each letter follows from the two before it."""
    length, letters = 16, 12
    tokens = torch.zeros(640, length + 1, dtype=torch.long)
    tokens[:, :2] = torch.randint(letters, (640, 2), generator=torch.Generator().manual_seed(1))
    for i in range(2, length + 1):
        tokens[:, i] = (2 * tokens[:, i - 1] + tokens[:, i - 2] + 1) % letters
    rows = torch.utils.data.TensorDataset(tokens[:560, :-1], tokens[:560, 1:])
    return Text(letters, length), rows, torch.utils.data.TensorDataset(tokens[560:, :-1], tokens[560:, 1:])


class Training:
    """One model from its first step to its last, and all that a checkpoint must hold."""

    def __init__(self, seed: int, options: argparse.Namespace, job: Job | None) -> None:
        torch.manual_seed(seed)
        self.seed, self.options, self.job = seed, options, job
        self.follower = None if job is None else Follower(job)
        self.global_batch = (job.global_batch if job is not None else None) or options.global_batch
        self.model, rows, self.held = {"digits": digits, "text": text}[options.model]()
        if WORLD > 1:
            self.model = nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        self.batching = self._batching()
        self.shared = SharedLimit(job, Agreement.of_job(), local_rank=LOCAL_RANK) if joint_part() else None
        rows = torch.utils.data.TensorDataset(*rows.tensors, torch.arange(len(rows)))
        self.loader = SampleLoader(rows, chunk=max(SIZES), seed=seed, rank=RANK, world=WORLD)
        self.steps = Steps(self.batching, self.loader)
        schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=20, gamma=0.8)
        self.by_samples = SampleSchedule(schedule, self.global_batch)
        self.parts = (self.model, self.optimizer, schedule, self.by_samples, self.steps)
        self.changes: list[list[int]] = []
        self.rates: list[float] = []
        self.used = torch.zeros(options.epochs, len(rows), dtype=torch.long)

    def _batching(self) -> Batching:
        keep = self.options.rule == "keep"
        plan = BatchPlan(
            self.global_batch,
            OWN,
            SIZES,
            boundary="accumulation",
            keep_global_batch=keep,
            rate_rule=None if keep else self.options.rule,
            warmup_steps=5,
        )
        agreement = Agreement.of_job() if WORLD > 1 else None
        out = None if self.follower is None else self.follower.out
        return Batching(plan, self.optimizer, world=WORLD, agreement=agreement, on_change=self.changed, on_out=out)

    def changed(self, change: Change) -> None:
        self.changes.append([change.step, change.microbatch])
        self.follower.changed(change)

    def resume(self) -> None:
        checkpoint = self.options.checkpoint
        if checkpoint is not None and checkpoint.exists():
            state = torch.load(checkpoint, weights_only=True)
            for part, saved in zip(self.parts, state["parts"], strict=True):
                part.load_state_dict(saved)
            self.rates, self.used = state["rates"], state["used"]

    def keep(self) -> None:
        checkpoint = self.options.checkpoint
        if checkpoint is not None and self.batching.steps % 7 == 0:
            parts = [part.state_dict() for part in self.parts]
            torch.save({"parts": parts, "rates": self.rates, "used": self.used}, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)
            self.batching.checkpointed()

    def run(self, card: Card) -> None:
        while self.loader.epoch < self.options.epochs:
            for step in self.steps:
                self.do(step)
                card.wait()
                if self.follower is not None:
                    self.follower.step(step, self.batching)
                if self.shared is not None:
                    self.shared.step()
                self.keep()
            if self.options.recurring:
                self.job.report(self.loader.epoch)

    def do(self, step: Step) -> None:
        loss_of, epoch = nn.CrossEntropyLoss(), self.loader.epoch
        with step:
            for micro in step:
                inputs, labels, indices = micro.data
                if micro.samples:
                    self.used[epoch, indices] += 1
                with micro.gradients(self.model):
                    (loss_of(self.model(inputs), labels) * micro.weight).backward()
            self.rates.append(self.optimizer.param_groups[0]["lr"])
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.by_samples.advance(step.samples)

    def result(self) -> dict[str, object]:
        with torch.no_grad():
            inputs, labels = self.held.tensors
            accuracy = (self.model(inputs).argmax(1) == labels).to(torch.get_default_dtype()).mean().item()
            weights = torch.cat([parameter.flatten() for parameter in self.model.parameters()])
        return {
            "seed": self.seed,
            "accuracy": accuracy,
            "weights": weights.tolist(),
            "steps": self.batching.steps,
            "each_once": bool((self.used == 1).all()),
            "samples": int(self.used.sum()),
            "rates": self.rates,
            "changes": self.changes,
            "global_batch": self.global_batch,
        }


def train(seed: int, options: argparse.Namespace, job: Job | None, card: Card) -> dict[str, object]:
    training = Training(seed, options, job)
    training.resume()
    training.run(card)
    return training.result()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="digits")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rule", default="keep")
    parser.add_argument("--step-s", type=float, default=0.0)
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--global", type=int, default=GLOBAL, dest="global_batch")
    parser.add_argument("--recurring", type=int, nargs="*", default=())
    options = parser.parse_args()
    torch.set_num_threads(1)
    if WORLD > 1:
        torch.distributed.init_process_group("gloo")
    if options.model == "text":
        # Adam divides by the root of what may be nearly nothing: in single precision the last digit of a gradient is
        # after some hundred steps the third of a weight, however the samples are cut.
        torch.set_default_dtype(torch.float64)
    card = Card(0.0 if options.fixed else options.step_s)
    if options.fixed:
        found = [train(seed, options, None, card) for seed in options.seeds]
    else:
        part = joint_part()
        sizes = {} if part == "follows" else {"batch_size": OWN, "batch_sizes": SIZES}
        tried = tuple(options.recurring)
        if tried:
            epochs = options.epochs
            sizes["recurring"] = Recurring(batch_sizes=tried, default=tried[0], target=epochs, max_epochs=epochs)
        with Job("train", units="samples", joint=part, **sizes) as job:
            sys.stdout.write("begins\n")
            sys.stdout.flush()
            found = [train(seed, options, job, card) for seed in options.seeds]
    out = options.out if WORLD == 1 else options.out.with_name(f"{options.out.name}.{RANK}")
    out.write_text(json.dumps(found))
    if WORLD > 1:
        torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
