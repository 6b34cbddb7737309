"""``chase replay``: what it prints and keeps, and what it says of what cannot be run."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from chase.cli.progress import bar

START = datetime(2023, 3, 1, tzinfo=UTC)
SWEEP = ((300, 1000.0, 285.0), (250, 1020.0, 245.0), (200, 1080.0, 198.0), (150, 1250.0, 152.0), (100, 1800.0, 110.0))


@pytest.fixture(autouse=True)
def own_cache(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)


@pytest.fixture
def trace(tmp_path):
    """Sixty hours of a swing."""
    return write_trace(tmp_path / "XX_2023.csv", 60)


def write_trace(path, hours):
    values = [300 + 150 * math.sin(2 * math.pi * hour / 24 + hour * hour) for hour in range(hours)]
    lines = [f"{(START + timedelta(hours=hour)).isoformat()},{value!r}" for hour, value in enumerate(values)]
    path.write_text("\n".join(["start_utc,g_per_kwh", *lines]) + "\n")
    return path


@pytest.fixture
def card(tmp_path):
    """A run of a sweep, as an option names it."""
    path = tmp_path / "summary_power_toy.csv"
    rows = [f"toy,{watts},{seconds},{draw}" for watts, seconds, draw in SWEEP]
    path.write_text("\n".join(["network,power_limit,time_per_epoch,average_power", *rows]) + "\n")
    return f"{path}:network=toy"


@pytest.fixture
def replay(run, trace, card):
    """Half a day on that card from ten hours on, without further options; those given come after and count."""

    def call(*args, **options):
        usual = [
            "--trace",
            trace,
            "--profile",
            card,
            "--days",
            0.5,
            "--start",
            "2023-03-01T10:00",
            "--engine",
            "inline",
        ]
        return run("replay", *usual, *args, **options)

    return call


def test_a_run_is_told_in_a_table(replay):
    """What was run, and of what the figures are shares."""
    result = replay("--forecast", "perfect")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("1 run through the past of XX, on 1 GPU: ")
    assert lines[1] == "A job of 0.5 days at full power, beginning on 2023-03-01T10:00:00Z, allowed to be 5.0 % slower"
    assert "share of full power's CO2eq" in result.stdout
    header, row = lines[3], lines[4]
    assert header.split()[:4] == ["policy", "saved", "efficiency", "timing"]
    assert row.startswith("budget, perfect forecast")
    assert row.endswith(" no")
    assert result.stderr == ""


def test_the_forms_carry_the_same_figures(replay):
    """JSON is an array, CSV has a header, and each line of --nl is an object."""
    as_json = json.loads(replay("--forecast", "perfect", "--json").stdout)
    as_csv = list(csv.DictReader(io.StringIO(replay("--forecast", "perfect", "--csv").stdout)))
    as_nl = [json.loads(line) for line in replay("--forecast", "perfect", "--nl").stdout.splitlines()]
    assert len(as_json) == len(as_csv) == len(as_nl) == 1
    row = as_json[0]
    assert list(row) == list(as_csv[0]) == list(as_nl[0])
    assert (row["grid"], row["typical"], row["policy"], row["forecast"]) == ("XX", False, "budget", "perfect")
    assert (row["days"], row["max_slowdown"], row["start"]) == (0.5, 0.05, "2023-03-01T10:00:00Z")
    assert float(as_csv[0]["saved"]) == row["saved"] == as_nl[0]["saved"]
    assert row["saved"] == pytest.approx(row["efficiency"] + row["timing"])
    assert row["of_optimum"] == pytest.approx(1.0, abs=1e-3)


def test_several_values_of_options_make_a_sweep(replay):
    """All combinations, means over starts in the table and every run in the data."""
    args = ["--days", 0.25, "--max-slowdown", 0.02, "--max-slowdown", "10%", "--policy", "clairvoyant", "--starts", 5]
    rows = json.loads(replay(*args, "--json").stdout)
    assert len(rows) == 2 * 2 * 5
    assert {row["days"] for row in rows} == {0.25, 0.5}
    assert len({row["start"] for row in rows}) >= 5
    lines = replay(*args).stdout.splitlines()
    assert lines[0].startswith("20 runs")
    assert [line.split()[:2] for line in lines[3:8]] == [
        ["days", "allowed"],
        *[[days, slowdown] for days in ("0.5", "0.25") for slowdown in ("2.0", "10.0")],
    ]
    assert "Means over runs" in lines[-1]


def test_a_comparison_has_every_policy_and_its_limits(replay):
    """Who knew what would come is best of those who keep to the budget, and the placebo gains nothing by its timing."""
    rows = json.loads(replay("--compare", "--json").stdout)
    budget = {(row["forecast"], row["shuffle"]): row for row in rows if row["policy"] == "budget"}
    assert set(budget) == {("persistence", None), ("own", None), ("perfect", None), ("perfect", 0)}
    named = {row["policy"]: row for row in rows}
    assert set(named) == {
        *("full-power", "best-fixed", "zeus-eta", "chase", "threshold", "suspend-resume-limit", "budget", "clairvoyant")
    }
    assert named["full-power"]["saved"] == pytest.approx(0.0, abs=1e-12)
    assert named["best-fixed"]["timing"] == pytest.approx(0.0, abs=1e-12)
    best = named["clairvoyant"]["saved"]
    assert all(row["saved"] <= best + 1e-9 for row in (*budget.values(), named["best-fixed"]))
    assert budget["perfect", None]["saved"] > budget["perfect", 0]["saved"]


def test_a_regions_typical_profile_is_called_that(run, tmp_path):
    """It is no measurement, in words for people and in a key for programs."""
    args = ["replay", "--region", "gb", "--days", 0.2, "--forecast", "perfect", "--start", "2024-02-28"]
    result = run(*args)
    assert result.exit_code == 0
    assert "gb-typical is a typical profile, the mean of each hour of a month: no measurement" in result.stdout
    row = json.loads(run(*args, "--json").stdout)[0]
    assert (row["grid"], row["typical"]) == ("gb-typical", True)
    assert list((tmp_path / ".cache/chase/replay/typical").iterdir())


def test_a_setting_of_the_policy_is_given_by_its_key(replay):
    """As in [policy], of text or number; a host's power makes slow settings dearer."""
    rows = json.loads(
        replay("--policy", "static", "--set", "selector=max-slowdown", "--set", "slowdown=0.3", "--json").stdout
    )
    assert rows[0]["settings"] == {"selector": "max-slowdown", "slowdown": 0.3}
    assert rows[0]["slowdown"] == pytest.approx(0.25)


