"""A replay is the real controller over a trace: its figures can be worked out anew from the trace and the database."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from replay_cases import HOUR, START, SWEEP, cell, trace_file, waves

from chase.errors import ChaseError
from chase.replay import Cell, Result, run_cell
from chase.replay.profiles import profile_of
from chase.replay.trace import load_trace
from chase.store import open_readonly

DAY_S = 86400.0


@pytest.fixture
def trace(tmp_path):
    return trace_file(tmp_path, waves(24 * 30))


def intervals(path):
    with open_readonly(path) as log:
        return log.intervals()


def recomputed(result: Result, path) -> tuple[float, float, float]:
    """Units, joules and grams: each interval's limit, the card's curve at it, and the trace summed by the second."""
    profile, true = profile_of(result.cell.profile), load_trace(path)
    units = energy_j = grams = 0.0
    for row in intervals(path.parent / "kept.sqlite"):
        seconds = (row.end - row.start).total_seconds()
        limit_w = profile.default_w if row.power_limit_w is None else row.power_limit_w
        drawn_j = profile.watts_at(limit_w) * seconds * result.cell.gpus
        units += profile.rate_at(limit_w) * seconds * result.cell.gpus
        energy_j += drawn_j
        edges = sorted({row.start, row.end, *(t for t in true.starts if row.start < t < row.end)})
        for a, b in pairwise(edges):
            share = (b - a).total_seconds() / seconds
            grams += share * drawn_j * result.cell.pue * true.values[true.step_of(a)] / 3.6e6
    return units, energy_j, grams


CASES = {
    "budget": {},
    "more-slack": {"settings": {"max_slowdown": 0.2}},
    "yesterday": {"forecast": "yesterday"},
    "persistence": {"forecast": "persistence"},
    "threshold": {"policy": "threshold", "settings": {"efficiency_above": "p60", "speed_below": "p40"}},
    "chase": {"policy": "chase", "settings": {"eta": 0.6}},
    "static": {"policy": "static", "settings": {"selector": "energy"}},
    "off": {"policy": "off", "settings": {}},
    "late": {"delay_s": 5000.0, "forecast": "yesterday"},
    "revised": {"first_words": 0.5, "forecast": "yesterday"},
    "placebo": {"shuffle": 3},
    "gpus-and-pue": {"gpus": 4, "pue": 1.4},
    "ticks": {"interval_s": 300.0, "days": 0.5},
    "odd-times": {"start": START + timedelta(days=9, hours=3.21), "days": 1.7},
}


@pytest.mark.parametrize("given", CASES.values(), ids=CASES)
def test_the_figures_can_be_worked_out_anew(trace, tmp_path, given):
    """All work is done, no more and no less; energy is the integral of the cards' draw; grams are those joules at the
    true intensity of the time they were drawn in, whatever decisions went by.
    """
    kept = tmp_path / "kept.sqlite"
    result = run_cell(cell(trace, **given), db=kept)
    units, energy_j, grams = recomputed(result, trace)
    assert units == pytest.approx(result.units, rel=1e-7)
    assert result.units == pytest.approx(result.cell.days * DAY_S / 1000.0 * result.cell.gpus)
    assert result.energy_j == pytest.approx(energy_j, rel=1e-7)
    assert result.grams == pytest.approx(grams, rel=1e-7)
    rows = intervals(kept)
    assert (rows[0].start, sum((r.end - r.start).total_seconds() for r in rows)) == (
        result.cell.start,
        pytest.approx(result.seconds),
    )
    assert sum(row.grams for row in rows) == pytest.approx(result.grams)
    assert all(a.end == b.start for a, b in pairwise(rows))


def test_decisions_are_written_where_somebody_will_look(trace, tmp_path):
    """A database that is kept has all of them; one that is not has none, and the run is the same to the last bit."""
    kept = run_cell(cell(trace), db=tmp_path / "kept.sqlite")
    assert replace(run_cell(cell(trace)), wall_s=0.0) == replace(kept, wall_s=0.0)
    with open_readonly(tmp_path / "kept.sqlite") as log:
        assert log.decision_count("0" * 16) == kept.decisions > 24


@pytest.mark.parametrize("slowdown", [0.0, 0.025, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("forecast", ["perfect", "persistence", "yesterday"])
def test_the_budget_is_kept(trace, slowdown, forecast):
    """Whatever is expected of the days ahead: to within a control interval's share, and mostly to the second."""
    late = {"delay_s": 4000.0, "first_words": 0.5} if forecast == "yesterday" else {}
    result = run_cell(cell(trace, settings={"max_slowdown": slowdown}, forecast=forecast, days=1.5, **late))
    assert result.allowed_s == pytest.approx(1.5 * DAY_S * (1 + slowdown))
    assert result.exceeded_s <= 10.0
    assert result.slowdown <= slowdown + 1e-3


