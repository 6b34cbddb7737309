"""``chase whatif``: the same job under another budget, policy or region, from the database alone."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime

import pytest
from grid_log import HOUR, hour_to, price_to
from plan_log import AT, FRONTIER, budget, fill, horizon, job

from chase.clock import ManualClock
from chase.policy import Progress, Rules
from chase.store import Store
from providers.base import Kind

KEYS = """case policy max_slowdown region grid end seconds slowdown late_seconds unforecast_seconds units energy_kwh
grams grams_low grams_high reference_grams saved_grams efficiency_grams timing_grams cost cost_low cost_high
reference_cost saved_cost efficiency_cost timing_cost currency"""
REGION = """\
[region]
id = "{name}"
name = "A region whose source is a file"
time_zone = "UTC"
signal = "average"
scope = "lifecycle"
currency = "EUR"
[[sources]]
provider = "file"
zone = "{name}"
options = {{ path = "{folder}/none.csv", scope = "lifecycle" }}
[[prices]]
provider = "file"
zone = "{name}"
options = {{ path = "{folder}/none.csv", currency = "EUR" }}
"""


@pytest.fixture
def cases(run, tmp_path):
    """The cases of ``chase whatif resnet --json`` on a database of that input."""

    def call(given, *args, record=None):
        path = fill(tmp_path / "whatif.sqlite", given, record)
        result = run("whatif", "resnet", "--db", path, "--json", *args)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)["cases"]

    return call


def test_the_cases_have_stable_keys(run, tmp_path, cases):
    """All of them in every case, in the document and as CSV, with the job and the decision beside them."""
    path = fill(tmp_path / "whatif.sqlite", budget())
    asked = ("whatif", "resnet", "--db", path, "--max-slowdown", "0.1")
    document = json.loads(run(*asked, "--json").stdout)
    assert {tuple(case) for case in document["cases"]} == {tuple(KEYS.split())}
    assert (document["job"]["name"], document["decision"], document["at"]) == ("resnet", 1, "2026-03-01T10:20:00Z")
    rows = list(csv.DictReader(io.StringIO(run(*asked, "--csv").stdout)))
    assert [row["case"] for row in rows] == ["now", "max_slowdown 0.1"]
    assert [float(row["grams"]) for row in rows] == [case["grams"] for case in document["cases"]]


def test_the_same_budget_is_the_plan(run, tmp_path, cases):
    """The job as it is, the same budget said again, and ``chase plan`` expect one and the same."""
    now, same = cases(budget(), "--max-slowdown", "0.05")
    plan = json.loads(run("plan", "resnet", "--db", tmp_path / "whatif.sqlite", "--json").stdout)
    for key in KEYS.split():
        if key != "case":
            assert now[key] == same[key]
            if key in plan:
                assert now[key] == plan[key]


def test_a_larger_slowdown_never_expects_more_grams(cases):
    """The trade-off in one table: more time, less carbon, down to where time has no use any more."""
    rows = cases(budget(horizon=horizon(21)), "--max-slowdown", "0,0.01,0.025,0.05,0.1,0.2,0.5,1")[1:]
    grams, seconds = ([row[key] for row in rows] for key in ("grams", "seconds"))
    assert grams == sorted(grams, reverse=True)
    assert seconds == sorted(seconds)
    assert grams[0] > grams[-2] == pytest.approx(grams[-1])
    assert rows[0]["slowdown"] == pytest.approx(120.0 / (24 * FRONTIER.reference.seconds_per_unit), abs=1e-6)


def test_time_that_nobody_forecast_is_told(run, tmp_path):
    """A decision holds the prices of the time that it was allowed, and a larger budget may go beyond them."""
    path = fill(tmp_path / "whatif.sqlite", budget(horizon=horizon(22)))
    asked = ("whatif", "resnet", "--db", path, "--max-slowdown", "0.025,0.065")
    rows = json.loads(run(*asked, "--json").stdout)["cases"]
    assert [row["unforecast_seconds"] > 600 for row in rows] == [True, False, True]
    lines = run(*asked).stdout.splitlines()
    assert [line.endswith("like the hours before") for line in lines[3:6]] == [True, False, True]


@pytest.mark.parametrize(("units", "end"), [(1e7, "31 May 3270"), (1e9, "30 Dec 9999"), (1e15, "30 Dec 9999")])
def test_an_end_that_is_far_off_has_its_year(run, tmp_path, units, end):
    """Also where there is more work than there are years."""
    path = fill(tmp_path / "whatif.sqlite", budget(progress=Progress(units_left=units, units_done=4.0, delay_s=120.0)))
    result = run("whatif", "resnet", "--db", path, "--policy", "budget")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[3].split()[2:5] == end.split()


def test_every_combination_is_shown(cases):
    """Lists with commas, one row for each pair, named by what is another."""
    rows = cases(budget(), "--max-slowdown", "0.05, 0.1", "--policy", "budget,off")
    assert [row["case"] for row in rows] == [
        "now",
        "max_slowdown 0.05, policy budget",
        "max_slowdown 0.05, policy off",
        "max_slowdown 0.1, policy budget",
        "max_slowdown 0.1, policy off",
    ]
    assert [row["saved_grams"] for row in rows if row["policy"] == "off"] == [0, 0]


def test_other_policies_are_walked_through_the_hours(cases):
    """None is better than the budget policy with the time that it took: its plan is the optimum of what is expected."""
    _, threshold, rule, static = cases(budget(), "--policy", "threshold,chase,static")
    for other in (threshold, rule, static):
        assert other["units"] == pytest.approx(20.0)
        assert other["end"] is not None
        left = (other["slowdown"] + 1e-9) if other["slowdown"] > 0 else 0.0
        _, planned = cases(budget(), "--max-slowdown", repr(left))
        assert planned["grams"] <= other["grams"] * (1 + 1e-9)
    assert static["timing_grams"] == pytest.approx(0, abs=1e-3 * static["reference_grams"])


def test_eta_is_for_the_papers_rule(cases):
    """More weight on energy, slower and fewer joules."""
    rows = cases(budget(), "--policy", "chase", "--eta", "0,0.5,1")[1:]
    energy = [row["energy_kwh"] for row in rows]
    assert energy == sorted(energy, reverse=True)
    assert energy[0] > energy[-1]


def test_a_deadline_counts_from_the_decision(cases):
    """By the job's own clock, which may be a simulated one: in so many hours, or at a moment; ``none`` is none."""
    given = budget(rules=Rules(name="budget"))
    now, span, moment, none = cases(given, "--deadline", "21h30m,2026-03-02T07:50Z,none")
    assert span["seconds"] == moment["seconds"] == pytest.approx(21.5 * 3600)
    assert datetime.fromisoformat(moment["end"]) == AT + 21.5 * HOUR
    assert none["grams"] == now["grams"]


