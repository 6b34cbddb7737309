"""``chase signal``: what is stored, what the sources say, what is typical, and which of them it was."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from grid_log import HOUR, hour_to

from chase.clock import ManualClock
from chase.store import Store
from providers.base import Kind


@pytest.fixture
def stored(tmp_path):
    """Store points of the source ``file`` for the zone ``quiet``, the last observed one ``age`` old."""

    def fill(age: timedelta, *, ahead: int = 3):
        path = tmp_path / "stored.sqlite"
        now = datetime.now(UTC)
        end = now - age
        observed = [hour_to(end - n * HOUR, 200.0 + n) for n in range(5)]
        issue = {"kind": Kind.FORECAST, "issued_at": end, "fetched_at": end}
        expected = [hour_to(end + (n + 1) * HOUR, 300.0 + n, **issue) for n in range(ahead)]
        store = Store(path, clock=ManualClock(now))
        store.add_points([*observed, *expected])
        store.close()
        return path

    return fill


def test_what_the_service_stored_is_shown_without_asking_anybody(run, quiet_region, stored):
    """Value, kind, source and age come from the database, and so do the hours ahead."""
    document = json.loads(run("signal", quiet_region, "--db", stored(timedelta(minutes=30)), "--json").stdout)
    assert (document["g_per_kwh"], document["kind"], document["source"]) == (200.0, "estimated", "file")
    assert document["freshness"] == "fresh"
    assert 1790 <= document["age_s"] <= 1900
    first = document["ahead"][0]
    assert (first["kind"], first["by"]) == ("forecast", "chase+file")
    assert 200.0 < first["g_per_kwh"] < 301.0
    assert first["low"] <= first["g_per_kwh"] <= first["high"]
    assert first["age_s"] >= 1790
    assert document["note"] == ""


def test_an_old_value_is_called_stale(run, quiet_region, stored):
    """Two hours old is still usable, and said to be so."""
    out = run("signal", quiet_region, "--db", stored(timedelta(hours=2))).stdout
    assert "200 g/kWh, average lifecycle, estimated by file, 2 h old, stale" in out


def test_when_everything_is_too_old_it_says_so(run, quiet_region, stored):
    """A region without a typical profile has nothing then; the remedy is named."""
    document = json.loads(run("signal", quiet_region, "--db", stored(timedelta(days=3)), "--json").stdout)
    assert document["g_per_kwh"] is None
    assert "--refresh" in document["note"]
    assert "nothing usable" in run("signal", quiet_region, "--db", stored(timedelta(days=3))).stdout


def test_refresh_asks_the_sources(run, quiet_region, tmp_path):
    """Nothing is stored, so the value is the source's own, and the hours ahead are its forecast."""
    document = json.loads(run("signal", quiet_region, "--refresh", "--db", tmp_path / "none.sqlite", "--json").stdout)
    assert document["source"] == "file"
    assert document["g_per_kwh"] == pytest.approx(100.0, abs=2)
    assert document["ahead"]


def test_without_a_database_it_is_what_is_typical(run, tmp_path):
    """The profile of the region, labelled as typical; nothing goes over the network."""
    result = run("signal", "us-cal-ciso", "--db", tmp_path / "none.sqlite", "--json", "--hours", 6)
    document = json.loads(result.stdout)
    assert (result.exit_code, document["kind"], document["freshness"]) == (0, "typical", "fallback")
    assert len(document["ahead"]) == 6
    assert document["region"] == "us-cal-ciso"


def test_the_chart_has_a_bar_for_each_hour(run, tmp_path):
    """The greatest value has the longest bar, and each line starts at a full hour in UTC."""
    lines = run("signal", "de", "--db", tmp_path / "none.sqlite", "--hours", 12).stdout.splitlines()
    rows = [line.split() for line in lines if ":00:00Z" in line]
    assert len(rows) == 12
    values = [int(row[2]) for row in rows]
    bars = [len(row[3]) for row in rows]
    assert bars[values.index(max(values))] == max(bars) == 32
    for value, bar in zip(values, bars, strict=True):
        assert bar == pytest.approx(32 * value / max(values), abs=1)


@pytest.mark.parametrize("hours", [1, 2, 24])
def test_the_table_and_the_document_hold_the_same_hours(run, tmp_path, hours):
    """Both begin with the next full hour and end so many hours later, with the same values."""
    asked = ("signal", "us-cal-ciso", "--db", tmp_path / "none.sqlite", "--hours", hours)
    rows = [line.split() for line in run(*asked).stdout.splitlines() if ":00:00Z" in line]
    ahead = json.loads(run(*asked, "--json").stdout)["ahead"]
    assert len(rows) == hours
    assert [point["start"] for point in ahead] == [f"{row[0]}T{row[1]}" for row in rows]
    assert [f"{point['g_per_kwh']:.0f}" for point in ahead] == [row[2] for row in rows]


