"""What docs/regions.md says, done: its list is that of the files, its example loads, its claims hold."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner
from pages import examples, page, quoted, rows, section

from chase.cli import main
from chase.config import load, load_region, region_ids
from chase.config.guess import _CLOUDS, Sure, guess
from chase.config.places import TIME_ZONES
from chase.config.reference import regions
from chase.errors import ConfigError

PAGE = page("regions.md")
(EXAMPLE,) = examples(PAGE, "toml")
FIRST = '[[sources]]\nprovider = "energy_charts"'


def test_the_list_is_written_from_the_files():
    """docs/regions.md holds what ``python -m chase.config.reference regions`` prints."""
    listed = PAGE.split("<!-- regions: begin -->\n")[1].split("<!-- regions: end -->")[0]

    assert listed == regions()
    assert len(rows(listed)) == len(region_ids()) + 2


def test_the_example_is_a_region(tmp_path):
    """It loads as it stands, with its sources, its prices and its flat profile."""
    path = tmp_path / "our-hall.toml"
    path.write_text(EXAMPLE)

    found = load(region=path, env={"HOME": "/"}).region

    assert found == load_region(path)
    assert [source.provider for source in found.prices] == ["energy_charts"]
    assert found.typical.flat


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ('"energy_charts"\nzone = "AT"\n\n[[sources]]', '"rte"\nzone = "FR"\n\n[[sources]]'),
            "direct intensities only",
        ),
        (('scope = "lifecycle"\npue', 'scope = "direct"\npue'), "never mixed"),
        (
            ('"energy_charts"\nzone = "AT"\n\n[[sources]]', '"watttime"\nzone = "X"\n\n[[sources]]'),
            "marginal intensities",
        ),
        (('[[prices]]\nprovider = "energy_charts"', '[[prices]]\nprovider = "octopus"'), "GBP"),
    ],
)
def test_what_it_calls_refused_is_refused(tmp_path, change, said):
    """Scope, signal and currency, when the file is read."""
    assert change[0] in EXAMPLE
    path = tmp_path / "our-hall.toml"
    path.write_text(EXAMPLE.replace(*change, 1))

    with pytest.raises(ConfigError, match=said):
        load_region(path)


def test_the_variables_of_clouds_are_those_that_are_read():
    """All of them, and no other."""
    text = section(PAGE, "Which one is mine")
    read = {name for cloud in _CLOUDS for name in (*cloud.own, *cloud.clients)}

    assert {name for name in quoted(text) if re.fullmatch(r"[A-Z]+(_[A-Z]+)+", name)} == read
    assert [row[0] for row in rows(text)[2:]] == [f"`{sure.value}`" for sure in Sure]


def test_new_york_has_as_many_grids_as_it_says(tmp_path):
    """Eight, and all eight are shown."""
    assert len(TIME_ZONES["America/New_York"]) == 8
    assert len(guess({"TZ": "America/New_York"}, root=tmp_path).candidates) == 8


def test_the_variables_of_tokens_are_those_of_the_files():
    """The page names each that a shipped region asks for."""
    found = [load_region(name) for name in region_ids()]
    wanted = {source.token_env for region in found for source in (*region.sources, *region.prices)} - {None}

    assert wanted <= set(quoted(section(PAGE, "What ships")))


def test_the_commands_of_the_page_exist():
    """Each begins with what chase knows, and takes the options shown."""
    shown = [line.split("#")[0].split() for line in examples(PAGE, "")[0].splitlines()]
    assert len(shown) == 5
    for _, *words in shown:
        assert CliRunner().invoke(main, [*words, "--help"]).exit_code == 0, words


def test_modes_of_checking_look_as_shown():
    """The words of the sample are those of the command: its states and its subjects."""
    sample = examples(PAGE, "")[1]
    assert {line.split()[0] for line in sample.splitlines() if not line.startswith(" ")} == {"ok", "skip", "fail"}
    assert "price-source" in sample
