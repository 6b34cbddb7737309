"""``chase whatif``: the same job under another budget, policy or region."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import click

from chase.asof import AsOf, as_of
from chase.cli import options, times
from chase.cli.ofjob import last_of, place_of, wishes_of
from chase.cli.output import Column, age, emit_csv, emit_json, emit_lines, emit_table, say_more
from chase.cli.where import open_database
from chase.config import Config, RegionConfig, load_region
from chase.errors import ConfigError
from chase.figures import duration, grams, money, percent, share_of
from chase.plan_report import DENOMINATORS, given_of
from chase.records import DecisionRecord, JobRecord
from chase.store import Reader
from chase.whatif import CARBON_PRICE, MINIMISE, REGION, Expected, Now, case, expect

_MOST = 64
_NONE = "none"
_YEAR_S = 300 * 86400.0  # by then a day and a month are not enough
_LONG_S = 600.0  # after the end of what is forecast, to be worth a word

Read = Callable[[str, datetime], Any]


def _number(text: str, at: datetime) -> float:
    del at
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _number_or_none(text: str, at: datetime) -> float | None:
    return None if text == _NONE else _number(text, at)


def _share_or_none(text: str, at: datetime) -> float | None:
    return None if text == _NONE else _number(str(options.fraction(text)), at)


def _moment(text: str, at: datetime) -> datetime | None:
    return None if text == _NONE else times.until(text, at)


def _word(text: str, at: datetime) -> str:
    del at
    return text


# The setting that each option is, and how its values are read.
_OPTIONS: dict[str, tuple[str, Read, str]] = {
    "max_slowdown": (
        "--max-slowdown",
        _share_or_none,
        "How much longer the whole job may take: 0.1 and 10% are the same.",
    ),
    "deadline": ("--deadline", _moment, "When it must be done: 20h, 18:00 or 2026-03-01T18:00Z (UTC)."),
    "policy": ("--policy", _word, "budget, threshold, chase, static or off."),
    "eta": ("--eta", _number, "For --policy chase, and static by zeus-cost: weight of energy against time."),
    REGION: ("--region", _word, "A region's name or a region file: its grid as stored, or what is typical of it."),
    MINIMISE: ("--minimise", _word, "carbon, money or both."),
    CARBON_PRICE: ("--carbon-price-per-kg", _number, "For --minimise both: what a kilogram of CO2eq costs."),
    "min_power_limit_w": ("--min-power-limit", _number_or_none, "No lower limit of a GPU than so many watts."),
    "max_power_limit_w": ("--max-power-limit", _number_or_none, "No higher limit of a GPU than so many watts."),
}


def _what_if_options(function: Callable[..., None]) -> Callable[..., None]:
    for key, (flag, _, text) in reversed(_OPTIONS.items()):
        function = click.option(flag, key, metavar="LIST", help=text)(function)
    return function


@click.command(
    short_help="Compare other budgets, policies and regions for a job.",
    epilog=options.example(
        "chase whatif resnet --max-slowdown 0.025,0.05,0.1",
        "chase whatif resnet --policy budget,threshold,off --json",
        "chase whatif resnet --region fr,de --deadline 2026-03-05",
    ),
)
@click.argument("name", metavar="JOB")
@_what_if_options
@options.db_option
@options.config_option
@options.json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header.")
@options.verbose_option
def whatif(
    *, name: str, db_file: Path | None, config_file: Path | None, as_json: bool, as_csv: bool, **wanted: str | None
) -> None:
    """Compare what is expected of the rest of the job JOB (its id, the beginning of it, or its name) as it is with what
    it would be under another budget, policy or region.

    Each option takes one value or several with commas between, and all combinations are shown. All of it is worked out
    from what the job's last decision was given; 'none' lifts a limit: without a
    slowdown and a deadline the budget is its default, 5%. Nothing is changed.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv are two forms: choose one")
    with open_database(db_file, config_file) as log:
        job, last = last_of(log, name)
        decision, given, frontier = given_of(job, last)
        changes = list(_combined(wanted, decision.at))
        config, home = place_of(job, config_file)
        known = _known(log, config, home, decision.at)
        now = Now(given, frontier, decision.at, job.region, wishes_of(job, config, home))
        found = [expect(case(now, change, known), frontier, decision.at) for change in ({}, *changes)]
    rows = [expected.to_dict() for expected in found]
    if as_csv:
        emit_csv(rows)
    elif as_json:
        emit_json(_document(job, decision, rows))
    else:
        emit_lines(_head(job, decision))
        emit_table(rows, _columns(rows))
        emit_lines(["", *_foot(found[0])])


