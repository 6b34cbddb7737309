"""The benchmark of the paper's figures: what it computes, and that it fails where a figure is off."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from zeus_core.frontier import Frontier, OperatingPoint, Setting

ROOT = Path(__file__).parents[2]
FILE = ROOT / "benchmarks" / "chase_paper.py"
DATA = Path(os.environ.get("CHASE_DATA") or ROOT.parent / "shared" / "data")
NEEDED = ("chase_iclr23", "intensity", "zeus_nsdi23")
needs_data = pytest.mark.skipif(
    not all((DATA / folder).is_dir() for folder in NEEDED), reason=f"the data is not in {DATA}; CHASE_DATA names it"
)


@pytest.fixture(scope="module")
def paper():
    spec = importlib.util.spec_from_file_location("chase_paper_benchmark", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def settings():
    """400 s an epoch at 300 W, 500 s at 200 W."""
    return Frontier.of(OperatingPoint(Setting(power_limit_w=w), t, t * w) for w, t in ((300.0, 400.0), (200.0, 500.0)))


def test_without_the_data_it_says_where_it_looked(tmp_path):
    """A clear word and exit code 1."""
    environment = {"CHASE_DATA": str(tmp_path), "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, FILE], capture_output=True, text=True, check=False, env=environment, timeout=60
    )
    assert result.returncode == 1
    assert result.stderr == f"{tmp_path}: the data is not here; set CHASE_DATA to its folder\n"


@pytest.mark.parametrize(
    ("ours", "at_most", "verdict"),
    [(1.05, False, "pass"), (1.051, False, "OFF"), (0.95, False, "pass"), (0.949, False, "OFF"), (-9.0, True, "pass")],
)
def test_a_figure_is_off_beyond_its_tolerance(paper, ours, at_most, verdict):
    """On both sides, or on one where less is as good."""
    assert paper.Line(6, "a figure", 1.0, ours, 0.05, at_most).verdict == verdict


def test_a_figure_that_is_not_claimed_cannot_be_off(paper):
    """It is shown, and says so."""
    line = paper.Line(8, "a figure", float("nan"), 0.7, None)
    assert line.verdict == "not claimed"
    assert "nan" not in str(line)


def test_both_denominators_of_the_headline(paper):
    """13.6 and 2.5 % are of the carbon-aware run; of the normal one it is 11.95 and 2.61 %."""
    found = {line.what: round(line.ours, 2) for line in paper.headline()}
    assert list(found.values()) == [-13.58, 2.54, -11.95, 2.61]
    assert all(line.verdict == "pass" for line in paper.headline())


def test_an_epoch_at_one_limit_takes_what_the_figure_says(paper):
    """Three rows an epoch, the third for what two half hours leave of it."""
    hours, kwh, grams = paper.retraced([220] * 93, np.full(160, 600.0))
    assert (hours, kwh) == (pytest.approx(31 * 1.0407), pytest.approx(31 * 0.2215))
    assert grams == pytest.approx(600 * kwh)


def test_a_run_is_priced_at_what_was_observed(paper, settings):
    """20 epochs of 400 s at 300 W are 8000 s; half hours at 100, 200, 300, 400 g/kWh and the last 800 s at 500."""
    time = paper.Time(np.array([0.0, 100, 200, 300, 400, 500]), 1, 1800.0)
    ours = paper.run(paper.always(settings.fastest), time)
    assert (ours.seconds, ours.joules) == (pytest.approx(8000), pytest.approx(8000 * 300))
    assert ours.grams == pytest.approx(300 * (1800 * (100 + 200 + 300 + 400) + 800 * 500) / 3.6e6)


def test_a_fixed_setting_of_equal_time_is_a_mixture_of_neighbours(paper, settings):
    """Half the time at 1/400 and half at 1/500 epochs a second draw 250 W."""
    point = paper.fixed(settings, 20 / (0.5 / 400 + 0.5 / 500))
    assert point.power_w == pytest.approx(250)


def test_the_rule_is_asked_with_what_it_is_shown(paper, settings):
    """Shown a dirty grid the service's own policy goes slow, shown a clean one it goes fast."""
    pick = paper.by_rule(settings, 0.5, np.array([10.0, 5000.0]))
    assert [pick(row).setting.power_limit_w for row in (0, 1)] == [300, 200]


def test_knowing_the_future_is_worth_nothing_on_a_grid_that_never_changes(paper, settings):
    """And something on one that does."""
    flat, swinging = (paper.Time(np.array(ci), 0, 3600.0) for ci in ([300.0] * 24, [100.0, 500.0] * 12))
    assert paper.ceiling(settings, flat, 0.1) == pytest.approx(0, abs=1e-9)
    assert paper.ceiling(settings, swinging, 0.1) > 1


@needs_data
def test_the_papers_figures_are_met(paper):
    """Its own run retraced, the rule and a fixed setting replayed, nothing gained beyond the fixed one."""
    time, a40 = paper.trace(DATA), paper.a40(DATA)
    found = [
        *paper.split_of_the_figure(),
        *paper.split_retraced(time.ci),
        *paper.replayed(a40, time),
        *paper.beyond_fixed(a40, time),
    ]
    hours, _, grams = paper.retraced(paper.limits_of_figure_1(time.ci), time.ci)
    assert (hours, grams) == (pytest.approx(32.17, abs=0.01), pytest.approx(4733, abs=1))  # in docs/paper.md
    assert len(found) == 21
    assert [str(line) for line in found if line.verdict != "pass"] == []


@needs_data
def test_the_ceilings_are_met(paper):
    """45 of them: three curves, three slowdowns, four zones of 2023 and the trace; and two against full power."""
    found = [*paper.ceilings(DATA), *paper.shares(DATA)]
    assert len(found) == 47
    assert [str(line) for line in found if line.verdict != "pass"] == []


@needs_data
def test_a_figure_that_is_off_is_the_exit_status(paper, monkeypatch, capsys):
    """One wrong target is enough."""
    monkeypatch.setenv("CHASE_DATA", str(DATA))
    monkeypatch.setattr(paper, "on_other_grids", lambda *_: ())
    monkeypatch.setattr(paper, "ceilings", lambda *_: ())
    monkeypatch.setattr(paper, "shares", lambda *_: ())
    assert paper.main() == 0
    monkeypatch.setattr(paper, "NORMAL", (31.296, 5400.0, 8.651))
    assert paper.main() == 1
    assert "OFF" in capsys.readouterr().out
