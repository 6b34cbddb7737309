"""``chase config``: what is in force and who said so."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from chase.build import prices_of, sources_of
from chase.cli import options
from chase.cli.checks.sources import can_be_asked, missing_tokens
from chase.cli.output import Column, Form, emit, emit_json, emit_rows, human, say
from chase.clock import SystemClock
from chase.config import Config, Loaded, job_policy, load, load_region, origin_rows
from chase.config.checks import policy_doubts
from chase.config.layers import read_toml
from chase.errors import ConfigError
from providers.session import Session


def _shown(value: Any) -> str:
    """As the file would say it, where people would say it otherwise."""
    return str(value).lower() if isinstance(value, bool) else human(value)


_VALUE = (Column("key", "key"), Column("value", "value", show=_shown, wrap=True))
_ORIGIN = (*_VALUE, Column("origin", "set by", wrap=True))


@click.group(short_help="Show or check the configuration.", epilog=options.example("chase config show --origin"))
def config() -> None:
    """Show or check the configuration: defaults < service file < region file < job < environment < flag."""


@config.command(
    short_help="Show every setting in force.",
    epilog=options.example("chase config show --origin", "chase config show --region de --json"),
)
@click.option("--origin", is_flag=True, help="Show who set each: default, FILE:LINE, an environment variable, a flag.")
@options.config_option
@options.region_option
@options.list_options
@options.verbose_option
def show(*, origin: bool, config_file: Path | None, region: str | None, form: Form) -> None:
    """Show every setting in force. Secrets are never among them: a token's variable is named, not read."""
    rows = _in_force(load(service_file=config_file, region=region), " (default)" if form is Form.TEXT else "")
    emit_rows(rows, _ORIGIN if origin else _VALUE, form)


def _in_force(loaded: Loaded, mark: str) -> list[dict[str, Any]]:
    """Every setting; a path that follows from others stands, with a ``mark``, where nobody set it."""
    service = loaded.config.service
    follows = {"service.db": service.db_path, "service.socket": service.socket_path}
    rows = [asdict(row) for row in origin_rows(loaded)]
    for row in rows:
        if row["value"] is None and row["key"] in follows:
            row["value"] = f"{follows[row['key']]}{mark}"
    return rows


@config.command(
    short_help="Check a configuration and touch nothing.",
    epilog=options.example(
        "chase config check", "chase config check /etc/chase/chase.toml", "chase config check my-region.toml"
    ),
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@options.config_option
@options.region_option
@options.json_option
@options.verbose_option
@click.pass_context
def check(
    ctx: click.Context, *, file: Path | None, config_file: Path | None, region: str | None, as_json: bool
) -> None:
    """Check the configuration in force, or FILE: a service file or a region file. Nothing is asked or touched.

    Exit code 2 means that it cannot be used, 1 that it can, but that no source of the region could be asked.
    """
    try:
        document = _checked(file or config_file, region)
    except ConfigError as error:
        if not as_json:
            raise
        emit_json({"ok": False, "problems": str(error).splitlines()})
        ctx.exit(error.exit_code)
    emit(document, lambda: [f"{name}: good" for name in document["files"]], as_json=as_json)
    for problem in document["problems"]:
        say(problem)
    ctx.exit(0 if document["ok"] else 1)


def _checked(file: Path | None, region: str | None) -> dict[str, Any]:
    clock = SystemClock()
    now = clock.now()
    if file is not None and isinstance(read_toml(file).data.get("region"), dict):
        found, files = load_region(file), [str(file)]
        doubts = [f"{file}: policy.{text}" for _, text in policy_doubts(job_policy(Config(), found, {}), found, now)]
    else:
        loaded = load(service_file=file, region=region)
        found, files, doubts = loaded.region, _files(loaded), loaded.doubts(now)
    given: dict[str, Any] = {"session": Session(), "clock": clock}
    sources_of(found, **given)  # raises for options that a source does not have
    prices_of(found, **given)
    problems = [f"region {found.id}, source {finding.found}" for finding in missing_tokens(found)]
    return {"ok": can_be_asked(found), "files": files, "problems": [*problems, *doubts]}


def _files(loaded: Loaded) -> list[str]:
    service = str(loaded.service_file) if loaded.service_file else "defaults (no service file)"
    return [service, str(loaded.region_file)]
