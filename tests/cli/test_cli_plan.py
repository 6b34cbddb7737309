"""``chase plan``: the time ahead of one job, from the database alone."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import re
import sqlite3
from datetime import datetime, timedelta

import pytest
from plan_log import AT, FRONTIER, JOB, budget, fill, horizon, job

from chase.clock import ManualClock
from chase.policy import Grid, Progress, Rules, planned
from chase.store import Store

KEYS = """job decision at time_zone followed reason end seconds units full_power_seconds allowed_seconds late_seconds
slack_seconds slack_used_seconds slowdown energy_kwh mu_per_unit unit minimise denominators slots grams grams_low
grams_high reference_grams saved_grams efficiency_grams timing_grams cost cost_low cost_high reference_cost saved_cost
efficiency_cost timing_cost currency"""
SLOT_KEYS = """start start_local seconds unit price_per_kwh low_per_kwh high_per_kwh setting parts power_w units
energy_kwh cost forecast"""


@pytest.fixture
def shown(run, tmp_path):
    """``chase plan resnet`` on a database of that input."""

    def call(given, *args, record=None, **options):
        path = fill(tmp_path / "plan.sqlite", given, record)
        return run("plan", "resnet", "--db", path, *args, **options)

    return call


def test_the_document_has_stable_keys(shown):
    """All of them are there for a plan for carbon, and each slot has the same."""
    document = json.loads(shown(budget(), "--json").stdout)
    assert sorted(document) == sorted(KEYS.split())
    assert {tuple(slot) for slot in document["slots"]} == {tuple(SLOT_KEYS.split())}
    assert (document["decision"], document["at"], document["unit"]) == (1, "2026-03-01T10:20:00Z", "gCO2eq")


def test_the_slots_add_up_to_the_plan(shown):
    """Work, energy and grams of the rows are those of the plan that the policy makes of the stored input."""
    given = budget()
    document = json.loads(shown(given, "--json").stdout)
    made, slots = planned(given, FRONTIER), document["slots"]
    assert math.fsum(slot["cost"] for slot in slots) == pytest.approx(made.plan.cost)
    assert document["grams"] == pytest.approx(made.plan.cost)
    assert math.fsum(slot["units"] for slot in slots) == pytest.approx(20.0)
    assert math.fsum(slot["energy_kwh"] for slot in slots) * 3.6e6 == pytest.approx(made.plan.energy_j.sum())
    assert document["saved_grams"] == pytest.approx(document["efficiency_grams"] + document["timing_grams"])
    assert document["saved_grams"] == pytest.approx(document["reference_grams"] - document["grams"])
    assert document["grams_low"] == pytest.approx(0.9 * document["grams"], rel=1e-3)
    assert document["grams_high"] == pytest.approx(1.2 * document["grams"], rel=1e-3)


def test_the_end_is_within_what_is_allowed(shown):
    """Five per cent of the whole job, less what was used before: the whole job is that much slower."""
    document = json.loads(shown(budget(), "--json").stdout)
    end = datetime.fromisoformat(document["end"])
    assert (end - AT).total_seconds() == pytest.approx(document["seconds"], abs=1)
    assert document["seconds"] <= document["allowed_seconds"] + 1
    assert document["late_seconds"] == 0
    assert document["slowdown"] == pytest.approx(0.05, abs=1e-6)
    assert document["slack_used_seconds"] == 120.0


def test_people_get_sentences_a_chart_and_a_table(shown):
    """When it ends, what of the slack is left, each run of one setting, and the saving in two parts."""
    out = shown(budget()).stdout
    assert "job resnet" in out
    assert "2026-03-02 08:" in out
    assert "in Europe/London" in out
    assert "2 min 00 s used before" in out
    assert "g/kWh, expected" in out
    assert "█" in out
    assert re.search(r"^  saved +\d+(\.\d+)? g CO2eq, \d+\.\d % of full power's$", out, flags=re.MULTILINE)
    assert re.search(
        r"^  efficiency .* % of full power's: the best fixed setting that ends at the same time$",
        out,
        flags=re.MULTILINE,
    )
    assert re.search(r"^  timing .*: the rest, when it is fast and when slow$", out, flags=re.MULTILINE)
    assert "\x1b" not in out


@pytest.mark.parametrize(("host_w", "by"), [(60.0, "its GPUs and host"), (0.0, "its GPUs")])
def test_who_draws_is_who_is_counted(shown, host_w, by):
    """A host without a configured draw is in neither the chart nor the sum, and is not named there."""
    lines = shown(budget(host_w=host_w)).stdout.splitlines()
    assert f"W by {by}, planned" in map(str.strip, lines)
    assert any(line.startswith("  carbon ") and line.endswith(f" kWh by {by}") for line in lines)


def test_the_table_has_runs_and_all_slots_on_request(shown):
    """A week of hours is a few lines, which cover the same time as all of them."""
    runs = [line for line in shown(budget(), "--no-chart").stdout.splitlines() if re.match(r"(Sun|Mon) 0", line)]
    slots = [
        line for line in shown(budget(), "--no-chart", "--all").stdout.splitlines() if re.match(r"(Sun|Mon) 0", line)
    ]
    assert len(runs) < len(slots) == len(json.loads(shown(budget(), "--json").stdout)["slots"])
    assert runs[0].split()[:3] == slots[0].split()[:3] == ["Sun", "01", "10:20"]


def test_hours_limit_what_is_shown_and_no_sum(shown):
    """Four hours of slots; the figures of the plan are those of all of it."""
    part, whole = (json.loads(shown(budget(), "--json", *args).stdout) for args in (["--hours", "4"], []))
    assert [slot["start"] for slot in part["slots"]] == [slot["start"] for slot in whole["slots"]][:5]
    assert part["grams"] == whole["grams"]
    assert "Sun 01 14:" not in shown(budget(), "--hours", 1, "--no-chart").stdout


def test_csv_has_the_slots(shown):
    """With a header, and the same values as the document."""
    rows = list(csv.DictReader(io.StringIO(shown(budget(), "--csv").stdout)))
    slots = json.loads(shown(budget(), "--json").stdout)["slots"]
    assert [row["start"] for row in rows] == [slot["start"] for slot in slots]
    assert [float(row["cost"]) for row in rows] == [slot["cost"] for slot in slots]
    assert json.loads(rows[0]["parts"]) == slots[0]["parts"]


def test_two_forms_at_once_are_refused(shown):
    """As with every other command."""
    result = shown(budget(), "--csv", "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "choose one" in result.stderr


def test_a_split_slot_says_both_settings_and_their_shares(shown):
    """At most one slot is split, between two neighbours, faster first."""
    slots = json.loads(shown(budget(), "--json").stdout)["slots"]
    (split,) = [slot for slot in slots if len(slot["parts"]) > 1]
    limits = [part["setting"]["power_limit_w"] for part in split["parts"]]
    assert limits == sorted(limits, reverse=True)
    assert sum(part["share"] for part in split["parts"]) == pytest.approx(1)
    assert re.fullmatch(r"\d+ W \d+ %, \d+ W \d+ %", split["setting"])


def test_an_unknown_length_is_called_one(shown):
    """A rolling horizon has no end of the job, and says what is done in it."""
    given = budget(progress=Progress(units_done=4.0))
    result = shown(given, record=job(total_units=None))
    assert "not known: a rolling horizon, planned anew at every decision" in result.stdout
    document = json.loads(shown(given, "--json").stdout)
    assert document["end"] is None
    assert document["seconds"] == pytest.approx(86400)


@pytest.mark.parametrize("units", [1e9, 1e15])
def test_more_work_than_there_are_years_ends_on_the_last_day(shown, units):
    """A job that counts tokens and is measured in epochs is no fault of the command; the chart shows a month of it."""
    given = budget(progress=Progress(units_left=units, units_done=4.0))
    document = json.loads(shown(given, "--json").stdout)
    assert document["end"] == "9999-12-30T00:00:00Z"
    assert document["units"] == pytest.approx(units)
    assert "|29 Mar" in shown(given).stdout


def test_a_plan_for_money_is_in_money(shown):
    """The currency's own keys are filled, and those of grams are empty."""
    given = budget(horizon=horizon(unit="EUR", scale=0.001))
    document = json.loads(shown(given, "--json").stdout)
    assert (document["currency"], document["unit"], document["grams"]) == ("EUR", "EUR", None)
    assert document["cost"] == pytest.approx(planned(given, FRONTIER).plan.cost)
    out = shown(given).stdout
    assert "EUR/kWh, expected" in out
    assert re.search(r"^  money +\d", out, flags=re.MULTILINE)


