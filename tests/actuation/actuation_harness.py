"""Real processes for the actuation tests, and one view of the cards for all backends."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from zeus_core.actuation.base import Actuator, Applied, GpuState, Wish

ORIGINAL_W = 275.0
WORKER = Path(__file__).with_name("actuation_worker.py")
ROOT = Path(__file__).parents[2]
NOBODY = 65534


def other_uid() -> int:
    """Another user where we may become one, and else ourselves."""
    return NOBODY if os.geteuid() == 0 else os.geteuid()


def until(condition: Callable[[], bool], within_s: float = 5.0) -> float:
    """Seconds until another process made ``condition`` true; fails after ``within_s``."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > within_s:
            raise AssertionError(f"not within {within_s} s")
        time.sleep(0.002)
    return time.monotonic() - began


def spawn(role: str, argument: str, **pipes: Any) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, str(WORKER), role, argument], env=env, **pipes)


class ServerProcess:
    """A privileged process over the stand-in library, for ``uid``."""

    def __init__(self, place: Path, uid: int, **options: Any) -> None:
        self.socket_path = place / "actuator.sock"
        self.log = place / "server.log"
        defaults = {"uid": uid, "lease_s": 30.0, "ramp_w_per_s": 0.0}
        paths = {
            "socket_path": str(self.socket_path),
            "state_dir": str(place / "state"),
            "lock_dir": str(place / "locks"),
        }
        with self.log.open("ab") as log:
            argument = json.dumps(defaults | paths | options)
            self.process = spawn("server", argument, stdout=subprocess.PIPE, stderr=log)
        self.said = self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def terminate(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(timeout=10)
        self.process.stdout.close()
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.wait()


class Worker:
    """A process that holds an actuator, spoken to through pipes; itself an ``Actuator``."""

    def __init__(self, role: str, argument: str) -> None:
        self.process = spawn(role, argument, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @property
    def backend(self) -> str:
        return "remote"

    def tell(self, method: str, *arguments: Any) -> None:
        pickle.dump((method, arguments), self.process.stdin)
        self.process.stdin.flush()

    def ask(self, method: str, *arguments: Any) -> Any:
        self.tell(method, *arguments)
        result, error = pickle.load(self.process.stdout)
        if error is not None:
            raise error
        return result

    def connect(self, path: Path, timeout_s: float = 10.0) -> None:
        self.ask("connect", str(path), timeout_s)

    def describe(self) -> tuple[GpuState, ...]:
        return self.ask("describe")

    def apply(self, wishes: Mapping[str, Wish]) -> dict[str, Applied]:
        return self.ask("apply", dict(wishes))

    def restore(self, uuids: Iterable[str] | None = None) -> dict[str, Applied]:
        return self.ask("restore", None if uuids is None else list(uuids))

    def keepalive(self) -> None:
        self.ask("keepalive")

    def close(self) -> None:
        self.ask("close")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=10)
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


class Cards(Protocol):
    """The cards behind an actuator, as fate and other administrators see them."""

    uuids: tuple[str, ...]

    def limit_w(self, index: int) -> float: ...
    def foreign(self, index: int, limit_w: float) -> None: ...
    def clocks(self, index: int) -> tuple[int, int] | None: ...


class StandinCards:
    def __init__(self, state: Any) -> None:
        self.state = state
        self.uuids = state.uuids

    def limit_w(self, index: int) -> float:
        return self.state[index].limit_w

    def foreign(self, index: int, limit_w: float) -> None:
        self.state[index].limit_w = limit_w

    def clocks(self, index: int) -> tuple[int, int] | None:
        return self.state[index].locked_sm_mhz


class SimulatedCards:
    def __init__(self, system: Any) -> None:
        self.system = system
        self.uuids = tuple(card.uuid for card in system.cards)
        for card in system.cards:
            card.set_power_limit_w(ORIGINAL_W)

    def limit_w(self, index: int) -> float:
        return self.system.cards[index].power_limit_w()

    def foreign(self, index: int, limit_w: float) -> None:
        self.system.cards[index].set_power_limit_w(limit_w)

    def clocks(self, index: int) -> tuple[int, int] | None:
        return self.system.cards[index].locked_sm_clocks_mhz


class Bench:
    """One actuator under test and its cards."""

    def __init__(self, kind: str, actuator: Actuator, cards: Cards) -> None:
        self.kind = kind
        self.actuator = actuator
        self.cards = cards
        self.uuids = cards.uuids

    def limits(self) -> list[float]:
        return [self.cards.limit_w(index) for index in range(len(self.uuids))]

    def apply(self, *limits_w: float | None, sm_clock_mhz: int | None = None) -> list[Applied]:
        """One wish a GPU, in order."""
        wishes = {uuid: Wish(limit_w, sm_clock_mhz) for uuid, limit_w in zip(self.uuids, limits_w, strict=False)}
        results = self.actuator.apply(wishes)
        assert list(results) == list(wishes)
        return list(results.values())
