"""``chase forecast``: how good forecasts would have been, on the history that the service has stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chase.build import stored_as
from chase.cli import options
from chase.cli.output import Column, emit_json, emit_lines, emit_table, human, utc
from chase.cli.where import open_database
from chase.clock import SystemClock
from chase.config import RegionConfig, load_region
from chase.errors import ChaseError
from providers.base import IntensityPoint, Kind

if TYPE_CHECKING:
    from chase.forecast.score import Past

LEADS_H = (1, 6, 24, 48, 96)
Stored = tuple[str, str]  # zone and source
_WINDOW_DAYS, _LEAST_DAYS = 28, 2
_NAMES = ("chase", "persistence", "yesterday", "last-week", "week-mean", "svr")
_COLUMNS = (
    Column("lead_h", "lead h", right=True),
    Column("forecaster", "forecaster"),
    Column("mae", "MAE g/kWh", show=lambda g: f"{g:.1f}", right=True),
    Column("mape", "MAPE", show=lambda share: f"{share:.1%}", right=True),
    Column("bias", "bias g/kWh", show=lambda g: f"{g:+.1f}", right=True),
    Column("pinball", "pinball", show=lambda g: f"{g:.2f}", right=True),
    Column("coverage", "in 80 %", show=lambda share: f"{share:.0%}", right=True),
    Column("count", "forecasts", right=True),
)


@click.group(short_help="Score forecasts on stored history.", epilog=options.example("chase forecast eval de"))
def forecast() -> None:
    """Score forecasts on the history that the service has stored."""


@forecast.command(
    "eval",
    short_help="Score forecasters beside each other.",
    epilog=options.example(
        "chase forecast eval de", "chase forecast eval gb --forecaster chase --forecaster svr --days 14 --json"
    ),
)
@click.argument("region")
@click.option(
    "--forecaster",
    "chosen",
    multiple=True,
    type=click.Choice(_NAMES),
    help="Only this one, and may be repeated; without it all but svr, which needs scikit-learn.",
)
@click.option(
    "--days",
    type=options.Whole(1, 365),
    default=7,
    show_default=True,
    help="Score the forecasts made in the last so many days of the history.",
)
@options.db_option
@options.config_option
@options.json_option
@options.verbose_option
def eval_(
    *,
    region: str,
    chosen: tuple[str, ...],
    days: int,
    db_file: Path | None,
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Score forecasters on the stored history of REGION: at each hour each is given the 28 days known by then.

    The history is that of the region's first source of which there is enough. Pinball is the mean loss at 10, 50 and
    90 %; "in 80 %" is how many hours came between low and high.
    """
    known = load_region(region)
    since = SystemClock().now() - timedelta(days=days + _WINDOW_DAYS)
    with open_database(db_file, config_file) as log:
        source, past = _history(known, lambda zone, source: log.points(zone, source, since), since)
    document = _document(known, source, past, chosen or _NAMES[:-1], days)
    if as_json:
        emit_json(document)
        return
    emit_lines(_heading(document))
    emit_table(document["scores"], _COLUMNS)


def _history(
    region: RegionConfig, stored: Callable[[str, str], Iterable[IntensityPoint]], since: datetime
) -> tuple[Stored, Past]:
    """Of the first source whose history has a forecast to score. Raises ``ChaseError`` where there is none."""
    from chase.forecast.score import Past

    seen = []
    for zone, source in stored_as(region):
        points = [point for point in stored(zone, source) if point.kind is not Kind.TYPICAL]
        past = Past.of(points)
        if past is not None and len(past.hours(1, before=_LEAST_DAYS)):
            return (zone, source), past
        hours = sum((point.end - point.start for point in points), timedelta()) / timedelta(hours=1)
        seen.append(f"{hours:.0f} h of {source} ({zone})")
    raise ChaseError(
        f"{region.id}: too little history to score a forecast: {', '.join(seen) or 'it has no sources'} stored since "
        f"{utc(since)}; it takes {_LEAST_DAYS} days and some hours: let 'chase serve' run on, or name another database "
        "with --db"
    )


def _document(region: RegionConfig, source: Stored, past: Past, chosen: Sequence[str], days: int) -> dict[str, Any]:
    from chase.forecast import named
    from chase.forecast.score import scores

    o = past.hours(days, before=_LEAST_DAYS)
    found = list(scores(past, [named.ALL[name] for name in dict.fromkeys(chosen)], o, LEADS_H))
    return {
        "region": region.id,
        "source": source[1],
        "zone": source[0],
        "step_s": 3600 // past.m,
        "first": past.end(int(o[0])),
        "last": past.end(int(o[-1])),
        "scores": [asdict(score) for score in sorted(found, key=lambda score: score.lead_h)],
    }


def _heading(document: dict[str, Any]) -> Iterator[str]:
    first, last = human(document["first"]), human(document["last"])
    yield f"{document['region']}: history of {document['source']} ({document['zone']}), steps of {document['step_s']} s"
    yield f"Forecasts made each hour from {first} to {last}"
    yield ""
