"""A node of real processes: an actuator as root, a service as another user, jobs, and stand-in cards for all."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from standin import State

from chase.errors import ChaseError, StoreError
from chase.records import DecisionRecord
from chase.store import Reader
from chase.unixhttp import request

ROOT = Path(__file__).parents[2]
AS_USER = Path(__file__).with_name("as_user.py")
ORIGINAL_W = 275.0
CLEAN, DIRTY = 100.0, 500.0

REGION = """
[region]
id = "test-grid"
name = "A test grid"
time_zone = "UTC"
signal = "average"
scope = "direct"
currency = "EUR"

[[sources]]
provider = "file"
zone = "XX"
options = {{ path = "{trace}", scope = "direct", poll_s = 0.1 }}
"""

SERVICE = """
[service]
region = "{region}"
state_dir = "{place}/state"
run_dir = "{place}/run"

[control]
interval_s = 0.25
account_s = 0.5
ramp_w_per_s = 0
actuator = "{actuator}"
actuator_socket = "{place}/actuator.sock"
actuator_state_dir = "{place}/actuator"

[policy]
name = "threshold"
efficiency_above = 300
speed_below = 200
dwell_s = 0

[jobs]
lease_s = 3
report_s = 0.1
{more}
"""


def other_uid() -> int:
    """Another user where we may become one, and else ourselves."""
    return 65534 if os.geteuid() == 0 else os.geteuid()


def until(condition: Callable[[], Any], what: str, within_s: float = 15.0) -> Any:
    """What other processes made true; fails naming ``what`` after ``within_s``."""
    deadline = time.monotonic() + within_s
    pause = threading.Event()
    while True:
        with suppress(sqlite3.OperationalError, StoreError):
            if found := condition():
                return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {what}")
        pause.wait(0.02)


class Node:
    """Everything under ``place``, which every user can reach."""

    def __init__(self, place: Path, state: State, *, actuator: str = "remote", more: str = "") -> None:
        self.place = place
        self.state = state
        self.uid = other_uid()
        self.processes: list[subprocess.Popen[bytes]] = []
        self.trace = place / "trace.csv"
        self.config = place / "chase.toml"
        region = place / "region.toml"
        region.write_text(REGION.format(trace=self.trace))
        self.config.write_text(SERVICE.format(region=region, place=place, actuator=actuator, more=more))
        for folder in ("state", "run"):
            (place / folder).mkdir()
            os.chown(place / folder, self.uid, -1)
        self.trace.write_text("start,end,g_per_kwh\n")

    # -- the grid ----------------------------------------------------------------------------------------------------

    def grid(self, g_per_kwh: float) -> None:
        """The source grows by one row: from now on it is so."""
        start = datetime.now(UTC)
        end = start + timedelta(hours=1)
        with self.trace.open("a") as file:
            file.write(f"{start.isoformat()},{end.isoformat()},{g_per_kwh}\n")

    # -- processes ---------------------------------------------------------------------------------------------------

    def start_actuator(self) -> subprocess.Popen[bytes]:
        socket_path = self.place / "actuator.sock"
        (self.place / "actuator.log").write_bytes(b"")
        process = self.spawn(
            [
                *[sys.executable, "-m", "chase", "actuator", "--uid", str(self.uid), "--socket", str(socket_path)],
                *["--state-dir", str(self.place / "actuator"), "--lock-dir", str(self.place / "locks")],
                *["--ramp-w-per-s", "0"],
            ],
            "actuator",
        )
        until(lambda: b"listens" in self.said("actuator"), "the actuator listens")
        return process

    def start_service(self, *flags: str) -> subprocess.Popen[bytes]:
        (self.place / "service.log").write_bytes(b"")
        process = self.spawn(
            [sys.executable, str(AS_USER), str(self.uid), "serve", "--config", str(self.config), *flags], "service"
        )
        until(self.status, "the service answers")
        return process

    def start_job(self, *flags: str, seconds: float = 60.0, name: str = "job") -> subprocess.Popen[bytes]:
        busy = [sys.executable, str(ROOT / "examples/busy.py"), "--seconds", str(seconds), "--step-ms", "5"]
        return self.spawn(
            [sys.executable, "-m", "chase", "exec", "--name", "busy", "--profile", "a40-resnet50", *flags, "--", *busy],
            name,
        )

    def spawn(self, argv: Sequence[str], name: str) -> subprocess.Popen[bytes]:
        with (self.place / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(argv, env=self.env(), stdout=log, stderr=log, start_new_session=True)
        self.processes.append(process)
        return process

    def env(self) -> dict[str, str]:
        env = self.state.env({"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(self.place)})
        return {**env, "CHASE_SOCKET": str(self.socket), "PYTHONUNBUFFERED": "1"}

    def stop(self) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    # -- looking -----------------------------------------------------------------------------------------------------

    @property
    def socket(self) -> Path:
        return self.place / "run/chase.sock"

    @property
    def db(self) -> Path:
        return self.place / "state/chase.sqlite"

    @property
    def limits(self) -> list[float]:
        return [card.limit_w for card in self.state]

    def said(self, name: str) -> bytes:
        return (self.place / f"{name}.log").read_bytes()

    def cli(self, *argv: str, ok: Sequence[int] = (0,)) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "chase", *argv],
            env=self.env(),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode in ok, (argv, done.returncode, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stdout

    def status(self) -> dict[str, Any]:
        try:
            return request(self.socket, "GET", "/v1/status")
        except ChaseError:
            return {}

    def decisions(self) -> list[DecisionRecord]:
        with Reader(self.db) as log:
            return log.decisions()

    def events(self) -> list[str]:
        with closing(sqlite3.connect(f"file:{self.db}?mode=ro", uri=True)) as db:
            return [code for (code,) in db.execute("SELECT code FROM events ORDER BY id")]

    def intact(self) -> bool:
        with closing(sqlite3.connect(f"file:{self.db}?mode=ro", uri=True)) as db:
            return db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
