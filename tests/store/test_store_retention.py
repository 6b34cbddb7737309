from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_cases import DECISION, EVENT, FRONTIER, HOLD, INTERVAL, JOB, POINT, T0, WINDOWS, count_of, rows_of, sound

from chase.clock import ManualClock
from chase.store import Keep, Store, Tuning, connect, keep
from chase.store.tables import EXPORTS

day = timedelta(days=1)
PATIENT = Tuning(patience_s=20.0)


@pytest.fixture
def store(path, clock):
    store = Store(path, clock=clock, keep=Keep(log_days=100, signal_days=50), tuning=PATIENT)
    yield store
    store.close()


def history(store: Store, job_id: str, *, ended: bool) -> None:
    """A job with one row of everything on each of the days 0, 10, ... 190; it ends on day 195."""
    store.upsert_job(replace(JOB, id=job_id))
    for i in range(20):
        at = T0 + 10 * i * day
        store.add_decision(replace(DECISION, job_id=job_id, at=at))
        store.add_interval(replace(INTERVAL, job_id=job_id, start=at, end=at + timedelta(minutes=1)))
        store.add_event(replace(EVENT, job_id=job_id, at=at))
        store.add_windows(job_id, WINDOWS[:1], at=at)
    if ended:
        store.end_job(job_id, T0 + 195 * day, "finished", 1.0)


def per_job(path, table: str) -> dict[str, int]:
    return dict(rows_of(path, f"SELECT job_id, count(*) FROM {table} GROUP BY job_id"))


def test_what_is_old_goes_and_what_an_open_job_needs_stays(store, path):
    """Of an ended job rows older than configured go; of a running one nothing does, however old."""
    history(store, "aaaaaaaa", ended=True)
    history(store, "bbbbbbbb", ended=False)
    removed = store.prune(T0 + 200 * day)
    for table in ("decisions", "intervals", "events", "windows"):
        assert per_job(path, table) == {"aaaaaaaa": 10, "bbbbbbbb": 20}
    pruned = {*EXPORTS} - {"recurrences", "trials"}
    assert removed == dict.fromkeys(pruned, 0) | {"decisions": 10, "events": 10, "windows": 10, "intervals": 10}
    assert [job.id for job in store.jobs()] == ["aaaaaaaa", "bbbbbbbb"]
    assert sound(path)


def test_a_job_goes_with_its_last_row(store, path):
    """When all that it did is forgotten, so is it; before, its rows keep their job."""
    history(store, "aaaaaaaa", ended=True)
    assert store.prune(T0 + 294 * day)["jobs"] == 0
    removed = store.prune(T0 + 296 * day)
    assert removed["jobs"] == 1
    assert store.jobs() == []
    assert all(count_of(path, table) == 0 for table in ("decisions", "intervals", "windows", "jobs"))


def test_the_signal_is_kept_for_the_longest_open_job(store, path):
    """From a week before it began, for its percentiles and for a new price; without open jobs, as configured."""
    points = [replace(POINT, start=T0 + i * day, end=T0 + (i + 1) * day, g_per_kwh=float(i)) for i in range(-20, 200)]
    store.add_points(points)
    store.upsert_job(replace(JOB, registered_at=T0 + 10 * day))
    assert store.prune(T0 + 200 * day)["signal_points"] == 21
    assert store.points("GB").points[0].start == T0 + 1 * day
    store.end_job(JOB.id, T0 + 200 * day, "finished", 1.0)
    store.prune(T0 + 200 * day)
    assert store.points("GB").points[0].start == T0 + 149 * day


def test_the_newest_frontier_of_each_kind_stays(store):
    """Measuring anew costs a job time; an old frontier is better than none."""
    slower = replace(FRONTIER, windows=())
    for i in range(3):
        store.save_frontier("a", slower if i < 2 else FRONTIER, T0 + i * day)
    store.save_frontier("b", slower, T0)
    assert store.prune(T0 + 500 * day)["frontiers"] == 2
    assert store.load_frontier("a") == FRONTIER
    assert store.load_frontier("b") == slower


def test_holds_go_when_they_are_over(store):
    """Not one without an end that nobody lifted, nor one of a job that still runs."""
    store.upsert_job(JOB)
    store.add_hold(HOLD)
    store.add_hold(replace(HOLD, until=None))
    store.add_hold(replace(HOLD, job_id=JOB.id))
    assert store.prune(T0 + 500 * day)["holds"] == 1
    assert len(store.holds(T0)) == 2


def test_pruning_is_done_for_good(store, path, clock):
    """The file is opened anew and the rows are still gone: no transaction was left open (sqlite-utils, issue 815)."""
    history(store, "aaaaaaaa", ended=True)
    store.prune(T0 + 500 * day)
    store.close()
    again = Store(path, clock=clock, tuning=PATIENT)
    assert again.decisions() == []
    assert again.add_event(EVENT) is not None
    again.close()


def test_pruning_lets_others_write_in_between(store, path, monkeypatch):
    """It deletes in small transactions, so that a decision never waits for a year of them."""
    monkeypatch.setattr(keep, "_CHUNK", 3)
    history(store, "aaaaaaaa", ended=True)
    transactions = []
    original = connect.write

    def counted(db):
        transactions.append(db)
        return original(db)

    monkeypatch.setattr(keep, "write", counted)
    assert store.prune(T0 + 500 * day)["decisions"] == 20
    assert len(transactions) > 20 / 3 * 4
    assert count_of(path, "decisions") == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(
    jobs=st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 300), max_size=5)), max_size=5),
    now=st.integers(0, 600),
    keep_days=st.integers(0, 400),
)
def test_nothing_that_an_open_job_needs_is_ever_dropped(tmp_path_factory, jobs, now, keep_days):
    """For any history and any retention: open jobs keep every row, and no row loses its job."""
    path = tmp_path_factory.mktemp("prune") / "chase.sqlite"
    rules = Keep(log_days=keep_days, signal_days=keep_days)
    with Store(path, clock=ManualClock(T0), keep=rules, tuning=PATIENT) as store:
        for number, (ended, days) in enumerate(jobs):
            job_id = f"{number:08x}"
            store.upsert_job(replace(JOB, id=job_id))
            for at in days:
                store.add_decision(replace(DECISION, job_id=job_id, at=T0 + at * day))
                store.add_interval(replace(INTERVAL, job_id=job_id, start=T0 + at * day, end=T0 + (at + 1) * day))
            if ended:
                store.end_job(job_id, T0 + max(days, default=0) * day, "finished", 0.0)
        store.prune(T0 + now * day)
        assert sound(path)
        for number, (ended, days) in enumerate(jobs):
            left = len(store.decisions(job=f"{number:08x}"))
            assert left == (sum(at >= now - keep_days for at in days) if ended else len(days))
