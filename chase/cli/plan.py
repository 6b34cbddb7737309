"""``chase plan``: the time ahead of one job."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from chase.cli import options
from chase.cli.chart import plan_chart
from chase.cli.ofjob import last_of, place_of, wishes_of
from chase.cli.output import (
    Column,
    age,
    emit_csv,
    emit_json,
    emit_lines,
    emit_painted,
    emit_table,
)
from chase.cli.where import open_database
from chase.course import Stretch, merged
from chase.horizon import GRAMS
from chase.plan_report import PlanReport, plan_report

_PIPED = 80  # columns where there is no terminal
_HEIGHTS = 7, 5  # lines of the two charts
_LARGE = 1000  # has no use for decimals


@click.command(
    short_help="Show what is planned for a job.",
    epilog=options.example("chase plan resnet", "chase plan 3f2a --hours 48 --csv > plan.csv"),
)
@click.argument("name", metavar="JOB")
@click.option("--hours", type=options.Whole(1, 8784), help="Only the next so many hours; all sums are of all of it.")
@click.option("--all", "everything", is_flag=True, help="A line for each slot, not for each run of one setting.")
@click.option("--no-chart", is_flag=True, help="Only words and the table.")
@options.db_option
@options.config_option
@options.json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print the slots as CSV with a header.")
@options.verbose_option
def plan(
    *,
    name: str,
    hours: int | None,
    everything: bool,
    no_chart: bool,
    db_file: Path | None,
    config_file: Path | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Show what the budget policy plans for the job JOB (its id, the beginning of it, or its name), and what that is
    expected to cost and to save.

    It is the plan of the job's last decision, worked out again from what that was given; a new one is made at every
    tick. Exit code 1 means that there is none, and says why.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv are two forms: choose one")
    with open_database(db_file, config_file) as log:
        job, decision = last_of(log, name)
    config, region = place_of(job, config_file)
    zone = ZoneInfo(region.time_zone) if region else None
    report = plan_report(job, decision, zone, wishes_of(job, config, region)["minimise"])
    if as_json:
        emit_json(report.to_dict(hours))
    elif as_csv:
        emit_csv(report.rows(report.shown(hours)))
    else:
        _tell(report, report.shown(hours), everything=everything, charted=not no_chart)


def _tell(report: PlanReport, stretches: Sequence[Stretch], *, everything: bool, charted: bool) -> None:
    emit_lines([*report.head(), ""])
    if stretches:
        if charted:
            _draw(report, stretches)
        rows = report.rows(stretches if everything else list(merged(stretches)))
        emit_table(rows, _columns(report))
        emit_lines([""])
    emit_lines(report.tail())


def _draw(report: PlanReport, stretches: Sequence[Stretch]) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPED
    for line in plan_chart(report, stretches, width=width, heights=_HEIGHTS, encoding=sys.stdout.encoding):
        emit_painted(line.axis, line.bars, line.colour)
    emit_lines([""])


def _columns(report: PlanReport) -> tuple[Column, ...]:
    """Money has more digits than grams."""
    grams = report.expected.unit == GRAMS
    digits = 0 if grams else 4

    def within(row: object) -> str:
        assert isinstance(row, dict)  # noqa: S101  as the report makes them
        low, high = row["low_per_kwh"], row["high_per_kwh"]
        if not row["forecast"]:
            return "no forecast"
        return f"{low:.{digits}f} to {high:.{digits}f}" if low < high else ""

    return (
        Column("start", "from (UTC)", show=lambda at: f"{at:%a %d %H:%M}"),
        Column("start_local", "there", show=lambda at: str(at)[11:16], spare=3),
        Column("seconds", "for", show=age),
        Column("price_per_kwh", report.per_kwh, show=lambda price: f"{price:.{digits}f}", right=True),
        Column("low_per_kwh", "80 % within", tell=within, spare=4),
        Column("setting", "setting", least=12),
        Column("power_w", "W", show=lambda watts: f"{watts:.0f}", right=True, spare=1),
        Column("units", report.job.units, show=_figure, right=True, spare=2),
        Column("energy_kwh", "kWh", show=lambda kwh: f"{kwh:.2f}", right=True),
        Column("cost", "g" if grams else report.expected.unit, show=_figure, right=True),
    )


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= _LARGE else f"{value:.4g}"
