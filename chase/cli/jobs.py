"""``chase jobs``: who is under control now, or was."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from chase import unixhttp
from chase.cli import options, times
from chase.cli.output import Column, Form, emit_rows
from chase.errors import TryLater

LIVE_COLUMNS = (
    Column("id", "job", show=lambda job: str(job)[:8]),
    Column("name", "name"),
    Column("uid", "uid", right=True),
    Column("gpus", "gpus", show=lambda gpus: str(len(gpus)), right=True),
    Column("units_done", "done", right=True),
    Column("total_units", "of", right=True),
    Column("units", "units"),
    Column("mode", "mode"),
    Column("setting", "limit W", show=lambda setting: f"{setting.get('power_limit_w', '-')}", right=True),
    Column("energy_j", "kWh", show=lambda joules: f"{joules / 3.6e6:.3f}", right=True),
    Column("reason", "reason", wrap=True),
)
_LOGGED_COLUMNS = (
    Column("id", "job", show=lambda job: str(job)[:8]),
    Column("name", "name"),
    Column("uid", "uid", right=True),
    Column("gpus", "gpus", show=lambda gpus: str(len(gpus)), right=True),
    Column("region", "region"),
    Column("registered_at", "registered"),
    Column("state", "state"),
    Column("ended_at", "ended"),
    Column("end_reason", "because", wrap=True),
    Column("units_done", "done", right=True),
    Column("units", "units"),
)


@click.command(
    short_help="List the jobs under control.",
    epilog=options.example("chase jobs", "chase jobs --all --since 2026-03-01 --csv"),
)
@click.option("--all", "everything", is_flag=True, help="Those that ended too, from the database; needs no service.")
@click.option(
    "--since",
    metavar="TIME",
    callback=times.moment(times.since),
    help="With --all: only those that still ran then (7d, 2026-03-01).",
)
@options.socket_option
@options.db_option
@options.config_option
@options.list_options
@options.verbose_option
def jobs(
    *,
    everything: bool,
    since: datetime | None,
    socket_file: Path | None,
    db_file: Path | None,
    config_file: Path | None,
    form: Form,
) -> None:
    """List the jobs under control now, or with --all every job of the database."""
    if everything or since or db_file:
        emit_rows(_logged(since, db_file, config_file), _LOGGED_COLUMNS, form, none="No jobs in the database.")
        return
    try:
        live = unixhttp.request(socket_file or unixhttp.default_socket(), "GET", "/v1/jobs")["jobs"]
    except TryLater as error:
        raise TryLater(f"{error}; 'chase jobs --all' reads the database without it") from error
    emit_rows(live, LIVE_COLUMNS, form, none="No jobs are under control.")


def _logged(since: datetime | None, db_file: Path | None, config_file: Path | None) -> list[dict[str, Any]]:
    from chase.cli.where import open_database  # the configuration costs what a live listing need not pay

    with open_database(db_file, config_file) as log:
        found = log.jobs()
    return [asdict(job) for job in found if since is None or job.ended_at is None or job.ended_at >= since]
