"""What is observed and what is expected fail apart, and neither fills the log."""

from __future__ import annotations

import pytest
from signal_bench import HOUR, NOW, Source

from chase.signal import Limits
from providers.base import AuthError, BadRequest, Kind, NoData, PlanError, RateLimited, SchemaError, Transient

COMING = {NOW + n * HOUR: 90.0 for n in range(60)}


class Counting(Source):
    """Counts the requests for forecasts too."""

    forecasts = 0

    def forecast(self, start, end):
        self.forecasts += 1
        return super().forecast(start, end)


def polled(grid, clock, hours: float) -> None:
    for _ in range(int(hours * 12)):
        grid.poll()
        clock.advance(300)


@pytest.mark.parametrize("error", [Transient("503"), SchemaError("x"), NoData("x"), PlanError("x"), BadRequest("x")])
def test_a_fault_in_what_is_observed_leaves_the_forecast(make, clock, error):
    """Only one endpoint is down (entsoe-py 484): the other goes on being asked and is gone by."""
    source = Counting(error=error, expected=COMING)
    grid = make(source)
    polled(grid, clock, 5)
    assert source.forecasts == 60
    assert (grid.outlook().now.kind, grid.outlook().now.g_per_kwh) == (Kind.FORECAST, 90.0)


@pytest.mark.parametrize("error", [AuthError("x"), RateLimited("x", retry_after_s=1800)])
def test_what_is_said_of_the_caller_counts_for_both(make, clock, error):
    """A token that is refused, or a limit that is reached: the forecast is not asked for meanwhile."""
    source = Counting(error=error, expected=COMING)
    grid = make(source)
    polled(grid, clock, 0.4)
    assert (source.asked, source.forecasts) == (1, 0)


def test_a_limit_that_the_forecast_met_is_kept_by_both(make, clock):
    """The host counts requests, whatever they are for."""
    source = Counting(observed={NOW: 180.0}, forecast_error=RateLimited("x", retry_after_s=1800))
    grid = make(source)
    polled(grid, clock, 0.5)
    assert (source.asked, source.forecasts) == (1, 1)
    polled(grid, clock, 0.1)
    assert (source.asked, source.forecasts) == (2, 2)


@pytest.mark.parametrize(("error", "times"), [(PlanError("x"), 5), (AuthError("x"), 5), (Transient("x"), 60)])
def test_a_forecast_that_fails_waits_as_long_as_its_fault_wants(make, clock, error, times):
    """A plan without forecasts is not asked for them every five minutes, and the observation keeps its slots."""
    source = Counting(observed={NOW + n * HOUR: 180.0 for n in range(-3, 6)}, forecast_error=error)
    grid = make(source)
    polled(grid, clock, 5)
    assert source.forecasts == times
    assert source.asked == (5 if isinstance(error, AuthError) else 60)


def test_a_provider_that_only_forecasts_is_no_fault(make, clock, events):
    """It observes nothing by nature: no event, and no problem."""

    class Oracle(Source):
        @property
        def capabilities(self):
            from dataclasses import replace

            return replace(super().capabilities, observed=False)

    grid = make(Oracle(expected=COMING))
    polled(grid, clock, 1)
    assert events == []
    assert (grid.states[0].problem, grid.outlook().now.source) == ("", "first")


def test_an_outage_of_a_week_is_two_lines(make, clock, events):
    """With a text that is another one at each poll, and looked at all the time (codecarbon 1354)."""
    source = Source(observed={NOW - HOUR: 180.0})
    grid = make(source)
    grid.poll()
    for n in range(7 * 288):
        clock.advance(300)
        source.error = Transient(f"503 at {clock.now().isoformat()}, id {n:08x}")
        grid.poll()
        grid.outlook()
    source.error, source.observed = None, {clock.now(): 170.0}
    clock.advance(300)
    grid.poll()
    assert [code for code, _ in events] == ["source-failed", "source-back"]
    assert events[0][1].endswith("(last good 2026-03-02 12:00Z)")
    assert events[1][1] == "first (XX) answers again; it was down since 2026-03-02 12:05Z"


def test_a_token_that_expires_within_an_outage_is_said_too(make, clock, events):
    """Another kind of fault is another thing to do."""
    source = Source(error=Transient("503"))
    grid = make(source)
    for error in (Transient("503"), Transient("502"), AuthError("401"), AuthError("401")):
        source.error = error
        grid.poll()
        clock.advance(3600)
    assert [text for _, text in events] == ["first (XX): Transient: 503", "first (XX): AuthError: 401"]


def test_the_outlook_says_since_when_a_source_is_down(make, clock):
    """While its last value is still gone by, and when a forecast stands in."""
    source = Source(observed={NOW - n * HOUR: 180.0 for n in range(72)})
    grid = make(source)
    grid.poll()
    source.error = Transient("503")
    clock.advance(300)
    grid.poll()
    outage = "down since 2026-03-02 12:05Z, last good 2026-03-02 12:00Z: Transient: 503"
    assert grid.outlook().note == outage
    clock.advance(12 * 3600)
    grid.poll()
    assert outage in grid.outlook().note
    assert grid.outlook().note.startswith("no observed value is young enough; chase forecast instead")


def test_nothing_where_something_should_be_is_a_fault_of_its_own(make, events):
    """An answer without a row is said to be one: it has nothing of the time asked for."""
    grid = make(Source(observed={}), limits=Limits(history_h=24, percentile_h=24))
    grid.poll()
    assert events == [("source-failed", "first (XX): NoData: it has nothing of the time since 2026-03-01 12:00Z")]


def test_while_one_thread_polls_another_does_not(make):
    """A slow poll and the next firing of the timer: the source is asked once."""

    class Nested(Source):
        again = None

        def observe(self, start, end):
            found = super().observe(start, end)
            assert self.again.poll() is False
            return found

    source = Nested(observed={NOW: 180.0})
    grid = source.again = make(source)
    assert grid.poll()
    assert source.asked == 1
