"""``chase restore``: giving GPUs back with neither a daemon nor a database, from the actuator's journal alone."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from chase.cli import options
from chase.cli.output import Column, Form, emit_rows, say
from chase.config import load
from chase.errors import ChaseError, ConfigError
from zeus_core.actuation import leftovers
from zeus_core.actuation.base import ActuationError, Applied, HeldElsewhere, Status
from zeus_core.actuation.command import CommandSetter
from zeus_core.actuation.journal import Journal
from zeus_core.actuation.lock import GpuLock
from zeus_core.actuation.setter import DriverSetter, Setter
from zeus_core.gpus.base import Gpu, GpuError
from zeus_core.gpus.nvml import NvmlSystem
from zeus_core.gpus.visible import resolve

_COLUMNS = (
    Column("uuid", "gpu"),
    Column("status", "result"),
    Column("enforced_w", "in force W", right=True, spare=1),
    Column("detail", "detail", wrap=True),
)


@dataclass(frozen=True, slots=True)
class Places:
    """Where the journal and the locks are, and who sets the limits."""

    state_dir: Path = Path("/var/lib/chase-actuator")
    lock_dir: Path = Path("/run/chase-actuator/locks")
    setter: Setter = DriverSetter()  # noqa: RUF009  it holds nothing


@click.command(
    short_help="Give GPUs back as they were found.",
    epilog=options.example("chase restore", "chase restore 0 GPU-5a1c", "chase restore --all --json"),
)
@click.argument("gpus", nargs=-1, metavar="[GPU]...")
@click.option("--all", "everything", is_flag=True, help="Every GPU that has a journal; the same as naming none.")
@click.option("--state-dir", type=options.FOLDER, metavar="DIR", help="The journal's folder, if not as configured.")
@click.option("--lock-dir", type=options.FOLDER, metavar="DIR", help="The locks' folder, if not as configured.")
@options.config_option
@options.list_options
@options.verbose_option
@click.pass_context
def restore(
    ctx: click.Context,
    *,
    gpus: tuple[str, ...],
    everything: bool,
    state_dir: Path | None,
    lock_dir: Path | None,
    config_file: Path | None,
    form: Form,
) -> None:
    """Give each GPU (an index, a UUID or its beginning) back as it was found, if a dead service left it changed.

    It needs the journal alone: no service, no database, no valid configuration. A GPU that a living process holds is
    left to it: exit code 75, with the process named. Exit code 1 means that one could not be given back.
    """
    if everything and gpus:
        raise click.UsageError("name GPUs or say --all, not both")
    configured = _configured(config_file)
    places = Places(state_dir or configured.state_dir, lock_dir or configured.lock_dir, configured.setter)
    rows = _restored(gpus, places)
    emit_rows(rows, _COLUMNS, form, none=f"Nothing to give back: {places.state_dir} holds no journal of a changed GPU.")
    ctx.exit(_exit_code(rows))


def _configured(config_file: Path | None) -> Places:
    """A configuration that cannot be read must not stand between a GPU and its owner."""
    try:
        config = load(service_file=config_file).config
    except ConfigError as error:
        say(f"The configuration cannot be used, so the usual folders are tried: {error}")
        return Places()
    return Places(config.journal_dir, config.lock_dir, _setter(config.control.setter_command))


def _setter(command: tuple[str, ...]) -> Setter:
    try:
        return CommandSetter(command) if command else DriverSetter()
    except ActuationError as error:
        say(f"The driver is asked instead: {error}")
        return DriverSetter()


def _restored(gpus: tuple[str, ...], places: Places) -> list[dict[str, Any]]:
    try:
        owed = Journal(places.state_dir).uuids()
        if not owed and not gpus:
            return []
        with closing(NvmlSystem()) as system:
            wanted = _uuids(gpus, system) if gpus else owed
            holders = {uuid: _holder(uuid, places.lock_dir) for uuid in wanted if uuid in owed}
            leftovers.log.addHandler(logging.NullHandler())  # its results are the table, and need not be said before it
            results = leftovers.restore_leftovers(
                system, places.state_dir, places.lock_dir, setter=places.setter, only=wanted
            )
    except (ActuationError, GpuError) as error:
        raise ChaseError(str(error)) from error
    return [_row(result, holders.get(uuid)) for uuid, result in results.items()]


def _uuids(gpus: tuple[str, ...], system: NvmlSystem) -> list[str]:
    known = system.gpus()
    found: dict[str, None] = {}
    for gpu in gpus:
        match = resolve({"CUDA_VISIBLE_DEVICES": gpu, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, known)
        if not match:
            raise click.BadParameter(_no_match(gpu, known), param_hint="GPU")
        found.update((found_gpu.uuid, None) for found_gpu in match)
    return list(found)


def _no_match(gpu: str, known: Sequence[Gpu]) -> str:
    several = [each for each in known if gpu and each.uuid.startswith(gpu)]
    there = ", ".join(f"{each.index} ({each.uuid})" for each in several or known) or "none"
    if len(several) > 1:
        return f"{gpu!r} is ambiguous: it is the beginning of {there}"
    return f"this node has no GPU {gpu!r}; it has {there}"


def _holder(uuid: str, lock_dir: Path) -> int | None:
    """The pid of the living process that has the GPU; 0 where it is not known, None where there is none."""
    try:
        GpuLock.acquire(lock_dir, uuid).release()
    except HeldElsewhere as error:
        return error.pid or 0
    return None


def _row(result: Applied, holder: int | None) -> dict[str, Any]:
    held = holder is not None and result.status is Status.FAILED
    return {**asdict(result), "status": "held" if held else result.status.value, "holder_pid": holder}


def _exit_code(rows: list[dict[str, Any]]) -> int:
    statuses = {row["status"] for row in rows}
    if statuses & {"failed", "lost", "no_permission", "not_supported"}:
        return 1
    return 75 if "held" in statuses else 0
