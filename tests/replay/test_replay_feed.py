"""What a poller of a live source would have seen of a trace, at each moment."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_cases import HOUR, START, waves

from chase.clock import ManualClock
from chase.replay.feed import Feed, Publication
from chase.replay.trace import Trace
from chase.signal import GridSignal, Limits
from providers.base import Kind
from providers.testing import ProviderSuite


def trace(hours: int = 100) -> Trace:
    return Trace("XX", START, 3600.0, np.array(waves(hours)))


class TestAsAProvider(ProviderSuite):
    NOW = START + timedelta(hours=60, minutes=20)

    @pytest.fixture
    def provider(self) -> Feed:
        return Feed(Publication(trace(), 600.0, 0.3), lambda: self.NOW)


@given(delay_s=st.integers(0, 20_000), minutes=st.integers(0, 90 * 60))
def test_a_value_is_there_after_its_delay_and_not_before(delay_s, minutes):
    """From the moment on at which its interval has run that long; with no delay at its very beginning."""
    now = START + timedelta(minutes=minutes)
    seen = Feed(Publication(trace(), delay_s, 0.0), lambda: now).observe(START, now + HOUR)
    assert [point.start for point in seen] == [
        START + i * HOUR for i in range(91) if START + i * HOUR + timedelta(seconds=delay_s) <= now
    ]
    assert all(point.g_per_kwh == trace().values[i] for i, point in enumerate(seen))


def test_only_what_was_asked_for_is_given():
    """The step in which the time begins, up to its end."""
    seen = Feed(Publication(trace(), 0.0, 0.0), lambda: START + 50 * HOUR)
    points = seen.observe(START + 10.5 * HOUR, START + 13 * HOUR)
    assert [point.start for point in points] == [START + i * HOUR for i in (10, 11, 12)]
    assert not seen.observe(START + 51 * HOUR, START + 60 * HOUR).points


def test_first_words_are_off_and_are_taken_back_within_a_day_or_so():
    """About the share that was asked for is an estimate up to 15 % off, and what is said last is always the trace."""
    made = trace()
    said = Publication(made, 0.0, 0.4)
    first = [said.said(i, made.starts[i]) for i in range(100)]
    last = [said.said(i, made.starts[i] + timedelta(hours=26)) for i in range(100)]
    off = [point for point, value in zip(first, made.values, strict=True) if point.g_per_kwh != value]
    assert 25 <= len(off) <= 55
    assert {point.kind for point in off} == {Kind.ESTIMATED}
    assert all(abs(p.g_per_kwh / v - 1) <= 0.15 + 1e-9 for p, v in zip(first, made.values, strict=True))
    assert [point.g_per_kwh for point in last] == made.values.tolist()
    assert said.said(7, made.starts[7]) == Publication(trace(), 0.0, 0.4).said(7, made.starts[7])


def test_a_signal_that_polls_sees_every_revision():
    """Whatever was said first, a day later the signal knows the right value of each hour."""
    made, clock = trace(), ManualClock(START)
    said = Publication(made, 1800.0, 0.5)
    signal = GridSignal("xx", [Feed(said, clock.now)], clock=clock, limits=Limits(outlier_factor=1.0))
    revised = 0
    for hour in range(90):
        clock.advance(1800)
        before = signal.observed_of(signal.states[0])
        signal.poll()
        after = signal.observed_of(signal.states[0])
        revised += sum(before[start] != point for start, point in after.items() if start in before)
        sure = range(hour - 28)
        assert [after[made.starts[i]].g_per_kwh for i in sure] == [made.values[i] for i in sure]
        assert len(after) == hour + 1
        clock.advance(1800)
    assert revised > 20


def test_what_is_never_revised_is_asked_for_once():
    """A source that says so is not asked again for what it has said."""
    made, clock = trace(), ManualClock(START + 50 * HOUR)
    asked = []

    class Watched(Feed):
        def observe(self, start, end):
            asked.append(start)
            return super().observe(start, end)

    feed = Watched(Publication(made, 0.0, 0.0), clock.now)
    signal = GridSignal("xx", [feed], clock=clock, limits=Limits(history_h=40, percentile_h=40))
    signal.remember(Publication(made, 0.0, 0.0).between(START, clock.now(), clock.now()))
    for _ in range(5):
        signal.poll()
        clock.advance(3600)
    assert asked == [START + i * HOUR for i in range(50, 55)]
