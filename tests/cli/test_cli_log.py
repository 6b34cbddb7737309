"""Commands that read the log: a real file, filled through the store by the real policy."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from chase.cli import jobref
from chase.clock import ManualClock
from chase.store import Store

RESNET, BERT = "aa" * 16, "ab" + "cd" * 15


def test_decisions_are_listed_newest_first_with_their_reasons(run, log):
    """The table has one line a decision, and says limit, intensity and why."""
    lines = run("decisions", "--db", log.path).stdout.splitlines()
    assert lines[0].split() == ["id", "time", "job", "mode", "limit", "W", "g/kWh", "reason"]
    assert len(lines) == 1 + log.decisions
    assert "2026-03-01 10:00:00Z" in lines[1]
    assert "240 g/kWh is above 180: efficiency-first" in lines[1]
    assert "150" in lines[1]


def test_decisions_as_json_are_one_array_with_stable_keys(run, log):
    """A program gets every column under its stored name, times in UTC with Z, and what was applied."""
    rows = json.loads(run("decisions", "--db", log.path, "--json").stdout)
    assert len(rows) == log.decisions
    newest = rows[0]
    assert newest["at"] == "2026-03-01T10:00:00Z"
    assert newest["job_id"] == RESNET
    assert (newest["power_limit_w"], newest["intensity_g_per_kwh"], newest["intensity_age_s"]) == (150.0, 240.0, 720.0)
    assert [applied["status"] for applied in newest["applied"].values()] == ["applied"]
    keys = "id at job_id job_name trigger mode policy code reason power_limit_w intensity_g_per_kwh intensity_kind"
    keys += " intensity_age_s control applied"
    assert [sorted(row) for row in rows] == [sorted(keys.split())] * len(rows)


def test_an_observed_decision_is_marked_in_the_table(run, log):
    """Where nothing was applied because the service only observes, a person sees it."""
    assert " control " not in run("decisions", "--db", log.path).stdout.splitlines()[0]
    with closing(sqlite3.connect(log.path)) as conn, conn:
        conn.execute("UPDATE decisions SET control = 'observe' WHERE id = 1")
    out = run("decisions", "--db", log.path).stdout
    assert " control " in out.splitlines()[0]
    assert " observe " in out


def test_decisions_in_full_carry_what_was_weighed(run, log):
    """With ``--full`` the inputs and the alternatives are there too."""
    newest = json.loads(run("decisions", "--db", log.path, "--json", "--full", "--limit", 1).stdout)[0]
    assert newest["inputs"]["grid"]["efficiency_above_g"] == 180.0
    assert len(newest["choice"]["candidates"]) == 3


def test_decisions_in_all_forms_are_the_same_rows(run, log):
    """CSV, lines of JSON and the array hold the same decisions in the same order."""
    array = json.loads(run("decisions", "--db", log.path, "--json").stdout)
    lines = [json.loads(line) for line in run("decisions", "--db", log.path, "--nl").stdout.splitlines()]
    table = list(csv.DictReader(io.StringIO(run("decisions", "--db", log.path, "--csv").stdout)))
    assert lines == array
    assert [row["reason"] for row in table] == [row["reason"] for row in array]
    assert [float(row["power_limit_w"]) for row in table] == [row["power_limit_w"] for row in array]


def test_a_limit_that_cuts_says_so_on_stderr(run, log):
    """The newest are shown; that there are more is said, and not in the data."""
    result = run("decisions", "--db", log.path, "--limit", 2, "--json")
    assert [row["intensity_g_per_kwh"] for row in json.loads(result.stdout)] == [240.0, 210.0]
    assert "There are more" in result.stderr
    for everything in ("0", str(log.decisions)):
        result = run("decisions", "--db", log.path, "--limit", everything, "--json")
        assert len(json.loads(result.stdout)) == log.decisions
        assert result.stderr == ""


@pytest.mark.parametrize("which", [BERT, "ab", "bert"])
def test_a_job_is_named_by_id_beginning_or_name(run, log, which):
    """Whichever way a person names the job, its decisions are the ones shown."""
    rows = json.loads(run("decisions", "--db", log.path, "--job", which, "--json").stdout)
    assert [row["job_id"] for row in rows] == [BERT]


def test_the_beginning_of_two_ids_is_refused_with_both(run, log):
    """An ambiguous beginning is a usage error that lists what it could be."""
    result = run("decisions", "--db", log.path, "--job", "a")
    assert result.exit_code == 2
    assert RESNET in result.stderr
    assert BERT in result.stderr


def test_a_name_used_twice_means_the_newest_and_says_so(run, log):
    """The last job of that name is taken, and stderr says which of how many."""
    store = Store(log.path, clock=ManualClock(datetime(2026, 3, 2, tzinfo=UTC)))
    old = store.job(RESNET)
    from dataclasses import replace

    store.upsert_job(replace(old, id="ee" * 16, registered_at=old.registered_at + timedelta(days=1)))
    store.close()
    result = run("decisions", "--db", log.path, "--job", "resnet", "--json")
    assert json.loads(result.stdout) == []
    assert "ee" * 16 in result.stderr


def test_an_unknown_job_is_a_usage_error(run, log):
    """The text names what was asked for and where to look."""
    result = run("decisions", "--db", log.path, "--job", "nosuch")
    assert result.exit_code == 2
    assert "'nosuch'" in result.stderr
    assert "chase jobs" in result.stderr


def test_a_name_goes_before_the_beginning_of_an_id():
    """A job called e5 is found though another's id begins so; a whole id is never a name."""
    known = [("e5" + "0" * 30, "bert"), ("aa" * 16, "e5"), ("bb" * 16, "aa" * 16)]
    assert jobref.find(known, "e5") == "aa" * 16
    assert jobref.find(known, "e50") == "e5" + "0" * 30
    assert jobref.find(known, "aa" * 16) == "aa" * 16