def test_the_same_cell_is_the_same_run(trace):
    """To the last bit, but for how long it took."""
    given = cell(trace, forecast="yesterday", first_words=0.4, delay_s=1000.0)
    one, other = run_cell(given), run_cell(given)
    assert replace(one, wall_s=0.0) == replace(other, wall_s=0.0)


def test_who_knows_the_future_comes_nearest_to_the_optimum(trace):
    """The optimum, then a perfect forecast, then the shape of yesterday; and timing is worth something."""
    saved = {f: run_cell(cell(trace, forecast=f)) for f in ("perfect", "yesterday", "persistence")}
    assert saved["perfect"].of_optimum == pytest.approx(1.0, abs=2e-3)
    assert saved["perfect"].grams <= saved["yesterday"].grams
    assert saved["perfect"].grams <= saved["persistence"].grams
    assert all(result.optimum_grams <= result.grams * (1 + 1e-9) for result in saved.values())
    assert saved["perfect"].timing > 0.01
    assert saved["perfect"].grams < run_cell(cell(trace, policy="best-fixed")).grams


def test_a_placebo_decides_by_another_grid_and_pays_for_the_true_one(trace, tmp_path):
    """Its decisions hold shuffled values, its accounts the true ones, and its timing is gone."""
    kept = tmp_path / "kept.sqlite"
    result = run_cell(cell(trace, shuffle=5), db=kept)
    true = load_trace(trace)
    with open_readonly(kept) as log:
        went_by = [record.intensity_g_per_kwh for record in log.decisions()]
    hours = [true.values[true.step_of(row.start)] for row in intervals(kept)]
    booked = [row.intensity_g_per_kwh for row in intervals(kept)]
    assert np.corrcoef(hours, booked)[0, 1] > 0.99
    assert abs(np.corrcoef(hours[: len(went_by)], went_by[: len(hours)])[0, 1]) < 0.4
    assert result.timing < run_cell(cell(trace)).timing / 2


def test_a_decision_goes_by_what_was_known_and_the_account_by_what_came(trace, tmp_path):
    """A first word that was wrong stands in the decision, and the hour is priced at what was said of it last."""
    kept = tmp_path / "kept.sqlite"
    run_cell(cell(trace, first_words=0.6, delay_s=1800.0, forecast="yesterday"), db=kept)
    true = load_trace(trace)
    with open_readonly(kept) as log:
        records = log.decisions()
        vintages = log.vintages("XX", "replay")
    went_by = {record.intensity_g_per_kwh for record in records}
    assert len(went_by - set(true.values.tolist())) > 20
    assert {record.intensity_age_s for record in records} >= {0.0}
    assert len(vintages) > len({point.start for point in vintages}) + 20
    for row in intervals(kept):
        assert row.intensity_g_per_kwh == pytest.approx(true.mean(row.start, (row.end - row.start).total_seconds()))


def test_a_late_value_is_not_known_before(trace, tmp_path):
    """At every decision the newest value is of the hour that began that long ago, at the latest."""
    kept = tmp_path / "kept.sqlite"
    run_cell(cell(trace, delay_s=7000.0, forecast="persistence", days=1.0), db=kept)
    true = load_trace(trace)
    with open_readonly(kept) as log:
        for record in log.decisions():
            newest = true.step_of(record.at - timedelta(seconds=7000.0))
            assert record.intensity_g_per_kwh == true.values[newest]


