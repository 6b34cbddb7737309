"""The feed of prices: which source is gone by, how old its price is, and what stands in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from price_bench import DAY, HOUR, NOW, Tariff, failing, hours, price

from chase.clock import ManualClock
from chase.outlook import FALLBACK, FRESH, STALE
from chase.prices import PUBLISHED, PriceFeed, checked, describe
from chase.store import Store
from providers.base import (
    AuthError,
    BadRequest,
    Market,
    NoData,
    PriceSeries,
    RateLimited,
    SchemaError,
    Transient,
)

MIDNIGHT = NOW.replace(hour=0, minute=0)


def test_the_price_in_force_is_fresh_and_those_to_come_follow(make):
    """Day-ahead prices are known ahead: the running hour, then the rest of what is published."""
    feed = make(Tariff(hours(MIDNIGHT, 48)))
    assert feed.poll() is True

    found = feed.outlook()

    assert (found.now.price_per_kwh, found.freshness, found.by, found.age_s) == (12.0, FRESH, PUBLISHED, 0.0)
    assert [point.price_per_kwh for point in found.ahead] == [float(n) for n in range(12, 48)]
    assert feed.poll() is False


def test_a_price_may_be_negative(make):
    """What one is paid for taking is a price like any other."""
    feed = make(Tariff([price(NOW.replace(minute=0), -0.5)]))
    feed.poll()
    assert feed.outlook().now.price_per_kwh == -0.5


def test_the_second_source_is_asked_when_the_first_has_no_price(make, clock):
    """The order of the region file; the first that has the price in force is gone by, and the next is not asked."""
    first, second = failing(Transient("down")), Tariff(hours(MIDNIGHT, 24), name="other")
    feed = make(first, second)
    feed.poll()
    assert feed.outlook().now.source == "tariff"
    assert len(second.asked) == 1

    first.error, first.points = None, hours(MIDNIGHT, 24, lambda n: n + 0.5)
    clock.advance(3600)
    feed.poll()
    assert feed.outlook().now.price_per_kwh == 13.5
    assert len(second.asked) == 1


def test_a_market_that_reports_the_past_is_stale_then_useless(make, clock):
    """A real-time price of an hour ago is usable for as long as the region says, and its age is told."""
    feed = make(Tariff([price(NOW - 2 * HOUR, 0.3, market=Market.REAL_TIME)]), usable_s=7200.0)
    feed.poll()
    found = feed.outlook()
    assert (found.freshness, found.age_s, found.now.price_per_kwh) == (STALE, 3600.0, 0.3)
    clock.advance(3601)
    assert feed.outlook().freshness == FALLBACK


def test_the_same_time_of_an_earlier_day_stands_in(make, clock):
    """When nothing is known of today: yesterday's price at this time, called a fallback, with the reason."""
    tariff = Tariff(hours(MIDNIGHT, 24))
    feed = make(tariff)
    feed.poll()
    tariff.error = Transient("down")
    clock.advance(86400)
    feed.poll()

    found = feed.outlook()

    assert (found.freshness, found.now.price_per_kwh, found.age_s) == (FALLBACK, 12.0, None)
    assert found.by == "the same time 1 day before"
    assert found.now.start == NOW.replace(minute=0) + DAY
    assert "Transient: down" in found.note
    clock.advance(86400)
    assert feed.outlook().by == "the same time 2 days before"


def test_after_a_week_nothing_stands_in(make, clock):
    """Older prices say nothing of today."""
    feed = make(Tariff(hours(MIDNIGHT, 24)))
    feed.poll()
    clock.advance(8 * 86400)
    found = feed.outlook()
    assert (found.now, found.freshness) == (None, FALLBACK)
    assert found.note


def test_without_any_source_there_is_no_price(make):
    """A feed of nothing is no error."""
    feed = make()
    assert feed.poll() is False
    assert (feed.outlook().now, feed.poll_s) == (None, 3600.0)


# Time


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("today", "length"),
    [(datetime(2026, 3, 29, tzinfo=BERLIN), 23), (datetime(2026, 10, 25, tzinfo=BERLIN), 25)],
)
def test_a_day_that_changes_the_clock_repeats_the_day_before(make, clock, today, length):
    """By the clock on the wall: a spring's day has one hour less, an autumn's day the hour at two twice as long."""
    before = (today - timedelta(days=1)).astimezone(UTC)
    feed = make(Tariff(hours(before, 24)), usable_s=0.0)
    clock.advance((before - NOW).total_seconds())
    feed.poll()
    clock.advance((today.astimezone(UTC) - before).total_seconds() + 1)

    ahead = feed.outlook().ahead

    assert ahead[0].start == today.astimezone(UTC)
    assert sum((point.end - point.start for point in ahead), timedelta()) == length * HOUR
    for point in ahead:
        assert point.price_per_kwh == point.start.astimezone(BERLIN).hour


