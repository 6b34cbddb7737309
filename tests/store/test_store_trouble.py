"""Bad luck with the disk: full, locked, removed. Writing never raises, and nothing is lost that fits in memory."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from store_cases import DECISION, EVENT, HOLD, INTERVAL, JOB, POINT, PRICE, T0, child, count_of, held, rows_of, sound

from chase.store import Store, Tuning, connect, link
from providers.base import Kind


def everything(store: Store) -> None:
    """One call of each kind of write."""
    store.upsert_job(JOB)
    store.add_decision(DECISION)
    store.add_interval(INTERVAL)
    store.add_event(EVENT)
    store.add_points([POINT])
    store.add_hold(HOLD)
    store.end_hold(None, T0)


LOCKS = [
    ["BEGIN IMMEDIATE"],
    ["BEGIN EXCLUSIVE"],
    ["PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE", "CREATE TABLE mine (x)"],
]


@pytest.mark.parametrize("statements", LOCKS)
def test_another_process_holds_the_lock(open_store, path, statements):
    """Rows wait in memory, health says why, and all of them are there once the lock is gone."""
    open_store().close()
    with held(path, *statements):
        store = open_store(busy_s=0.02, patience_s=5.0)
        everything(store)
        assert not store.health.ok
        assert "locked" in store.health.reason
        assert store.health.buffered == 7
        assert store.add_decision(DECISION) is None
    assert store.flush(20)
    assert store.health.ok
    assert len(store.decisions(job=JOB.id)) == 2
    assert store.intervals(JOB.id) == [INTERVAL]
    assert store.holds(T0) == []
    (back,) = store.events(code="store-back")
    assert "could not be written since 2026-03-01T12:00:00" in back.message
    assert sound(path)


def test_a_lock_never_stalls_the_caller(open_store, path):
    """SQLite may wait its 30 s in the writer's thread; who hands rows over waits once, for his patience."""
    store = open_store(patience_s=0.05)
    with held(path, "BEGIN IMMEDIATE"):
        began = time.monotonic()
        for _ in range(50):
            assert store.add_event(EVENT) is None
        assert time.monotonic() - began < 5.0
        assert store.health.reason.startswith("a write takes longer than usual")
    assert store.flush(20)
    assert store.health.ok
    assert count_of(path, "events") == 50


def test_a_short_lock_is_only_waited_for(store, path):
    """Within the busy timeout nobody notices."""
    with held(path, "BEGIN IMMEDIATE") as holder:
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert store.add_event(EVENT) == 1
    assert store.events(code="store-back") == []


def test_a_lock_from_before_the_start(open_store, path, clock):
    """The service starts all the same, finds nothing when it looks back, and writes when it can."""
    path.parent.mkdir()
    with held(path, "CREATE TABLE placeholder (x)", "DROP TABLE placeholder", "BEGIN EXCLUSIVE"):
        store = open_store(busy_s=0.02, patience_s=0.3)
        assert (store.jobs(), store.holds(T0), store.load_frontier("key")) == ([], [], None)
        everything(store)
        assert not store.health.ok
    assert store.flush(20)
    assert [job.id for job in store.jobs()] == [JOB.id]


@pytest.fixture
def disk(monkeypatch):
    """A disk whose size can be set: SQLite's own limit on the pages of a file, for each connection that is opened."""
    size = {"pages": 2**30}

    def preparing(conn, timeout_s):
        conn.execute(f"PRAGMA max_page_count = {size['pages']}")
        return connect.prepare(conn, timeout_s)

    monkeypatch.setattr(link, "prepare", preparing)
    return size


def fill(store: Store, most: int = 5000) -> int:
    """Decisions until one cannot be written; how many were handed over."""
    for i in range(most):
        if store.add_decision(replace(DECISION, at=T0 + timedelta(seconds=i))) is None:
            return i + 1
    raise AssertionError("the disk never filled")


def test_a_full_disk(open_store, path, disk):
    """Rows wait, those before it can be read, and none is missing or doubled once there is room again."""
    disk["pages"] = 60
    store = open_store()
    store.upsert_job(JOB)
    given = fill(store)
    assert "full" in store.health.reason
    assert len(store.decisions()) == given - 1
    store.add_interval(INTERVAL)
    assert store.health.buffered == 2
    disk["pages"] = 2**30
    assert store.flush(20)
    assert [(d.at - T0).total_seconds() for d in store.decisions()] == [float(i) for i in range(given)]
    assert store.intervals(JOB.id) == [INTERVAL]
    assert store.health.ok
    assert [event.code for event in store.events()] == ["store-back"]


