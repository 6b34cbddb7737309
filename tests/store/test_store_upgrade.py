"""A file of the first schema: its rows move to the small tables, and everybody sees what they saw before."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_cases import ACCOUNTED, DECISION, EVENT, INTERVAL, JOB, POINT, T0, count_of, rows_of, sound
from store_points import points

from chase.clock import ManualClock
from chase.errors import StoreError
from chase.store import Store, Tuning, open_readonly
from chase.store.connect import open_db
from chase.store.rows import DECISION as DECISIONS
from chase.store.rows import EVENT as EVENTS
from chase.store.rows import INTERVAL as INTERVALS
from chase.store.rows import JOB as JOBS
from chase.store.rows import utc_text
from chase.store.schema import migrations
from providers.base import IntensityPoint, Kind, Series

_FILES = count(1)
hour = timedelta(hours=1)


def old_row(point: IntensityPoint) -> dict[str, object]:
    """As the first schema held it."""
    at = {name: getattr(point, name) for name in ("start", "end", "issued_at", "updated_at", "fetched_at")}
    texts = {name: str(getattr(point, name)) for name in ("zone", "source", "signal", "scope", "boundary", "kind")}
    return {
        **texts,
        **{f"{name}_utc": None if time is None else utc_text(time) for name, time in at.items()},
        "intensity_g_per_kwh": point.g_per_kwh,
        "method": point.method,
    }


def first_schema(path, rows, *, stop_before: str = "m002_compact") -> None:
    """A file as an old version left it: made by its own migrations, filled by table and row with what it knew."""
    path.parent.mkdir(parents=True, exist_ok=True)
    db = open_db(path)
    migrations.apply(db, stop_before=stop_before)
    for table, row in rows:
        known = {column.name for column in db.table(table).columns}
        db.table(table).insert({name: value for name, value in row.items() if name in known})
    db.conn.close()


def log_rows(path, table: str) -> list[tuple]:
    return rows_of(path, f"SELECT * FROM {table} ORDER BY id")


def columns(path, table: str) -> list[str]:
    return [row[1] for row in rows_of(path, f"PRAGMA table_info({table})")]


@pytest.fixture
def old_log(path):
    """A job with rows of everything, a revised point, and a forecast."""
    revised = {**old_row(POINT), "intensity_g_per_kwh": 190.5}
    expected = {**old_row(POINT), "kind": "forecast", "issued_at_utc": utc_text(T0 - hour), "method": "model"}
    rows = [("jobs", JOBS.row(JOB)), ("decisions", DECISIONS.row(DECISION)), ("intervals", INTERVALS.row(INTERVAL))]
    rows += [("events", EVENTS.row(EVENT)), ("signal_points", old_row(POINT)), ("signal_points", revised)]
    first_schema(path, [*rows, ("forecasts", expected)])
    return path


def test_nobody_loses_a_row(old_log, open_store):
    """Points keep number, order and vintage; jobs, decisions, intervals and events are untouched."""
    tables = ("signal_points", "forecasts", "decisions", "events")
    before = {table: log_rows(old_log, table) for table in tables}
    names = {table: columns(old_log, table) for table in tables}
    store = open_store()
    store.flush()
    assert columns(old_log, "events") == names["events"]
    assert columns(old_log, "decisions") == [*names["decisions"], "frontier_digest"]
    for table in tables:
        shown = rows_of(old_log, f"SELECT {', '.join(names[table])} FROM {table} ORDER BY id")
        assert shown == before[table]
    assert [point.g_per_kwh for point in store.points("GB", "neso")] == [190.5]
    assert [point.g_per_kwh for point in store.vintages("GB", "neso")] == [212.4, 190.5]
    assert store.forecasts("GB").points[0].issued_at == T0 - hour
    assert (store.jobs(), store.decisions(), store.intervals()) == ([JOB], [store.decision(1)], [INTERVAL])
    assert sound(old_log)


def test_old_accounts_stay_readable(path, open_store):
    """Rows from before there was a host, a price or a PUE have none of them, and new ones come beside them."""
    later = replace(INTERVAL, start=INTERVAL.end, end=INTERVAL.end + hour, **ACCOUNTED)
    old = [("jobs", JOBS.row(JOB)), ("intervals", INTERVALS.row(INTERVAL))]
    first_schema(path, old, stop_before="m003_accounts")
    store = open_store()
    store.add_interval(later)
    store.flush()
    assert store.intervals() == [INTERVAL, later]
    cost = "SELECT host_energy_j, pue, currency, cost FROM intervals ORDER BY start_utc"
    assert rows_of(path, cost) == [(0.0, None, "", None), (600.0, 1.2, "GBP", -0.02)]
    assert rows_of(path, "SELECT host_energy_kwh, cost, currency FROM jobs_readable") == [(0.0002, -0.02, "GBP")]
    assert sound(path)


def test_life_goes_on_after_the_move(old_log, open_store):
    """What the old rows say is not written again, and the next vintage has the next number."""
    store = open_store()
    newest = store.points("GB").points[0]
    assert store.add_points([newest]) == 0
    assert store.add_points([POINT]) == 1
    assert rows_of(old_log, "SELECT id FROM signal_points ORDER BY id") == [(1,), (2,), (3,)]


def test_opening_twice_moves_once(old_log, open_store):
    """The second start finds the new schema and leaves it."""
    open_store().close()
    before = log_rows(old_log, "signal_points")
    open_store().close()
    assert log_rows(old_log, "signal_points") == before


def test_a_reader_of_an_old_file_says_who_brings_it_up_to_date(old_log):
    """The CLI is newer than the service that wrote it: it reads nothing wrong, and changes nothing."""
    with pytest.raises(StoreError, match=r"older chase; 'chase serve' brings it up to date"):
        open_readonly(old_log)
    assert count_of(old_log, "signal_points") == 2


def test_a_row_whose_time_is_no_time_is_left_behind(path, open_store):
    """One damaged row must not keep the service from its log."""
    broken = {**old_row(POINT), "start_utc": "yesterday"}
    first_schema(path, [("signal_points", broken), ("signal_points", old_row(POINT))])
    store = open_store()
    assert list(store.points("GB")) == [POINT]
    assert store.health.ok


def test_a_move_that_fails_leaves_the_old_file(old_log, monkeypatch, open_store):
    """All of it or nothing."""
    monkeypatch.setattr("chase.store.schema.M002_COMPACT", ("DROP TABLE forecasts", "CREATE NONSENSE"))
    store = open_store(patience_s=5.0)
    assert not store.health.ok
    store.close()
    assert count_of(old_log, "forecasts") == 1
    assert rows_of(old_log, "SELECT name FROM _sqlite_migrations") == [("m001_log",)]


def test_an_empty_old_file_moves_too(path, open_store):
    """A service that never got a point."""
    first_schema(path, [])
    store = open_store()
    assert store.add_points([POINT]) == 1
    assert store.health.ok


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(given_points=st.lists(points, max_size=8))
def test_any_points_look_as_before(tmp_path_factory, given_points):
    """Whatever was stored, to the microsecond: old names show the same rows, and reading finds the same points."""
    path = tmp_path_factory.mktemp("upgrade") / f"{next(_FILES)}.sqlite"
    observed = [point for point in given_points if point.kind is not Kind.FORECAST]
    expected = [point for point in given_points if point.kind is Kind.FORECAST]
    first_schema(
        path, [("signal_points", old_row(p)) for p in observed] + [("forecasts", old_row(p)) for p in expected]
    )
    before = {table: log_rows(path, table) for table in ("signal_points", "forecasts")}
    names = columns(path, "signal_points")
    with Store(path, clock=ManualClock(T0), tuning=Tuning(patience_s=20.0)) as store:
        for table, rows in before.items():
            assert rows_of(path, f"SELECT {', '.join(names)} FROM {table} ORDER BY id") == rows
            assert [tuple(row[name] for name in names) for row in store.export(table)] == rows
        for zone in {point.zone for point in observed}:
            found = store.points(zone)
            last = Series.of(point for point in observed if identity(point) == identity(found.points[0]))
            assert found == last


def identity(point: IntensityPoint) -> tuple[str, ...]:
    return point.zone, point.source, point.signal, point.scope, point.boundary


def test_the_old_file_was_made_as_it_was_then(path):
    """The first migration still makes the tables that people have."""
    first_schema(path, [])
    assert (
        rows_of(path, "SELECT type FROM sqlite_master WHERE name IN ('signal_points', 'forecasts')") == [("table",)] * 2
    )
    conn = sqlite3.connect(path)
    assert conn.execute("SELECT count(*) FROM signal_newest").fetchone() == (0,)
    conn.close()