def test_the_delay_of_values_is_given_in_hours(replay):
    """It reaches the run."""
    rows = json.loads(replay("--policy", "threshold", "--delay-h", 1, "--json").stdout)
    assert rows[0]["delay_s"] == 3600.0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--trace", "none.csv"], "none.csv: cannot be read: No such file or directory; check the path"),
        (["--start", "2024-03-01"], "begin at another time, or make it shorter"),
        (["--start", "2023-02-01"], "begin at another time, or make it shorter"),
        (["--days", "20"], "begin at another time, or make it shorter"),
        (["--days", "20", "--starts", "3"], "make it shorter, or begin earlier with --start"),
        (["--profile", "a4-resnet50"], "profile 'a4-resnet50' is unknown; did you mean"),
        (["--profile", "none.csv:network=toy"], "none.csv: cannot be read"),
        (["--policy", "greedy"], "'greedy' is not one of"),
        (["--forecast", "oracle"], "'oracle' is not one of"),
        (["--engine", "threads"], "write 'processes', 'processes:4', 'dask://HOST:PORT' or 'inline'"),
        (["--region", "atlantis"], "region 'atlantis' is unknown"),
        (["--set", "eta"], "is not KEY=VALUE, such as eta=0.24"),
        (["--set", "eta=nan"], "is not a finite number"),
        (["--set", "etta=0.5"], "etta"),
        (["--set", "dwell_s=-1"], "dwell_s"),
        (["--start", "yesterday"], "is not a time: write 2023-03-01"),
        (["--days", "0"], "0 is not in the range"),
        (["--max-slowdown", "five"], "'five' is not a number, nor a percentage"),
        (["--max-slowdown", "2000%"], "20.0 is not in the range 0<=x<=10"),
        (["--column", "prices"], "prices"),
        (["--plots"], "--plots draws into a folder: name it with --out DIR"),
        (["--start", "2023-03-01", "--starts", "2"], "give one, or all of them without --starts"),
        (["--json", "--csv"], "are two forms: choose one"),
    ],
)
def test_bad_input_is_told_with_what_to_do(replay, args, words):
    """In one line, with the exit code of wrong usage, before anything is run."""
    result = replay(*args)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_grid_must_be_named(run):
    """A file or a region."""
    result = run("replay")
    assert result.exit_code == 2
    assert "name a grid: --trace FILE, or --region REGION" in result.stderr


def test_a_file_that_is_no_trace_is_told(replay, tmp_path):
    """By its name and line."""
    (tmp_path / "bad.csv").write_text("start_utc,g_per_kwh\n2023-03-01T00:00Z,1\n2023-03-01T01:00Z,\n")
    result = replay("--trace", tmp_path / "bad.csv")
    assert result.exit_code == 2
    assert "bad.csv line 3: the value is missing; fill it in" in result.stderr


