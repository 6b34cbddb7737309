"""Which GPUs a job means, as UUIDs. The service says which there are; no driver is asked here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from chase.client.messages import number, text
from chase.errors import ChaseError
from zeus_core.gpus.base import NotSupported, PowerLimits
from zeus_core.gpus.visible import Visible, look

if TYPE_CHECKING:
    from zeus_core.gpus.base import Gpu

GPUS_VARIABLE = "CHASE_JOB_GPUS"
_FULL_UUID = len("GPU-") + 36
_UUID_BEGINNINGS = ("GPU-", "SIM-")


@dataclass(frozen=True, slots=True)
class ListedGpu:
    """A GPU as ``GET /v1/status`` lists it: as much of one as choosing takes."""

    uuid: str
    index: int
    name: str
    limits: PowerLimits | None
    slices: tuple[str, ...]

    def power_limits(self) -> PowerLimits:
        if self.limits is None:
            raise NotSupported("the service has not read this GPU's limits", uuid=self.uuid, call="power_limits")
        return self.limits

    def mig_uuids(self) -> tuple[str, ...]:
        return self.slices

    @classmethod
    def from_dict(cls, row: Mapping[str, Any], position: int) -> ListedGpu:
        index = number(row, "index")
        low, high, default = (number(row, key) for key in ("min_w", "max_w", "default_w"))
        limits = None if low is None or high is None or default is None else PowerLimits(low, high, default)
        slices = row.get("mig_uuids")
        return cls(
            uuid=text(row, "uuid") or "",
            index=position if index is None else int(index),
            name=text(row, "name") or "",
            limits=limits,
            slices=tuple(map(str, slices)) if isinstance(slices, list) else (),
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """The GPUs' UUIDs, and what a person should know about how they were found."""

    uuids: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def place(
    wanted: Sequence[str | int] | None, env: Mapping[str, str], status: Callable[[], Mapping[str, Any]]
) -> Placement:
    """The GPUs ``wanted`` (UUIDs, their beginnings, MIG ids, or indices in bus order), or those that ``env`` shows.

    ``CHASE_JOB_GPUS`` in ``env`` goes before CUDA's own list. ``status`` is only called where something else than full
    UUIDs is named. Raises ``ChaseError`` when a GPU is not there, or none is.
    """
    if wanted is None and env.get(GPUS_VARIABLE):
        wanted = [part.strip() for part in env[GPUS_VARIABLE].split(",") if part.strip()]
    if wanted and all(_is_uuid(gpu) for gpu in wanted):
        return Placement(tuple(dict.fromkeys(map(str, wanted))))
    gpus = _listed(status())
    if wanted is not None:
        return Placement(_named(wanted, gpus))
    found = _look(env, gpus)
    if not found.gpus:
        listed = env.get("CUDA_VISIBLE_DEVICES", "not set").strip() or "empty"
        shown = "; ".join(found.warnings) or f"CUDA_VISIBLE_DEVICES is {listed}"
        raise ChaseError(f"this job sees none of the node's {len(gpus)} GPUs ({shown})")
    return Placement(tuple(gpu.uuid for gpu in found.gpus), found.warnings)


def _is_uuid(gpu: str | int) -> bool:
    return isinstance(gpu, str) and gpu.startswith(_UUID_BEGINNINGS) and len(gpu) == _FULL_UUID


def _listed(status: Mapping[str, Any]) -> list[ListedGpu]:
    rows = status.get("gpus")
    if not isinstance(rows, list):
        raise ChaseError("the service's status lists no GPUs; is another program there?")
    return [ListedGpu.from_dict(row, position) for position, row in enumerate(rows) if isinstance(row, dict)]


def _named(wanted: Sequence[str | int], gpus: Sequence[ListedGpu]) -> tuple[str, ...]:
    """One by one, as a person may name more slices than CUDA would show at a time."""
    found: list[str] = []
    for gpu in wanted:
        match = _look({"CUDA_VISIBLE_DEVICES": str(gpu), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, gpus).gpus
        if not match:
            raise ChaseError(_no_match(str(gpu), [g.uuid for g in gpus]))
        found += [each.uuid for each in match]
    return tuple(dict.fromkeys(found))


def _no_match(gpu: str, uuids: Sequence[str]) -> str:
    several = [uuid for uuid in uuids if gpu and uuid.startswith(gpu)]
    if len(several) > 1:
        return f"{gpu} is the beginning of several GPUs: {', '.join(several)}"
    return f"this node has no GPU {gpu}; it has {', '.join(uuids) or 'none'}"


def _look(env: Mapping[str, str], gpus: Sequence[ListedGpu]) -> Visible:
    return look(env, cast("Sequence[Gpu]", gpus))
