"""A launcher as a real process, and what a test needs to look at it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
