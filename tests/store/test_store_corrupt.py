"""A damaged file: put aside whole, a new one begun, and nobody's control loop hears an exception."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from store_cases import DECISION, EVENT, FRONTIER, HOLD, INTERVAL, JOB, POINT, T0, WINDOWS, child, sound

from chase.errors import StoreError
from chase.store import connect, link, open_readonly

SMASH = """
import json, os, sys
handle = os.open(sys.argv[1], os.O_WRONLY)
for offset, text in json.load(sys.stdin):
    os.pwrite(handle, bytes.fromhex(text), offset)
os.close(handle)
"""


def smash(path: Path, *damage: tuple[int, bytes]) -> None:
    """Write over bytes of a file from another process: closing it in this one would drop SQLite's own locks."""
    with child(SMASH, path) as process:
        process.communicate(json.dumps([(offset, data.hex()) for offset, data in damage]), timeout=30)
    assert process.returncode == 0


def filled(store) -> None:
    store.upsert_job(JOB)
    for i in range(60):
        store.add_decision(replace(DECISION, reason=f"decision {i} " + "x" * 500))
        store.add_interval(INTERVAL)
    store.add_points([POINT])
    store.add_event(EVENT)


def kept_aside(path: Path) -> list[Path]:
    return sorted(p for p in path.parent.iterdir() if ".corrupt-" in p.name and not p.name.endswith(("-wal", "-shm")))


def test_a_file_that_is_no_database_is_kept_and_a_new_one_begun(open_store, path):
    """Its bytes are untouched under a name with the time; the event says where."""
    path.parent.mkdir()
    path.write_bytes(b"not a database, but somebody's only copy of something" * 100)
    before = path.read_bytes()
    store = open_store()
    assert store.add_event(EVENT) is not None
    (kept,) = kept_aside(path)
    assert kept.name == "chase.sqlite.corrupt-20260301T120000Z"
    assert kept.read_bytes() == before
    told = store.events(code="store-put-aside")
    assert [event.data for event in told] == [{"kept_as": str(kept)}]
    assert store.health.ok


def test_damage_while_running(store, path):
    """Found by the next write or look: open jobs and holds go on in the new file, the old one keeps its log."""
    filled(store)
    store.add_hold(HOLD)
    store.checkpoint()
    smash(path, (0, bytes(100_000)))
    with suppress(StopIteration):
        while not kept_aside(path):
            store.add_decision(DECISION)
            store.decisions()
    assert store.flush(20)
    assert store.add_decision(DECISION) is not None
    assert store.jobs(running=True) == [JOB]
    assert [hold.mode for hold in store.holds(T0)] == ["speed-first"]
    assert [event.code for event in store.events()].count("store-put-aside") == 1
    assert store.health.ok
    assert sound(path)


def test_damage_found_by_a_look_back(store, path):
    """Reading finds nothing instead of raising, and the writer is told."""
    filled(store)
    store.checkpoint()
    size = path.stat().st_size
    smash(path, (4096, bytes(size - 4096)))
    assert store.decisions() == []
    assert store.flush(20)
    while not kept_aside(path):
        store.flush(20)
    store.add_event(EVENT)
    assert "store-put-aside" in [event.code for event in store.events()]
    assert store.health.ok


def test_a_late_report_of_the_old_file_does_not_condemn_the_new_one(store, path):
    """A reader that still had the damaged file open tells of that one, and nothing happens to what lies there now."""
    store.add_event(EVENT)
    store._writer.suspect((1, 1), "database disk image is malformed")
    store._writer.suspect(None, "database disk image is malformed")
    assert store.add_event(EVENT) == 2
    assert kept_aside(path) == []


def test_two_damaged_files_are_both_kept(open_store, path):
    """In the same second: the second gets a number."""
    path.parent.mkdir()
    for text in (b"first" * 100, b"second" * 100):
        path.write_bytes(text)
        store = open_store()
        store.add_event(EVENT)
        store.close()
    first, second = kept_aside(path)
    assert (first.read_bytes(), second.read_bytes()) == (b"first" * 100, b"second" * 100)
    assert second.name.endswith("Z-2")


