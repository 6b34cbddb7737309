"""``chase signal history``: the newest word of each source, or every word with the times of it."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime

import pytest
from grid_log import HOUR, hour_to

from chase.clock import ManualClock
from chase.store import Store
from providers.base import Kind

NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
TIMES = ("fetched_at", "updated_at", "issued_at")


def point(hours_ago: int, g_per_kwh: float, *, read_h: float, **facts):
    return hour_to(NOW - (hours_ago - 1) * HOUR, g_per_kwh, **{"fetched_at": NOW - read_h * HOUR, **facts})


@pytest.fixture
def stored(tmp_path):
    """Three hours, one of them revised twice, an old one, a forecast in two issues, and another region's hour."""
    path = tmp_path / "stored.sqlite"
    store = Store(path, clock=ManualClock(NOW))
    store.add_points([point(40, 90.0, read_h=39)])
    store.add_points([point(3, 100.0, read_h=2.5), point(2, 110.0, read_h=2.5)])
    store.add_points([point(3, 104.0, read_h=2, updated_at=NOW - 2.25 * HOUR)])
    store.add_points([point(3, 108.0, read_h=1, kind=Kind.MEASURED), point(1, 120.0, read_h=1)])
    for value, issued_h in ((95.0, 9), (99.0, 4)):
        issue = {"kind": Kind.FORECAST, "issued_at": NOW - issued_h * HOUR}
        store.add_points([point(2, value, read_h=issued_h, **issue), point(-3, value, read_h=issued_h, **issue)])
    store.add_points([point(1, 7.0, read_h=0, zone="elsewhere")])
    store.close()
    return path


def rows(result) -> list[dict]:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_the_newest_word_of_each_hour(run, quiet_region, stored):
    """One row for each interval of the last day, oldest first, of the region's own sources alone."""
    found = rows(run("signal", "history", quiet_region, "--db", stored, "--json"))
    assert [(row["g_per_kwh"], row["kind"]) for row in found] == [
        (108.0, "measured"),
        (110.0, "estimated"),
        (120.0, "estimated"),
    ]
    assert {row["zone"] for row in found} == {"quiet"}


def test_every_vintage_with_its_times(run, quiet_region, stored):
    """What was first said of an hour is there, before what it was revised to; each with when it was read and dated."""
    found = rows(run("signal", "history", quiet_region, "--db", stored, "--json", "--vintages"))
    assert [row["g_per_kwh"] for row in found] == [100.0, 104.0, 108.0, 110.0, 120.0]
    read = [datetime.fromisoformat(row["fetched_at"]) for row in found]
    assert read[:3] == [NOW - 2.5 * HOUR, NOW - 2 * HOUR, NOW - HOUR]
    assert [row["updated_at"] is not None for row in found] == [False, True, False, False, False]


def test_forecasts_as_they_were_issued(run, quiet_region, stored):
    """With --forecasts what was expected, also of hours to come; with --vintages in every issue."""
    newest = rows(run("signal", "history", quiet_region, "--db", stored, "--json", "--forecasts"))
    assert [row["g_per_kwh"] for row in newest] == [99.0, 99.0]
    every = rows(run("signal", "history", quiet_region, "--db", stored, "--json", "--forecasts", "--vintages"))
    assert [row["g_per_kwh"] for row in every] == [95.0, 99.0, 95.0, 99.0]
    assert {row["kind"] for row in every} == {"forecast"}
    assert all(row["issued_at"] for row in every)


@pytest.mark.parametrize(("since", "hours"), [("2h5m", [110.0, 120.0]), ("3d", [90.0, 108.0, 110.0, 120.0])])
def test_since(run, quiet_region, stored, since, hours):
    """As far back as asked: the interval that was running then is one of them."""
    found = rows(run("signal", "history", quiet_region, "--db", stored, "--json", "--since", since))
    assert [row["g_per_kwh"] for row in found][-2:] == hours[-2:]
    assert (90.0 in [row["g_per_kwh"] for row in found]) == (90.0 in hours)


@pytest.mark.parametrize("arguments", [[], ["--vintages"], ["--forecasts", "--vintages"]])
def test_csv_has_the_same_rows(run, quiet_region, stored, arguments):
    """One line each under a header, the times in it."""
    asked = ("signal", "history", quiet_region, "--db", stored, *arguments)
    table = list(csv.DictReader(io.StringIO(run(*asked, "--csv").stdout)))
    document = rows(run(*asked, "--json"))
    assert [float(row["g_per_kwh"]) for row in table] == [row["g_per_kwh"] for row in document]
    assert set(TIMES) <= set(table[0])


def test_the_table_shows_the_times_of_vintages_alone(run, quiet_region, stored):
    """The newest values need no more columns than a narrow terminal has."""
    asked = ("signal", "history", quiet_region, "--db", stored)
    assert "read at" not in run(*asked).stdout
    header = run(*asked, "--vintages").stdout.splitlines()[0]
    assert all(title in header for title in ("read at", "source's date", "issued at"))


def test_nothing_stored_is_said(run, quiet_region, stored):
    """An empty table is a line on stderr with the region and the time, and no error."""
    result = run("signal", "history", quiet_region, "--db", stored, "--since", "10m", "--forecasts")
    assert result.exit_code == 0
    empty = run("signal", "history", "us-cal-ciso", "--db", stored)
    assert empty.exit_code == 0
    assert "No intensity of us-cal-ciso is stored since" in empty.stderr
    assert empty.stdout == ""


def test_without_a_database_it_says_what_to_do(run, quiet_region, tmp_path):
    """There is no history of a service that never ran."""
    result = run("signal", "history", quiet_region, "--db", tmp_path / "none.sqlite")
    assert result.exit_code != 0
    assert "there is no database" in result.stderr
