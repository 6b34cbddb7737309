"""What a GPU is to everything above it, and the few ways in which it can fail.

Watts, joules, megahertz and fractions only; milliwatts and millijoules exist inside ``nvml.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol


class GpuError(Exception):
    """A call on a GPU failed. ``uuid`` may be empty when no single GPU is meant; ``call`` is the operation."""

    def __init__(self, message: str, *, uuid: str = "", call: str = "") -> None:
        super().__init__(message)
        self.uuid = uuid
        self.call = call


class NoPermission(GpuError):
    """The driver refuses the change to this user (rule G1)."""


class NotSupported(GpuError):
    """This GPU or driver has no such capability (rules G6, G11)."""


class Lost(GpuError):
    """The GPU fell off the bus or needs a reset; others may go on (rule G15)."""


class Unavailable(GpuError):
    """No driver, library or session, a version mismatch, or a call that timed out (rules G17, G18)."""


class Refused(GpuError):
    """The driver calls the argument invalid, or the GPU is in use or in a state that forbids it."""


class BadReading(GpuError):
    """A reading that cannot be true: a sentinel, non-finite, negative or impossibly large (rule G14)."""


@dataclass(frozen=True, slots=True)
class PowerLimits:
    """Live constraints of a power limit. Hosts may narrow them at any time (rule G7), so never cache them."""

    min_w: float
    max_w: float
    default_w: float

    def clamp(self, power_limit_w: float) -> float:
        return min(max(power_limit_w, self.min_w), self.max_w)

    @property
    def headroom(self) -> float:
        """The share of the default limit that can be taken away, 0 to 1."""
        return max(0.0, 1.0 - self.min_w / self.default_w)


@dataclass(frozen=True, slots=True)
class Process:
    """A process with a context on a GPU. ``uid`` is None when the kernel does not know the pid (another namespace)."""

    pid: int
    uid: int | None


class Gpu(Protocol):
    """One physical GPU, named by UUID. Every method may raise a ``GpuError``; none of them blocks for long."""

    @property
    def uuid(self) -> str: ...
    @property
    def index(self) -> int:
        """Position in PCI bus order, as NVML and nvidia-smi count."""
        ...

    @property
    def name(self) -> str: ...
    @property
    def pci_bus_id(self) -> str: ...

    def power_limits(self) -> PowerLimits: ...
    def power_limit_w(self) -> float:
        """The limit somebody requested last (management limit)."""
        ...

    def enforced_power_limit_w(self) -> float:
        """The limit in force: the least of all that limit this GPU (rule G9)."""
        ...

    def set_power_limit_w(self, power_limit_w: float) -> None: ...

    def power_w(self) -> float: ...
    def energy_j(self) -> float:
        """Joules since the driver was loaded. ``NotSupported`` where there is no counter (rule G11)."""
        ...

    def sm_clock_mhz(self) -> int: ...
    def supported_sm_clocks_mhz(self) -> tuple[int, ...]:
        """Ascending."""
        ...

    def lock_sm_clocks_mhz(self, low_mhz: int, high_mhz: int) -> None: ...
    def reset_sm_clocks(self) -> None: ...
    def utilisation(self) -> float:
        """Share of the last sample period in which a kernel ran, 0 to 1."""
        ...

    def throttle_reasons(self) -> frozenset[str]:
        """Short names, such as ``sw_power_cap``, ``hw_thermal_slowdown``, ``gpu_idle``."""
        ...

    def processes(self) -> tuple[Process, ...]: ...
    def persistence(self) -> bool: ...
    def mig_enabled(self) -> bool: ...
    def mig_uuids(self) -> tuple[str, ...]:
        """Of the instances this GPU is cut into; power is a matter of the whole GPU all the same (rule G21)."""
        ...


class GpuSystem(Protocol):
    """The GPUs of this node. ``kind`` is shown everywhere, so that simulated figures are never taken for real."""

    @property
    def kind(self) -> Literal["nvml", "simulated"]: ...
    def gpus(self) -> tuple[Gpu, ...]:
        """In index order. Raises ``Unavailable`` when there is no driver to ask."""
        ...

    def close(self) -> None: ...
