"""What is old is thinned: the newest vintage, the mean of an hour, the last forecast before it; all else stays."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_cases import JOB, POINT, PRICE, T0, count_of, half_hours, rows_of, sound

from chase.clock import ManualClock
from chase.pricing import price
from chase.store import Keep, Store, Tuning, rollup
from providers.base import IntensityPoint, Kind, Series

_FILES = count(1)
minute, hour, day = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LATER = T0 + 60 * day  # when all that lies around T0 is old
RULES = Keep(log_days=400, signal_days=400, vintages_days=30, forecasts_days=30)


@pytest.fixture
def store(path, clock):
    store = Store(path, clock=clock, keep=RULES, tuning=Tuning(patience_s=20.0))
    yield store
    store.close()


def at(start_min: float, g: float, *, length_min: float = 5.0, fetched_min: float = 0.0, **more) -> IntensityPoint:
    start = T0 + start_min * minute
    fetched = T0 + fetched_min * minute
    return replace(POINT, start=start, end=start + length_min * minute, g_per_kwh=g, fetched_at=fetched, **more)


def spans(found) -> list[tuple[float, float, float]]:
    return [((p.start - T0) / minute, (p.end - T0) / minute, round(p.g_per_kwh, 9)) for p in found]


def test_of_old_vintages_the_newest_stays(store):
    """Young ones all stay; the count of rows that went is told under the name that people know."""
    for fetched, g in enumerate((100.0, 110.0, 120.0)):
        store.add_points([at(0, g, length_min=60, fetched_min=fetched)])
        store.add_points([replace(at(0, g, length_min=60, fetched_min=fetched), start=LATER, end=LATER + hour)])
    assert store.prune(LATER)["signal_points"] == 2
    assert [point.g_per_kwh for point in store.vintages("GB")] == [120.0, 100.0, 110.0, 120.0]
    assert store.prune(LATER)["signal_points"] == 0


def test_short_values_become_the_mean_of_their_hour(store):
    """Weighted by time, with the worst kind and the newest time of reading; an hour of young ones stays as it is."""
    old = [at(5 * i, 100.0 + i, fetched_min=i) for i in range(12)]
    old[3] = replace(old[3], kind=Kind.ESTIMATED)
    young = [replace(point, start=point.start + 50 * day, end=point.end + 50 * day) for point in old]
    store.add_points([*old, *young])
    assert store.prune(LATER)["signal_points"] == 11
    joined, *rest = store.points("GB")
    assert spans([joined]) == [(0, 60, 105.5)]
    assert (joined.kind, joined.fetched_at, joined.method) == (Kind.ESTIMATED, T0 + 11 * minute, "")
    assert rest == young


@pytest.mark.parametrize("after_min", range(0, 120, 7))
def test_what_was_joined_is_found_from_any_minute_on(store, after_min):
    """An hour that was of short values is longer than all that its series had: still nothing of it is overlooked."""
    observed = [at(5 * i, 100.0 + i) for i in range(24)]
    expected = [replace(point, kind=Kind.FORECAST) for point in observed]
    store.add_points([*observed, *expected])
    store.add_prices([replace(PRICE, start=point.start, end=point.end) for point in observed])
    store.prune(LATER)
    since = T0 + after_min * minute
    for found in (store.points("GB", start=since), store.forecasts("GB", start=since), store.prices(start=since)):
        assert [(p.start - T0) / hour for p in found] == [0, 1][after_min // 60 :]


def test_a_gap_in_an_hour_stays_a_gap(store):
    """What is joined is what followed without a break: nothing is made up for the minutes between."""
    store.add_points([at(0, 10.0), at(5, 20.0), at(20, 30.0, length_min=10), at(30, 60.0, length_min=20)])
    store.prune(LATER)
    assert spans(store.points("GB")) == [(0, 10, 15.0), (20, 50, 50.0)]
    assert store.points("GB").at(T0 + 12 * minute) is None


@pytest.mark.parametrize(
    "others",
    [
        [at(30, 5.0, length_min=60)],  # reaches into the next hour
        [at(-30, 5.0, length_min=60)],  # reaches in from the hour before
        [at(3, 5.0)],  # begins inside another
        [at(-24 * 60, 5.0, length_min=48 * 60)],
    ],
)
def test_an_hour_in_which_values_overlap_is_left_as_it_is(store, others):
    """Which of them holds is told by their starts; a mean would tell something else."""
    points = sorted([at(0, 10.0), at(5, 20.0), *others], key=lambda point: point.start)
    store.add_points(points)
    assert store.prune(LATER)["signal_points"] == 0
    assert list(store.points("GB")) == points


def test_hours_of_the_grid_are_hours_of_utc(store):
    """Half hours of two hours are not joined across, and a value of an hour or more is left."""
    store.add_points([*half_hours(3), at(120, 7.0, length_min=60), at(180, 9.0, length_min=240)])
    store.prune(LATER)
    assert spans(store.points("GB")) == [(0, 60, 100.5), (60, 90, 102.0), (120, 180, 7.0), (180, 420, 9.0)]


def test_a_remark_that_all_share_stays(store):
    """How a value was estimated; where they differ the joined one says so."""
    store.add_points([at(0, 1.0, method="a"), at(5, 2.0, method="a"), at(60, 1.0, method="a"), at(65, 2.0, method="b")])
    store.prune(LATER)
    assert [point.method for point in store.points("GB")] == ["a", "mixed"]


def test_sources_are_not_joined_with_one_another(store):
    """Each series alone."""
    other = [at(5 * i, 500.0, source="other") for i in range(12)]
    store.add_points([*[at(5 * i, 100.0) for i in range(12)], *other])
    store.prune(LATER)
    assert spans(store.points("GB", "neso")) == [(0, 60, 100.0)]
    assert spans(store.points("GB", "other")) == [(0, 60, 500.0)]


def expected(start_h: float, g: float, issued_h: float, *, length_min: float = 60.0) -> IntensityPoint:
    issued = T0 + issued_h * hour
    found = at(60 * start_h, g, length_min=length_min, kind=Kind.FORECAST, issued_at=issued)
    return replace(found, fetched_at=issued)


def test_of_old_forecasts_the_last_one_before_the_hour_stays(store):
    """What was expected of each hour when it began; one made only afterwards is better than none."""
    for issued in (-30, -5, -0.5, 0.5):
        store.add_points([expected(0, 100.0 + issued, issued)])
    for issued in (2, 5):
        store.add_points([expected(1, 100.0 + issued, issued)])
    assert store.prune(LATER)["forecasts"] == 4
    assert [point.g_per_kwh for point in store.vintages("GB", forecasts=True)] == [99.5, 102.0]


def test_old_forecasts_of_five_minutes_become_hours(store):
    """The last ones before the hour, joined as what was observed is."""
    for issued in (-3, -1.5, 0.2):
        store.add_points(expected(i / 12, 100.0 + issued + i, issued, length_min=5.0) for i in range(12))
    store.prune(LATER)
    (found,) = store.vintages("GB", forecasts=True)
    assert (spans([found]), found.issued_at, found.kind) == ([(0, 60, 104.0)], T0 - 1.5 * hour, Kind.FORECAST)


def test_young_forecasts_are_kept_for_the_forecaster(store):
    """Every hour's issue for as long as configured, whatever happens to what was observed."""
    store._keep = replace(RULES, vintages_days=1, forecasts_days=100)
    for issued in range(-5, 0):
        store.add_points([expected(0, 100.0 + issued, issued)])
    assert store.prune(LATER)["forecasts"] == 0


