"""``chase signal``: the grid now and next, from what the database holds, from the sources, or from what is typical."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from chase.build import session_of, signal_of
from chase.cli import options
from chase.cli.group import DefaultGroup
from chase.cli.output import Column, emit_json, emit_lines, emit_table, say, say_more
from chase.cli.signal_history import history
from chase.cli.signal_prices import prices
from chase.cli.status import signal_lines
from chase.cli.where import database, load_of
from chase.clock import Clock, SystemClock
from chase.config import Loaded, region_ids
from chase.config.shipped import is_path
from chase.errors import StoreError
from chase.outlook import FALLBACK, Outlook, describe
from chase.recall import recall
from chase.signal import GridSignal
from chase.store import open_readonly
from providers.base import Ordered

_BAR = 32
_HOUR = timedelta(hours=1)
_COLUMNS = (
    Column("at", "at"),
    Column("g_per_kwh", "g/kWh", show=lambda g: f"{g:.0f}", right=True),
    Column("bar", ""),
    Column("within", "80 % within", spare=1),
    Column("kind", "kind"),
    Column("by", "by"),
)


class _OfRegion(DefaultGroup):
    """A first word that is no region and much like a command's name is that command, mistyped."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        word = args[0] if args else "-"
        if not (
            word.startswith("-") or ctx.resilient_parsing or is_path(word) or word in {*self.commands, *region_ids()}
        ):
            near = difflib.get_close_matches(word, self.commands, n=1)
            if near:
                ctx.fail(f"No such command or region {word!r}. Did you mean {near[0]!r}?")
        return super().parse_args(ctx, args)


@click.group(
    cls=_OfRegion,
    short_help="Show the grid's carbon intensity and prices.",
    epilog=options.example(
        "chase signal", "chase signal de --refresh", "chase signal history gb", "chase signal prices gb"
    ),
)
def signal() -> None:
    """Show the grid's carbon intensity and prices: 'chase signal REGION' is 'chase signal show REGION'."""


signal.add_command(history)
signal.add_command(prices)


@signal.command(
    short_help="Show the intensity, now and next.",
    epilog=options.example("chase signal show de --refresh", "chase signal us-cal-ciso --hours 48 --json"),
)
@click.argument("region", required=False)
@click.option("--refresh", is_flag=True, help="Ask the sources now; without it nothing goes over the network.")
@click.option(
    "--hours",
    type=options.Whole(1, 168),
    default=24,
    show_default=True,
    help="How many hours ahead, from the next full one on.",
)
@options.db_option
@options.config_option
@options.json_option
@options.verbose_option
def show(
    *, region: str | None, refresh: bool, hours: int, db_file: Path | None, config_file: Path | None, as_json: bool
) -> None:
    """Show the carbon intensity of REGION (the configured one by default): now, its source, kind and age, and next.

    Without --refresh it is what the service has stored, or else the region's typical profile; it says which.
    """
    loaded, clock = load_of(region, config_file), SystemClock()
    session = session_of(loaded.config)
    grid = signal_of(loaded.region, loaded.config, session=session, clock=clock, store=None, events=_tell)
    _remember(grid, loaded, clock, database(db_file, config_file))
    if refresh:
        grid.poll()
    outlook = grid.outlook(timedelta(hours=hours + 1))
    document = _document(grid, outlook, hours)
    if not refresh and outlook.freshness == FALLBACK:
        document["note"] = "nothing stored is young enough, and the sources were not asked (--refresh asks them)"
    if as_json:
        emit_json(document)
        return
    emit_lines(signal_lines(loaded.region.id, document))
    emit_lines([""])
    emit_table(list(_hourly(outlook, hours)), _COLUMNS)


def _tell(code: str, severity: str, message: str, **more: object) -> None:
    """The signal's events, for a person who waits for the answer."""
    del code, severity, more
    say(message)


def _remember(grid: GridSignal, loaded: Loaded, clock: Clock, path: Path) -> None:
    """What the service stored of each source. Without a database there is simply less to say."""
    history = timedelta(hours=loaded.config.signal.history_h)
    try:
        with open_readonly(path) as log:
            recall(grid, log, clock.now(), history)
    except StoreError as error:
        say_more(f"no stored signal: {error}")


def _document(grid: GridSignal, outlook: Outlook, hours: int) -> dict[str, Any]:
    first = _first_hour(outlook)
    end = first + timedelta(hours=hours)
    return {
        "region": grid.region,
        "at": outlook.at,
        **describe(outlook),
        "sources": grid.describe_sources(),
        "ahead": [hour for hour in outlook.ahead if first < hour.end and hour.start < end],
    }


def _first_hour(outlook: Outlook) -> datetime:
    """The next full hour: until then it is now."""
    return outlook.at.replace(minute=0, second=0, microsecond=0) + _HOUR


def _hourly(outlook: Outlook, hours: int) -> Iterator[dict[str, Any]]:
    """The value in force at each full hour to come, with a bar against the greatest of them."""
    series = Ordered.of(outlook.ahead)
    first = _first_hour(outlook)
    found = [(first + n * _HOUR, series.at(first + n * _HOUR)) for n in range(hours)]
    top = max((hour.g_per_kwh for _, hour in found if hour), default=0.0)
    for at, hour in found:
        if hour is not None:
            share = max(0.0, hour.g_per_kwh) / top if top > 0 else 0.0
            within = f"{hour.low:.0f} to {hour.high:.0f}" if hour.low < hour.high else ""
            row = {"g_per_kwh": hour.g_per_kwh, "within": within, "bar": "█" * round(_BAR * share)}
            yield {"at": at, **row, "kind": hour.kind.value, "by": hour.by}