def test_a_limit_of_power_is_kept(cases):
    """A ceiling that leaves too little time says how late it is; a floor costs carbon."""
    now, low, high = cases(budget(), "--min-power-limit", "none,275", "--max-power-limit", "none")
    assert low["grams"] == now["grams"] < high["grams"]
    _, capped = cases(budget(), "--max-power-limit", "200", "--max-slowdown", "0.01")
    assert capped["late_seconds"] > 3600


def test_a_job_of_unknown_length_is_compared_over_the_same_time(run, tmp_path, cases):
    """Each row is what it would do in that time; there is no end, and a deadline is refused."""
    given = budget(progress=Progress(units_done=4.0))
    now, slower = cases(given, "--max-slowdown", "0.2", record=job(total_units=None))
    assert now["end"] is slower["end"] is None
    assert now["seconds"] == pytest.approx(slower["seconds"])
    assert now["units"] > slower["units"]
    result = run("whatif", "resnet", "--db", tmp_path / "whatif.sqlite", "--deadline", "3d")
    assert result.exit_code == 2
    assert "a deadline needs a job whose length is known" in result.stderr


@pytest.fixture
def regions(tmp_path):
    """Files of two regions, and a database with a day of hours and prices of the second."""
    for name in ("here", "there"):
        (tmp_path / f"{name}.toml").write_text(REGION.format(name=name, folder=tmp_path))
    return tmp_path / "here.toml", tmp_path / "there.toml"


