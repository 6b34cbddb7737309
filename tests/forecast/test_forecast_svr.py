"""The paper's forecaster: the same as scikit-learn's, the paper's own figures, and a clear word where it is missing."""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from forecast_points import grid, window
from sklearn.svm import SVR

from chase.errors import ChaseError
from chase.forecast import named
from chase.forecast.svr import HistoryFit

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("CHASE_DATA") or ROOT.parent / "shared" / "data")
TRACE = DATA / "chase_iclr23" / "miso_2022-10.csv"


def columns(t, before, steps=24):
    return np.stack([np.sin(2 * np.pi * t / steps), np.cos(2 * np.pi * t / steps), before], axis=1)


def test_it_predicts_what_scikit_learn_predicts():
    """Our evaluation of the kernel is theirs, at values seen and not seen."""
    ci = grid(25, seed=6)
    theirs = SVR(C=100, gamma=1e-4).fit(columns(np.arange(24), ci[:-1]), ci[1:])
    t, before = np.arange(60), np.linspace(50, 500, 60)
    assert HistoryFit.on(ci).next(t, before) == pytest.approx(theirs.predict(columns(t, before)), abs=1e-8)


def test_further_ahead_each_step_is_made_of_the_one_before():
    """The paper has one step only; this is the plain way on."""
    fit = HistoryFit.on(grid(25, seed=6))
    ahead, before = fit.ahead(3), fit.last
    for k, value in enumerate(ahead):
        before = fit.next(np.array([24 + k]), np.array([before]))[0]
        assert value == before


def test_where_the_day_begins_is_no_matter():
    """A window that starts at noon gives the forecast of one that starts at midnight."""
    x, k = grid(300, seed=6), np.array([1, 6, 30])
    forecast = named.ALL["svr"].forecast
    assert forecast(window(x, phase=0), k)[0] == pytest.approx(forecast(window(x, phase=12), k)[0])


def test_it_takes_the_last_day_and_no_more():
    """What was before that day and the step before it changes nothing."""
    x = grid(300, seed=6)
    other = np.concatenate([x[:-25] * 3, x[-25:]])
    assert HistoryFit.of(window(other)).ahead(4) == pytest.approx(HistoryFit.of(window(x)).ahead(4))


def test_under_a_day_it_says_what_it_needs():
    """An error for a person, not a shape that does not fit."""
    with pytest.raises(ChaseError, match="one day and one step"):
        HistoryFit.of(window(grid(24)))


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch):
    """What to install, in one line."""
    monkeypatch.setitem(sys.modules, "sklearn.svm", None)
    with pytest.raises(ChaseError, match=r"pip install 'carbon-chase\[svr\]'"):
        HistoryFit.of(window(grid(100)))


@pytest.mark.skipif(not TRACE.exists(), reason=f"the paper's trace is not in {DATA}; CHASE_DATA names its folder")
class TestThePapersTrace:
    """Rows 12 to 59 of the public trace fitted, rows 60 to 154 forecast, as in figure 1 of the paper."""

    @pytest.fixture
    def ci(self):
        with TRACE.open(encoding="utf-8", newline="") as file:
            return np.array([float(row["hist"]) for row in csv.DictReader(file)])

    def test_its_curve_is_that_of_the_figure(self, ci):
        """Its first three values, to the gram's hundredth."""
        curve = HistoryFit.on(ci[11:60]).next(np.arange(48, 143), ci[59:154])
        assert curve[:3] == pytest.approx([613.451, 611.658, 609.897], abs=0.01)

    def test_it_errs_by_1_316_percent_and_persistence_by_1_329(self, ci):
        """Mean absolute percentage errors of those 95 steps."""
        curve = HistoryFit.on(ci[11:60]).next(np.arange(48, 143), ci[59:154])
        assert 100 * np.mean(abs(curve / ci[60:155] - 1)) == pytest.approx(1.316, abs=0.001)
        assert 100 * np.mean(abs(ci[59:154] / ci[60:155] - 1)) == pytest.approx(1.329, abs=0.001)

    def test_over_the_whole_file_persistence_is_the_better(self, ci):
        """Fitted on the first day, whose first row follows the last of the file, as in the authors' code."""
        curve = HistoryFit.on(np.concatenate([ci[-1:], ci[:48]])).next(np.arange(48, 167), ci[47:166])
        assert 100 * np.mean(abs(curve / ci[48:] - 1)) == pytest.approx(1.41, abs=0.01)
        assert 100 * np.mean(abs(ci[47:166] / ci[48:] - 1)) == pytest.approx(1.36, abs=0.01)
