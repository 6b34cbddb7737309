"""``chase signal history``: what the sources have said of the past, and how often they changed their word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from chase.build import stored_as
from chase.cli import options, times
from chase.cli.output import Column, Form, emit_rows
from chase.cli.where import load_of, open_database
from chase.clock import minute
from chase.config import RegionConfig
from chase.store import Reader
from providers.base import IntensityPoint

_DAY = timedelta(hours=24)
_AHEAD = timedelta(days=7)  # nobody expects anything later
_COLUMNS = (
    Column("start", "from"),
    Column("end", "to", spare=2),
    Column("g_per_kwh", "g/kWh", show=lambda g: f"{g:.1f}", right=True),
    Column("kind", "kind"),
    Column("source", "source"),
    Column("method", "method", spare=3),
)
_TIMES = (
    Column("fetched_at", "read at"),
    Column("updated_at", "source's date", spare=1),
    Column("issued_at", "issued at", spare=1),
)


@click.command(
    short_help="Show what the sources have said of the past.",
    epilog=options.example(
        "chase signal history gb --since 3d --csv",
        "chase signal history gb --vintages --since 6h",
        "chase signal history gb --forecasts --vintages --json",
    ),
)
@click.argument("region", required=False)
@click.option("--vintages", is_flag=True, help="Every value that a source gave of each interval, with the times of it.")
@click.option("--forecasts", is_flag=True, help="What was expected, in place of what was observed.")
@click.option(
    "--since",
    metavar="TIME",
    callback=times.moment(times.since),
    help="Only since then: 6h, 18:00, 2026-03-01 or 2026-03-01T18:00Z (UTC); 24h if not given.",
)
@options.db_option
@options.config_option
@options.list_options
@options.verbose_option
def history(
    *,
    region: str | None,
    vintages: bool,
    forecasts: bool,
    since: datetime | None,
    db_file: Path | None,
    config_file: Path | None,
    form: Form,
) -> None:
    """Show the intensities of REGION (the configured one by default) that the service has stored, source by source.

    Sources revise what they say for days: without --vintages it is their newest word.
    """
    loaded = load_of(region, config_file)
    start = since or datetime.now(UTC) - _DAY
    with open_database(db_file, config_file) as log:
        points = _points(log, loaded.region, start, vintages=vintages, forecasts=forecasts)
        rows = [asdict(point) for point in points]
    what = "forecast" if forecasts else "intensity"
    none = f"No {what} of {loaded.region.id} is stored since {minute(start)}."
    emit_rows(rows, (*_COLUMNS, *_TIMES) if vintages else _COLUMNS, form, none=none)


def _points(
    log: Reader, region: RegionConfig, start: datetime, *, vintages: bool, forecasts: bool
) -> Iterator[IntensityPoint]:
    end = datetime.now(UTC) + (_AHEAD if forecasts else timedelta(0))
    for zone, source in dict.fromkeys(stored_as(region)):
        if vintages:
            yield from log.vintages(zone, source, start, end, forecasts=forecasts)
        elif forecasts:
            yield from log.forecasts(zone, source, start, end)
        else:
            yield from log.points(zone, source, start, end)
