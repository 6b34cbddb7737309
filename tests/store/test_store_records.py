from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_cases import DECISION, EVENT, FRONTIER, HOLD, INTERVAL, JOB, T0, WINDOWS

from chase.errors import StoreError
from chase.store import open_readonly, read
from chase.store.rows import utc_text, utc_time
from zeus_core.frontier import Setting, Window

minute = timedelta(minutes=1)


def test_what_is_written_is_read_back(store):
    """Each kind of record comes back equal, in this process and by a reader that opens the file."""
    store.upsert_job(JOB)
    number = store.add_decision(DECISION)
    store.add_interval(INTERVAL)
    event = store.add_event(EVENT)
    hold = store.add_hold(HOLD)
    with open_readonly(store.path) as reader:
        for log in (store, reader):
            assert log.jobs() == [JOB]
            assert log.decision(number) == replace(DECISION, id=number)
            assert log.intervals(JOB.id) == [INTERVAL]
            assert log.events() == [replace(EVENT, id=event)]
            assert log.holds(T0) == [replace(HOLD, id=hold)]


finite = st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
times = st.datetimes(timezones=st.just(UTC))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    at=times,
    limit_w=st.none() | finite,
    reason=st.text(st.characters(exclude_categories=["Cs"])),
    inputs=st.dictionaries(st.text(max_size=5), plain, max_size=4),
)
def test_any_finite_record_survives_exactly(store, at, limit_w, reason, inputs):
    """Every finite number, text, time and plain JSON value is the same bit for bit after a round trip."""
    store.upsert_job(JOB)
    given = replace(DECISION, at=at, power_limit_w=limit_w, reason=reason, inputs=inputs)
    number = store.add_decision(given)
    assert store.decision(number) == replace(given, id=number)


@given(times, times)
def test_times_as_text_keep_their_order(one, other):
    """One width for all: sorting the text sorts the times, and reading it back is exact."""
    assert (utc_text(one) < utc_text(other)) is (one < other)
    assert utc_time(utc_text(one)) == one
    assert utc_text(one).endswith("Z")


