"""With the real Trainer: what it tells, and that nothing of ours hurts it."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
lightning = pytest.importorskip("lightning")

from lightning.pytorch.loggers import CSVLogger  # noqa: E402

from chase.client import Job  # noqa: E402
from chase.integrations.lightning import ChaseCallback  # noqa: E402

ROOT = Path(__file__).parents[2]
pytestmark = [
    # Lightning's own: of the torch that it meets, and of trainings as small as these.
    pytest.mark.filterwarnings(r"ignore:.isinstance\(treespec, LeafSpec\). is deprecated"),
    pytest.mark.filterwarnings("ignore:The '.*dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
]


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: Any, index: int) -> Any:
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Failing(Module):
    def training_step(self, batch: Any, index: int) -> Any:
        if index == 3:
            raise RuntimeError("the secret of the data")
        return super().training_step(batch, index)


class TwoOptimizers(Module):
    """Both of them step in each batch, by hand."""

    automatic_optimization = False

    def training_step(self, batch: Any, index: int) -> None:
        for optimizer in self.optimizers():
            optimizer.zero_grad()
            self.manual_backward(self.layer(batch[0]).square().mean())
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD([part], lr=0.1) for part in self.layer.parameters()]


def loader(rows: int = 64, batch_size: int | None = 8, **settings: Any) -> Any:
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(rows, 4)), batch_size, **settings)


@pytest.fixture
def make(tmp_path):
    """A Trainer of two epochs that logs every second step."""

    def made(*callbacks: Any, **settings: Any) -> Any:
        given = {
            "max_epochs": 2,
            "log_every_n_steps": 2,
            "enable_checkpointing": False,
            "logger": CSVLogger(tmp_path),
            **settings,
        }
        return lightning.Trainer(
            accelerator="cpu",
            devices=1,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=list(callbacks),
            default_root_dir=tmp_path,
            **given,
        )

    return made


def last(service: Any) -> dict[str, Any]:
    return list(service.ended.values())[-1]


def test_samples(service, make):
    """Sixteen steps of eight, and it knows how many there will be."""
    make(ChaseCallback("lit", region="gb")).fit(Module(), loader())
    ended = last(service)
    assert (ended["name"], ended["region"], ended["units"]) == ("lit", "gb", "samples")
    assert (ended["units_done"], ended["total_units"], ended["reason"]) == (128.0, 128.0, "done")


@pytest.mark.parametrize("accumulation", [1, 2, 3])
def test_a_last_step_with_less(service, make, accumulation):
    """An epoch of 30 rows is 30 samples, whichever way they are cut into batches and steps."""
    make(ChaseCallback("lit"), accumulate_grad_batches=accumulation).fit(Module(), loader(30))
    assert (last(service)["units_done"], last(service)["total_units"]) == (60.0, 60.0)


def test_accumulation_that_changes(service, make):
    """Counts as it is, where Lightning's own scheduler changes it."""
    scheduler = lightning.pytorch.callbacks.GradientAccumulationScheduler({0: 1, 1: 4})
    make(ChaseCallback("lit"), scheduler, max_epochs=3).fit(Module(), loader(60))
    assert last(service)["units_done"] == 180.0


def test_some_of_the_batches(service, make):
    """Only those that are used."""
    make(ChaseCallback("lit"), limit_train_batches=3).fit(Module(), loader())
    assert (last(service)["units_done"], last(service)["total_units"]) == (48.0, 48.0)


def test_several_optimizers_by_hand(service, make):
    """Each batch counts once, however many of them step in it."""
    make(ChaseCallback("lit")).fit(TwoOptimizers(), loader(30))
    assert (last(service)["units_done"], last(service)["total_units"]) == (60.0, 60.0)


def test_without_a_batch_size(service, make):
    """Of a loader that has none, as one of single rows, steps are counted."""
    make(ChaseCallback("lit"), max_epochs=1).fit(Module(), loader(5, None))
    assert (last(service)["units"], last(service)["units_done"], last(service)["total_units"]) == ("steps", 5.0, 5.0)


def test_rows_without_a_length(service, make):
    """Each step is a full one; with no end in sight there is no total."""

    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            while True:
                yield (torch.randn(4),)

    callback = ChaseCallback("lit")
    rows = torch.utils.data.DataLoader(Endless(), batch_size=8)
    make(callback, max_epochs=-1, max_steps=5).fit(Module(), rows)
    assert (last(service)["units_done"], last(service)["total_units"]) == (40.0, 40.0)
    make(callback, max_epochs=1, limit_train_batches=3).fit(Module(), rows)
    assert (last(service)["units_done"], last(service)["total_units"]) == (24.0, 24.0)


