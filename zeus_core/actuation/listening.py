"""A Unix socket that belongs to one user from its first moment."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from zeus_core.actuation.base import ActuationError

_MAX_PATH = 107  # sockaddr_un
_PROBE_TIMEOUT_S = 2.0


@contextmanager
def listening(path: Path, uid: int, gid: int | None = None) -> Iterator[socket.socket]:
    """A listening socket at ``path``, which never exists with another owner or mode than for ``uid`` and ``gid``.

    It is made under another name and renamed, which also replaces what a killed server left. Raises ``ActuationError``.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    if len(os.fsencode(temporary)) > _MAX_PATH:
        raise ActuationError(f"the socket path {path} is too long: a Unix socket has at most {_MAX_PATH} bytes")
    if path.exists() and not path.is_socket():
        raise ActuationError(f"{path} exists and is no socket: it is not replaced; name another path")
    if _answers(path):
        raise ActuationError(f"another server answers on {path}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            _bind_private(listener, temporary)
            # In this order: the mode of another user's file is his to change, or CAP_FOWNER's, which we do without.
            os.chown(temporary, -1, -1 if gid is None else gid)
            temporary.chmod(0o600 if gid is None else 0o660)
            os.chown(temporary, uid, -1)
            listener.listen(16)
            temporary.replace(path)
            inode = path.stat().st_ino
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise ActuationError(f"cannot listen on {path} for uid {uid}: {error.strerror}") from error
        try:
            yield listener
        finally:
            with suppress(OSError):
                if path.stat().st_ino == inode:
                    path.unlink()


def _bind_private(listener: socket.socket, path: Path) -> None:
    """Nobody but us may connect until the owner is right."""
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_TIMEOUT_S)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
