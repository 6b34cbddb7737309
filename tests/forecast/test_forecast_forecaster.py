"""What a caller sees of the forecaster: steps in order, who expects them, and what little history comes to."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from forecast_points import DAY, HOUR, START, days, grid, history, point, wave

from chase.forecast import Expected, Forecaster


def ahead(observed, hours=48.0, *, at=None, typical=None, step=None, issued=(), published=()):
    at = at or max(p.end for p in observed)
    forecaster = Forecaster(typical=typical, step=step)
    forecaster.learn(observed, issued)
    return forecaster.expect(at, at + hours * HOUR, at=at, published=published)


def middles(steps):
    return [step.g_per_kwh for step in steps]


class TestWithoutHistory:
    def test_nothing_is_invented_from_nothing(self):
        """No history, no typical profile and no source's forecast: no forecast."""
        assert Forecaster().expect(START, START + DAY, at=START) == ()

    def test_the_typical_profile_stands_in(self):
        """It says so, and how far from it a grid usually is."""
        steps = Forecaster(typical=lambda at: 100.0 + at.hour).expect(START, START + 3 * HOUR, at=START)
        assert [(s.start, s.g_per_kwh, s.by) for s in steps] == [
            (START + h * HOUR, 100.0 + h, "typical") for h in range(3)
        ]
        assert all(s.low < s.g_per_kwh < s.high for s in steps)

    def test_hours_that_are_not_in_the_profile_are_left_out(self):
        """A profile may know a part of the day only."""
        steps = Forecaster(typical=lambda at: None if at.hour else 7.0).expect(START, START + 2 * DAY, at=START)
        assert [s.start for s in steps] == [START, START + DAY]

    def test_a_source_s_forecast_is_taken_as_it_is(self):
        """There is nothing to correct it by; the further ahead, the less sure it is."""
        published = [point(START + h * HOUR, 50.0, issued=START) for h in range(24)]
        steps = Forecaster().expect(START, START + DAY, at=START, published=published)
        assert {(s.g_per_kwh, s.by) for s in steps} == {(50.0, "test")}
        assert steps[0].high - steps[0].low < steps[-1].high - steps[-1].low

    def test_an_empty_span_has_no_steps(self):
        """No step, and no error."""
        assert Forecaster(typical=lambda _: 1.0).expect(START, START, at=START) == ()


class TestLittleHistory:
    def test_a_single_value_stays(self):
        """Persistence is all there is, less sure by the hour."""
        steps = ahead([point(START, 150.0)], 12)
        assert set(middles(steps)) == {150.0}
        assert {s.by for s in steps} == {"persistence"}
        widths = [s.high - s.low for s in steps]
        assert widths == sorted(widths)
        assert widths[0] > 0

    def test_a_single_value_above_the_typical_one_comes_back_to_it(self):
        """Half a day later half of what was unusual is left, a week later next to nothing."""
        steps = ahead([point(START, 150.0)], 168, typical=lambda _: 100.0)
        assert 140 < steps[0].g_per_kwh < 150
        assert 115 < steps[11].g_per_kwh < 135
        assert 100 < steps[167].g_per_kwh < 105

    def test_an_hour_without_a_typical_value_keeps_the_last_one(self):
        """A profile with holes spoils nothing."""
        steps = ahead([point(START, 150.0)], 6, typical=lambda at: 100.0 if at.hour % 2 else None)
        assert set(middles(steps)) == {150.0}

    def test_from_a_day_on_it_is_ours(self):
        """Yesterday's shape is continued."""
        before, after = ahead(days(23 / 24), 24), ahead(days(1.5), 24)
        assert {s.by for s in before} == {"persistence"}
        assert {s.by for s in after} == {"chase"}
        assert middles(after) == pytest.approx([wave(36 + h) for h in range(24)], abs=25)

    @pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13, 21, 28])
    def test_each_length_of_history_gives_each_hour_of_a_week(self, count):
        """Whatever there is, a week ahead is whole, finite and ordered."""
        steps = ahead(history(grid(24 * count)), 168)
        assert len(steps) == 168
        assert all(0 <= s.low <= s.g_per_kwh <= s.high < 5000 for s in steps)

    def test_in_the_first_days_the_typical_shape_has_a_part(self):
        """Raised to the level that was observed; after a week it has none."""

        def noon(at):
            return 1000.0 if at.hour == 12 else 0.0

        flat = [100.0] * 24
        two, eight = (ahead(history(flat * n), 24, typical=noon) for n in (2, 8))
        assert two[12].g_per_kwh > 150
        assert two[11].g_per_kwh < 100
        assert middles(eight) == pytest.approx([100.0] * 24)