@pytest.mark.parametrize(("month", "day", "length"), [(3, 29, 23), (10, 25, 25)])
def test_a_day_with_a_clock_change_is_repeated_by_the_next(make, clock, month, day, length):
    """Of the hour that came twice the second price holds; the hour that was missing is a gap, and is shown as one."""
    changing = datetime(2026, month, day, tzinfo=BERLIN).astimezone(UTC)
    feed = make(Tariff(hours(changing, length)), usable_s=0.0)
    clock.advance((changing - NOW).total_seconds())
    feed.poll()
    clock.advance(length * 3600 + 1)

    ahead = feed.outlook().ahead

    walls = [point.start.astimezone(BERLIN).hour for point in ahead]
    assert walls == [hour for hour in range(24) if not (length == 23 and hour == 2)]
    assert all(point.end - point.start == HOUR for point in ahead)


@given(
    days=st.integers(1, 7),
    offset=st.integers(0, 366 * 24),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Adelaide", "UTC"]),
)
def test_what_stands_in_is_of_the_same_time_on_the_wall(days, offset, zone):
    """Whatever the zone, the season and the number of days: never another hour, never overlapping, never the past."""
    start = datetime(2026, 1, 1, tzinfo=UTC) + offset * HOUR
    clock = ManualClock(start)
    tariff = Tariff(hours(start - DAY, 24))
    feed = PriceFeed("xx", [tariff], currency="EUR", time_zone=zone, clock=clock, usable_s=0.0)
    feed.poll()
    clock.advance((days - 1) * 86400.0 + 1)
    known = {
        point.start.astimezone(ZoneInfo(zone)).hour: point.price_per_kwh for point in feed.states[0].points.values()
    }

    found = feed.outlook()

    for point in found.ahead:
        assert point.end > found.at
        assert known[point.start.astimezone(ZoneInfo(zone)).hour] == pytest.approx(point.price_per_kwh, abs=1.0)
    for one, other in zip(found.ahead, found.ahead[1:], strict=False):
        assert one.end <= other.start


def test_a_source_is_asked_at_its_own_pace(make, clock):
    """Within its slot not again; at each slot for two days back, at first for a week and a day."""
    tariff = Tariff(hours(MIDNIGHT, 48), poll_s=900)
    feed = make(tariff)
    assert feed.poll_s == 900
    for _ in range(4):  # 12:20, 12:25, 12:30 and 12:35, of which the slots begin at 12:15 and 12:30
        feed.poll()
        clock.advance(300)
    assert [start for start, _ in tariff.asked] == [NOW - timedelta(days=8), NOW + timedelta(minutes=10) - 2 * DAY]
    assert [end for _, end in tariff.asked] == [NOW + 2 * DAY, NOW + timedelta(minutes=10) + 2 * DAY]


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [
        (RateLimited("slow down", retry_after_s=7200), 7200),
        (RateLimited("slow down"), 900),
        (AuthError("bad token"), 3600),
        (BadRequest("no such zone"), 3600),
        (Transient("down"), 600),
        (NoData("nothing"), 600),
    ],
)
def test_a_failure_is_waited_for_as_it_asks(make, clock, error, wait_s):
    """What only a person can mend is looked at hourly; what the source says of itself holds; else the next slot."""
    tariff = failing(error)
    feed = make(tariff)
    feed.poll()
    clock.advance(wait_s - 60)
    feed.poll()
    assert len(tariff.asked) == 1
    clock.advance(61)
    feed.poll()
    assert len(tariff.asked) == 2


# Never mixed


def test_prices_in_another_currency_are_refused(make):
    """They are not converted: the source has failed, and says what it gave."""
    feed = make(Tariff(hours(MIDNIGHT, 24, currency="DKK")))
    assert feed.poll() is False
    assert feed.outlook().now is None
    assert "prices in DKK where the region counts in EUR" in feed.states[0].problem


@pytest.mark.parametrize(
    "points",
    [
        [price(MIDNIGHT), price(MIDNIGHT + HOUR, market=Market.RETAIL)],
        [price(MIDNIGHT), "a text"],
        [None],
    ],
)
def test_an_answer_of_several_kinds_is_refused(points):
    """Several markets at once, and what is no price at all."""
    with pytest.raises(SchemaError):
        checked(points, "EUR")


def test_a_source_that_changes_its_market_forgets_the_other(make, clock, events):
    """What it gave of the day-ahead market is no history of a retail tariff, and the change is told once."""
    tariff = Tariff(hours(MIDNIGHT, 24))
    feed = make(tariff)
    feed.poll()
    tariff.points = [price(NOW.replace(minute=0), 0.4, market=Market.RETAIL)]
    clock.advance(900)
    feed.poll()
    assert {point.market for point in feed.states[0].points.values()} == {Market.RETAIL}
    assert [code for code, _ in events] == ["price-source-changed"]
    assert "EUR retail prices now: what it gave of EUR day-ahead is left out" in events[0][1]


