from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_cases import POINT, PRICE, T0, count_of, half_hours, rows_of
from store_points import points as any_points
from store_points import prices as any_prices

from chase.store import open_readonly
from providers.base import Kind, Market, PriceSeries, Scope, Series, Signal

_ZONES = count(1)  # one for each example, all in one database
half_hour, day = timedelta(minutes=30), timedelta(days=1)


def later(point, **changes):
    return replace(point, fetched_at=point.fetched_at + half_hour, **changes)


def test_the_same_value_fetched_again_is_not_a_new_vintage(store):
    """Polling every five minutes fills no disk."""
    points = half_hours(4)
    assert store.add_points(points) == 4
    assert store.add_points(map(later, points)) == 0
    assert store.points("GB", "neso", T0, T0 + day) == Series.of(points)


def test_a_revised_value_is_a_new_row_and_the_old_one_stays(store):
    """History is rewritten by its sources; what a decision went by can still be found."""
    store.add_points([POINT])
    revised = later(POINT, g_per_kwh=190.0)
    assert store.add_points([revised]) == 1
    assert list(store.points("GB")) == [revised]
    assert rows_of(store.path, "SELECT intensity_g_per_kwh FROM signal_points ORDER BY id") == [(212.4,), (190.0,)]
    assert rows_of(store.path, "SELECT intensity_g_per_kwh FROM signal_newest") == [(190.0,)]


def test_an_estimate_confirmed_is_a_new_vintage(store):
    """The value is the same; what it is worth is not."""
    store.add_points([replace(POINT, kind=Kind.ESTIMATED)])
    assert store.add_points([later(POINT)]) == 1
    assert [point.kind for point in store.points("GB")] == [Kind.MEASURED]


def test_a_value_that_returns_is_a_vintage_again(store):
    """Revised and revised back: three rows, the last one counts."""
    assert [store.add_points([later(POINT, g_per_kwh=g)]) for g in (1.0, 2.0, 1.0, 1.0)] == [1, 1, 1, 0]
    assert store.points("GB").points[0].g_per_kwh == 1.0


def test_duplicates_in_one_answer_are_one_row(store):
    """A source that repeats itself is taken at its word once; of two values for one start the last wins."""
    assert store.add_points([POINT, POINT, replace(POINT, g_per_kwh=5.0)]) == 2
    assert [point.g_per_kwh for point in store.points("GB")] == [5.0]


def test_forecasts_are_kept_apart_from_what_was_observed(store):
    """An expected value never stands in for an observed one."""
    expected = replace(POINT, kind=Kind.FORECAST, g_per_kwh=300.0, issued_at=T0 - day)
    assert store.add_points([POINT, expected]) == 2
    assert list(store.points("GB")) == [POINT]
    assert list(store.forecasts("GB")) == [expected]
    assert store.add_points([later(expected, issued_at=T0, g_per_kwh=310.0)]) == 1
    assert [point.g_per_kwh for point in store.forecasts("GB")] == [310.0]


def test_sources_and_signals_are_never_mixed(store):
    """Asked for a zone alone, one series answers: the one last fetched."""
    lifecycle = replace(POINT, source="electricity_maps", scope=Scope.LIFECYCLE, g_per_kwh=300.0)
    marginal = replace(lifecycle, signal=Signal.MARGINAL, g_per_kwh=600.0)
    store.add_points([*half_hours(3), lifecycle, marginal])
    assert store.points("GB", "neso") == Series.of(half_hours(3))
    assert list(store.points("GB", "electricity_maps")) == [marginal]
    store.add_points([later(point) for point in half_hours(1, first=3)])
    assert [point.source for point in store.points("GB")] == ["neso"] * 4
    assert len(store.points("DE")) == 0


