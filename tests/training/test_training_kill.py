"""A real training that is killed at random moments and resumed from its last checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from training_problems import Images, largest_difference, one_thread, train_as_ever  # noqa: E402

HERE = Path(__file__).parent
LENGTH, EPOCHS = 75, 6  # as in killed_training.py


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "kills"), [(0, 5), (2, 3)])
def test_no_kill_loses_or_repeats_a_sample(tmp_path, workers, kills):
    """Every epoch has every sample once, size and steps are restored, and the weights are those of an unbroken run."""
    done = subprocess.run(
        [sys.executable, "-W", "error", HERE / "killed_training.py", tmp_path, str(workers), str(kills)],
        env={**os.environ, "PYTHONPATH": f"{HERE.parents[1]}{os.pathsep}{HERE}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    killed, ended = map(int, done.stdout.split())
    assert (done.returncode, ended) == (0, 0), done.stderr
    assert killed >= 3
    saved = torch.load(tmp_path / "checkpoint")
    assert [sorted(used) for used in saved["used"]] == [list(range(LENGTH))] * EPOCHS
    assert len(saved["resumed"]) >= 1
    assert all(each[:3] == each[3:] for each in saved["resumed"])
    assert saved["steps"]["batching"]["steps"] == 4 * EPOCHS
    ours, theirs = Images(), Images()
    ours.load_state_dict(saved["model"])
    with one_thread():
        optimizer = torch.optim.AdamW(theirs.parameters(), 3e-3)
        train_as_ever(theirs, optimizer, Images.dataset(LENGTH), global_batch=24, epochs=EPOCHS)
    assert largest_difference(ours, theirs) < 1e-5
