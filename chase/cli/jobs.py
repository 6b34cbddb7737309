"""``chase jobs``: who is under control now, or was."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from chase import unixhttp
from chase.cli import options, times
from chase.cli.daemon import socket_path
from chase.cli.output import Column, Form, Row, emit_rows, human
from chase.errors import TryLater
from chase.figures import count


def _mode(job: Row) -> str:
    """How far the measuring is says more than that it is measured."""
    frontier = str(job.get("frontier", ""))
    return frontier if job["mode"] == "profiling" and frontier.startswith("measuring") else human(job["mode"])


def _limit(job: Row) -> str:
    """The limit wished for, and the one in force where that is another."""
    wished, in_force = job["setting"].get("power_limit_w"), job.get("in_force_w")
    return human(wished) if in_force in {None, wished} else f"{human(wished)} ({human(in_force)} now)"


def _counted(units: float) -> str:
    """As ``chase report`` has it, never 1e+08."""
    return count(units, "").strip()


LIVE_COLUMNS = (
    Column("id", "job", show=lambda job: str(job)[:8]),
    Column("name", "name", least=8),
    Column("uid", "uid", right=True, spare=7),
    Column("gpus", "gpus", show=lambda gpus: str(len(gpus)), right=True, spare=6),
    Column("units_done", "done", show=_counted, right=True, spare=2),
    Column("total_units", "of", show=_counted, right=True, spare=3),
    Column("units", "units", spare=4),
    Column("mode", "mode", tell=_mode, spare=1),
    Column("setting", "limit W", tell=_limit, right=True),
    Column("energy_j", "kWh", show=lambda joules: f"{joules / 3.6e6:.3f}", right=True, spare=5),
    Column("reason", "reason", wrap=True),
)
_LOGGED_COLUMNS = (
    Column("id", "job", show=lambda job: str(job)[:8]),
    Column("name", "name", least=8),
    Column("uid", "uid", right=True, spare=6),
    Column("gpus", "gpus", show=lambda gpus: str(len(gpus)), right=True, spare=5),
    Column("region", "region", spare=4),
    Column("registered_at", "registered", spare=1),
    Column("state", "state"),
    Column("ended_at", "ended", spare=2),
    Column("end_reason", "because", wrap=True),
    Column("units_done", "done", show=_counted, right=True, spare=3),
    Column("units", "units", spare=3),
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
        live = unixhttp.request(socket_path(socket_file, config_file), "GET", "/v1/jobs")["jobs"]
    except TryLater as error:
        raise TryLater(f"{error}; 'chase jobs --all' reads the database without it") from error
    emit_rows(live, LIVE_COLUMNS, form, none="No jobs are under control.")


def _logged(since: datetime | None, db_file: Path | None, config_file: Path | None) -> list[dict[str, Any]]:
    from chase.cli.where import open_database  # the configuration costs what a live listing need not pay

    with open_database(db_file, config_file) as log:
        found = log.jobs()
    return [asdict(job) for job in found if since is None or job.ended_at is None or job.ended_at >= since]
