"""Rows out of a CSV, JSON or JSON-lines file that may be half-written at this very moment."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from providers.base import SchemaError, Transient
from providers.reading import shown

FORMATS = ("csv", "json", "jsonl")
_LISTS = ("data", "history", "forecast", "points")  # where JSON documents keep their rows


@dataclass(frozen=True, slots=True)
class Row:
    """``place`` is for errors: file and line, or file and item. Names are in lower case, absent and blank are None."""

    place: str
    fields: Mapping[str, Any]


def parse(content: bytes, form: str, name: str) -> Sequence[Row]:
    """``form`` is one of ``FORMATS``. Raises ``SchemaError`` naming the place; ``Transient`` if JSON seems cut."""
    text = _decoded(content if form == "json" else _complete_lines(content, form), name)
    rows = {"csv": _csv, "json": _json, "jsonl": _json_lines}[form](text, name)
    return tuple(rows)


def _complete_lines(content: bytes, form: str) -> bytes:
    """Without a last line that has no end yet: its ``12`` may become ``123``. A closed JSON object is complete."""
    if form == "jsonl" and content.rstrip().endswith(b"}"):
        return content
    return content[: content.rfind(b"\n") + 1]


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            raise Transient(f"{name} ends within a character; is it being written?") from None
        line = content.count(b"\n", 0, error.start) + 1
        raise SchemaError(f"{name} line {line}: byte {content[error.start]:#04x} is not UTF-8") from None


def _csv(text: str, name: str) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells) or cells[0].startswith("#"):
                continue
            if not header:
                header = [cell.strip().lower() for cell in cells]
                continue
            place = f"{name} line {reader.line_num}"
            if len(cells) != len(header):
                raise SchemaError(f"{place}: {len(cells)} fields where the header has {len(header)}")
            yield Row(place, dict(zip(header, map(_cell, cells), strict=True)))
    except csv.Error as error:
        raise SchemaError(f"{name} line {reader.line_num}: {error}") from None


def _cell(cell: str) -> str | None:
    text = cell.strip()
    return None if text.lower() in {"", "null", "none", "nan", "na", "n/a"} else text


def _json(text: str, name: str) -> Iterator[Row]:
    if not text.strip():
        return
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        if _is_cut(text.strip(), error):
            raise Transient(f"{name}: the JSON ends too early; is it being written?") from None
        raise SchemaError(f"{name} line {error.lineno} column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{name}: {error}") from None
    if isinstance(document, dict):
        document = next((document[key] for key in _LISTS if key in document), document)
    if not isinstance(document, list):
        raise SchemaError(f"{name}: no list of rows, nor one under {', '.join(_LISTS)}")
    for number, item in enumerate(document, start=1):
        yield _object(item, f"{name} item {number}")


def _is_cut(text: str, error: json.JSONDecodeError) -> bool:
    """It began as a document and never came to the end of one."""
    open_end = error.pos >= len(text) or error.msg.startswith("Unterminated") or not text.endswith(("]", "}"))
    return open_end and text.startswith(("[", "{"))


def _json_lines(text: str, name: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            place = f"{name} line {number}"
            try:
                item = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise SchemaError(f"{place}: {error}") from None
            yield _object(item, place)


def _object(item: object, place: str) -> Row:
    if not isinstance(item, dict):
        raise SchemaError(f"{place}: {shown(item)} is not an object")
    return Row(place, {key.strip().lower(): value for key, value in item.items()})