def test_old_prices_are_thinned_too(store):
    """The newest vintage, by the hour."""
    for fetched, cost in enumerate((0.1, 0.2)):
        quarters = [replace(PRICE, start=T0 + i * hour / 4, end=T0 + (i + 1) * hour / 4) for i in range(4)]
        store.add_prices(
            replace(p, price_per_kwh=cost + i, fetched_at=T0 + fetched * hour) for i, p in enumerate(quarters)
        )
    assert store.prune(LATER)["price_points"] == 7
    (found,) = store.prices("GB")
    assert (found.start, found.end, found.price_per_kwh) == (T0, T0 + hour, pytest.approx(1.7))
    assert (found.licence, found.market) == (PRICE.licence, PRICE.market)


def test_an_open_job_keeps_what_it_is_priced_by(store):
    """From a week before it began; old vintages still go, since only the newest prices anything."""
    store.upsert_job(replace(JOB, registered_at=T0 + day))
    for fetched in range(2):
        store.add_points([at(5 * i, 100.0 + i + fetched, fetched_min=fetched) for i in range(12)])
    assert store.prune(LATER)["signal_points"] == 12
    assert len(store.points("GB")) == 12
    store.end_job(JOB.id, LATER, "finished", 1.0)
    assert store.prune(LATER)["signal_points"] == 11
    assert spans(store.points("GB")) == [(0, 60, 106.5)]


def test_what_was_drawn_lately_is_priced_as_it_was_published(store):
    """Three days of intervals are priced anew hourly, whatever is configured."""
    store._keep = Keep(log_days=1, signal_days=1, vintages_days=0.1, forecasts_days=0.1)
    points = [at(5 * i, 100.0 + i) for i in range(12)]
    store.add_points(points)
    for days in (1, 2, 3.5):
        store.prune(T0 + days * day)
        assert list(store.points("GB")) == points
    store.prune(T0 + 6 * day)
    assert list(store.points("GB")) == []


def test_the_service_writes_in_between(store, monkeypatch):
    """Many small transactions, and the same in the end as with large ones."""
    points = [at(5 * i, float(i % 7), fetched_min=v) for i in range(240) for v in range(2)]
    for fetched in range(2):
        store.add_points(replace(p, g_per_kwh=p.g_per_kwh + fetched) for p in points[fetched::2])
    monkeypatch.setattr(rollup, "_STARTS", 7)
    monkeypatch.setattr(rollup, "_HOURS", 3)
    transactions = []
    original = rollup.write

    def counted(db):
        transactions.append(db)
        return original(db)

    monkeypatch.setattr(rollup, "write", counted)
    assert store.prune(LATER)["signal_points"] == 240 + 220
    assert len(transactions) >= 240 / 7 + 20 / 3
    assert len(store.points("GB")) == 20
    assert sound(store.path)


