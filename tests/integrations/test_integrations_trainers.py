"""With the real trainers: what each tells, and that nothing of ours hurts them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    # Of the libraries' own: what they warn of is not ours to mend.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def last(service: Any) -> dict[str, Any]:
    return list(service.ended.values())[-1]


class TestHuggingFace:
    @pytest.fixture
    def train(self, tmp_path):
        """A classifier of two layers on 64 rows: batches of 4, two of which make a step."""
        transformers = pytest.importorskip("transformers")
        from chase.integrations.huggingface import ChaseCallback

        class Model(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

            def forward(self, x: Any, labels: Any = None) -> dict[str, Any]:
                logits = self.layers(x)
                return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

        rows = [{"x": torch.randn(8), "labels": torch.tensor(i % 2)} for i in range(64)]
        heard: list[dict[str, Any]] = []

        class Listener(transformers.TrainerCallback):
            def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
                heard.append(dict(logs))

        def run(*, more: Any = (), resume: str | None = None, attach: bool = True, **settings: Any) -> list[Any]:
            options = {"max_steps": 12, "logging_steps": 4, "save_steps": 4, "save_total_limit": 5, **settings}
            arguments = transformers.TrainingArguments(
                output_dir=str(tmp_path / "out"),
                per_device_train_batch_size=4,
                gradient_accumulation_steps=2,
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
                **options,
            )
            callback = ChaseCallback("hf")
            trainer = transformers.Trainer(
                Model(), arguments, train_dataset=rows, callbacks=[Listener(), *more, *([] if attach else [callback])]
            )
            if attach:
                callback.attach(trainer)
            trainer.train(resume_from_checkpoint=resume)
            return heard

        return run

    def test_samples_of_optimizer_steps(self, service, train):
        """Twelve steps of two batches of four; it knows how many there will be, and what it logs reaches others."""
        heard = train()
        ended = last(service)
        assert (ended["name"], ended["units"], ended["units_done"], ended["total_units"]) == (
            "hf",
            "samples",
            96.0,
            96.0,
        )
        assert any(logs.get("chase/units_done") == 32.0 for logs in heard)

    def test_resumed_from_a_checkpoint(self, service, train, tmp_path):
        """What was done before is not this run's."""
        train()
        train(resume=str(tmp_path / "out/checkpoint-8"))
        ended = last(service)
        assert (ended["units_done"], ended["total_units"]) == (32.0, 32.0)

    def test_stopped_early(self, service, train):
        """By another callback: what was done counts, and the job has ended."""
        transformers = pytest.importorskip("transformers")

        class Stop(transformers.TrainerCallback):
            def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                control.should_training_stop = state.global_step >= 5

        train(more=[Stop()])
        assert last(service)["units_done"] == 40.0

    def test_without_a_service(self, train, monkeypatch, place):
        """The training is the same."""
        monkeypatch.setenv("CHASE_SOCKET", str(place / "none.sock"))
        monkeypatch.delenv("CHASE_JOB_ID", raising=False)
        assert len(train(attach=False)) >= 3


class TestLightning:
    @pytest.fixture
    def fit(self, tmp_path):
        """A linear module on 64 rows, in batches of 8."""
        lightning = pytest.importorskip("lightning")
        from lightning.pytorch.loggers import CSVLogger

        from chase.integrations.lightning import ChaseCallback

        class Module(lightning.LightningModule):
            def __init__(self, fails_at: int | None) -> None:
                super().__init__()
                self.layer, self.fails_at = torch.nn.Linear(4, 1), fails_at

            def training_step(self, batch: Any, index: int) -> Any:
                if index == self.fails_at:
                    raise RuntimeError("the secret of the data")
                return self.layer(batch[0]).square().mean()

            def configure_optimizers(self) -> Any:
                return torch.optim.SGD(self.parameters(), lr=0.1)

        def run(*, fails_at: int | None = None, **settings: Any) -> Path:
            rows = torch.utils.data.TensorDataset(torch.randn(64, 4))
            loader = torch.utils.data.DataLoader(rows, batch_size=8)
            logger = CSVLogger(tmp_path)
            trainer = lightning.Trainer(
                accelerator="cpu",
                logger=logger,
                enable_progress_bar=False,
                enable_model_summary=False,
                callbacks=[ChaseCallback("lit")],
                **{"max_epochs": 2, "log_every_n_steps": 2, "enable_checkpointing": False, **settings},
            )
            trainer.fit(Module(fails_at), loader)
            return Path(logger.log_dir) / "metrics.csv"

        return run

    def test_samples_and_scalars(self, service, fit):
        """Sixteen steps of eight; its own logger has what we log."""
        metrics = fit().read_text()
        ended = last(service)
        assert (ended["units"], ended["units_done"], ended["total_units"]) == ("samples", 128.0, 128.0)
        assert "chase/units_done" in metrics.splitlines()[0]

    def test_accumulation(self, service, fit):
        """A step of two batches is one step of twice the samples."""
        fit(accumulate_grad_batches=2)
        assert last(service)["units_done"] == 128.0

    def test_an_exception(self, service, fit):
        """Ends the job with its type, and not with what it says."""
        with pytest.raises(RuntimeError, match="secret"):
            fit(fails_at=3)
        ended = last(service)
        assert (ended["reason"], ended["units_done"]) == ("failed: RuntimeError", 24.0)


def test_accelerate(service, place):
    """The example as its users run it."""
    if importlib.util.find_spec("accelerate") is None:
        pytest.skip("accelerate is not installed")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, str(ROOT / "examples/accelerate_train.py")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    ended = last(service)
    assert (ended["units_done"], ended["total_units"]) == (6000.0, 6000.0)
