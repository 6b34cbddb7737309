"""What holds of a forecast whatever was observed: an order, a range, and no look at what comes."""

from __future__ import annotations

import math
from datetime import timedelta
from itertools import pairwise

import pytest
from forecast_points import DAY, HOUR, START, history, point
from hypothesis import given
from hypothesis import strategies as st

from chase.forecast import Forecaster

intensities = st.floats(0, 5000)
STEPS = st.sampled_from([timedelta(minutes=m) for m in (5, 15, 30, 60)])


@st.composite
def histories(draw, least: int = 1, most: int = 120):
    """Any values at any of the steps, with any gaps."""
    length = draw(STEPS)
    values = draw(st.lists(st.one_of(st.none(), intensities), min_size=least, max_size=most))
    points = history([v or 0.0 for v in values], length=length)
    kept = [p for p, v in zip(points, values, strict=True) if v is not None]
    return kept or [point(START, draw(intensities), length=length)]


@st.composite
def long_histories(draw):
    """Days of hours, flat or wild, so that corrections are fitted to them."""
    day = draw(st.lists(intensities, min_size=24, max_size=24))
    noise = draw(st.lists(st.floats(-200, 200), min_size=7, max_size=40))
    count = draw(st.integers(60, 200))
    points = history([max(0.0, day[i % 24] + noise[i % len(noise)]) for i in range(count)])
    gone = draw(st.sets(st.integers(0, count - 1), max_size=40))
    return [p for i, p in enumerate(points) if i not in gone] or points


@st.composite
def forecasts_of(draw, start, *, most: int = 40):
    """What a source may have published: any values, leads, lengths and vintages."""
    rows = draw(
        st.lists(
            st.tuples(st.integers(-60, 60), st.integers(0, 50), intensities, st.sampled_from([0.5, 1, 2])),
            max_size=most,
        )
    )
    return [
        point(start + hour * HOUR, value, length=length * HOUR, issued=start + (hour - lead) * HOUR, source="theirs")
        for hour, lead, value, length in rows
    ]


def expected(observed, hours, *, at=None, issued=(), published=()):
    at = at or max(p.end for p in observed)
    forecaster = Forecaster()
    forecaster.learn(observed, issued)
    return forecaster.expect(at, at + hours * HOUR, at=at, published=published)


def sound(steps):
    assert all(math.isfinite(v) for s in steps for v in (s.g_per_kwh, s.low, s.high))
    assert all(0 <= s.low <= s.g_per_kwh <= s.high for s in steps)
    assert all(a.end == b.start for a, b in pairwise(steps))


@given(histories(), st.integers(1, 30))
def test_any_short_history_gives_ordered_quantiles_of_at_least_zero(observed, hours):
    """At any step and with any gaps: low <= value <= high, each hour covered once."""
    steps = expected(observed, hours)
    sound(steps)
    at = max(p.end for p in observed)
    assert (steps[0].start, steps[-1].end) == (at, at + hours * HOUR)


@given(long_histories())
def test_any_long_history_does_too(observed):
    """With corrections fitted, for a week ahead."""
    steps = expected(observed, 168)
    sound(steps)
    assert len(steps) == 168


@given(long_histories())
def test_the_middle_stays_near_what_was_seen(observed):
    """However wild the fit, no further outside of the range seen than half of it."""
    low, high = min(p.g_per_kwh for p in observed), max(p.g_per_kwh for p in observed)
    reach = (high - low) / 2 + 1e-6
    assert all(low - reach <= s.g_per_kwh <= high + reach for s in expected(observed, 100))


@given(st.data())
def test_any_forecast_of_a_source_leaves_it_sound(data):
    """Whatever was issued and is published, with any history or none of it overlapping."""
    observed = data.draw(st.one_of(histories(), long_histories()))
    at = max(p.end for p in observed)
    issued, published = data.draw(forecasts_of(at)), data.draw(forecasts_of(at))
    steps = expected(observed, 24, issued=issued, published=published)
    sound(steps)
    assert {s.by for s in steps} <= {"chase", "persistence", "theirs", "chase+theirs"}


@given(st.data())
def test_the_order_of_what_is_learnt_is_no_matter(data):
    """The same points in any order give the same forecast, as does asking again."""
    observed = data.draw(st.one_of(histories(), long_histories()))
    at = max(p.end for p in observed)
    issued = data.draw(forecasts_of(at))
    first = expected(observed, 12, issued=issued, published=issued)
    shuffled, mixed = data.draw(st.permutations(observed)), data.draw(st.permutations(issued))
    assert expected(shuffled, 12, issued=mixed, published=issued) == first


@given(st.data())
def test_what_comes_later_changes_nothing(data):
    """A forecast made at one time is the same whatever was observed or issued after it."""
    observed = data.draw(long_histories())
    at = observed[len(observed) // 2].end
    known = [p for p in observed if p.end <= at]
    later = history(data.draw(st.lists(intensities, min_size=1, max_size=60)), start=at)
    issued = data.draw(forecasts_of(at))
    then = [p for p in issued if p.issued_at <= at]
    assert expected(known + later, 12, at=at, issued=issued) == expected(known, 12, at=at, issued=then)


@given(long_histories(), st.sampled_from([0.001, 0.5, 3.0, 1000.0]))
def test_the_unit_is_no_matter(observed, factor):
    """Twice the history is twice the forecast."""
    scaled = [point(p.start, p.g_per_kwh * factor) for p in observed]
    for a, b in zip(expected(observed, 9), expected(scaled, 9), strict=True):
        span = max(abs(p.g_per_kwh) for p in observed)
        assert b.g_per_kwh / factor == pytest.approx(a.g_per_kwh, rel=1e-4, abs=1e-4 * span + 1e-9)


@given(st.sets(st.integers(30, 390), min_size=20, max_size=60))
def test_gaps_move_a_regular_forecast_little(gone):
    """A perfect wave with holes is still continued as one."""
    whole = history([200 + 100 * math.sin(2 * math.pi * i / 24) for i in range(400)])
    steps = expected([p for i, p in enumerate(whole) if i not in gone], 12)
    for i, step in enumerate(steps):
        assert step.g_per_kwh == pytest.approx(200 + 100 * math.sin(2 * math.pi * (400 + i) / 24), abs=12)


@given(st.integers(0, 119), st.integers(0, 300), st.integers(1, 40))
def test_any_span_is_covered_exactly(minute, ahead_minutes, length):
    """Whenever it starts and ends, inside a step or not."""
    forecaster = Forecaster()
    forecaster.learn(history([100.0 + i % 24 for i in range(100)]))
    start = START + 100 * HOUR + timedelta(minutes=minute + ahead_minutes)
    end = start + timedelta(minutes=7 * length)
    steps = forecaster.expect(start, end, at=START + 100 * HOUR)
    assert (steps[0].start, steps[-1].end) == (start, end)
    assert all(a.end == b.start for a, b in pairwise(steps))


@given(st.floats(0, 20), st.floats(-1, 1))
def test_the_profile_is_asked_for_hours_that_are_wanted_only(days_old, shift):
    """A typical profile that is a constant comes back as it is, however old the history."""
    forecaster = Forecaster(typical=lambda _: 50.0)
    forecaster.learn([point(START, 50.0)])
    at = START + days_old * DAY + timedelta(hours=1)
    steps = forecaster.expect(at + abs(shift) * HOUR, at + 3 * HOUR, at=at)
    assert {round(s.g_per_kwh, 9) for s in steps} == {50.0}
