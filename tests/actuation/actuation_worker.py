"""Processes that the tests start and kill: a real server, and a client that runs as another user.

actuation_worker.py server OPTIONS-AS-JSON      prints "ready" when it listens
actuation_worker.py local OPTIONS-AS-JSON       a LocalActuator that applies what it is told, see ``client``
actuation_worker.py client UID                  reads pickled (method, arguments), writes pickled (result, error)
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import random
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from zeus_core.actuation import server
from zeus_core.actuation.base import Actuator, Wish
from zeus_core.actuation.local import LocalActuator
from zeus_core.actuation.remote import RemoteActuator
from zeus_core.actuation.setter import DriverSetter
from zeus_core.gpus.base import Gpu
from zeus_core.gpus.nvml import NvmlSystem


class DyingSetter(DriverSetter):
    """Kills its own process at the ``at``-th change of a limit, before or after it is made."""

    def __init__(self, at: int, *, after: bool) -> None:
        self._left = at
        self._after = after

    def set_power_limit_w(self, gpu: Gpu, power_limit_w: float) -> None:
        self._left -= 1
        if self._left == 0 and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        super().set_power_limit_w(gpu, power_limit_w)
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Session:
    """What a worker can be asked to do, beside the methods of the actuator itself."""

    def __init__(self, actuator: Actuator | None = None) -> None:
        self.actuator = actuator

    def connect(self, path: str, timeout_s: float) -> None:
        self.actuator = RemoteActuator(Path(path), timeout_s=timeout_s)

    def whoami(self) -> tuple[int, int]:
        return os.getuid(), os.getpid()

    def churn(self, uuids: list[str], seed: int) -> None:
        """Random wishes for ever, or until the server is gone."""
        rng = random.Random(seed)
        with suppress(Exception):
            while True:
                self.actuator.apply({uuid: Wish(rng.randrange(100, 320, 10)) for uuid in uuids})


def answer_forever(session: Session) -> None:
    with suppress(EOFError, BrokenPipeError):
        while True:
            method, arguments = pickle.load(sys.stdin.buffer)
            target: Any = session if hasattr(session, method) else session.actuator
            result = error = None
            try:
                result = getattr(target, method)(*arguments)
            except Exception as raised:  # noqa: BLE001  # raised again at the other end
                error = raised
            pickle.dump((result, error), sys.stdout.buffer)
            sys.stdout.buffer.flush()


def options_of(text: str) -> dict[str, Any]:
    options = json.loads(text)
    if "die_at" in options:
        options["setter"] = DyingSetter(options.pop("die_at"), after=options.pop("die_after"))
    return {key: Path(value) if key.endswith(("_path", "_dir")) else value for key, value in options.items()}


def say_ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def main(role: str, argument: str) -> int:
    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
    if role == "server":
        return server.run(NvmlSystem(), ready=say_ready, **options_of(argument))
    if role == "local":
        answer_forever(Session(LocalActuator(NvmlSystem(), **options_of(argument))))
    elif role == "client":
        uid = int(argument)
        if uid != os.getuid():
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        answer_forever(Session())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
