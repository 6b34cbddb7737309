"""``chase signal prices``: what a kWh costs now and next, from what the database holds or from the sources."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from chase.build import prices_feed, session_of
from chase.cli import options
from chase.cli.output import Column, age, emit_json, emit_lines, emit_table, say, say_more
from chase.cli.where import database, load_of
from chase.clock import Clock, SystemClock
from chase.errors import ConfigError, StoreError
from chase.outlook import FRESH
from chase.prices import AHEAD, MEMORY, PriceFeed, PriceOutlook, describe
from chase.store import open_readonly
from providers.base import PricePoint

_BAR = 32
_COLUMNS = (
    Column("start", "from"),
    Column("price_per_kwh", "per kWh", show=lambda price: f"{price:.4f}", right=True),
    Column("bar", ""),
    Column("source", "source"),
)


@click.command(
    short_help="Show what a kWh costs, now and next.",
    epilog=options.example("chase signal prices", "chase signal prices gb --refresh --hours 12 --json"),
)
@click.argument("region", required=False)
@click.option("--refresh", is_flag=True, help="Ask the sources now; without it nothing goes over the network.")
@click.option(
    "--hours", type=options.Whole(1, 48), default=24, show_default=True, help="How many hours ahead, from now on."
)
@options.db_option
@options.config_option
@options.json_option
@options.verbose_option
def prices(
    *, region: str | None, refresh: bool, hours: int, db_file: Path | None, config_file: Path | None, as_json: bool
) -> None:
    """Show the price of electricity in REGION (the configured one by default): now, its source, age and market, and
    what is published of the next hours.

    Without --refresh it is what the service has stored. Prices are per kWh, in the region's currency, never converted.
    """
    loaded, clock = load_of(region, config_file), SystemClock()
    if not loaded.region.prices:
        raise ConfigError(f"region {loaded.region.id} names no source of prices: add [[prices]] to its file")
    session = session_of(loaded.config)
    feed = prices_feed(loaded.region, loaded.config, session=session, clock=clock, store=None, events=_tell)
    _remember(feed, clock, database(db_file, config_file))
    if refresh:
        feed.poll()
    session.close()
    outlook = feed.outlook()
    document = _document(feed, outlook, hours)
    if not refresh and outlook.freshness != FRESH:
        document["note"] = "the price in force is not stored, and the sources were not asked (--refresh asks them)"
    if as_json:
        emit_json(document)
        return
    emit_lines(_lines(document))
    if document["ahead"]:
        emit_lines([""])
        emit_table(list(_with_bars(document["ahead"])), _COLUMNS)


def _tell(code: str, severity: str, message: str, **more: object) -> None:
    """The feed's events, for a person who waits for the answer."""
    del code, severity, more
    say(message)


def _remember(feed: PriceFeed, clock: Clock, path: Path) -> None:
    """What the service stored of each source. Without a database there is simply less to say."""
    now = clock.now()
    try:
        with open_readonly(path) as log:
            for state in feed.states:
                feed.remember(log.prices(state.provider.zone, state.provider.name, now - MEMORY, now + AHEAD))
    except StoreError as error:
        say_more(f"no stored prices: {error}")


def _document(feed: PriceFeed, outlook: PriceOutlook, hours: int) -> dict[str, Any]:
    end = outlook.at + timedelta(hours=hours)
    return {
        "region": feed.region,
        "at": outlook.at,
        **describe(outlook),
        "sources": [
            {"name": state.provider.name, "zone": state.provider.zone, "problem": state.problem}
            for state in feed.states
        ],
        "ahead": [_point(point) for point in outlook.ahead if point.start < end],
    }


def _point(point: PricePoint) -> dict[str, Any]:
    return {"start": point.start, "end": point.end, "price_per_kwh": point.price_per_kwh, "source": point.source}


def _lines(document: dict[str, Any]) -> Iterator[str]:
    if document["price_per_kwh"] is None:
        yield f"Price {document['region']}: nothing usable"
    else:
        value = f"{document['price_per_kwh']:.4f} {document['currency']}/kWh"
        old = f", {age(document['age_s'])} old" if document["age_s"] else ""
        by = f"{document['market']}, {document['by']} by {document['source']} ({document['zone']})"
        yield f"Price {document['region']}: {value}, {by}{old}, {document['freshness']}"
    if document["note"]:
        yield f"  {document['note']}"
    for source in document["sources"]:
        if source["problem"]:
            yield f"  {source['name']} ({source['zone']}): {source['problem']}"
    if document["licence"]:
        yield f"  {document['licence']}"


def _with_bars(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A bar against the dearest; what is free or better has none."""
    top = max(row["price_per_kwh"] for row in rows)
    for row in rows:
        share = max(0.0, row["price_per_kwh"]) / top if top > 0 else 0.0
        yield {**row, "bar": "█" * round(_BAR * share)}