def test_a_job_that_will_be_late_is_told_so(shown):
    """By how much, at its fastest, over all of its work."""
    given = budget(progress=Progress(units_left=20.0, units_done=4.0, deadline_s=-3600.0))
    document = json.loads(shown(given, "--json").stdout)
    needed_s = 20.0 * FRONTIER.fastest.seconds_per_unit
    assert document["seconds"] == pytest.approx(needed_s)
    assert document["late_seconds"] == pytest.approx(needed_s + 3600.0)
    assert "later than allowed, though all is at the fastest" in shown(given).stdout


def test_a_plan_that_is_not_followed_just_now_says_why(shown):
    """A person's hold goes before it."""
    result = shown(budget(hold="speed-first"))
    assert "not followed: held at speed-first by a person" in result.stdout
    assert json.loads(shown(budget(hold="speed-first"), "--json").stdout)["followed"] is False


NONE = {
    "another policy": (budget(rules=Rules(name="threshold"), horizon=None), None, "--policy budget"),
    "no frontier": (budget(frontier=None, note="3 of 20 windows"), None, "no frontier to plan with: 3 of 20 windows"),
    "no signal": (budget(horizon=None, grid=Grid()), None, "nothing is known of the grid ahead"),
    "no decision": (None, None, "no decision was taken for resnet yet"),
    "ended": (
        budget(),
        job(state="ended", ended_at=AT + timedelta(hours=1), end_reason="done"),
        "ended 2026-03-01 11:20:00Z (done)",
    ),
}


