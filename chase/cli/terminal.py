"""What needs rich: loaded for a terminal only. ``NO_COLOR`` and ``TERM=dumb`` are rich's to respect."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from chase.cli.output import Column, Row


def emit_table(rows: Sequence[Row], columns: Sequence[Column]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        justify: JustifyMethod = "right" if column.right else "left"
        table.add_column(column.title, justify=justify, no_wrap=not column.wrap, overflow="fold")
    for row in rows:
        table.add_row(*(Text(column.text(row)) for column in columns))  # never markup: a job may be called [red]
    Console(highlight=False).print(table)
