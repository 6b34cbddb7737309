"""Builds the stand-in NVML library and holds the cards it shows, in one file shared between processes.

    library = build(directory)                       # directory/libnvidia-ml.so.1
    state = State.create(directory / "cards", gpus=2, limit_w=275)
    subprocess.run(..., env=state.env())             # that process sees these cards, and so does this one after load()
    state[0].demand_w = 280                          # a load arrives
    state.fail("nvmlDeviceSetPowerManagementLimit", NO_PERMISSION, gpu=0)
    assert state.writes() == []

Functions are named as in C, with their ``_v2`` or ``_v3``; "*" is every function of a card, and "field:186:0" is the
one field value 186 (instant power) of scope 0 (the GPU alone; 1 is the module).
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ctypes import c_char, c_double, c_int32, c_int64, c_uint32, c_uint64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STATE_VARIABLE = "CHASE_STANDIN_NVML_STATE"
SONAME = "libnvidia-ml.so.1"

UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION = 1, 2, 3, 4
NOT_FOUND, DRIVER_NOT_LOADED, TIMEOUT, GPU_IS_LOST, RESET_REQUIRED = 6, 9, 10, 15, 16
LIB_RM_VERSION_MISMATCH, IN_USE, UNKNOWN = 18, 19, 999

SET_LIMIT = "nvmlDeviceSetPowerManagementLimit"
SET_CLOCKS = "nvmlDeviceSetGpuLockedClocks"
RESET_CLOCKS = "nvmlDeviceResetGpuLockedClocks"
SET_PERSISTENCE = "nvmlDeviceSetPersistenceMode"

_MAX_GPUS, _MAX_PROCESSES, _MAX_MIG, _MAX_FAULTS, _MAX_FUNCTIONS, _MAX_WRITES = 16, 32, 8, 64, 96, 16384
_ALWAYS, _UNTIL_INIT = -1, -2
_MAGIC = 0x4E564D4C_53544E44


class _Card(ctypes.Structure):
    _fields_ = (
        ("uuid", c_char * 96),
        ("name", c_char * 96),
        *((name, c_uint32) for name in ("pci_domain", "pci_bus", "pci_device", "architecture")),
        *((name, c_uint32) for name in ("min_mw", "max_mw", "default_mw", "limit_mw")),
        *((name, c_uint32) for name in ("oob_cap_mw", "demand_mw", "idle_mw")),
        *((name, c_uint32) for name in ("has_energy", "has_instant", "has_average", "has_module", "module_mw")),
        *((name, c_uint32) for name in ("min_sm_mhz", "max_sm_mhz", "sm_step_mhz", "memory_mhz")),
        *((name, c_uint32) for name in ("locked_min_mhz", "locked_max_mhz")),
        ("utilisation", c_int32),
        *((name, c_uint32) for name in ("persistence", "mig_supported", "mig_mode", "mig_count")),
        ("extra_reasons", c_uint64),
        ("energy_mj", c_double),
        ("energy_at_ns", c_int64),
        ("energy_step_ns", c_int64),
        ("shown_mj", c_double),
        ("shown_at_ns", c_int64),
        ("mig_uuid", (c_char * 96) * _MAX_MIG),
        ("process_count", c_uint32),
        ("pid", c_uint32 * _MAX_PROCESSES),
        ("graphics", c_uint32 * _MAX_PROCESSES),
    )


class _Fault(ctypes.Structure):
    _fields_ = (
        ("function", c_char * 56),
        *((name, c_int32) for name in ("active", "gpu", "code", "count", "hang", "has_value")),
        ("value", c_uint64),
    )


class _Counter(ctypes.Structure):
    _fields_ = (("function", c_char * 56), ("calls", c_uint64 * (_MAX_GPUS + 1)))


class _Write(ctypes.Structure):
    _fields_ = (
        ("at_ns", c_int64),
        *((name, c_uint32) for name in ("pid", "uid", "gpu", "value", "value2")),
        ("code", c_int32),
        ("function", c_char * 40),
    )


class _State(ctypes.Structure):
    _fields_ = (
        ("magic", c_uint64),
        ("gpu_count", c_uint32),
        ("root_uid", c_int32),
        ("driver_version", c_char * 80),
        ("card", _Card * _MAX_GPUS),
        ("fault", _Fault * _MAX_FAULTS),
        ("counter", _Counter * _MAX_FUNCTIONS),
        ("write_count", c_uint64),
        ("write", _Write * _MAX_WRITES),
    )


_loaded: list[tuple[Path, ctypes.CDLL]] = []


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(directory: Path) -> Path:
    """Compile the library into ``directory`` and load it here, so that pynvml in this process finds it too."""
    cc = compiler()
    if cc is None:
        raise RuntimeError("the stand-in NVML library needs a C compiler (cc, gcc or clang) on PATH")
    library = directory / SONAME
    source = Path(__file__).with_name("nvml_standin.c")
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{SONAME}"]
    subprocess.run([cc, *flags, "-o", str(library), str(source), "-lm"], check=True)
    library.chmod(0o755)
    _load(library)
    return library


def _load(library: Path) -> ctypes.CDLL:
    """RTLD_GLOBAL and the SONAME make a later dlopen("libnvidia-ml.so.1") find this one."""
    loaded = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    loaded.standin_sizeof.restype = c_uint64
    loaded.standin_integrate.restype = loaded.standin_forget.restype = None
    if loaded.standin_sizeof() != ctypes.sizeof(_State):
        raise RuntimeError("standin.py and nvml_standin.c disagree about the layout of the state")
    _loaded.append((library, loaded))
    return loaded


def _library() -> tuple[Path, ctypes.CDLL]:
    if not _loaded:
        directory = Path(tempfile.mkdtemp(prefix="nvml-standin-"))
        directory.chmod(0o755)
        build(directory)
    return _loaded[-1]


def forget() -> None:
    """Forget every nvmlInit of this process, so that a leak of one test is not the next one's cards."""
    for _, loaded in _loaded:
        loaded.standin_forget()


