"""``chase regions``: what is known of each grid region."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

import click

from chase.cli import options
from chase.cli.group import DefaultGroup
from chase.cli.output import Column, Form, emit, emit_rows
from chase.config import RegionConfig, TypicalProfile, load_region, region_ids

_COLUMNS = (
    Column("id", "region"),
    Column("name", "name", wrap=True),
    Column("sources", "sources, in order", show=lambda sources: ", ".join(s["provider"] for s in sources)),
    Column("signal", "signal"),
    Column("scope", "scope"),
    Column("typical_mean_g_per_kwh", "typical g/kWh", show=lambda g: f"{g:.0f}", right=True),
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class _ListsByDefault(DefaultGroup):
    default = "list"

    def is_name(self, word: str) -> bool:
        """``list`` takes options only, so any other word is a command, if a mistyped one."""
        return not word.startswith("-")


@click.group(
    cls=_ListsByDefault, short_help="List or show the regions known.", epilog=options.example("chase regions list")
)
def regions() -> None:
    """List or show the regions known. Alone it lists them."""


@regions.command(
    "list",
    short_help="List the regions that ship with chase.",
    epilog=options.example("chase regions list", "chase regions list --json"),
)
@options.list_options
@options.verbose_option
def list_(*, form: Form) -> None:
    """List the regions that ship with chase. A file of your own is one too: --region FILE."""
    emit_rows([_document(load_region(name)) for name in region_ids()], _COLUMNS, form)


@regions.command(
    short_help="Show one region.",
    epilog=options.example("chase regions show gb", "chase regions show ./my-region.toml --json"),
)
@click.argument("region")
@options.json_option
@options.verbose_option
def show(*, region: str, as_json: bool) -> None:
    """Show what is known of REGION, a name or a file: its sources, signal, factors and typical profile."""
    found = load_region(region)
    emit(_document(found), lambda: _lines(found), as_json=as_json)


def _document(region: RegionConfig) -> dict[str, Any]:
    """Names of token variables, never what they hold."""
    document = region.model_dump(mode="json")
    typical = region.typical
    mean = fmean(value for month in typical.table for value in month) if typical else None
    return {**document, "typical_mean_g_per_kwh": mean}


def _lines(region: RegionConfig) -> Iterator[str]:
    yield f"{region.id}: {region.name}, {region.time_zone}"
    yield f"{region.signal} {region.scope} intensity, PUE {region.pue:g}, prices in {region.currency}"
    yield "Sources, in order:" if region.sources else "No sources."
    for number, source in enumerate(region.sources, start=1):
        token = f", token in {source.token_env}" if source.token_env else ""
        extra = "".join(f", {key} {value}" for key, value in source.options.items())
        yield f"  {number}. {source.provider} (zone {source.zone}{token}{extra})"
    for section, defaults in (("policy", region.policy), ("signal", region.signal_defaults)):
        for key, value in defaults.items():
            yield f"Default here: {section}.{key} = {value!r}"
    if region.typical is not None:
        yield f"Typical profile: {region.typical.source}, {region.typical.year}, {region.typical.licence}"
        yield from _profile_lines(region.typical)


def _profile_lines(typical: TypicalProfile) -> Iterator[str]:
    """A year at a glance: each month's mean, least and greatest hour, in g/kWh."""
    if typical.flat:
        yield f"  {typical.flat_g_per_kwh:.0f} g/kWh at all times: a yearly average, which tells no hour from another"
        return
    yield "  month   mean  least hour (UTC)  greatest hour (UTC)"
    for name, hours in zip(_MONTHS, typical.table, strict=True):
        least, greatest = min(hours), max(hours)
        low = f"{least:.0f} at {hours.index(least):02d}:00"
        high = f"{greatest:.0f} at {hours.index(greatest):02d}:00"
        yield f"  {name}    {fmean(hours):>5.0f}  {low:<16}  {high}"