@pytest.mark.parametrize("nothing", ["", " "])
def test_no_name_is_no_job(run, log, nothing):
    """A script's unset variable is not the beginning of whatever id is there."""
    result = run("report", nothing, "--db", log.path)
    assert result.exit_code == 2
    assert "no job is named" in result.stderr


def test_since_takes_a_moment(run, log):
    """Only decisions from then on are shown."""
    rows = json.loads(run("decisions", "--db", log.path, "--since", "2026-03-01T09:00Z", "--json").stdout)
    assert [row["at"][11:16] for row in rows] == ["10:00", "09:00"]
    assert json.loads(run("decisions", "--db", log.path, "--since", "1h", "--json").stdout) == []


def test_since_that_is_no_time_is_a_usage_error(run, log):
    """The option and the text are named, with how to write it."""
    result = run("decisions", "--db", log.path, "--since", "last tuesday")
    assert result.exit_code == 2
    assert "--since" in result.stderr
    assert "6h" in result.stderr


def test_no_decisions_leave_stdout_empty(run, log):
    """An empty answer is said on stderr and costs no exit code."""
    result = run("decisions", "--db", log.path, "--since", "1m")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No decisions.\n")


def test_explain_takes_the_decision_again(run, log):
    """The text says what was weighed and why, and that it came out the same."""
    result = run("explain", 5, "--db", log.path)
    assert result.exit_code == 0
    assert "240 g/kWh is above 180: efficiency-first" in result.stdout
    assert "150 W" in result.stdout
    assert "the same choice" in result.stdout


def test_explain_as_json_holds_both_choices(run, log):
    """The recorded choice and the retaken one are both there, with the inputs."""
    document = json.loads(run("explain", 1, "--db", log.path, "--json").stdout)
    assert document["same"] is True
    assert document["recorded"] == document["retaken"]
    assert document["inputs"]["grid"]["g_per_kwh"] == 90.0


def test_explain_of_a_decision_that_comes_out_otherwise_is_a_finding(run, log):
    """A row whose inputs do not lead to its choice ends with exit code 1 and says so."""
    with closing(sqlite3.connect(log.path)) as conn, conn:
        conn.execute("UPDATE decisions SET inputs_json = replace(inputs_json, '240.0', '100.0') WHERE id = 5")
    result = run("explain", 5, "--db", log.path)
    assert result.exit_code == 1
    assert "100 g/kWh is below 130: speed-first" in result.stdout


