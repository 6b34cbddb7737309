"""Real trainings under the real service: the grid changes, limit and batch size follow, and nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from service_node import CLEAN, DIRTY, Node, until
from standin import State

from chase.client import Recurring
from chase.clock import SystemClock
from chase.records import RecurrenceRecord, TrialRecord
from chase.recurrences import key_of
from chase.store import Store
from zeus_core.frontier import Frontier, OperatingPoint, Setting

pytest.importorskip("torch")

TRAINER = Path(__file__).with_name("trainer.py")
OWN, FULL_W, LOW_W = 16, 275.0, 150.0
# Clean hours are for the large batch at full power, dirty ones for the small one at little.
DIGITS, TEXT = ("--model", "digits", "--epochs", "5"), ("--model", "text", "--epochs", "12")
POINTS = ((FULL_W, 32, 0.010, 2.6), (FULL_W, 16, 0.011, 2.7), (LOW_W, 16, 0.016, 1.7), (LOW_W, 8, 0.017, 1.5))


def frontier(ranks: int) -> Frontier:
    points = [OperatingPoint(Setting(w, batch_size=size // ranks), s, j) for w, size, s, j in POINTS]
    return Frontier.of(points, Setting(FULL_W, batch_size=OWN // ranks))


def start(node: Node, *, ranks: int = 1, gpus: int = 1, trained_at: int | None = None) -> None:
    """Services that know the job from an earlier run; ``trained_at`` is the batch that a recurring one has to try."""
    node.state.root_uid = 0 if node.uid != 0 else -1
    node.grid(CLEAN)
    store = Store(node.db, clock=SystemClock())
    # What asks is the trainer's owner, root or whoever runs the tests.
    cards = "|".join([f"{node.state[0].raw.name.decode()}@{FULL_W:g}W"] * gpus)
    key = f"uid {os.geteuid()}|{cards}|train|samples|batch {OWN // ranks}"
    if trained_at is not None:
        key += f"|trained at batch {trained_at}"
        keep_a_first_training(store, f"1 x {node.state[0].raw.name.decode()}")
    store.save_frontier(key, frontier(ranks), SystemClock().now())
    store.close()
    for path in node.db.parent.iterdir():
        os.chown(path, node.uid, -1)
    node.start_actuator()
    node.start_service()


def keep_a_first_training(store: Store, gpu_model: str) -> None:
    """At the default, which reached its target: so the next one tries another size."""
    now, key = SystemClock().now(), key_of(os.geteuid(), "train")
    spec = {**Recurring(batch_sizes=(32, 64), default=32, target=5, max_epochs=5).to_dict(), "batch_sizes": [32, 64]}
    store.keep_recurrence(RecurrenceRecord(key=key, uid=os.geteuid(), name="train", spec=spec, changed_at=now))
    ended = {"status": "converged", "ended_at": now, "energy_j": 1e6, "duration_s": 4e3, "epochs": 5}
    chosen = {"batch_size": 32, "stage": "pruning", "eta": 0.5, "reason": "batch 32 has not been tried yet"}
    store.keep_trial(
        TrialRecord(key=key, number=1, job_id="e" * 16, began_at=now, gpu_model=gpu_model, **chosen, **ended)
    )


def launch(node: Node, out: Path, *flags: str, name: str = "train") -> subprocess.Popen[bytes]:
    command = [sys.executable, str(TRAINER), str(out), "--step-s", "0.004", *flags]
    argv = [sys.executable, "-m", "chase", "exec", "--name", "train", "--gpus", "0", "--", *command]
    return node.spawn(argv, name)


@cache
def fixed(*flags: str) -> list[dict[str, Any]]:
    """The same training with nobody beside it."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "fixed.json"
        subprocess.run([sys.executable, str(TRAINER), str(out), "--fixed", *flags], env=env, check=True, timeout=100)
        return json.loads(out.read_text())


def swing(node: Node, process: subprocess.Popen[bytes], every_s: float) -> None:
    """The grid is dirty and clean by turns until the training ends."""
    pause, dirty = threading.Event(), True
    while process.poll() is None:
        node.grid(DIRTY if dirty else CLEAN)
        dirty = not dirty
        until_s = time.monotonic() + every_s
        while process.poll() is None and time.monotonic() < until_s:
            pause.wait(0.05)