def test_a_step_that_grows_leaves_nothing_of_the_finer_ones(make, clock):
    """Four quarters that become one hour are one price for all of it."""
    tariff = Tariff([price(NOW.replace(minute=15 * n), n, step=timedelta(minutes=15)) for n in range(4)])
    feed = make(tariff)
    feed.poll()
    assert feed.outlook().now.price_per_kwh == 1
    tariff.points = [price(NOW.replace(minute=0), 9.0)]
    clock.advance(900)
    feed.poll()
    assert [point.price_per_kwh for point in feed.outlook().ahead] == [9.0]


def test_a_step_that_shrinks_is_taken_from_where_it_shrinks(make):
    """Since 2025-10-01 the day-ahead market has quarters of an hour; the hours before stay hours."""
    quarters = [price(NOW.replace(hour=13, minute=15 * n), 5.0 + n, step=timedelta(minutes=15)) for n in range(4)]
    feed = make(Tariff([price(NOW.replace(minute=0), 4.0), *quarters]))
    feed.poll()
    assert [point.price_per_kwh for point in feed.outlook().ahead] == [4.0, 5.0, 6.0, 7.0, 8.0]


def test_a_revised_price_is_news(make, clock):
    """The newest value counts from then on."""
    tariff = Tariff(hours(MIDNIGHT, 24))
    feed = make(tariff)
    feed.poll()
    tariff.points = hours(MIDNIGHT, 24, lambda n: n + 0.25)
    clock.advance(900)
    assert feed.poll() is True
    assert feed.outlook().now.price_per_kwh == 12.25


# Trouble and memory


def test_trouble_is_told_once_and_its_end_too(make, clock, events):
    """One event when it begins, none while it stays, one when it is over."""
    tariff = failing(Transient("down"))
    feed = make(tariff)
    for _ in range(3):
        feed.poll()
        clock.advance(900)
    tariff.error, tariff.points = None, hours(MIDNIGHT, 24)
    feed.poll()
    assert [code for code, _ in events] == ["price-source-failed", "price-source-back"]


def test_whatever_a_strange_provider_raises_is_a_failure(make):
    """An outsider's code may break its word: the next source is asked all the same."""
    broken = Tariff()
    broken.error = ZeroDivisionError("oops")
    feed = make(broken, Tariff(hours(MIDNIGHT, 24), name="other"))
    feed.poll()
    assert feed.outlook().now.price_per_kwh == 12.0
    assert "ZeroDivisionError" in feed.states[0].problem


def test_prices_are_stored_and_remembered(make, clock, tmp_path):
    """A restart knows what an earlier run had read, in any order, before anybody is asked."""
    with Store(tmp_path / "chase.sqlite", clock=clock) as store:
        make(Tariff(hours(MIDNIGHT, 24)), store=store).poll()
        kept = store.prices(zone="XX", source="tariff", start=MIDNIGHT, end=MIDNIGHT + DAY)
    assert [point.price_per_kwh for point in kept] == [float(n) for n in range(24)]

    feed = make(Tariff())
    feed.remember(reversed(kept.points))
    assert feed.outlook().now.price_per_kwh == 12.0


def test_what_was_remembered_never_beats_what_was_said(make):
    """A memory that comes late does not undo an answer; one of another zone, source or currency is nobody's."""
    feed = make(Tariff(hours(MIDNIGHT, 24)))
    feed.poll()
    foreigners = [price(NOW.replace(minute=0), 99.0, **{key: "YY"}) for key in ("zone", "source", "currency")]
    feed.remember([*hours(MIDNIGHT, 24, lambda n: 77.0), *foreigners])
    assert feed.outlook().now.price_per_kwh == 12.0
    assert 77.0 not in {point.price_per_kwh for point in feed.outlook().ahead}


def test_memory_is_of_the_market_last_read(make):
    """Of two markets that one source has had, the one read last."""
    old = price(NOW.replace(minute=0), 1.0, market=Market.RETAIL, fetched_at=NOW - DAY)
    feed = make(Tariff())
    feed.remember([old, *hours(NOW.replace(minute=0), 2)])
    assert feed.outlook().now.market is Market.DAY_AHEAD


def test_old_prices_are_forgotten(make, clock):
    """Memory does not grow with time."""
    tariff = Tariff()
    feed = make(tariff)
    for day in range(30):
        tariff.points = hours(MIDNIGHT + day * DAY, 24)
        feed.poll()
        clock.advance(86400)
    assert len(feed.states[0].points) <= 9 * 24


def test_what_is_said_of_it_is_flat(make):
    """One dict for the command, whether or not there is a price."""
    feed = make(Tariff(hours(MIDNIGHT, 24, licence="CC BY 4.0")))
    nothing = describe(feed.outlook())
    feed.poll()
    found = describe(feed.outlook())
    assert set(found) == set(nothing)
    assert (found["price_per_kwh"], found["currency"], found["market"]) == (12.0, "EUR", "day-ahead")
    assert found["licence"] == "CC BY 4.0"
    assert nothing["price_per_kwh"] is None


def test_an_answer_of_nothing_is_an_answer():
    """An empty series is no error: tomorrow's prices may not be out yet."""
    assert checked(PriceSeries(), "EUR") == ()