def test_a_disk_that_is_full_from_the_start(open_store, path, disk):
    """Not even the tables fit: the service runs, and the log begins when there is room."""
    disk["pages"] = 3
    store = open_store()
    everything(store)
    assert not store.health.ok
    disk["pages"] = 2**30
    assert store.flush(20)
    assert [d.job_id for d in store.decisions()] == [JOB.id]


def test_what_does_not_fit_in_memory_is_forgotten_oldest_first_and_told(open_store, path, disk):
    """The bound holds, the jobs that rows refer to are kept, and the count of the lost becomes an event."""
    disk["pages"] = 60
    store = open_store(buffer_rows=20)
    given = fill_after(store)
    for i in range(100):
        store.add_event(replace(EVENT, message=str(i)))
    store.upsert_job(replace(JOB, id="ffff0000"))
    store.add_interval(replace(INTERVAL, job_id="ffff0000"))
    store.add_points([POINT])
    assert store.health.buffered == 20
    assert store.health.lost == 1 + 100 - 18 + 1
    disk["pages"] = 2**30
    assert store.flush(20)
    (told,) = store.events(code="store-rows-lost")
    assert told.data == {"decisions": 1, "events": 82, "signal_points": 1}
    assert "1 of decisions, 82 of events, 1 of signal_points" in told.message
    assert [event.message for event in store.events(code="gpu-lost")] == [str(i) for i in range(82, 100)]
    assert [job.id for job in store.jobs()] == [JOB.id, "ffff0000"]
    assert len(store.intervals("ffff0000")) == 1
    assert len(store.decisions()) == given - 1
    assert (store.health.ok, store.health.lost) == (True, 84)


def fill_after(store: Store) -> int:
    store.upsert_job(JOB)
    return fill(store)


@pytest.mark.parametrize("kind", [Kind.MEASURED, Kind.FORECAST, "price"])
def test_what_sources_say_never_pushes_out_what_only_we_know(open_store, path, kind):
    """The history of a source with steps of 5 minutes is a week at a time: decisions and energy are worth more."""
    store = open_store(busy_s=0.02, patience_s=0.05)
    store.upsert_job(JOB)
    steps = [T0 + i * timedelta(minutes=5) for i in range(2016)]
    with held(path, "BEGIN IMMEDIATE"):
        for i in range(20):
            store.add_decision(replace(DECISION, at=T0 + timedelta(seconds=i)))
            store.add_interval(replace(INTERVAL, start=T0 + timedelta(seconds=i)))
        for zone in "ABCDEF":
            if kind == "price":
                store.add_prices([replace(PRICE, zone=zone, start=at, end=at + timedelta(minutes=5)) for at in steps])
            else:
                given = replace(POINT, zone=zone, kind=kind)
                store.add_points([replace(given, start=at, end=at + timedelta(minutes=5)) for at in steps])
    assert store.flush(20)
    assert (len(store.decisions()), len(store.intervals())) == (20, 20)
    lost = {table for told in store.events(code="store-rows-lost") for table in told.data}
    assert lost == {{"price": "price_points", Kind.FORECAST: "forecasts"}.get(kind, "signal_points")}


def test_losses_are_told_once(open_store, disk):
    """The next write does not report them again."""
    disk["pages"] = 60
    store = open_store(buffer_rows=2)
    fill_after(store)
    for _ in range(5):
        store.add_event(EVENT)
    disk["pages"] = 2**30
    assert store.flush(20)
    store.add_event(EVENT)
    assert len(store.events(code="store-rows-lost")) == 1


SMALL_FILES = """
import json, resource, sys
sys.path.insert(0, "tests/store")
from dataclasses import replace
from pathlib import Path
from store_cases import DECISION, JOB, T0
from chase.clock import ManualClock
from chase.store import Store, Tuning
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
store = Store(Path(sys.argv[1]), clock=ManualClock(T0), tuning=Tuning(patience_s=20, retry_s=0.01))
store.upsert_job(JOB)
given = 0
while store.health.ok and given < 5000:
    store.add_decision(replace(DECISION, reason=str(given)))
    given += 1
reason = store.health.reason
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
flushed = store.flush(20)
print(json.dumps([given, reason, flushed, [d.reason for d in store.decisions()] == [str(i) for i in range(given)]]))
store.close()
"""


