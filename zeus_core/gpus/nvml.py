"""NVIDIA GPUs through the official ``pynvml`` module. Milliwatts and millijoules go no further than this file."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from zeus_core.gpus import nvml_errors as codes
from zeus_core.gpus.base import (
    BadReading,
    Gpu,
    GpuError,
    Lost,
    NotSupported,
    PowerLimits,
    Process,
    Refused,
    Unavailable,
)
from zeus_core.gpus.nvml_session import Session
from zeus_core.gpus.worker import Stuck, Worker

T = TypeVar("T")

CALL_BUDGET_S = 3.0

_PLAUSIBLE_W = 5000.0  # the bound where a card names no limits; a GB300 module is 2900 W
_PLAUSIBLE_MHZ = 10_000
_ENERGY_BLANK_MJ = 2**47  # DCGM's blank; as millijoules it is 700 W for six years, so nothing real is refused
_SM_CLOCK = 1
_POWER_AVERAGE, _POWER_INSTANT = 185, 186
_GPU_SCOPE, _MODULE_SCOPE = 0, 1
_VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # by NVML_VALUE_TYPE_*
_REASONS = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clock_setting",
    "board_limit",
    "reliability",
)

PowerSource = Literal["instant", "average", "usage", "module instant", "module average"]
# In order of preference (rules G10, G12): what the GPU alone draws now, then the driver's averages, a second long on
# newer cards, and the whole module of a superchip, its CPU included, only where there is nothing narrower.
_POWER_FIELDS: dict[PowerSource, tuple[int, int] | None] = {
    "instant": (_POWER_INSTANT, _GPU_SCOPE),
    "average": (_POWER_AVERAGE, _GPU_SCOPE),
    "usage": None,
    "module instant": (_POWER_INSTANT, _MODULE_SCOPE),
    "module average": (_POWER_AVERAGE, _MODULE_SCOPE),
}


class NvmlGpu:
    """One GPU by UUID. ``index`` follows NVML if a new session counts otherwise.

    ``rejected`` counts the readings refused as impossible, by call. ``power_source`` is what ``power_w`` reads, None
    before its first reading; figures of different sources are not comparable.
    """

    def __init__(self, session: Session, worker: Worker, *, uuid: str, index: int, name: str, pci_bus_id: str) -> None:
        self.uuid = uuid
        self.index = index
        self.name = name
        self.pci_bus_id = pci_bus_id
        self.rejected: Counter[str] = Counter()
        self.power_source: PowerSource | None = None
        self._session = session
        self._worker = worker
        self._highest_w = 0.0

    def __repr__(self) -> str:
        return f"<{self.name} {self.index} {self.uuid}>"

    def power_limits(self) -> PowerLimits:
        call = "nvmlDeviceGetPowerManagementLimitConstraints"
        low, high = (self._limit_w(call, milliwatts) for milliwatts in self._call(call))
        if low > high:
            raise self._reject(call, f"a least limit of {low:g} W above the greatest, {high:g} W,")
        default = self._read_limit_w("nvmlDeviceGetPowerManagementDefaultLimit")
        self._highest_w = max(self._highest_w, high)
        return PowerLimits(low, high, default)

    def power_limit_w(self) -> float:
        return self._read_limit_w("nvmlDeviceGetPowerManagementLimit")

    def enforced_power_limit_w(self) -> float:
        return self._read_limit_w("nvmlDeviceGetEnforcedPowerLimit")

    def set_power_limit_w(self, power_limit_w: float) -> None:
        call = "nvmlDeviceSetPowerManagementLimit"
        if not (math.isfinite(power_limit_w) and 0 < power_limit_w <= _PLAUSIBLE_W):
            raise Refused(f"{self.uuid}: {power_limit_w!r} W is no power limit", uuid=self.uuid, call=call)
        self._call(call, round(power_limit_w * 1000))

    def power_w(self) -> float:
        known = self.power_source
        if known is not None and (watts := self._power_from(known)) is not None:
            return watts
        for source in _POWER_FIELDS:
            watts = self._power_from(source)
            if watts is not None:
                self.power_source = source
                return watts
        raise NotSupported(f"{self.uuid}: no reading of the power draw", uuid=self.uuid, call="nvmlDeviceGetPowerUsage")

    def energy_j(self) -> float:
        call = "nvmlDeviceGetTotalEnergyConsumption"
        millijoules = self._call(call)
        return self._plausible(call, millijoules, _ENERGY_BLANK_MJ - 1, "mJ") / 1000

    def sm_clock_mhz(self) -> int:
        call = "nvmlDeviceGetClockInfo"
        return int(self._plausible(call, self._call(call, _SM_CLOCK), _PLAUSIBLE_MHZ, "MHz"))

    def supported_sm_clocks_mhz(self) -> tuple[int, ...]:
        """Those of the highest memory clock, which is the one that training runs at."""
        memory = self._call("nvmlDeviceGetSupportedMemoryClocks")
        call = "nvmlDeviceGetSupportedGraphicsClocks"
        clocks = self._call(call, max(memory)) if memory else []
        if not clocks:
            raise NotSupported(f"{self.uuid}: the driver lists no clocks", uuid=self.uuid, call=call)
        return tuple(sorted(int(self._plausible(call, clock, _PLAUSIBLE_MHZ, "MHz")) for clock in clocks))

    def lock_sm_clocks_mhz(self, low_mhz: int, high_mhz: int) -> None:
        call = "nvmlDeviceSetGpuLockedClocks"
        if not 0 < low_mhz <= high_mhz <= _PLAUSIBLE_MHZ:
            raise Refused(f"{self.uuid}: {low_mhz} to {high_mhz} MHz is no range", uuid=self.uuid, call=call)
        self._call(call, low_mhz, high_mhz)

    def reset_sm_clocks(self) -> None:
        self._call("nvmlDeviceResetGpuLockedClocks")

    def utilisation(self) -> float:
        call = "nvmlDeviceGetUtilizationRates"
        return self._plausible(call, self._call(call).gpu, 100, "%") / 100

    def throttle_reasons(self) -> frozenset[str]:
        try:
            bits = self._call("nvmlDeviceGetCurrentClocksEventReasons")
        except NotSupported:  # before driver 535 it had its older name
            bits = self._call("nvmlDeviceGetCurrentClocksThrottleReasons")
        return frozenset(_reason(at) for at in range(64) if bits >> at & 1)

    def processes(self) -> tuple[Process, ...]:
        """Compute and graphics contexts, each process once, by pid."""
        pids = {entry.pid for entry in self._call("nvmlDeviceGetComputeRunningProcesses")}
        with suppress(NotSupported):
            pids |= {entry.pid for entry in self._call("nvmlDeviceGetGraphicsRunningProcesses")}
        return tuple(Process(pid, _uid_of(pid)) for pid in sorted(pids))

    def persistence(self) -> bool:
        return bool(self._call("nvmlDeviceGetPersistenceMode"))

    def mig_enabled(self) -> bool:
        try:
            current, _ = self._call("nvmlDeviceGetMigMode")
        except NotSupported:
            return False
        return bool(current)

    def mig_uuids(self) -> tuple[str, ...]:
        """The slices of this GPU. Power limit, clocks and energy are of the whole GPU only (rule G21)."""
        if not self.mig_enabled():
            return ()
        count = self._call("nvmlDeviceGetMaxMigDeviceCount")
        return tuple(uuid for slot in range(count) if (uuid := self._mig_uuid(slot)) is not None)

    def _mig_uuid(self, slot: int) -> str | None:
        try:
            handle = self._call("nvmlDeviceGetMigDeviceHandleByIndex", slot)
        except GpuError as error:
            if codes.of(error) in {codes.NOT_FOUND, codes.INVALID_ARGUMENT}:  # an empty slot
                return None
            raise
        uuid = self._in_worker("nvmlDeviceGetUUID", partial(self._session.call, "nvmlDeviceGetUUID", handle))
        return str(uuid)

    def _power_from(self, source: PowerSource) -> float | None:
        """Watts, or None where the driver or the card has no such reading."""
        field = _POWER_FIELDS[source]
        call = "nvmlDeviceGetPowerUsage" if field is None else "nvmlDeviceGetFieldValues"
        try:
            milliwatts = self._call(call) if field is None else self._field(field)
        except NotSupported:
            return None
        return None if milliwatts is None else self._plausible(call, milliwatts, self._most_mw(), "mW") / 1000

    def _field(self, field: tuple[int, int]) -> float | None:
        call = "nvmlDeviceGetFieldValues"
        answer = self._call(call, [field])[0]
        if answer.nvmlReturn in codes.ABSENT:
            return None
        if answer.nvmlReturn:
            raise codes.translate(answer.nvmlReturn, uuid=self.uuid, call=f"{call}({field[0]})")
        if answer.valueType >= len(_VALUE_MEMBERS):
            raise self._reject(call, f"value type {answer.valueType}")
        return float(getattr(answer.value, _VALUE_MEMBERS[answer.valueType]))

    def _most_mw(self) -> float:
        """1.5 times the highest limit ever allowed here (rule G14)."""
        if not self._highest_w:
            try:
                self.power_limits()
            except NotSupported:
                self._highest_w = _PLAUSIBLE_W / 1.5
            except BadReading:
                return _PLAUSIBLE_W * 1000
        return self._highest_w * 1.5 * 1000

    def _read_limit_w(self, call: str) -> float:
        return self._limit_w(call, self._call(call))

    def _limit_w(self, call: str, milliwatts: float) -> float:
        if milliwatts == 0:
            raise self._reject(call, "a limit of 0 W")
        return self._plausible(call, milliwatts, _PLAUSIBLE_W * 1000, "mW") / 1000

    def _plausible(self, call: str, value: float, most: float, unit: str) -> float:
        if not 0 <= value <= most:  # false for NaN too
            raise self._reject(call, f"{value} {unit}")
        return value

    def _reject(self, call: str, what: str) -> BadReading:
        self.rejected[call] += 1
        return BadReading(
            f"{self.uuid}: {call}: {what} cannot be true; the reading is not used", uuid=self.uuid, call=call
        )

    def _call(self, function: str, *arguments: Any) -> Any:
        return self._in_worker(function, partial(self._session.on, self.uuid, function, *arguments))

    def _in_worker(self, function: str, call: Callable[[], T]) -> T:
        return _within(self._worker, call, uuid=self.uuid, function=function)


class NvmlSystem:
    """The NVIDIA GPUs of this node, each with a thread of its own, so that one that hangs is ``Lost`` alone.

    Nothing is loaded before the first ``gpus``. ``missing`` holds what became of the indices that could not be
    identified; they are tried again at each ``gpus``.
    """

    kind: Literal["nvml"] = "nvml"

    def __init__(self, *, call_budget_s: float = CALL_BUDGET_S) -> None:
        self.missing: dict[int, GpuError] = {}
        self._budget_s = call_budget_s
        self._session = Session()
        self._node = Worker("nvml", call_budget_s)
        self._workers: dict[int, Worker] = {}
        self._by_uuid: dict[str, NvmlGpu] = {}
        self._by_index: dict[int, NvmlGpu] = {}
        self._generation = 0
        self._lock = threading.Lock()

    def gpus(self) -> tuple[Gpu, ...]:
        """The same object for the same GPU, however often it is asked."""
        try:
            count = self._node_call("nvmlDeviceGetCount")
        except Unavailable:
            raise
        except GpuError as error:
            raise Unavailable(str(error), call=error.call) from error
        with self._lock:
            if self._generation != self._session.generation:
                self._generation = self._session.generation
                self._by_index.clear()
            self.missing = {}
            for index in range(count):
                self._identify(index)
            return tuple(self._by_index[index] for index in range(count) if index in self._by_index)

    def driver_version(self) -> str:
        return str(self._node_call("nvmlSystemGetDriverVersion"))

    @property
    def rejected(self) -> int:
        """Readings refused as impossible so far, on all GPUs."""
        return sum(sum(gpu.rejected.values()) for gpu in self._by_uuid.values())

    def close(self) -> None:
        """Let go of the driver, so that a GPU can be reset (rule G19). A GPU that hangs does not hold this up."""
        with suppress(GpuError, Stuck):
            self._node.run(self._session.close)
        for worker in (self._node, *self._workers.values()):
            worker.close()

    def _identify(self, index: int) -> None:
        if index in self._by_index:
            return
        worker = self._workers.setdefault(index, Worker(f"nvml-{index}", self._budget_s))
        try:
            uuid, name, pci_bus_id = _within(
                worker, partial(self._identity, index), function="nvmlDeviceGetHandleByIndex"
            )
        except GpuError as error:
            self.missing[index] = error
            return
        gpu = self._by_uuid.get(uuid)
        if gpu is None:
            gpu = NvmlGpu(self._session, worker, uuid=uuid, index=index, name=name, pci_bus_id=pci_bus_id)
        gpu.index = index
        self._by_uuid[uuid] = self._by_index[index] = gpu

    def _identity(self, index: int) -> tuple[str, str, str]:
        call = self._session.call
        handle = call("nvmlDeviceGetHandleByIndex", index)
        pci = call("nvmlDeviceGetPciInfo", handle)
        return str(call("nvmlDeviceGetUUID", handle)), str(call("nvmlDeviceGetName", handle)), str(pci.busId)

    def _node_call(self, function: str) -> Any:
        try:
            return self._node.run(partial(self._session.call, function))
        except Stuck as stuck:
            raise Unavailable(f"NVML: {function}: {stuck}; the NVIDIA driver hangs", call=function) from stuck


def _within(worker: Worker, call: Callable[[], T], *, uuid: str = "", function: str) -> T:
    try:
        return worker.run(call)
    except Stuck as stuck:
        text = f"{uuid or worker.name}: {function}: {stuck}; the GPU hangs: see the Xid lines in the kernel log"
        raise Lost(text, uuid=uuid, call=function) from stuck


def _reason(bit: int) -> str:
    return _REASONS[bit] if bit < len(_REASONS) else f"reason_{bit}"


def _uid_of(pid: int) -> int | None:
    """The real uid of a process, from its status: the owner of /proc/PID is root for one that may not be dumped."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    line = next((line for line in status.splitlines() if line.startswith("Uid:")), None)
    return int(line.split()[1]) if line else None
