"""What it takes to replay a job-year through the real controller, signal, policy, accounts and a real SQLite file.

    python benchmarks/job_year.py [--days 365] [--policy budget] [--forecast persistence] [--parts]

On a made-up grid, hourly and in steps of five minutes; ``--days`` fewer are run and scaled up. Times are those of the
processor, so that it matters little what else the machine does. With ``--parts`` it says where they went, by sampling
the stack each millisecond. Exit status 1 if an hourly year takes more than 1 s or one of five minutes more than 10 s.
"""

from __future__ import annotations

import argparse
import csv
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType

import numpy as np

from chase.replay import Cell, run_cell

START = datetime(2023, 1, 1, tzinfo=UTC)
PAST, AFTER = 28, 30  # days of trace before the job, and after a year of it
LIMITS_S = {3600.0: 1.0, 300.0: 10.0}  # of processor time for a year
SHOWN = 40


def trace(folder: Path, step_s: float, days: float) -> Path:
    """A swing of the day, one of the week, and weather."""
    path = folder / f"made-up-{step_s:g}_2023.csv"
    hours = np.arange(int((PAST + 1.25 * days + AFTER) * 86400 / step_s)) * step_s / 3600
    weather = np.convolve(np.random.default_rng(1).normal(size=len(hours)), np.ones(24) / 24, "same")
    values = 320 + 120 * np.sin(hours / 24 * 2 * np.pi) + 30 * np.sin(hours / 168 * 2 * np.pi) + 60 * weather
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["start_utc", "g_per_kwh"])
        starts = ((START + timedelta(seconds=i * step_s)).isoformat() for i in range(len(values)))
        rows.writerows(zip(starts, np.maximum(values, 5.0).round(2).tolist(), strict=True))
    return path


@contextmanager
def sampled(found: Counter[str]) -> Iterator[None]:
    """Count the functions that are running, each once a millisecond of processor time."""

    def look(_number: int, frame: FrameType | None) -> None:
        running = set()
        while frame is not None:
            running.add(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")
            frame = frame.f_back
        found.update(running)

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def measure(folder: Path, step_s: float, asked: argparse.Namespace) -> bool:
    days = asked.days if step_s >= 3600 else min(asked.days, asked.fine_days)
    path, start = trace(folder, step_s, days), START + timedelta(days=PAST)

    def cell(days: float) -> Cell:
        settings = {"max_slowdown": 0.05} if asked.policy == "budget" else {}
        given = {"policy": asked.policy, "settings": settings, "forecast": asked.forecast}
        return Cell(trace=str(path), profile=asked.profile, start=start, days=days, **given)

    run_cell(cell(0.5))  # the trace is read, and modules are loaded
    parts = Counter[str]()
    began_s = time.process_time()
    if asked.parts:
        with sampled(parts):
            result = run_cell(cell(days))
    else:
        result = run_cell(cell(days))
    took_s = time.process_time() - began_s
    year_s = took_s * 365 * 86400 / result.seconds
    limit_s = LIMITS_S[step_s]
    print(
        f"steps of {step_s:4.0f} s, {asked.policy}: {year_s:6.2f} s a job-year ({limit_s:g} at the most),"
        f" {took_s / result.ticks * 1e6:5.0f} us a tick, {result.decisions} decisions"
    )
    whole = max(parts.values(), default=1)
    for name, count in parts.most_common(SHOWN):
        print(f"    {count / whole * took_s / result.ticks * 1e6:7.1f} us  {name}")
    return year_s <= limit_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--days", type=float, default=365.0, help="of the hourly job")
    parser.add_argument("--fine-days", type=float, default=30.0, help="of the job by five minutes, at the most")
    parser.add_argument("--policy", default="budget")
    parser.add_argument("--profile", default="v100-resnet50")
    parser.add_argument("--forecast", default="persistence", help="to make our own takes its own time")
    parser.add_argument("--parts", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fine = [measure(Path(folder), step_s, asked) for step_s in LIMITS_S]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