def test_a_log_beside_a_damaged_file_is_kept_with_it(open_store, path):
    """WAL and shared memory get the same name, so that the whole can be examined; a new file never finds them."""
    path.parent.mkdir()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").write_bytes(f"old{suffix}".encode() * 1000)
    store = open_store()
    store.add_event(EVENT)
    (kept,) = kept_aside(path)
    for suffix in ("", "-wal"):
        assert Path(f"{kept}{suffix}").read_bytes() == f"old{suffix}".encode() * 1000
    assert Path(f"{kept}-shm").exists()


def test_a_directory_that_lets_nothing_be_renamed(open_store, path, monkeypatch):
    """The damaged file stays, rows wait in memory, health says both, and it is tried again."""
    path.parent.mkdir()
    path.write_bytes(b"damaged" * 1000)

    def refused(self, target):
        raise PermissionError(13, "Permission denied", str(self))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refused)
        store = open_store()
        assert store.add_event(EVENT) is None
        assert "not a database; and it cannot be put aside" in store.health.reason
    assert store.flush(20)
    assert len(kept_aside(path)) == 1
    assert store.health.ok


def test_a_disk_that_damages_every_file_is_not_filled_with_copies(open_store, path, monkeypatch):
    """A new file that is corrupt at once is not put aside again and again."""
    path.parent.mkdir()
    path.write_bytes(b"damaged" * 1000)
    tries = []

    def damaging(conn, timeout_s):
        tries.append(conn)
        if path.stat().st_size == 0:
            path.write_bytes(b"damaged again" * 1000)
        return connect.prepare(conn, timeout_s)

    with monkeypatch.context() as patch:
        patch.setattr(link, "prepare", damaging)
        store = open_store()
        store.add_event(EVENT)
        while len(tries) < 10:
            assert not store.flush(0.02)
        assert len(kept_aside(path)) == 1
    assert "not a database" in store.health.reason


@pytest.mark.parametrize("seed", range(16))
def test_random_damage(open_store, path, seed):
    """Bytes written over at random places of the file or its log: nothing raises, nothing vanishes, writing goes on."""
    random_ = random.Random(seed)
    store = open_store()
    filled(store)
    if seed % 2:
        store.checkpoint()
    if seed % 3:
        store.close()
    victim = Path(f"{path}-wal") if seed % 5 == 0 and Path(f"{path}-wal").exists() else path
    size = max(victim.stat().st_size, 1)
    smash(victim, *((random_.randrange(size), random_.randbytes(random_.choice([1, 8, 512]))) for _ in range(20)))
    if seed % 3:
        store = open_store()
    store.upsert_job(JOB)
    for _ in range(20):
        store.add_decision(DECISION)
        store.add_interval(INTERVAL)
        store.add_event(EVENT)
        store.add_points([POINT])
        store.add_windows("key", WINDOWS)
        store.save_frontier("key", FRONTIER, T0)
        for look in (store.decisions, store.intervals, store.events, store.jobs, store.points):
            look()
        store.holds(T0)
        store.load_frontier("key")
    assert store.flush(20)
    store.close()
    for kept in kept_aside(path):
        assert kept.stat().st_size > 0
    with suppress(StoreError), open_readonly(path) as reader:  # damage in a page that nobody needed stays unseen
        reader.decisions()


def test_a_reader_says_that_a_file_is_damaged(path):
    """And what happens to it: the CLI shows this line."""
    path.parent.mkdir()
    path.write_bytes(b"damaged" * 1000)
    with pytest.raises(StoreError, match=r"cannot be read: file is not a database \(it is damaged"):
        open_readonly(path)


def test_a_row_that_cannot_be_understood_is_an_error_with_its_file(store, path):
    """A person edited it: a reader says so, the service goes on."""
    store.upsert_job(JOB)
    store.add_decision(DECISION)
    db = connect.open_db(path)
    with connect.write(db):
        db.execute("UPDATE decisions SET inputs_json = '{'")
    db.conn.close()
    with open_readonly(path) as reader, pytest.raises(StoreError, match="a row cannot be read"):
        reader.decisions()
    assert store.decisions() == []
    assert "a row cannot be read" in store.health.reason
    assert store.events() == []
    assert store.health.ok
