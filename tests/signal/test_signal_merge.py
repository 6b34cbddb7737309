"""A source's points stay in order, however they come, and a poll of old news costs little."""

from __future__ import annotations

import sys
from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from signal_bench import HOUR, NOW, Source, point

from chase.source import SourceState
from providers.base import Kind

answers = st.lists(st.dictionaries(st.integers(0, 30), st.sampled_from([100.0, 110.0, 120.0]), max_size=8), max_size=6)


@given(answers=answers)
def test_the_newest_word_on_each_hour_in_order_of_time(answers):
    """Answers in any order, with gaps filled later and values revised: one value an hour, ascending."""
    state, last = SourceState(Source()), {}
    for answer in answers:
        version = state.version
        said = [point(NOW + hour * HOUR, grams) for hour, grams in answer.items()]
        news = {seen.start for seen in said if last.get(seen.start) != seen.g_per_kwh}
        found = state.take(said, [])
        last |= {seen.start: seen.g_per_kwh for seen in said}
        assert {seen.start for seen in found} == news
        assert (state.version > version) == bool(news)
    assert {start: seen.g_per_kwh for start, seen in state.observed.items()} == last
    assert all(before < after for before, after in pairwise(state.observed))


@given(answers=answers, cut=st.integers(-2, 60))
def test_what_is_forgotten_is_what_is_old(answers, cut):
    """All that began before the limit, once it is a day's worth, and nothing else ever."""
    state = SourceState(Source())
    for answer in answers:
        state.take([point(NOW + hour * HOUR, grams) for hour, grams in answer.items()], [])
    limit, known = NOW + cut * HOUR, dict(state.observed)
    state.forget(limit, NOW)
    due = limit - next(iter(known), limit) >= 24 * HOUR
    assert state.observed == {start: seen for start, seen in known.items() if start >= limit or not due}


def test_forecasts_that_are_over_are_forgotten():
    """However long the history: nobody asks for them, and a fleet of regions would keep a month of them."""
    state = SourceState(Source())
    state.take([], [point(NOW + i * HOUR, 100.0, kind=Kind.FORECAST) for i in range(-72, 48)])
    state.forget(NOW - 672 * HOUR, NOW)
    assert list(state.forecast) == [NOW + i * HOUR for i in range(-24, 48)]
    assert len(state.issued) == 120


def test_a_source_of_months_takes_no_more_room_than_one_of_weeks():
    """Its tables stay as large as they were when they were full first."""
    state, step = SourceState(Source()), timedelta(minutes=5)
    sizes = []
    for day in range(70):
        first = NOW + day * 24 * HOUR
        state.take([point(first + i * step, 100.0, step=step) for i in range(288)], [])
        state.forget(first - 27 * 24 * HOUR, first)
        sizes.append(sys.getsizeof(state.observed))
    assert max(sizes[30:]) <= sizes[29]


def test_a_poll_that_adds_one_value_sorts_nothing():
    """A month of five minutes, and the next one: its keys are not compared with one another."""
    state, step = SourceState(Source()), timedelta(minutes=5)
    state.take([point(NOW + i * step, 100.0, step=step) for i in range(8064)], [])
    compared = []

    class Start(type(NOW)):
        def __lt__(self, other):
            compared.append(other)
            return super().__lt__(other)

    at = NOW + 8064 * step
    newest = Start(at.year, at.month, at.day, at.hour, at.minute, tzinfo=at.tzinfo)
    assert len(state.take([point(newest, 101.0, step=step)], [])) == 1
    assert next(reversed(state.observed)) == newest
    assert len(compared) < 20
