"""The noise scale as a training measures it: of microbatches, and of ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from zeus_core.training.noise_scale import GradientNoise  # noqa: E402

D, KNOWN = 20, 41.0  # d + 1 + d sigma^2 / |delta|^2, see test_goodput_noise_scale.py
STEP = """
def loss_of(model, samples, generator):
    x = torch.randn(samples, 20, generator=generator)
    e = torch.randn(samples, 1, generator=generator)
    return 0.5 * (model(x) - (x[:, :1] * 0 + x @ torch.zeros(20, 1) + e)).square().mean()
"""
scope: dict = {"torch": torch}
exec(STEP, scope)
loss_of = scope["loss_of"]


def model_at(delta: float = 1.0) -> torch.nn.Linear:
    """A distance of ``delta`` from the best weights, which are all zero."""
    model = torch.nn.Linear(D, 1, bias=False)
    with torch.no_grad():
        model.weight.zero_()
        model.weight[0, 0] = delta
    return model


def measured(steps: int, microbatch: int, count: int, **options) -> GradientNoise:
    model, generator = model_at(), torch.Generator().manual_seed(1)
    noise = GradientNoise(model.parameters(), every=1, memory=2000.0, **options)
    for _ in range(steps):
        for _ in range(count):
            (loss_of(model, microbatch, generator) / count).backward()
            noise.micro(microbatch, 1.0 / count)
        noise.step()
        model.zero_grad()
    return noise


def test_of_microbatches():
    """Within a tenth of what it is known to be."""
    assert measured(2500, 8, 4).scale.value == pytest.approx(KNOWN, rel=0.1)


def test_only_each_so_many_th_step():
    """The others cost a comparison."""
    model, generator = model_at(), torch.Generator().manual_seed(1)
    noise = GradientNoise(model.parameters(), every=5)
    told = []
    for _ in range(11):
        for _ in range(2):
            (loss_of(model, 4, generator) / 2).backward()
            noise.micro(4, 0.5)
        told.append(noise.step())
        model.zero_grad()
    assert [i for i, measured_ in enumerate(told) if measured_] == [0, 5, 10]


def test_an_uneven_step_is_not_measured():
    """The last of an epoch; and neither is one of a single microbatch."""
    model, generator = model_at(), torch.Generator().manual_seed(1)
    noise = GradientNoise(model.parameters(), every=1)
    for size in (4, 3):
        loss_of(model, size, generator).backward()
        noise.micro(size, size / 7)
    assert not noise.step()
    loss_of(model, 4, generator).backward()
    noise.micro(4, 1.0)
    assert not noise.step()
    assert noise.scale.steps == 0


def test_mixed_precisions_scale_is_divided_out():
    """The noise scale does not know of it."""
    models = model_at(), model_at()
    plain, scaled = (GradientNoise(model.parameters(), every=1) for model in models)
    for model, noise, factor in zip(models, (plain, scaled), (1.0, 1024.0), strict=True):
        generator = torch.Generator().manual_seed(2)
        for _ in range(4):
            (loss_of(model, 8, generator) / 4 * factor).backward()
            noise.micro(8, 0.25)
        noise.step(loss_scale=factor)
    assert scaled.scale.trace == pytest.approx(plain.scale.trace, rel=1e-5)


def test_overflow_sparse_and_missing_gradients():
    """Infinite ones are left out, sparse ones counted, and parameters without any are none of its business."""
    table, unused = torch.nn.Embedding(10, 4, sparse=True), torch.nn.Linear(3, 3)
    noise = GradientNoise([*table.parameters(), *unused.parameters()], every=1)
    for rows in ([1, 1, 2], [2, 3, 3]):
        table(torch.tensor(rows)).sum().div(2).backward()
        noise.micro(3, 0.5)
    assert noise.step()
    table.zero_grad()
    for _ in range(2):
        (table(torch.tensor([1, 2, 3])).sum() * float("inf")).backward()
        noise.micro(3, 0.5)
    assert not noise.step()
    assert noise.scale.skipped == 1


def test_it_is_checkpointed_and_taken_away():
    """Both leave the training as it was."""
    noise = measured(20, 8, 4)
    again = GradientNoise(model_at().parameters(), every=1)
    again.load_state_dict(noise.state_dict())
    assert again.scale.value == noise.scale.value
    model = model_at()
    noise = GradientNoise(model.parameters(), every=1)
    noise.remove()
    loss_of(model, 4, torch.Generator().manual_seed(1)).backward()
    noise.micro(4, 1.0)
    assert not noise.step()


RANKS = (
    """
import json, os, sys
import torch
import torch.distributed as dist
from zeus_core.training.noise_scale import GradientNoise
"""
    + STEP
    + """
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(20, 1, bias=False)
with torch.no_grad():
    model.weight.zero_()
    model.weight[0, 0] = 1.0
whole = torch.nn.parallel.DistributedDataParallel(model)
noise = GradientNoise(model.parameters(), every=1, memory=600.0)
generator = torch.Generator().manual_seed(100 + rank)
for _ in range(600):
    loss_of(whole, 8, generator).backward()
    noise.micro(8, 1.0)
    noise.step()
    model.zero_grad()
if rank == 0:
    json.dump(noise.scale.to_dict() | {"value": noise.scale.value}, open(sys.argv[1], "w"))
dist.destroy_process_group()
"""
)


@pytest.mark.slow
def test_of_ranks(tmp_path):
    """Four ranks of one microbatch each: what each of them had before the gradients were averaged."""
    script, out = tmp_path / "ranks.py", tmp_path / "out.json"
    script.write_text(RANKS)
    argv = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "4",
        str(script),
        str(out),
    ]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(argv, env=env, timeout=100, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert found["steps"] == 600
    assert found["value"] == pytest.approx(KNOWN, rel=0.1)
