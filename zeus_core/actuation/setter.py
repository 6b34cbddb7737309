"""Who carries a change to the GPU: the driver itself here, a site's own command in ``command.py``."""

from __future__ import annotations

from typing import Protocol

from zeus_core.gpus.base import Gpu


class Setter(Protocol):
    """Says how to change a GPU, not whether. Raises ``GpuError``; returning proves nothing, reading back does."""

    @property
    def backend(self) -> str:
        """``local`` or ``command``."""
        ...

    def set_power_limit_w(self, gpu: Gpu, power_limit_w: float) -> None: ...
    def lock_sm_clocks_mhz(self, gpu: Gpu, low_mhz: int, high_mhz: int) -> None: ...
    def reset_sm_clocks(self, gpu: Gpu) -> None: ...


class DriverSetter:
    """Asks the driver directly."""

    backend = "local"

    def set_power_limit_w(self, gpu: Gpu, power_limit_w: float) -> None:
        gpu.set_power_limit_w(power_limit_w)

    def lock_sm_clocks_mhz(self, gpu: Gpu, low_mhz: int, high_mhz: int) -> None:
        gpu.lock_sm_clocks_mhz(low_mhz, high_mhz)

    def reset_sm_clocks(self, gpu: Gpu) -> None:
        gpu.reset_sm_clocks()
