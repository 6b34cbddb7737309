"""With the real Trainer: what it tells, and that nothing of ours hurts it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from chase.client import Job  # noqa: E402
from chase.integrations.huggingface import ChaseCallback  # noqa: E402

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 2,
    "report_to": [],
    "use_cpu": True,
    "disable_tqdm": True,
    "logging_steps": 4,
    "save_strategy": "no",
}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

    def forward(self, x: Any, labels: Any = None) -> dict[str, Any]:
        logits = self.layers(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class Listener(transformers.TrainerCallback):
    """As a reporter, which stands before all callbacks of the user's."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        self.heard.append(dict(logs))


class At(transformers.TrainerCallback):
    """Does something after so many steps."""

    def __init__(self, step: int, act: Any) -> None:
        self.step, self.act = step, act

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step:
            self.act(control)


def fail(_: Any) -> None:
    raise RuntimeError("the secret of the data")


@pytest.fixture
def make(tmp_path):
    """A Trainer of a classifier on so many rows: batches of 4, two of which make a step."""

    def made(*callbacks: Any, rows: int = 64, **settings: Any) -> Any:
        data = [{"x": torch.randn(8), "labels": torch.tensor(i % 2)} for i in range(rows)]
        arguments = transformers.TrainingArguments(output_dir=str(tmp_path / "out"), **{**SETTINGS, **settings})
        return transformers.Trainer(
            Model(), arguments, train_dataset=data, eval_dataset=data[:8], callbacks=list(callbacks)
        )

    return made


def last(service: Any) -> dict[str, Any]:
    return list(service.ended.values())[-1]


def test_samples_of_optimizer_steps(service, make):
    """Twelve steps of two batches of four, and it knows how many there will be."""
    make(ChaseCallback("hf", region="gb"), max_steps=12).train()
    ended = last(service)
    assert (ended["name"], ended["region"], ended["units"]) == ("hf", "gb", "samples")
    assert (ended["units_done"], ended["total_units"], ended["reason"]) == (96.0, 96.0, "done")


def test_a_last_step_with_less(service, make):
    """Three epochs of 18 rows in steps of 8: the last step of each has two."""
    make(ChaseCallback("hf"), rows=18, num_train_epochs=3).train()
    assert (last(service)["units_done"], last(service)["total_units"]) == (54.0, 54.0)


def test_rows_without_a_length(service, make):
    """Each step is a full one."""

    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            while True:
                yield {"x": torch.randn(8), "labels": torch.tensor(1)}

    trainer = make(ChaseCallback("hf"), max_steps=3)
    trainer.train_dataset = Endless()
    trainer.train()
    assert (last(service)["units_done"], last(service)["total_units"]) == (24.0, 24.0)


def test_resumed_from_a_checkpoint(service, make, tmp_path):
    """What was done before is not this run's."""
    settings = {"max_steps": 12, "save_strategy": "steps", "save_steps": 8}
    make(ChaseCallback("hf"), **settings).train()
    make(ChaseCallback("hf"), **settings).train(resume_from_checkpoint=str(tmp_path / "out/checkpoint-8"))
    assert (last(service)["units_done"], last(service)["total_units"]) == (32.0, 32.0)


@pytest.mark.parametrize("ignore_data_skip", [False, True])
@pytest.mark.parametrize("step", [1, 3, 5])
def test_resumed_within_an_epoch(service, make, tmp_path, step, ignore_data_skip):
    """Wherever that is: what the model is given counts, whether what was used of the epoch is left out or not."""
    settings = {"rows": 18, "num_train_epochs": 3}
    make(ChaseCallback("hf"), **settings, save_strategy="steps", save_steps=step).train()
    trainer = make(ChaseCallback("hf"), **settings, ignore_data_skip=ignore_data_skip)
    seen = []
    trainer.model.register_forward_pre_hook(lambda _, __, given: seen.append(len(given["x"])), with_kwargs=True)
    trainer.train(resume_from_checkpoint=str(tmp_path / f"out/checkpoint-{step}"))
    assert (last(service)["units_done"], last(service)["total_units"]) == (sum(seen), sum(seen))


def test_stopped_early(service, make):
    """By another callback: what was done counts, and the job has ended."""
    trainer = make(At(5, lambda control: setattr(control, "should_training_stop", True)), max_steps=12)
    trainer.add_callback(ChaseCallback("hf"))
    trainer.train()
    assert (last(service)["units_done"], last(service)["total_units"]) == (40.0, 96.0)


def test_an_exception_in_the_block(service, make):
    """Ends the job with its type, and not with what it says."""
    callback = ChaseCallback("hf")
    trainer = make(callback, At(3, fail), max_steps=12)
    with pytest.raises(RuntimeError, match="secret"), callback:
        trainer.train()
    assert (last(service)["units_done"], last(service)["reason"]) == (24.0, "failed: RuntimeError")


def test_trained_again_after_an_exception_that_was_caught(service, make):
    """The job that was left ends when the next one begins."""
    trainer = make(ChaseCallback("hf"), At(3, fail), max_steps=4)
    with pytest.raises(RuntimeError, match="secret"):
        trainer.train()
    trainer.pop_callback(At)
    trainer.train()
    ends = [(end["units_done"], end["reason"]) for end in service.ended.values()]
    assert ends == [(24.0, "begun anew"), (32.0, "done")]


