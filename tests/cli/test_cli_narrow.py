"""Tables on narrow terminals, and on those that want no escape codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.cli import decisions, jobs, replay, restore, status
from chase.cli.output import Column, width
from chase.cli.terminal import fitted

REASON = "240 g/kWh is above 180: efficiency-first, the most frugal point of those within the slowdown allowed"
JOB = {
    "id": "aa" * 16,
    "name": "resnet50-imagenet-with-a-long-name",
    "uid": 1000,
    "gpus": ["GPU-1", "GPU-2"],
    "units_done": 123456.0,
    "total_units": 115_000_000.0,
    "units": "samples",
    "mode": "efficiency-first",
    "setting": {"power_limit_w": 150.0},
    "in_force_w": 150.0,
    "frontier": "measured",
    "energy_j": 3.6e6,
    "reason": REASON,
}
DECISION = {
    "id": 1234,
    "at": datetime(2026, 3, 1, 10, tzinfo=UTC),
    "job_name": JOB["name"],
    "mode": "efficiency-first",
    "power_limit_w": 150.0,
    "intensity_g_per_kwh": 240.0,
    "control": "observe",
    "reason": REASON,
}
CARD = {
    "index": 0,
    "name": "NVIDIA A100-SXM4-80GB",
    "power_limit_w": 150.0,
    "enforced_w": 150.0,
    "original_w": 275.0,
    "default_w": 300.0,
    "jobs": ["aa" * 16, "bb" * 16],
    "note": "somebody else set 200 W: respected; this card cannot be set now",
}
LEFT = {"uuid": "GPU-11111111-2222-3333-4444-555555555555", "status": "held", "enforced_w": 150.0, "detail": REASON}
TABLES = {
    "jobs": (jobs.LIVE_COLUMNS, JOB, "reason"),
    "decisions": (decisions._COLUMNS, DECISION, "reason"),
    "observed": (decisions._OBSERVED, DECISION, "reason"),
    "gpus": (status._GPU_COLUMNS, CARD, "note"),
    "restore": (restore._COLUMNS, LEFT, "detail"),
}


def _left_for(key, columns, rows, room):
    """The width that is left for a column beside the others."""
    shown = fitted(rows, columns, room)
    taken = [
        cut or max(width(column.title), *(width(column.text(row)) for row in rows))
        for column, cut in shown
        if column.key != key
    ]
    assert key in {column.key for column, _ in shown}
    return room - sum(taken) - 2 * len(taken)


@pytest.mark.parametrize("room", [80, 100, 132])
@pytest.mark.parametrize("table", TABLES)
def test_the_reason_has_room_on_a_usual_terminal(table, room):
    """Other columns are cut or left out until the text that matters has 30 letters a line."""
    columns, row, key = TABLES[table]
    assert _left_for(key, columns, [row], room) >= 30


@pytest.mark.parametrize("table", TABLES)
def test_a_wide_terminal_shows_every_column_whole(table):
    """Nothing is left out where there is room."""
    columns, row, _ = TABLES[table]
    assert fitted([row], columns, 250) == [(column, None) for column in columns]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 4, 8]), st.integers(1, 60)), min_size=1, max_size=8),
    st.integers(1, 200),
)
def test_columns_are_left_out_only_when_needed_and_spare(shapes, room):
    """Whatever the table: what is not spare stays, in its order, no cut goes below the least, and none is in vain."""
    columns = [Column(str(n), "t", spare=spare, least=least) for n, (spare, least, _) in enumerate(shapes)]
    row = {str(n): "x" * length for n, (_, _, length) in enumerate(shapes)}
    shown = fitted([row], columns, room)
    names = [column.key for column, _ in shown]
    assert names == [column.key for column in columns if column.key in names]
    assert {column.key for column in columns if not column.spare} <= set(names)
    for column, cut in shown:
        assert cut is None or column.least <= cut < len(row[column.key])
    if sum(len(text) + 2 for text in row.values()) <= room:
        assert shown == [(column, None) for column in columns]


_PRINT = """
import json, sys
from chase.cli import jobs
from chase.cli.output import emit_marked, emit_table
emit_table([json.loads(sys.argv[1])], jobs.LIVE_COLUMNS)
emit_marked("fail", "red", "a check")
"""


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}])
def test_no_color_means_no_escape_code_at_all(on_a_terminal, env):
    """Neither colour nor bold nor anything else of a terminal's is sent."""
    assert "\x1b" not in on_a_terminal("-c", _PRINT, json.dumps(JOB), **env)


