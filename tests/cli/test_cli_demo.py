"""``chase demo`` as a process of its own: what a person does to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest


def _gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_ctrl_c_ends_it_and_all_that_it_began(tmp_path):
    """The services of the regions end in order, and no process of the demo stays behind."""
    command = [sys.executable, "-m", "chase", "demo", "--seconds", "600", "--region", "gb", "--folder", str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as demo:
        try:
            deadline = time.monotonic() + 60
            while not (tmp_path / "gb.sqlite").exists():
                assert demo.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            os.killpg(demo.pid, signal.SIGINT)
            _, errors = demo.communicate(timeout=60)
        finally:
            if not _gone(demo.pid):
                os.killpg(demo.pid, signal.SIGKILL)
    assert demo.returncode != 0
    assert "Aborted" in errors
    assert "Traceback" not in errors
    deadline = time.monotonic() + 20
    while not _gone(demo.pid):  # what multiprocessing itself keeps goes a moment later
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "stopped" in (tmp_path / "gb.log").read_text()


pytestmark = pytest.mark.timeout(150)
