"""Launchers as real processes, and the service that they report to."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "client"))

from daemon_peer import PeerDaemon
from launch_harness import LAUNCHER, PATIENCE_S, Running, launcher_env


@pytest.fixture
def socket_path(place: Path) -> Path:
    return place / "chase.sock"


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
