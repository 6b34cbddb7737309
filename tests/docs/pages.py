"""The fenced examples and the tables of a page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import click

from chase.cli import main

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def examples(text: str, language: str) -> list[str]:
    return [body for named, body in _FENCE.findall(text) if named == language]


def section(text: str, title: str) -> str:
    """From its heading to the next one of the same rank or above; a comment in an example is no heading."""
    plain = _FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), text)
    found = re.search(rf"^(#+) {re.escape(title)}$", plain, re.MULTILINE)
    assert found, f"no section {title!r}"
    end = re.compile(rf"^#{{1,{len(found[1])}}} ", re.MULTILINE).search(plain, found.end())
    return text[found.end() : end.start() if end else len(text)]


def rows(text: str) -> list[list[str]]:
    """The cells of every table row."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def parsed(args: Sequence[str]) -> None:
    """A call of chase as the shell would hand it over, without running it: a command belongs to its group."""
    command, context = main, click.Context(main, info_name="chase", **main.context_settings)
    while isinstance(command, click.Group):
        command, args = command.get_command(context, args[0]), args[1:]
        assert command is not None
    if args:
        command.make_context(command.name, list(args), parent=context)


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)