def test_a_run_that_fails_is_named_and_the_others_are_told(replay):
    """A static choice may be too slow for the trace: exit code 1, and the figures of the rest."""
    result = replay("--policy", "static", "--policy", "full-power", "--start", "2023-03-02T22:00")
    assert result.exit_code == 1
    assert "Failed: XX_2023.csv" in result.stderr
    assert "static, 0.5 days from 2023-03-02T22:00:00Z: " in result.stderr
    assert "is done: begin earlier, make it shorter, or allow less of a slowdown" in result.stderr
    assert "full-power" in result.stdout


def test_out_keeps_runs_for_the_next_time(replay, tmp_path):
    """The database and a CSV of what was asked for; what is there is not run again, and what is more is added."""
    out = tmp_path / "out"
    assert replay("--policy", "clairvoyant", "--out", out).exit_code == 0
    first = rows_of(out)
    result = replay("--policy", "clairvoyant", "--policy", "best-fixed", "--out", out)
    assert result.exit_code == 0
    assert rows_of(out)[0] == first[0]
    assert len(rows_of(out)) == 2
    listed = csv.DictReader(io.StringIO((out / "results.csv").read_text(encoding="utf-8")))
    assert [row["policy"] for row in listed] == ["clairvoyant", "best-fixed"]


def rows_of(out):
    with closing(sqlite3.connect(out / "results.sqlite")) as db:
        return db.execute("SELECT * FROM results ORDER BY rowid").fetchall()


def test_pictures_are_drawn_beside_the_results(replay, tmp_path):
    """One of the sweep, one of each run that has a course, and that run's database, which can be explained."""
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    result = replay("--forecast", "perfect", "--policy", "budget", "--policy", "clairvoyant", "--out", out, "--plots")
    assert result.exit_code == 0
    pictures = sorted(out.glob("*.png"))
    assert [path.name.split("-")[0] for path in pictures] == ["run", "shares.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)
    databases = list(out.glob("run-*.sqlite*"))
    assert [path.suffix for path in databases] == [".sqlite"]
    assert all(f"Drawn: {path}" in result.stderr for path in pictures)
    again = replay("--forecast", "perfect", "--out", out, "--plots")
    assert again.exit_code == 0


def test_pictures_without_matplotlib_are_told_before_anything_is_run(replay, tmp_path, monkeypatch):
    """With the extra to install."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = replay("--out", tmp_path / "out", "--plots")
    assert result.exit_code == 2
    assert "pip install 'carbon-chase[plots]'" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_done(tmp_path, card):
    """It says how far it came and how to go on, with the exit code of a program that was stopped."""
    trace, out = write_trace(tmp_path / "YY_2023.csv", 4000), tmp_path / "out"
    command = [sys.executable, "-m", "chase", "replay", "--trace", trace, "--profile", card, "--policy", "clairvoyant"]
    command += ["--days", "30", "--starts", "2500", "--engine", "processes:1", "--out", out]
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True, start_new_session=True)
    until = time.monotonic() + 60
    while not (out / "results.sqlite").exists() or not count(out):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert 0 < count(out) < 2500
    assert (
        errors
        == f"Stopped: {count(out)} of 2500 runs are done and kept in {out}; the same command goes on from there.\n"
    )


def count(out):
    with closing(sqlite3.connect(out / "results.sqlite", timeout=30)) as db:
        tables = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'results'").fetchone()[0]
        return db.execute("SELECT count(*) FROM results").fetchone()[0] if tables else 0


def test_a_terminal_gets_a_bar(monkeypatch):
    """It counts what is done, on stderr; where that is no terminal there is nothing."""
    controller, terminal = os.openpty()
    with os.fdopen(terminal, "w", encoding="utf-8") as stderr, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        patch.setenv("TERM", "xterm")
        with bar() as show:
            show("forecasts", 1, 2)
            show("runs", 3, 7)
        stderr.flush()
        shown = os.read(controller, 100_000).decode()
    os.close(controller)
    assert "runs" in shown
    assert "3/7" in shown
    assert "1/2" in shown


def test_a_pipe_gets_no_bar(capsys):
    """What is read by a program is what was asked for."""
    with bar() as show:
        show("runs", 3, 7)
    assert capsys.readouterr() == ("", "")


def test_the_help_costs_no_simulation():
    """Neither numpy nor the controller is loaded before a replay is asked for."""
    code = (
        "import sys\nfrom chase.cli import main\ntry: main(['replay', '--help'])\nexcept SystemExit: pass\n"
        "print('LOADED', *{'numpy', 'rich', 'matplotlib', 'chase.controller', 'pydantic'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.endswith("LOADED\n")