values = st.lists(
    st.tuples(
        st.integers(0, 47),  # five minutes of four hours
        st.sampled_from([5, 5, 5, 10, 15, 30, 60, 90]),
        st.sampled_from([0.0, 12.5, 100.0, 333.3]),
        st.sampled_from([Kind.MEASURED, Kind.ESTIMATED]),
    ),
    max_size=60,
)


def filled(tmp_path_factory, found) -> Store:
    path = tmp_path_factory.mktemp("rollup") / f"{next(_FILES)}.sqlite"
    store = Store(path, clock=ManualClock(T0), keep=RULES, tuning=Tuning(patience_s=20.0))
    for fetched, (slot, length, g, kind) in enumerate(found):
        store.add_points([at(5 * slot, g, length_min=length, fetched_min=fetched, kind=kind)])
    return store


def hourly(series: Series) -> list[object]:
    """What each hour cost: its mean and kind, and how much of it is known."""
    hours = [(T0 + i * hour, T0 + (i + 1) * hour) for i in range(-1, 7)]
    known = [{m for m in range(60) if series_at(series, start + m * minute)} for start, _ in hours]
    costs = [price(series, *span) for span in hours]
    return [
        (round(cost.g_per_kwh, 6), cost.kind, mins) if cost else None for cost, mins in zip(costs, known, strict=True)
    ]


def series_at(series: Series, when) -> bool:
    return any(point.start <= when < point.end for point in series)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(found=values, chunk=st.sampled_from([1, 2, 100]))
def test_every_hour_costs_what_it_cost(tmp_path_factory, found, chunk):
    """For any values with any gaps, overlaps and revisions: the same mean, kind and gaps, and no vintage is left."""
    with filled(tmp_path_factory, found) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollup, "_STARTS", chunk)
        patch.setattr(rollup, "_HOURS", chunk)
        before = store.points("GB")
        store.prune(LATER)
        after = store.points("GB")
        assert hourly(after) == hourly(before)
        assert len(store.vintages("GB")) == len(after) <= len(before)
        for minutes in range(-30, 300, 17):
            since = T0 + minutes * minute
            assert list(store.points("GB", start=since)) == [point for point in after if point.end > since]
        store.prune(LATER)
        assert store.points("GB") == after
        assert sound(store.path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(found=values, young_h=st.integers(0, 5))
def test_what_is_young_is_untouched(tmp_path_factory, found, young_h):
    """The newest value of each start, and every vintage, from the full hour on at which youth begins."""
    with filled(tmp_path_factory, found) as store:
        since = T0 + young_h * hour
        before = [point for point in store.vintages("GB") if point.start >= since]
        newest = [point for point in store.points("GB") if point.start >= since]
        store.prune(since + 30 * day)
        assert [point for point in store.vintages("GB") if point.start >= since] == before
        assert [point for point in store.points("GB") if point.start >= since] == newest


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    issues=st.lists(
        st.tuples(st.integers(-6, 3), st.dictionaries(st.integers(0, 3), st.sampled_from([1.0, 2.0, 3.0]), max_size=4)),
        max_size=10,
    )
)
def test_what_was_expected_when_an_hour_began_stays(tmp_path_factory, issues):
    """A source says of some hours what it said before; what held of each hour at its beginning is what is left."""
    path = tmp_path_factory.mktemp("issues") / f"{next(_FILES)}.sqlite"
    held: dict[int, float] = {}
    with Store(path, clock=ManualClock(T0), keep=RULES, tuning=Tuning(patience_s=20.0)) as store:
        for issued, hours in sorted(issues, key=lambda issue: issue[0]):
            store.add_points(expected(start, g, issued) for start, g in hours.items())
            held |= {start: g for start, g in hours.items() if issued <= start}
        store.prune(LATER)
        left = {round((point.start - T0) / hour): point.g_per_kwh for point in store.vintages("GB", forecasts=True)}
        assert {start: g for start, g in left.items() if start in held} == held
        assert count_of(path, "forecasts") == len(left)


def test_old_points_of_a_large_log_go_quickly(store):
    """A year of hours beside the day that became old: nothing of it is read row by row."""
    hours = [replace(POINT, start=T0 - i * hour, end=T0 - (i - 1) * hour, g_per_kwh=float(i)) for i in range(1, 2000)]
    store.add_points(hours)
    store.prune(LATER)
    seen: list[str] = []
    read = rollup._rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollup, "_rows", lambda *given: seen.append(given[1].rows) or read(*given))
        store.prune(LATER + day)
    assert seen == []
    assert rows_of(store.path, "SELECT count(*) FROM signal_rows") == [(1999,)]
