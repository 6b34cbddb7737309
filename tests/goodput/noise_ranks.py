"""Four real gloo ranks that measure their noise scale: ``noise_ranks.py DIRECTORY``. Each writes RANK.json there."""

from __future__ import annotations

import importlib
import json
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from forked_ranks import WORLD, fork
from noise_problem import loss_of, model_at
from torch.nn.parallel import DistributedDataParallel

from zeus_core.training.noise_scale import GradientNoise


def steps(rank, number, count, *, sizes=(8,) * WORLD, averaged=True):
    """As many steps of ``count`` microbatches on each rank; the measuring of them."""
    model = model_at()
    whole = DistributedDataParallel(model) if averaged else model
    noise = GradientNoise(model.parameters(), every=1, memory=number)
    generator = torch.Generator().manual_seed(100 + rank)
    for _ in range(number):
        for i in range(count):
            with whole.no_sync() if averaged and i < count - 1 else nullcontext():
                (loss_of(whole, sizes[rank], generator) / count).backward()
            noise.micro(sizes[rank], 1.0 / count)
        noise.step()
        model.zero_grad()
    return noise


def as_rank(rank, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/met", rank=rank, world_size=WORLD)
    half = dist.new_group([0, 1])
    measured = {
        "one": steps(rank, 400, 1),
        "accumulated": steps(rank, 250, 2),
        "uneven": steps(rank, 2, 2, sizes=(8, 8, 8, 16)),
        "not averaged": steps(rank, 2, 2, averaged=False),
    }
    saw = {name: {"value": noise.scale.value, "why": noise.why} for name, noise in measured.items()}
    if rank < 2:  # two that train something of their own, each with the same samples
        model = model_at()
        noise = GradientNoise(model.parameters(), every=1, group=half)
        loss_of(model, 8, torch.Generator().manual_seed(1)).backward()
        noise.micro(8, 1.0)
        noise.step()
        saw["group"] = {"value": noise.scale.value, "why": noise.why}
    (directory / f"{rank}.json").write_text(json.dumps(saw))
    dist.barrier()
    dist.destroy_process_group()


def main():
    directory = Path(sys.argv[1])
    torch.set_num_threads(1)
    importlib.import_module("torch._dynamo")  # which DistributedDataParallel would load in each rank
    sys.exit(max(map(abs, fork(lambda rank: as_rank(rank, directory)))))


if __name__ == "__main__":
    main()
