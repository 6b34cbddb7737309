"""Which GPUs a process sees, from its environment, as CUDA would decide.

Forms of one entry: an index, a UUID or an unambiguous beginning of one, ``MIG-<uuid>``, and the older
``MIG-GPU-<uuid>/<gpu instance>/<compute instance>``. The list ends before the first entry that names nothing; one
that names a device twice shows none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from zeus_core.gpus.base import Gpu, GpuError

# Container runtimes and Slurm may name GPUs by UUID. Their indices are not used: they count otherwise than we do.
_OTHER_LISTS = ("NVIDIA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
_UUID_PREFIXES = ("GPU-", "MIG-", "SIM-")
_LEADING_NUMBER = re.compile(r"\s*([+-]?\d+)")


@dataclass(frozen=True, slots=True)
class Visible:
    """The GPUs in CUDA's order, each once, and what a person should know about how they were found."""

    gpus: tuple[Gpu, ...]
    warnings: tuple[str, ...] = ()


def resolve(env: Mapping[str, str], gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The GPUs that a process with this environment sees, whole ones also where it sees only a slice."""
    return look(env, gpus).gpus


def look(env: Mapping[str, str], gpus: Sequence[Gpu]) -> Visible:
    """``resolve`` with its warnings."""
    listed = env.get("CUDA_VISIBLE_DEVICES")
    if listed is not None:
        return _by_list("CUDA_VISIBLE_DEVICES", listed, gpus, env)
    for name in _OTHER_LISTS:
        entries = _entries(env.get(name, ""))
        if entries and all(entry.startswith(_UUID_PREFIXES) for entry in entries):
            return _by_list(name, env[name], gpus, env)
    ordered, _ = _cuda_order(gpus, env)
    return Visible(ordered)


def _by_list(name: str, listed: str, gpus: Sequence[Gpu], env: Mapping[str, str]) -> Visible:
    ordered, warning = _cuda_order(gpus, env)
    found: list[Gpu] = []
    named: list[str] = []  # devices as named, a slice being one of its own
    warnings: list[str] = []
    for entry in _entries(listed):
        device, gpu = _find(entry, ordered, gpus)
        if gpu is None:
            if not entry.startswith("-"):
                warnings.append(f"{name}={listed}: {device}; CUDA ignores it and all that follows")
            break
        if device in named:
            return Visible((), (f"{name}={listed}: {entry} names a device again; CUDA then shows none",))
        if warning and device == gpu.uuid and not entry.startswith(_UUID_PREFIXES):
            warnings.append(warning)
            warning = ""
        named.append(device)
        if gpu not in found:
            found.append(gpu)
    return _first_slice_only(name, listed, found, named, warnings)


def _first_slice_only(name: str, listed: str, found: list[Gpu], named: list[str], warnings: list[str]) -> Visible:
    """CUDA enumerates one MIG slice and no other device with it."""
    if len(named) > 1 and any(device.startswith("MIG-") for device in named):
        warnings.append(f"{name}={listed}: CUDA shows a process one MIG slice at most; only {named[0]} is taken")
        found = found[:1]
    return Visible(tuple(found), tuple(warnings))


def _entries(listed: str) -> list[str]:
    return [entry.strip() for entry in listed.split(",")] if listed.strip() else []


def _find(entry: str, ordered: Sequence[Gpu], gpus: Sequence[Gpu]) -> tuple[str, Gpu | None]:
    """The device's name and the GPU that it is or is a slice of; or why there is none."""
    if entry.startswith("MIG-"):
        return _find_slice(entry, gpus)
    if entry.startswith(_UUID_PREFIXES):
        return _only(entry, [(gpu.uuid, gpu) for gpu in gpus])
    number = _LEADING_NUMBER.match(entry)  # CUDA reads "1abc" as 1
    if number is None:
        return f"{entry!r} is no index, UUID or MIG slice", None
    index = int(number[1])
    if not 0 <= index < len(ordered):
        return f"there is no GPU {index} among {len(ordered)}", None
    return ordered[index].uuid, ordered[index]


def _find_slice(entry: str, gpus: Sequence[Gpu]) -> tuple[str, Gpu | None]:
    if entry.startswith("MIG-GPU-"):
        parent, _, _ = entry.removeprefix("MIG-").partition("/")
        uuid, gpu = _only(parent, [(gpu.uuid, gpu) for gpu in gpus])
        return (entry, gpu) if gpu else (uuid, None)
    return _only(entry, [(uuid, gpu) for gpu in gpus for uuid in _slices(gpu)])


def _slices(gpu: Gpu) -> tuple[str, ...]:
    try:
        return gpu.mig_uuids()
    except GpuError:  # a GPU that cannot be asked has no slice that could be used
        return ()


def _only(prefix: str, named: Iterable[tuple[str, Gpu]]) -> tuple[str, Gpu | None]:
    matches = [(uuid, gpu) for uuid, gpu in named if uuid.startswith(prefix)]
    exact = [match for match in matches if match[0] == prefix]
    if exact or len(matches) == 1:
        return (exact or matches)[0]
    return f"{prefix} names {len(matches) or 'no'} GPU{'s' if matches else ' here'}", None


def _cuda_order(gpus: Sequence[Gpu], env: Mapping[str, str]) -> tuple[tuple[Gpu, ...], str]:
    """CUDA's order, and a warning if it is a guess: by default it puts the fastest first, by rules of its own."""
    by_bus = tuple(sorted(gpus, key=lambda gpu: gpu.index))
    models = sorted({gpu.name for gpu in gpus})
    if env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len(models) < 2:  # noqa: PLR2004
        return by_bus, ""
    warning = (
        f"this node mixes {', '.join(models)}, and CUDA_DEVICE_ORDER is not PCI_BUS_ID, so an index may mean another "
        "GPU to CUDA than here; set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name GPUs by UUID"
    )
    return tuple(sorted(by_bus, key=_rank)), warning


def _rank(gpu: Gpu) -> float:
    """Bigger cards first, by the power they are built for; the order of the bus decides among equals."""
    try:
        return -gpu.power_limits().default_w
    except GpuError:
        return 0.0
