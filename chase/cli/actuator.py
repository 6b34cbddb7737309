"""``chase actuator``: the options of the one process that needs to be root. It reads no configuration file."""

from __future__ import annotations

import grp
import logging
import pwd
from pathlib import Path

import click

from chase.cli import options
from chase.cli.output import is_verbose, say
from chase.errors import ChaseError, TryLater
from chase.notify import Notifier
from zeus_core.actuation import server
from zeus_core.actuation.base import ActuationError, HeldElsewhere
from zeus_core.gpus.base import GpuError
from zeus_core.gpus.nvml import NvmlSystem


@click.command(
    short_help="Run the privileged process that sets GPUs.",
    epilog=options.example(
        "sudo chase actuator --user chase",
        "sudo chase actuator --uid 990 --socket /run/chase-actuator/actuator.sock --state-dir /var/lib/chase-actuator",
    ),
)
@click.option("--uid", type=click.IntRange(min=0), help="The one user, by number, that it serves.")
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
    default=Path("/run/chase-actuator/locks"),
    show_default=True,
    metavar="DIR",
    help="Where each GPU has its lock.",
)
@click.option(
    "--lease-s",
    type=click.FloatRange(min=1),
    default=30.0,
    show_default=True,
    help="Silence after which it gives GPUs back.",
)
@click.option(
    "--ramp-w-per-s",
    type=click.FloatRange(min=0),
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
    lock_dir: Path,
    lease_s: float,
    ramp_w_per_s: float,
) -> None:
    """Run the privileged process: it sets power limits for one user's service, and nothing else.

    It never goes above the limit it found, and it gives every GPU back at once when that service is gone or silent, and
    when it is told to stop. One line on stderr for each change.
    """
    served, group_id = _uid(uid, user), _gid(group)
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
            lock_dir=lock_dir,
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
    say(f"chase actuator listens on {socket_file} for uid {uid}")
    Notifier()("READY=1")


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
