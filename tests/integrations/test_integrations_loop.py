"""Hooks that come twice, unpaired, or not at all: what is counted is the trainer's own step."""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from daemon_peer import PeerDaemon
from hypothesis import given
from hypothesis import strategies as st

from chase.client import Job, Recurring
from chase.integrations.loop import Samples, TrainerHooks, TrainingLoop, end_reason, quietly


def last(service) -> dict:
    (ended,) = service.ended.values()
    return ended


def test_steps_and_their_total(service):
    """A step is so many samples, and what was done before is not this run's."""
    loop = TrainingLoop("job", region="gb")
    loop.begin(step=10, samples=Samples(32), last_step=110)
    for step in range(11, 21):
        loop.reached(step)
    loop.end()
    ended = last(service)
    assert (ended["units"], ended["units_done"], ended["total_units"], ended["region"]) == (
        "samples",
        320.0,
        3200.0,
        "gb",
    )


def test_hooks_that_are_missing_or_come_twice(service):
    """A step that was not told counts with the next; one that is told twice counts once."""
    loop = TrainingLoop("job")
    loop.reached(3)
    loop.begin(step=0, samples=Samples(8), last_step=None)
    loop.begin(step=0, samples=Samples(8), last_step=None)
    for step in (1, 1, 4, 2, 4):
        loop.reached(step)
    loop.end("failed: ValueError")
    loop.end()
    loop.reached(9)
    ended = last(service)
    assert (ended["units_done"], ended["total_units"], ended["reason"]) == (32.0, None, "failed: ValueError")


def test_another_training_is_another_job(service):
    """With the same callback."""
    loop = TrainingLoop("job")
    for _ in range(2):
        loop.begin(step=0, samples=None, last_step=5.0)
        loop.reached(5)
        loop.end()
    assert [(end["units"], end["units_done"]) for end in service.ended.values()] == [("steps", 5.0)] * 2


@pytest.mark.parametrize("total", [None, float("inf"), float("nan"), 0, -1, sys.maxsize])
def test_a_length_that_is_not_known(service, total):
    """Is not made up, and one beyond all measure is none."""
    loop = TrainingLoop("job")
    loop.begin(step=0, samples=Samples(4), last_step=total)
    loop.end()
    assert last(service)["total_units"] is None


