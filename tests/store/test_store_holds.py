"""Holds that are over: by their time, with their job, or because a person lifted them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from store_cases import EVENT, HOLD, JOB, T0, rows_of

hour = timedelta(hours=1)
FOREVER = replace(HOLD, until=None, mode="off")
OF_JOB = replace(FOREVER, job_id=JOB.id)


def begun_anew(store, path) -> list[tuple]:
    """The holds that a new file is given, when the old one was deleted under the service."""
    store.flush()
    for part in path.parent.iterdir():
        part.unlink()
    store.add_event(EVENT)
    return rows_of(path, "SELECT mode, job_id FROM holds ORDER BY id")


def test_a_hold_that_is_over_is_not_remembered(store, path, clock):
    """By the store's clock: only what still holds gets into a new file."""
    store.upsert_job(JOB)
    store.add_hold(HOLD)
    store.add_hold(replace(HOLD, until=T0 + 3 * hour, mode="efficiency-first"))
    store.add_hold(FOREVER)
    clock.advance(3600.0)
    assert begun_anew(store, path) == [("efficiency-first", None), ("off", None)]


def test_holds_do_not_pile_up(store, clock):
    """A hold of a minute every minute for a day leaves one in memory, not 1440."""
    for _ in range(200):
        store.add_hold(replace(HOLD, made_at=clock.now(), until=clock.now() + timedelta(minutes=1)))
        clock.advance(60.0)
    assert len(store._open_holds) == 1


@pytest.mark.parametrize("by", ["end_job", "upsert_job"])
def test_a_job_takes_its_holds_with_it(store, path, by):
    """However its end is written; holds of others and of the node stay."""
    other = replace(JOB, id="ffff0000")
    store.upsert_job(JOB)
    store.upsert_job(other)
    for job_id in (JOB.id, other.id, None):
        store.add_hold(replace(FOREVER, job_id=job_id))
    if by == "end_job":
        store.end_job(JOB.id, T0, "finished", 1.0)
        assert [hold.job_id for hold in store.holds(T0)] == [other.id, None]
    else:
        store.upsert_job(replace(JOB, state="ended", ended_at=T0, end_reason="finished"))
    assert begun_anew(store, path) == [("off", other.id), ("off", None)]


def test_a_job_of_an_earlier_run_takes_its_holds_with_it(open_store):
    """The service restarts, the job does not come back: its hold does not stay in force for ever."""
    first = open_store()
    first.upsert_job(JOB)
    first.add_hold(OF_JOB)
    first.add_hold(FOREVER)
    first.close()
    second = open_store()
    assert len(second.holds(T0)) == 2
    second.end_job(JOB.id, T0 + hour, "not seen since the service restarted", 1.0)
    assert [hold.job_id for hold in second.holds(T0 + hour)] == [None]
    assert [hold.job_id for hold in second.holds(T0)] == [JOB.id, None]


def test_lifting_leaves_the_others(store, path):
    """A person lifts the node's hold; the job's stays, also in a new file."""
    store.upsert_job(JOB)
    store.add_hold(OF_JOB)
    store.add_hold(FOREVER)
    store.end_hold(None, T0)
    assert begun_anew(store, path) == [("off", JOB.id)]


@pytest.mark.parametrize("job_id", [JOB.id, None])
def test_lifting_what_one_person_held_leaves_what_others_hold(store, path, job_id):
    """By the user's number; of the job or of the node, also in a new file."""
    store.upsert_job(JOB)
    for uid in (1000, 1001):
        for held_for in (JOB.id, None):
            store.add_hold(replace(FOREVER, uid=uid, job_id=held_for))
    store.end_hold(job_id, T0, uid=1000)
    other = None if job_id else JOB.id
    left = {(1000, other), (1001, JOB.id), (1001, None)}
    assert {(hold.uid, hold.job_id) for hold in store.holds(T0)} == left
    assert len(begun_anew(store, path)) == 3
    assert set(rows_of(path, "SELECT uid, job_id FROM holds")) == left
