"""What docs/batch-size.md shows is what runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from training_problems import Images, one_thread  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "batch-size.md"


def test_the_loop_of_the_page_trains_and_resumes(tmp_path):
    """The first block runs as it stands: to its end, and then on from its own checkpoint."""
    (code, *_) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    code = code.replace("% 100", "% 4")
    for epochs in (2, 4):
        model = Images()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        names = {
            "model": model,
            "optimizer": optimizer,
            "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 100),
            "dataset": Images.dataset(512),
            "mean_loss": torch.nn.functional.cross_entropy,
            "path": tmp_path / "checkpoint",
            "epochs": epochs,
        }
        with one_thread():
            exec(code, names)
        assert (names["batching"].steps, names["scheduler"].last_epoch) == (2 * epochs, 2 * epochs)