@dataclass(frozen=True, slots=True)
class Write:
    """One attempt to change a card. ``value`` is in the unit of NVML: milliwatts, or megahertz (low, and high)."""

    at_ns: int
    pid: int
    uid: int
    gpu: int
    function: str
    value: int
    value2: int
    code: int

    @property
    def watts(self) -> float:
        return self.value / 1000


class Fault:
    """An entry in the fault table; ``clear`` ends it, and lets go of a call that hangs in it."""

    def __init__(self, entry: Any) -> None:
        self._entry = entry

    def clear(self) -> None:
        self._entry.active = 0


class _Watts:
    """A field of the card in milliwatts, as watts; setting it first books the energy drawn so far."""

    def __init__(self, field: str) -> None:
        self._field = field

    def __get__(self, card: Card, _: type | None = None) -> float:
        return float(getattr(card.raw, self._field)) / 1000

    def __set__(self, card: Card, watts: float) -> None:
        with card.state.locked():
            setattr(card.raw, self._field, round(watts * 1000))


class Card:
    """One card as the test sees it, and as fate or another administrator would change it."""

    min_w = _Watts("min_mw")
    max_w = _Watts("max_mw")
    default_w = _Watts("default_mw")
    limit_w = _Watts("limit_mw")
    oob_cap_w = _Watts("oob_cap_mw")  # 0: none
    demand_w = _Watts("demand_mw")
    idle_w = _Watts("idle_mw")
    module_w = _Watts("module_mw")

    def __init__(self, state: State, index: int, raw: Any) -> None:
        self.state = state
        self.index = index
        self.raw = raw  # every other field of the C struct, by name

    @property
    def uuid(self) -> str:
        return str(self.raw.uuid.decode())

    @property
    def enforced_w(self) -> float:
        return min(self.limit_w, self.max_w, self.oob_cap_w or self.max_w)

    @property
    def draw_w(self) -> float:
        share = self.raw.locked_max_mhz / self.raw.max_sm_mhz if self.raw.locked_max_mhz else 1.0
        wanted = self.idle_w + max(0.0, self.demand_w - self.idle_w) * share
        return min(wanted, self.enforced_w)

    @property
    def locked_sm_mhz(self) -> tuple[int, int] | None:
        low, high = self.raw.locked_min_mhz, self.raw.locked_max_mhz
        return (low, high) if high else None

    @property
    def energy_j(self) -> float:
        with self.state.locked():
            return float(self.raw.energy_mj) / 1000

    @energy_j.setter
    def energy_j(self, joules: float) -> None:
        with self.state.locked():
            self.raw.energy_mj = self.raw.shown_mj = joules * 1000

    def occupy(self, pid: int, *, graphics: bool = False) -> None:
        with self.state.locked():
            at = self.raw.process_count
            self.raw.pid[at], self.raw.graphics[at] = pid, graphics
            self.raw.process_count = at + 1

    def vacate(self, pid: int) -> None:
        with self.state.locked():
            keep = [(self.raw.pid[i], self.raw.graphics[i]) for i in range(self.raw.process_count)]
            keep = [entry for entry in keep if entry[0] != pid]
            for at, (other, graphics) in enumerate(keep):
                self.raw.pid[at], self.raw.graphics[at] = other, graphics
            self.raw.process_count = len(keep)

    def slice_into(self, *mig_uuids: str) -> None:
        """Turn MIG on, with these slices."""
        with self.state.locked():
            for at, uuid in enumerate(mig_uuids):
                self.raw.mig_uuid[at].value = uuid.encode()
            self.raw.mig_supported = self.raw.mig_mode = 1
            self.raw.mig_count = len(mig_uuids)


