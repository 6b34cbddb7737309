"""The signal on a TCP port, beside the service, in a thread of its own."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence

from chase.config.fields import is_loopback, split_address
from chase.config.models import ShareConfig
from chase.errors import ChaseError, ConfigError
from chase.protocol import OneRequest
from chase.serving import HttpServer
from chase.share.app import create_app
from chase.share.callers import BURST, RATE_PER_S, Callers
from chase.share.document import Shared

_MOST_CONNECTIONS = 64
_SHORTEST_TOKEN = 16


class ShareServer(HttpServer):
    """Listens from construction to ``close``. Raises ``ConfigError`` without a token where one is needed, or
    ``ChaseError`` where the port cannot be had.
    """

    def __init__(self, config: ShareConfig, shared: Sequence[Shared], *, env: Mapping[str, str] = os.environ) -> None:
        host, port = split_address(config.listen or "")
        token = _token(config.token_env, env)
        if token is None and not is_loopback(host):
            raise ConfigError(f"share.listen {config.listen} can be reached from other machines; set share.token_env")
        callers = Callers(time.monotonic, rate_per_s=RATE_PER_S, burst=BURST)
        app = create_app(shared, token=token, callers=callers)
        listener = _listen(host, port)
        self.url = _url(listener)
        super().__init__(app, listener, OneRequest, "share", _MOST_CONNECTIONS)


def _token(variable: str | None, env: Mapping[str, str]) -> str | None:
    if variable is None:
        return None
    token = env.get(variable, "").strip()
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"share.token_env: {variable} holds no token of at least {_SHORTEST_TOKEN} letters and digits; set it to "
            "one, such as of `openssl rand -hex 32`"
        )
    return token


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ChaseError(f"share.listen: {host}: {error.strerror or error}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_MOST_CONNECTIONS)
    except OSError as error:
        listener.close()
        raise ChaseError(f"share.listen: cannot listen on {host} port {port}: {error.strerror or error}") from error
    return listener


def _url(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
