"""Sweeps: cells and their keys, what is run again and what is not, and ends that nobody planned."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_cases import START, cell, sweep_file, trace_file, waves
from sweep_cases import MANY, many

from chase.errors import ChaseError, ConfigError, StoreError
from chase.replay.engine import Inline
from chase.replay.results import Failure, Results
from chase.replay.run import run_cell
from chase.replay.sweep import CODE, Grid, Policy, Progress, Work, cells, run_sweep, run_work, spread, stamp

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sweep")


@pytest.fixture(scope="module")
def trace(folder):
    """Forty days."""
    return trace_file(folder, waves(40 * 24))


@pytest.fixture(scope="module")
def profile(folder):
    return f"{sweep_file(folder)}:network=toy"


@pytest.fixture
def results(tmp_path):
    with Results(tmp_path / "results.sqlite") as opened:
        yield opened


def keys(cells_):
    return [Work(one, stamp(one)).key for one in cells_]


def test_all_combinations_are_cells_those_of_one_grid_together():
    """A budget is for the policies that name none of their own, and starts are asked for by grid and length."""
    asked = []

    def starts(grid, days):
        asked.append((grid.trace, days))
        return [START, START + timedelta(days=1)]

    policies = [Policy("budget", forecast="perfect"), Policy("static", {"max_slowdown": 0.5})]
    found = list(
        cells(
            [Grid("a"), Grid("b", "x")],
            ["p", "q"],
            policies,
            days=[1.0, 3.0],
            starts=starts,
            budgets=[0.05, 0.1],
            pue=1.2,
        )
    )
    assert len(found) == 2 * 2 * 2 * 2 * 2 * 2
    assert [one.trace for one in found] == ["a"] * 32 + ["b"] * 32
    assert {one.column for one in found if one.trace == "b"} == {"x"}
    assert {one.settings["max_slowdown"] for one in found if one.policy == "budget"} == {0.05, 0.1}
    assert {one.settings["max_slowdown"] for one in found if one.policy == "static"} == {0.5}
    assert {one.pue for one in found} == {1.2}
    assert asked == [("a", 1.0), ("a", 3.0), ("b", 1.0), ("b", 3.0)]


@given(st.integers(0, 9000), st.integers(1, 60))
def test_starts_are_spread_over_the_whole_time_at_whole_hours(hours, count):
    """The first and the last are as asked for, and the gaps between them differ by an hour at most."""
    found = spread(START, START + timedelta(hours=hours), count)
    assert len(found) == count
    assert found[0] == START
    assert count == 1 or found[-1] == START + timedelta(hours=hours)
    gaps = [(after - before) / timedelta(hours=1) for before, after in pairwise(found)]
    assert all(gap.is_integer() for gap in gaps)
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_what_is_known_is_not_run_again(trace, profile, results):
    """Asked for again with some more, only those are run, and all come back in the order asked for."""
    asked = many(trace, profile, 40)
    first = run_sweep(asked[:30], Inline(), results)
    assert (len(first.results), first.known, first.failures) == (30, 0, [])
    seen = []
    second = run_sweep([*reversed(asked), asked[3]], Inline(), results, watch=seen.append)
    assert second.known == 30
    assert [one.cell for one in second.results] == [*reversed(asked), asked[3]]
    assert seen[0] == Progress(30, 40, 30)
    assert seen[-1] == Progress(40, 40, 30)
    assert second.results[-1] == first.results[3]


def test_results_are_those_of_the_cell_run_alone(trace, profile, results):
    """Through the worker, the database's JSON and back; but for the time that it took."""
    asked = [*many(trace, profile, 2), cell(trace, days=1.0)]
    found = run_sweep(asked, Inline(), results).results
    assert [replace(one, wall_s=0.0) for one in found] == [replace(run_cell(one), wall_s=0.0) for one in asked]


def test_where_a_file_lies_and_what_it_is_called_makes_no_difference(trace, profile, results, tmp_path):
    """What is in it does: the trace moved is known, and the trace changed is not."""
    asked = many(trace, profile, 3)
    before = run_sweep(asked, Inline(), results)
    moved = shutil.copy(trace, tmp_path / "moved.csv")
    again = run_sweep([replace(one, trace=str(moved)) for one in asked], Inline(), results)
    assert again.known == 3
    assert {one.cell.trace for one in again.results} == {str(moved)}
    assert [one.grams for one in again.results] == [one.grams for one in before.results]
    other = trace_file(tmp_path, waves(40 * 24, level=301.0), name="other.csv")
    assert not set(keys(asked)) & set(keys([replace(one, trace=str(other)) for one in asked]))


def test_a_profile_that_changed_is_another(trace, profile, tmp_path):
    """One watt at one limit is enough."""
    changed = sweep_file(tmp_path, [(300, 1000.0, 285.0), (200, 1080.0, 198.0), (150, 1250.0, 153.0)])
    one = many(trace, profile, 1)[0]
    assert keys([one]) != keys([replace(one, profile=f"{changed}:network=toy")])


@pytest.mark.parametrize(
    "changed",
    [
        {"days": 2.0},
        {"policy": "best-fixed"},
        {"settings": {"max_slowdown": 0.2}},
        {"pue": 1.1},
        {"shuffle": 1},
        {"gpus": 2},
    ],
)
def test_whatever_is_asked_otherwise_is_another_cell(trace, profile, changed):
    """Each field counts."""
    one = many(trace, profile, 1)[0]
    assert keys([one]) != keys([replace(one, **changed)])


