"""What docs/replay.md shows can be typed: its options, policies and forecasts are those of the command."""

from __future__ import annotations

import re
import shlex

from pages import page, parsed

from chase.cli.replay import replay
from chase.replay.cell import CLOSED, FORECASTS
from chase.replay.results import Results

PAGE = page("replay.md")


def test_each_command_on_the_page_is_understood():
    """Every ``$ chase ...`` line parses, without being run."""
    lines = re.findall(r"^\$ (chase .*)$", PAGE, flags=re.MULTILINE)
    assert len(lines) >= 3
    for line in lines:
        parsed(shlex.split(line)[1:])


def test_each_option_on_the_page_is_one():
    """And each that says what goes in is on it."""
    known = {option for param in replay.params for option in param.opts}
    named = set(re.findall(r"`(--[a-z-]+)[ `]", PAGE))
    assert named <= known | {"--db"}
    assert {"--trace", "--region", "--profile", "--policy", "--forecast", "--days", "--start", "--starts"} <= named


def test_each_limit_and_forecast_is_on_the_page():
    """By its name; "live" is for whoever doubts the forecasts made before."""
    assert {name for name in CLOSED if f"`{name}`" in PAGE} == set(CLOSED)
    assert {name for name in FORECASTS if f"`{name}`" in PAGE} == set(FORECASTS) - {"live"}


def test_the_query_on_the_page_runs(tmp_path):
    """On a file of results."""
    query = re.search(r'"(select policy, .*?)"', PAGE, flags=re.DOTALL)[1]
    with Results(tmp_path / "results.sqlite") as results:
        assert results._db.execute(query).fetchall() == []
