"""systemd's readiness and watchdog protocol: a datagram to the socket that it names. A no-op anywhere else."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

_USUAL_S = 10.0


class Notifier:
    """Sends state to the service manager. A manager that is gone must never hurt the service, so errors are ignored.

    ``watchdog_s`` is how often it wants to hear that we live: half of what it allows.
    """

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        address = env.get("NOTIFY_SOCKET", "")
        # A leading @ names the abstract namespace, in which the first byte is zero.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        usec = env.get("WATCHDOG_USEC", "")
        self.watchdog_s = int(usec) / 2e6 if usec.isdigit() else _USUAL_S

    def __call__(self, *states: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.settimeout(1.0)
                sock.sendto("\n".join(states).encode(), self._address)
        except OSError:
            return
