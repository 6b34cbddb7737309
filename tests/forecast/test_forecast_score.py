"""Forecasters by name, and how they are scored on what came."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from forecast_points import DAY, HOUR, START, grid, history, window
from hypothesis import given
from hypothesis import strategies as st

from chase.forecast import named
from chase.forecast.score import Past, forecasts, losses, scores

X = grid(24 * 14, seed=8)
K = np.array([1, 6, 24, 30, 50])


def said(name, x=X, k=K, **options):
    return named.ALL[name].forecast(window(x, **options), k)


class TestNamed:
    def test_persistence_stays(self):
        """The last value at each lead."""
        assert said("persistence")[0].tolist() == [X[-1]] * 5

    def test_yesterday_and_last_week_are_the_newest_that_are_known(self):
        """A lead of over a day takes the same time of the last day that is known."""
        n = len(X) - 1
        assert said("yesterday")[0].tolist() == [X[n - 23], X[n - 18], X[n], X[n + 30 - 48], X[n + 50 - 72]]
        assert said("last-week")[0].tolist() == [X[n + k - 168] for k in K]

    def test_the_week_s_mean_is_of_seven_days(self):
        """At the same time of day."""
        n = len(X) - 1
        expected = [np.mean([X[n + k - 24 * (-(-k // 24) + d)] for d in range(7)]) for k in K]
        assert said("week-mean")[0] == pytest.approx(expected)

    def test_what_the_window_does_not_reach_is_not_said(self):
        """Three days know no last week."""
        assert np.isnan(said("last-week", X[:72])[0]).all()
        assert np.isnan(said("week-mean", X[:72])[0]).all()
        assert np.isfinite(said("yesterday", X[:72])[0]).all()

    @pytest.mark.parametrize("name", named.ALL)
    def test_each_gives_three_rows(self, name):
        """Median, low and high, of which only ours knows the last two."""
        f = said(name)
        assert f.shape == (3, len(K))
        assert np.isfinite(f[0]).all()
        assert np.isfinite(f[1:]).all() == (name == "chase")

    def test_each_has_its_line(self):
        """Names are those of their entries, and the simple ones are among them."""
        assert all(name == entry.name and entry.line for name, entry in named.ALL.items())
        assert set(named.SIMPLE) < set(named.ALL)


class TestPast:
    def past(self, points=None):
        return Past.of(history(X) if points is None else points)

    def test_a_window_ends_with_its_origin(self):
        """It has 28 days at most, and nothing of what comes."""
        past = Past.of(history(grid(24 * 40)))
        found = past.window(800)
        assert len(found.x) == 672
        assert found.x[-1] == past.x[800]
        assert past.window(100).x == pytest.approx(past.x[:101])

    def test_a_window_knows_its_hour(self):
        """As the clock has it."""
        assert self.past(history(X, start=START + 5 * HOUR)).window(30).hour(np.array([0])) == [5]

    def test_gaps_of_a_window_are_bridged_by_what_was_known(self):
        """Not by what comes after the origin."""
        gone = [p for i, p in enumerate(history(X)) if i not in range(50, 60)]
        before = [p for p in gone if p.start < START + 61 * HOUR]
        assert self.past(gone).window(60).x == pytest.approx(self.past(before).window(60).x)

    def test_what_came_is_not_a_number_where_it_was_not_observed(self):
        """After the end, and in gaps."""
        past = self.past([p for i, p in enumerate(history(X[:20])) if i != 7])
        assert past.came(np.array([5]), np.array([1, 2, 3, 99]))[0, ::2] == pytest.approx([X[6], X[8]])
        assert np.isnan(past.came(np.array([5]), np.array([1, 2, 3, 99]))[0, 1::2]).all()

    def test_hours_are_the_last_ones_with_enough_before_them(self):
        """Observed, one an hour at any step."""
        assert self.past().hours(2, before=2).tolist() == list(range(len(X) - 48, len(X)))
        assert self.past(history(X[:60])).hours(7, before=2)[0] == 48
        fine = self.past(history(X, length=timedelta(minutes=15)))
        assert np.diff(fine.hours(1, before=1)).tolist() == [4] * 23

    def test_times_of_origins_are_ends_of_steps(self):
        """A forecast from the first hour is made when that is over."""
        assert self.past().end(0) == START + HOUR
        odd = self.past(history(X, start=START + timedelta(minutes=20), length=timedelta(minutes=30)))
        assert odd.end(1) == START + timedelta(minutes=80)

    def test_nothing_observed_is_no_past(self):
        """None."""
        assert Past.of([]) is None


class TestScores:
    def score(self, names, leads=(1, 24), points=None):
        past = Past.of(history(X) if points is None else points)
        o = past.hours(5, before=2)
        return {(s.forecaster, s.lead_h): s for s in scores(past, [named.ALL[n] for n in names], o, leads)}

    def test_a_perfect_forecaster_has_no_error(self):
        """Yesterday, on a grid that repeats."""
        found = self.score(["yesterday"], points=history(np.tile(grid(24), 10)))["yesterday", 24]
        assert (found.mae, found.mape, found.bias) == (0, 0, 0)
        assert found.count == 5 * 24 - 24

    def test_errors_are_those_of_the_slow_way(self):
        """Mean absolute, relative and signed."""
        found = self.score(["persistence"])["persistence", 1]
        e = X[-121:-1] - X[-120:]
        came = X[-120:]
        e, came = e[1:], came[1:]
        assert found.mae == pytest.approx(np.mean(abs(e)))
        assert found.mape == pytest.approx(np.mean(abs(e) / came))
        assert found.bias == pytest.approx(np.mean(e))
        assert found.count == 119

    def test_only_what_has_quantiles_is_judged_by_them(self):
        """None is no figure of zero."""
        found = self.score(["chase", "persistence"])
        assert found["persistence", 1].pinball is None
        assert found["persistence", 1].coverage is None
        assert 0.5 < found["chase", 1].coverage <= 1
        assert 0 < found["chase", 1].pinball < found["chase", 1].mae

    def test_hours_at_zero_are_left_out_of_the_relative_error(self):
        """They have no share; with none left it is not a number."""
        points = history(np.where(np.arange(24 * 9) % 24 < 12, 0.0, 100.0))
        assert self.score(["persistence"], points=points)["persistence", 1].mape == pytest.approx(1 / 12, abs=0.02)
        nothing = self.score(["persistence"], points=history([0.0] * 24 * 9))["persistence", 1]
        assert np.isnan(nothing.mape)
        assert nothing.mae == 0

    def test_leads_that_nobody_can_judge_are_left_out(self):
        """Nothing came of them, or the forecaster is silent."""
        short = history(X[:96])
        found = self.score(["persistence", "last-week"], leads=(1, 95), points=short)
        assert set(found) == {("persistence", 1)}

    def test_forecasts_of_no_origin_are_none(self):
        """An empty stack with the right shape."""
        past = Past.of(history(X))
        assert forecasts(past, named.ALL["chase"], np.array([], int), K).shape == (0, 3, 5)

    @given(st.lists(st.tuples(st.floats(0, 500), st.floats(0, 500), st.floats(0, 500)), min_size=1, max_size=20))
    def test_the_pinball_loss_of_the_median_is_half_the_absolute_error(self, rows):
        """And with all three at one value the mean is a fixed share of it on either side."""
        z = np.array([r[0] for r in rows])
        f = np.array([[r[1]] * 3 for r in rows])
        above, below = (np.maximum(sign * (z - f[:, 0]), 0) for sign in (1, -1))
        expected = ((0.5 + 0.1 + 0.9) * above + (0.5 + 0.9 + 0.1) * below) / 3
        assert losses(f, z) == pytest.approx(expected)

    def test_the_true_quantiles_have_the_least_loss(self):
        """Wider or narrower ones, or a shifted median, cost more."""
        z = np.random.default_rng(0).normal(100, 10, 20000)

        def loss(low, middle, high):
            return losses(np.tile([middle, low, high], (len(z), 1)), z).mean()

        true = loss(87.2, 100, 112.8)
        assert true < min(loss(80, 100, 120), loss(95, 100, 105), loss(87.2, 103, 112.8))


def test_a_day_is_long_enough_to_be_asked():
    """Half-hourly history is scored in hours too."""
    past = Past.of(history(grid(48 * 6), length=timedelta(minutes=30)))
    found = list(scores(past, [named.ALL["yesterday"]], past.hours(2, before=2), (1, 6)))
    assert [(s.lead_h, s.count) for s in found] == [(1, 47), (6, 42)]
    assert past.end(int(past.hours(2, before=2)[-1])) == START + 6 * DAY
