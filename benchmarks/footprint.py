"""What the service costs: memory, CPU, start-up, and how soon a new intensity is in force.

    python benchmarks/footprint.py [--seconds 60]

The service runs as users run it, at default intervals, with 8 simulated GPUs and 8 jobs that report every 5 seconds.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chase.client import Job
from chase.store import Reader
from chase.unixhttp import request

GPUS = 8
IMPORTS = ("requests", "pydantic", "fastapi", "uvicorn", "apscheduler.schedulers.background", "sqlite_utils")
IMPORTS += ("rich.table", "structlog", "pynvml", "chase.config.models", "chase.service")
TICKS = os.sysconf("SC_CLK_TCK")

REGION = """
[region]
id = "bench"
name = "A benchmark"
time_zone = "UTC"
signal = "average"
scope = "direct"
currency = "EUR"
[[sources]]
provider = "file"
zone = "XX"
options = {{ path = "{trace}", scope = "direct" }}
"""

SERVICE = """
[service]
region = "{folder}/region.toml"
state_dir = "{folder}/state"
run_dir = "{folder}/run"
[control]
gpus = "simulated"
[simulated]
count = {gpus}
[policy]
dwell_s = 0
"""
TWO_MODES = """name = "threshold"
efficiency_above = 300
speed_below = 200
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the CPU is measured")
    seconds = parser.parse_args().seconds
    imports()
    with tempfile.TemporaryDirectory(prefix="chase-") as name, service(Path(name)) as pid, ExitStack() as stack:
        folder = Path(name)
        for gpu in range(GPUS):
            stack.enter_context(job(folder, gpu))
        settle()
        cpu(pid, seconds)
        print(f"resident, {GPUS} simulated GPUs and {GPUS} jobs: {resident_mb(pid):.0f} MB (bound: 110)")
        commands(folder)
        follow_thresholds(folder, pid)
        reaction(folder)


def imports() -> None:
    base = rss_of("pass")
    print(f"resident memory of a bare interpreter: {base:.0f} MB; each import alone adds, together they share:")
    for name in IMPORTS:
        print(f"  {name:<40} {rss_of(f'import {name}') - base:+6.1f} MB")


def rss_of(code: str) -> float:
    tail = "; print([l for l in open('/proc/self/status') if l.startswith('VmRSS')][0].split()[1])"
    done = subprocess.run([sys.executable, "-c", code + tail], capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


@contextmanager
def service(folder: Path) -> Iterator[int]:
    write_trace(folder, 100.0)
    (folder / "region.toml").write_text(REGION.format(trace=folder / "trace.csv"))
    (folder / "chase.toml").write_text(SERVICE.format(folder=folder, gpus=GPUS))
    argv = [sys.executable, "-m", "chase", "serve", "--config", str(folder / "chase.toml")]
    with (folder / "log").open("wb") as log, subprocess.Popen(argv, stderr=log) as process:
        try:
            wait_for(folder / "run/chase.sock")
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)


@contextmanager
def job(folder: Path, gpu: int) -> Iterator[Job]:
    uuid = request(folder / "run/chase.sock", "GET", "/v1/status")["gpus"][gpu]["uuid"]
    with Job(f"job {gpu}", gpus=[uuid], profile="a40-resnet50", socket=folder / "run/chase.sock", env={}) as running:
        yield running


def settle() -> None:
    time.sleep(12)  # a control tick and two reports at default intervals


def cpu(pid: int, seconds: float) -> None:
    before, began = cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    used, passed = cpu_s(pid) - before, time.monotonic() - began
    print(f"CPU over {passed:.0f} s at default intervals: {used / passed:.2%} of one core (bound: 1 %)")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def commands(folder: Path) -> None:
    socket = str(folder / "run/chase.sock")
    for bound, argv in ((0.2, ["--help"]), (0.5, ["status", "--socket", socket])):
        times = [timed([sys.executable, "-m", "chase", *argv]) for _ in range(7)]
        print(f"chase {argv[0]:<7} median {statistics.median(times):.2f} s, worst {max(times):.2f} s (bound: {bound})")


def timed(argv: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(argv, capture_output=True, check=True)
    return time.monotonic() - began


def follow_thresholds(folder: Path, pid: int) -> None:
    """A plan need not move at once when all hours to come are as dear; two thresholds must."""
    with (folder / "chase.toml").open("a") as file:
        file.write(TWO_MODES)
    os.kill(pid, signal.SIGHUP)
    settle()


def reaction(folder: Path) -> None:
    """From the moment the value was read to the last of the verified changes, by the database's own times."""
    write_trace(folder, 500.0)
    deadline = time.monotonic() + 60
    with Reader(folder / "state/chase.sqlite") as log:
        while time.monotonic() < deadline:
            changed = [d for d in log.decisions() if d.code == "above-threshold"]
            if len({d.job_id for d in changed}) == GPUS:
                break
            time.sleep(0.2)
        read = max(point.fetched_at for point in log.points() if point.g_per_kwh == 500.0)
    applied = all(result["status"] == "applied" for d in changed for result in d.applied.values())
    took = (max(d.at for d in changed) - read).total_seconds()
    print(f"a new intensity in force on {GPUS} GPUs, verified ({applied}), {took:.3f} s after it was read (bound: 1)")


def write_trace(folder: Path, g_per_kwh: float) -> None:
    trace = folder / "trace.csv"
    if not trace.exists():
        trace.write_text("start,end,g_per_kwh\n")
    start = datetime.now(UTC)
    with trace.open("a") as file:
        file.write(f"{start.isoformat()},{(start + timedelta(hours=1)).isoformat()},{g_per_kwh}\n")


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        if time.monotonic() > deadline:
            raise SystemExit(f"no service at {path}")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
