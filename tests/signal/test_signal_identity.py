"""One signal, scope and boundary for each source: what an earlier run stored of another is no history of this one."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signal_bench import DIRECT, HOUR, NOW, Kept, Source, point

from chase.clock import ManualClock
from chase.signal import GridSignal, Limits
from chase.source import identity_of
from providers.base import Boundary, Kind, Scope, Signal, Transient

LIFECYCLE = (Signal.AVERAGE, Scope.LIFECYCLE, Boundary.PRODUCTION)
MARGINAL = (Signal.MARGINAL, Scope.DIRECT, Boundary.PRODUCTION)
CONSUMPTION = (Signal.AVERAGE, Scope.DIRECT, Boundary.CONSUMPTION)
OTHERS = pytest.mark.parametrize("other", [LIFECYCLE, MARGINAL, CONSUMPTION], ids="-".join)
EVERY = list(product(Signal, Scope, Boundary))


def stored(of, *, hours: int = 100, value: float = 500.0, **more):
    return [point(NOW - i * HOUR, value, of=of, **more) for i in range(1, hours)]


def identities(grid: GridSignal) -> set:
    """Of all that an outlook gives, and of all that is kept."""
    outlook = grid.outlook()
    kept = [p for state in grid.states for known in (state.observed, state.forecast) for p in known.values()]
    return {identity_of(p) for p in (outlook.now, *outlook.recent, *kept)}


@OTHERS
def test_what_is_said_now_ends_a_history_of_something_else(make, events, other):
    """The scope was changed between two runs: no percentile is taken over both."""
    grid = make(Source(observed={NOW - i * HOUR: 75.0 for i in range(24)}))
    grid.remember(stored(other))
    grid.remember([point(NOW + i * HOUR, 480.0, of=other, kind=Kind.FORECAST) for i in range(24)])
    grid.poll()
    assert identities(grid) == {DIRECT}
    assert {p.g_per_kwh for p in grid.outlook().recent} == {75.0}
    text = "first (XX) gives average direct production now: its history of {} is left out".format(" ".join(other))
    assert events == [("source-changed", text)]


@OTHERS
def test_what_is_remembered_late_is_ignored(make, other):
    """After the source has spoken, points of another identity are no longer taken, and its own are."""
    grid = make(Source(observed={NOW: 75.0}))
    grid.poll()
    grid.remember(stored(other))
    assert [p.g_per_kwh for p in grid.outlook().recent] == [75.0]
    grid.remember(stored(DIRECT, value=80.0, hours=5))
    assert [p.g_per_kwh for p in grid.outlook().recent] == [80.0] * 4 + [75.0]


@OTHERS
def test_a_forecast_alone_says_what_a_source_gives_too(make, other):
    """Nothing observed yet: the forecast's identity ends the other history, and an observation outweighs it again."""
    source = Source(expected={NOW + i * HOUR: 90.0 for i in range(24)})
    grid = make(source)
    grid.remember(stored(other))
    grid.poll()
    assert identities(grid) == {DIRECT}
    assert grid.outlook().recent == ()


@OTHERS
def test_a_forecast_of_another_identity_than_the_observed_is_not_used(make, other):
    """Hours ahead are compared with thresholds of what was observed, so they are of its kind or ours."""

    class Torn(Source):
        def forecast(self, start, end):
            self.of = other
            try:
                return super().forecast(start, end)
            finally:
                self.of = DIRECT

    source = Torn(observed={NOW - i * HOUR: 75.0 for i in range(72)}, expected={NOW + HOUR: 500.0})
    grid = make(source)
    for _ in range(3):
        grid.poll()
        assert identities(grid) == {DIRECT}
        assert {hour.by for hour in grid.outlook().ahead[1:]} == {"chase"}
        assert {hour.g_per_kwh for hour in grid.outlook().ahead} == {75.0}
        source.observed = {}


