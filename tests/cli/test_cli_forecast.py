"""``chase forecast eval``: forecasters scored on what the database holds of a region."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime

import pytest
from grid_log import HOUR, hour_to

from chase.cli import forecast as command
from chase.clock import ManualClock
from chase.config import load_region
from chase.forecast import named
from chase.store import Store
from providers.base import Kind

NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


@pytest.fixture
def stored(tmp_path):
    """So many hours of a source of the region up to now: 100 g, and 200 g in the afternoon."""

    def fill(hours, source, kind=Kind.MEASURED):
        path = tmp_path / "chase.sqlite"
        values = [200.0 if (NOW - n * HOUR).hour >= 12 else 100.0 for n in range(hours)]
        store = Store(path, clock=ManualClock(NOW))
        facts = {"source": source.provider, "zone": source.zone, "kind": kind}
        store.add_points([hour_to(NOW - n * HOUR, v, **facts) for n, v in enumerate(values)])
        store.close()
        return path

    return fill


SOURCES = load_region("de").sources


def test_forecasters_are_scored_beside_each_other(run, stored):
    """One row for each lead and forecaster, after whose history it was and from when to when."""
    path = stored(24 * 12, SOURCES[0])
    result = run("forecast", "eval", "de", "--db", path, "--days", 2)
    assert result.exit_code == 0
    assert f"history of {SOURCES[0].provider} ({SOURCES[0].zone}), steps of 3600 s" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines() if line.strip().startswith("24 ")]
    assert [row[1] for row in rows] == ["chase", "persistence", "yesterday", "last-week", "week-mean"]
    assert rows[2][2] == "0.0"  # each day is as the one before


def test_one_json_document(run, stored):
    """Numbers as numbers, what there is none of as null."""
    path = stored(24 * 6, SOURCES[0])
    text = run("forecast", "eval", "de", "--db", path, "--days", 1, "--forecaster", "persistence", "--json").stdout
    document = json.loads(text)
    assert (document["region"], document["source"], document["step_s"]) == ("de", SOURCES[0].provider, 3600)
    assert document["last"] == NOW.isoformat().replace("+00:00", "Z")
    first = document["scores"][0]
    assert (first["forecaster"], first["lead_h"], first["count"]) == ("persistence", 1, 23)
    assert first["pinball"] is None
    assert 0 < first["mape"] < 1


def test_the_paper_s_is_one_of_them(run, stored):
    """By name, as often as asked, each once."""
    path = stored(24 * 5, SOURCES[0])
    chosen = ("--forecaster", "svr", "--forecaster", "yesterday", "--forecaster", "svr")
    result = run("forecast", "eval", "de", "--db", path, "--days", 1, *chosen, "--json")
    assert [s["forecaster"] for s in json.loads(result.stdout)["scores"]][:2] == ["svr", "yesterday"]


def test_without_scikit_learn_it_says_what_to_install(run, stored, monkeypatch):
    """The rest works without it."""
    monkeypatch.setitem(sys.modules, "sklearn.svm", None)
    path = stored(24 * 5, SOURCES[0])
    result = run("forecast", "eval", "de", "--db", path, "--forecaster", "svr")
    assert result.exit_code == 1
    assert "pip install 'carbon-chase[svr]'" in result.stderr
    assert run("forecast", "eval", "de", "--db", path, "--days", 1).exit_code == 0


def test_the_first_source_with_enough_is_taken(run, stored):
    """A source that has said nothing is passed over."""
    path = stored(24 * 5, SOURCES[1])
    document = json.loads(run("forecast", "eval", "de", "--db", path, "--days", 1, "--json").stdout)
    assert document["source"] == SOURCES[1].provider


@pytest.mark.parametrize(("hours", "kind"), [(30, Kind.MEASURED), (200, Kind.TYPICAL)])
def test_too_little_history_is_said_with_how_much_there_is(run, stored, hours, kind):
    """What each source has, what it takes, and what to do; typical values are no history."""
    result = run("forecast", "eval", "de", "--db", stored(hours, SOURCES[0], kind))
    assert result.exit_code == 1
    found = hours if kind is Kind.MEASURED else 0
    assert f"{found} h of {SOURCES[0].provider} ({SOURCES[0].zone})" in result.stderr
    assert "it takes 2 days and some hours: let 'chase serve' run on" in result.stderr


def test_without_a_database_it_says_so(run, tmp_path):
    """Nothing is made."""
    result = run("forecast", "eval", "de", "--db", tmp_path / "none.sqlite")
    assert result.exit_code == 1
    assert "there is no database here" in result.stderr
    assert not (tmp_path / "none.sqlite").exists()


def test_an_unknown_forecaster_is_wrong_usage(run):
    """The names that there are, are in the message."""
    result = run("forecast", "eval", "de", "--forecaster", "oracle")
    assert result.exit_code == 2
    assert "'last-week'" in result.stderr


def test_an_unknown_region_is_wrong_usage(run):
    """As everywhere."""
    assert run("forecast", "eval", "atlantis").exit_code == 2


def test_the_command_knows_every_forecaster():
    """Its names are those of the registry, which it does not load to show its help."""
    assert tuple(named.ALL) == command._NAMES
