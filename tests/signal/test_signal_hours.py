"""Each hour ahead says value, spread, kind, by whom and how old that is; seven days of them where that is asked."""

from __future__ import annotations

import math
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from signal_bench import HOUR, NOW, Source, Typical, looks, point

from chase import ahead
from chase.forecast import Forecaster
from chase.outlook import FALLBACK
from providers.base import Kind, Transient

DAY = timedelta(days=1)


def daily(hours: int, *, until=NOW, step=HOUR) -> dict:
    starts = [until - n * step for n in range(int(hours * HOUR / step))]
    return {at: 300.0 + 80.0 * math.sin((at.hour + at.minute / 60) / 24 * 2 * math.pi) for at in starts}


@pytest.fixture
def fits(monkeypatch):
    """How often a forecaster has learnt and expected."""
    seen = {"learn": 0, "expect": 0}

    class Counted(Forecaster):
        def learn(self, *args, **kwargs):
            seen["learn"] += 1
            return super().learn(*args, **kwargs)

        def steps(self, *args, **kwargs):
            seen["expect"] += 1
            return super().steps(*args, **kwargs)

    monkeypatch.setattr(ahead, "Forecaster", Counted)
    return seen


class TestWhatTheySay:
    def test_the_running_hour_is_what_was_observed_of_it(self, make, clock):
        """The observed value wins over a forecast for the same hour, and has no spread; its age begins at its end."""
        source = Source(observed=daily(100), expected={NOW + n * HOUR: 5.0 for n in range(48)}, kind=Kind.ESTIMATED)
        grid = make(source)
        grid.poll()
        clock.advance(1200)
        now, following = grid.outlook().ahead[:2]
        assert (now.kind, now.by, now.g_per_kwh, now.low, now.high) == (Kind.ESTIMATED, "first", 300.0, 300.0, 300.0)
        assert (now.start, now.end, now.age_s) == (NOW, NOW + HOUR, 0.0)
        assert following.kind is Kind.FORECAST

    def test_our_own_forecast_says_so_and_grows_old_with_what_it_rests_on(self, make, clock):
        """Its age counts from the end of the last observed interval, at every look."""
        source = Source(observed=daily(400))
        grid = make(source)
        grid.poll()
        source.error = Transient("down")
        for seconds in (0, 1800, 5400, 30000):
            clock.advance(seconds)
            hours = [hour for hour in grid.outlook().ahead if hour.kind is Kind.FORECAST]
            age_s = max(0.0, (clock.now() - NOW - HOUR).total_seconds())
            assert {(hour.by, hour.age_s) for hour in hours} == {("chase", age_s)}

    def test_a_published_forecast_is_as_old_as_its_issue(self, make, clock):
        """Not as old as what was observed, of which there may be nothing."""
        grid = make(Source(error=Transient("down"), expected={NOW + n * HOUR: 90.0 for n in range(48)}))
        grid.poll()
        clock.advance(3 * 3600)
        hours = grid.outlook().ahead
        assert {(hour.by, hour.kind, hour.age_s) for hour in hours} == {("first", Kind.FORECAST, 10800.0)}
        assert {hour.g_per_kwh for hour in hours} == {90.0}

    def test_the_spread_contains_the_value(self, make):
        """Low, median and high in their order for every hour of the week, whoever says it."""
        source = Source(observed=daily(500), expected={NOW + n * HOUR: 250.0 for n in range(48)})
        grid = make(source, typical=Typical())
        grid.poll()
        for hour in grid.outlook(7 * DAY).ahead:
            assert 0 <= hour.low <= hour.g_per_kwh <= hour.high
            assert hour.kind in {Kind.MEASURED, Kind.FORECAST}
            assert math.isfinite(hour.high)

    def test_without_anything_said_it_is_typical(self, make):
        """The region's profile, labelled, without an age, and with a spread since no day is the typical one."""
        grid = make(Source(error=Transient("down")), typical=Typical())
        outlook = grid.outlook()
        assert {(hour.kind, hour.by, hour.age_s, hour.g_per_kwh) for hour in outlook.ahead} == {
            (Kind.TYPICAL, "typical", None, 222.0)
        }
        assert all(hour.low < 222.0 < hour.high for hour in outlook.ahead)
        assert (outlook.low, outlook.high) == (outlook.ahead[0].low, outlook.ahead[0].high)

    def test_a_profile_listed_as_a_source_goes_on_as_typical(self, make, clock):
        """Its own hours, then the region's, all of them labelled."""
        grid = make(Typical("static"), typical=Typical())
        grid.poll()
        clock.advance(3600)
        hours = grid.outlook(7 * DAY).ahead
        assert {hour.kind for hour in hours} == {Kind.TYPICAL}
        assert all(a.end == b.start for a, b in pairwise(hours))
        assert hours[-1].end >= clock.now() + 7 * DAY

    def test_after_two_days_of_silence_ours_gives_way_to_the_typical(self, make, clock):
        """What was two days ago says little of today; what the source still publishes is kept."""
        source = Source(observed=daily(400))
        grid = make(source, typical=Typical())
        grid.poll()
        source.error = Transient("down")
        clock.advance(timedelta(hours=48).total_seconds())
        assert {hour.by for hour in grid.outlook().ahead} == {"chase"}
        clock.advance(7200)
        outlook = grid.outlook()
        assert {hour.by for hour in outlook.ahead} == {"typical"}
        assert (outlook.now.kind, outlook.freshness) == (Kind.TYPICAL, FALLBACK)

    def test_nobody_at_all_is_no_hour(self, make):
        """Nothing is made up: no zero, no flat line."""
        assert make(Source(error=Transient("down"))).outlook().ahead == ()