def same_weights(one: dict[str, Any], other: dict[str, Any]) -> float:
    return max(abs(a - b) for a, b in zip(one["weights"], other["weights"], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["digits", "text"])
def test_changes_mid_run_and_comes_to_the_same(make_training_node, tmp_path, model):
    """With the global batch kept: other limits, other microbatches, and the same weights, steps, samples and rates."""
    node, out = make_training_node(), tmp_path / "out.json"
    flags = DIGITS if model == "digits" else TEXT
    start(node)
    process = launch(node, out, *flags)
    until(lambda: b"begins" in node.said("train"), "the training begins", 60)
    swing(node, process, 0.5)
    assert process.returncode == 0, node.said("train").decode()
    (ours,), (theirs,) = json.loads(out.read_text()), fixed(*flags)
    assert {size for _, size in ours["changes"]} >= {8, 32}
    assert {row.power_limit_w for row in node.decisions()} >= {FULL_W, LOW_W}
    assert same_weights(ours, theirs) < 1e-5
    assert (ours["steps"], ours["samples"], ours["rates"]) == (theirs["steps"], theirs["samples"], theirs["rates"])
    assert ours["each_once"]
    assert ours["accuracy"] == pytest.approx(theirs["accuracy"], abs=1e-6)
    until(lambda: node.limits[0] == FULL_W, "the card is given back")


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_inside_a_recurrence(make_training_node, tmp_path):
    """The second of a job is trained at the batch that it tries, and limit and microbatch follow the grid meanwhile."""
    node, out = make_training_node(), tmp_path / "out.json"
    start(node, trained_at=64)
    process = launch(node, out, *DIGITS, "--recurring", "32", "64")
    until(lambda: b"begins" in node.said("train"), "the training begins", 60)
    swing(node, process, 0.5)
    assert process.returncode == 0, node.said("train").decode()
    (ours,), (theirs,) = json.loads(out.read_text()), fixed(*DIGITS, "--global", "64")
    assert ours["global_batch"] == 64
    assert {microbatch for _, microbatch in ours["changes"]} >= {8, 32}
    assert same_weights(ours, theirs) < 1e-5
    assert (ours["steps"], ours["samples"], ours["rates"]) == (theirs["steps"], theirs["samples"], theirs["rates"])
    with Store(node.db, clock=SystemClock()) as store:
        trial = store.trials()[-1]
    assert (trial.number, trial.batch_size, trial.status, trial.epochs) == (2, 64, "converged", 5)
    assert trial.energy_j > 0
    assert {row.power_limit_w for row in node.decisions()} >= {FULL_W, LOW_W}


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_with_a_learning_rate_rule_it_learns_as_well(make_training_node, tmp_path):
    """Other global batches at the square root's rate: over five seeds the accuracy is within what seeds make of it."""
    node, out = make_training_node(), tmp_path / "out.json"
    flags = ["--epochs", "3", "--seeds", "1", "2", "3", "4", "5"]
    start(node)
    process = launch(node, out, *flags, "--rule", "sqrt")
    until(lambda: b"begins" in node.said("train"), "the training begins", 60)
    swing(node, process, 0.5)
    assert process.returncode == 0, node.said("train").decode()
    ours, theirs = json.loads(out.read_text()), fixed(*flags)
    assert sum(len(run["changes"]) for run in ours) >= 5
    assert all(run["each_once"] for run in ours)
    mine, other = ([run["accuracy"] for run in runs] for runs in (ours, theirs))
    noise = statistics.stdev(other) + 0.02
    assert statistics.mean(mine) > statistics.mean(other) - noise


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_killed_and_resumed(make_training_node, tmp_path):
    """Killed at moments nobody chose and begun again from its checkpoint: as if nothing had been."""
    node, out, checkpoint = make_training_node(), tmp_path / "out.json", tmp_path / "state.pt"
    flags = [*DIGITS, "--checkpoint", str(checkpoint)]
    start(node)
    for kill in range(2):
        process = launch(node, out, *flags, name=f"train{kill}")
        until(lambda name=f"train{kill}": b"begins" in node.said(name), "the training begins", 60)
        node.grid(DIRTY if kill % 2 == 0 else CLEAN)
        threading.Event().wait(0.5 + 0.3 * kill)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    process = launch(node, out, *flags)
    swing(node, process, 0.5)
    assert process.returncode == 0, node.said("train").decode()
    (ours,), (theirs,) = json.loads(out.read_text()), fixed(*DIGITS)
    assert ours["each_once"]
    assert (ours["steps"], ours["samples"], ours["rates"]) == (theirs["steps"], theirs["samples"], theirs["rates"])
    assert same_weights(ours, theirs) < 1e-5


@pytest.mark.slow
def test_the_service_is_killed_in_the_middle_of_a_change(make_training_node, tmp_path):
    """The training goes on at its own batch size and ends well; the card is given back at once."""
    node, out = make_training_node(), tmp_path / "out.json"
    start(node)
    process = launch(node, out, *DIGITS)
    until(lambda: b"begins" in node.said("train"), "the training begins", 60)
    node.grid(DIRTY)
    until(lambda: node.limits[0] == LOW_W, "the limit is down")
    node.grid(CLEAN)
    os.killpg(node.processes[1].pid, signal.SIGKILL)
    until(lambda: node.limits[0] == FULL_W, "the card is given back")
    assert process.wait(60) == 0, node.said("train").decode()
    (ours,), (theirs,) = json.loads(out.read_text()), fixed(*DIGITS)
    assert same_weights(ours, theirs) < 1e-5
    assert (ours["steps"], ours["samples"]) == (theirs["steps"], theirs["samples"])


class TestTwoNodes:
    """Two daemons with sockets and cards of their own, and one training of four ranks across them."""

    @pytest.fixture
    def nodes(self, make_training_node, place) -> list[Node]:
        found = []
        for i, state in enumerate((None, State.create(place / "other-cards", gpus=2, limit_w=FULL_W))):
            node = make_training_node(f"node{i}", state=state)
            start(node, ranks=4, gpus=2)
            found.append(node)
        return found

    @staticmethod
    def launch(nodes: list[Node], out: Path, *flags: str) -> list[subprocess.Popen[bytes]]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        torchrun = ["torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2", "--master-addr", "127.0.0.1"]
        command = [str(TRAINER), str(out), "--step-s", "0.004", *flags]
        processes = []
        for rank, node in enumerate(nodes):
            place = ["--node-rank", str(rank), "--master-port", str(port)]
            argv = [sys.executable, "-m", "chase", "exec", "--name", "train", "--gpus", "0,1", "--"]
            processes.append(node.spawn([*argv, sys.executable, "-m", *torchrun, *place, *command], "train"))
        return processes

    @pytest.mark.slow
    @pytest.mark.timeout(180)
    def test_one_plan_for_all_ranks(self, nodes, tmp_path):
        """Limits and batch sizes are those of the first node's grid, on all ranks from one step on."""
        out = tmp_path / "out.json"
        processes = self.launch(nodes, out, *TEXT)
        until(lambda: all(b"begins" in node.said("train") for node in nodes), "the training begins", 90)
        until(lambda: all(len(node.status()["jobs"]) == 1 for node in nodes), "both services know it", 30)
        nodes[0].grid(DIRTY)
        until(lambda: all(node.limits == [LOW_W, LOW_W] for node in nodes), "all four cards are at one limit", 30)
        swing(nodes[0], processes[0], 0.5)
        for node, process in zip(nodes, processes, strict=True):
            assert process.wait(60) == 0, node.said("train").decode()
        ranks = [json.loads(out.with_name(f"{out.name}.{rank}").read_text())[0] for rank in range(4)]
        (theirs,) = fixed(*TEXT)
        assert len(ranks[0]["changes"]) >= 2
        assert all(rank["changes"] == ranks[0]["changes"] for rank in ranks)
        assert sum(rank["samples"] for rank in ranks) == theirs["samples"]
        assert all(rank["steps"] == theirs["steps"] and rank["rates"] == theirs["rates"] for rank in ranks)
        assert max(same_weights(rank, theirs) for rank in ranks) < 1e-5
        until(lambda: all(node.limits == [FULL_W, FULL_W] for node in nodes), "all cards are given back")
        assert "another node leads" in nodes[1].decisions()[-1].reason

    @pytest.mark.slow
    @pytest.mark.timeout(180)
    def test_a_rank_is_killed(self, nodes, tmp_path):
        """The training ends on both nodes, as torchrun has it, and all cards are given back."""
        processes = self.launch(nodes, tmp_path / "out.json", "--model", "text", "--epochs", "2000")
        until(lambda: all(b"begins" in node.said("train") for node in nodes), "the training begins", 90)
        until(lambda: all(len(node.status()["jobs"]) == 1 for node in nodes), "both services know it", 30)
        nodes[0].grid(DIRTY)
        until(lambda: nodes[0].limits == [LOW_W, LOW_W], "the change begins", 30)
        subprocess.run(["pkill", "-KILL", "-n", "-f", f"{TRAINER} {tmp_path}"], check=True)
        for process in processes:
            assert process.wait(90) != 0
        until(lambda: all(node.limits == [FULL_W, FULL_W] for node in nodes), "all cards are given back")
