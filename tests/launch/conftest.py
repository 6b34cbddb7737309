"""Launchers as real processes, and the service that they report to."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "client"))

from daemon_peer import PeerDaemon

ROOT = Path(__file__).parents[2]
LAUNCHER = [sys.executable, "-c", "import sys; from chase.launch import run; sys.exit(run(sys.argv[1:]))"]
PATIENCE_S = 20.0
_NOT_OURS = ("CHASE_JOB_ID", "CHASE_JOB_DIR", "CHASE_JOB_GPUS", "CUDA_VISIBLE_DEVICES", "LOCAL_RANK", "SLURM_LOCALID")


def launcher_env(socket: Path, **extra: object) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
    return {**env, "PYTHONPATH": str(ROOT), "CHASE_SOCKET": str(socket), **{k: str(v) for k, v in extra.items()}}


def until(told: Callable[[], Any], what: str) -> Any:
    """A state of another process, which announces nothing."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (found := told()):
        assert time.monotonic() < deadline_s, f"never: {what}"
        time.sleep(0.005)
    return found


def process_state(pid: int) -> str:
    """The letter of ``ps``: R, S, T for stopped, Z; empty once gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Running:
    """A launcher whose command writes lines: the first of them says that it is ready."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, err


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A directory whose path leaves room for a socket's name, which may have 107 bytes."""
    directory = Path(tempfile.mkdtemp(prefix="chase-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def socket_path(short_dir: Path) -> Path:
    return short_dir / "chase.sock"


@pytest.fixture
def daemon(socket_path: Path) -> Iterator[PeerDaemon]:
    with PeerDaemon(socket_path, report_s=0.1).running() as peer:
        yield peer


@pytest.fixture
def launch(socket_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command under a launcher to its end."""

    def run(*argv: str, stdin: str = "", **env: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*LAUNCHER, *argv],
            env=launcher_env(socket_path, **env),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def running(socket_path: Path) -> Iterator[Callable[..., Running]]:
    """Start a launcher and go on; whatever is left of it and its command at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*argv: str, **env: object) -> Running:
        process = subprocess.Popen(
            [*LAUNCHER, *argv],
            env=launcher_env(socket_path, **env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        started.append(process)
        return Running(process)

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
