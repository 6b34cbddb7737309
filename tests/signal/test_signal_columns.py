"""An outlook as columns says what it says hour by hour, and neither changes with what is learnt later."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from signal_bench import HOUR, NOW, Source, looks

from chase.forecast import Forecaster
from chase.outlook import Outlook
from providers.base import Capabilities, Transient

WEEK = timedelta(days=7)


@given(look=looks())
def test_columns_are_the_hours(look):
    """Whatever is known: the same steps in the same order, to the last bit."""
    outlook = look.outlook
    curve = outlook.curve
    assert len(curve) == len(outlook.ahead)
    assert curve.start_s.tolist() == [hour.start.timestamp() for hour in outlook.ahead]
    assert curve.end_s.tolist() == [hour.end.timestamp() for hour in outlook.ahead]
    assert curve.g.tolist() == [hour.g_per_kwh for hour in outlook.ahead]
    assert curve.low.tolist() == [hour.low for hour in outlook.ahead]
    assert curve.high.tolist() == [hour.high for hour in outlook.ahead]


def test_nothing_known_is_an_empty_curve():
    """No column has a row, and none is missing."""
    assert len(Outlook(NOW).curve) == 0
    assert Outlook(NOW).ahead == Outlook(NOW).recent == ()


def test_an_outlook_stays_what_it_was(make, clock):
    """What was learnt, revised or forgotten since it was taken is not in it, though nobody had looked before."""
    source = Source(observed={NOW - n * HOUR: 300.0 + n for n in range(100)})
    grid, same = make(source), make(replace(source, observed=dict(source.observed)))
    grid.poll()
    same.poll()
    taken, looked = grid.outlook(WEEK), same.outlook(WEEK)
    recent, hours = looked.recent, looked.ahead
    source.observed |= {NOW - 5 * HOUR: 310.0, NOW + HOUR: 290.0}
    clock.advance(3600)
    grid.poll()
    assert grid.outlook(WEEK).recent != recent
    source.observed = {NOW + 400 * HOUR: 290.0}
    clock.advance(400 * 3600)
    grid.poll()
    assert (taken.recent, taken.ahead) == (recent, hours)


@pytest.mark.parametrize(("revised_s", "asked_h"), [(0.0, 1), (7200.0, 2), (72 * 3600.0, 72)])
def test_a_source_is_asked_again_for_what_it_may_revise(make, clock, revised_s, asked_h):
    """As far back as it says, and no less than to what is known."""

    class Sure(Source):
        @property
        def capabilities(self):
            return Capabilities(observed=True, forecast=False, step_s=3600, poll_s=300.0, revised_s=revised_s)

    source = Sure(observed={NOW - n * HOUR: 300.0 for n in range(1, 168)})
    grid = make(source)
    grid.poll()
    source.observed[NOW] = 300.0
    clock.advance(3600)
    grid.poll()
    assert source.since == NOW + HOUR - asked_h * HOUR


def test_time_alone_changes_no_forecast(make, clock, monkeypatch):
    """A late source is waited for with what was known of it: nothing is fitted anew before it speaks."""
    engines = []

    def watched(self, *args, **kwargs):
        engines.append(self._known_at(kwargs["at"]))
        return steps(self, *args, **kwargs)

    steps = Forecaster.steps
    monkeypatch.setattr(Forecaster, "steps", watched)
    source = Source(observed={NOW - n * HOUR: 300.0 + n % 24 for n in range(1, 168)})
    grid = make(source)
    grid.poll()
    source.error = Transient("down")
    for _ in range(5):
        grid.outlook(WEEK)
        clock.advance(3600)
    assert len(engines) == 5
    assert len(set(map(id, engines))) == 1


def test_what_is_remembered_is_told_while_a_poll_takes_points_in(make, clock):
    """The ticks' thread asks when it makes a plan; what comes in meanwhile is not in it, and is no fault of the job."""
    source = Source(observed={NOW - n * HOUR: 300.0 + n for n in range(100)})
    grid, polls = make(source), 300
    grid.poll()
    done = threading.Event()

    def poll() -> None:
        for n in range(1, polls + 1):
            source.observed[NOW + n * HOUR] = 300.0 - n / polls
            clock.advance(3600.0)
            grid.poll()
        done.set()

    poller, before_s = threading.Thread(target=poll), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        poller.start()
        while not done.is_set():
            outlook = grid.outlook(HOUR)
            first, again = list(outlook.remembered), list(outlook.remembered)
            assert first == again
            assert first == sorted(first, reverse=True)
    finally:
        sys.setswitchinterval(before_s)
        poller.join()
    assert len(grid.outlook(HOUR).remembered) >= polls // 2