def _combined(wanted: Mapping[str, str | None], at: datetime) -> Iterator[dict[str, Any]]:
    """Every combination of the values given. Raises ``click.UsageError`` where there is none, or far too many."""
    given = {key: _values(key, text, at) for key, text in wanted.items() if text is not None}
    count = math.prod(map(len, given.values()))
    if not given:
        flags = ", ".join(flag for flag, _, _ in _OPTIONS.values())
        raise click.UsageError(f"say what is to be another: {flags}")
    if count > _MOST:
        raise click.UsageError(f"these are {count} combinations, and {_MOST} are the most: leave some out")
    for values in itertools.product(*given.values()):
        yield dict(zip(given, values, strict=True))


def _values(key: str, text: str, at: datetime) -> list[Any]:
    flag, read, _ = _OPTIONS[key]
    try:
        return [read(part.strip(), at) for part in text.split(",")]
    except (ValueError, OverflowError) as error:
        said = str(error) if key == "deadline" else f"{text!r} is no number, nor several with commas between"
        raise click.BadParameter(said, param_hint=f"'{flag}'") from error


def _known(log: Reader, config: Config, home: RegionConfig | None, at: datetime) -> Callable[[str | None], AsOf | None]:
    """What is stored of a region. The job's own may do without: its last decision knows the grid."""

    @lru_cache
    def known(name: str | None) -> AsOf | None:
        if name is not None:
            return as_of(home if home is not None and name == home.id else load_region(name), config, log, at)
        try:
            return None if home is None else as_of(home, config, log, at)
        except ConfigError as error:
            say_more(f"region {home.id if home else ''}: {error}")
            return None

    return known


def _document(job: JobRecord, decision: DecisionRecord, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "job": {key: getattr(job, key) for key in ("id", "name", "region", "units", "total_units")},
        "decision": decision.id,
        "at": decision.at,
        "denominators": DENOMINATORS,
        "cases": rows,
    }


def _head(job: JobRecord, decision: DecisionRecord) -> Iterator[str]:
    at = f"{decision.at:%Y-%m-%d %H:%M:%SZ} (decision {decision.id})"
    yield f"job {job.name} ({job.id}), region {job.region}: as of {at}"
    yield ""


def _foot(now: Expected) -> Iterator[str]:
    if not now.course.ends:
        yield f"Nobody knows how long the job is: each line is what it would do in the next {age(now.course.seconds)}."
    yield "Shares are of the same work at full power from now on, over its own time line: efficiency is what the"
    yield "best fixed setting that ends at the same time would save, timing the rest. All of it is expected."


def _share(row: Mapping[str, Any], part: str, name: str = "grams") -> str:
    value = row[f"{part}_{name}"]
    share = None if value is None else share_of(value, row[f"reference_{name}"])
    return "-" if share is None else percent(round(share, 4) + 0.0)


def _case(row: Mapping[str, Any]) -> str:
    return f"now ({row['policy']})" if row["case"] == "now" else str(row["case"])


def _ends(row: Mapping[str, Any]) -> str:
    if row["end"] is None:
        return "not known"
    return f"{row['end']:%d %b %Y}" if row["seconds"] > _YEAR_S else f"{row['end']:%a %d %b %H:%M}"


def _note(row: Mapping[str, Any]) -> str:
    late = f"{duration(row['late_seconds'])} late" if row["late_seconds"] else ""
    grid = "" if row["grid"] == "as decided" else f"grid of {row['region']}: {row['grid']}"
    beyond_s = row["unforecast_seconds"]
    beyond = f"the last {age(beyond_s)} like the hours before" if beyond_s >= _LONG_S else ""
    return "; ".join(filter(None, (late, grid, beyond)))


def _columns(rows: list[dict[str, Any]]) -> tuple[Column, ...]:
    """Without those that would be empty in every line."""
    columns = [
        Column("case", "what if", tell=_case, wrap=True),
        Column("end", "ends (UTC)", tell=_ends),
        Column("slowdown", "slower", show=percent, right=True),
        Column("energy_kwh", "kWh", show=lambda kwh: f"{kwh:,.1f}", right=True, spare=3),
        Column("grams", "CO2eq", show=lambda amount: grams(amount).removesuffix(" CO2eq"), right=True),
        Column("saved_grams", "saved", tell=lambda row: _share(row, "saved"), right=True),
        Column("efficiency_grams", "efficiency", tell=lambda row: _share(row, "efficiency"), right=True, spare=1),
        Column("timing_grams", "timing", tell=lambda row: _share(row, "timing"), right=True, spare=1),
        Column("cost", "money", tell=lambda row: "-" if row["cost"] is None else money(row["cost"], row["currency"])),
        Column("saved_cost", "money saved", tell=lambda row: _share(row, "saved", "cost"), right=True, spare=2),
        Column("note", "note", tell=_note, wrap=True),
    ]
    filled = {key for row in rows for key, value in row.items() if value is not None}
    filled |= {"note"} if any(map(_note, rows)) else set()
    return tuple(column for column in columns if column.key in filled | {"end"})
