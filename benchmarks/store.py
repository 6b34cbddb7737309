"""The log under load: 100 decisions a second with a reader querying, and the time of a query among a million decisions.

    python benchmarks/store.py [--seconds 60] [--rate 100] [--rows 1000000] [--directory DIR]

The writer is the service's own ``Store``; the reader is another process that asks as ``chase decisions --since`` does.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from chase.clock import SystemClock
from chase.records import DecisionRecord, JobRecord
from chase.store import Store, open_readonly
from chase.store.connect import filesystem, open_db, write
from chase.store.rows import DECISION, JOB

START = datetime(2026, 1, 1, tzinfo=UTC)
JOBS = 8
STEP = timedelta(seconds=30)  # between the decisions of the large database: a year of them is a million


def job(number: int) -> JobRecord:
    return JobRecord(
        id=f"{number:08x}",
        name=f"train-{number}",
        uid=1000,
        pid=1,
        gpus=(f"GPU-{number}",),
        units="steps",
        region="gb",
        registered_at=START,
    )


def decision(number: int, at: datetime) -> DecisionRecord:
    """As large as one with a frontier of ten points."""
    points = [{"power_limit_w": 100.0 + 20 * k, "seconds_per_unit": 1.0, "joules_per_unit": 2.0} for k in range(10)]
    return DecisionRecord(
        at=at,
        job_id=job(number % JOBS).id,
        trigger="signal",
        mode=("speed-first", "efficiency-first")[number % 2],
        policy="threshold",
        code="above",
        reason="212.4 g/kWh is above 200.0",
        power_limit_w=200.0,
        intensity_g_per_kwh=212.4,
        intensity_kind="measured",
        intensity_age_s=600.0,
        inputs={"frontier": {"points": points}, "grid": {"g_per_kwh": 212.4}},
        choice={"setting": {"power_limit_w": 200.0}, "candidates": points[:4]},
        applied={"GPU-0": {"status": "ok", "enforced_w": 200.0}},
        control="control",
    )


def read(path: Path, stop: Event, answer: Connection) -> None:
    """Query until told to stop; answers with the seconds of each query and the errors."""
    seconds, errors = [], []
    with open_readonly(path) as reader:
        while not stop.is_set():
            began = time.perf_counter()
            try:
                reader.decisions(since=datetime.now(UTC) - timedelta(minutes=1), limit=100)
            except Exception as error:  # noqa: BLE001  every kind is counted
                errors.append(str(error))
            seconds.append(time.perf_counter() - began)
            stop.wait(0.02)
    answer.send((seconds, errors))


def under_load(path: Path, seconds: float, rate: float) -> bool:
    """Write at ``rate`` with a reader beside; True when nothing was lost."""
    store = Store(path, clock=SystemClock())
    for number in range(JOBS):
        store.upsert_job(job(number))
    stop, (ours, theirs) = multiprocessing.Event(), multiprocessing.Pipe()
    reader = multiprocessing.Process(target=read, args=(path, stop, theirs))
    reader.start()
    latencies, waiting = written(store, seconds, rate)
    stop.set()
    queries, errors = ours.recv()
    reader.join()
    flushed, health = store.flush(30), store.health
    stored = len(store.decisions())
    store.close()
    lost = len(latencies) - stored
    print(f"decisions handed over   {len(latencies)} in {seconds:g} s ({len(latencies) / seconds:.0f} a second)")
    print(f"decisions lost          {lost}")
    print(f"writes that had to wait {waiting} (health: {health.reason or 'ok'}, all written: {flushed})")
    print(f"reader's errors         {len(errors)} in {len(queries)} queries {errors[:1] or ''}")
    print(f"write latency           {times(latencies)}")
    print(f"reader's query latency  {times(queries)}")
    return lost == 0 and not errors


def written(store: Store, seconds: float, rate: float) -> tuple[list[float], int]:
    """The latency of each write, and how many were not committed when the call returned."""
    latencies, waiting = [], 0
    began = time.perf_counter()
    for number in range(round(seconds * rate)):
        time.sleep(max(0.0, began + number / rate - time.perf_counter()))
        before = time.perf_counter()
        waiting += store.add_decision(decision(number, datetime.now(UTC))) is None
        latencies.append(time.perf_counter() - before)
    return latencies, waiting


def large(path: Path, rows: int) -> None:
    """The time of the CLI's queries among ``rows`` decisions."""
    Store(path, clock=SystemClock()).close()
    began = time.perf_counter()
    fill(path, rows)
    size_mb = path.stat().st_size / 1e6
    print(f"\n{rows} decisions, {size_mb:.0f} MB, made in {time.perf_counter() - began:.0f} s")
    end = START + rows * STEP
    with open_readonly(path) as reader:
        ask("--since 1h", lambda: reader.decisions(since=end - timedelta(hours=1)))
        ask("--since 24h", lambda: reader.decisions(since=end - timedelta(hours=24)))
        ask("--since 24h --job", lambda: reader.decisions(job=job(1).id, since=end - timedelta(hours=24)))
        ask("--job, newest 50", lambda: reader.decisions(job=job(1).id, limit=50))
        ask("explain one", lambda: [reader.decision(rows // 2)])


def fill(path: Path, rows: int) -> None:
    db = open_db(path)
    with write(db):
        db.table("jobs").insert_all([JOB.row(job(number)) for number in range(JOBS)])
        template = DECISION.row(decision(0, START))
        names = ", ".join(template)
        marks = ", ".join(f":{name}" for name in template)
        db.conn.executemany(f"INSERT INTO decisions ({names}) VALUES ({marks})", decision_rows(template, rows))
    db.conn.close()


def decision_rows(template: dict[str, Any], rows: int) -> Iterator[dict[str, Any]]:
    for number in range(rows):
        at = (START + number * STEP).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        yield {**template, "at_utc": at, "job_id": f"{number % JOBS:08x}"}


def ask(what: str, query: Callable[[], list[Any]]) -> None:
    seconds, found = [], 0
    for _ in range(9):
        began = time.perf_counter()
        found = len(query())
        seconds.append(time.perf_counter() - began)
    print(f"decisions {what:<20} {found:>6} rows  median {statistics.median(seconds) * 1e3:8.1f} ms")


def times(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    p99 = ordered[int(0.99 * (len(ordered) - 1))]
    return f"median {statistics.median(ordered) * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms, worst {ordered[-1] * 1e3:.1f} ms"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--rows", type=int, default=1_000_000, help="0: leave the large database out")
    parser.add_argument(
        "--directory", type=Path, help="where the databases are made (default: the temporary directory)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        print(f"on {filesystem(Path(directory)) or 'an unknown file system'}, {os.cpu_count()} cores")
        good = under_load(Path(directory) / "load.sqlite", options.seconds, options.rate)
        if options.rows:
            large(Path(directory) / "large.sqlite", options.rows)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
