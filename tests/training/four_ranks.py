"""Four real gloo ranks, forked from one process that has loaded torch: ``four_ranks.py DIRECTORY SCENARIO ...``.

They go through the scenarios one after the other, and each rank writes what it saw to DIRECTORY/RANK.json.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from forked_ranks import WORLD, fork
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from training_problems import Images, weights

from zeus_core.training.agreement import Agreement
from zeus_core.training.batch_plan import BatchPlan
from zeus_core.training.batching import Batching
from zeus_core.training.sampling import SampleLoader
from zeus_core.training.steps import Steps

LENGTH = 150  # 48 + 48 + 48 + 6: at the end two ranks have one sample more than the others


def delays(rank):
    """Up to 2 ms, sometimes: what a real cluster does to the order of things."""
    random_of_rank = random.Random(rank)
    return lambda: time.sleep(random_of_rank.choice([0, 0, 0.0005, 0.002]))


def agree(rank, said):
    """Wishes at random, votes at random, gradients exchanged in every step."""
    agreement, wait = Agreement.of_job(every=2, timeout_s=20), delays(rank)
    wishes, refusals = random.Random(11), random.Random(12)
    refused = {refusals.randrange(WORLD): 32}
    for k in range(300):
        wait()
        wish = wishes.choice([None, None, None, None, 8, 16, 32])
        outcome = agreement.tick(k, wish, lambda size: refused.get(rank) != size)
        if outcome:
            said.append([k, outcome.microbatch, outcome.verdict])
        wait()
        dist.all_reduce(torch.ones(2))


def wander(rank, said):
    """The same without any exchange: ranks run ahead of each other, and still none applies what another did not."""
    agreement, wait = Agreement.of_job(timeout_s=20), delays(rank)
    for k in range(300):
        wait()
        outcome = agreement.tick(k, 16 if k < 250 else None, bool)
        if outcome:
            said.append([k, outcome.microbatch, outcome.verdict])


class Normed(Images):
    """With batch normalization, whose buffers rank 0 sends in the forward pass."""

    def __init__(self):
        super().__init__()
        self.insert(1, nn.BatchNorm2d(4))


def train(rank, said, model=None, fits=12, *, early=False, wrapped=lambda shared: shared):
    """Changes at random, and on rank 2 alone memory for no more than ``fits``.

    ``early``: a change is wished for from the beginning, and there is no memory for the inputs.
    """
    whole = model or Images()
    shared = wrapped(DistributedDataParallel(whole))
    optimizer = torch.optim.SGD(shared.parameters(), 0.05, momentum=0.9)
    plan = BatchPlan(48, 4, (1, 2, 3, 4, 6, 12) if fits == 12 else (4, 6, 12), "accumulation")
    batching = Batching(
        plan,
        optimizer,
        world=WORLD,
        agreement=Agreement.of_job(timeout_s=20),
        on_change=lambda change: said.append([change.step, change.before, change.microbatch]),
        on_out=lambda size: said.append(["out", size]),
    )
    loader = SampleLoader(Images.dataset(LENGTH), chunk=12, rank=rank, world=WORLD)
    steps, wishes, wait = Steps(batching, loader), random.Random(5), delays(rank)
    if early:
        batching.request(12)
    while loader.epoch < 8:
        for step in steps:
            wait()
            batching.request(wishes.choice(plan.microbatches))
            with step:
                for micro in step:
                    inputs, labels = micro.data
                    lacking = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
                    if early and rank == 2 and len(inputs) > fits:
                        raise lacking
                    with micro.gradients(shared):
                        loss = nn.functional.cross_entropy(shared(inputs), labels)
                        if rank == 2 and len(inputs) > fits:
                            raise lacking
                        (loss * micro.weight).backward()
                optimizer.step()
                optimizer.zero_grad()
    return weights(whole).tolist()


def too_big(rank, said):
    return train(rank, said, Normed(), fits=4)


def too_big_early(rank, said):
    return train(rank, said, Normed(), fits=4, early=True)


def too_big_compiled(rank, said):
    return train(rank, said, fits=4, wrapped=partial(torch.compile, backend="eager"))


def killed(rank, said):
    """Rank 3 is killed when a change is proposed and before it votes."""
    agreement = Agreement.of_job(timeout_s=0.5)
    if rank == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    while rank and not agreement._store.check([f"{agreement._prefix}/0"]):  # as ranks that meet in each step see it
        time.sleep(0.005)
    for k in range(6):
        outcome = agreement.tick(k, 16 if k == 0 else None, bool)
        if outcome:
            said.append([k, outcome.microbatch, outcome.verdict])


def as_rank(rank, directory, scenarios, port_of):
    store = dist.TCPStore("127.0.0.1", port_of(), WORLD, rank == 0, wait_for_workers=False)
    if rank == 0:
        (directory / "port.new").write_text(str(store.port))
        (directory / "port.new").rename(directory / "port")
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD)
    store.add("met", 1)
    while rank == WORLD - 1 and store.add("met", 0) < WORLD:  # it may die, but not while others still look for it
        time.sleep(0.005)
    saw = {}
    for scenario in scenarios:
        said = []
        saw[scenario] = {"said": said, "weights": SCENARIOS[scenario](rank, said)}
    (directory / f"{rank}.new").write_text(json.dumps(saw))
    (directory / f"{rank}.new").rename(directory / f"{rank}.json")
    if "killed" not in scenarios:
        dist.barrier()
        dist.destroy_process_group()
    elif rank == 0:  # which serves the store until the others have written
        while not all((directory / f"{other}.json").exists() for other in (1, 2)):
            time.sleep(0.01)


SCENARIOS = {each.__name__: each for each in (agree, wander, train, too_big, too_big_early, too_big_compiled, killed)}


def main():
    directory, scenarios = Path(sys.argv[1]), sys.argv[2:]
    torch.set_num_threads(1)
    if "train" in scenarios:
        importlib.import_module("torch._dynamo")  # which DistributedDataParallel would load in each rank

    def port_of_rank_0():
        while not (directory / "port").exists():
            time.sleep(0.005)
        return int((directory / "port").read_text())

    def do(rank):
        as_rank(rank, directory, scenarios, (lambda: 0) if rank == 0 else port_of_rank_0)

    sys.stdout.write(json.dumps(fork(do)))


if __name__ == "__main__":
    main()
