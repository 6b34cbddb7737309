"""``chase db``: the database as a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from chase.build import keep_of
from chase.cli import options, times
from chase.cli.output import Form, emit, emit_csv, emit_lines, say
from chase.cli.where import database, open_database
from chase.clock import SystemClock
from chase.config import load
from chase.store.keep import prune as drop
from chase.store.tables import EXPORTS


@click.group(short_help="Find, export or prune the database.", epilog=options.example("chase db path"))
def db() -> None:
    """Find, export or prune the database. It is plain SQLite: any tool may read it."""


@db.command(
    short_help="Print where the database is.",
    epilog=options.example("chase db path", 'sqlite3 "$(chase db path)" .tables'),
)
@options.db_option
@options.config_option
@options.json_option
@options.verbose_option
def path(*, db_file: Path | None, config_file: Path | None, as_json: bool) -> None:
    """Print where the database is."""
    found = database(db_file, config_file)
    exists = found.is_file()
    document = {"path": found, "exists": exists, "size_bytes": found.stat().st_size if exists else None}
    emit(document, lambda: [str(found)], as_json=as_json)
    if not exists and not as_json:
        say("It does not exist yet; 'chase serve' makes it.")


@db.command(
    short_help="Print a table, row by row.",
    epilog=options.example(
        "chase db export decisions --since 30d --csv > decisions.csv", "chase db export intervals | jq .grams"
    ),
)
@click.argument("table", type=click.Choice(sorted(EXPORTS)))
@click.option(
    "--since",
    metavar="TIME",
    callback=times.moment(times.since),
    help="Only rows since then: 30d, 2026-03-01 or 2026-03-01T18:00Z (UTC).",
)
@options.db_option
@options.config_option
@options.list_options
@options.verbose_option
def export(*, table: str, since: datetime | None, db_file: Path | None, config_file: Path | None, form: Form) -> None:
    """Print every row of TABLE as it is stored: one JSON object a line, or as --csv or --json say."""
    with open_database(db_file, config_file) as log:
        rows = log.export(table, since)
        if form is Form.CSV:
            emit_csv(rows)
        elif form is Form.JSON:
            emit_lines(_array(rows))
        else:
            emit_lines(json.dumps(row, ensure_ascii=False) for row in rows)


@db.command(
    short_help="Drop what is older than configured.",
    epilog=options.example("chase db prune", "chase db prune --keep-days 90 --json"),
)
@click.option("--keep-days", type=options.Whole(min=1), help="Of decisions, intervals and events; as configured.")
@click.option("--keep-signal-days", type=options.Whole(min=1), help="Of intensities; as configured.")
@options.db_option
@options.config_option
@options.json_option
@options.verbose_option
def prune(
    *,
    keep_days: int | None,
    keep_signal_days: int | None,
    db_file: Path | None,
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Drop and thin rows older than [store] says, as the service does once a day. What an open job needs stays."""
    configured = keep_of(load(service_file=config_file).config)
    keep = replace(
        configured,
        log_days=keep_days or configured.log_days,
        signal_days=keep_signal_days or configured.signal_days,
    )
    with open_database(db_file, config_file) as log:  # it is there, and it is ours
        dropped = drop(log.path, SystemClock().now(), keep)
    emit(dropped, lambda: [f"{table}: {count} rows dropped" for table, count in dropped.items()], as_json=as_json)


def _array(rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    """One JSON document without holding it all in memory."""
    before = "["
    for row in rows:
        yield before + json.dumps(row, ensure_ascii=False)
        before = ","
    yield "[]" if before == "[" else "]"
