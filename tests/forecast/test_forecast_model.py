"""The numbers: means that look back only, the base, the median fit, its errors on rows it has not seen."""

# ruff: noqa: N806  X is what the mathematics calls it
from __future__ import annotations

import numpy as np
import pytest
from forecast_points import grid, window
from hypothesis import given
from hypothesis import strategies as st

from chase.forecast import model as model_module
from chase.forecast.model import LEADS_H, Model, widening, width
from chase.forecast.window import CALENDAR, alike, along, base, design, remaining


def mean_before(x, i, stride, count):
    """The slow way."""
    found = [x[j] for j in range(i, i - count * stride, -stride) if j >= 0]
    return np.mean(found) if i >= 0 else np.mean(x)


class TestWindow:
    @given(st.integers(25, 700), st.sampled_from([1, 2]), st.data())
    def test_means_are_those_of_the_slow_way(self, n, m, data):
        """Of as many days, weeks and hours as there are."""
        x = grid(n, seed=n)
        found = window(x, m=m)
        i = data.draw(st.integers(-found.d, n - 1))
        at = np.array([i])
        for days in (1, 7, 28):
            assert found.daily(at, days)[0] == pytest.approx(mean_before(x, i, found.d, days))
            assert found.level(at, days)[0] == pytest.approx(mean_before(x, i, 1, days * found.d))
        yesterday = np.array([max(i, 0)])
        week = mean_before(x, i, found.w, 3) if i >= 0 else mean_before(x, max(i, 0), found.w, 3)
        assert found.weekly(at, or_daily=yesterday)[0] == pytest.approx(week)

    @given(st.integers(0, 700), st.integers(1, 400), st.sampled_from([24, 168]))
    def test_the_last_like_step_is_known_and_alike(self, t, k, stride):
        """At most one day, or week, back, never past the origin."""
        (i,) = alike(np.array([t]), np.array([k]), stride)
        assert t - stride < i <= t
        assert (t + k - i) % stride == 0

    def test_nothing_looks_past_the_origin(self):
        """Base and columns of an origin are the same whatever comes after it."""
        x, t, k = grid(400), np.array([300]), np.array([5])
        other = x.copy()
        other[301:] = 9999.0
        assert base(window(x), t, k) == pytest.approx(base(window(other), t, k))
        assert design(window(x), t, k) == pytest.approx(design(window(other), t, k))

    def test_the_hour_of_the_day_is_utc(self):
        """Whatever step the window begins with."""
        assert window(grid(50), phase=20).hour(np.array([0, 3, 4, 30])).tolist() == [20, 23, 0, 2]
        assert window(grid(50), phase=41, m=2).hour(np.array([0, 7])).tolist() == [20, 0]

    def test_the_last_columns_are_the_calendar_s(self):
        """They depend on the time alone, and repeat after a week."""
        found = design(window(grid(400)), np.array([200, 210, 378]), np.array([20, 10, 10]))
        assert found[0, -CALENDAR:] == pytest.approx(found[1, -CALENDAR:])
        assert found[0, -CALENDAR:] == pytest.approx(found[2, -CALENDAR:])
        assert found[0, : -CALENDAR - 8] != pytest.approx(found[1, : -CALENDAR - 8])

    @pytest.mark.parametrize("m", [1, 2, 4, 12])
    def test_finer_steps_have_as_many_rows_and_no_more_columns_than_they_need(self, m):
        """Lags that coincide are one column."""
        t = np.arange(30 * m, 40 * m)
        X = design(window(grid(60 * m), m=m), t, np.array([m]))
        assert X.shape[0] == 10 * m
        assert X.shape[1] == 34 + len({1, 2, 3, m, 2 * m, 3 * m, 6 * m, 12 * m}) - 4


class TestBase:
    def test_right_now_it_is_persistence(self):
        """At no lead all of today's departure is left."""
        assert remaining(np.array([0.0])) == 1.0
        assert (np.diff(remaining(np.arange(200.0))) <= 0).all()

    def test_on_a_repeating_day_it_is_exact(self):
        """Every mean of the same time of day is that value."""
        x = np.tile(np.arange(24.0), 20)
        k = np.arange(1, 169)
        assert base(window(x), np.array([479]), k) == pytest.approx(np.arange(480, 648) % 24)

    def test_a_straight_line_between_leads(self):
        """And flat beyond the first and the last."""
        found = along(np.array([-1.0, 0.5, 9.0]), np.array([0.0, 1.0]), np.array([2.0, 4.0]))
        assert found.tolist() == [2.0, 3.0, 4.0]


