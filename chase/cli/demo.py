"""``chase demo``: the main job, for somebody who has neither a GPU nor a network at hand."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from chase import demo as simulated_day
from chase.cli import options
from chase.config import load_region


@click.command(
    short_help="Show the main job offline, on simulated GPUs.",
    epilog=options.example("chase demo", "chase demo --seconds 60 --region gb --folder ./demo-output"),
)
@click.option(
    "--seconds", type=options.Number(min=5), default=25.0, show_default=True, help="How long the simulated day takes."
)
@click.option(
    "--region",
    "regions",
    multiple=True,
    default=simulated_day.REGIONS,
    show_default=True,
    metavar="REGION",
    help="A region to replay a typical day of; may be given again.",
)
@click.option("--folder", type=options.FOLDER, metavar="DIR", help="Where the databases stay; a new one by default.")
@options.verbose_option
@click.pass_context
def demo(ctx: click.Context, *, seconds: float, regions: tuple[str, ...], folder: Path | None) -> None:
    """Show the main job offline: the real service, store, API and client, on simulated GPUs and a typical day's grid.

    It ends with the decisions, one of them explained, joules, grams and slowdown, and where the databases are.
    """
    for region in regions:
        if load_region(region).typical is None:  # a wrong region is told before a day is begun
            raise click.BadParameter(f"region {region} has no typical profile to replay", param_hint="'--region'")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        folder = folder.absolute()
    ctx.exit(simulated_day.run(sys.stdout, folder=folder, seconds=seconds, regions=regions))