def test_a_batch_size_found_by_trial(service, make):
    """After it ran out of memory the Trainer begins anew with a smaller one, and that counts."""

    class Tight(Model):
        def forward(self, x: Any, labels: Any = None) -> dict[str, Any]:
            if len(x) > 2:
                raise RuntimeError("CUDA out of memory.")
            return super().forward(x, labels)

    trainer = make(ChaseCallback("hf"), max_steps=5, auto_find_batch_size=True)
    trainer.model = trainer.model_wrapped = Tight()
    trainer.train()
    steps = last(service)["units_done"] / 5
    assert steps == trainer._train_batch_size * 2 < 8


def test_reporters_hear_of_it(service, make):
    """With ``attach``, at the Trainer's own logging steps; twice is once."""
    listener, callback = Listener(), ChaseCallback("hf")
    trainer = make(listener, callback, max_steps=12)
    with callback.attach(trainer).attach(trainer):
        trainer.train()
    losses = [logs for logs in listener.heard if "loss" in logs]
    assert [logs["chase/units_done"] for logs in losses] == [32.0, 64.0, 96.0]
    assert len(service.ended) == 1


def test_what_is_returned_is_the_trainers(service, make):
    """``train`` and ``evaluate`` return no figures of ours, and the logged ones stay apart from them."""
    callback = ChaseCallback("hf")
    trainer = make(max_steps=4, eval_strategy="steps", eval_steps=2)
    callback.attach(trainer)
    trained = trainer.train().metrics
    assert not [name for name in (*trained, *trainer.evaluate()) if name.startswith("chase")]
    assert last(service)["units_done"] == 32.0


def test_evaluation_alone(service, make):
    """Is no job."""
    trainer = make()
    ChaseCallback("hf").attach(trainer)
    trainer.evaluate()
    trainer.predict(trainer.eval_dataset)
    assert not service.jobs
    assert not service.ended


def test_in_a_job_of_the_callers(service, make):
    """Two trainings are one job, as the caller said."""
    with Job("both", units="samples", total_units=64) as job:
        for _ in range(2):
            make(ChaseCallback(job), max_steps=4).train()
    ((ended),) = service.ended.values()
    assert (ended["name"], ended["units_done"], ended["reason"]) == ("both", 64.0, "done")


@pytest.mark.parametrize("trouble", ["silent", "garbage", "nonsense", "gone"])
def test_a_service_in_trouble(service, make, trouble):
    """From the third step on: the training is the same."""

    def begin_trouble(_: Any) -> None:
        if trouble == "gone":
            service.stop(leave_socket=True)
        else:
            service.trouble = trouble

    trainer = make(ChaseCallback("hf"), At(3, begin_trouble), max_steps=12)
    trainer.train()
    assert trainer.state.global_step == 12


@pytest.mark.parametrize(("level", "told"), [("error", False), ("warning", True)])
def test_without_a_service(service, make, caplog, level, told):
    """The training is the same, and as much is said of it as the Trainer would say."""
    service.stop()
    before = transformers.logging.get_verbosity()
    heard = []
    caplog.handler.addFilter(lambda record: heard.append(record.name) or True)
    try:
        trainer = make(
            ChaseCallback("hf"), At(2, lambda _: logging.getLogger("chase.client").warning("!")), max_steps=4
        )
        trainer.args.log_level = level
        trainer.train()
    finally:
        transformers.logging.set_verbosity(before)
    assert trainer.state.global_step == 4
    assert ("chase.client" in heard) is told


def test_arguments_it_does_not_know(service, make, caplog):
    """Of another version: nothing is counted, it is told once, and the training goes on."""
    callback = ChaseCallback("hf")
    trainer = make(max_steps=4)
    state, control = trainer.state, trainer.control
    for _ in range(2):
        callback.on_train_begin(object(), state, control)
    callback.on_step_end(trainer.args, object(), control)
    assert [record.getMessage().split(" ")[0] for record in caplog.records if record.levelname == "WARNING"] == [
        "ChaseCallback.on_train_begin",
        "ChaseCallback.on_step_end",
    ]


@pytest.mark.slow
def test_two_ranks_are_one_job(service, tmp_path):
    """54 rows over two ranks, in steps of 16: an epoch is 54 samples, whoever filled up the last batch."""
    script = tmp_path / "train.py"
    script.write_text(RANKS)
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"}
    argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(script)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    (ended,) = service.ended.values()
    assert (ended["units_done"], ended["total_units"]) == (108.0, 108.0)


RANKS = f"""
import torch, transformers
from chase.integrations.huggingface import ChaseCallback
from test_integrations_huggingface import Model
rows = [{{"x": torch.randn(8), "labels": torch.tensor(i % 2)}} for i in range(54)]
arguments = transformers.TrainingArguments(output_dir="unused", num_train_epochs=2, **{SETTINGS!r})
transformers.Trainer(Model(), arguments, train_dataset=rows, callbacks=[ChaseCallback("hf")]).train()
"""
