"""``chase actuator``: the options of the one process that needs to be root. It reads no configuration file."""

from __future__ import annotations

import grp
import logging
import os
import pwd
from pathlib import Path

import click

from chase.cli import options
from chase.cli.output import is_verbose
from chase.errors import ChaseError, TryLater
from chase.notify import Notifier
from zeus_core.actuation import server
from zeus_core.actuation.base import ActuationError, HeldElsewhere
from zeus_core.gpus.base import GpuError
from zeus_core.gpus.nvml import NvmlSystem

log = logging.getLogger(__name__)


@click.command(
    short_help="Run the privileged process that sets GPUs.",
    epilog=options.example(
        "sudo chase actuator --user chase",
        "sudo chase actuator --uid 990 --socket /run/chase-actuator/actuator.sock --state-dir /var/lib/chase-actuator",
    ),
)
@click.option("--uid", type=options.Whole(min=0), help="The one user, by number, that it serves.")
@click.option("--user", metavar="NAME", help="The one user, by name, that it serves.")
@click.option(
    "--group", metavar="NAME", help="Let this group connect too, where the service's user is its only member."
)
@click.option(
    "--socket",
    "socket_file",
    type=options.FILE,
    default=Path("/run/chase-actuator/actuator.sock"),
    show_default=True,
    metavar="FILE",
    help="Where it listens.",
)
@click.option(
    "--state-dir",
    type=options.FOLDER,
    default=Path("/var/lib/chase-actuator"),
    show_default=True,
    metavar="DIR",
    help="Where the limits found are journalled; must survive a crash.",
)
@click.option(
    "--lock-dir",
    type=options.FOLDER,
    metavar="DIR",
    help="Where each GPU has its lock; the folder locks beside the socket, if not given.",
)
@click.option(
    "--lease-s",
    type=options.Number(min=1),
    default=30.0,
    show_default=True,
    help="Silence after which it gives GPUs back.",
)
@click.option(
    "--ramp-w-per-s",
    type=options.Number(min=0),
    default=250.0,
    show_default=True,
    help="Steepest rise of a limit; 0 is none.",
)
@options.verbose_option
@click.pass_context
def actuator(
    ctx: click.Context,
    *,
    uid: int | None,
    user: str | None,
    group: str | None,
    socket_file: Path,
    state_dir: Path,
    lock_dir: Path | None,
    lease_s: float,
    ramp_w_per_s: float,
) -> None:
    """Run the privileged process: it sets power limits for one user's service, and nothing else.

    It never goes above the limit it found, and it gives every GPU back at once when that service is gone or silent, and
    when it is told to stop. One line on stderr for each change.
    """
    served, group_id = _uid(uid, user), _gid(group)
    locks = lock_dir or socket_file.parent / "locks"  # where the configuration looks for them
    _check_rights(state_dir, locks, socket_file.parent)
    logging.basicConfig(
        level=logging.DEBUG if is_verbose() else logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    system = NvmlSystem()
    try:
        status = server.run(
            system,
            socket_path=socket_file,
            uid=served,
            gid=group_id,
            state_dir=state_dir,
            lock_dir=locks,
            lease_s=lease_s,
            ramp_w_per_s=ramp_w_per_s,
            ready=lambda: _ready(socket_file, served),
        )
    except HeldElsewhere as error:
        raise TryLater(str(error)) from error
    except (ActuationError, GpuError) as error:
        raise ChaseError(str(error)) from error
    finally:
        system.close()
    ctx.exit(status)


def _ready(socket_file: Path, uid: int) -> None:
    log.info("chase actuator listens on %s for uid %d", socket_file, uid)
    Notifier()("READY=1")


def _check_rights(*folders: Path) -> None:
    """Whoever is not root and may not write there has most likely forgotten ``sudo``."""
    for folder in folders if os.geteuid() != 0 else ():
        nearest = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise ChaseError(
                f"uid {os.geteuid()} may not write to {folder}: run 'chase actuator' as root, as with sudo"
            )


def _uid(uid: int | None, user: str | None) -> int:
    if (uid is None) == (user is None):
        raise click.UsageError("say whom it serves: --uid UID or --user NAME")
    if uid is not None:
        return uid
    try:
        return pwd.getpwnam(str(user)).pw_uid
    except KeyError as error:
        raise click.BadParameter(f"there is no user {user!r} here", param_hint="'--user'") from error


def _gid(group: str | None) -> int | None:
    if group is None:
        return None
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError as error:
        raise click.BadParameter(f"there is no group {group!r} here", param_hint="'--group'") from error
