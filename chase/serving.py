"""Where the API is served: a Unix socket that is never open wider than its group, and uvicorn on it in a thread."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from chase.api import PeerProtocol
from chase.errors import ChaseError, ConfigError, TryLater
from chase.protocol import Impatient

_STOP_S = 10.0
_LONGEST_HEAD = 64 * 1024


class HttpServer:
    """Serves ``app`` on ``listener`` from construction to ``close``, in a thread."""

    def __init__(self, app: ASGIApp, listener: socket.socket, protocol: type[Impatient], name: str, most: int) -> None:
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=protocol,
                loop="asyncio",
                ws="none",
                lifespan="off",
                access_log=False,
                proxy_headers=False,  # a header must never overwrite what the kernel said of the caller
                server_header=False,
                log_config=None,
                log_level="error",  # what callers get wrong is theirs: nobody may fill our log with it
                limit_concurrency=most,
                h11_max_incomplete_event_size=_LONGEST_HEAD,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=2,
            )
        )
        self._thread = threading.Thread(target=self._server.run, args=([listener],), name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(_STOP_S)


class ApiServer(HttpServer):
    """The API at ``path``. Raises ``ChaseError`` or ``ConfigError``."""

    def __init__(self, app: FastAPI, path: Path, group: str | None) -> None:
        self._path = path
        super().__init__(app, listen(path, group), PeerProtocol, "api", most=128)

    def close(self) -> None:
        super().close()
        self._path.unlink(missing_ok=True)


def listen(path: Path, group: str | None) -> socket.socket:
    """0660 from its first moment. A socket that nobody answers at is replaced; where somebody does, ``TryLater``."""
    if path.exists() and not path.is_socket():
        raise ChaseError(f"{path} exists and is no socket, so it is not replaced; set service.socket")
    if _answered(path):
        raise TryLater(f"another service answers at {path}; stop it, or set service.socket (or CHASE_SOCKET)")
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    before = os.umask(0o117)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise ChaseError(f"cannot listen on {path}: {error.strerror or error}; set service.socket") from error
    finally:
        os.umask(before)
    if group is not None:
        _give_to_group(path, group)
    listener.listen(64)
    return listener


def _answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as caller:
        caller.settimeout(1.0)
        try:
            caller.connect(str(path))
        except OSError as error:
            return isinstance(error, TimeoutError | BlockingIOError)  # it is there, and busy
    return True


def _give_to_group(path: Path, group: str) -> None:
    try:
        shutil.chown(path, group=group)
    except (LookupError, OSError) as error:
        raise ConfigError(f"service.socket_group = {group!r}: {error}; name a group that this user is in") from error