def test_steps_of_five_minutes_are_run_alike(tmp_path):
    """A tick for each, and no figure of the hour left."""
    fine = trace_file(tmp_path, waves(24 * 14, per_hour=12), step=timedelta(minutes=5))
    result = run_cell(cell(fine, days=0.4, forecast="yesterday"), db=tmp_path / "kept.sqlite")
    assert result.ticks >= 0.4 * 288
    assert result.grams == pytest.approx(recomputed(result, fine)[2], rel=1e-7)
    assert result.exceeded_s <= 10.0


def test_every_policy_can_be_compared(trace):
    """Those with a controller and those in closed form give the same figures of full power and of the optimum."""
    policies = ("full-power", "best-fixed", "zeus-eta", "suspend-resume-limit", "clairvoyant", "budget")
    results = {
        p: run_cell(cell(trace, policy=p, settings={} if p == "zeus-eta" else {"max_slowdown": 0.1})) for p in policies
    }
    assert len({round(result.full_grams, 6) for result in results.values()}) == 1
    budgeted = [results[p] for p in ("best-fixed", "suspend-resume-limit", "clairvoyant", "budget")]
    assert len({result.optimum_grams for result in budgeted}) == 1
    assert results["full-power"].saved == results["full-power"].slowdown == 0.0
    assert results["clairvoyant"].of_optimum == pytest.approx(1.0)
    assert results["clairvoyant"].of_optimum_timing == pytest.approx(1.0)
    assert results["best-fixed"].timing == pytest.approx(0.0, abs=1e-12)
    assert results["zeus-eta"].slowdown > 0
    assert all(r.saved == pytest.approx(r.efficiency + r.timing, abs=1e-12) for r in results.values())


def test_the_host_counts_as_long_as_the_job_runs(trace, tmp_path):
    """In energy, grams and peak, and in what is planned."""
    given = cell(trace, settings={"max_slowdown": 0.2, "host_power_w": 500.0})
    hosted, alone = run_cell(given, db=tmp_path / "kept.sqlite"), run_cell(cell(trace, settings={"max_slowdown": 0.2}))
    _, gpus_j, _ = recomputed(hosted, trace)
    assert hosted.energy_j == pytest.approx(gpus_j + 500.0 * hosted.seconds)
    assert hosted.peak_w in {watts + 500.0 for _, _, watts in SWEEP}
    assert hosted.seconds < alone.seconds
    assert hosted.of_optimum == pytest.approx(1.0, abs=5e-3)