class TestHowFar:
    @pytest.mark.parametrize("days", [1, 2, 7])
    def test_as_far_as_asked(self, make, clock, days):
        """From the running interval until that long from now, without gap or overlap, also within an hour."""
        grid = make(Source(observed=daily(400)), typical=Typical())
        grid.poll()
        for seconds in (0, 1500, 2000):
            clock.advance(seconds)
            hours = grid.outlook(days * DAY).ahead
            assert hours[0].start <= clock.now() < hours[0].end
            assert all(a.end == b.start for a, b in pairwise(hours))
            assert clock.now() + days * DAY <= hours[-1].end <= clock.now() + days * DAY + HOUR

    def test_two_days_unless_asked_and_a_week_at_most(self, make):
        """Further than a week nobody knows anything that the profile does not."""
        grid = make(Source(observed=daily(400)))
        grid.poll()
        assert grid.outlook().ahead[-1].end == NOW + 2 * DAY
        assert grid.outlook(30 * DAY).ahead[-1].end <= NOW + 7 * DAY + HOUR

    def test_a_forecast_of_a_few_hours_is_no_horizon(self, make):
        """31 half hours where two days were asked for (batpred 4958): the rest is ours and says so."""
        half = HOUR / 2
        source = Source(
            observed=daily(100, until=NOW - half, step=half),
            expected={NOW + n * half: 120.0 for n in range(31)},
            step=half,
        )
        grid = make(source)
        grid.poll()
        hours = grid.outlook().ahead
        assert [hour.start for hour in hours] == [NOW + n * half for n in range(96)]
        assert {hour.by for hour in hours[12:31]} == {"chase+first"}
        assert {hour.by for hour in hours[31:]} == {"chase"}

    @pytest.mark.parametrize("minutes", [5, 15, 30, 60])
    def test_steps_are_those_of_the_source(self, make, minutes):
        """A grid known in steps of five minutes is expected in them."""
        step = timedelta(minutes=minutes)
        grid = make(Source(observed=daily(100, step=step), step=step))
        grid.poll()
        assert {hour.end - hour.start for hour in grid.outlook().ahead} == {step}


class TestCost:
    def test_between_news_nothing_is_learnt_and_within_an_hour_nothing_expected(self, make, clock, fits):
        """360 ticks of an hour cost one refit and one forecast, and the next hour one more forecast."""
        source = Source(observed=daily(400, until=NOW - HOUR), poll_s=86400.0)
        grid = make(source)
        grid.poll()
        for _ in range(359):
            grid.outlook()
            clock.advance(10)
        assert fits == {"learn": 1, "expect": 1}
        clock.advance(10)
        grid.outlook()
        assert fits == {"learn": 1, "expect": 2}

    def test_news_are_learnt_once(self, make, clock, fits):
        """A new value, a revision and a new forecast each; a poll of the same old news none."""
        source = Source(observed=daily(400), expected={NOW + n * HOUR: 90.0 for n in range(40)})
        grid = make(source)
        counts = []

        def look():
            clock.advance(300)
            grid.poll()
            grid.outlook()
            counts.append(fits["learn"])

        look()
        look()
        source.observed[NOW - HOUR] += 10.0
        look()
        source.expected[NOW + 5 * HOUR] += 10.0
        look()
        look()
        assert counts == [1, 1, 2, 3, 3]

    def test_a_source_that_is_not_gone_by_is_not_learnt_from(self, make, fits):
        """While the first one is fresh, the second one's forecast is nobody's business."""
        grid = make(Source(observed=daily(400)), Source("second", observed=daily(400)))
        grid.remember([point(at, value, source="second") for at, value in daily(400).items()])
        grid.poll()
        grid.outlook()
        assert fits["learn"] == 1


@given(look=looks())
def test_whatever_is_known_the_hours_join(look):
    """Ascending, no overlap, each value within its spread, each labelled; with a typical profile also no gap, from now
    until the end of the horizon.
    """
    outlook, end = look.outlook, look.now + look.ahead
    found = outlook.ahead
    assert all(a.end <= b.start for a, b in pairwise(found))
    assert all(0 <= hour.low <= hour.g_per_kwh <= hour.high < math.inf for hour in found)
    assert all(hour.end > look.now and hour.start < end for hour in found)
    assert {hour.kind for hour in found} <= {Kind.MEASURED, Kind.FORECAST, Kind.TYPICAL}
    assert all((hour.age_s is None) == (hour.kind is Kind.TYPICAL) for hour in found)
    if look.typical:
        assert all(a.end == b.start for a, b in pairwise(found))
        assert found[0].start <= look.now
        assert found[-1].end >= end
    if outlook.now is not None and outlook.now.kind is Kind.FORECAST:
        assert (outlook.now.g_per_kwh, outlook.low, outlook.high) == (found[0].g_per_kwh, found[0].low, found[0].high)
