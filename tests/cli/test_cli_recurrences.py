"""``chase recurrences``: what was tried, what is believed of it by now, and a person's word."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from conftest import BEGAN

from chase.clock import ManualClock
from chase.records import RecurrenceRecord, TrialRecord
from chase.store import Store

SPEC = {
    "batch_sizes": [32, 64, 128],
    "default": 64,
    "target": 0.8,
    "higher_is_better": True,
    "max_epochs": 10,
    "beta": 2.0,
}
RANKING = RecurrenceRecord(key="uid 1000|ranking", uid=1000, name="ranking", spec=SPEC, changed_at=BEGAN)
TOOK = ((64, "converged", 1e6, 5000.0), (32, "converged", 8e5, 8000.0), (128, "out of memory", 1e4, 60.0))


@pytest.fixture
def tried(tmp_path):
    """A database with three trainings of a job."""
    path = tmp_path / "chase.sqlite"
    with Store(path, clock=ManualClock(BEGAN)) as store:
        store.keep_recurrence(RANKING)
        for number, (size, status, joules, seconds) in enumerate(TOOK, 1):
            began = BEGAN + number * timedelta(days=1)
            store.keep_trial(
                TrialRecord(
                    key=RANKING.key,
                    number=number,
                    job_id="a" * 16,
                    batch_size=size,
                    stage="pruning",
                    status=status,
                    eta=0.5,
                    reason=f"batch {size} has not been tried yet",
                    began_at=began,
                    ended_at=began + timedelta(seconds=seconds),
                    energy_j=joules,
                    duration_s=seconds,
                    epochs=4,
                    metric=0.81,
                    gpu_model="1 x NVIDIA A40",
                    max_power_w=300.0,
                )
            )
    return path


def test_all_of_them(run, tried):
    """A line for each, with the best size at eta 0.5."""
    result = run("recurrences", "--db", tried)
    assert result.exit_code == 0
    assert result.stdout.split()[-9:] == ["ranking", "1000", "32,", "64,", "128", "64", "-", "3", "64"]


def test_one_with_its_trials(run, tried):
    """What is believed of each size, and each training with its reason."""
    text = run("recurrences", "show", "ranking", "--db", tried).stdout
    assert "ranking: 3 trainings; what a batch size costs at eta 0.5" in text
    assert "64  1.25 MJ, give or take" in text
    assert "by 1 training, its own, the best" in text
    assert "128  given up: out of memory" in text
    assert "out of memory" in text


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (["lost"], "nothing known: lost"),
        (["stopped early", "lost", "lost"], "nothing known: stopped early, lost 2 times"),
        (["failed", "failed"], "given up: failed 2 times"),
        ([], "not tried"),
    ],
)
def test_a_size_of_which_nothing_is_known_says_why(run, tried, ended, said):
    """Tried, and how that ended."""
    with Store(tried, clock=ManualClock(BEGAN)) as store:
        first, *_, last = store.trials(RANKING.key)
        store.keep_trial(replace(last, batch_size=64, status="lost"))
        for number, status in enumerate(ended, 4):
            store.keep_trial(replace(first, number=number, batch_size=128, status=status))
    assert f"128  {said}\n" in run("recurrences", "show", "ranking", "--db", tried).stdout


def test_what_was_tried_on_other_gpus_says_so(run, tried):
    """One training on a node with other cards: the rest is translated by what an epoch cost there."""
    with Store(tried, clock=ManualClock(BEGAN)) as store:
        first = store.trials(RANKING.key)[0]
        store.keep_trial(replace(first, number=4, energy_j=5e5, duration_s=2500.0, gpu_model="1 x NVIDIA H100"))
    text = run("recurrences", "show", "ranking", "--eta", "1", "--db", tried).stdout
    assert "64  500 kJ, give or take" in text
    assert "32  400 kJ, give or take 80 kJ, by what it took on other GPUs" in text


def test_another_eta_is_another_best(run, tried):
    """Worked out anew, of joules and seconds."""
    best = {
        eta: json.loads(run("recurrences", "show", "ranking", "--eta", eta, "--db", tried, "--json").stdout)["best"]
        for eta in ("0", "1")
    }
    assert best == {"0": 64, "1": 32}


def test_one_that_nobody_trained(run, tried):
    """Named, with where to look."""
    result = run("recurrences", "show", "rankin", "--db", tried)
    assert result.exit_code == 1
    assert "no job 'rankin' was trained here as a recurring one; 'chase recurrences' lists them" in result.stderr


def test_none_at_all(run, tmp_path):
    """Said so."""
    Store(tmp_path / "empty.sqlite", clock=ManualClock(BEGAN)).close()
    assert "No recurring jobs." in run("recurrences", "--db", tmp_path / "empty.sqlite").stderr


@pytest.mark.parametrize("size", ["large", "-3", "1.5", "1" * 5000])
def test_a_batch_size_is_a_whole_number(run, size):
    """Before anybody is asked."""
    result = run("recurrences", "pin", "ranking", "--", size)
    assert result.exit_code == 2
    assert f"a batch size is a whole number, or none, not '{size[:60]}'" in " ".join(result.stderr.split())
