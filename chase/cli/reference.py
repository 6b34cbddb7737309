"""Writes the help of every command into a Markdown page: ``python -m chase.cli.reference docs/cli.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from chase.cli import main

BEGIN, END = "<!-- begin: written by chase.cli.reference -->", "<!-- end -->"


def rewrite(page: Path) -> None:
    """Replace what stands between the two marks; the words around them are a person's."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    listing = "\n".join(sections())
    page.write_text(f"{before}{BEGIN}\n\n{listing}\n{END}{after}", encoding="utf-8")


def sections() -> Iterator[str]:
    top = click.Context(main, info_name="chase", **main.context_settings)
    for name in main.list_commands(top):
        command = main.get_command(top, name)
        assert command is not None  # noqa: S101  the table has named it
        yield from _section(command, name, top, depth=2)


def _section(command: click.Command, name: str, parent: click.Context, depth: int) -> Iterator[str]:
    settings = {**command.context_settings, "max_content_width": 100, "terminal_width": 100}
    context = click.Context(command, parent=parent, info_name=name, **settings)
    yield f"{'#' * depth} `{context.command_path}`\n\n```text\n{command.get_help(context)}\n```\n"
    for inner, child in getattr(command, "commands", {}).items():
        yield from _section(child, inner, context, depth + 1)


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]))
