"""What docs/batch-size.md shows is what runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from training_problems import Images, one_thread  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "batch-size.md"


def run_the_page(path, epochs):
    """Its first block as it stands, but for how often it makes a checkpoint."""
    (code, *_) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    model = Images()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    names = {
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 100),
        "dataset": Images.dataset(512),
        "mean_loss": torch.nn.functional.cross_entropy,
        "path": path,
        "epochs": epochs,
    }
    with one_thread():
        exec(code.replace("% 100", "% 4"), names)
    return names


def test_the_loop_of_the_page_trains_and_resumes(tmp_path):
    """The first block runs as it stands: to its end, and then on from its own checkpoint."""
    for epochs in (2, 4):
        names = run_the_page(tmp_path / "checkpoint", epochs)
        assert (names["batching"].steps, names["scheduler"].last_epoch) == (2 * epochs, 2 * epochs)


def test_a_checkpoint_of_the_page_that_ends_midway_leaves_the_one_before(tmp_path, monkeypatch):
    """Killed while it writes, the loop goes on from what it had."""
    run_the_page(tmp_path / "checkpoint", 2)

    def killed(_, path):
        path.write_bytes(b"half of it")
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", killed)
        with pytest.raises(SystemExit):
            run_the_page(tmp_path / "checkpoint", 4)
    assert run_the_page(tmp_path / "checkpoint", 4)["batching"].steps == 8
