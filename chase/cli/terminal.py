"""What needs rich: loaded for a terminal only."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from chase.cli.output import Column, Row, is_styled, width

_GAP = 2
_ROOM = 32  # what a column that may wrap gets at least, as long as others can be cut or left out for it


def emit_table(rows: Sequence[Row], columns: Sequence[Column]) -> None:
    console = Console(highlight=False, color_system="auto" if is_styled() else None)
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    shown = fitted(rows, columns, console.width)
    for column, most in shown:
        justify: JustifyMethod = "right" if column.right else "left"
        table.add_column(
            column.title,
            justify=justify,
            no_wrap=not column.wrap,
            overflow="fold" if column.wrap else "ellipsis",
            max_width=most,
        )
    for row in rows:
        table.add_row(*(Text(column.text(row)) for column, _ in shown))  # never markup: a job may be called [red]
    console.print(table)


def fitted(rows: Sequence[Row], columns: Sequence[Column], room: int) -> list[tuple[Column, int | None]]:
    """The columns to show in ``room`` letters, each with the width that it is cut to; None where it is whole."""
    needs = {c.key: max(width(c.title), *(width(line) for row in rows for line in _lines(c, row))) for c in columns}
    shown = list(columns)
    for column in sorted((c for c in columns if c.spare), key=lambda c: -c.spare):
        if sum(_least(c, needs[c.key]) for c in shown) <= room:
            break
        shown.remove(column)
    over = sum(_usual(c, needs[c.key]) for c in shown) - room
    cuts: list[tuple[Column, int | None]] = []
    for column in shown:
        cut = max(0, min(over, _usual(column, needs[column.key]) - _least(column, needs[column.key])))
        cuts.append((column, needs[column.key] - cut if cut else None))
        over -= cut
    return cuts


def _lines(column: Column, row: Row) -> list[str]:
    return column.text(row).splitlines() or [""]


def _usual(column: Column, need: int) -> int:
    return (min(need, _ROOM) if column.wrap else need) + _GAP


def _least(column: Column, need: int) -> int:
    usual = _usual(column, need)
    return min(usual, max(column.least, width(column.title)) + _GAP) if column.least else usual