class TestOurs:
    @pytest.mark.parametrize("minutes", [5, 10, 15, 20, 30, 60])
    def test_a_perfect_wave_is_continued_at_any_step(self, minutes):
        """A grid that repeats each day is forecast for a week almost without error, in steps of its own length."""
        length = timedelta(minutes=minutes)
        steps = ahead(days(14, length), 168)
        assert len(steps) == 168 * 60 // minutes
        assert {s.end - s.start for s in steps} == {length}
        expected = [wave((s.start - START) / HOUR) for s in steps]
        assert middles(steps) == pytest.approx(expected, abs=4)

    def test_a_constant_grid_stays_and_is_sure_of_it(self):
        """No variance is no division by zero."""
        steps = ahead(history([120.0] * 400), 168)
        assert middles(steps) == pytest.approx([120.0] * 168)
        assert all(s.high - s.low < 1e-6 for s in steps)

    def test_a_grid_at_zero_stays_at_zero(self):
        """Zero is a value like any other."""
        assert set(middles(ahead(history([0.0] * 100)))) == {0.0}

    def test_nothing_below_zero_is_expected(self):
        """A fall does not go on below what a grid can have."""
        steps = ahead(history(np.maximum(np.linspace(300, -20, 300), 0)), 96)
        assert all(s.low >= 0 for s in steps)

    def test_a_weekend_is_known_after_two(self):
        """On Friday evening the lower weekend is expected."""
        values = [200.0 if i // 24 % 7 < 5 else 100.0 for i in range(24 * 26)]
        steps = ahead(history(values), 48)
        assert np.mean(middles(steps)) < 175

    def test_today_s_departure_wears_off(self):
        """50 g more now: most of it is there in an hour, little in three days."""
        observed = history(grid(500))
        raised = [*observed[:-1], point(observed[-1].start, observed[-1].g_per_kwh + 50)]
        above = np.subtract(middles(ahead(raised, 72)), middles(ahead(observed, 72)))
        assert 25 < above[0] < 60
        assert abs(np.mean(above[-24:])) < 20

    def test_one_spike_long_ago_is_forgotten(self):
        """A forecast is a median: one wrong hour two weeks ago moves it little."""
        values = grid(672)
        spoilt = values.copy()
        spoilt[300] = 5000.0
        assert middles(ahead(history(spoilt), 24)) == pytest.approx(middles(ahead(history(values), 24)), rel=0.15)

    def test_huge_and_tiny_numbers_are_numbers(self):
        """Nothing overflows, nothing vanishes."""
        for factor in (1e300, 1e-300):
            steps = ahead(history(grid(200) * factor), 24)
            plain = ahead(history(grid(200)), 24)
            assert middles(steps) == pytest.approx([s.g_per_kwh * factor for s in plain], rel=1e-6)

    def test_it_beats_the_simple_ones_where_a_grid_has_a_shape_and_weather(self):
        """Over two months of days, at 1, 6 and 24 hours, and most hours come between low and high."""
        x = grid(24 * 90, seed=4)
        errors, inside = {}, []
        for end in range(24 * 30, len(x) - 25, 29):
            steps = ahead(history(x[end - 672 : end]), 24)
            for lead in (1, 6, 24):
                came, step = x[end + lead - 1], steps[lead - 1]
                simple = (x[end - 1], x[end + lead - 25])
                errors.setdefault(lead, []).append([abs(v - came) for v in (step.g_per_kwh, *simple)])
                inside.append(step.low <= came <= step.high)
        for lead, found in errors.items():
            ours, *others = np.mean(found, axis=0)
            assert ours < 0.95 * min(others), lead
        assert 0.7 < np.mean(inside) < 0.9


class TestSteps:
    def test_steps_follow_each_other(self):
        """No gap and no overlap from start to end, which cut the first and the last."""
        start, end = START + 100 * HOUR + timedelta(minutes=20), START + 110 * HOUR + timedelta(minutes=50)
        forecaster = Forecaster()
        forecaster.learn(days(4))
        steps = forecaster.expect(start, end, at=start)
        assert (steps[0].start, steps[-1].end) == (start, end)
        assert all(a.end == b.start for a, b in pairwise(steps))

    def test_what_was_observed_is_given_as_it_was(self):
        """A running or past step that is known has no spread."""
        observed = days(4)
        forecaster = Forecaster()
        forecaster.learn(observed)
        steps = forecaster.expect(observed[-3].start, observed[-1].end + HOUR, at=observed[-1].end)
        assert middles(steps[:3]) == pytest.approx([p.g_per_kwh for p in observed[-3:]])
        assert all(s.low == s.high for s in steps[:3])
        assert steps[3].low < steps[3].high

    def test_nothing_is_said_of_the_time_before_the_history(self):
        """What was before is not expected."""
        forecaster = Forecaster()
        forecaster.learn(days(4))
        steps = forecaster.expect(START - 5 * HOUR, START + HOUR, at=START + 4 * DAY)
        assert [s.start for s in steps] == [START]

    def test_a_late_source_is_bridged(self):
        """Between what was last observed and now there are steps too: the lead counts from what is known."""
        observed = days(10)
        late = ahead(observed, 24, at=observed[-1].end + 5 * HOUR)
        whole = ahead(observed, 29)
        assert middles(late) == middles(whole[5:])

    def test_a_history_that_begins_at_odd_minutes_keeps_them(self):
        """Half hours from twenty past on, as one source has them."""
        half = timedelta(minutes=30)
        observed = history([wave(i / 2) for i in range(200)], start=START + timedelta(minutes=20), length=half)
        steps = ahead(observed, 2)
        assert [s.start.minute for s in steps] == [20, 50, 20, 50]

    def test_a_step_can_be_asked_for(self):
        """Quarters of an hour become hours, hours become quarters."""
        quarter = timedelta(minutes=15)
        assert len(ahead(days(8, quarter), 24, step=HOUR)) == 24
        fine = ahead(days(8), 24, step=quarter)
        assert len(fine) == 96
        assert middles(fine)[::4] == pytest.approx([wave(i) for i in range(24)], abs=30)

    @pytest.mark.parametrize("step", [timedelta(minutes=7), timedelta(minutes=1), 2 * HOUR, timedelta(0)])
    def test_a_step_that_divides_no_hour_is_refused(self, step):
        """The error names the ones that can be."""
        with pytest.raises(ValueError, match="5, 6, 10, 12, 15, 20, 30, 60 minutes"):
            Forecaster(step=step)

    def test_points_longer_than_a_day_are_no_history(self):
        """A yearly average says nothing of the hours."""
        assert ahead([point(START, 300.0, length=timedelta(days=365))]) == ()

    def test_two_weeks_after_the_last_value_the_typical_profile_takes_over(self):
        """Without one our own goes on, since nobody knows better."""
        observed = days(10)
        at = observed[-1].end + 13 * DAY
        steps = ahead(observed, 72, at=at, typical=lambda _: 77.0)
        assert [s.by for s in steps] == ["chase"] * 24 + ["typical"] * 48
        assert steps[-1].g_per_kwh == 77.0
        assert {s.by for s in ahead(observed, 72, at=at)} == {"chase"}


class TestWhatIsKnown:
    def test_the_running_interval_counts_once_its_source_has_said_so(self):
        """Not if its value was read later: then it was not known."""
        observed = days(3)
        at = observed[-1].end + timedelta(minutes=30)
        running = {fetched: point(observed[-1].end, 999.0, fetched=fetched) for fetched in (at, at + HOUR)}
        known, unknown = (middles(ahead([*observed, p], 3, at=at)) for p in (running[at], running[at + HOUR]))
        assert known[0] == 999.0
        assert unknown == middles(ahead(observed, 3, at=at))

    def test_the_value_read_last_is_the_one_that_counts(self):
        """Sources revise: of two points of one hour the newer is taken, whatever their order."""
        observed = days(3)
        last = observed[-1]
        revised = point(last.start, 777.0, fetched=last.end + 10 * HOUR)
        for points in ([*observed, revised], [revised, *observed]):
            forecaster = Forecaster()
            forecaster.learn(points)
            (step,) = forecaster.expect(last.start, last.end, at=last.end)
            assert step.g_per_kwh == 777.0

    def test_learning_again_replaces(self):
        """What was learnt first is gone, and no answer of it is kept."""
        forecaster = Forecaster()
        forecaster.learn(history([100.0] * 100))
        at = START + 100 * HOUR
        assert forecaster.expect(at, at + HOUR, at=at)[0].g_per_kwh == pytest.approx(100)
        forecaster.learn(history([300.0] * 100))
        assert forecaster.expect(at, at + HOUR, at=at)[0].g_per_kwh == pytest.approx(300)

    def test_history_of_a_month_ago_has_no_part(self):
        """28 days count."""
        old = history([5000.0] * 200, start=START - 40 * DAY)
        recent = days(20)
        assert ahead([*old, *recent], 24, at=recent[-1].end) == ahead(recent, 24)

    def test_one_forecaster_answers_for_earlier_times_too(self):
        """Asked of the past it says what it would have said then, and of now what it says now."""
        observed = history(grid(300))
        forecaster = Forecaster()
        forecaster.learn(observed)
        then, now = observed[199].end, observed[-1].end
        for at, known in ((then, observed[:200]), (now, observed), (then, observed[:200])):
            assert forecaster.expect(at, at + DAY, at=at) == ahead(known, 24)


def test_an_expected_step_is_a_value():
    """Frozen and compared by what it says."""
    step = Expected(START, START + HOUR, 1.0, 0.5, 2.0, "chase")
    assert step == Expected(START, START + HOUR, 1.0, 0.5, 2.0, "chase")
    with pytest.raises(AttributeError):
        step.low = 0.0


def test_importing_the_forecaster_loads_no_numpy():
    """The service and the command start without it; it is loaded when a forecast is made."""
    code = (
        "import sys, chase.forecast as f; f.Forecaster(); sys.exit('numpy' in sys.modules or 'sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestFromHourToHour:
    def test_one_that_was_taught_before_says_what_a_new_one_says(self):
        """Over more than a day, with an hour that is missing and one that is revised."""
        values, old = grid(24 * 12), Forecaster()
        for hours in range(24 * 10, 24 * 11 + 6):
            seen = history(values[:hours])
            del seen[24 * 9 + 3]
            seen[24 * 9 + 7] = point(seen[24 * 9 + 7].start, 77.0 + hours // 9)
            at = seen[-1].end
            old.learn(seen)
            assert old.expect(at, at + DAY, at=at) == ahead(seen, 24)
