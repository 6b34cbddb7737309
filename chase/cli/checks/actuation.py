"""Whether a limit could be set here, by whom, and whether a dead owner left something to give back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from chase.cli.checks.finding import Finding, State
from chase.config import Config
from zeus_core.actuation.base import ActuationError, HeldElsewhere
from zeus_core.actuation.command import CommandSetter
from zeus_core.actuation.journal import Journal
from zeus_core.actuation.lock import GpuLock
from zeus_core.actuation.remote import RemoteActuator
from zeus_core.actuation.setter import DriverSetter, Setter
from zeus_core.gpus.base import Gpu, GpuError, GpuSystem, NoPermission, NotSupported


def reachable(config: Config) -> Iterator[Finding]:
    """The privileged process, if one is meant to be there. Asking it takes control for a moment and sets nothing."""
    path = config.control.actuator_socket
    if config.control.actuator not in {"auto", "remote"}:
        yield Finding("actuator", State.SKIP, f"not used: control.actuator is {config.control.actuator!r}")
        return
    actuator = RemoteActuator(path, timeout_s=2.0)
    try:
        states = actuator.describe()
    except HeldElsewhere as error:
        holder = f"process {error.pid}" if error.pid else "another process"
        yield Finding("actuator", State.OK, f"answers at {path}; {holder} is in control")
    except ActuationError as error:
        yield _unanswered(config, error)
    else:
        able = sum(state.can_set for state in states)
        yield Finding("actuator", State.OK, f"answers at {path}; it can set {able} of {len(states)} GPUs")
    finally:
        actuator.close()


def _unanswered(config: Config, error: ActuationError) -> Finding:
    """Root needs none in auto mode, and one that refuses us may still be right for the service's uid."""
    alone = os.geteuid() == 0 and config.control.actuator == "auto"
    start = f"start it as root: chase actuator --uid {os.geteuid()}"
    if not isinstance(error.__cause__, OSError):
        state = State.OK if os.geteuid() == 0 else State.WARN
        return Finding("actuator", state, str(error), "" if alone else "run the service as the uid that it serves")
    if alone:
        return Finding(
            "actuator", State.SKIP, f"none at {config.control.actuator_socket}; a service of root needs none"
        )
    state = State.FAIL if config.control.actuator == "remote" else State.WARN
    return Finding("actuator", state, str(error), start)


def leftovers(config: Config) -> Iterator[Finding]:
    """Journals without a living owner: GPUs that still have to be given back."""
    state_dir = config.journal_dir
    try:
        owed = [uuid for uuid in Journal(state_dir).uuids() if not _owned(uuid, config.lock_dir)]
    except ActuationError as error:
        yield Finding("leftovers", State.SKIP, str(error))
        return
    for uuid in owed:
        found = f"a process that is gone left it changed ({state_dir})"
        yield Finding("leftovers", State.FAIL, found, "give it back as root: chase restore", uuid)
    if not owed:
        yield Finding("leftovers", State.OK, f"nothing to give back in {state_dir}")


def _owned(uuid: str, locks: Path) -> bool:
    try:
        GpuLock.acquire(locks, uuid).release()
    except HeldElsewhere:
        return True
    return False


def setter(config: Config, system: GpuSystem, *, probe: bool) -> Iterator[Finding]:
    """That a limit can be read does not say that it can be set (rule G6): only setting it to what it is does."""
    if not probe:
        found = "not probed: that takes setting each limit to what it is"
        yield Finding("setter", State.SKIP, found, "probe it with --probe-setter")
        return
    command = config.control.setter_command
    try:
        how: Setter = CommandSetter(command) if command else DriverSetter()
    except ActuationError as error:
        yield Finding("setter", State.FAIL, str(error), "mend control.setter_command")
        return
    for gpu in system.gpus():
        yield _probed(gpu, how, config.lock_dir)


def _probed(gpu: Gpu, how: Setter, locks: Path) -> Finding:
    try:
        lock = GpuLock.acquire(locks, gpu.uuid)
    except HeldElsewhere as error:
        return Finding("setter", State.SKIP, f"{error}; it knows: see 'chase status'", "", gpu.uuid)
    except ActuationError as error:
        return Finding("setter", State.WARN, str(error), "run the doctor as the user that sets limits", gpu.uuid)
    try:
        limit_w = gpu.power_limit_w()
        how.set_power_limit_w(gpu, limit_w)
    except NoPermission as error:
        advice = "run 'chase actuator' as root, or name a control.setter_command; until then chase only observes"
        return Finding("setter", State.WARN, str(error), advice, gpu.uuid)
    except NotSupported as error:
        advice = "this card has a limit that cannot be set: chase only observes here"
        return Finding("setter", State.WARN, str(error), advice, gpu.uuid)
    except (GpuError, ActuationError) as error:
        return Finding("setter", State.FAIL, str(error), "see the kernel log and nvidia-smi", gpu.uuid)
    finally:
        lock.release()
    return Finding("setter", State.OK, f"{limit_w:g} W could be set, by the {how.backend} setter", "", gpu.uuid)