def test_a_source_without_its_token_is_named_once(run, tmp_path):
    """What stands in the way of asking is said, and the page is there all the same."""
    result = run("signal", "br-cs", "--refresh", "--db", tmp_path / "none.sqlite")
    assert result.exit_code == 0
    assert "token" in result.stderr + result.stdout
    assert "typical" in result.stdout


def test_the_table_shows_how_sure_each_hour_is(run, quiet_region, stored):
    """Beside the value the 80 % within which it is expected, and by whom."""
    out = run("signal", quiet_region, "--db", stored(timedelta(minutes=30)), "--hours", 30).stdout
    header, *rows = [line for line in out.splitlines() if "80 % within" in line or ":00:00Z" in line]
    assert "by" in header.split()
    assert len(rows) == 30
    assert all(re.search(r"\d+ to \d+ +(forecast|typical) +\S+$", row) for row in rows)


@pytest.mark.parametrize("hours", [48, 168])
def test_a_week_ahead_where_it_is_asked_for(run, tmp_path, hours):
    """As many hours as asked for, in the table and in the document."""
    asked = ("signal", "us-cal-ciso", "--db", tmp_path / "none.sqlite", "--hours", hours)
    assert len([line for line in run(*asked).stdout.splitlines() if ":00:00Z" in line]) == hours
    assert len(json.loads(run(*asked, "--json").stdout)["ahead"]) == hours


def test_hours_beyond_the_horizon_are_refused(run):
    """A week is as far as anything looks."""
    assert run("signal", "gb", "--hours", "169").exit_code == 2


@pytest.mark.parametrize("arguments", [[], ["us-cal-ciso"], ["--hours", "3"], ["us-cal-ciso", "--hours", "3"]])
def test_show_may_be_left_out(run, tmp_path, arguments):
    """``chase signal REGION`` is ``chase signal show REGION``, whatever comes first, and prints the same."""
    database = ("--db", str(tmp_path / "none.sqlite"))
    short, long = run("signal", *arguments, *database), run("signal", "show", *arguments, *database)
    assert short.exit_code == 0
    assert short.stdout.splitlines()[-1] == long.stdout.splitlines()[-1]


def test_a_region_that_does_not_exist_is_no_missing_command(run):
    """The first word is a region's name, so a mistyped one is told what regions there are."""
    result = run("signal", "us-cal-cisco")
    assert result.exit_code == 2
    assert "did you mean 'us-cal-ciso'" in result.stderr


def test_the_help_of_the_group_names_what_is_in_it(run):
    """``chase signal --help`` is the list of its commands, not the help of the default one."""
    out = run("signal", "--help").stdout
    assert "show " in out.split("Commands:")[1]
    assert "Ask the sources now" not in out


def test_a_source_that_is_down_says_since_when_and_when_it_was_last_good(run, quiet_region, stored, tmp_path):
    """Its provider's outage, not the reader's token: both times stand before the error, and in the document."""
    (tmp_path / "trace.csv").unlink()
    asked = ("signal", quiet_region, "--refresh", "--db", stored(timedelta(minutes=30)))
    (line,) = (line for line in run(*asked).stdout.splitlines() if line.startswith("  file (quiet): "))
    assert re.match(r"  file \(quiet\): down since [-\d: ]+Z, last good [-\d: ]+Z: Transient: .* does not exist", line)
    (source,) = json.loads(run(*asked, "--json").stdout)["sources"]
    assert source["down_since"] > source["last_good"]
    assert source["problem"].startswith("Transient: ")


MISTYPED = {"histroy": "history", "price": "prices", "shwo": "show"}


@pytest.mark.parametrize("word", MISTYPED)
def test_a_mistyped_command_is_not_taken_for_a_region(run, word):
    """Whatever follows it, the command that was meant is named; what is like none of them is a region's name."""
    for more in ((), ("gb",), ("gb", "--json")):
        result = run("signal", word, *more)
        assert result.exit_code == 2
        assert f"No such command or region {word!r}. Did you mean {MISTYPED[word]!r}?" in result.stderr
    assert "region 'atlantis' is unknown" in run("signal", "atlantis").stderr


@pytest.mark.parametrize("command", ["", "history", "prices"])
def test_a_region_of_a_configured_file_goes_by_its_id(run, tmp_path, quiet_region, stored, command):
    """The commands that take a region's name know it where the service does, and no other."""
    quiet_region.write_text(f'{quiet_region.read_text()}[[prices]]\nprovider = "energy_charts"\nzone = "DE-LU"\n')
    config = tmp_path / "chase.toml"
    config.write_text(f'[service]\nregion = "{quiet_region}"\n')
    more = ("--config", config, "--db", stored(timedelta(minutes=30)))
    found = run("signal", *command.split(), "quiet", *more)
    assert (found.exit_code, found.stderr) == (0, "")
    assert run("signal", *command.split(), "loud", *more).exit_code == 2
