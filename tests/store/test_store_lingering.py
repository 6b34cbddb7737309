"""Many rows in one transaction: nobody waits for his row, and still none is late, lost or missed by a reader."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta

import pytest
from store_cases import DECISION, EVENT, INTERVAL, JOB, T0, count_of, held, rows_of, sound

from chase.store import Store, open_readonly
from chase.store.backlog import BATCH

LONG_S = 3600.0


def ticks(store: Store, count: int) -> None:
    """What a replay hands over: a decision, the job and an interval each."""
    for i in range(count):
        at = T0 + timedelta(hours=i)
        store.add_decision(replace(DECISION, at=at))
        store.upsert_job(replace(JOB, units_done=float(i)))
        store.add_interval(replace(INTERVAL, start=at, end=at + timedelta(hours=1)))


@pytest.fixture
def lingering(open_store) -> Store:
    store = open_store(linger_s=LONG_S)
    store.upsert_job(JOB)
    return store


def test_a_single_row_is_on_disk_soon(open_store, path):
    """Without anybody asking for it."""
    store = open_store(linger_s=0.02)
    assert store.add_event(EVENT) is None
    until = time.monotonic() + 30
    while not count_of(path, "events") and time.monotonic() < until:
        time.sleep(0.01)
    assert count_of(path, "events") == 1


def test_enough_rows_are_written_at_once(lingering, path):
    """No more than a transaction's rows wait in memory."""
    ticks(lingering, 2 * BATCH)
    assert count_of(path, "decisions") > BATCH
    assert lingering.health.ok
    assert lingering.health.buffered < BATCH


def test_flush_does_not_wait_for_more(lingering, path):
    """What is left is written now, in the order in which it was handed over."""
    ticks(lingering, 3)
    assert lingering.flush(20)
    assert lingering.health.buffered == 0
    assert rows_of(path, "SELECT at_utc FROM decisions ORDER BY id") == [
        (f"2026-03-01T{hour}:00:00.000000Z",) for hour in (12, 13, 14)
    ]
    assert rows_of(path, "SELECT units_done FROM jobs") == [(2.0,)]


def test_the_store_reads_what_it_was_given(lingering):
    """Rows that still linger are part of every answer."""
    ticks(lingering, 2)
    assert len(lingering.decisions()) == 2
    lingering.end_job(JOB.id, T0, "done", 7.0)
    assert lingering.job(JOB.id).state == "ended"
    lingering.add_event(EVENT)
    assert [row["code"] for row in lingering.export("events")] == [EVENT.code]


def test_the_end_writes_what_lingers(lingering, path):
    """Closing is prompt, and loses nothing."""
    ticks(lingering, 5)
    lingering.close()
    assert (count_of(path, "decisions"), count_of(path, "intervals")) == (5, 5)
    assert sound(path)


def test_a_refused_row_costs_no_other(lingering, path):
    """In the midst of a batch: it alone is left out and counted, and nothing is written twice."""
    ticks(lingering, 2)
    lingering.add_interval(replace(INTERVAL, job_id="feedbeef"))
    ticks(lingering, 2)
    assert lingering.flush(20)
    assert (count_of(path, "decisions"), count_of(path, "intervals")) == (4, 4)
    assert (lingering.health.ok, lingering.health.lost) == (True, 1)


def test_a_lock_leaves_rows_in_memory(open_store, path):
    """As long as another process holds it; then all of them are there, and who reads meanwhile is not kept waiting."""
    store = open_store(linger_s=LONG_S, busy_s=0.02, patience_s=0.5)
    store.upsert_job(JOB)
    assert store.flush(20)
    with held(path, "BEGIN IMMEDIATE"):
        ticks(store, BATCH)
        assert not store.health.ok
        assert store.decisions() == []
    assert store.flush(20)
    assert store.health.ok
    assert count_of(path, "decisions") == BATCH
    with open_readonly(path) as reader:
        assert [event.code for event in reader.events()] == ["store-back"]
