"""When a source is asked: once in each of its slots, however long it takes to answer."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signal_bench import HOUR, NOW, Source

from chase.clock import ManualClock
from chase.signal import GridSignal, Limits
from providers.base import AuthError, BadRequest, NoData, PlanError, RateLimited, SchemaError, Transient

SHORT = [None, Transient("x"), NoData("x"), SchemaError("x")]


def fire(grid: GridSignal, clock: ManualClock, times: int) -> None:
    """What the service's timer does: a poll every ``poll_s``, counted from the first."""
    began = clock.monotonic()
    for n in range(times):
        clock.advance(max(0.0, began + n * grid.poll_s - clock.monotonic()))
        grid.poll()


@pytest.mark.parametrize("error", SHORT, ids=str)
@pytest.mark.parametrize(("poll_s", "takes_s"), [(900, 0.4), (900, 15), (900, 300), (300, 3), (10, 0.2), (0.05, 0.001)])
def test_each_firing_of_the_timer_asks(make, clock, error, poll_s, takes_s):
    """A slot counts from the start of the request, so a timer of the same period never finds the source not yet due."""
    source = Source(observed={NOW: 180.0}, error=error, poll_s=poll_s, takes_s=takes_s, clock=clock)
    fire(make(source), clock, 12)
    assert source.asked == 12


def test_a_second_source_is_asked_each_time_behind_a_slow_first_one(make, clock):
    """The first one's time until it fails differs; the second keeps its slots all the same."""
    first = Source(error=Transient("cut"), poll_s=900, clock=clock)
    second = Source("second", observed={NOW: 99.0}, poll_s=900, takes_s=2.0, clock=clock)
    grid = make(first, second)
    for n in range(10):
        first.takes_s = 15.0 if n % 2 == 0 else 0.1
        clock.advance(900 * n - clock.monotonic())
        grid.poll()
    assert (first.asked, second.asked) == (10, 10)


@pytest.mark.parametrize(
    ("poll_s", "wait_s"),
    [(10, 9), (100, 90), (300, 270), (900, 870), (3600, 3570)],
)
def test_the_slack_is_a_tenth_of_a_slot_and_at_most_half_a_minute(make, clock, poll_s, wait_s):
    """Polled all the time, a source is not asked much more often than it wants."""
    source = Source(observed={NOW: 180.0}, poll_s=poll_s)
    grid = make(source)
    grid.poll()
    clock.advance(wait_s - 0.5)
    grid.poll()
    assert source.asked == 1
    clock.advance(0.5)
    grid.poll()
    assert source.asked == 2


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [
        (RateLimited("x"), 300),
        (RateLimited("x", retry_after_s=5.0), 300),
        (RateLimited("x", retry_after_s=1234.0), 1234),
        (AuthError("x"), 3600),
        (PlanError("x"), 3600),
        (BadRequest("x"), 3600),
    ],
)
def test_a_longer_wait_is_kept_whole_from_the_answer_on(make, clock, error, wait_s):
    """What a source asked for, and what waits for a person, is never early, by whatever slack."""
    source = Source(error=error, takes_s=20.0, clock=clock)
    grid = make(source)
    grid.poll()
    clock.advance(wait_s - 0.5)
    grid.poll()
    assert source.asked == 1
    clock.advance(0.5)
    grid.poll()
    assert source.asked == 2


@settings(deadline=None)
@given(
    poll_s=st.floats(1, 3600),
    takes=st.lists(st.floats(0, 0.9), min_size=2, max_size=20),
    late=st.floats(-0.04, 0.04),
    began_s=st.floats(0, 86400),
)
def test_a_timer_that_is_a_little_late_or_early_misses_no_slot(poll_s, takes, late, began_s):
    """Whatever part of its slot each answer takes, and with a timer that jitters by less than the slack: one request
    when it starts, unless its slot is about to begin, and one in each slot from then on.
    """
    clock = ManualClock(NOW + timedelta(seconds=began_s))
    source = Source(observed={NOW - HOUR: 1.0}, poll_s=poll_s, clock=clock)
    grid = GridSignal("xx", [source], clock=clock, limits=Limits(history_h=168))
    first_s = grid.next_slot_s
    grid.poll()
    asked = [source.asked]
    jitter_s = late * min(poll_s, 300)
    for n, share in enumerate(takes):
        source.takes_s = share * poll_s
        clock.advance(max(0.0, first_s + n * poll_s + (jitter_s if n % 2 else 0.0) - clock.monotonic()))
        grid.poll()
        asked.append(source.asked)
    assert asked[0] == 1
    assert asked[1] in {1, 2}
    assert [later - earlier for earlier, later in pairwise(asked[1:])] == [1] * (len(takes) - 1)


def test_a_fault_of_ours_does_not_ask_again_at_once(make, clock):
    """When our own code fails on an answer, the error is the caller's to see, and the source keeps its slot."""

    class Broken:
        def add_points(self, points) -> int:
            raise KeyError("a bug of ours")

    source = Source(observed={NOW: 180.0})
    grid = make(source, store=Broken())
    with pytest.raises(KeyError, match="a bug of ours"):
        grid.poll()
    grid.poll()
    assert source.asked == 1