def test_points_are_those_that_reach_into_the_time_asked_for(store):
    """The interval that holds at the start belongs to it, the one that begins at the end does not."""
    points = half_hours(6)
    store.add_points(points)
    found = store.points("GB", "neso", T0 + half_hour * 1.5, T0 + half_hour * 4)
    assert list(found) == points[1:4]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(
    fetches=st.lists(
        st.dictionaries(st.integers(0, 5), st.sampled_from([-10.0, 0.0, 100.0, 250.5]), max_size=6), max_size=6
    ),
)
def test_the_newest_vintage_is_what_was_last_fetched(store, fetches):
    """Whatever is published in whatever order: the series is the last word, and every change is a row."""
    zone = f"zone {next(_ZONES)}"
    last, changes, before = {}, 0, count_of(store.path, "signal_points")
    for values in fetches:
        changes += sum(last.get(slot) != g for slot, g in values.items())
        last |= values
        store.add_points(half_hours(1, first=slot, g_per_kwh=g, zone=zone)[0] for slot, g in values.items())
    found = {(point.start - T0) // half_hour: point.g_per_kwh for point in store.points(zone)}
    assert found == last
    assert count_of(store.path, "signal_points") - before == changes


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
@given(point=any_points, price=any_prices)
def test_any_point_is_read_as_it_was_written(store, point, price):
    """Observed, expected or a price: whole, with its times to the microsecond, in whatever year."""
    zone = f"zone {next(_ZONES)}"
    point, price = replace(point, zone=zone), replace(price, zone=zone)
    assert (store.add_points([point]), store.add_prices([price])) == (1, 1)
    read = store.forecasts if point.kind is Kind.FORECAST else store.points
    assert list(read(zone, point.source)) == [point]
    assert list(store.prices(zone, price.source)) == [price]
    assert list(read(zone, start=point.start, end=point.end)) == [point]
    assert list(store.prices(zone, start=price.start, end=price.end)) == [price]
    assert not read(zone, end=point.start)
    assert not read(zone, start=point.end)


def test_vintages_are_all_that_was_said(store):
    """Ascending by start, and of one start by when it was read; of one source and signal alone."""
    first, second = half_hours(2)
    revised = later(first, g_per_kwh=90.0)
    store.add_points([first, second, later(later(revised, g_per_kwh=95.0)), replace(first, zone="FR")])
    store.add_points([revised])
    found = store.vintages("GB", "neso", T0, T0 + day)
    assert [point.g_per_kwh for point in found] == [100.0, 90.0, 95.0, 101.0]
    assert store.vintages("GB", "neso", T0 + half_hour, T0 + day) == [second]
    assert store.vintages("GB", forecasts=True) == []


def test_vintages_may_be_those_of_full_hours_alone(store):
    """Whoever judges forecasts of five minutes need not read them all."""
    store.add_points(half_hours(6))
    found = store.vintages("GB", "neso", T0, T0 + day, every_s=3600)
    assert [point.start for point in found] == [T0, T0 + 2 * half_hour, T0 + 4 * half_hour]


def test_a_forecast_that_is_issued_anew_within_the_hour_replaces_the_last(store):
    """Some sources issue every five minutes; what they said in another hour stays a vintage."""
    minutes = timedelta(minutes=1)
    for issued, g in ((5, 1.0), (25, 2.0), (55, 3.0), (65, 4.0), (65, 4.0), (70, 5.0)):
        at = T0 + issued * minutes
        store.add_points([replace(POINT, kind=Kind.FORECAST, g_per_kwh=g, issued_at=at, fetched_at=at)])
    assert [point.g_per_kwh for point in store.vintages("GB", forecasts=True)] == [3.0, 5.0]
    assert [point.issued_at for point in store.forecasts("GB")] == [T0 + 70 * minutes]


def test_prices_have_vintages_and_are_never_mixed(store):
    """The newest of one source, currency and market; a licence that changes makes no other series."""
    revised = later(PRICE, price_per_kwh=0.31, licence="another")
    assert store.add_prices([PRICE, later(PRICE), revised]) == 2
    assert store.prices("GB", "octopus") == PriceSeries((revised,))
    wholesale = replace(PRICE, source="entsoe", currency="EUR", market=Market.DAY_AHEAD, fetched_at=T0 + day)
    store.add_prices([wholesale])
    assert store.prices("GB") == PriceSeries((wholesale,))
    assert store.prices("GB", "octopus", T0, T0 + day) == PriceSeries((revised,))
    assert store.add_prices([]) == 0
    columns = "zone, source, currency, market, start_utc, end_utc, price_per_kwh, licence, updated_at_utc"
    stamps = ("2026-03-01T12:00:00.000000Z", "2026-03-01T12:30:00.000000Z")
    row = ("GB", "octopus", "GBP", "retail", *stamps, -0.0123, "of the supplier", None)
    assert rows_of(store.path, f"SELECT {columns} FROM price_points WHERE id = 1") == [row]


def test_a_revision_that_is_shorter_holds_alone(store):
    """What the old vintage said beyond it is no longer said."""
    store.add_points([POINT, later(POINT, end=T0 + half_hour / 2)])
    assert list(store.points("GB", start=T0 + half_hour * 0.6)) == []


def test_a_long_interval_is_found_by_its_end(store):
    """A value for a whole month holds on its last day, among points of half an hour."""
    month = replace(POINT, start=T0 - 30 * day, end=T0 + day)
    store.add_points([month, *half_hours(4)])
    assert store.points("GB", start=T0 + half_hour).points[0] == month


def test_the_log_is_read_the_same_from_outside(store):
    """Vintages and prices for the CLI: what the service sees."""
    store.add_points([POINT, later(POINT, g_per_kwh=1.0)])
    store.add_prices([PRICE])
    with open_readonly(store.path) as log:
        assert log.vintages("GB", "neso", T0, T0 + day) == store.vintages("GB", "neso", T0, T0 + day)
        assert log.prices("GB", "octopus", T0, T0 + day) == PriceSeries((PRICE,))
        assert [row["price_per_kwh"] for row in log.export("price_points")] == [-0.0123]
        assert [row["id"] for row in log.export("signal_points")] == [1, 2]
