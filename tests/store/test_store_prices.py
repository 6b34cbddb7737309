"""What may change in an interval after it was written: its price, and its reference."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from store_cases import ACCOUNTED, DECISION, EVENT, INTERVAL, JOB, T0, count_of, half_hours, held, rows_of

from chase.repricing import reprice_recent
from chase.store import prices
from chase.store.rows import INTERVAL as SHAPE
from providers.base import Kind, Series

minute = timedelta(minutes=1)
OTHER = replace(JOB, id="ffff0000", region="de")


def minutes(count: int, job_id: str = JOB.id, **changes: object):
    """Intervals of a minute each, one after the other."""
    return [
        replace(INTERVAL, job_id=job_id, start=T0 + i * minute, end=T0 + (i + 1) * minute, **changes)
        for i in range(count)
    ]


def at_price(rows, g_per_kwh: float):
    return [
        replace(
            row,
            intensity_g_per_kwh=g_per_kwh,
            grams=row.energy_j * g_per_kwh / 3.6e6,
            reference_grams=row.reference_energy_j * g_per_kwh / 3.6e6,
        )
        for row in rows
    ]


def given(store, rows) -> None:
    for row in rows:
        store.add_interval(row)


@pytest.fixture
def operations(monkeypatch) -> list[int]:
    """The rows of each re-pricing that reaches the database."""
    seen: list[int] = []

    def counting(db, rows):
        seen.append(len(rows))
        update(db, rows)

    update = prices.update_prices
    monkeypatch.setattr(prices, "update_prices", counting)
    return seen


def test_only_what_changed_is_written(store, operations):
    """Of all the intervals of two jobs, the ones with another price; nothing for none."""
    for job in (JOB, OTHER):
        store.upsert_job(job)
        given(store, at_price(minutes(5, job.id), 100.0))
    rows = store.intervals()
    assert store.update_prices(rows) == 0
    assert store.update_prices([]) == 0
    assert operations == []
    revised = [*rows[:7], *at_price(rows[7:], 50.0)]
    assert store.update_prices(revised) == 3
    assert operations == [3]
    assert store.intervals() == revised


@pytest.mark.parametrize(
    "change",
    [
        {"intensity_g_per_kwh": 1.0},
        {"intensity_kind": "estimated"},
        {"intensity_source": "elsewhere"},
        {"pue": 1.3},
        {"grams": None},
        {"reference_grams": 2.0},
        {"price_per_kwh": 0.25, "price_kind": "day-ahead", "currency": "EUR"},
        {"cost": 0.1},
        {"reference_cost": -0.1},
    ],
)
def test_each_part_of_a_price_counts_as_a_change(store, change):
    """Value, kind and source, PUE, grams and money of both sides, also to or from nothing."""
    store.upsert_job(JOB)
    store.add_interval(INTERVAL)
    revised = replace(INTERVAL, **change)
    assert store.update_prices([revised]) == 1
    assert store.intervals(JOB.id) == [revised]
    assert store.update_prices([INTERVAL]) == 1
    assert store.intervals(JOB.id) == [INTERVAL]


def test_what_is_no_price_stays(store):
    """Energy, units and time of an interval are not for a re-pricing to change."""
    store.upsert_job(JOB)
    store.add_interval(INTERVAL)
    store.update_prices([replace(INTERVAL, energy_j=1.0, units=1.0, grams=5.0)])
    assert store.intervals(JOB.id) == [replace(INTERVAL, grams=5.0)]


def test_a_long_job_is_priced_anew_in_small_steps(store, operations):
    """No operation has more than 500 rows, however long the job was."""
    store.upsert_job(JOB)
    rows = minutes(1201)
    store._insert("intervals", [SHAPE.row(row) for row in rows])
    assert store.update_prices(at_price(rows, 77.0)) == 1201
    assert operations == [500, 500, 201]
    assert store.intervals(JOB.id) == at_price(rows, 77.0)


def test_pricing_a_long_job_anew_pushes_nothing_out_of_memory(open_store, path):
    """The database is locked while a job of a week ends: every row of the log is there afterwards, and no alarm."""
    open_store().close()
    with held(path, "BEGIN IMMEDIATE"):
        store = open_store(busy_s=0.02, buffer_rows=1000)
        store.upsert_job(JOB)
        for row in minutes(100):
            store.add_interval(row)
            store.add_decision(DECISION)
            store.add_event(EVENT)
        assert store.update_prices(at_price(minutes(10_000), 77.0)) == 10_000
        assert store.health.buffered <= 1000
        for _ in range(400):
            store.add_event(EVENT)
        assert store.health.lost == 0
    assert store.flush(20)
    assert [count_of(path, table) for table in ("intervals", "decisions")] == [100, 100]
    assert len(store.events(code=EVENT.code)) == 500
    assert store.events(code="store-rows-lost") == []
    assert store.health.lost == 0


def test_a_re_pricing_that_fits_waits_with_the_rest(open_store, path):
    """Memory is not short: it is written after the intervals that it prices."""
    open_store().close()
    with held(path, "BEGIN IMMEDIATE"):
        store = open_store(busy_s=0.02)
        store.upsert_job(JOB)
        given(store, minutes(3))
        store.update_prices(at_price(minutes(3), 77.0))
    assert store.flush(20)
    assert store.intervals(JOB.id) == at_price(minutes(3), 77.0)


def test_references_are_forgotten_from_a_time_on(store):
    """Of that job, of all intervals that reach beyond it; energy, grams and progress stay."""
    for job in (JOB, OTHER):
        store.upsert_job(job)
        given(store, minutes(4, job.id, **ACCOUNTED))
    store.forget_references(JOB.id, T0 + 1.5 * minute)
    nothing = {f"reference_{name}": None for name in ("energy_j", "host_energy_j", "s", "grams", "cost")}
    rows = minutes(4, **ACCOUNTED)
    assert store.intervals(JOB.id) == [rows[0], *(replace(row, **nothing) for row in rows[1:])]
    assert store.intervals(OTHER.id) == minutes(4, OTHER.id, **ACCOUNTED)
    store.forget_references("nobody", T0)
    assert store.health.ok


def test_references_of_rows_in_memory_are_forgotten_too(open_store, path):
    """Locked in between: rows before the order lose theirs, those after it keep theirs."""
    open_store().close()
    first, second = minutes(2)
    with held(path, "BEGIN IMMEDIATE"):
        store = open_store(busy_s=0.02)
        store.upsert_job(JOB)
        store.add_interval(first)
        store.forget_references(JOB.id, T0)
        store.add_interval(second)
    assert store.flush(20)
    assert [row.reference_energy_j for row in store.intervals(JOB.id)] == [None, second.reference_energy_j]


def test_a_re_pricing_does_not_bring_a_reference_back(store):
    """Rows that were read before the reference was forgotten get their new price without it."""
    store.upsert_job(JOB)
    store.add_interval(INTERVAL)
    read_before = store.intervals(JOB.id)
    store.forget_references(JOB.id, T0)
    store.update_prices(at_price(read_before, 77.0))
    (row,) = store.intervals(JOB.id)
    assert (row.intensity_g_per_kwh, row.grams) == (77.0, pytest.approx(INTERVAL.energy_j * 77.0 / 3.6e6))
    assert (row.reference_energy_j, row.reference_grams) == (None, None)


@pytest.fixture
def two_regions(store):
    """An hour and a half of a job in ``gb`` that ended, one that runs, and one in ``de``, at estimated 200 g/kWh."""
    for job in (JOB, replace(JOB, id="bbbb0000"), OTHER):
        store.upsert_job(job)
        given(store, at_price(minutes(90, job.id, intensity_kind="estimated"), 200.0))
    store.end_job(JOB.id, T0 + 90 * minute, "finished", 1.0)
    return store


def test_recent_intervals_get_the_price_known_by_now(two_regions, operations):
    """All jobs of the region, also ended ones, since then; how many changed, and nothing the second time."""
    store, since = two_regions, T0 + 45 * minute
    series = Series.of(half_hours(3))  # 100, 101 and 102 g/kWh, measured
    assert reprice_recent(store, series, pue=1.2, region="gb", since=since) == 2 * 45
    for job in (JOB.id, "bbbb0000"):
        rows = store.intervals(job)
        assert [row.intensity_g_per_kwh for row in rows] == [200.0] * 45 + [101.0] * 15 + [102.0] * 30
        assert [row.intensity_kind for row in rows] == ["estimated"] * 45 + ["measured"] * 45
        assert rows[-1].grams == pytest.approx(INTERVAL.energy_j * 102.0 / 3.6e6)
        assert rows[-1].reference_grams == pytest.approx(INTERVAL.reference_energy_j * 102.0 / 3.6e6)
    assert {row.intensity_g_per_kwh for row in store.intervals(OTHER.id)} == {200.0}
    assert reprice_recent(store, series, pue=1.2, region="gb", since=since) == 0
    assert operations == [90]


def test_a_better_price_is_kept(two_regions):
    """What only a forecast or a typical profile says does not replace an estimate."""
    series = Series.of(half_hours(3, kind=Kind.TYPICAL))
    assert reprice_recent(two_regions, series, pue=1.0, region="gb", since=T0) == 0
    assert {row.intensity_g_per_kwh for row in two_regions.intervals()} == {200.0}


def test_nothing_known_and_nothing_drawn_change_nothing(two_regions):
    """No series, another region, another time."""
    series = Series.of(half_hours(3))
    assert reprice_recent(two_regions, Series(), pue=1.0, region="gb", since=T0) == 0
    assert reprice_recent(two_regions, series, pue=1.0, region="fr", since=T0) == 0
    assert reprice_recent(two_regions, series, pue=1.0, region="gb", since=T0 + 90 * minute) == 0


def test_recent_intervals_are_read_in_one_query(two_regions, monkeypatch):
    """Also for many jobs; a second one looks up what is about to change, and there is none when nothing does."""
    asked: list[str] = []
    rows = two_regions._rows
    monkeypatch.setattr(two_regions, "_rows", lambda sql, *more: asked.append(sql) or rows(sql, *more))
    unchanged = Series.of(half_hours(3, g_per_kwh=200.0, kind=Kind.ESTIMATED))
    assert reprice_recent(two_regions, unchanged, pue=1.0, region="gb", since=T0) == 0
    assert len(asked) == 1


def test_pricing_anew_never_raises_on_a_database_that_is_locked(open_store, path):
    """Whoever holds it: the hourly round goes on, and what it found is written afterwards."""
    store = open_store(busy_s=0.02)
    store.upsert_job(JOB)
    store.add_interval(replace(INTERVAL, intensity_kind="estimated"))
    series = Series.of(half_hours(1))
    with held(path, "BEGIN EXCLUSIVE"):
        reprice_recent(store, series, pue=1.0, region="gb", since=T0)
    assert store.flush(20)
    assert reprice_recent(store, series, pue=1.0, region="gb", since=T0) == 0
    assert rows_of(path, "SELECT intensity_g_per_kwh, intensity_kind FROM intervals") == [(100.0, "measured")]
