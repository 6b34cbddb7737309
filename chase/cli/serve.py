"""``chase serve``: the options of the service, and no logic."""

from __future__ import annotations

from pathlib import Path

import click

from chase import service
from chase.cli import options
from chase.cli.output import is_verbose
from chase.config import load


@click.command(
    short_help="Run the service on this node.",
    epilog=options.example(
        "chase serve --observe",
        "chase serve --config /etc/chase/chase.toml --region de",
        "chase serve --simulated --region gb --db try.sqlite",
    ),
)
@options.config_option
@options.region_option
@options.db_option
@options.socket_option
@click.option("--observe", is_flag=True, help="Decide and log, and touch no GPU.")
@click.option("--simulated", is_flag=True, help="Use the simulated GPUs of [simulated] in place of real ones.")
@options.verbose_option
@click.pass_context
def serve(
    ctx: click.Context,
    *,
    config_file: Path | None,
    region: str | None,
    db_file: Path | None,
    socket_file: Path | None,
    observe: bool,
    simulated: bool,
) -> None:
    """Run the service in the foreground: poll the grid, take jobs in, and move their GPUs.

    A flag beats the environment, which beats the files ('chase config show --origin' tells). SIGTERM and SIGINT end it
    and give every GPU back; SIGHUP reads the configuration again.
    """
    flags = {
        "service.db": db_file,
        "service.mode": "observe" if observe else None,
        "service.socket": socket_file,
        "control.gpus": "simulated" if simulated else None,
        "log.level": "debug" if is_verbose() else None,
    }
    ctx.exit(service.run(load(service_file=config_file, region=region, overrides=flags)))
