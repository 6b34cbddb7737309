"""``chase doctor``: everything that commonly stands in the way, looked at in one go."""

from __future__ import annotations

import platform
from pathlib import Path

import click

from chase import __version__
from chase.build import system_of
from chase.cli import options
from chase.cli.checks import actuation, gpus, node, sources
from chase.cli.checks.finding import Finding, State, guarded
from chase.cli.daemon import socket_path
from chase.cli.output import emit_json, emit_lines, emit_marked
from chase.cli.where import database
from chase.clock import SystemClock
from chase.config import Config, Loaded, load
from chase.errors import ConfigError

_COLOURS = {State.OK: "green", State.WARN: "yellow", State.FAIL: "red", State.SKIP: "bright_black"}


@click.command(
    short_help="Check this node and say what to do.",
    epilog=options.example("chase doctor", "chase doctor --online", "sudo chase doctor --probe-setter --json"),
)
@click.option("--online", is_flag=True, help="Also ask each source of the region for its newest value.")
@click.option(
    "--probe-setter", is_flag=True, help="Also set each GPU's current limit back, which proves that it can be set."
)
@options.config_option
@options.region_option
@options.db_option
@options.socket_option
@options.json_option
@options.verbose_option
@click.pass_context
def doctor(
    ctx: click.Context,
    *,
    online: bool,
    probe_setter: bool,
    config_file: Path | None,
    region: str | None,
    db_file: Path | None,
    socket_file: Path | None,
    as_json: bool,
) -> None:
    """Check this node: configuration, driver, GPUs, permissions, database, service, sources and clock.

    Nothing is changed, and without --online nothing goes over the network. Exit code 1 means that something fails.
    """
    loaded, findings = _configuration(config_file, region)
    if loaded is not None:
        places = database(db_file, config_file), socket_path(socket_file, config_file)
        findings += _checks(loaded, *places, online=online, probe=probe_setter)
    findings += [*guarded("clock", node.clock), *guarded("other-power-daemons", node.rivals)]
    ok = all(finding.state is not State.FAIL for finding in findings)
    if as_json:
        emit_json({**_about(), "ok": ok, "checks": findings})
    else:
        _show(findings)
    ctx.exit(0 if ok else 1)


def _configuration(config_file: Path | None, region: str | None) -> tuple[Loaded | None, list[Finding]]:
    try:
        loaded = load(service_file=config_file, region=region)
    except ConfigError as error:
        return None, [Finding("config", State.FAIL, str(error), "mend it, then run the doctor again for the rest")]
    found = f"{loaded.service_file or 'defaults'}, region {loaded.region.id} ({loaded.region_file})"
    return loaded, [Finding("config", State.OK, found)]


def _checks(loaded: Loaded, db: Path, socket: Path, *, online: bool, probe: bool) -> list[Finding]:
    config = loaded.config
    return [
        *_gpus(config, probe=probe),
        *guarded("permission", gpus.privileges),
        *guarded("actuator", lambda: actuation.reachable(config)),
        *guarded("leftovers", lambda: actuation.leftovers(config)),
        *guarded("database", lambda: node.database(db)),
        *guarded("service", lambda: node.service(socket)),
        *guarded("source", lambda: sources.configured(loaded, SystemClock(), online=online)),
    ]


def _gpus(config: Config, *, probe: bool) -> list[Finding]:
    findings, system = gpus.driver(lambda: system_of(config, SystemClock()))
    if system is None:
        return findings
    try:
        for gpu in system.gpus():
            findings += guarded("gpu", lambda gpu=gpu: gpus.card(gpu, config.profile.min_headroom))  # type: ignore[misc]
        findings += guarded("setter", lambda: actuation.setter(config, system, probe=probe))
    finally:
        system.close()
    return findings


def _about() -> dict[str, str]:
    return {"chase": __version__, "python": platform.python_version(), "system": platform.platform(terse=True)}


def _show(findings: list[Finding]) -> None:
    emit_lines([", ".join(f"{key} {value}" for key, value in _about().items())])
    for finding in findings:
        where = f" {finding.gpu}" if finding.gpu else ""
        emit_marked(finding.state.value, _COLOURS[finding.state], f"{finding.subject}{where}: {finding.found}")
        if finding.advice:
            emit_marked("", None, f"-> {finding.advice}")
