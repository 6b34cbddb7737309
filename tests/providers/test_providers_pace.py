"""How often a host is asked, and Retry-After in all that servers write there."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from grid_server import NOW
from hypothesis import given
from hypothesis import strategies as st

from chase.clock import ManualClock
from providers.pace import LONGEST_HOLD_S, Pace, retry_after_s


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 7 ", 7.0),
        (format_datetime(NOW.replace(minute=25), usegmt=True), 300.0),
        ("Wed, 04 Mar 2026 10:25:00 +0100", 300.0),
        (format_datetime(NOW.replace(minute=10), usegmt=True), 0.0),
        ("99999999999999999999999", LONGEST_HOLD_S),
        ("Wed, 04 Mar 2099 10:25:00 GMT", LONGEST_HOLD_S),
        (None, None),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("\u0663", None),
        ("Wed, 99 Mar 2026 10:25:00 GMT", None),
        ("Wed, 04 Mar 2026 09:25:00 -0000", None),
    ],
)
def test_retry_after_in_all_its_forms(header, seconds):
    """Seconds and dates are understood, waits that are over or absurd are bounded, nonsense is no wait."""
    assert retry_after_s(header, NOW) == seconds


@given(st.text(max_size=40))
def test_no_header_can_hurt(header):
    """Whatever a server writes is a bounded wait or none."""
    found = retry_after_s(header, datetime(2026, 3, 4, tzinfo=UTC))
    assert found is None or 0 <= found <= LONGEST_HOLD_S


@given(
    st.floats(0.1, 10.0),
    st.integers(1, 8),
    st.lists(st.floats(0.0, 5.0), min_size=1, max_size=60),
)
def test_no_host_is_asked_faster_than_its_rate(rate_per_s, burst, pauses):
    """In any stretch of time there are at most ``burst`` turns and ``rate`` more a second."""
    clock = ManualClock(NOW)
    pace = Pace(rate_per_s=rate_per_s, burst=burst, monotonic=clock.monotonic)
    turns = []
    for pause in pauses:
        clock.advance(pause)
        clock.advance(pace.reserve("grid", float("inf")))
        turns.append(clock.monotonic())
    for first, began in enumerate(turns):
        for count, at in enumerate(turns[first:], start=1):
            assert count <= burst + (at - began) * rate_per_s + 1e-6


def test_an_impatient_caller_takes_no_turn(clock):
    """Who will not wait does not push the queue back for the others."""
    pace = Pace(rate_per_s=1.0, burst=1, monotonic=clock.monotonic)
    assert pace.reserve("grid", 0.0) == 0.0
    assert [pace.reserve("grid", 0.5) for _ in range(5)] == [1.0] * 5
    assert pace.reserve("grid", 2.0) == 1.0


def test_the_longest_hold_wins(clock):
    """A shorter wish does not shorten a longer one."""
    pace = Pace(rate_per_s=1.0, burst=1, monotonic=clock.monotonic)
    pace.hold("grid", 60.0)
    pace.hold("grid", 5.0)
    assert pace.reserve("grid", 0.0) == 60.0
    assert pace.reserve("other", 0.0) == 0.0