def test_decisions_by_job_time_and_number(store):
    """Oldest first; ``since`` includes its moment; a limit keeps the newest."""
    other = replace(JOB, id="ffff0000", name="other")
    store.upsert_job(JOB)
    store.upsert_job(other)
    for i in range(10):
        store.add_decision(replace(DECISION, at=T0 + i * minute, job_id=(JOB, other)[i % 2].id))
    minutes = lambda found: [(d.at - T0) // minute for d in found]  # noqa: E731
    assert minutes(store.decisions()) == list(range(10))
    assert minutes(store.decisions(job=JOB.id)) == [0, 2, 4, 6, 8]
    assert minutes(store.decisions(since=T0 + 7 * minute)) == [7, 8, 9]
    assert minutes(store.decisions(limit=3)) == [7, 8, 9]
    assert minutes(store.decisions(job=other.id, since=T0 + 2 * minute, limit=2)) == [7, 9]
    assert store.decisions(job="nobody") == []
    assert store.decision(999) is None


def test_a_jobs_decisions_are_counted_and_the_last_one_found(store):
    """By time, and of two at one time the one written later; none for a job that has none."""
    other = replace(JOB, id="ffff0000")
    store.upsert_job(JOB)
    store.upsert_job(other)
    for at, reason in [(2, "late"), (0, "early"), (2, "latest"), (1, "between")]:
        store.add_decision(replace(DECISION, at=T0 + at * minute, reason=reason))
    store.add_decision(replace(DECISION, at=T0 + 9 * minute, job_id=other.id))
    with open_readonly(store.path) as reader:
        for log in (store, reader):
            assert [log.decision_count(job_id) for job_id in (JOB.id, other.id, "nobody")] == [4, 1, 0]
            assert log.last_decision(JOB.id).reason == "latest"
            assert log.last_decision(other.id).at == T0 + 9 * minute
            assert log.last_decision("nobody") is None


def test_a_log_that_is_gone_has_no_decisions(store):
    """The service's own look-backs find nothing; a reader of the command line says why."""
    store.upsert_job(JOB)
    store.add_decision(DECISION)
    reader = open_readonly(store.path)
    for part in store.path.parent.iterdir():
        part.unlink()
    assert (store.decision_count(JOB.id), store.last_decision(JOB.id)) == (0, None)
    for look in (reader.decision_count, reader.last_decision):
        with pytest.raises(StoreError, match="there is no database here"):
            look(JOB.id)
    reader.close()


def test_intervals_of_the_jobs_of_a_region(store):
    """From a time on, oldest first, whichever job they are of."""
    jobs = [JOB, replace(JOB, id="ffff0000"), replace(JOB, id="eeee0000", region="de")]
    for job in jobs:
        store.upsert_job(job)
    rows = [
        replace(INTERVAL, job_id=jobs[i % 3].id, start=T0 + i * minute, end=T0 + (i + 1) * minute) for i in range(9)
    ]
    for row in rows:
        store.add_interval(row)
    assert store.intervals(region="gb") == [row for row in rows if row.job_id != "eeee0000"]
    assert store.intervals(region="gb", since=T0 + 4 * minute) == [rows[4], rows[6], rows[7]]
    assert store.intervals(job=JOB.id, region="de") == []
    assert store.intervals(region="fr") == []


def test_a_job_begins_goes_on_and_ends(store):
    """Its progress is written over, its first registration kept, and it is found by state."""
    store.upsert_job(JOB)
    store.upsert_job(replace(JOB, units_done=5.0, registered_at=T0 + minute))
    assert store.jobs(running=True) == [replace(JOB, units_done=5.0)]
    store.end_job(JOB.id, T0 + 2 * minute, "finished", 7.0)
    ended = replace(JOB, units_done=7.0, state="ended", ended_at=T0 + 2 * minute, end_reason="finished")
    assert store.jobs() == [ended]
    assert store.jobs(running=True) == []
    assert store.jobs(running=False) == [ended]
    assert store.job(JOB.id) == ended


def test_progress_is_of_open_jobs_alone(store, path):
    """It is all that changes between decisions; a job that has ended, or that nobody knows, has none."""
    store.upsert_job(JOB)
    store.note_progress(JOB.id, 5.0)
    assert store.jobs() == [replace(JOB, units_done=5.0)]
    store.end_job(JOB.id, T0 + minute, "finished", 7.0)
    store.note_progress(JOB.id, 9.0)
    store.note_progress("feedbeef", 9.0)
    assert [job.units_done for job in store.jobs()] == [7.0]
    with pytest.raises(ValueError, match=r"jobs\.units_done"):
        store.note_progress(JOB.id, math.nan)


def test_the_first_end_of_a_job_counts(store):
    """A lease that runs out after the job said goodbye changes nothing."""
    store.upsert_job(JOB)
    store.end_job(JOB.id, T0, "finished", 7.0)
    store.end_job(JOB.id, T0 + minute, "lease over", 0.0)
    assert store.job(JOB.id).end_reason == "finished"


def test_a_job_of_an_earlier_run_can_be_ended(open_store):
    """After a restart the store ends what it did not begin."""
    first = open_store()
    first.upsert_job(JOB)
    first.close()
    second = open_store()
    second.end_job(JOB.id, T0 + minute, "not seen since the service began", 3.0)
    assert second.job(JOB.id).units_done == 3.0
    assert second.jobs(running=True) == []


def test_a_job_that_registers_again_goes_on(store):
    """The same id after its end is the same job, running."""
    store.upsert_job(JOB)
    store.end_job(JOB.id, T0, "lease over", 7.0)
    store.upsert_job(replace(JOB, registered_at=T0 + minute, units_done=8.0))
    assert store.jobs(running=True) == [replace(JOB, units_done=8.0)]


def test_windows_add_up_under_their_key(store):
    """Measurements of one kind of job are kept across jobs, in order, with every lever."""
    wide = Window(Setting(250.0, 1200, 64, "plan-1"), 1.0, 2.0, 3.0)
    store.add_windows("a40/train", WINDOWS[:2], job_id=JOB.id)
    store.add_windows("a40/train", [WINDOWS[2], wide], job_id="ffff0000", at=T0)
    store.add_windows("other", WINDOWS)
    store.add_windows("none", [])
    assert store.windows("a40/train") == [*WINDOWS, wide]
    assert store.windows("none") == []


def test_the_newest_frontier_is_loaded_with_its_windows(store):
    """By key, if it is not older than asked."""
    older = replace(FRONTIER, windows=())
    store.save_frontier("key", FRONTIER, T0 + minute)
    store.save_frontier("key", older, T0)
    assert store.load_frontier("key") == FRONTIER
    assert store.load_frontier("key", T0 + minute) == FRONTIER
    assert store.load_frontier("key", T0 + 2 * minute) is None
    assert store.load_frontier("other") is None


def test_holds_are_in_force_until_they_end(store):
    """By their time, or because a person lifted them; a job's and the node's apart."""
    store.add_hold(HOLD)
    store.add_hold(replace(HOLD, job_id=JOB.id, until=None, mode="off"))
    modes = lambda at: [hold.mode for hold in store.holds(at)]  # noqa: E731
    assert modes(T0) == ["speed-first", "off"]
    assert modes(HOLD.until) == ["off"]
    store.end_hold(JOB.id, T0 + minute)
    assert modes(T0 + minute) == ["speed-first"]
    store.end_hold(None, T0 + minute)
    assert modes(T0 + minute) == []


def test_intervals_take_their_new_prices(store):
    """Energy priced anew is written over its old price; other jobs and times keep theirs."""
    store.upsert_job(JOB)
    store.upsert_job(replace(JOB, id="ffff0000"))
    rows = [replace(INTERVAL, start=T0 + i * minute, end=T0 + (i + 1) * minute) for i in range(3)]
    for row in (*rows, replace(INTERVAL, job_id="ffff0000")):
        store.add_interval(row)
    revised = [replace(row, intensity_g_per_kwh=100.0, grams=0.3, reference_grams=0.4) for row in rows[:2]]
    store.update_prices(revised)
    assert store.intervals(JOB.id) == [*revised, rows[2]]
    assert store.intervals("ffff0000") == [replace(INTERVAL, job_id="ffff0000")]


def test_events_by_job_code_and_time(store):
    """As decisions: oldest first, the newest of too many."""
    for i in range(4):
        store.add_event(replace(EVENT, at=T0 + i * minute, code=("a", "b")[i % 2], job_id=None if i else JOB.id))
    at = lambda found: [(event.at - T0) // minute for event in found]  # noqa: E731
    assert at(store.events(limit=2)) == [2, 3]
    assert at(store.events(code="b")) == [1, 3]
    assert at(store.events(job=JOB.id)) == [0]
    assert at(store.events(since=T0 + 2 * minute)) == [2, 3]


def test_export_gives_every_row_of_a_table_as_it_is_stored(store, monkeypatch):
    """In pages, oldest first, from ``since`` on; JSON stays text."""
    monkeypatch.setattr(read, "_PAGE", 10)
    store.upsert_job(JOB)
    for i in range(25):
        store.add_interval(replace(INTERVAL, start=T0 + i * minute, end=T0 + (i + 1) * minute, units=float(i)))
    rows = list(store.export("intervals"))
    assert [row["units"] for row in rows] == [float(i) for i in range(25)]
    assert rows[0]["start_utc"] == "2026-03-01T12:00:00.000000Z"
    assert len(list(store.export("intervals", T0 + 20 * minute))) == 6
    assert next(store.export("jobs"))["gpus_json"] == '["GPU-1","GPU-2"]'


def test_export_of_an_unknown_table_names_the_known_ones(store):
    """Also one that SQLite has, but is not ours to hand out."""
    for name in ("secrets", "sqlite_master", "jobs; DROP TABLE jobs"):
        with pytest.raises(Exception, match=r"choose one of decision_frontiers, decisions, events"):
            store.export(name)


def test_a_closed_log_is_one_file(path, open_store):
    """After a clean end nothing is left in the write-ahead log, so the file may be copied alone."""
    store = open_store()
    store.upsert_job(JOB)
    assert store.jobs() == [JOB]
    store.close()
    assert sorted(entry.name for entry in path.parent.iterdir() if entry.name.startswith(path.name)) == [path.name]


def test_a_look_after_the_end_leaves_nothing_open(path, open_store):
    """A reader that is asked once more after it was closed answers, and keeps no connection."""
    store = open_store()
    store.upsert_job(JOB)
    store.close()
    assert store.jobs() == [JOB]
    assert store._idle == []
