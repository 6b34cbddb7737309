"""Every NVML return code as one of our few errors, with what a person can do about it."""

from __future__ import annotations

from zeus_core.gpus.base import GpuError, Lost, NoPermission, NotSupported, Refused, Unavailable

UNINITIALIZED, NOT_SUPPORTED, NOT_FOUND, INVALID_ARGUMENT, FUNCTION_NOT_FOUND = 1, 3, 6, 2, 13
LIB_RM_VERSION_MISMATCH, ARGUMENT_VERSION_MISMATCH, DEPRECATED, UNKNOWN = 18, 25, 26, 999

# The two that a fresh session may cure (rule G17).
SESSION_LOST = frozenset({UNINITIALIZED, LIB_RM_VERSION_MISMATCH})
# What drivers of different ages say to a field or a function that they do not know.
ABSENT = frozenset({INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH, DEPRECATED})

_ROOT = "changing a GPU takes root or CAP_SYS_ADMIN (in a container --cap-add=SYS_ADMIN): run `chase actuator` with it"
_CONTAINER = (
    "in a container this is what a `systemctl daemon-reload` on the host leaves behind: "
    "start the container again, and give it its GPUs with CDI or --device so that it lasts"
)
_DRIVER = "check that nvidia-smi works here, and that the NVIDIA kernel module is loaded"
_MISMATCH = (
    "the driver was upgraded under this process: restart it, and reboot or reload the kernel module if that fails"
)
_RESET = "the GPU needs a reset or the machine a reboot; see the Xid lines in the kernel log"
_OLD = "this driver or card cannot do it"
_RETRY = "the driver had no answer now; it is asked again later"
_ARGUMENT = "the driver calls the argument invalid; the permitted range may have changed"

_CODES: dict[int, tuple[type[GpuError], str, str]] = {
    UNINITIALIZED: (Unavailable, "NVML is not initialised in this process", _DRIVER),
    INVALID_ARGUMENT: (Refused, "invalid argument", _ARGUMENT),
    NOT_SUPPORTED: (NotSupported, "not supported", _OLD),
    4: (NoPermission, "insufficient permissions", _ROOT),
    5: (Unavailable, "already initialised", _RETRY),
    NOT_FOUND: (Lost, "not found", _RESET),
    7: (Unavailable, "the answer outgrew its buffer", _RETRY),
    8: (Lost, "insufficient external power", "the power cables of this GPU are not properly attached"),
    9: (Unavailable, "the NVIDIA driver is not loaded", _DRIVER),
    10: (Unavailable, "timed out in the driver", _RETRY),
    11: (Lost, "the kernel detected an interrupt issue with this GPU", _RESET),
    12: (Unavailable, "libnvidia-ml.so.1 was not found", "install the NVIDIA driver, or run where it is mounted"),
    FUNCTION_NOT_FOUND: (NotSupported, "this driver has no such function", _OLD),
    14: (Lost, "the infoROM is corrupted", "the GPU needs service; nvidia-smi -q says more"),
    15: (Lost, "the GPU fell off the bus", _RESET),
    16: (Lost, "the GPU needs a reset", _RESET),
    17: (Unavailable, "the operating system or a control group blocked the request", _CONTAINER),
    LIB_RM_VERSION_MISMATCH: (Unavailable, "driver and library versions differ", _MISMATCH),
    19: (Refused, "the GPU is in use", "wait until it is free"),
    20: (Unavailable, "insufficient memory", _RETRY),
    21: (Unavailable, "no data", _RETRY),
    22: (NotSupported, "not supported on a vGPU with ECC", _OLD),
    23: (Unavailable, "insufficient resources", _RETRY),
    24: (Refused, "the frequency is not supported", "choose one of the supported clocks"),
    ARGUMENT_VERSION_MISMATCH: (NotSupported, "driver and nvidia-ml-py disagree about an argument's version", _OLD),
    DEPRECATED: (NotSupported, "the function is deprecated in this driver", _OLD),
    27: (Unavailable, "not ready", _RETRY),
    28: (Lost, "the GPU was not found", _RESET),
    29: (Refused, "the state of the GPU forbids it", "nvidia-smi -q shows its modes"),
    30: (NotSupported, "this kind of reset is not supported", _OLD),
    UNKNOWN: (Unavailable, "unknown error", _CONTAINER),
}


def translate(code: int, *, uuid: str, call: str) -> GpuError:
    kind, what, advice = _CODES.get(code, (Unavailable, f"NVML error {code}", _RETRY))
    return kind(f"{uuid or 'NVML'}: {call}: {what}; {advice}", uuid=uuid, call=call)


def of(error: GpuError) -> int | None:
    """The NVML code behind an error of ours, None if it has another cause."""
    code = getattr(error.__cause__, "value", None)
    return code if isinstance(code, int) else None
