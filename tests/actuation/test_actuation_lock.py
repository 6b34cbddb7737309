"""One owner per GPU, by the kernel's word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zeus_core.actuation.base import ActuationError, HeldElsewhere
from zeus_core.actuation.lock import GpuLock

HOLD = """
import sys, pathlib
from zeus_core.actuation.lock import GpuLock
lock = GpuLock.acquire(pathlib.Path(sys.argv[1]), "GPU-a")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path):
    """Another process that holds GPU-a."""
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    with process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_second_holder_is_told_the_pid(tmp_path: Path, holder: subprocess.Popen[bytes]):
    """Who comes second learns who has the GPU."""
    with pytest.raises(HeldElsewhere, match=str(holder.pid)) as raised:
        GpuLock.acquire(tmp_path, "GPU-a")
    assert raised.value.pid == holder.pid


def test_killed_holder_does_not_block(tmp_path: Path, holder: subprocess.Popen[bytes]):
    """The kernel drops the lock of a process killed with -9; the file it leaves means nothing."""
    holder.kill()
    holder.wait()
    assert (tmp_path / "GPU-a.lock").exists()
    lock = GpuLock.acquire(tmp_path, "GPU-a")
    assert (tmp_path / "GPU-a.lock").read_text() == f"{os.getpid()}\n"
    lock.release()


def test_one_process_cannot_hold_it_twice(tmp_path: Path):
    """Two actuators in one process are two owners."""
    lock = GpuLock.acquire(tmp_path, "GPU-a")
    with pytest.raises(HeldElsewhere) as raised:
        GpuLock.acquire(tmp_path, "GPU-a")
    assert raised.value.pid == os.getpid()
    lock.release()
    lock.release()
    GpuLock.acquire(tmp_path, "GPU-a").release()


def test_gpus_are_apart(tmp_path: Path):
    """Another GPU is another lock."""
    locks = [GpuLock.acquire(tmp_path, uuid) for uuid in ("GPU-a", "GPU-b")]
    for lock in locks:
        lock.release()


def test_holder_that_did_not_sign(tmp_path: Path):
    """A holder whose pid is not in the file is another process, no more."""
    lock = GpuLock.acquire(tmp_path, "GPU-a")
    (tmp_path / "GPU-a.lock").write_text("garbage")
    with pytest.raises(HeldElsewhere, match="another process") as raised:
        GpuLock.acquire(tmp_path, "GPU-a")
    assert raised.value.pid is None
    lock.release()


def test_lock_is_not_inherited(tmp_path: Path):
    """A setter command that outlives us does not keep the GPU."""
    lock = GpuLock.acquire(tmp_path, "GPU-a")
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    lock.release()
    GpuLock.acquire(tmp_path, "GPU-a").release()
    child.kill()
    child.wait()


def test_links_are_not_followed(tmp_path: Path):
    """A link in the lock's place is not opened."""
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "GPU-a.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(ActuationError, match="cannot lock GPU-a"):
        GpuLock.acquire(tmp_path, "GPU-a")
    assert (tmp_path / "victim").read_text() == "precious"


def test_place_that_is_none(tmp_path: Path):
    """A lock directory that cannot be made is named, with what to do."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ActuationError, match="name another lock directory"):
        GpuLock.acquire(tmp_path / "file", "GPU-a")
