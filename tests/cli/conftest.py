"""The command in this process and as a process of its own, a filled database, and a running service."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from chase import unixhttp
from chase.cli import main
from chase.clock import ManualClock
from chase.policy import Grid, PolicyInput, Rules, choose
from chase.recording import decision
from chase.records import DecisionRecord, JobRecord
from chase.store import Store
from zeus_core.actuation.base import Applied, Status
from zeus_core.frontier import Frontier, OperatingPoint, Setting

ROOT = Path(__file__).parents[2]
PYTHONPATH = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
GPU = "GPU-11111111-2222-3333-4444-555555555555"
RESNET, BERT = "aa" * 16, "ab" + "cd" * 15
BEGAN = datetime(2026, 3, 1, 6, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home of its own for each test: no file, socket or variable of the machine decides anything."""
    for name in [name for name in os.environ if name.startswith("CHASE_")]:
        monkeypatch.delenv(name)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CHASE_SOCKET", str(tmp_path / "nobody.sock"))
    monkeypatch.setattr(unixhttp, "SYSTEM_SOCKET", tmp_path / "system.sock")
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    monkeypatch.delenv("ELECTRICITYMAPS_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run():
    """The command in this process, as ``chase ARGS`` off a terminal."""

    def call(*args: object, env: dict[str, str] | None = None):
        result = CliRunner().invoke(main, [str(arg) for arg in args], env=env, prog_name="chase")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


@pytest.fixture
def chase():
    """The command as a process of its own."""

    def call(*args: object, check: bool = False, timeout: float = 60, **options):
        command = [sys.executable, "-m", "chase", *map(str, args)]
        return subprocess.run(command, capture_output=True, check=check, timeout=timeout, **{"text": True, **options})

    return call


@pytest.fixture
def on_a_terminal():
    """What ``python ARGS`` shows on a terminal of 80 columns; it must end well."""

    def call(*args: object, **env: str) -> str:
        controller, terminal = pty.openpty()
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", **env}
        command = [sys.executable, *map(str, args)]
        with subprocess.Popen(command, stdout=terminal, env=environment) as process:
            os.close(terminal)
            chunks = []
            with contextlib.suppress(OSError):  # the other end is closed: all is read
                while chunk := os.read(controller, 4096):
                    chunks.append(chunk)
            os.close(controller)
        assert process.returncode == 0
        return b"".join(chunks).decode()

    return call


@dataclass(frozen=True)
class Filled:
    path: Path
    decisions: int


@pytest.fixture
def log(tmp_path) -> Filled:
    """Two jobs, one of which ended, and six decisions of the real policy: five of the first, one of the second."""
    path, clock = tmp_path / "chase.sqlite", ManualClock(BEGAN)
    store = Store(path, clock=clock)
    store.upsert_job(_job(RESNET, "resnet", BEGAN))
    store.upsert_job(_job(BERT, "bert", BEGAN + timedelta(hours=1)))
    for number, intensity in enumerate((90.0, 120.0, 150.0, 210.0, 240.0)):
        store.add_decision(_decision(RESNET, BEGAN + timedelta(hours=number), intensity))
    store.add_decision(_decision(BERT, BEGAN + timedelta(hours=1), None))
    store.end_job(BERT, BEGAN + timedelta(hours=3), "done", 500.0)
    store.close()
    return Filled(path, 6)


def _job(job_id: str, name: str, at: datetime) -> JobRecord:
    return JobRecord(
        id=job_id, name=name, uid=1000, pid=4242, gpus=(GPU,), units="steps", region="gb", registered_at=at
    )


def _decision(job_id: str, at: datetime, intensity: float | None) -> DecisionRecord:
    frontier = Frontier.of(
        OperatingPoint(Setting(power_limit_w=watts), seconds, joules)
        for watts, seconds, joules in ((300.0, 1.0, 280.0), (200.0, 1.1, 205.0), (150.0, 1.4, 190.0))
    )
    grid = Grid(
        g_per_kwh=intensity,
        kind="none" if intensity is None else "estimated",
        source="" if intensity is None else "neso",
        age_s=None if intensity is None else 720.0,
        freshness="fresh",
        efficiency_above_g=180.0,
        speed_below_g=130.0,
    )
    given = PolicyInput(frontier=frontier, rules=Rules(), grid=grid, max_power_w=300.0)
    choice = choose(given)
    assert choice.setting is not None
    limit_w = choice.setting.power_limit_w
    applied = {GPU: Applied(GPU, Status.APPLIED, limit_w, limit_w, limit_w)}
    facts = {"why": "signal", "given": given, "choice": choice, "applied": applied, "control": "control"}
    return decision(at=at, job_id=job_id, **facts)


@dataclass(frozen=True)
class Service:
    process: subprocess.Popen
    socket: Path
    db: Path
    config: Path


@pytest.fixture(scope="session")
def service_folder():
    """Short enough for a Unix socket's path."""
    with tempfile.TemporaryDirectory(prefix="chase-cli-") as folder:
        yield Path(folder)


REGION = """\
[region]
id = "quiet"
name = "A region whose source is a file"
time_zone = "UTC"
signal = "average"
scope = "lifecycle"
currency = "EUR"
[policy]
efficiency_above = 200
speed_below = 150
[[sources]]
provider = "file"
zone = "quiet"
options = {{ path = "{trace}", scope = "lifecycle" }}
"""


def write_region(folder: Path, g_per_kwh: float = 100.0) -> Path:
    """A region with a file source that holds two days around now, hour by hour, alike in the hours of the tests."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    rows = ["start,end,g_per_kwh"]
    for hour in range(-24, 25):
        start = now + timedelta(hours=hour)
        value = g_per_kwh if -1 <= hour <= 3 else g_per_kwh + hour
        rows.append(f"{start.isoformat()},{(start + timedelta(hours=1)).isoformat()},{value}")
    trace = folder / "trace.csv"
    trace.write_text("\n".join(rows) + "\n")
    region = folder / "quiet.toml"
    region.write_text(REGION.format(trace=trace))
    return region


@pytest.fixture
def quiet_region(tmp_path) -> Path:
    """The file of a region with one file source, at 100 g/kWh now."""
    return write_region(tmp_path)


@pytest.fixture(scope="session")
def service(service_folder):
    """A real ``chase serve`` on simulated GPUs, for all tests that only talk to it."""
    config = service_folder / "chase.toml"
    config.write_text(
        f'[service]\nstate_dir = "{service_folder}/state"\nrun_dir = "{service_folder}/run"\n'
        f'region = "{write_region(service_folder)}"\n[control]\ninterval_s = 1\n'
        '[policy]\nname = "threshold"\n'
    )
    socket = service_folder / "run" / "chase.sock"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CHASE_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "chase", "serve", "--simulated", "--config", str(config)],
        stderr=subprocess.PIPE,
        env={**environment, "PYTHONPATH": PYTHONPATH},
        text=True,
    )
    _wait_for(socket, process)
    yield Service(process, socket, service_folder / "state" / "chase.sqlite", config)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors


def _wait_for(socket: Path, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 30
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"the service did not start: {process.communicate()[1]}")
        time.sleep(0.05)