@given(
    microbatch=st.integers(1, 64), accumulation=st.integers(1, 8), rows=st.integers(1, 2000), epochs=st.integers(1, 4)
)
def test_an_epoch_has_as_many_samples_as_its_loader(microbatch, accumulation, rows, epochs):
    """The last step of an epoch has what the others left: however they are cut, an epoch is its rows."""
    batches = -(-rows // microbatch)
    samples = Samples.of(microbatch, accumulation, batches, rows)
    steps = samples.epoch_steps
    assert steps == -(-batches // accumulation)
    assert samples.after(epochs * steps) == epochs * rows
    sizes = [samples.after(step + 1) - samples.after(step) for step in range(epochs * steps)]
    assert all(0 < size <= samples.batch for size in sizes)
    assert all(size == samples.batch for step, size in enumerate(sizes) if (step + 1) % steps)


@pytest.mark.parametrize(
    ("batches", "rows", "epoch"),
    [
        (10, 1000, 80),  # ten of many batches
        (10, 20, 80),  # a sampler that draws with replacement
        (10, None, 80),
        (10, 72, 80),  # that would be nine
        (10, 73, 73),
    ],
)
def test_rows_that_are_not_what_the_batches_hold(batches, rows, epoch):
    """Say nothing of the epoch."""
    assert Samples.of(8, 2, batches, rows).after(5) == epoch


@pytest.mark.parametrize("batches", [None, 0, float("inf")])
def test_an_epoch_without_a_length(batches):
    """Has full steps only."""
    assert Samples.of(8, 2, batches, 17) == Samples(16)


def test_another_batch_size_from_an_epoch_on(service):
    """Counts with that, and in the unit that was begun with."""
    loop = TrainingLoop("job")
    loop.begin(step=0, samples=Samples.of(8, 1, 4, 30), last_step=8)
    loop.epoch(0, Samples.of(8, 1, 4, 30))
    loop.reached(4)
    loop.epoch(4, Samples.of(16, 1, 2, 30))
    loop.reached(6)
    loop.epoch(6, None)
    loop.reached(7)
    loop.end()
    assert last(service)["units_done"] == 30.0 + 30.0 + 16.0


def test_begun_in_the_middle_of_an_epoch(service):
    """What is left of it is what is left of its rows."""
    loop = TrainingLoop("job")
    loop.begin(step=103, samples=Samples.of(8, 1, 4, 30), last_step=104, in_epoch=3)
    loop.reached(104)
    loop.end()
    assert (last(service)["units_done"], last(service)["total_units"]) == (6.0, 6.0)


def test_steps_where_they_are_wanted(service):
    """However many samples they have."""
    loop = TrainingLoop("job", units="steps")
    loop.begin(step=0, samples=Samples(32), last_step=10)
    loop.epoch(0, Samples(32))
    loop.reached(3)
    loop.end()
    ended = last(service)
    assert (ended["units"], ended["units_done"], ended["total_units"]) == ("steps", 3.0, 10.0)


def test_samples_that_the_trainer_does_not_know(service, caplog):
    """Are not made up: it counts steps, calls them so, and says it."""
    loop = TrainingLoop("job", units="samples")
    loop.begin(step=0, samples=None, last_step=10)
    loop.reached(3)
    loop.end()
    assert (last(service)["units"], last(service)["units_done"]) == ("steps", 3.0)
    assert "steps are counted" in caplog.text


@pytest.mark.parametrize(("samples", "done"), [(Samples(8), 24.0), (None, 0.0)])
def test_a_job_of_the_caller(service, samples, done):
    """Is begun, counted into in its own unit or not at all, and left open for its owner to end."""
    with Job("mine", units="samples", total_units=80) as job:
        loop = TrainingLoop(job)
        loop.begin(step=0, samples=samples, last_step=10)
        loop.reached(3)
        loop.end("failed: nothing of yours")
        assert not service.ended
    assert (last(service)["units_done"], last(service)["reason"]) == (done, "done")


def test_only_local_rank_0_talks(service):
    """By the trainer's word, where no variable says it: processes that it has spawned itself."""
    loops = [TrainingLoop("job") for _ in range(3)]
    for rank, loop in enumerate(loops):
        loop.begin(step=0, samples=Samples(8), last_step=1, local_rank=rank)
        loop.reached(1)
    for loop in loops:
        loop.end()
    assert last(service)["units_done"] == 8.0


def test_what_is_logged(service):
    """The limit, the mode as a number, what was done, and whether the service is there."""
    loop = TrainingLoop("job")
    assert loop.scalars() == {}
    loop.begin(step=0, samples=Samples(4), last_step=None)
    loop.reached(2)
    service.wait_for(lambda: service.count("POST", "/report") >= 2, "of the job")
    logged = loop.scalars()
    assert logged == {
        "chase/units_done": 8.0,
        "chase/connected": 1.0,
        "chase/power_limit_w": 200.0,
        "chase/mode": 1.0,
    }
    loop.end()


def test_advice_is_handed_on_once(service):
    """In the training's thread, after a step, when what is wanted has changed."""
    advised = []

    class Hooks(TrainerHooks):
        def on_advice(self, setting) -> None:
            advised.append((setting.power_limit_w, setting.batch_size))

    service.setting = {}
    hooks = Hooks("job")
    hooks.loop.begin(step=0, samples=Samples(4), last_step=None)
    service.wait_for(lambda: service.count("POST", "/report") >= 2, "of the job")
    hooks.reached(1)
    assert advised == []
    service.setting = {"power_limit_w": 150, "batch_size": 8}
    seen = service.count("POST", "/report")
    service.wait_for(lambda: service.count("POST", "/report") >= seen + 3, "three times more")
    for step in (2, 3, 4):
        hooks.reached(step)
    hooks.loop.end()
    assert advised == [(150.0, 8)]


def test_a_hook_that_fails_does_not_reach_the_training(caplog):
    """It is told once with its traceback, and then not again."""

    class Hooks(TrainerHooks):
        @quietly
        def on_step(self, step: int) -> None:
            raise RuntimeError(f"at {step}")

    hooks = Hooks("job")
    for step in range(3):
        hooks.on_step(step)
    assert [(record.levelname, record.exc_info is not None) for record in caplog.records] == [("WARNING", True)]
    assert "on_step went wrong" in caplog.text


@pytest.mark.parametrize(("ours", "told"), [(logging.NOTSET, False), (logging.WARNING, True)])
def test_says_no_more_than_the_trainer(service, caplog, ours, told):
    """While it trains; a level that somebody set for us goes before the trainer's."""
    client = logging.getLogger("chase.client")
    client.setLevel(ours)
    loop = TrainingLoop("job")
    loop.begin(step=0, samples=Samples(4), last_step=None, level=logging.ERROR)
    client.warning("the service is away")
    loop.end()
    client.warning("after it")
    client.setLevel(logging.NOTSET)
    assert ("the service is away" in caplog.text) is told
    assert "after it" in caplog.text


@pytest.mark.parametrize(
    ("error", "reason"),
    [(None, "done"), (ValueError("secret"), "failed: ValueError"), (KeyboardInterrupt(), "interrupted")],
)
def test_the_block_ends_the_job(service, error, reason):
    """With the type of what ended it, for trainers that tell their callbacks nothing of exceptions."""
    hooks = TrainerHooks("job")

    def train() -> None:
        with hooks:
            hooks.loop.begin(step=0, samples=Samples(4), last_step=None)
            if error is not None:
                raise error

    if error is None:
        train()
    else:
        with pytest.raises(type(error)):
            train()
    assert last(service)["reason"] == reason
    assert hooks.job is None


@pytest.mark.parametrize(
    ("end", "reason", "status"),
    [
        ("raise ValueError('secret')", "failed: ValueError", 1),
        ("", "left without an end", 0),
        ("loop.end()", "done", 0),
    ],
)
def test_a_process_that_ends_in_the_middle(service, tmp_path, end, reason, status):
    """Its job ends with the exception that ended the process, where the trainer told of none."""
    script = tmp_path / "train.py"
    script.write_text(
        "from chase.integrations.loop import Samples, TrainingLoop\n"
        "loop = TrainingLoop('job')\n"
        "loop.begin(step=0, samples=Samples(4), last_step=9)\n"
        f"loop.reached(2)\n{end}\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, done.stderr
    assert (last(service)["units_done"], last(service)["reason"]) == (8.0, reason)


def test_the_reason_has_no_text_of_the_exception():
    """Which may hold what is nobody's business."""
    assert end_reason(RuntimeError("the secret")) == "failed: RuntimeError"
    assert end_reason(SystemExit(0)) == "done"
    assert end_reason(SystemExit(3)) == "failed: SystemExit"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"total_units": -1}, "total_units"),
        ({"units": "tokens"}, "'tokens'"),
        ({"policy": {"eta": float("nan")}}, "JSON"),
    ],
)
def test_arguments_that_mean_nothing_are_told_at_once(arguments, message):
    """Before the training begins, since nothing is raised into it."""
    with pytest.raises(ValueError, match=message):
        TrainingLoop("job", **arguments)