class TestFit:
    def test_it_is_a_median_and_no_mean(self):
        """A fifth of rows far above moves the constant little."""
        random = np.random.default_rng(3)
        y = np.where(random.random(500) < 0.2, 100.0, 0.0) + random.normal(0, 1, 500)
        beta, _ = model_module._median_ridge(np.ones((500, 1)), y, np.array([1e-6]))
        assert abs(beta[0]) < 3 < np.mean(y)

    def test_it_finds_what_is_there(self):
        """Coefficients of a linear rule, through heavy-tailed noise."""
        random = np.random.default_rng(5)
        X = random.normal(size=(600, 3)) * np.array([1.0, 50.0, 0.01])
        y = X @ np.array([2.0, -0.1, 300.0]) + random.standard_t(2, 600) * 0.1
        beta, _ = model_module._median_ridge(X, y, np.full(3, 1e-4))
        assert beta == pytest.approx([2.0, -0.1, 300.0], rel=0.02)

    def test_shrinking_draws_to_nothing(self):
        """The more it is shrunk, the smaller the correction."""
        X, y = np.ones((100, 1)), np.full(100, 10.0)
        sizes = [abs(model_module._median_ridge(X, y, np.array([s]))[0][0]) for s in (0.01, 1.0, 100.0)]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-1] < 0.2

    def test_errors_are_those_of_rows_not_seen(self):
        """Fitting noise with many columns looks good on the rows fitted, and not on the others."""
        random = np.random.default_rng(7)
        X, y = random.normal(size=(120, 30)), random.normal(size=120)
        beta, e = model_module._median_ridge(X, y, np.full(30, 1e-3))
        assert 1.15 * np.abs(y - X @ beta).mean() < np.abs(e).mean()

    def test_a_column_of_zeros_is_no_trouble(self):
        """A constant grid has many."""
        beta, e = model_module._median_ridge(np.zeros((60, 4)), np.zeros(60), np.full(4, 0.1))
        assert not beta.any()
        assert not e.any()


class TestMixture:
    def test_ours_alone_where_few_errors_speak(self):
        """One error in truth, seen often, moves nothing much."""
        errors = np.stack([np.full(100, 5.0), np.zeros(100), np.full(100, 9.0)])
        assert model_module._mixture(errors, 1.0)[0] > 0.9
        assert model_module._mixture(errors, 1000.0)[1] > 0.9

    @given(st.lists(st.tuples(*[st.floats(-100, 100)] * 3), min_size=1, max_size=30), st.floats(1, 1000))
    def test_shares_are_shares(self, rows, independent):
        """None below zero, one in all."""
        s = model_module._mixture(np.array(rows).T, independent)
        assert (s >= 0).all()
        assert s.sum() == pytest.approx(1)

    def test_a_jumping_grid_is_left_to_persistence(self):
        """Where the level jumps at random times and stays, nothing beats the last value, and we are near it."""
        random = np.random.default_rng(2)
        x = np.repeat(random.uniform(100, 500, 200), random.integers(3, 20, 200))[:1200]
        ours, stays = [], []
        for end in range(700, 1150, 7):
            ours.append(abs(Model(window(x[end - 672 : end], phase=end % 168)).at(np.array([1]))[0, 0] - x[end]))
            stays.append(abs(x[end - 1] - x[end]))
        assert np.mean(ours) < 1.1 * np.mean(stays)


class TestQuantiles:
    def test_a_tenth_lies_below_and_a_tenth_above(self):
        """Of errors that do not depend on the hour."""
        e = np.random.default_rng(1).normal(0, 10, 5000)
        q = model_module._quantiles(e, np.arange(5000) % 24)
        assert q[0] == pytest.approx(np.full(24, -12.8), abs=1.6)
        assert q[1] == pytest.approx(np.full(24, 12.8), abs=1.6)

    def test_hours_that_are_harder_have_wider_ones(self):
        """Noon errs ten times as much as the night."""
        hour = np.arange(4800) % 24
        e = np.random.default_rng(1).normal(0, 1, 4800) * np.where(abs(hour - 12) < 4, 10.0, 1.0)
        q = model_module._quantiles(e, hour)
        assert q[1, 12] - q[0, 12] > 4 * (q[1, 0] - q[0, 0])

    def test_midnight_is_near_to_eleven_at_night(self):
        """The day is a circle."""
        near = model_module._NEARNESS
        assert near[0, 23] == near[0, 1] == near[11, 12]
        assert (near == near.T).all()

    def test_few_errors_widen(self):
        """As Student's t over the normal: 1.16 over their number, within the terms left out."""
        sizes = [widening(n) for n in (1, 2, 5, 20, 500)]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-1] == pytest.approx(1, abs=0.01)
        assert widening(10) == pytest.approx(1.383 / 1.2816 * (1 + 1 / 10) ** 0.5, rel=0.02)

    def test_without_errors_the_width_grows_with_the_lead(self):
        """And with the value, on both sides."""
        q = width(np.array([1.0, 6.0, 100.0]), np.array([100.0, 100.0, 100.0]))
        assert q[1].tolist() == [8.0, 25.0, 30.0]
        assert (q[0] == -q[1]).all()

    @pytest.mark.parametrize("m", [1, 2])
    def test_eight_in_ten_come_between(self, m):
        """On made-up weather, near and far."""
        x = grid(24 * m * 70, seed=9)
        k, inside = np.array([1, 6, 24, 48]) * m, []
        for end in range(672 * m, len(x) - 48 * m, 25 * m):
            f = Model(window(x[end - 672 * m : end], m=m, phase=end % (168 * m))).at(k)
            inside.append((f[1] <= x[end - 1 + k]) & (x[end - 1 + k] <= f[2]))
        assert 0.7 < np.mean(inside) < 0.9
        assert (np.mean(inside, axis=0) > 0.6).all()