def test_explain_of_an_unknown_id_says_where_ids_are(run, log):
    """A number nobody decided is an error with a hint."""
    result = run("explain", 999, "--db", log.path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "no decision 999" in result.stderr
    assert run("explain", "x", "--db", log.path).exit_code == 2


@pytest.mark.parametrize("command", [["decisions"], ["explain", 1], ["jobs", "--all"], ["db", "export", "jobs"]])
def test_a_missing_database_is_an_error_with_a_hint(run, tmp_path, command):
    """No traceback, the path, and what makes one or names one."""
    result = run(*command, "--db", tmp_path / "none.sqlite")
    assert result.exit_code == 1
    assert "none.sqlite" in result.stderr
    assert "'chase serve' makes it, or name another one with --db" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("content", [b"", b"this is not a database" * 100, b"SQLite format 3\x00" + b"\xff" * 500])
def test_a_file_that_is_no_log_is_refused(run, tmp_path, content):
    """An empty, foreign or damaged file is told apart from a log and left as it is."""
    path = tmp_path / "bad.sqlite"
    path.write_bytes(content)
    result = run("decisions", "--db", path)
    assert result.exit_code == 1
    assert "bad.sqlite" in result.stderr
    assert path.read_bytes() == content


def test_reading_changes_nothing(run, log):
    """The readers of the log open it read-only: the file is the same afterwards."""
    before = log.path.read_bytes()
    for command in (["decisions"], ["explain", 1], ["jobs", "--all"], ["db", "export", "decisions"], ["db", "path"]):
        run(*command, "--db", log.path)
    assert log.path.read_bytes() == before


def test_jobs_of_the_database_hold_the_ended_ones_too(run, log):
    """``jobs --all`` needs no service and shows how each ended."""
    rows = json.loads(run("jobs", "--all", "--db", log.path, "--json").stdout)
    assert [(row["name"], row["state"], row["end_reason"]) for row in rows] == [
        ("resnet", "running", ""),
        ("bert", "ended", "done"),
    ]
    assert "2026-03-01 09:00:00Z" in run("jobs", "--all", "--db", log.path).stdout


def test_jobs_since_a_moment_leave_out_what_had_ended(run, log):
    """A job that still runs is always shown."""
    rows = json.loads(run("jobs", "--db", log.path, "--since", "2026-03-01T12:00", "--json").stdout)
    assert [row["name"] for row in rows] == ["resnet"]


def test_db_path_says_where_and_whether(run, log, tmp_path):
    """The path alone is on stdout, so that a shell may use it."""
    assert run("db", "path", "--db", log.path).stdout == f"{log.path}\n"
    document = json.loads(run("db", "path", "--db", log.path, "--json").stdout)
    assert document == {"path": str(log.path), "exists": True, "size_bytes": log.path.stat().st_size}
    missing = run("db", "path", "--db", tmp_path / "none.sqlite")
    assert missing.exit_code == 0
    assert missing.stdout.endswith("none.sqlite\n")
    assert "does not exist yet" in missing.stderr


def test_the_database_is_found_through_the_configuration(run, log, tmp_path):
    """Flag before file before default: a configured state_dir decides where it is."""
    config = tmp_path / "chase.toml"
    config.write_text(f'[service]\nstate_dir = "{log.path.parent}"\n')
    assert run("db", "path", "--config", config).stdout == f"{log.path}\n"
    assert run("decisions", "--config", config, "--json").exit_code == 0
    assert run("db", "path", env={"CHASE_SERVICE__DB": "/elsewhere/x.sqlite"}).stdout == "/elsewhere/x.sqlite\n"


def test_an_unprivileged_reader_finds_the_systems_database(run, log, monkeypatch, tmp_path):
    """Where the user has no database of their own, the system service's is meant."""
    from chase.cli import where
    from chase.config import models

    monkeypatch.setattr(models.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(where, "SYSTEM_DB", log.path)
    assert run("db", "path").stdout == f"{log.path}\n"
    own = tmp_path / "xdg_state_home" / "chase" / "chase.sqlite"
    own.parent.mkdir(parents=True)
    own.touch()
    assert run("db", "path").stdout == f"{own}\n"


@pytest.mark.parametrize("form", [[], ["--nl"], ["--json"], ["--csv"]])
def test_export_prints_every_row_of_a_table(run, log, form):
    """Each form holds all rows with the columns of the file."""
    out = run("db", "export", "decisions", "--db", log.path, *form).stdout
    if form == ["--csv"]:
        rows = list(csv.DictReader(io.StringIO(out)))
    elif form == ["--json"]:
        rows = json.loads(out)
    else:
        rows = [json.loads(line) for line in out.splitlines()]
    assert len(rows) == log.decisions
    assert {"at_utc", "job_id", "inputs_json", "power_limit_w"} <= set(rows[0])


def test_export_of_nothing_is_still_a_document(run, log):
    """An empty table is an empty array, and lines of nothing are nothing."""
    assert json.loads(run("db", "export", "events", "--db", log.path, "--json").stdout) == []
    assert run("db", "export", "events", "--db", log.path).stdout == ""


def test_export_since_a_moment_and_of_an_unknown_table(run, log):
    """``--since`` filters; a table that is not ours to give is a usage error that lists those that are."""
    out = run("db", "export", "decisions", "--db", log.path, "--since", "2026-03-01T10:00").stdout
    assert len(out.splitlines()) == 1
    result = run("db", "export", "sqlite_master", "--db", log.path)
    assert result.exit_code == 2
    assert "decisions" in result.stderr


def test_prune_drops_what_is_older_than_asked_and_keeps_open_jobs(run, log):
    """The ended job's decision goes, the running job's stay, and the counts are said."""
    dropped = json.loads(run("db", "prune", "--db", log.path, "--keep-days", 1, "--json").stdout)
    assert dropped["decisions"] == 1
    assert dropped["jobs"] == 1
    left = json.loads(run("decisions", "--db", log.path, "--json").stdout)
    assert {row["job_id"] for row in left} == {RESNET}
    assert "decisions: 0 rows dropped" in run("db", "prune", "--db", log.path, "--keep-days", 1).stdout


def test_prune_makes_no_file(run, tmp_path):
    """A path with a typing mistake is an error and not a new database."""
    assert run("db", "prune", "--db", tmp_path / "typo.sqlite").exit_code == 1
    assert not (tmp_path / "typo.sqlite").exists()