class State:
    """The shared file of cards. Open an existing one with ``State(path)``, make one with ``State.create``."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.library, self._code = _library()
        with self.path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), ctypes.sizeof(_State))
        self.raw = _State.from_buffer(self._map)
        if self.raw.magic != _MAGIC:
            raise ValueError(f"{path} is not a file of stand-in cards")

    @classmethod
    def create(
        cls,
        path: Path,
        gpus: int = 2,
        *,
        name: str = "NVIDIA A40",
        min_w: float = 100,
        max_w: float = 300,
        default_w: float = 300,
        limit_w: float | None = None,
        idle_w: float = 30,
        demand_w: float = 0,
        architecture: int = 7,
        root_uid: int = -1,
    ) -> State:
        """Idle cards; ``limit_w`` None is the default limit. With a ``root_uid`` only that euid may change them.

        Readable and writable by every uid, as the real driver's device files are.
        """
        path.write_bytes(bytes(ctypes.sizeof(_State)))
        path.chmod(0o666)
        raw = _State(magic=_MAGIC, gpu_count=gpus, root_uid=root_uid, driver_version=b"580.0.standin")
        path.write_bytes(bytes(raw))
        state = cls(path)
        with state.locked():
            for index in range(gpus):
                card = state[index]
                _furnish(card.raw, index, name, architecture)
                card.raw.min_mw, card.raw.max_mw = round(min_w * 1000), round(max_w * 1000)
                card.raw.default_mw = round(default_w * 1000)
                card.raw.limit_mw = round((default_w if limit_w is None else limit_w) * 1000)
                card.raw.idle_mw, card.raw.demand_mw = round(idle_w * 1000), round(demand_w * 1000)
            state._code.standin_integrate(ctypes.byref(state.raw))
            for card in state:
                card.raw.energy_mj = card.raw.shown_mj = 0.0
        return state

    def __len__(self) -> int:
        return int(self.raw.gpu_count)

    def __getitem__(self, index: int) -> Card:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return Card(self, index, self.raw.card[index])

    def __iter__(self) -> Iterator[Card]:
        return (self[index] for index in range(len(self)))

    @property
    def uuids(self) -> tuple[str, ...]:
        return tuple(card.uuid for card in self)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the same lock as the library, with the energy booked up to now."""
        with self.path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._code.standin_integrate(ctypes.byref(self.raw))
            yield

    def env(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment in which a process sees these cards."""
        env = dict(os.environ if base is None else base)
        paths = [str(self.library.parent), env.get("LD_LIBRARY_PATH", "")]
        env |= {STATE_VARIABLE: str(self.path), "LD_LIBRARY_PATH": ":".join(path for path in paths if path)}
        return env

    @property
    def root_uid(self) -> int:
        return int(self.raw.root_uid)

    @root_uid.setter
    def root_uid(self, uid: int) -> None:
        self.raw.root_uid = uid

    def fail(
        self, function: str, code: int, *, gpu: int | None = None, count: int | None = None, until_init: bool = False
    ) -> Fault:
        """``function`` gives ``code``: always, for the next ``count`` calls, or until a process initialises NVML."""
        times = _UNTIL_INIT if until_init else _ALWAYS if count is None else count
        return self._fault(function, gpu, code=code, count=times)

    def hang(self, function: str, *, gpu: int | None = None, milliseconds: int = -1, count: int | None = None) -> Fault:
        """``function`` blocks: for so long, or (-1) until the fault is cleared."""
        times = _ALWAYS if count is None else count
        return self._fault(function, gpu, code=0, count=times, hang=milliseconds)

    def answer(self, function: str, value: int, *, gpu: int | None = None, count: int | None = None) -> Fault:
        """``function`` answers ``value`` (in NVML's unit) instead of the truth: for those that give one number."""
        times = _ALWAYS if count is None else count
        return self._fault(function, gpu, code=0, count=times, has_value=1, value=value)

    def _fault(self, function: str, gpu: int | None, **fields: int) -> Fault:
        with self.locked():
            entry = next(fault for fault in self.raw.fault if not fault.active)
            entry.function = function.encode()
            entry.gpu = -1 if gpu is None else gpu
            for name in ("hang", "has_value", "value"):
                setattr(entry, name, 0)
            for name, number in fields.items():
                setattr(entry, name, number)
            entry.active = 1
        return Fault(entry)

    def clear(self) -> None:
        """End every fault."""
        for fault in self.raw.fault:
            fault.active = 0

    def calls(self, function: str | None = None, gpu: int | None = None) -> int:
        """How often ``function`` (None: anything) was called in all processes, on ``gpu`` (None: any or none)."""
        counters = [c for c in self.raw.counter if c.function and function in {None, c.function.decode()}]
        return sum(sum(counter.calls) if gpu is None else counter.calls[gpu] for counter in counters)

    def writes(self, gpu: int | None = None, function: str | None = None) -> list[Write]:
        """Every attempt to change a card, oldest first, refused ones too (the last 16384)."""
        total = int(self.raw.write_count)
        entries = (self.raw.write[at % _MAX_WRITES] for at in range(max(0, total - _MAX_WRITES), total))
        found = [Write(w.at_ns, w.pid, w.uid, w.gpu, w.function.decode(), w.value, w.value2, w.code) for w in entries]
        return [w for w in found if gpu in {None, w.gpu} and function in {None, w.function}]

    def reset_counts(self) -> None:
        with self.locked():
            ctypes.memset(ctypes.byref(self.raw.counter), 0, ctypes.sizeof(self.raw.counter))
            self.raw.write_count = 0

    def reload_driver(self) -> None:
        """What an unload with persistence off leaves: default limits, free clocks, a counter at zero (G2, G13)."""
        with self.locked():
            for card in self:
                card.raw.limit_mw = card.raw.default_mw
                card.raw.locked_min_mhz = card.raw.locked_max_mhz = 0
                card.raw.energy_mj = card.raw.shown_mj = 0.0


def _furnish(raw: Any, index: int, name: str, architecture: int) -> None:
    raw.uuid = f"GPU-5ca1ab1e-{index:04x}-4a40-8000-{0xC0FFEE00 + index:012x}".encode()
    raw.name = name.encode()
    raw.architecture = architecture
    raw.pci_bus = 0x17 + 0x20 * index
    raw.has_energy = raw.has_instant = raw.has_average = 1
    raw.min_sm_mhz, raw.max_sm_mhz, raw.sm_step_mhz, raw.memory_mhz = 210, 1740, 15, 7251
    raw.utilisation = -1
    raw.persistence = 1
