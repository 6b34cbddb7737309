"""systemd's readiness and watchdog protocol: a datagram to the socket that it names. A no-op anywhere else."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


class Notifier:
    """Sends state to the service manager. A manager that is gone must never hurt the service, so errors are ignored."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        address = env.get("NOTIFY_SOCKET", "")
        # A leading @ names the abstract namespace, in which the first byte is zero.
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def __call__(self, *states: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.settimeout(1.0)
                sock.sendto("\n".join(states).encode(), self._address)
        except OSError:
            return
