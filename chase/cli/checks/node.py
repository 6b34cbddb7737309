"""The machine apart from its GPUs: clock, disk, the database, the sockets, and who else moves power limits."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chase import unixhttp
from chase.cli.checks.finding import Finding, State
from chase.cli.output import age
from chase.errors import ChaseError, StoreError, TryLater
from chase.store import open_readonly
from chase.store.connect import filesystem, refuse_network

_LEAST_FREE_BYTES = 200 * 1024 * 1024
_RIVALS = {
    "nvidia-powerd": "stop it, or it moves the same limits: systemctl disable --now nvidia-powerd",
    "tuned": "make sure that its profile leaves GPU power limits alone",
    "zeusd": "let one of the two set limits: point jobs away from it, or run chase in observe mode",
}
_TIME_ERROR = 5  # adjtimex(2): the clock is not synchronised
_TIMEX_BYTES = 208  # sizeof(struct timex) on 64-bit Linux; ``modes`` 0 only reads


def clock(state: int | None = None) -> Iterator[Finding]:
    """Whether the kernel's clock is disciplined: a wrong hour is a wrong intensity. ``state`` is adjtimex's."""
    state = _kernel_clock() if state is None else state
    if state is None:
        yield Finding("clock", State.SKIP, "the kernel does not say whether its clock is synchronised")
    elif state == _TIME_ERROR:
        advice = "turn on time synchronisation: systemctl enable --now systemd-timesyncd (or chrony)"
        yield Finding("clock", State.WARN, "the kernel's clock is not synchronised", advice)
    else:
        yield Finding("clock", State.OK, "synchronised")


def _kernel_clock() -> int | None:
    try:
        read = ctypes.CDLL(None, use_errno=True).adjtimex
    except (OSError, AttributeError):
        return None
    state = int(read(ctypes.create_string_buffer(_TIMEX_BYTES)))
    return None if state < 0 else state


def database(path: Path) -> Iterator[Finding]:
    yield _disk(path)
    yield _free(path)
    yield _content(path)


def _disk(path: Path) -> Finding:
    try:
        refuse_network(path)
    except StoreError as error:
        return Finding("database-disk", State.FAIL, str(error), "set service.state_dir to a local disk")
    return Finding("database-disk", State.OK, f"{path} is on {filesystem(path) or 'a file system without a name'}")


def _free(path: Path) -> Finding:
    folder = next(parent for parent in (path.parent, *path.parent.parents) if parent.exists())
    free = shutil.disk_usage(folder).free
    found = f"{free / 2**30:.1f} GiB free at {folder}"
    if free < _LEAST_FREE_BYTES:
        return Finding("database-space", State.WARN, found, "make room, or keep less with store.keep_days")
    return Finding("database-space", State.OK, found)


def _content(path: Path) -> Finding:
    if not path.exists():
        folder = next(parent for parent in (path.parent, *path.parent.parents) if parent.exists())
        if os.access(folder, os.W_OK):
            return Finding("database", State.OK, f"{path} does not exist yet; 'chase serve' makes it")
        advice = "run the service as a user that may write there, or set service.state_dir"
        return Finding("database", State.WARN, f"{path} does not exist, and uid {os.geteuid()} may not make it", advice)
    try:
        with open_readonly(path) as log:
            count = len(log.jobs())
    except ChaseError as error:
        return Finding("database", State.FAIL, str(error), "read as its owner, or let the service set it aside")
    size = path.stat().st_size
    return Finding("database", State.OK, f"{path} is readable: {count} jobs, {size / 2**20:.1f} MiB")


def service(socket_path: Path) -> Iterator[Finding]:
    try:
        status = unixhttp.request(socket_path, "GET", "/v1/status", timeout_s=2.0)
    except TryLater as error:
        yield Finding("service", State.WARN, str(error), "start it: systemctl start chase, or 'chase serve'")
    except ChaseError as error:
        yield Finding("service", State.FAIL, str(error), "see who owns the socket, and service.socket_group")
    else:
        yield from _running(status, socket_path)


def _running(status: Mapping[str, Any], socket_path: Path) -> Iterator[Finding]:
    facts = status["service"]
    found = f"{facts['version']} answers at {socket_path}, in {facts['control']} mode, up {age(facts['uptime_s'])}"
    if facts["control"] == "observe":
        advice = "nothing to do if that is meant; otherwise see the GPU and actuator lines"
        yield Finding("service", State.WARN, f"{found}: {facts['control_reason']}", advice)
    else:
        yield Finding("service", State.OK, found)
    if not facts["store_ok"]:
        advice = "make room at, or mend, the place of the database; decisions go on without it"
        yield Finding("service-database", State.FAIL, str(facts["store_reason"]), advice)
    for gpu in status["gpus"]:
        if not gpu["can_set"] and facts["control"] == "control":
            yield Finding("service-gpu", State.WARN, str(gpu["reason"]), "see 'chase status'", gpu["uuid"])


def rivals(processes: Path = Path("/proc")) -> Iterator[Finding]:
    """Two daemons that set limits fight (rule G22)."""
    found = sorted({name for name in _names(processes) if name in _RIVALS})
    for name in found:
        yield Finding("other-power-daemons", State.WARN, f"{name} is running", _RIVALS[name])
    if not found:
        yield Finding("other-power-daemons", State.OK, "none known is running")


def _names(processes: Path) -> Iterator[str]:
    for comm in processes.glob("[0-9]*/comm"):
        try:
            yield comm.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:  # it ended just now
            continue
