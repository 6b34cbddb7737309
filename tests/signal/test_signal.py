"""The signal of a region: order, ages, fallbacks, revisions, and what is said about them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from signal_bench import HOUR, NOW, Kept, Source, Typical, point

from chase.outlook import FALLBACK, FRESH, STALE, describe
from chase.signal import Limits
from providers.base import (
    AuthError,
    BadRequest,
    Kind,
    NoData,
    PlanError,
    RateLimited,
    SchemaError,
    Transient,
)


class TestAges:
    @pytest.mark.parametrize(
        ("hours_ago", "freshness", "age_s"),
        [(0, FRESH, 0), (1, FRESH, 0), (2, FRESH, 3600), (3, STALE, 7200), (7, STALE, 21600)],
    )
    def test_age_counts_from_the_end_of_the_interval(self, make, hours_ago, freshness, age_s):
        """An hourly value is fresh for its own hour and an hour and a half after, stale for six, then expired."""
        grid = make(Source(observed={NOW - hours_ago * HOUR: 180.0}))
        grid.poll()
        outlook = grid.outlook()
        assert (outlook.now.g_per_kwh, outlook.freshness, outlook.age_s) == (180.0, freshness, age_s)

    def test_expired_falls_to_the_forecast_made_earlier(self, make, clock):
        """A source that went silent: its own forecast for this hour, labelled as a forecast."""
        source = Source(observed={NOW - HOUR: 109.0}, expected={NOW + i * HOUR: 100.0 + i for i in range(20)})
        grid = make(source)
        grid.poll()
        source.error = Transient("503")
        clock.advance(9 * 3600)
        grid.poll()
        outlook = grid.outlook()
        assert (outlook.now.g_per_kwh, outlook.now.kind, outlook.freshness) == (109.0, Kind.FORECAST, FALLBACK)
        assert outlook.now.source in {"first", "chase+first"}
        assert "503" in outlook.note

    def test_without_a_forecast_of_theirs_ours_stands_in(self, make, clock):
        """A source with no forecast: our extrapolation of its history, and it says chase made it."""
        grid = make(Source(observed={NOW - i * HOUR: 150.0 for i in range(1, 73)}))
        grid.poll()
        clock.advance(8 * 3600)
        now = grid.outlook().now
        assert (now.kind, now.source) == (Kind.FORECAST, "chase")
        assert now.g_per_kwh == pytest.approx(150.0)

    def test_then_the_typical_profile_and_it_says_so(self, make):
        """Nothing ever answered: the region's typical profile, with thresholds from the same profile."""
        outlook = make(Source(error=Transient("down")), typical=Typical()).outlook()
        assert (outlook.now.g_per_kwh, outlook.now.kind) == (222.0, Kind.TYPICAL)
        assert {p.kind for p in outlook.recent} == {Kind.TYPICAL}
        assert "typical profile" in outlook.note

    def test_then_nothing(self, make):
        """No source and no profile: None, never a zero."""
        outlook = make().outlook()
        assert outlook.now is None
        assert describe(outlook)["g_per_kwh"] is None

    def test_a_value_of_the_future_is_not_known_now(self, make):
        """A 'measured' row that begins after now is clock skew and is not the value to go by."""
        grid = make(Source(observed={NOW - HOUR: 180.0, NOW + HOUR: 20.0}))
        grid.poll()
        assert grid.outlook().now.g_per_kwh == 180.0


