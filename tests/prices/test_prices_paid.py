"""What an interval that is just over cost: as published, else what stands in for it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from price_bench import DAY, HOUR, NOW, Tariff, failing, hours, price

from chase.clock import ManualClock
from chase.prices import PriceFeed
from chase.pricing import Paid, paid
from chase.recall import best_prices
from chase.store import Store
from providers.base import PriceSeries, Transient

HERE = NOW.replace(minute=0)


def test_a_published_price_is_what_was_paid(make):
    """Weighted by time over what the interval covers, under the name of its market; negative ones, too."""
    feed = make(Tariff(hours(HERE - 3 * HOUR, 30, lambda n: (-0.1, 0.1, 0.3, 0.5)[min(n, 3)])))
    feed.poll()
    assert feed.paid(HERE - HOUR, HERE) == Paid(0.3, "EUR", "day-ahead")
    assert feed.paid(HERE - 2.5 * HOUR, HERE - 1.5 * HOUR) == Paid(pytest.approx(0.0), "EUR", "day-ahead")


def test_the_second_source_is_asked_for_what_the_first_does_not_say(make):
    """In the order of the region file, as everywhere."""
    feed = make(failing(Transient("down"), name="first"), Tariff(hours(HERE - 3 * HOUR, 30, lambda _: 0.2)))
    feed.poll()
    assert feed.paid(HERE - HOUR, HERE) == Paid(0.2, "EUR", "day-ahead")


def test_what_stands_in_is_called_an_assumption(make):
    """Of today nothing is published: yesterday's price of this time of day."""
    feed = make(Tariff(hours(HERE - DAY - 2 * HOUR, 8, lambda n: n / 10)))
    feed.poll()
    assert feed.paid(NOW - timedelta(seconds=60), NOW) == Paid(0.2, "EUR", "assumed")


def test_without_any_price_nothing_is_known(make):
    """No source, and one that never said anything."""
    assert make().paid(HERE, NOW) is None
    assert make(failing(Transient("down"))).paid(HERE, NOW) is None


@given(st.integers(-30, 40), st.integers(1, 12))
def test_a_feed_pays_as_the_whole_series_would(first, quarters):
    """Looking only at the newest points finds the same as looking at all."""
    points = hours(HERE - DAY, 36, lambda n: n / 100)
    feed = PriceFeed("xx", [Tariff(points)], currency="EUR", time_zone="UTC", clock=ManualClock(NOW))
    feed.poll()
    start = HERE + first * HOUR / 2
    end = start + quarters * HOUR / 4
    expected = paid(PriceSeries(tuple(points)), start, end)
    found = feed.paid(start, end)
    assert found == expected or (expected is None and found is not None and found.kind == "assumed")


def test_stored_prices_of_another_currency_are_not_paid_with(make, tmp_path):
    """A region that changed its currency has old prices in the database: they price nothing."""
    feed = make(Tariff())
    with Store(tmp_path / "chase.sqlite", clock=ManualClock(NOW)) as store:
        store.add_prices([price(HERE, 7.0, currency="DKK")])
        store.flush()
        assert best_prices(feed, store, HERE, HERE + HOUR).points == ()
        store.add_prices([price(HERE, 0.9, fetched_at=NOW + HOUR)])
        store.flush()
        assert [point.price_per_kwh for point in best_prices(feed, store, HERE, HERE + HOUR)] == [0.9]
