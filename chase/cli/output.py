"""Data on stdout, talk on stderr: the one place that prints.

A list comes as a table (rich on a terminal, aligned text otherwise), as one JSON document, as CSV, or as one
JSON object a line. Times are UTC: ``2026-03-01T18:30:00Z`` in data, ``2026-03-01 18:30:00Z`` for people.
"""

from __future__ import annotations

import csv
import dataclasses
import enum
import itertools
import json
import math
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import PurePath
from typing import Any

import click

Row = Mapping[str, Any]
VERBOSE = "chase.cli.verbose"
_WIDEST = 48  # of a column that others must line up behind; a longer value pushes them aside


class Form(enum.StrEnum):
    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    NL = "nl"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table for people; ``show`` is given its value, ``tell`` the whole row.

    A terminal that is too narrow for all makes several lines of ``wrap`` columns, cuts what is longer than ``least``
    letters (0: never), and leaves out columns with ``spare``, the greatest first.
    """

    key: str
    title: str
    show: Callable[[Any], str] | None = None
    tell: Callable[[Row], str] | None = None
    right: bool = False
    wrap: bool = False
    least: int = 0
    spare: int = 0

    def text(self, row: Row) -> str:
        if self.tell is not None:
            return printable(self.tell(row))
        value = row.get(self.key)
        return human(value) if self.show is None or value is None else printable(self.show(value))


def say(text: str) -> None:
    click.echo(printable(text), err=True)


def say_more(text: str) -> None:
    """Only with ``--verbose``."""
    if is_verbose():
        say(text)


def is_verbose() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(VERBOSE))


def emit_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(printable(line))


def emit_marked(mark: str, colour: str | None, text: str) -> None:
    """A line after a short word, which a terminal shows in ``colour``."""
    word = f"{mark:<5}"
    click.echo((click.style(word, fg=colour) if colour and is_styled() else word) + printable(text))


def emit_painted(before: str, text: str, colour: str) -> None:
    """A line whose second part a terminal shows in ``colour``, where it has one."""
    shown = printable(text)
    painted = click.style(shown, fg=colour) if shown and colour and is_styled() else shown.rstrip()
    click.echo(f"{printable(before)}{painted}")


def is_styled() -> bool:
    """Whether colours, and bold with them, may be used on stdout."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def emit_json(document: Any) -> None:
    click.echo(json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False))


def emit(document: Any, lines: Callable[[], Iterable[str]], *, as_json: bool) -> None:
    """One thing rather than a list of them: its document, or the lines that say it."""
    if as_json:
        emit_json(document)
    else:
        emit_lines(lines())


def emit_rows(rows: Sequence[Row], columns: Sequence[Column], form: Form, *, none: str = "Nothing.") -> None:
    """A list. ``none`` is said, on stderr, in place of an empty table."""
    if form is Form.JSON:
        emit_json(rows)
    elif form is Form.NL:
        for row in rows:
            click.echo(json.dumps(plain(row), allow_nan=False, ensure_ascii=False))
    elif form is Form.CSV:
        emit_csv(rows, [column.key for column in columns])
    elif rows:
        emit_table(rows, columns)
    else:
        say(none)


def emit_table(rows: Sequence[Row], columns: Sequence[Column]) -> None:
    if sys.stdout.isatty():
        from chase.cli import terminal  # rich costs 60 ms, which a pipe need not pay

        terminal.emit_table(rows, columns)
        return
    cells = [[column.title for column in columns], *([c.text(row) for c in columns] for row in rows)]
    widths = [min(_WIDEST, max(map(width, column))) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (_pad(cell, w, c.right) for cell, w, c in zip(line, widths, columns, strict=True))
        click.echo("  ".join(padded).rstrip())


def human(value: Any) -> str:
    """One value for people, free of control characters."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}" if math.isfinite(value) else "-"
    if isinstance(value, datetime):
        return utc(value).replace("T", " ")
    if isinstance(value, (list, tuple)):
        return ", ".join(map(human, value)) or "-"
    return printable(str(value))


def utc(when: datetime) -> str:
    """ISO 8601 in UTC with ``Z``, to the second."""
    return when.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def age(seconds: float) -> str:
    """A duration in its two largest units: ``45 s``, ``12 min``, ``3 h 20 min``, ``2 d 4 h``."""
    left = round(abs(seconds))
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    parts = []
    for name, size in units:
        count, left = divmod(left, size)
        parts.append((count, name))
    first = next((i for i, (count, _) in enumerate(parts) if count), len(parts) - 1)
    shown = parts[first : first + 1] if first >= len(parts) - 2 else parts[first : first + 2]
    return " ".join(f"{count} {name}" for count, name in shown if count or len(shown) == 1)


def printable(text: str) -> str:
    """Without control characters: a job's name must not be able to drive the reader's terminal."""
    if text.isprintable():
        return text
    return "".join(char if char in "\n\t" or unicodedata.category(char)[0] != "C" else "�" for char in text)


def plain(value: Any) -> Any:
    """As JSON can carry it: times as UTC text, what is not finite as null, sets in order, text that UTF-8 can say."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()  # lone surrogates of a command line
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain(item) for item in value]
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, datetime):
        return utc(value)
    if isinstance(value, (date, PurePath)):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def emit_csv(rows: Iterable[Row], keys: Sequence[str] = ()) -> None:
    """With a header of the first row's keys; of ``keys`` where there is no row."""
    left = iter(rows)
    first = next(left, None)
    header = list(keys if first is None else first)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header)
    for row in () if first is None else itertools.chain([first], left):
        writer.writerow(_csv_cell(plain(row.get(key))) for key in header)
    sys.stdout.flush()


def _csv_cell(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        value = json.dumps(value, ensure_ascii=False)
    return printable(value) if isinstance(value, str) else value


def width(text: str) -> int:
    """Columns on a terminal: wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _pad(text: str, to: int, right: bool) -> str:
    space = " " * (to - width(text))
    return space + text if right else text + space
