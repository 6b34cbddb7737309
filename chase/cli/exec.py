"""``chase exec``: a command as a job of the service."""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path

import click

from chase import launch
from chase.cli import options, times
from chase.cli.daemon import socket_path
from chase.cli.output import is_verbose, say
from chase.client.messages import Terms
from chase.errors import ConfigError


def _share(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """``0.1`` and ``10%`` are the same slowdown."""
    if value is None:
        return None
    try:
        share = options.fraction(value)
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 5.0:  # noqa: PLR2004  the configuration's own bound
        raise click.BadParameter(f"{value!r} is not a slowdown from 0 to 5, such as 0.1 or 10%", ctx, param)
    return share


def _gpus(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
    if value is None:
        return None
    named = [part.strip() for part in value.split(",") if part.strip()]
    if not named:
        raise click.BadParameter("name at least one GPU, such as 0,1", ctx, param)
    return named


@click.command(
    "exec",
    short_help="Run a command as a job of the service.",
    epilog=options.example(
        "chase exec -- python train.py --epochs 90",
        "chase exec --gpus 0,1 --max-slowdown 10% --profile a40-resnet50 -- torchrun train.py",
    ),
    context_settings={"allow_interspersed_args": False},  # what follows the command's name is the command's
)
@click.option("--name", metavar="NAME", help="What the job is called; else as its Job says, or the script's name.")
@click.option(
    "--gpus",
    metavar="GPU,...",
    callback=_gpus,
    help="Its GPUs: indices as nvidia-smi counts, UUIDs or their beginnings.",
)
@click.option("--units", metavar="NAME", help="What it counts, such as steps, samples or tokens.")
@click.option("--total", type=options.Number(min=0, min_open=True), metavar="N", help="How many of them it will do.")
@click.option(
    "--max-slowdown",
    metavar="SHARE",
    callback=_share,
    help="How much longer the job may take than at full power: 0.1 and 10% are the same.",
)
@click.option(
    "--deadline",
    metavar="WHEN",
    callback=times.moment(times.until),
    help="When it must be done: 20h, 18:00 or 2026-03-01T18:00Z (UTC); needs --total.",
)
@click.option(
    "--policy",
    type=click.Choice(["budget", "threshold", "chase", "static", "off"]),
    help="In place of the configured policy.",
)
@click.option("--profile", metavar="NAME", help="A published power and speed curve, in place of measuring one.")
@click.option("--region", metavar="REGION", help="Its grid region: it must be the region that the service polls.")
@options.socket_option
@options.config_option
@options.verbose_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND [ARG]...")
@click.pass_context
def exec_(
    ctx: click.Context,
    *,
    name: str | None,
    gpus: list[str] | None,
    units: str | None,
    total: float | None,
    max_slowdown: float | None,
    deadline: datetime | None,
    policy: str | None,
    profile: str | None,
    region: str | None,
    socket_file: Path | None,
    config_file: Path | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND as one job of the service: register it, pass its signals and its exit status through, sum it up.

    The GPUs are those that the environment shows (CUDA_VISIBLE_DEVICES) unless --gpus names others. Where no service
    answers, that is said and the command runs all the same.

    The optimizer steps of a PyTorch training are counted without a change to it, unless it counts by itself
    (chase.client.Job). CHASE_INSTRUMENT=0 turns that off.
    """
    wishes = {
        "name": policy,
        "max_slowdown": max_slowdown,
        "deadline": deadline.isoformat() if deadline is not None else None,
    }
    terms = Terms(
        units=units,
        total_units=total,
        region=region,
        policy={key: value for key, value in wishes.items() if value is not None} or None,
        profile=profile,
    )
    level = logging.INFO if is_verbose() else logging.WARNING
    socket = _socket(socket_file, config_file)
    ctx.exit(launch.run(command, name=name, gpus=gpus, terms=terms, socket=socket, level=level))


def _socket(socket_file: Path | None, config_file: Path | None) -> Path | None:
    """A file that cannot be used is no reason not to train."""
    try:
        return socket_path(socket_file, config_file)
    except ConfigError as error:
        say(f"chase exec: {error}; the service is looked for in the usual places")
        return None