class TestLeads:
    def test_shares_of_a_lead_are_one_in_all(self):
        """Of at most two corrections, of one where it is theirs, and of the last beyond it."""
        k = np.arange(1, 400)
        shares = Model(window(grid(100)))._shares(k)
        assert np.sum([share for _, share in shares], axis=0) == pytest.approx(np.ones(399))
        assert max(np.sum([share > 0 for _, share in shares], axis=0)) <= 2
        assert {lead for lead, share in shares if share[23] > 0} == {24}
        assert {lead for lead, share in shares if share[-1] > 0} == {LEADS_H[-1]}

    def test_only_the_corrections_that_are_asked_for_are_worked_out(self):
        """An hour ahead costs one fit, not fifteen."""
        found = Model(window(grid(400)))
        found.at(np.array([1]))
        assert set(found.fits._known) == {1}

    def test_each_lead_stands_for_itself(self):
        """Asked together or one by one, the answer is the same."""
        found = Model(window(grid(400)))
        k = np.array([1, 5, 30, 100])
        together = found.at(k)
        for j, lead in enumerate(k):
            assert found.at(np.array([lead]))[:, 0] == pytest.approx(together[:, j])

    def test_errors_belong_to_their_steps(self):
        """Ascending steps of the window, up to the last midnight, with what our forecast of them missed."""
        targets, e = Model(window(grid(400) * 50)).errors(6)
        assert (np.diff(targets) > 0).all()
        assert targets[-1] == 16 * 24 - 1
        assert len(targets) == len(e)
        assert 50 < np.abs(e).mean() < 3000

    def test_a_short_window_has_no_errors(self):
        """Two days tell of no lead of a day."""
        targets, e = Model(window(grid(48))).errors(24)
        assert len(targets) == len(e) == 0

    def test_unobserved_steps_are_no_rows(self):
        """A bridged gap is nothing to learn from."""
        found = window(grid(400))
        found.ok[200:260] = False
        targets, _ = Model(found).errors(1)
        assert not set(range(200, 261)) & set(targets.tolist())
        assert 199 in targets


class TestFits:
    """Once a day."""

    @given(st.integers(7 * 24, 672), st.integers(0, 167), st.integers(1, 26), st.booleans())
    def test_what_was_worked_out_before_changes_nothing(self, n, phase, hours, gap):
        """With the fits of a model some hours older the forecast is the same to the last bit, gaps included."""
        x, k = grid(n + hours, seed=n), np.array([1, 7, 50])
        before, now = (window(x[:end], phase=phase) for end in (n, n + hours))
        for found in (before, now):
            found.ok[90:99] = not gap
        earlier = Model(before)
        earlier.at(k)
        assert Model(now, earlier.fits).at(k).tolist() == Model(now).at(k).tolist()

    def test_they_are_kept_until_midnight(self):
        """Whatever comes in the hours of a day; those of the next day are others."""
        x = grid(24 * 20)
        fits = Model(window(x[: 24 * 18])).fits
        kept = [Model(window(x[: 24 * 18 + hours]), fits).fits is fits for hours in range(26)]
        assert kept == [True] * 24 + [False] * 2

    def test_a_full_window_that_moves_on_keeps_them(self):
        """What it loses at its beginning was not in them."""
        x = grid(24 * 40)
        fits = Model(window(x[: 24 * 28])).fits
        for hours in range(1, 24):
            assert Model(window(x[hours : 24 * 28 + hours], phase=hours), fits).fits is fits

    def test_a_value_of_the_day_before_that_is_revised_makes_new_ones(self):
        """One of today's does not."""
        x = grid(24 * 20 + 12)
        fits = Model(window(x)).fits
        today, earlier = x.copy(), x.copy()
        today[-5] *= 1.1
        earlier[-20] *= 1.1
        assert Model(window(today), fits).fits is fits
        assert Model(window(earlier), fits).fits is not fits

    def test_a_short_history_is_fitted_with_all_of_it(self):
        """Of less than a week each hour counts."""
        found = Model(window(grid(24 * 6 + 5)))
        assert found.errors(1)[0][-1] == 24 * 6 + 4
