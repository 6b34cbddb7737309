"""What a dead owner left in force, and giving it back with neither a daemon nor a database.

    same boot, limit is one of the journal's      the original is set
    same boot, limit is another                   somebody set it since: it stays, and the journal is closed
    another boot, limit is ours or the default    the original is set, since the reboot was no decision of anybody's
    another boot, limit is another                it stays, and the journal is closed

Locked clocks are reset in the same boot; a reboot has freed them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from pathlib import Path

from zeus_core.actuation.base import ActuationError, Applied, Status
from zeus_core.actuation.held import HeldGpu
from zeus_core.actuation.journal import Damaged, Journal, boot_id
from zeus_core.actuation.lock import GpuLock
from zeus_core.actuation.setter import DriverSetter, Setter
from zeus_core.gpus.base import Gpu, GpuError, GpuSystem

log = logging.getLogger(__name__)


def restore_leftovers(
    system: GpuSystem,
    state_dir: Path,
    lock_dir: Path,
    *,
    setter: Setter | None = None,
    only: Collection[str] | None = None,
) -> dict[str, Applied]:
    """Give back every GPU (or those of ``only``) with a journal in ``state_dir``, by UUID; empty when nothing is left.

    A GPU that a living actuator holds is left to it: its result is ``FAILED`` and names the holder. Raises
    ``ActuationError`` where there is no driver to ask or the journal cannot be listed.
    """
    journal = Journal(state_dir)
    uuids = [uuid for uuid in journal.uuids() if only is None or uuid in only]
    if not uuids:
        return {}
    try:
        gpus = {gpu.uuid: gpu for gpu in system.gpus()}
    except GpuError as error:
        raise ActuationError(f"{len(uuids)} GPUs are to be given back, but {error}") from error
    found = {
        uuid: _locked_give_back(journal, uuid, gpus.get(uuid), lock_dir, setter or DriverSetter()) for uuid in uuids
    }
    return {uuid: applied for uuid, applied in found.items() if applied is not None}


def give_back_leftover(journal: Journal, uuid: str, held: HeldGpu | None) -> Applied | None:
    """With the lock held. ``held`` is None when the node has no such GPU now. None if there is no entry after all."""
    entry = journal.read(uuid)
    if entry is None:
        return None
    if isinstance(entry, Damaged):
        applied = _damaged(entry)
    elif held is None:
        detail = f"the node does not show this GPU now; {entry.original_w:g} W is owed to it and stays in the journal"
        applied = Applied(uuid, Status.LOST, detail=detail)
    else:
        held.entry = entry.as_of_boot(boot_id())
        applied = held.give_back()
    log.warning("%s: left by process %s: %s %s", uuid, getattr(entry, "pid", "?"), applied.status, applied.detail)
    return applied


def _locked_give_back(journal: Journal, uuid: str, gpu: Gpu | None, lock_dir: Path, setter: Setter) -> Applied | None:
    try:
        lock = GpuLock.acquire(lock_dir, uuid)
    except ActuationError as error:
        return Applied(uuid, Status.FAILED, detail=f"{error}; stop that process and it gives the GPU back itself")
    try:
        return give_back_leftover(journal, uuid, _hold(gpu, journal, setter) if gpu else None)
    finally:
        lock.release()


def _hold(gpu: Gpu, journal: Journal, setter: Setter) -> HeldGpu:
    return HeldGpu(gpu, setter=setter, journal=journal, ramp_w_per_s=0.0, monotonic=time.monotonic)


def _damaged(damaged: Damaged) -> Applied:
    detail = (
        f"the journal could not be understood ({damaged.reason}) and is kept as {damaged.kept_as}; the original limit "
        "is not known: compare the limit with the default in nvidia-smi -q -d POWER"
    )
    return Applied(damaged.uuid, Status.FAILED, detail=detail)
