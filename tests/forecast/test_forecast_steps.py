"""Points of any start and end as steps of one length: what covers a step, what is a gap, and how gaps are bridged."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from forecast_points import DAY, HOUR, START, days, history, point
from hypothesis import given
from hypothesis import strategies as st

from chase.forecast.steps import Clockwork, History, Points, bridged

QUARTER = timedelta(minutes=15)


def laid(points, step=None):
    columns = Points.of(points)
    return columns, Clockwork.of(columns, step)


def steps(points, step=None):
    columns, clockwork = laid(points, step)
    first = int(clockwork.first(columns.start.min()))
    x, ok = clockwork.values(columns, first, int(clockwork.after(columns.end.max())) - first)
    return [float(v) if there else None for v, there in zip(x, ok, strict=True)]


class TestClockwork:
    @pytest.mark.parametrize("minutes", [5, 6, 10, 12, 15, 20, 30, 60])
    def test_steps_are_as_long_as_the_points(self, minutes):
        """Each length that divides an hour."""
        _, clockwork = laid(history([1.0] * 9, length=timedelta(minutes=minutes)))
        assert (clockwork.step_s, clockwork.m) == (minutes * 60, 60 // minutes)

    @pytest.mark.parametrize(("minutes", "expected"), [(1, 5), (7, 6), (14, 12), (59, 30), (90, 60), (240, 60)])
    def test_other_lengths_become_the_next_shorter_one(self, minutes, expected):
        """And a minute becomes five, three hours three steps of one."""
        _, clockwork = laid(history([1.0] * 9, length=timedelta(minutes=minutes)))
        assert clockwork.step_s == expected * 60

    def test_they_are_as_most_points_are(self):
        """A few odd ones among hours decide nothing."""
        odd = [point(START + 30 * HOUR + i * QUARTER, 1.0, length=QUARTER) for i in range(1, 4)]
        _, clockwork = laid([*days(1), *odd])
        assert (clockwork.step_s, clockwork.origin_s) == (3600, 0)

    @given(st.integers(0, 10**9), st.sampled_from([300, 900, 3600]), st.integers(0, 3599))
    def test_a_time_lies_in_its_step(self, at_s, step_s, origin_s):
        """Start of a step <= time < start of the next; ``after`` is the first that begins no earlier."""
        clockwork = Clockwork(step_s, float(origin_s))
        c = clockwork.first(float(at_s))
        assert clockwork.start_s(c) <= at_s < clockwork.start_s(c + 1)
        later = clockwork.after(float(at_s))
        assert clockwork.start_s(later) >= at_s > clockwork.start_s(later - 1)


class TestValues:
    def test_hours_are_hours(self):
        """A gap is a gap."""
        points = history([1.0, 2.0, 3.0, 4.0])
        assert steps(points) == [1, 2, 3, 4]
        assert steps([points[0], points[3]]) == [1, None, None, 4]

    def test_quarters_average_into_hours(self):
        """Half of an hour is enough to know it, a quarter is not."""
        points = history([10.0, 20.0, 30.0, 40.0], length=QUARTER)
        assert steps(points, HOUR) == [25]
        assert steps(points[:2], HOUR) == [15]
        assert steps(points[:1], HOUR) == [None]

    def test_an_hour_fills_its_quarters(self):
        """Each has its value."""
        assert steps(history([10.0, 20.0]), QUARTER) == [10] * 4 + [20] * 4

    def test_points_across_steps_are_shared_out(self):
        """By the time that each has in the step."""
        points = [point(START, 10.0), point(START + timedelta(minutes=45), 50.0)]
        assert steps(points, HOUR) == [(60 * 10 + 15 * 50) / 75, 50.0]

    @given(st.lists(st.floats(0, 1000), min_size=1, max_size=50), st.integers(1, 12))
    def test_a_mean_is_kept(self, values, per_step):
        """Cut finer and put together again, values are the same."""
        length = timedelta(minutes=60)
        points = history(values, length=length)
        fine = [
            point(p.start + i * length / per_step, p.g_per_kwh, length=length / per_step)
            for p in points
            for i in range(per_step)
        ]
        assert steps(fine, HOUR) == pytest.approx(values)


class TestPoints:
    def test_of_one_start_the_last_said_is_taken(self):
        """In whatever order; with vintages all are there."""
        old, new = point(START, 1.0, fetched=START + HOUR), point(START, 2.0, fetched=START + 2 * HOUR)
        for points in ([old, new], [new, old]):
            assert Points.of(points).value.tolist() == [2.0]
            assert sorted(Points.of(points, vintages=True).value.tolist()) == [1.0, 2.0]

    def test_a_forecast_was_said_when_it_was_issued(self):
        """And not when it was read."""
        found = Points.of([point(START, 1.0, issued=START - 5 * HOUR, fetched=START)])
        assert found.said[0] == (START - 5 * HOUR).timestamp()

    def test_none_are_four_empty_columns(self):
        """Nothing is said of nothing."""
        found = Points.of([])
        assert [len(c) for c in (found.start, found.end, found.said, found.value)] == [0] * 4


class TestHistory:
    def of(self, points):
        columns, clockwork = laid(points)
        return History.of(columns, clockwork)

    def test_it_is_28_days_at_most(self):
        """Up to the last observed step."""
        found = self.of(days(40))
        assert len(found.window.x) == 672
        assert found.last == (START + 40 * DAY).timestamp() // 3600 - 1

    def test_it_begins_and_ends_with_what_was_observed(self):
        """Gaps at the ends are no part of it."""
        found = self.of([point(START + h * HOUR, float(h)) for h in (3, 4, 9)])
        assert len(found.window.x) == 7
        assert found.window.ok.tolist() == [True, True, False, False, False, False, True]

    def test_its_phase_is_that_of_the_clock(self):
        """Step 0 of the day is midnight UTC."""
        found = self.of(history([1.0] * 30, start=START + 7 * HOUR))
        assert found.window.hour(np.array([0, 17])).tolist() == [7, 0]

    def test_outside_of_it_nothing_is_known(self):
        """Before the first and after the last step."""
        found = self.of(history([1.0, 2.0]))
        assert np.isnan(found.at(np.array([found.first - 1, found.last + 1]))).all()
        assert found.at(np.array([found.first, found.last])).tolist() == [1.0, 2.0]

    def test_without_points_there_is_none(self):
        """None, and no window of nothing."""
        assert self.of([]) is None


class TestBridged:
    def test_what_was_observed_is_left_alone(self):
        """Bit for bit."""
        x = np.array([1.0, np.nan, 3.0, 4.0])
        ok = np.isfinite(x)
        assert bridged(x, ok, 0, 24)[ok].tolist() == [1.0, 3.0, 4.0]

    def test_a_gap_in_a_repeating_day_is_filled_as_the_other_days_are(self):
        """The time of day's mean."""
        x = np.tile(np.arange(24.0), 5)
        ok = np.ones(120, bool)
        ok[50:70] = False
        assert bridged(np.where(ok, x, np.nan), ok, 0, 24) == pytest.approx(x)

    def test_a_gap_in_a_high_week_is_filled_high(self):
        """Shifted as its neighbours are shifted."""
        x = np.tile(np.arange(24.0), 6) + np.where(np.arange(144) >= 72, 100.0, 0.0)
        ok = np.ones(144, bool)
        ok[110:114] = False
        assert bridged(np.where(ok, x, np.nan), ok, 0, 24)[110:114] == pytest.approx(x[110:114], abs=11)

    def test_times_of_day_never_seen_have_the_overall_level(self):
        """And nothing is not a number."""
        x = np.full(24, np.nan)
        x[[2, 20]] = 5.0
        assert bridged(x, np.isfinite(x), 3, 24) == pytest.approx(np.full(24, 5.0))