def _store_hours(path, zone, *, g_per_kwh, per_kwh=None):
    store = Store(path, clock=ManualClock(AT))
    first = AT.replace(minute=0)
    facts = {"zone": zone, "fetched_at": AT - HOUR / 2, "kind": Kind.MEASURED}
    store.add_points(hour_to(first + n * HOUR, g_per_kwh, **facts) for n in range(-29, 1))
    facts |= {"kind": Kind.FORECAST, "issued_at": AT - HOUR}
    store.add_points(hour_to(first + n * HOUR, g_per_kwh, **facts) for n in range(1, 49))
    if per_kwh is not None:
        starts = [first + n * HOUR for n in range(-24, 30)]
        facts = {"zone": zone, "fetched_at": AT - HOUR}
        store.add_prices(price_to(at + HOUR, per_kwh * (2 if at.hour < 12 else 1), **facts) for at in starts)
    store.close()


def test_another_region_is_what_the_service_stored_of_it(run, tmp_path, regions):
    """A grid twice as clean at all hours emits half as much, and the row says what that rests on."""
    path = fill(tmp_path / "whatif.sqlite", budget(horizon=horizon(by_day=0.0)))
    _store_hours(path, "there", g_per_kwh=100.0)
    now, there = json.loads(run("whatif", "resnet", "--db", path, "--region", regions[1], "--json").stdout)["cases"]
    assert (now["region"], now["grid"]) == ("gb", "as decided")
    assert (there["region"], there["grid"]) == ("there", "measured by file")
    assert there["grams"] == pytest.approx(now["grams"] / 2, rel=0.01)


def test_another_region_of_which_nothing_is_stored_is_typical(cases):
    """And called so."""
    _, france = cases(budget(), "--region", "fr")
    assert (france["region"], france["grid"]) == ("fr", "typical")
    assert 0 < france["grams"] < 1000


def test_money_is_known_where_prices_are_stored(run, tmp_path, regions):
    """Beside grams in every row; and it can be minimised, which saves at least as much of it."""
    here = regions[0]
    path = fill(tmp_path / "whatif.sqlite", budget(), job(region="here"))
    _store_hours(path, "here", g_per_kwh=200.0, per_kwh=0.1)
    (tmp_path / "chase.toml").write_text(f'[service]\nregion = "{here}"\n')
    asked = ("whatif", "resnet", "--db", path, "--config", tmp_path / "chase.toml", "--minimise", "money,both")
    result = run(*asked, "--json")
    now, money, both = json.loads(result.stdout)["cases"]
    assert {row["currency"] for row in (now, money, both)} == {"EUR"}
    assert money["cost"] <= both["cost"] * (1 + 1e-9) <= now["cost"] * (1 + 2e-9)
    assert money["saved_cost"] > now["saved_cost"]
    assert "money saved" in run(*asked).stdout


def test_a_job_without_a_plan_can_ask_what_one_would_do(cases):
    """A job under thresholds has no prices ahead in its decisions: the database's, or what is typical, are taken."""
    given = budget(rules=Rules(name="threshold"), horizon=None)
    now, planned = cases(given, "--policy", "budget", "--max-slowdown", "0.05")
    assert (now["policy"], planned["policy"]) == ("threshold", "budget")
    assert now["grid"] == planned["grid"] == "typical"
    assert planned["saved_grams"] > 0


def test_a_hold_is_no_part_of_the_comparison(cases):
    """It ends; what is compared is what the policies would do."""
    held, free = (cases(budget(hold=hold), "--max-slowdown", "0.1") for hold in ("off", None))
    assert held == free


