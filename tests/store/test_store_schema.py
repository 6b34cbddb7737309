from __future__ import annotations

import re
import sqlite3
from dataclasses import fields
from datetime import datetime

import pytest
from store_cases import DECISION, EVENT, HOLD, INTERVAL, JOB, POINT, PRICE, T0, count_of, rows_of, sound

from chase.errors import StoreError
from chase.store import open_readonly, points, prices, rows
from chase.store.schema import migrations
from chase.store.tables import EXPORTS, TABLES, VERSIONS

SHAPES = [
    (rows.JOB, JOB),
    (rows.DECISION, DECISION),
    (rows.INTERVAL, INTERVAL),
    (rows.EVENT, EVENT),
    (rows.HOLD, HOLD),
]
KEPT = [(points.POINTS, POINT), (points.FORECASTS, POINT), (points.PRICES, PRICE)]
# A number says its unit; these are counts, names of the kernel, or of the row itself.
PLAIN_NUMBERS = {"id", "uid", "pid", "units", "total_units", "units_done", "point_count", "progress", "grams", "pue"}
PLAIN_NUMBERS |= {"number", "batch_size", "pinned_batch_size", "first_trial", "epochs", "eta", "metric"}
# Money is in the row's own currency.
MONEY = {"cost", "reference_cost"}
REFERENCES = {"series_id", "label_id"}
UNIT = re.compile(r"_(w|j|s|g_per_kwh|s_per_unit|j_per_unit|grams|kwh|min)$")


@pytest.mark.parametrize(("shape", "record"), SHAPES)
def test_each_record_fits_its_table(store, shape, record):
    """Every field has a column in the file, by the name that its kind gives."""
    columns = {row[1] for row in rows_of(store.path, f"PRAGMA table_info({shape.table})")}
    assert set(shape.columns) == {field.name for field in fields(record)}
    assert {shape.column(name) for name in shape.columns} <= columns


def test_every_number_has_its_unit_in_its_name(store):
    """In tables and views, for those who meet them without the documentation."""
    names = rows_of(store.path, "SELECT name, type FROM sqlite_master WHERE name NOT LIKE '%sqlite_%'")
    tables, views = ({name for name, kind in names if kind == wanted} for wanted in ("table", "view"))
    assert tables == TABLES
    assert tables | views >= set(EXPORTS)
    for name in tables | views:
        for _, column, kind, *_ in rows_of(store.path, f"PRAGMA table_info({name})"):
            plain = kind == "TEXT" or column in PLAIN_NUMBERS | REFERENCES | MONEY
            assert plain or name in views or UNIT.search(column), f"{name}.{column}"


@pytest.mark.parametrize(("kept", "record"), KEPT)
def test_each_point_fits_its_view(store, kept, record):
    """Every field has a column of its name, a time with ``_utc`` and a number with its unit."""
    columns = {row[1] for row in rows_of(store.path, f"PRAGMA table_info({kept.view})")}
    times = {field.name for field in fields(record) if isinstance(getattr(record, field.name), datetime)}
    names = {field.name for field in fields(record)} - {kept.amount, "issued_at", "updated_at"} - times
    assert columns - {"issued_at_utc", "updated_at_utc"} == names | {f"{name}_utc" for name in times} | {
        "id",
        kept.value,
    }


def test_times_are_text_in_utc(store):
    """Fixed width and a Z at the end, so that they sort and nobody has to guess."""
    store.upsert_job(JOB)
    store.add_decision(DECISION)
    assert rows_of(store.path, "SELECT at_utc FROM decisions") == [("2026-03-01T12:00:00.000000Z",)]
    assert rows_of(store.path, "SELECT registered_at_utc FROM jobs") == [("2026-03-01T12:00:00.000000Z",)]


def test_people_can_read_the_views(store):
    """What opens in Datasette: the job's name beside each decision, and sums for each job."""
    store.upsert_job(JOB)
    store.add_decision(DECISION)
    store.add_interval(INTERVAL)
    readable = (
        "SELECT at_utc, job, power_limit_w, intensity_g_per_kwh, intensity_age_min, reason FROM decisions_readable"
    )
    expected = ("2026-03-01T12:00:00Z", "train", 200.0, 212.4, 10.0, "212 g/kWh is above 200")
    assert rows_of(store.path, readable) == [expected]
    assert rows_of(store.path, "SELECT name, energy_kwh, grams FROM jobs_readable") == [("train", 0.0033, 0.7)]


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        ("SELECT * FROM decisions WHERE at_utc >= ? ORDER BY at_utc DESC, id DESC LIMIT 50", "decisions_at"),
        ("SELECT * FROM decisions WHERE job_id = ? ORDER BY at_utc DESC, id DESC LIMIT 50", "decisions_job_at"),
        ("SELECT count(*) AS n FROM decisions WHERE job_id = ?", "COVERING INDEX decisions_job_at"),
        (prices.WRITTEN.replace("AND ?", "AND 'z'").replace("BETWEEN ?", "BETWEEN 'a'"), "intervals_job_start"),
        ("SELECT * FROM intervals WHERE job_id = ? ORDER BY start_utc DESC, id DESC", "intervals_job_start"),
    ],
)
def test_the_usual_questions_have_an_index(store, sql, index):
    """And are not sorted anew for each answer, where their order is the index's."""
    plan = " ".join(row[3] for row in rows_of(store.path, f"EXPLAIN QUERY PLAN {sql}", "x"))
    assert index in plan
    assert "SCAN" not in plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("kept", points.ALL)
