"""What needs rich: loaded for a terminal only. ``NO_COLOR`` and ``TERM=dumb`` are rich's to respect."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chase.cli.output import Column, Row


def emit_table(rows: Sequence[Row], columns: Sequence[Column]) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row, column) for column in columns))
    Console(highlight=False, soft_wrap=False).print(table)


def _cell(row: Row, column: Column) -> Text:
    """Text, never markup: a job may be called ``[red]``."""
    style = column.style(row.get(column.key)) if column.style else ""
    return Text(column.text(row), style=style)
