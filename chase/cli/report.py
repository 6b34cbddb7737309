"""``chase report``: what one job cost and saved."""

from __future__ import annotations

from pathlib import Path

import click

from chase.cli import jobref, options
from chase.cli.output import emit
from chase.cli.where import open_database
from chase.report import job_report


@click.command(
    short_help="Show what a job cost and saved.",
    epilog=options.example("chase report resnet", "chase report 3f2a --json | jq .account.timing_grams"),
)
@click.argument("name", metavar="JOB")
@options.db_option
@options.config_option
@options.json_option
@options.verbose_option
def report(*, name: str, db_file: Path | None, config_file: Path | None, as_json: bool) -> None:
    """Show what the job JOB (its id, the beginning of it, or its name) used, emitted, cost and saved.

    A job that still runs is reported up to now. Every figure is of the database's intervals; docs/accounting.md says
    what each one means.
    """
    with open_database(db_file, config_file) as log:
        jobs = log.jobs()
        job_id = jobref.find([(job.id, job.name) for job in jobs], name, hint="'JOB'")
        found = job_report(log, next(job for job in jobs if job.id == job_id))
    emit(found.to_dict(), found.lines, as_json=as_json)