def test_off_a_terminal_there_is_no_escape_code_at_all(capsys):
    """Not even where the environment would force colours."""
    env = {**os.environ, "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _PRINT, json.dumps(JOB)], capture_output=True, env=env, check=True, timeout=30
    )
    assert b"\x1b" not in done.stdout


def test_eighty_columns_show_the_reason_in_few_lines(on_a_terminal, monkeypatch):
    """The whole reason stands in lines of 30 letters and more, and no line is longer than the terminal."""
    monkeypatch.setenv("NO_COLOR", "1")
    lines = on_a_terminal("-c", _PRINT, json.dumps(JOB)).splitlines()[:-1]
    assert all(width(line) <= 80 for line in lines)
    said = " ".join(line[-(80 - lines[0].index("reason")) :].strip() for line in lines[1:])
    assert re.sub(r"\s+", " ", said) == REASON
    assert len(lines) <= 6


@pytest.mark.parametrize(
    ("wished", "in_force_w", "shown"),
    [
        ({"power_limit_w": 150.0}, 150.0, "150"),
        ({"power_limit_w": 150.0}, 200.0, "150 (200 now)"),
        ({"power_limit_w": 150.0}, None, "150"),
        ({}, None, "-"),
        ({}, 200.0, "- (200 now)"),
    ],
)
def test_the_limit_in_force_is_shown_where_it_is_another(capsys, wished, in_force_w, shown):
    """A limit that was wished for and is not in force is never passed off as one that is."""
    (limit,) = [column for column in jobs.LIVE_COLUMNS if column.title == "limit W"]
    assert limit.text({**JOB, "setting": wished, "in_force_w": in_force_w}) == shown


def test_a_service_that_does_not_say_what_is_in_force_is_understood():
    """An older one's answer lacks the key."""
    (limit,) = [column for column in jobs.LIVE_COLUMNS if column.title == "limit W"]
    assert limit.text({key: value for key, value in JOB.items() if key != "in_force_w"}) == "150"


@pytest.mark.parametrize(
    ("mode", "frontier", "shown"),
    [
        ("profiling", "measuring 3 of 20", "measuring 3 of 20"),
        ("profiling", "none", "profiling"),
        ("off", "measuring 3 of 20", "off"),
        ("speed-first", "measured", "speed-first"),
    ],
)
def test_the_mode_says_how_far_the_measuring_is(mode, frontier, shown):
    """Who waits for a frontier sees it come."""
    (column,) = [column for column in jobs.LIVE_COLUMNS if column.title == "mode"]
    assert column.text({**JOB, "mode": mode, "frontier": frontier}) == shown


@pytest.mark.parametrize(("units", "shown"), [(8.63105e7, "86,310,500"), (1e8, "100,000,000"), (2.5, "2.50")])
@pytest.mark.parametrize("key", ["units_done", "total_units"])
def test_work_is_written_out(key, units, shown):
    """A job of a hundred million samples is not one of 1e+08."""
    (column,) = [column for column in jobs.LIVE_COLUMNS if column.key == key]
    assert column.text({**JOB, key: units}) == shown


@pytest.mark.parametrize("room", [60, 80, 132])
def test_a_replays_figures_are_never_cut(room):
    """A share that ends in dots is none: there are fewer columns then, and saved and slowdown stay."""
    shares = dict.fromkeys(("saved", "efficiency", "timing", "of_optimum", "of_optimum_timing", "slowdown"), 0.123)
    told = {"policy": "suspend-resume-limit", "forecast": None, "settings": {}, "shuffle": None}
    row = {**shares, **told, "max_slowdown": 0.05, "exceeded_s": 0.0}
    columns = [column for column in replay._COLUMNS if column.key in row]
    shown = fitted([row], columns, room)
    assert {"policy", "saved", "slowdown", "exceeded_s"} <= {column.key for column, _ in shown}
    assert all(cut is None or column.key == "policy" for column, cut in shown)
