from __future__ import annotations

from datetime import timedelta

import pytest
from account_cases import T0, point, series
from hypothesis import given
from hypothesis import strategies as st

from chase.pricing import carried, grams_of, price
from providers.base import Kind


def at(seconds: float):
    return T0 + timedelta(seconds=seconds)


def test_a_kilowatt_hour_at_one_gram_is_one_gram():
    """Energy in joules times g/kWh is grams after division by 3.6 million; PUE multiplies."""
    assert grams_of(3.6e6, 1.0) == 1.0
    assert grams_of(3.6e6, 200.0, 1.5) == 300.0


def test_price_is_weighted_by_time():
    """An interval that lies in two points counts each for as long as it holds."""
    found = price(series(point(0, 60, 100.0), point(60, 120, 400.0)), at(30), at(120))
    assert found is not None
    assert found.g_per_kwh == pytest.approx((30 * 100 + 60 * 400) / 90)
    assert found.kind is Kind.MEASURED


@pytest.mark.parametrize("worst", [Kind.ESTIMATED, Kind.FORECAST, Kind.TYPICAL])
def test_price_is_no_better_than_its_worst_part(worst: Kind):
    """One estimated second makes the whole price an estimate."""
    found = price(series(point(0, 59, 100.0), point(59, 60, 100.0, worst)), at(0), at(60))
    assert found is not None
    assert found.kind is worst


def test_points_outside_do_not_taint_the_price():
    """A typical point that ends where the interval begins says nothing of it."""
    known = series(point(-60, 0, 999.0, Kind.TYPICAL), point(0, 60, 100.0), point(60, 120, 999.0, Kind.TYPICAL))
    found = price(known, at(0), at(60))
    assert found is not None
    assert (found.g_per_kwh, found.kind) == (100.0, Kind.MEASURED)


def test_a_gap_makes_the_price_an_estimate():
    """What is missing is taken to be like the rest, and said to be an estimate; it is never zero."""
    found = price(series(point(0, 30, 100.0), point(50, 60, 200.0)), at(0), at(60))
    assert found is not None
    assert found.g_per_kwh == pytest.approx((30 * 100 + 10 * 200) / 40)
    assert found.kind is Kind.ESTIMATED


@pytest.mark.parametrize("known", [series(), series(point(-60, 0, 5.0)), series(point(60, 90, 5.0))])
def test_nothing_known_is_no_price(known):
    """Missing is missing: not 0, not the neighbour's value."""
    assert price(known, at(0), at(60)) is None


def test_an_empty_interval_has_no_price():
    """Where the wall clock was set back there is no time to weigh."""
    assert price(series(point(-60, 90, 5.0)), at(60), at(0)) is None


def test_a_later_point_ends_the_one_before():
    """Where two points overlap, the one that began later holds."""
    found = price(series(point(0, 60, 100.0), point(30, 60, 300.0)), at(0), at(60))
    assert found is not None
    assert found.g_per_kwh == pytest.approx(200.0)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20), st.integers(-500, 900)), max_size=12),
    st.integers(0, 60),
    st.integers(1, 20),
)
def test_price_is_the_mean_over_the_seconds_it_covers(spans, start, length):
    """For any points, gaps and overlaps: the same as asking second by second which point began last."""
    known = series(*(point(a, a + long, float(g)) for a, long, g in spans))
    found = price(known, at(start), at(start + length))
    by_second = []
    for second in range(start, start + length):
        begun = [p for p in known if p.start <= at(second)]
        if begun and begun[-1].end > at(second):
            by_second.append(begun[-1].g_per_kwh)
    if not by_second:
        assert found is None
    else:
        assert found is not None
        assert found.g_per_kwh == pytest.approx(sum(by_second) / len(by_second))
        assert found.kind is (Kind.MEASURED if len(by_second) == length else Kind.ESTIMATED)


def test_a_value_gone_by_is_an_estimate_of_another_time():
    """The last value carried on prices an interval after it, as an estimate at best."""
    assert carried(None, at(0), at(60)) is None
    inside, after = carried(point(0, 60, 7.0), at(0), at(60)), carried(point(0, 60, 7.0), at(30), at(90))
    worse = carried(point(0, 60, 7.0, Kind.TYPICAL), at(30), at(90))
    assert inside is not None
    assert after is not None
    assert worse is not None
    assert [found.kind for found in (inside, after, worse)] == [Kind.MEASURED, Kind.ESTIMATED, Kind.TYPICAL]