def test_a_job_has_its_arguments_already():
    """So others beside it are an error, and so is a job that counts what no trainer tells."""
    with pytest.raises(TypeError, match="region"):
        TrainingLoop(Job("job", units="samples"), region="gb")
    with pytest.raises(ValueError, match="'tokens'"):
        TrainingLoop(Job("job", units="tokens"))


NODE = """
import os
from datetime import timedelta
import torch.distributed as dist
from chase.integrations.loop import Samples, TrainingLoop
from chase.integrations.torch import joint_part
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", store=dist.FileStore(os.environ["MEET"], 2), rank=rank, world_size=2)
loop = TrainingLoop("job", joint=joint_part())
loop.begin(step=0, samples=Samples(8), last_step=None, local_rank=0)
step = 0
while loop._shared.power_limit_w is None and step < 100_000:
    step += 1
    loop.reached(step)
    dist.barrier()  # where data-parallel ranks exchange their gradients
loop.end()
print(loop.job, step)
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_a_joint_job_agrees_on_one_limit(place, tmp_path):
    """Two nodes, each with a service of its own: both are told what the first one wants, from the same step on."""
    script = tmp_path / "node.py"
    script.write_text(NODE)
    with ExitStack() as stack:
        services, nodes = [], []
        for rank, wanted in enumerate((180, 250)):
            socket = place / f"{rank}.sock"
            peer = PeerDaemon(socket, setting={"power_limit_w": wanted}, mode="efficiency-first")
            services.append(stack.enter_context(peer.running()))
            env = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "OMP_NUM_THREADS": 1}
            env |= {"CHASE_SOCKET": socket, "MEET": tmp_path / "meet", "PYTHONPATH": Path(__file__).parents[2]}
            said = {**os.environ, **{key: str(value) for key, value in env.items()}}
            node = subprocess.Popen([sys.executable, script], env=said, stdout=subprocess.PIPE, text=True)
            nodes.append(stack.enter_context(node))
        printed = [node.communicate(timeout=120)[0] for node in nodes]
    assert printed[0] == printed[1]
    ended = [next(iter(service.ended.values())) for service in services]
    assert [(end["joint"], end["agreed_w"]) for end in ended] == [("leads", 180.0), ("follows", 180.0)]


def test_a_joint_job_whose_ranks_are_not_there_is_told(service, caplog):
    """The training goes on, and no node sets a limit of its own."""
    pytest.importorskip("torch")
    loop = TrainingLoop("job", joint="leads")
    with caplog.at_level(logging.WARNING, "chase.client"):
        loop.begin(step=0, samples=Samples(8), last_step=None)
    loop.reached(3)
    loop.end()
    assert "its ranks cannot be found" in caplog.text
    assert last(service)["units_done"] == 24.0


def test_the_intensity_is_logged(service):
    """As the service says it, once it does."""
    service.more = {"intensity_g_per_kwh": 312.5}
    loop = TrainingLoop("job")
    loop.begin(step=0, samples=Samples(8), last_step=None)
    service.wait_for(lambda: service.count("POST", "/report") >= 2, "anything")
    assert loop.scalars()["chase/intensity_g_per_kwh"] == 312.5
    loop.end()


def test_a_recurring_job_is_made_before_its_loader():
    """A callback comes too late to choose the batch size, so it takes none that would."""
    nightly = Recurring(batch_sizes=(8, 16), default=8, target=0.9)
    with pytest.raises(TypeError, match="make the Job yourself"):
        TrainingLoop("job", recurring=nightly)
    TrainingLoop(Job("job", recurring=nightly, units="samples"))
