"""What an actuator reads before and after a change, and what it makes of GPUs that answer only in part."""

from __future__ import annotations

import logging

from zeus_core.gpus.base import Gpu, GpuError, NotSupported

log = logging.getLogger(__name__)


def read_limit_w(gpu: Gpu) -> float:
    """The limit somebody requested last; where the driver does not tell, the one in force stands for it."""
    try:
        return gpu.power_limit_w()
    except NotSupported:
        return gpu.enforced_power_limit_w()


def read_enforced_w(gpu: Gpu) -> float:
    try:
        return gpu.enforced_power_limit_w()
    except NotSupported:
        return gpu.power_limit_w()


def try_enforced_w(gpu: Gpu) -> float | None:
    try:
        return read_enforced_w(gpu)
    except GpuError:
        return None


def clock_range_mhz(gpu: Gpu, wish_mhz: int) -> tuple[int, int]:
    """Lock bounds for ``wish_mhz``: down to the slowest clock, so that an idle GPU may still idle.

    The upper end is the highest supported clock that is not above the wish, or the slowest of all.
    """
    try:
        supported = gpu.supported_sm_clocks_mhz()
    except NotSupported:
        supported = ()
    if not supported:
        return wish_mhz, wish_mhz
    return supported[0], max((clock for clock in supported if clock <= wish_mhz), default=supported[0])


def persistence_hint(gpu: Gpu) -> str:
    """With persistence mode off a driver forgets its limits whenever nobody uses the GPU (rule G2)."""
    try:
        on = gpu.persistence()
    except GpuError:
        return ""
    return "" if on else "persistence mode is off, so the driver may have dropped it itself (nvidia-smi -pm 1)"
