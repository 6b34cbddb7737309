"""Which of several sources is gone by: fresh, stale, published forecasts, our own, typical; in their order in each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signal_bench import HOUR, NOW, Source, Typical

from chase.clock import ManualClock
from chase.outlook import FALLBACK, FRESH, STALE
from chase.signal import GridSignal, Limits
from providers.base import Kind, Transient

RANKS = {"fresh": 0, "stale": 1, "published": 2, "own": 3, "nothing": 4}


@dataclass
class Part:
    """The expected answer for one state of a source."""

    freshness: str
    kind: Kind
    ours: bool = False


EXPECTED = {
    "fresh": Part(FRESH, Kind.MEASURED),
    "stale": Part(STALE, Kind.MEASURED),
    "published": Part(FALLBACK, Kind.FORECAST),
    "own": Part(FALLBACK, Kind.FORECAST, ours=True),
    "nothing": Part(FALLBACK, Kind.TYPICAL),
}


def source(name: str, state: str, value: float) -> Source:
    """A source in one of the states; what it knows of the hours before is of the same value."""
    ages = {"fresh": 0, "stale": 4, "published": 12, "own": 12}
    observed = {NOW - (ages[state] + i) * HOUR: value for i in range(72)} if state in ages else {}
    expected = {NOW + i * HOUR: value for i in range(6)} if state == "published" else {}
    return Source(name, observed=observed, expected=expected, error=None if observed else Transient("down"))


def polled(*sources: Source) -> GridSignal:
    clock = ManualClock(NOW)
    grid = GridSignal("xx", sources, clock=clock, limits=Limits(history_h=168), typical=Typical())
    grid.poll()
    return grid


@pytest.mark.parametrize("second", RANKS)
@pytest.mark.parametrize("first", RANKS)
def test_the_best_of_two_sources_is_gone_by(first, second):
    """For each pair of states the better one, and of equals the one named first."""
    best = first if RANKS[first] <= RANKS[second] else second
    named, value = ("first", 100.0) if best == first else ("second", 200.0)
    outlook = polled(source("first", first, 100.0), source("second", second, 200.0)).outlook()
    wanted = EXPECTED[best]
    assert (outlook.freshness, outlook.now.kind) == (wanted.freshness, wanted.kind)
    if best == "nothing":
        assert outlook.now.g_per_kwh == 222.0
        assert {p.source for p in outlook.recent} == {"static"}
    else:
        assert outlook.now.source in ({"chase"} if wanted.ours else {named, f"chase+{named}"})
        assert outlook.now.g_per_kwh == pytest.approx(value)
        assert {p.source for p in outlook.recent} == {named}
        assert {hour.by for hour in outlook.ahead} <= {named, f"chase+{named}", "chase"}
        assert {round(hour.g_per_kwh) for hour in outlook.ahead} == {value}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(sorted(RANKS)), min_size=1, max_size=5))
def test_the_best_of_any_number_of_sources(states):
    """The first of the best, whatever stands before and after it."""
    best = min(states, key=RANKS.__getitem__)
    sources = [source(f"s{i}", state, 100.0 + i) for i, state in enumerate(states)]
    now = polled(*sources).outlook().now
    assert now.g_per_kwh == pytest.approx(222.0 if best == "nothing" else 100.0 + states.index(best))


def test_a_first_source_that_fails_is_left_when_it_is_no_longer_fresh(make, clock):
    """Minutes after its last value has gone stale the second source's fresh one is used, not hours."""
    first = Source(observed={NOW - i * HOUR: 180.0 for i in range(24)})
    second = Source("second", observed={NOW + i * HOUR: 99.0 for i in range(-24, 9)})
    grid = make(first, second)
    grid.poll()
    first.error = Transient("down")
    used = []
    for _ in range(18):
        clock.advance(600)
        grid.poll()
        used.append(grid.outlook().now.source)
    assert used[:12] == ["first"] * 12
    assert used[15:] == ["second"] * 3
    assert grid.outlook().freshness == FRESH


def test_a_second_source_is_asked_when_the_first_answers_with_what_is_stale(make):
    """A source that answers and lags is not fresh: another one may be."""
    second = Source("second", observed={NOW: 99.0})
    grid = make(Source(observed={NOW - 4 * HOUR: 180.0}), second)
    grid.poll()
    assert second.asked == 1
    assert (grid.outlook().now.source, grid.outlook().freshness) == ("second", FRESH)


def test_a_published_forecast_that_misses_now_leaves_now_to_ours(make, clock):
    """A forecast that starts later is kept for its hours, and the time until then is ours, without gap or overlap."""
    grid = make(
        Source(
            observed={NOW - i * HOUR: 150.0 for i in range(12, 84)},
            expected={NOW + i * HOUR: 150.0 for i in range(3, 8)},
        )
    )
    grid.poll()
    clock.advance(1000)
    outlook = grid.outlook()
    assert (outlook.now.kind, outlook.now.source, outlook.freshness) == (Kind.FORECAST, "chase", FALLBACK)
    assert [hour.by for hour in outlook.ahead[:9]] == ["chase"] * 3 + ["chase+first"] * 5 + ["chase"]
    assert all(a.end == b.start for a, b in pairwise(outlook.ahead))


def test_what_a_source_calls_typical_comes_last(make):
    """A typical profile that is listed as a source does not beat what another one measured or expects of today."""
    for hours_ago, kind in ((0, Kind.MEASURED), (4, Kind.MEASURED), (12, Kind.FORECAST)):
        grid = make(Typical("static"), Source(observed={NOW - (hours_ago + i) * HOUR: 150.0 for i in range(40)}))
        grid.poll()
        now = grid.outlook().now
        assert (now.kind, now.g_per_kwh) == (kind, pytest.approx(150.0))
    alone = make(Typical("static"))
    alone.poll()
    assert (alone.outlook().now.kind, alone.outlook().freshness) == (Kind.TYPICAL, FRESH)


def test_the_value_gone_by_is_the_first_of_those_ahead_when_it_is_expected(make, clock):
    """Published or ours: ``now`` is one of ``ahead``, so a plan and a decision see the same."""
    for expected in ({}, {NOW + i * HOUR: 90.0 for i in range(48)}):
        grid = make(Source(observed={NOW - i * HOUR: 150.0 for i in range(12, 84)}, expected=expected))
        grid.poll()
        clock.advance(700)
        outlook = grid.outlook()
        now, first = outlook.now, outlook.ahead[0]
        assert (now.start, now.end, now.g_per_kwh, now.source) == (first.start, first.end, first.g_per_kwh, first.by)
        assert (outlook.low, outlook.high, outlook.age_s) == (first.low, first.high, first.age_s)


@pytest.mark.parametrize("minutes", [5, 15, 30])
def test_half_hours_ahead_join_without_overlap(make, minutes):
    """A forecast that ends within an hour is followed by the rest of that hour, not by the whole of it."""
    step = timedelta(minutes=minutes)
    grid = make(
        Source(
            observed={NOW - i * step: 100.0 for i in range(1, 300)},
            expected={NOW + i * step: 90.0 for i in range(7)},
            step=step,
        ),
        typical=Typical(),
    )
    grid.poll()
    ahead = grid.outlook().ahead
    assert ahead[0].start <= NOW < ahead[0].end
    assert all(a.end == b.start for a, b in pairwise(ahead))
    assert ahead[-1].end == NOW + 48 * HOUR
