"""Ranks of ``torch.distributed`` that are forked from one process, which has loaded torch once for all of them.

A test runs a script of its own with ``run``; the script hands what a rank does to ``fork``. Each rank writes what it
saw to DIRECTORY/RANK.json.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

WORLD = 4
_LONGEST_S = 60
_TESTS = Path(__file__).parent


def run(script: Path, directory: Path, *arguments: str) -> tuple[str, list[Any]]:
    """What the script printed, and what each rank saw; None of one that wrote nothing. Warnings are errors there."""
    places = (_TESTS.parent, _TESTS, script.parent)
    done = subprocess.run(
        [sys.executable, "-W", "error", script, directory, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places)), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    files = [directory / f"{rank}.json" for rank in range(WORLD)]
    return done.stdout, [json.loads(file.read_text()) if file.exists() else None for file in files]


def fork(as_rank: Callable[[int], None]) -> list[int]:
    """The exit status of each rank, minus the signal's number where one killed it."""
    pids = []
    for rank in range(WORLD):
        pid = os.fork()
        if pid == 0:
            _be(as_rank, rank)
        pids.append(pid)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def _be(as_rank: Callable[[int], None], rank: int) -> None:
    """A child never goes on into its parent's code, whatever it raises."""
    status = 1
    try:
        signal.alarm(_LONGEST_S)
        as_rank(rank)
        status = 0
    finally:
        if status:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(status)
