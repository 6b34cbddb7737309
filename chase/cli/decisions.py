"""``chase decisions``: the log."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from chase.cli import jobref, options, times
from chase.cli.output import Column, Form, emit_rows, say
from chase.cli.where import open_database
from chase.records import DecisionRecord

_COLUMNS = (
    Column("id", "id", right=True),
    Column("at", "time"),
    Column("job_name", "job", least=10),
    Column("mode", "mode", spare=2),  # the reason says it too
    Column("power_limit_w", "limit W", right=True),
    Column("intensity_g_per_kwh", "g/kWh", show=lambda g: f"{g:.0f}", right=True, spare=1),
    Column("reason", "reason", wrap=True),
)
_OBSERVED = (*_COLUMNS[:-1], Column("control", "control", spare=3), _COLUMNS[-1])
_HEAVY = ("inputs", "choice")


@click.command(
    short_help="List the decisions taken, newest first.",
    epilog=options.example(
        "chase decisions --job resnet --since 6h",
        "chase decisions --since 2026-03-01 --limit 0 --csv",
    ),
)
@click.option("--job", metavar="JOB", help="Only this job: its id, the beginning of it, or its name.")
@click.option(
    "--since",
    metavar="TIME",
    callback=times.moment(times.since),
    help="Only since then: 6h, 18:00, 2026-03-01 or 2026-03-01T18:00Z (UTC).",
)
@click.option("--limit", type=options.Whole(min=0), default=50, show_default=True, help="At most so many; 0 for all.")
@click.option("--full", is_flag=True, help="With the inputs and the alternatives of each, as stored.")
@options.db_option
@options.config_option
@options.list_options
@options.verbose_option
def decisions(
    *,
    job: str | None,
    since: datetime | None,
    limit: int,
    full: bool,
    db_file: Path | None,
    config_file: Path | None,
    form: Form,
) -> None:
    """List the decisions taken, newest first, with the reason of each."""
    with open_database(db_file, config_file) as log:
        names = {known.id: known.name for known in log.jobs()}
        job_id = jobref.find(list(names.items()), job) if job else None
        found = log.decisions(job=job_id, since=since, limit=limit + 1 if limit else None)[::-1]
    shown = found[:limit] if limit else found
    rows = [_row(record, names.get(record.job_id, ""), full=full) for record in shown]
    columns = _OBSERVED if any(record.control == "observe" for record in shown) else _COLUMNS
    emit_rows(rows, columns, form, none="No decisions.")
    if len(shown) < len(found):
        say(f"There are more: these are the newest {limit}; --limit 0 shows all.")


def _row(record: DecisionRecord, job_name: str, *, full: bool) -> dict[str, Any]:
    fields = {"id": record.id, "at": record.at, "job_id": record.job_id, "job_name": job_name, **asdict(record)}
    return {key: value for key, value in fields.items() if full or key not in _HEAVY}