def test_a_kept_database_is_an_ordinary_one(trace, tmp_path):
    """Its job has ended, its decisions can be read, and a second run does not write into it."""
    kept = tmp_path / "kept.sqlite"
    result = run_cell(cell(trace, days=0.5), db=kept)
    with open_readonly(kept) as log:
        (job,) = log.jobs()
        assert (job.state, job.units_done) == ("ended", pytest.approx(result.units))
        assert len(log.decisions()) == result.decisions > 5
    with closing(sqlite3.connect(kept)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with pytest.raises(ChaseError, match=r"kept.sqlite exists already"):
        run_cell(cell(trace, days=0.5), db=kept)


def test_a_cell_and_its_result_travel_as_text(trace):
    """Through JSON and back they are the same, and a cell's key is the same on any machine."""
    given = cell(trace, days=0.2, shuffle=2)
    back = Cell.from_dict(json.loads(json.dumps(given.to_dict())))
    assert (back, back.key) == (given, given.key)
    assert replace(given, days=0.3).key != given.key
    result = run_cell(given)
    written = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert Result.from_dict(written) == result
    assert written["saved"] == result.saved


@pytest.mark.parametrize("delay_s", [0.0, 5000.0])
def test_a_plan_of_hours_is_followed_hour_by_hour_on_a_coarser_trace(tmp_path, delay_s):
    """Our own forecast goes by hours: what a plan has for one of them is not kept for the rest of a longer step."""
    trace = trace_file(tmp_path, waves(24 * 30)[::6], step=6 * HOUR)
    run = run_cell(cell(trace, forecast="live", days=2.0, delay_s=delay_s))
    assert run.ticks >= 48
    assert -60.0 <= run.exceeded_s <= 1.0


BOUNDS = {
    "ceiling": {"max_power_limit_w": 200.0},
    "between": {"max_power_limit_w": 220.0},
    "floor": {"min_power_limit_w": 150.0},
    "both": {"min_power_limit_w": 100.0, "max_power_limit_w": 250.0},
    "one": {"min_power_limit_w": 210.0, "max_power_limit_w": 230.0},
}


@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
@pytest.mark.parametrize("slowdown", [0.0, 0.05])
def test_what_people_allow_bounds_what_a_run_is_compared_with(trace, bounds, slowdown):
    """Their ceiling is full power and its budget's measure; nobody who keeps to both does better than the optimum."""
    settings = {"max_slowdown": slowdown, **bounds}
    run = run_cell(cell(trace, settings=settings, days=2.0))
    best, fixed = (run_cell(cell(trace, policy=p, settings=settings, days=2.0)) for p in ("clairvoyant", "best-fixed"))
    assert run.full_s == pytest.approx(2 * DAY_S)
    assert run.exceeded_s <= 1.0
    assert best.grams <= run.grams * (1 + 1e-9)
    assert fixed.grams * (1 + 1e-9) >= best.grams >= 0.5 * run.full_grams
    assert run.of_optimum is None or run.of_optimum == pytest.approx(1.0, abs=0.01)


BAD = {
    "start": ({"start": (START + HOUR).replace(tzinfo=None)}, "start must be a UTC time"),
    "early": ({"start": START - HOUR}, "is of 2023-01-01 00:00Z to 2023-01-31 00:00Z, and a job of 3 days"),
    "long": ({"days": 25.0}, "needs 26.2 days of it: begin at another time, or make it shorter"),
    "slow": (
        {"policy": "static", "days": 19.5, "settings": {"selector": "energy"}},
        "before the job of 19.5 days from 2023-01-11 00:00Z on is done",
    ),
    "days": ({"days": 0.0}, "days must be from 0.001 to 3660, not 0.0"),
    "nan": ({"pue": float("nan")}, "pue must be from 1 to 5, not nan"),
    "gpus": ({"gpus": 65}, "gpus must be from 1 to 64, not 65"),
    "share": ({"first_words": 1.5}, "first_words must be from 0 to 1, not 1.5"),
    "forecast": ({"forecast": "oracle"}, "forecast 'oracle' is unknown; there are own, persistence, yesterday"),
    "policy": ({"policy": "budgt"}, "the replay's policy 'budgt': .*budget"),
    "setting": ({"settings": {"max_slowdwn": 0.1}}, "max_slowdwn"),
    "value": ({"settings": {"max_slowdown": -0.1}}, "max_slowdown"),
    "eta": ({"policy": "zeus-eta", "settings": {"eta": 2}}, "eta"),
    "name": ({"settings": {"name": "static"}}, "policy is 'budget' already: leave name out of its settings"),
    "money": ({"settings": {"minimise": "both"}}, "no prices of electricity: minimise must be carbon, not both"),
    "closed": ({"policy": "best-fixed", "settings": {"max_slowdown": "much"}}, "max_slowdown"),
    "trace": ({"trace": "/nowhere/XX_2023.csv"}, "/nowhere/XX_2023.csv: cannot be read"),
    "profile": ({"profile": "h100"}, "profile 'h100' is unknown"),
}


@pytest.mark.parametrize(("given", "said"), BAD.values(), ids=BAD)
def test_a_cell_that_cannot_be_run_says_why(trace, given, said):
    """What is wrong, its value, and what would be right; nothing was run."""
    with pytest.raises(ChaseError, match=said):
        run_cell(replace(cell(trace), **given))
