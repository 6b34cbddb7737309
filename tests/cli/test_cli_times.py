"""Moments as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.cli import times

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("15min", 900),
        ("6h", 21600),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("0.5h", 1800),
        ("2d", 172800),
        ("1w", 604800),
        ("2H", 7200),
    ],
)
def test_a_duration_is_read_in_each_unit(text, seconds):
    """Every unit, and units put together, count as they read."""
    assert times.duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "6", "h", "six hours", "-6h", "6h later", "18:00", "1e3h"])
def test_what_is_no_duration_is_none(text):
    """A text that is not wholly a duration is not taken for one."""
    assert times.duration(text) is None


@given(st.integers(0, 3000), st.integers(0, 23), st.integers(0, 59))
def test_since_a_duration_goes_back_by_just_that(days, hours, minutes):
    """``since`` and ``until`` lie the same duration before and after now."""
    text, length = f"{days}d{hours}h{minutes + 1}m", timedelta(days=days, hours=hours, minutes=minutes + 1)
    assert times.since(text, NOW) == NOW - length
    assert times.until(text, NOW) == NOW + length


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("2026-03-01T11:00Z", datetime(2026, 3, 1, 11, 0, tzinfo=UTC)),
        ("2026-03-01T11:00:00+02:00", datetime(2026, 3, 1, 9, 0, tzinfo=UTC)),
        ("2026-03-01 11:00", datetime(2026, 3, 1, 11, 0, tzinfo=UTC)),
        ("2026-02-28", datetime(2026, 2, 28, tzinfo=UTC)),
        ("11:00", datetime(2026, 3, 1, 11, 0, tzinfo=UTC)),
        ("18:00", datetime(2026, 2, 28, 18, 0, tzinfo=UTC)),
    ],
)
def test_since_reads_a_moment_of_the_past_in_utc(text, when):
    """An offset is converted, no offset is UTC, and a bare time of day is the last one."""
    assert times.since(text, NOW) == when


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("18:00", datetime(2026, 3, 1, 18, 0, tzinfo=UTC)),
        ("9:15", datetime(2026, 3, 2, 9, 15, tzinfo=UTC)),
        ("12:30", datetime(2026, 3, 2, 12, 30, tzinfo=UTC)),
        ("2026-03-01T18:00+01:00", datetime(2026, 3, 1, 17, 0, tzinfo=UTC)),
    ],
)
def test_until_reads_a_moment_to_come_in_utc(text, when):
    """A bare time of day is the next one, tomorrow's if it has passed today."""
    assert times.until(text, NOW) == when


@pytest.mark.parametrize("text", ["yesterday", "25:00", "12:60", "2026-13-01", "2026-03-01T99:00", ""])
def test_what_is_no_moment_is_refused(text):
    """Whatever cannot be read as a time is a ``ValueError``, for the past and for what is to come."""
    with pytest.raises(ValueError, match=r"\w"):
        times.since(text, NOW)
    with pytest.raises(ValueError, match=r"\w"):
        times.until(text, NOW)


def test_the_wrong_side_of_now_is_refused():
    """``since`` the future and ``until`` the past are mistakes, and the text says which."""
    with pytest.raises(ValueError, match="in the future"):
        times.since("2026-03-02", NOW)
    with pytest.raises(ValueError, match="already over"):
        times.until("2026-02-27", NOW)
    with pytest.raises(ValueError, match="already over"):
        times.until("0s", NOW)


@pytest.mark.parametrize("read", [times.since, times.until])
def test_a_duration_of_centuries_is_refused(read):
    """A number too large for the calendar gets a text and not an overflow."""
    with pytest.raises(ValueError, match="ten years"):
        read("99999999999d", NOW)
