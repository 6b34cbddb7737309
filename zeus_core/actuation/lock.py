"""One owner per GPU. The kernel holds the lock, so it cannot outlive its holder, not even a killed one."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from zeus_core.actuation.base import ActuationError, HeldElsewhere
from zeus_core.actuation.journal import checked_name


class GpuLock:
    """A held lock. The file stays behind on release: unlinking it would let two processes lock two files."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, lock_dir: Path, uuid: str) -> GpuLock:
        """Raises ``HeldElsewhere`` with the holder's pid, or ``ActuationError`` if the file cannot be opened."""
        path = lock_dir / f"{checked_name(uuid)}.lock"
        try:
            lock_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ActuationError(
                f"cannot lock {uuid} in {path}: {error.strerror}; another user's actuator may hold it, "
                "or name another lock directory"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = _pid_in(descriptor)
            os.close(descriptor)
            holder = f"process {pid}" if pid else "another process"
            raise HeldElsewhere(f"{uuid} is held by {holder}: it has one actuator at a time", pid=pid) from error
        _sign(descriptor)
        return cls(descriptor)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _sign(descriptor: int) -> None:
    """The pid is for people alone, so a full disk does not matter here."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)


def _pid_in(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else None
