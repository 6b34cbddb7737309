"""What is printed, and where."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.cli import output
from chase.cli.output import Column, Form

WHEN = datetime(2026, 3, 1, 18, 30, 15, 999, tzinfo=UTC)
COLUMNS = (
    Column("name", "name"),
    Column("limit_w", "limit W", right=True),
    Column("at", "time"),
)
ROWS = [
    {"name": "resnet", "limit_w": 275.0, "at": WHEN, "extra": {"b": [1]}},
    {"name": "日本", "limit_w": None, "at": WHEN, "extra": {}},
]


def test_a_table_off_a_terminal_is_aligned_plain_text(capsys):
    """Columns line up, wide characters count twice, numbers stand right, and no line has trailing space."""
    output.emit_rows(ROWS, COLUMNS, Form.TEXT)
    assert capsys.readouterr().out.splitlines() == [
        "name    limit W  time",
        "resnet      275  2026-03-01 18:30:15Z",
        "日本          -  2026-03-01 18:30:15Z",
    ]


def test_json_is_one_document_with_every_key(capsys):
    """A list is one array; keys that no column shows are there too."""
    output.emit_rows(ROWS, COLUMNS, Form.JSON)
    assert json.loads(capsys.readouterr().out) == [
        {"name": "resnet", "limit_w": 275.0, "at": "2026-03-01T18:30:15Z", "extra": {"b": [1]}},
        {"name": "日本", "limit_w": None, "at": "2026-03-01T18:30:15Z", "extra": {}},
    ]


def test_nl_is_one_object_a_line(capsys):
    """Each line is a document of its own."""
    output.emit_rows(ROWS, COLUMNS, Form.NL)
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["resnet", "日本"]


def test_csv_has_a_header_and_nested_values_as_json(capsys):
    """CSV carries the same keys as the JSON; what is nested stays readable by a JSON parser."""
    output.emit_rows(ROWS, COLUMNS, Form.CSV)
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == {"name": "resnet", "limit_w": "275.0", "at": "2026-03-01T18:30:15Z", "extra": '{"b": [1]}'}
    assert rows[1]["limit_w"] == ""


@pytest.mark.parametrize(
    ("form", "out", "err"),
    [(Form.TEXT, "", "No jobs.\n"), (Form.JSON, "[]\n", ""), (Form.NL, "", ""), (Form.CSV, "name,limit_w,at\n", "")],
)
def test_an_empty_list_is_valid_in_every_form(capsys, form, out, err):
    """Nothing found is an empty document for a program, and a word on stderr for a person."""
    output.emit_rows([], COLUMNS, form, none="No jobs.")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (out, err)


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Thing:
    path: Path
    colour: Colour


def test_plain_turns_our_values_into_what_json_carries():
    """Dataclasses, enums, paths, sets, times of any zone and non-finite numbers each have one plain form."""
    local = datetime(2026, 3, 1, 19, 30, tzinfo=timezone(timedelta(hours=1)))
    value = {"thing": Thing(Path("/x"), Colour.RED), "set": {"b", "a"}, "at": local, "nan": math.nan, "inf": -math.inf}
    assert output.plain(value) == {
        "thing": {"path": "/x", "colour": "red"},
        "set": ["a", "b"],
        "at": "2026-03-01T18:30:00Z",
        "nan": None,
        "inf": None,
    }


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(_json)
def test_any_nested_value_becomes_a_strict_json_document(value):
    """Whatever a record holds, the document parses again under the strict rules."""
    text = json.dumps(output.plain(value), allow_nan=False)
    json.loads(text, parse_constant=pytest.fail)


@given(st.text())
def test_printable_text_cannot_drive_a_terminal(text):
    """No control character but newline and tab is left, whatever a job is called."""
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", output.printable(text))


@given(st.text(st.characters(categories=("L", "N", "P", "Zs"))))
def test_ordinary_text_is_printed_as_it_is(text):
    """Letters, digits, signs and spaces of any script stay as they are."""
    assert output.printable(text) == text


def test_a_job_name_with_an_escape_sequence_is_harmless_in_a_table(capsys):
    """A table shows a mark where a control character was."""
    output.emit_rows([{"name": "\x1b[2Jgone"}], COLUMNS[:1], Form.TEXT)
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (45.4, "45 s"),
        (60, "1 min"),
        (754, "12 min"),
        (3600, "1 h"),
        (12000, "3 h 20 min"),
        (86400, "1 d"),
        (187200, "2 d 4 h"),
    ],
)
def test_an_age_is_said_in_its_largest_units(seconds, text):
    """Nobody reads seconds on a day, nor days on a minute."""
    assert output.age(seconds) == text


_ON_TERMINAL = """
from chase.cli.output import *
columns = [Column("name", "name"), Column("why", "why", wrap=True)]
emit_rows([{"name": "[red]resnet", "why": "because " * 20}], columns, Form.TEXT)
emit_marked("fail", "red", "a check")
"""


def test_a_terminal_gets_colour_and_names_are_not_markup(on_a_terminal, monkeypatch):
    """On a terminal headings and marks are styled, and a job called ``[red]resnet`` keeps its name."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = on_a_terminal("-c", _ON_TERMINAL)
    assert "\x1b[31mfail" in text
    assert "[red]resnet  because" in text


def test_a_narrow_terminal_wraps_only_what_may_wrap(on_a_terminal):
    """The name stays whole; the long text goes on below itself."""
    rows = [line for line in on_a_terminal("-c", _ON_TERMINAL, COLUMNS="40").splitlines() if "because" in line]
    assert len(rows) > 3
    assert sum("[red]resnet" in line for line in rows) == 1


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_color_means_no_colour(on_a_terminal, env):
    """``NO_COLOR`` and a dumb terminal take the colours away."""
    assert not re.search(r"\x1b\[[\d;]*3[0-7]", on_a_terminal("-c", _ON_TERMINAL, **env))
