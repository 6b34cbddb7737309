"""``chase status``: what the service says of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from chase import unixhttp
from chase.cli import options
from chase.cli.daemon import socket_path
from chase.cli.jobs import LIVE_COLUMNS
from chase.cli.output import Column, age, emit_json, emit_lines, emit_table, human

_LATE_S = 120.0
_GPU_COLUMNS = (
    Column("index", "gpu", right=True),
    Column("name", "name", least=12),
    Column("power_limit_w", "limit W", right=True),
    Column("enforced_w", "in force W", right=True),
    Column("original_w", "found W", right=True, spare=1),
    Column("default_w", "default W", right=True, spare=3),
    Column("jobs", "jobs", show=lambda jobs: ", ".join(job[:8] for job in jobs) or "-", least=8, spare=2),
    Column("note", "note", wrap=True),
)
_HOLD_COLUMNS = (
    Column("mode", "held at"),
    Column("job", "job", show=lambda job: str(job)[:8]),
    Column("until", "until", show=lambda until: str(until).replace("T", " ")),
    Column("uid", "by uid", right=True),
)


@click.command(
    short_help="Show what the service is doing now.",
    epilog=options.example("chase status", "chase status --json | jq .gpus"),
)
@options.socket_option
@options.config_option
@options.json_option
@options.verbose_option
def status(*, socket_file: Path | None, config_file: Path | None, as_json: bool) -> None:
    """Show what the service is doing now: its mode, the grid, the GPUs, the jobs and the holds.

    Exit code 75 means that no service answers.
    """
    document = unixhttp.request(socket_path(socket_file, config_file), "GET", "/v1/status")
    if as_json:
        emit_json(document)
        return
    emit_lines(service_lines(document["service"]))
    for region, signal in document["signal"].items():
        emit_lines(signal_lines(region, signal))
    _section("GPUs", [_with_note(gpu) for gpu in document["gpus"]], _GPU_COLUMNS)
    _section("Jobs", document["jobs"], LIVE_COLUMNS)
    if document["holds"]:
        _section("Holds", document["holds"], _HOLD_COLUMNS)


def service_lines(service: Mapping[str, Any]) -> Iterator[str]:
    kind = ", simulated GPUs" if service["simulated"] else ""
    why = f" ({service['control_reason']})" if service["control_reason"] else ""
    about = f"chase {service['version']}, pid {service['pid']}, up {age(service['uptime_s'])}{kind}"
    yield f"{about}: {service['control']} mode{why}"
    if not service["store_ok"]:
        yield f"Database {service['db']}: {service['store_reason']}"
    if service["tick_age_s"] > _LATE_S * max(1.0, service["clock_rate"]):
        yield f"The control loop last ran {age(service['tick_age_s'])} ago: see the service's log"


def signal_lines(region: str, signal: Mapping[str, Any]) -> Iterator[str]:
    if signal["g_per_kwh"] is None:
        yield f"Grid {region}: nothing usable ({signal['note'] or 'no source has answered yet'})"
    else:
        old = f", {age(signal['age_s'])} old" if signal["age_s"] is not None else ""
        value = f"{signal['g_per_kwh']:.0f} g/kWh{spread(signal)}, {signal['signal']} {signal['scope']}"
        yield f"Grid {region}: {value}, {signal['kind']} by {signal['source']}{old}, {signal['freshness']}"
        if signal["note"]:
            yield f"  {signal['note']}"
    for source in signal["sources"]:
        if source["problem"]:
            yield f"  {source['name']} ({source['zone']}): {_outage(source)}"


def spread(expected: Mapping[str, Any]) -> str:
    """The 80 % interval, where there is one."""
    low, high = expected["low"], expected["high"]
    return "" if low is None or high is None or low == high else f" ({low:.0f} to {high:.0f})"


def _outage(source: Mapping[str, Any]) -> str:
    """A source that is down is its provider's trouble as a rule, and since when says so better than its error."""
    if source["down_since"] is None:
        return str(source["problem"])
    good = f"last good {human(source['last_good'])}" if source["last_good"] else "no answer so far"
    return f"down since {human(source['down_since'])}, {good}: {source['problem']}"


def _section(title: str, rows: list[dict[str, Any]], columns: tuple[Column, ...]) -> None:
    emit_lines(["", f"{title}:" if rows else f"{title}: none"])
    if rows:
        emit_table(rows, columns)


def _with_note(gpu: Mapping[str, Any]) -> dict[str, Any]:
    """Foreign changes and missing abilities belong beside the figures."""
    foreign = f"somebody else set {human(gpu['foreign_w'])} W: respected" if gpu["foreign_w"] is not None else ""
    unable = "" if gpu["can_set"] else gpu["reason"] or "cannot be set"
    return {**gpu, "note": "; ".join(filter(None, (foreign, unable)))}
