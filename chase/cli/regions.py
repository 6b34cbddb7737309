"""``chase regions``: what is known of each grid region."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import click

from chase.cli import options
from chase.cli.checks.finding import State
from chase.cli.checks.sources import INTENSITY, PRICE, ask, can_be_asked, missing_tokens
from chase.cli.group import DefaultGroup
from chase.cli.output import Column, Form, emit, emit_json, emit_lines, emit_marked, emit_rows, say
from chase.clock import SystemClock
from chase.config import RegionConfig, SourceConfig, TypicalProfile, load_region, region_ids, region_path
from chase.errors import ConfigError
from providers.session import Session

_COLUMNS = (
    Column("id", "region"),
    Column("name", "name", wrap=True),
    Column("keyless", "no key", show=lambda keyless: "yes" if keyless else "-"),
    Column("sources", "sources, in order", show=lambda sources: ", ".join(s["provider"] for s in sources), wrap=True),
    Column("scope", "scope", spare=2),
    Column("typical_mean_g_per_kwh", "typical g/kWh", show=lambda g: f"{g:.0f}", right=True, spare=1),
)
_GUESSED = (
    Column("region", "region"),
    Column("name", "name", wrap=True),
    Column("sure", "how sure"),
    Column("why", "why", wrap=True),
)
_COLOURS = {State.OK: "green", State.WARN: "yellow", State.FAIL: "red", State.SKIP: "bright_black"}
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class _ListsByDefault(DefaultGroup):
    default = "list"

    def is_name(self, word: str) -> bool:
        """``list`` takes options only, so any other word is a command, if a mistyped one."""
        return not word.startswith("-")


@click.group(
    cls=_ListsByDefault,
    short_help="List, show, check or guess regions.",
    epilog=options.example("chase regions list", "chase regions guess"),
)
def regions() -> None:
    """List, show, check or guess regions. Alone it lists them."""


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


@regions.command(
    short_help="Check a region, and its sources online.",
    epilog=options.example("chase regions check de", "chase regions check ./my-region.toml --online --json"),
)
@click.argument("region")
@click.option("--online", is_flag=True, help="Also ask each source once for its newest value.")
@options.json_option
@options.verbose_option
@click.pass_context
def check(ctx: click.Context, *, region: str, online: bool, as_json: bool) -> None:
    """Check REGION, a name or a file: its keys, and that every source of intensity and of prices takes its options.

    Without --online nothing goes over the network. With it each source says its newest value, its kind and its age, or
    what is wrong and what to do. Secrets are never shown.

    Exit code 2 means that the file cannot be used, 1 that a source fails or that none could be asked.
    """
    try:
        document = _checked(region, online=online)
    except ConfigError as error:
        if not as_json:
            raise
        emit_json({"ok": False, "problems": str(error).splitlines()})
        ctx.exit(error.exit_code)
    if as_json:
        emit_json(document)
    else:
        _show(document)
    ctx.exit(0 if document["ok"] else 1)


@regions.command(
    short_help="Guess which region this machine is in.",
    epilog=options.example("chase regions guess", "AWS_REGION=eu-west-1 chase regions guess --json"),
)
@options.list_options
@options.verbose_option
@click.pass_context
def guess(ctx: click.Context, *, form: Form) -> None:
    """Guess which region this machine is in, from its time zone and the variables of clouds (AWS_REGION and its like).

    Nothing goes over the network. All that fit are shown, with how sure each is: 'sure' where two signs agree, 'likely'
    where one names it, 'possible' where it is one of several. Exit code 1 means that nothing fits.
    """
    from chase.config.guess import guess as guess_region

    found = guess_region()
    rows = [
        {"region": one.region, "name": load_region(one.region).name, "sure": one.sure.value, "why": one.why}
        for one in found.candidates
    ]
    emit_rows(rows, _GUESSED, form, none="Nothing fits: name a region of 'chase regions list', or a file of your own.")
    for note in found.notes:
        say(note)
    ctx.exit(0 if rows else 1)


def _checked(named: str, *, online: bool) -> dict[str, Any]:
    region, session = load_region(named), Session()
    try:
        answers, problems = ask(region, session, SystemClock(), online=online)
    finally:
        session.close()
    if problems:
        raise ConfigError("\n".join(problem.found for problem in problems))
    return {
        "region": region.id,
        "file": region_path(named),
        "ok": can_be_asked(region) and all(answer.state is not State.FAIL for answer in answers),
        "online": online,
        "sources": [answer for answer in answers if answer.subject == INTENSITY],
        "prices": [answer for answer in answers if answer.subject == PRICE],
        "problems": [finding.found for finding in missing_tokens(region)],
    }


def _show(document: Mapping[str, Any]) -> None:
    emit_lines([f"{document['region']}: {document['file']}"])
    answers = [*document["sources"], *document["prices"]]
    for answer in answers:
        finding = answer.finding()
        emit_marked(finding.state.value, _COLOURS[finding.state], f"{finding.subject}: {finding.found}")
        if finding.advice and document["online"]:
            emit_marked("", None, f"-> {finding.advice}")
    if not document["ok"] and all(answer.state is not State.FAIL for answer in answers):
        say("No source of intensity could be asked: set the variable of one of them, or add one without a key.")
    elif not document["online"]:
        say("The sources take their options; --online asks each for its newest value.")


def _document(region: RegionConfig) -> dict[str, Any]:
    """Names of token variables, never what they hold."""
    document = region.model_dump(mode="json")
    typical = region.typical
    mean = fmean(value for month in typical.table for value in month) if typical else None
    keyless = any(source.token_env is None for source in region.sources)
    return {**document, "keyless": keyless, "typical_mean_g_per_kwh": mean}


def _lines(region: RegionConfig) -> Iterator[str]:
    yield f"{region.id}: {region.name}, {region.time_zone}"
    yield f"{region.signal} {region.scope} intensity, PUE {region.pue:g}, prices in {region.currency}"
    yield "Sources, in order:" if region.sources else "No sources."
    yield from _source_lines(region.sources)
    if region.prices:
        yield "Prices, in order:"
        yield from _source_lines(region.prices)
    for section, defaults in (
        ("policy", region.policy),
        ("signal", region.signal_defaults),
        ("embodied", region.embodied),
    ):
        for key, value in defaults.items():
            yield f"Default here: {section}.{key} = {value!r}"
    if region.typical is not None:
        yield f"Typical profile: {region.typical.source}, {region.typical.year}, {region.typical.licence}"
        yield from _profile_lines(region.typical)


def _source_lines(sources: Sequence[SourceConfig]) -> Iterator[str]:
    for number, source in enumerate(sources, start=1):
        token = f", token in {source.token_env}" if source.token_env else ""
        extra = "".join(f", {key} {value}" for key, value in source.options.items())
        yield f"  {number}. {source.provider} (zone {source.zone}{token}{extra})"


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
