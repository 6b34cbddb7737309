"""The GPUs: whether the driver answers, what each card allows, and whether its limit can be set."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from chase.cli.checks.finding import Finding, State
from chase.errors import ChaseError
from zeus_core.gpus.base import Gpu, GpuError, GpuSystem, Lost, NotSupported
from zeus_core.gpus.nvml import NvmlSystem

T = TypeVar("T")

_CAP_SYS_ADMIN = 1 << 21
_SAME_W = 1.0  # drivers round
_NO_DRIVER = (
    "install the NVIDIA driver, or give the container its GPUs (--gpus all, NVIDIA_DRIVER_CAPABILITIES=utility); "
    "'chase serve --simulated' needs none"
)
_RESET = "see the Xid lines in the kernel log, then reset the GPU or reboot; the others may go on"


def driver(open_system: Callable[[], GpuSystem]) -> tuple[list[Finding], GpuSystem | None]:
    """The system, if it can be opened and has GPUs."""
    try:
        system = open_system()
        gpus = system.gpus()
    except (GpuError, ChaseError) as error:
        return [Finding("driver", State.FAIL, str(error), _NO_DRIVER)], None
    lost = [Finding("gpu", State.FAIL, str(error), _RESET) for error in getattr(system, "missing", {}).values()]
    if not gpus:
        system.close()
        return [*lost, Finding("driver", State.FAIL, "the driver answers and has no GPU", "see nvidia-smi -L")], None
    names = ", ".join(sorted({gpu.name for gpu in gpus}))
    found = f"{len(gpus)} simulated GPUs: {names}"
    if isinstance(system, NvmlSystem):
        found = f"NVIDIA {system.driver_version()}, {len(gpus)} GPUs: {names}"
    return [*lost, Finding("driver", State.OK, found)], system


def card(gpu: Gpu, min_headroom: float) -> Iterator[Finding]:
    yield _limits(gpu, min_headroom)
    yield _enforced(gpu)
    yield _energy(gpu)
    yield _asked(gpu, "persistence", gpu.persistence, _persistence)
    yield _asked(gpu, "mig", gpu.mig_enabled, _mig)


def _limits(gpu: Gpu, min_headroom: float) -> Finding:
    def judge(_: object) -> tuple[State, str, str]:
        limits, limit_w = gpu.power_limits(), gpu.power_limit_w()
        found = f"limit {limit_w:g} W, range {limits.min_w:g} to {limits.max_w:g} W, default {limits.default_w:g} W"
        if limits.headroom < min_headroom:
            advice = "little can be saved by power limits here; ask the host for a wider range"
            return State.WARN, f"{found}: no headroom", advice
        return State.OK, found, ""

    return _asked(gpu, "power-limits", lambda: None, judge)


def _enforced(gpu: Gpu) -> Finding:
    def judge(enforced_w: float) -> tuple[State, str, str]:
        limit_w = gpu.power_limit_w()
        if enforced_w < limit_w - _SAME_W:
            advice = "somebody else caps this GPU lower (the node, the BMC): chase can only stay below that"
            return State.WARN, f"{enforced_w:g} W are in force where {limit_w:g} W are requested", advice
        return State.OK, f"{enforced_w:g} W in force, as requested", ""

    return _asked(gpu, "enforced-limit", gpu.enforced_power_limit_w, judge)


def _energy(gpu: Gpu) -> Finding:
    try:
        gpu.energy_j()
    except NotSupported:
        advice = "nothing to do: power is sampled and integrated, and labelled so"
        return Finding("energy-counter", State.WARN, "no energy counter", advice, gpu.uuid)
    except GpuError as error:
        return _failed(gpu, "energy-counter", error)
    return Finding("energy-counter", State.OK, "counts joules", "", gpu.uuid)


def _persistence(on: bool) -> tuple[State, str, str]:
    if on:
        return State.OK, "on", ""
    return State.WARN, "off: limits are lost whenever the last process leaves", "turn it on: nvidia-smi -pm 1"


def _mig(on: bool) -> tuple[State, str, str]:
    if on:
        advice = "a limit meets every slice of the card: chase sets it only where one user runs"
        return State.WARN, "on: slices share one power limit", advice
    return State.OK, "off", ""


def _asked(gpu: Gpu, subject: str, ask: Callable[[], T], judge: Callable[[T], tuple[State, str, str]]) -> Finding:
    try:
        state, found, advice = judge(ask())
    except NotSupported as error:
        return Finding(subject, State.SKIP, str(error), "", gpu.uuid)
    except GpuError as error:
        return _failed(gpu, subject, error)
    return Finding(subject, state, found, advice, gpu.uuid)


def _failed(gpu: Gpu, subject: str, error: GpuError) -> Finding:
    return Finding(subject, State.FAIL, str(error), _RESET if isinstance(error, Lost) else "see nvidia-smi", gpu.uuid)


def privileges(status: Path = Path("/proc/self/status"), uid: int | None = None) -> Iterator[Finding]:
    """Who we are: setting a limit takes root or CAP_SYS_ADMIN, of the actuator or of us."""
    uid = os.geteuid() if uid is None else uid
    if uid == 0 and _capable(status):
        yield Finding("permission", State.OK, "root: this user may set limits itself")
    elif _capable(status):
        yield Finding("permission", State.OK, f"uid {uid} with CAP_SYS_ADMIN: may set limits itself")
    elif uid == 0:
        advice = "give the container CAP_SYS_ADMIN (--cap-add SYS_ADMIN), or run 'chase actuator' on the host"
        yield Finding("permission", State.WARN, "root without CAP_SYS_ADMIN, as in a container", advice)
    else:
        advice = f"let root run 'chase actuator --uid {uid}', or name a control.setter_command"
        yield Finding("permission", State.WARN, f"uid {uid} may not set limits itself", advice)


def _capable(status: Path) -> bool:
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return False
    bits = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(bits, 16) & _CAP_SYS_ADMIN)