@OTHERS
def test_of_a_mixed_memory_the_last_fetched_is_kept(make, other):
    """While the source is silent, what it said last is gone by, alone, in whatever order the rows come."""
    for flip in (False, True):
        grid = make(Source(error=Transient("down")))
        old, new = stored(other, hours=30)[5:], stored(DIRECT, hours=6, value=75.0)
        for batch in (new, old) if flip else (old, new):
            grid.remember(batch)
        assert identities(grid) == {DIRECT}
        assert {p.g_per_kwh for p in grid.outlook().recent} == {75.0}


def test_the_lost_history_is_asked_for(make, clock):
    """With remembered points only three days are read again; when they were of no use, the rest is too, once."""
    source = Source(observed={NOW - i * HOUR: 75.0 for i in range(160)})
    grid = make(source)
    grid.remember(stored(LIFECYCLE))
    asked = []
    for _ in range(3):
        grid.poll()
        asked.append((clock.now() - source.since) / HOUR)
        clock.advance(300)
    assert asked == [168, 72, 72]
    assert len(grid.outlook().recent) == 160


def test_a_change_while_running_starts_a_new_history(make, clock, events):
    """A file that is rewritten with another column: its new word wins, is said once, and is stored."""
    kept = Kept()
    source = Source(observed={NOW - i * HOUR: 75.0 for i in range(24)})
    grid = make(source, store=kept)
    grid.poll()
    source.of = LIFECYCLE
    for _ in range(3):
        clock.advance(300)
        grid.poll()
    assert identities(grid) == {LIFECYCLE}
    assert [code for code, _ in events] == ["source-changed"]
    assert len(kept.points) == 48


def test_each_source_has_its_own_identity(make):
    """Two sources may differ; neither ends the other's history."""
    first = Source(error=Transient("down"))
    second = Source("second", observed={NOW: 99.0}, of=CONSUMPTION)
    grid = make(first, second)
    grid.remember([*stored(DIRECT)[9:], *stored(CONSUMPTION, source="second", value=98.0)])
    grid.poll()
    assert {identity_of(p) for p in grid.outlook().recent} == {CONSUMPTION}
    assert len(grid.outlook().recent) == 100
    assert len(grid.states[0].observed) == 90


batches = st.lists(
    st.tuples(
        st.sampled_from(["remember", "poll"]),
        st.sampled_from(EVERY),
        st.lists(st.integers(-40, 4), max_size=8),
        st.booleans(),
    ),
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(batches)
def test_no_order_of_events_mixes_two_identities(steps):
    """Whatever is remembered and said in whatever order, all points in hand are of one identity, ascending."""
    clock = ManualClock(NOW)
    source = Source()
    grid = GridSignal("xx", [source], clock=clock, limits=Limits())
    said = None
    for action, of, hours, forecast in steps:
        clock.advance(300)
        kind = Kind.FORECAST if forecast else Kind.MEASURED
        if action == "remember":
            grid.remember([point(NOW + i * HOUR, 10.0, of=of, kind=kind) for i in hours])
        else:
            source.of, source.observed = of, {NOW + i * HOUR: 20.0 for i in hours}
            source.expected = {NOW + i * HOUR: 20.0 for i in hours} if forecast else {}
            grid.poll()
            said = of if any(i <= 0 for i in hours) else said
        (state,) = grid.states
        points = [*state.observed.values(), *state.forecast.values()]
        assert len({identity_of(p) for p in points}) <= 1
        assert said is None or {identity_of(p) for p in points} <= {said}
        for known in (state.observed, state.forecast):
            assert list(known) == sorted(known)


def test_remembered_forecasts_serve_until_the_source_answers(make, clock):
    """A restart in an outage still has the forecast that was published before it."""
    grid = make(Source(error=Transient("down")))
    grid.remember([point(NOW + i * HOUR, 90.0, kind=Kind.FORECAST) for i in range(10)])
    clock.advance(timedelta(hours=2).total_seconds())
    outlook = grid.outlook()
    assert (outlook.now.g_per_kwh, outlook.now.kind, outlook.now.start) == (90.0, Kind.FORECAST, NOW + 2 * HOUR)