class TestOrder:
    def test_the_first_source_that_answers_is_used_alone(self, make):
        """The second is not even asked while the first one answers."""
        second = Source("second", observed={NOW: 99.0})
        grid = make(Source(observed={NOW: 180.0}), second)
        grid.poll()
        assert (grid.outlook().now.source, second.asked) == ("first", 0)

    def test_a_failure_moves_on_to_the_next_source(self, make, events):
        """The reading, its history and its thresholds then all come from the second source."""
        second = Source("second", observed={NOW - i * HOUR: 99.0 for i in range(30)})
        grid = make(Source(error=Transient("cut")), second)
        grid.poll()
        outlook = grid.outlook()
        assert outlook.now.source == "second"
        assert {p.source for p in outlook.recent} == {"second"}
        assert events == [("source-failed", "first (XX): Transient: cut")]

    def test_no_observation_still_leaves_the_forecast(self, make):
        """A source that has nothing observed yet is asked for its forecast all the same."""
        source = Source(error=NoData("nothing yet"), expected={NOW + i * HOUR: 100.0 + i for i in range(5)})
        grid = make(source)
        assert grid.poll()
        outlook = grid.outlook()
        assert (outlook.now.g_per_kwh, outlook.now.kind, outlook.now.source) == (100.0, Kind.FORECAST, "first")
        assert "nothing yet" in outlook.note

    def test_an_empty_answer_moves_on_too(self, make):
        """A source that answers with nothing usable does not stop the next from being asked."""
        grid = make(Source(observed={}), Source("second", observed={NOW: 99.0}))
        grid.poll()
        assert grid.outlook().now.source == "second"

    def test_the_first_source_is_taken_back_when_it_recovers(self, make, clock, events):
        """A fallback ends by itself, and both changes are said once."""
        first, second = Source(error=Transient("cut")), Source("second", observed={NOW: 99.0})
        grid = make(first, second)
        for _ in range(3):
            grid.poll()
            clock.advance(300)
        first.error, first.observed = None, {NOW: 180.0}
        grid.poll()
        assert grid.outlook().now.source == "first"
        assert [code for code, _ in events] == ["source-failed", "source-back"]

    @pytest.mark.parametrize(
        ("error", "wait_s"),
        [
            (Transient("x"), 270),
            (NoData("x"), 270),
            (SchemaError("x"), 270),
            (RateLimited("x", retry_after_s=1234.0), 1234),
            (RateLimited("x"), 300),
            (AuthError("x"), 3600),
            (PlanError("x"), 3600),
            (BadRequest("x"), 3600),
        ],
    )
    def test_how_long_each_failure_is_left_alone(self, make, clock, error, wait_s):
        """A limit is honoured; what only a person can mend is looked at hourly; the rest at the next slot."""
        source = Source(error=error)
        grid = make(source)
        grid.poll()
        clock.advance(wait_s - 1)
        grid.poll()
        assert source.asked == 1
        clock.advance(1)
        grid.poll()
        assert source.asked == 2

    def test_a_source_is_asked_at_its_own_pace(self, make, clock):
        """Polling often costs the source nothing: one request for each of its slots."""
        source = Source(observed={NOW: 180.0}, poll_s=600)
        grid = make(source)
        for _ in range(60):
            grid.poll()
            clock.advance(60)
        assert source.asked == 6

    def test_a_wall_clock_that_is_set_back_does_not_stop_polling(self, make, clock):
        """Slots are counted on the monotonic clock (APScheduler and WattTime clients had this fault)."""
        source = Source(observed={NOW: 180.0})
        grid = make(source)
        grid.poll()
        clock.step_wall(-7200)
        clock.advance(300)
        grid.poll()
        assert source.asked == 2


class TestRevisions:
    def test_a_revised_value_is_news_and_a_repeated_one_is_not(self, make, clock):
        """The newest vintage is used; the store hears of each once."""
        kept = Kept()
        source = Source(observed={NOW: 180.0})
        grid = make(source, store=kept)
        assert grid.poll()
        clock.advance(300)
        assert not grid.poll()
        source.observed = {NOW: 140.0}
        clock.advance(300)
        assert grid.poll()
        assert grid.outlook().now.g_per_kwh == 140.0
        assert [p.g_per_kwh for p in kept.points] == [180.0, 140.0]

    def test_latest_going_backwards_keeps_what_was_known(self, make, clock):
        """A source whose newest hour vanishes from the next answer does not take our knowledge back."""
        source = Source(observed={NOW: 180.0})
        grid = make(source)
        grid.poll()
        source.observed = {NOW - 2 * HOUR: 90.0}
        clock.advance(300)
        grid.poll()
        assert grid.outlook().now.g_per_kwh == 180.0

    def test_a_forecast_that_fails_does_not_cost_the_observation(self, make, events):
        """Free plans refuse forecasts; the observed value is still there, and the event is written once."""
        grid = make(Source(observed={NOW: 180.0}, forecast_error=PlanError("no forecast in this plan")))
        grid.poll()
        assert grid.outlook().now.g_per_kwh == 180.0
        assert events[0][0] == "forecast-failed"

    def test_a_restart_remembers(self, make):
        """Points that the database kept are history at once, each with its own source only."""
        grid = make(Source(error=Transient("down")))
        grid.remember([point(NOW - HOUR, 170.0), point(NOW, 1.0, source="another")])
        assert grid.outlook().now.g_per_kwh == 170.0

    def test_history_is_bounded(self, make, clock):
        """What is older than the history asked for is forgotten."""
        source = Source(observed={NOW - i * HOUR: 100.0 for i in range(100)})
        grid = make(source, limits=Limits(history_h=24))
        grid.poll()
        assert len(grid.outlook().recent) == 25


class TestAhead:
    def test_the_hours_to_come_are_theirs_then_ours_then_typical(self, make):
        """Each hour ahead says who expects it, without a gap or an overlap."""
        source = Source(
            observed={NOW - i * HOUR: 100.0 for i in range(72)}, expected={NOW + i * HOUR: 90.0 for i in range(9)}
        )
        grid = make(source, typical=Typical())
        grid.poll()
        ahead = grid.outlook().ahead
        assert (ahead[0].kind, ahead[0].by, ahead[0].g_per_kwh) == (Kind.MEASURED, "first", 100.0)
        assert {(hour.kind, hour.by) for hour in ahead[3:9]} == {(Kind.FORECAST, "chase+first")}
        assert {(hour.kind, hour.by) for hour in ahead[9:]} == {(Kind.FORECAST, "chase")}
        assert all(a.end == b.start for a, b in pairwise(ahead))
        assert ahead[-1].end >= NOW + 48 * HOUR