def test_stopped_early(service, make):
    """By another callback: what was done counts, and the job has ended."""

    class Stop(lightning.Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            trainer.should_stop = trainer.global_step >= 5

    make(ChaseCallback("lit"), Stop()).fit(Module(), loader())
    assert (last(service)["units_done"], last(service)["total_units"]) == (40.0, 128.0)


@pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch ended")
def test_resumed_in_the_middle_of_an_epoch(service, make, tmp_path):
    """What was done before is not this run's."""
    path = tmp_path / "sixth.ckpt"

    class Save(lightning.Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 6:
                trainer.save_checkpoint(path)

    make(ChaseCallback("lit"), Save()).fit(Module(), loader(30))
    make(ChaseCallback("lit")).fit(Module(), loader(30), ckpt_path=path)
    done = [(end["units_done"], end["total_units"]) for end in service.ended.values()]
    assert done == [(60.0, 60.0), (14.0, 14.0)]


def test_two_fits_of_one_callback(service, make):
    """Are two jobs; the second goes on where the first ended."""
    trainer, module = make(ChaseCallback("lit")), Module()
    trainer.fit(module, loader())
    trainer.fit_loop.max_epochs = 3
    trainer.fit(module, loader())
    assert [(end["units_done"], end["total_units"]) for end in service.ended.values()] == [(128.0, 128.0), (64.0, 64.0)]


def test_an_exception(service, make):
    """Ends the job with its type, and not with what it says."""
    with pytest.raises(RuntimeError, match="secret"):
        make(ChaseCallback("lit")).fit(Failing(), loader())
    assert (last(service)["units_done"], last(service)["reason"]) == (24.0, "failed: RuntimeError")


def test_interrupted(service, make):
    """As by a person."""

    class Interrupt(lightning.Callback):
        def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 2:
                raise KeyboardInterrupt

    with pytest.raises(SystemExit):
        make(ChaseCallback("lit"), Interrupt()).fit(Module(), loader())
    assert (last(service)["units_done"], last(service)["reason"]) == (16.0, "interrupted")


def test_evaluation_alone(service, make):
    """Is no job."""

    class Tested(Module):
        def test_step(self, batch: Any, index: int) -> None:
            self.log("loss", self.layer(batch[0]).mean())

    trainer = make(ChaseCallback("lit"))
    trainer.test(Tested(), loader(), verbose=False)
    assert not service.jobs
    assert not service.ended


def test_in_a_job_of_the_callers(service, make):
    """Two trainings are one job, as the caller said."""
    with Job("both", units="samples", total_units=256) as job:
        for _ in range(2):
            make(ChaseCallback(job)).fit(Module(), loader())
    (ended,) = service.ended.values()
    assert (ended["name"], ended["units_done"], ended["reason"]) == ("both", 256.0, "done")


def test_logged_at_the_trainers_steps(service, make):
    """Every second one, by its own loggers; the metrics that callbacks look at have nothing of ours."""
    trainer = make(ChaseCallback("lit"), accumulate_grad_batches=2)
    trainer.fit(Module(), loader())
    with Path(trainer.logger.log_dir, "metrics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["chase/units_done"]]
    assert [(int(row["step"]), float(row["chase/units_done"])) for row in rows] == [
        (1, 32.0),
        (3, 64.0),
        (5, 96.0),
        (7, 128.0),
    ]
    assert not [name for name in trainer.callback_metrics if name.startswith("chase")]


def test_without_a_logger(service, make):
    """Nothing is logged, and the training is the same."""
    trainer = make(ChaseCallback("lit"), logger=False)
    trainer.fit(Module(), loader())
    assert last(service)["units_done"] == 128.0
    assert trainer.logged_metrics == {}


def test_a_logger_that_fails(service, make, tmp_path, caplog):
    """Whatever it raises at our figures is told once, and the training goes on."""

    class Broken(CSVLogger):
        def log_metrics(self, metrics: Any, step: Any = None) -> None:
            raise OSError("its server is away")

    trainer = make(ChaseCallback("lit"), logger=Broken(tmp_path))
    trainer.fit(Module(), loader())
    assert last(service)["units_done"] == 128.0
    assert len([record for record in caplog.records if "on_train_batch_end went wrong" in record.getMessage()]) == 1


@pytest.mark.parametrize("trouble", ["silent", "garbage", "nonsense", "gone"])
def test_trained_beside_a_service_in_trouble(service, make, trouble):
    """From the third step on: the training is the same."""

    class Trouble(lightning.Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 3 and trouble == "gone":
                service.stop(leave_socket=True)
            elif trainer.global_step == 3:
                service.trouble = trouble

    trainer = make(ChaseCallback("lit"), Trouble())
    trainer.fit(Module(), loader())
    assert trainer.global_step == 16


def test_a_batch_size_that_follows_the_service(service, make):
    """At the beginning of an epoch, as docs/integrations.md has it: the global batch and the samples stay the same."""
    page = (ROOT / "docs/integrations.md").read_text()
    (example,) = [part.split("```")[0] for part in page.split("```python\n")[1:] if "Following" in part]
    names: dict[str, Any] = {"rows": torch.utils.data.TensorDataset(torch.randn(60, 4)), "Base": Module}
    exec(example, names)
    following, module = names["following"], names["module"]
    sizes, accumulations = [], []

    class Watch(lightning.Callback):
        def on_train_epoch_start(self, trainer: Any, *_: Any) -> None:
            sizes.append(trainer.train_dataloader.batch_size)
            accumulations.append(trainer.accumulate_grad_batches)
            service.setting = {"batch_size": 8}
            seen = service.count("POST", "/report")
            service.wait_for(lambda: service.count("POST", "/report") >= seen + 3, "three times more")

    trainer = make(following, Watch(), max_epochs=3, reload_dataloaders_every_n_epochs=1)
    trainer.fit(module)
    assert sizes == [16, 8, 8]
    assert accumulations == [2, 4, 4]
    assert (last(service)["units_done"], last(service)["batch_size"]) == (180.0, 8)


@pytest.mark.slow
def test_ranks_that_lightning_starts_are_one_job(service, tmp_path):
    """Forked or spawned ones have no variable that says which they are; 54 rows over two ranks are 54 samples."""
    script = tmp_path / "train.py"
    script.write_text(RANKS)
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-W", "ignore", str(script)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (ended,) = service.ended.values()
    assert (ended["units_done"], ended["total_units"]) == (108.0, 108.0)


RANKS = """
import lightning, torch
from chase.integrations.lightning import ChaseCallback

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

rows = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(54, 4)), batch_size=8)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
trainer = lightning.Trainer(
    accelerator="cpu", devices=2, strategy="ddp_fork", max_epochs=2, callbacks=[ChaseCallback("lit")], **quiet
)
trainer.fit(Module(), rows)
"""