def test_the_kernel_refuses_to_let_the_file_grow(path):
    """A real write that fails in the kernel (file size limit): the same, and the file stays sound."""
    with child(SMALL_FILES, path) as process:
        output, _ = process.communicate(timeout=60)
    given, reason, flushed, complete = json.loads(output)
    assert 0 < given < 5000
    assert reason
    assert (flushed, complete) == (True, True)
    assert sound(path)


def test_a_real_disk_of_256_kilobytes(tmp_path, clock):
    """A tmpfs that fills up, and is given more room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root may mount a file system")
    try:
        store = Store(disk / "chase.sqlite", clock=clock, tuning=Tuning(patience_s=20.0, retry_s=0.01))
        given = fill_after(store)
        assert not store.health.ok
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        assert store.flush(20)
        assert len(store.decisions()) == given
        store.close()
        assert sound(store.path)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_file_removed_under_us_is_begun_anew(store, path):
    """Somebody deletes the log of a running service: open jobs and holds are put into a new one, and it says so."""
    everything(store)
    store.add_hold(replace(HOLD, job_id=JOB.id))
    for part in path.parent.iterdir():
        part.unlink()
    assert store.add_decision(DECISION) == 1
    assert store.jobs(running=True) == [JOB]
    assert [hold.job_id for hold in store.holds(T0)] == [JOB.id]
    assert [event.code for event in store.events()] == ["store-replaced"]
    assert store.health.ok


def test_a_new_file_knows_how_far_jobs_are(store, path):
    """What was noted since a job registered is put into a file that is begun anew."""
    store.upsert_job(JOB)
    store.note_progress(JOB.id, 41.0)
    for part in path.parent.iterdir():
        part.unlink()
    store.add_event(EVENT)
    assert store.jobs() == [replace(JOB, units_done=41.0)]


def test_a_backup_from_before_a_job_gets_to_know_it(store, path):
    """With its progress the whole job is written again, and so the decisions that refer to it."""
    store.upsert_job(JOB)
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("DELETE FROM jobs")
    conn.close()
    assert store.add_decision(DECISION) is None
    store.note_progress(JOB.id, 41.0)
    assert store.jobs() == [replace(JOB, units_done=41.0)]
    assert store.add_decision(DECISION) == 1


def test_a_backup_put_back_under_us_is_followed(store, path, tmp_path):
    """Readers and writer turn to the file that is there now."""
    store.upsert_job(JOB)
    backup = tmp_path / "backup.sqlite"
    copy = sqlite3.connect(path)
    copy.execute("VACUUM INTO ?", (str(backup),))
    copy.close()
    store.add_decision(DECISION)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()
    backup.rename(path)
    assert store.decisions() == []
    assert store.add_decision(DECISION) == 1
    assert [event.code for event in store.events()] == ["store-replaced"]


def test_closing_while_locked_is_short_and_says_what_is_lost(open_store, path, caplog):
    """SIGTERM must not hang on a database."""
    open_store().close()
    with held(path, "BEGIN IMMEDIATE"):
        store = open_store(busy_s=0.02)
        everything(store)
        began = time.monotonic()
        store.close(timeout_s=5.0)
        assert time.monotonic() - began < 5.0
    assert "7 rows are lost at the end" in caplog.text
    assert rows_of(path, "SELECT count(*) FROM decisions") == [(0,)]


def test_closing_writes_what_still_waits(open_store, path, disk):
    """One last try for the rows in memory."""
    disk["pages"] = 60
    store = open_store(retry_s=3600.0)
    given = fill_after(store)
    disk["pages"] = 2**30
    store.close()
    assert count_of(path, "decisions") == given


def test_writing_after_the_end_is_no_error(store):
    """A late thread of the service is not thrown off by a closed log."""
    store.close()
    assert store.add_event(EVENT) is None
    store.close()


def test_a_checkpoint_moves_the_log_into_the_database(store, path):
    """And gives way to a reader."""
    everything(store)
    assert store.checkpoint()
    assert Path(f"{path}-wal").stat().st_size == 0
    with held(path, "BEGIN", "SELECT * FROM jobs"):
        store.add_event(EVENT)
        assert not store.checkpoint()