def test_a_series_is_found_by_its_index(store, kept):
    """Zone and source lead to the series, and its index to the rows of the time asked for, also for an export."""
    for newest in (True, False):
        sql, limits = points.query(kept, newest=newest, zone="GB", source="neso", start=T0, end=T0)
        plan = " ".join(row[3] for row in rows_of(store.path, f"EXPLAIN QUERY PLAN {sql}", *limits))
        assert f"SEARCH {kept.rows} USING INDEX {kept.rows}_start (series_id=? AND start_unix_s>? AND" in plan
        assert "SCAN" not in plan
    export = f"EXPLAIN QUERY PLAN SELECT * FROM {kept.view} WHERE id > ? ORDER BY id LIMIT 1000"
    plan = " ".join(row[3] for row in rows_of(store.path, export, 0))
    assert f"SEARCH {kept.rows} USING INTEGER PRIMARY KEY" in plan
    assert "TEMP B-TREE" not in plan


def test_the_file_is_in_wal_and_ours(store):
    """WAL, and our application id."""
    assert rows_of(store.path, "PRAGMA journal_mode") == [("wal",)]
    assert rows_of(store.path, "PRAGMA application_id") == [(0x43484153,)]


def test_versions_are_known_to_readers(store):
    """The reader's list of migrations is the writer's."""
    assert tuple(m.name for m in migrations._migrations) == VERSIONS
    applied = rows_of(store.path, "SELECT name FROM _sqlite_migrations WHERE migration_set = 'chase' ORDER BY id")
    assert tuple(name for (name,) in applied) == VERSIONS


def test_opening_again_changes_nothing(open_store, path):
    """Migrations run once."""
    open_store().close()
    before = rows_of(path, "SELECT * FROM _sqlite_migrations")
    open_store().close()
    assert rows_of(path, "SELECT * FROM _sqlite_migrations") == before
    assert sound(path)


def from_the_future(path):
    conn = sqlite3.connect(path)
    conn.execute("INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('chase', 'm999_more', '')")
    conn.commit()
    conn.close()


def test_a_file_of_a_newer_chase_is_not_touched(open_store, path):
    """Neither read nor written, nor put aside as corrupt: the error names the version and the fix."""
    store = open_store()
    store.upsert_job(JOB)
    store.close()
    from_the_future(path)
    for opening in (open_store, lambda: open_readonly(path)):
        with pytest.raises(StoreError, match=r"newer chase \(its schema has m999_more.*service\.db"):
            opening()
    assert count_of(path, "jobs") == 1
    assert sorted(p.name for p in path.parent.iterdir() if "corrupt" in p.name) == []


def test_somebody_elses_database_is_not_touched(open_store, path):
    """Another program's SQLite file gets no tables of ours."""
    path.parent.mkdir()
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE bookmarks (url TEXT)")
    conn.close()
    for opening in (open_store, lambda: open_readonly(path)):
        with pytest.raises(StoreError, match=r"not one of chase; name another file with service\.db"):
            opening()
    assert rows_of(path, "SELECT name FROM sqlite_master") == [("bookmarks",)]


def test_an_empty_file_is_a_new_database(open_store, path):
    """As a crash right after its creation leaves it; a reader says that there is nothing yet."""
    path.parent.mkdir()
    path.touch()
    with pytest.raises(StoreError, match="no tables of ours yet"):
        open_readonly(path)
    store = open_store()
    assert store.add_event(EVENT) == 1
    assert store.holds(T0) == []


def test_a_migration_that_fails_leaves_the_file_as_it_was(path, monkeypatch, open_store):
    """All of it or nothing: the next start finds no half of a schema."""
    monkeypatch.setattr("chase.store.schema.M001_LOG", ("CREATE TABLE half (id INTEGER)", "CREATE NONSENSE"))
    store = open_store(patience_s=5.0)
    assert not store.health.ok
    assert 'near "NONSENSE": syntax error' in store.health.reason
    store.close()
    assert rows_of(path, "SELECT name FROM sqlite_master") == []