def test_people_get_a_table_and_what_the_shares_are_of(run, tmp_path):
    """One line a case, percentages of full power, and a note on what is late or typical."""
    path = fill(tmp_path / "whatif.sqlite", budget())
    out = run("whatif", "resnet", "--db", path, "--max-slowdown", "0.1", "--region", "fr").stdout
    header, now, other = out.splitlines()[2:5]
    assert header.split()[:2] == ["what", "if"]
    assert now.startswith("now (budget)  ")
    assert other.startswith("max_slowdown 0.1, region fr")
    assert other.endswith("grid of fr: typical")
    assert "of the same work at full power from now on" in out


WRONG = {
    "nothing": ([], "say what is to be another: --max-slowdown"),
    "no policy": (["--policy", "budet"], "did you mean 'budget'?"),
    "no number": (["--max-slowdown", "0.1,much"], "Invalid value for '--max-slowdown': '0.1,much' is no number"),
    "no watts": (["--max-power-limit", "90%"], "'90%' is no number"),
    "not finite": (["--max-slowdown", "nan"], "'nan' is no number"),
    "below 0": (["--max-slowdown", "-0.1"], "policy.max_slowdown = -0.1: must be greater than or equal to 0"),
    "no share": (["--eta", "2"], "policy.eta = 2"),
    "no time": (["--deadline", "soon"], "'soon' is not a time"),
    "over": (["--deadline", "2026-02-01"], "2026-02-01 is already over"),
    "no region": (["--region", "atlantis"], "atlantis"),
    "crossed": (["--min-power-limit", "250", "--max-power-limit", "200"], "min_power_limit_w 250 is above"),
    "eta of another": (
        ["--eta", "0.5"],
        "--eta does nothing under policy budget: give it with --policy chase alone, or leave it out",
    ),
    "eta of some": (["--policy", "chase,budget", "--eta", "0.5"], "--eta does nothing under policy budget"),
    "a price of carbon alone": (
        ["--carbon-price-per-kg", "0.1"],
        "--carbon-price-per-kg does nothing under policy budget and minimise carbon: give it with --policy budget",
    ),
    "a price without a plan": (
        ["--policy", "off", "--carbon-price-per-kg", "0.1"],
        "--carbon-price-per-kg does nothing under policy off: give it with --policy budget --minimise both alone",
    ),
    "prices without a plan": (
        ["--policy", "threshold", "--minimise", "carbon"],
        "--minimise does nothing under policy threshold: give it with --policy budget alone",
    ),
    "too many": (["--max-slowdown", ",".join(["0.1"] * 65)], "65 combinations"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_wrong_usage_in_plain_words(run, tmp_path, mistake):
    """The option or the setting, its value and what it must be."""
    arguments, text = WRONG[mistake]
    result = run("whatif", "resnet", "--db", fill(tmp_path / "whatif.sqlite", budget()), *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert text in result.stderr


def test_a_slowdown_may_be_a_percentage(cases):
    """As of ``chase exec``."""
    assert cases(budget(), "--max-slowdown", "10%,2.5%") == cases(budget(), "--max-slowdown", "0.1,0.025")


def test_eta_is_of_zeus_cost_too(cases):
    """The static policy may go by it, as the configuration says, and chooses by the weight of energy."""
    rules = Rules(name="static", selector="zeus-cost")
    _, fast, frugal = cases(budget(rules=rules), "--eta", "0,1")
    assert fast["seconds"] < frugal["seconds"]
    assert fast["energy_kwh"] > frugal["energy_kwh"]


def test_no_prices_to_minimise_is_an_answer(run, tmp_path):
    """Exit code 1: nothing is stored of what electricity costs."""
    result = run("whatif", "resnet", "--db", fill(tmp_path / "whatif.sqlite", budget()), "--minimise", "money")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no price of electricity ahead is stored" in result.stderr