def test_a_worker_that_has_other_files_or_code_says_so(trace, profile):
    """In place of a result that nobody asked for."""
    one = many(trace, profile, 1)[0]
    with pytest.raises(ChaseError, match="is not what the sweep began with"):
        run_work(Work(one, "another"))
    assert CODE in stamp(one)


def test_a_cell_that_fails_is_told_and_tried_again(trace, profile, results):
    """The others are done; asked for again it runs, and where it then works it is a failure no more."""
    good, bad = many(trace, profile, 2)
    bad = replace(bad, start=START + timedelta(days=39, hours=12))
    report = run_sweep([good, bad], Inline(), results)
    assert [one.cell for one in report.results] == [good]
    assert [one.cell for one in report.failures] == [bad]
    assert "begin at another time, or make it shorter" in report.failures[0].error
    again = run_sweep([good, bad], Inline(), results)
    assert (again.known, len(again.failures)) == (1, 1)
    results.add([(keys([bad])[0], replace(report.results[0], cell=bad))])
    assert run_sweep([good, bad], Inline(), results).failures == []


def test_forecasts_are_made_once_and_before_the_cells(folder, profile, results, tmp_path):
    """By all workers, as far as they are not there; other forecasts need none."""
    short = trace_file(folder, waves(60), name="YY_2023.csv")
    own = Policy("budget", {"max_slowdown": 0.05}, "own")
    asked = list(cells([Grid(str(short))], [profile], [own], days=[0.2], starts=lambda *_: spread(START, START, 1)))
    seen = []
    run_sweep(asked, Inline(), results, cache_dir=tmp_path / "made", watch=seen.append)
    assert [(one.done, one.total) for one in seen if one.forecasts] == [(1, 1)]
    assert len(list((tmp_path / "made").rglob("*.npy"))) == 1
    later = [replace(one, days=0.3) for one in asked] + [replace(one, forecast="perfect") for one in asked]
    seen.clear()
    assert len(run_sweep(later, Inline(), results, cache_dir=tmp_path / "made", watch=seen.append).results) == 2
    assert not [one for one in seen if one.forecasts]


def start_parent(*args):
    path = os.pathsep.join([str(HERE.parents[1]), str(HERE)])
    return subprocess.Popen(
        [sys.executable, HERE / "sweep_parent.py", *map(str, args)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_sweep_that_was_killed_goes_on_where_it_stopped(trace, profile, tmp_path):
    """Without a warning: what was done is kept, workers are gone, and the rest is run when it is asked for again."""
    file = tmp_path / "results.sqlite"
    parent = start_parent(file, trace, profile)
    for line in parent.stdout:
        if int(line) >= 50:
            break
    parent.kill()
    parent.communicate(timeout=60)  # ends when the last worker has let go of the pipe
    with Results(file) as results:
        report = run_sweep(many(trace, profile), Inline(), results)
    assert 50 <= report.known < MANY
    assert (len(report.results), report.failures) == (MANY, [])


def test_of_two_results_of_one_cell_the_first_stays(trace, profile, results):
    """Two sweeps at once, or a cell that came back twice: rows are never changed."""
    one = run_cell(many(trace, profile, 1)[0])
    results.add([("key", one), ("key", replace(one, grams=1.0))])
    results.add(
        [("key", replace(one, grams=2.0))], [("bad", Failure(one.cell, "first")), ("bad", Failure(one.cell, "last"))]
    )
    assert results.results(["key", "none"]) == {"key": one}
    assert results.failures(["bad", "key"]) == {"bad": "last"}


def test_thousands_of_keys_are_asked_for(trace, profile, results):
    """More than SQLite takes in one question."""
    one = run_cell(many(trace, profile, 1)[0])
    results.add([(str(number), one) for number in range(0, 70_000, 100)])
    assert len(results.known([str(number) for number in range(70_000)])) == 700


def test_two_sweeps_share_a_file(trace, profile, tmp_path):
    """Each sees what the other has done."""
    one = run_cell(many(trace, profile, 1)[0])
    with Results(tmp_path / "r.sqlite") as first, Results(tmp_path / "r.sqlite") as second:
        first.add([("a", one)])
        second.add([("b", one)])
        assert first.known(["a", "b"]) == {"a", "b"}


def test_the_file_is_one_for_other_tools_too(trace, profile, results):
    """A view has the figures in columns."""
    report = run_sweep(many(trace, profile, 2), Inline(), results)
    with closing(sqlite3.connect(results.path)) as db:
        rows = db.execute("SELECT policy, days, saved, timing FROM savings ORDER BY start").fetchall()
    assert rows == [("clairvoyant", 1.0, one.saved, one.timing) for one in report.results]


def test_a_file_of_something_else_is_left_alone(tmp_path):
    """Neither a text nor another's database is written to."""
    text, other = tmp_path / "text", tmp_path / "other.sqlite"
    text.write_text("something else, and long enough to be no header of a database " * 20)
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE mine (x)")
    for path, words in ((text, "is not a file of results"), (other, "is another database")):
        before = path.read_bytes()
        with pytest.raises(ConfigError, match=words):
            Results(path)
        assert path.read_bytes() == before


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    """With the file's name."""
    with pytest.raises(StoreError, match=str(tmp_path)):
        Results(tmp_path)
