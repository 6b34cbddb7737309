"""``chase hold``: a person overrides the policy."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from chase import unixhttp
from chase.cli import jobref, options, times
from chase.cli.daemon import socket_path
from chase.cli.output import emit, utc
from chase.errors import ChaseError

_MODES = ("speed-first", "efficiency-first", "off", "none")


@click.command(
    short_help="Override the policy for a while.",
    epilog=options.example(
        "chase hold speed-first --until 18:00", "chase hold off --job resnet --until 2h", "chase hold none"
    ),
)
@click.argument("mode", type=click.Choice(_MODES))
@click.option(
    "--until",
    metavar="TIME",
    help="The end of it: 2h, 18:00 (the next one) or 2026-03-01T18:00Z (UTC). Without it: until 'hold none'.",
)
@click.option("--job", metavar="JOB", help="Only this job (id, its beginning, or name) and not the whole node.")
@options.socket_option
@options.config_option
@options.json_option
@options.verbose_option
def hold(
    *,
    mode: str,
    until: str | None,
    job: str | None,
    socket_file: Path | None,
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Hold the node, or one job, at MODE until a time, whatever the grid does.

    speed-first is the fastest setting, efficiency-first the most frugal one, off leaves the GPUs as they were found,
    and none lifts the hold.
    """
    if mode == "none" and until is not None:
        raise click.UsageError("'hold none' lifts a hold at once: leave out --until")
    path = socket_path(socket_file, config_file)
    end = _moment(until, path)
    job_id = jobref.find_running(path, job) if job else None
    if mode == "none":
        answer = unixhttp.request(path, "DELETE", "/v1/holds", {"job": job_id})
    else:
        body = {"mode": mode, "until": end, "job": job_id}
        answer = unixhttp.request(path, "POST", "/v1/holds", body)["hold"]
    emit(answer, lambda: [_sentence(mode, answer.get("until"), job)], as_json=as_json)


def _moment(until: str | None, path: Path) -> str | None:
    """By the service's clock, which may be a simulated one; what is no moment to come is told without a service too."""
    if until is None:
        return None
    try:
        now = datetime.fromisoformat(unixhttp.request(path, "GET", "/v1/status")["service"]["now"])
    except ChaseError:
        _read(until, datetime.now(UTC))
        raise
    return _read(until, now)


def _read(until: str, now: datetime) -> str:
    try:
        return utc(times.until(until, now))
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(str(error), param_hint="'--until'") from error


def _sentence(mode: str, until: str | None, job: str | None) -> str:
    whom = f"Job {job}" if job else "The node"
    if mode == "none":
        return f"{whom} follows its policy again."
    end = f"until {until.replace('T', ' ')}" if until else "until 'chase hold none'"
    return f"{whom} is held at {mode} {end}."