@pytest.mark.parametrize("why", NONE)
def test_where_there_is_no_plan_it_says_why(run, tmp_path, why):
    """One clear sentence on stderr, and exit code 1: found, and no fault."""
    given, record, text = NONE[why]
    path = fill(tmp_path / "none.sqlite", given, record)
    if record is not None:
        _end(path, record)
    result = run("plan", JOB[:6], "--db", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert text in result.stderr
    assert "Traceback" not in result.stderr


def _end(path, record):
    store = Store(path, clock=ManualClock(AT))
    store.end_job(record.id, record.ended_at, record.end_reason, record.units_done)
    store.close()


def test_an_unknown_job_is_wrong_usage(shown):
    """The argument is named, and where to look."""
    result = shown(budget(), record=job(name="bert"))
    assert result.exit_code == 2
    assert "'JOB'" in result.stderr
    assert "chase jobs" in result.stderr


def test_inputs_that_cannot_be_read_are_a_clear_error(run, tmp_path):
    """A damaged row is named by its number."""
    path = fill(tmp_path / "bad.sqlite", budget())
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("UPDATE decisions SET inputs_json = '{\"rules\": 3}'")
    result = run("plan", "resnet", "--db", path)
    assert result.exit_code == 1
    assert "decision 1" in result.stderr


def test_it_needs_no_configuration_that_can_be_read(shown, tmp_path, monkeypatch):
    """The database is enough: a broken file that nobody named costs the local time and nothing else."""
    folder = tmp_path / "config" / "chase"
    folder.mkdir(parents=True)
    (folder / "chase.toml").write_text("[service]\nregion = 7\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent))
    result = shown(budget(), "-v")
    assert result.exit_code == 0
    assert "the configuration is left aside" in result.stderr


def test_a_region_that_is_not_known_here_has_no_local_time(shown):
    """The database may be another node's."""
    document = json.loads(shown(budget(), "--json", record=job(region="elsewhere")).stdout)
    assert document["time_zone"] is None
    assert {slot["start_local"] for slot in document["slots"]} == {None}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_plain_letters_where_the_encoding_has_no_others(chase, tmp_path, monkeypatch, encoding):
    """A pipe in ASCII gets the chart all the same, and so does one that has some of the blocks and not all."""
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    done = chase("plan", "resnet", "--db", fill(tmp_path / "plan.sqlite", budget()))
    assert done.returncode == 0
    assert "##########" in done.stdout
    assert "?" not in done.stdout


@pytest.mark.parametrize("plain", [False, True])
def test_a_terminal_gets_colours_and_its_width(on_a_terminal, tmp_path, plain):
    """As wide as the terminal, in colours unless NO_COLOR is set."""
    path = fill(tmp_path / "plan.sqlite", budget())
    words = ("-m", "chase", "plan", "resnet", "--db", path)
    out = on_a_terminal(*words, COLUMNS="100", NO_COLOR="1" if plain else "")
    bars = [line for line in out.splitlines() if "┤" in line]
    assert any("\x1b[33m" in line for line in bars) is not plain
    widths = {len(re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip()) for line in bars}
    assert 70 < max(widths) <= 100


def test_explain_says_what_a_plan_rests_on(run, tmp_path):
    """The prices ahead, what is allowed, and the worth of a unit; costs are per hour in the horizon's unit."""
    path = fill(tmp_path / "plan.sqlite", budget())
    out = run("explain", 1, "--db", path).stdout
    assert "  horizon 72 slots, 71 h 40 min: 245 g/kWh now, 200 in the mean, 110 to 290" in out
    assert re.search(
        r"^  allowed 20 units within 21 h 5\d min, 1 h 12 min more than at full power; 2 min", out, re.MULTILINE
    )
    mu = planned(budget(), FRONTIER).plan.mu
    assert f"  mu      {mu:.4g} g for one more unit of work" in out
    assert "g/h" in next(line for line in out.splitlines() if "slowdown" in line)
    assert "g/h is what an hour there draws less what its work is worth, mu a unit. The least\n" in out
    assert "the same choice" in out


@pytest.mark.parametrize(("units", "shown"), [(52745320.684, "52,745,321"), (1e8, "100,000,000"), (2.5, "2.5")])
def test_explain_counts_as_plan_does(run, tmp_path, units, shown):
    """Samples by the million are written out, as the other commands do, and epochs keep their fraction."""
    given = budget(progress=Progress(units_left=units, units_done=4.0))
    assert f"  allowed {shown} units within" in run("explain", 1, "--db", fill(tmp_path / "plan.sqlite", given)).stdout


def test_explain_of_a_job_that_is_late_has_no_price_of_time(run, tmp_path):
    """All of it is needed."""
    given = budget(progress=Progress(units_left=20.0, deadline_s=60.0))
    out = run("explain", 1, "--db", fill(tmp_path / "plan.sqlite", given)).stdout
    assert "no more than at full power" in out
    assert "  mu      none: all time is needed" in out
