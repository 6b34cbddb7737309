"""Runs as rows, and means over them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from replay_cases import START, cell, trace_file, waves

from chase.replay.run import run_cell
from chase.replay.summary import BY_GRID, label, means, row_of


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Of two lengths, two starts each, by who knew the future; and one of the paper's rule."""
    trace = trace_file(tmp_path_factory.mktemp("summary"), waves(20 * 24))
    known = [
        cell(trace, policy="clairvoyant", days=days, start=START + timedelta(days=5 + i))
        for days in (1.0, 2.0)
        for i in (0, 1)
    ]
    return [*map(run_cell, known), run_cell(cell(trace, policy="zeus-eta", settings={"eta": 0.5}, days=1.0))]


def test_a_row_has_all_that_is_known_of_a_run(runs):
    """What was asked for, and what came of it."""
    row = row_of(runs[0])
    assert (row["grid"], row["policy"], row["days"], row["max_slowdown"], row["settings"]) == (
        "XX",
        "clairvoyant",
        1.0,
        0.05,
        {},
    )
    assert (row["saved"], row["grams"], row["start"]) == (runs[0].saved, runs[0].grams, runs[0].cell.start)
    assert row["forecast"] is None
    assert {frozenset(row_of(run)) for run in runs} == {frozenset(row)}


def test_means_are_over_runs_that_differ_in_their_start(runs):
    """A share of the optimum is one of sums, and what was exceeded is the worst."""
    late = replace(runs[1], seconds=runs[1].seconds + 60.0)
    rows = means([runs[0], runs[2], late, runs[3], runs[4]])
    assert [(row["policy"], row["days"], row["runs"]) for row in rows] == [
        *[("clairvoyant", days, 2) for days in (1.0, 2.0)],
        ("zeus-eta", 1.0, 1),
    ]
    first = rows[0]
    assert first["saved"] == pytest.approx((runs[0].saved + late.saved) / 2)
    total = runs[0].optimum_saved + late.optimum_saved
    assert first["of_optimum"] == pytest.approx((runs[0].saved + late.saved) / total)
    assert first["exceeded_s"] == pytest.approx(60.0, abs=1e-3)


def test_nothing_is_a_share_of_nothing(runs):
    """Where the optimum could gain next to nothing by timing, no share of that is told."""
    flat = replace(runs[0], optimum_fixed_grams=runs[0].optimum_grams)
    assert means([flat])[0]["of_optimum_timing"] is None


def test_means_by_grid_are_over_all_else(runs):
    """Lengths and budgets as well."""
    assert [(row["policy"], row["runs"]) for row in means(runs, BY_GRID)] == [("clairvoyant", 4), ("zeus-eta", 1)]


def test_a_policy_is_told_apart_from_others_of_its_name():
    """By its forecast, its settings, and whether its signal was shuffled."""
    row = {"policy": "budget", "forecast": "own", "settings": {"host_power_w": 90.0}, "shuffle": 3}
    assert label(row) == "budget, own forecast, host_power_w 90.0, shuffled signal"
    assert label({"policy": "full-power", "forecast": None, "settings": {}, "shuffle": None}) == "full-power"
