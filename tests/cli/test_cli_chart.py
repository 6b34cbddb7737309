"""Bars over an axis of time: as wide as the room, true to their values, with marks at their moments."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.cli.chart import Panel, chart

AT = datetime(2026, 3, 1, 10, 20, tzinfo=UTC)


def drawn(values, *, seconds=3600.0, width=80, blocks=True, height=4):
    pieces = [(n * seconds, (n + 1) * seconds, value) for n, value in enumerate(values)]
    return list(chart([Panel("title", pieces, height, "red")], AT, width=width, blocks=blocks))


def columns(lines):
    """Filled height of each column, in lines."""
    bars = [line.bars for line in lines if line.bars]
    return [sum(row[n] != " " for row in bars) for n in range(len(bars[0]))]


@given(
    st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=400),
    st.sampled_from([60.0, 900.0, 3600.0, 86400.0]),
    st.integers(1, 250),
    st.booleans(),
)
def test_it_fits_whatever_there_is_to_show(values, seconds, width, blocks):
    """No line is wider than the terminal, as long as that has twenty columns; all rows are alike."""
    lines = drawn(values, seconds=seconds, width=width, blocks=blocks)
    assert len(lines) == 6
    assert len({len(line.bars) for line in lines if line.bars}) == 1
    assert all(len(line.axis) + len(line.bars) <= max(width, 20) for line in lines[1:])
    if not blocks:
        assert all((line.axis + line.bars).isascii() for line in lines)


def test_bars_are_as_high_as_their_values():
    """From nothing to the greatest, each for as long as it lasts, and the axis names both."""
    lines = drawn([0.0, 100.0, 200.0, 400.0])
    heights = columns(lines)
    assert heights == sorted([0, 1, 2, 4] * (len(heights) // 4))
    assert lines[1].axis.split() == ["400", "┤"]
    assert lines[4].axis.split() == ["0", "┤"]


def test_values_that_are_all_alike_or_negative_are_shown():
    """A flat line is full, and less than nothing is below the others."""
    assert set(columns(drawn([250.0, 250.0]))) == {4}
    assert sorted(set(columns(drawn([-100.0, 100.0])))) == [1, 4]
    assert len(drawn([0.0])) == 6


def test_the_marks_stand_at_their_moments():
    """The first midnight is 13 h 40 min ahead, and its day is named."""
    axis = drawn([1.0] * 48, width=58)[-1].axis
    assert axis.index("|02 Mar") == 9 + 14  # columns of an hour, after the labels
    assert "|12:00" in axis


@pytest.mark.parametrize(
    ("minutes", "bars"), [(5, 4), (30, 24), (70 * 5, 70), (71 * 5, 36), (70 * 60, 70), (7 * 1440, 56)]
)
def test_each_bar_is_a_usual_length_of_time(minutes, bars):
    """Five minutes at the least, and as much more as the room makes it; short times have wider bars."""
    assert len(drawn([1.0], seconds=60.0 * minutes)[1].bars) == bars


def test_where_hours_share_a_bar_it_is_their_mean():
    """Two weeks of hours that are 0 and 2 in turn are 1 all along."""
    lines = drawn([2.0, 0.0] * 168, height=2)
    assert set(columns(lines)) == {2}
    assert lines[1].axis.split()[0] == "1"
