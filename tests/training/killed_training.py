"""A training that is killed again and again: ``killed_training.py DIRECTORY WORKERS KILLS``.

It is forked from a process that has loaded torch, killed with SIGKILL at a random moment after its first checkpoint,
and begun again, until it has been killed so many times and may end. The checkpoint holds what was used up to it.
"""

from __future__ import annotations

import importlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset
from training_problems import Images

from zeus_core.training.batch_plan import BatchPlan
from zeus_core.training.batching import Batching
from zeus_core.training.sampling import SampleLoader
from zeus_core.training.steps import Steps

LENGTH, EPOCHS = 75, 6
PLAN = BatchPlan(24, 8, (4, 6, 8, 12, 24), "accumulation")


def train(directory, workers):
    inputs, labels = Images.dataset(LENGTH).tensors
    model = Images()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    batching = Batching(PLAN, optimizer)
    loader = SampleLoader(TensorDataset(inputs, labels, torch.arange(LENGTH)), chunk=24, num_workers=workers)
    steps, wishes, path = Steps(batching, loader), random.Random(os.getpid()), directory / "checkpoint"
    used, resumed = [[] for _ in range(EPOCHS)], []
    if path.exists():
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        steps.load_state_dict(saved["steps"])
        at = (batching.steps, batching.microbatch, sorted(batching.out))
        used, resumed = saved["used"], [*saved["resumed"], [*saved["at"], *at]]
    while loader.epoch < EPOCHS:
        for step in steps:
            batching.request(wishes.choice(PLAN.microbatches))
            epoch = loader.epoch
            indices = one_step(step, model, optimizer)
            if step.failed:
                continue
            used[epoch] += indices
            if batching.steps % 2 == 0:
                save(path, model, steps, used, resumed)
    save(path, model, steps, used, resumed)


def one_step(step, model, optimizer):
    indices = []
    with step:
        for micro in step:
            inputs, labels, index = micro.data
            if len(index) == 24:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
            (nn.functional.cross_entropy(model(inputs), labels) * micro.weight).backward()
            indices += index.tolist()
        optimizer.step()
        optimizer.zero_grad()
    return indices


def save(path, model, steps, used, resumed):
    batching = steps.batching
    state = {
        "model": model.state_dict(),
        "optimizer": batching.optimizer.state_dict(),
        "steps": steps.state_dict(),
        "used": used,
        "resumed": resumed,
        "at": [batching.steps, batching.microbatch, sorted(batching.out)],
    }
    torch.save(state, path.with_suffix(".new"))
    path.with_suffix(".new").rename(path)


def fork(work):
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        status = 1
        try:
            work()
            status = 0
        finally:
            if status:
                sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
            os._exit(status)
    return pid


def version(path):
    return path.stat().st_ino if path.exists() else 0


def main():
    directory, workers, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    importlib.import_module("torch._dynamo")  # which the first optimizer would load in each attempt
    moments = random.Random(kills)
    killed = 0
    while killed < kills:
        before = version(directory / "checkpoint")
        pid = fork(lambda: train(directory, workers))
        while version(directory / "checkpoint") == before and os.waitpid(pid, os.WNOHANG) == (0, 0):
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.01))
        try:
            os.killpg(pid, signal.SIGKILL)
            if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != -signal.SIGKILL:
                break
        except OSError:  # it has ended by itself
            break
        killed += 1
    pid = fork(lambda: train(directory, workers))
    sys.stdout.write(f"{killed} {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}")


if __name__ == "__main__":
    main()
