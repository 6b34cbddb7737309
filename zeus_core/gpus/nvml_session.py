"""NVML as one process holds it: initialised late, handles by UUID, and opened anew once when the session is lost."""

from __future__ import annotations

import importlib
import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from zeus_core.gpus import nvml_errors as codes
from zeus_core.gpus.base import GpuError, NotSupported, Unavailable

_REOPEN_AFTER_S = 30.0


class Session:
    """Calls NVML and raises only ``GpuError``.

    A session is lost after a fork and when the driver is upgraded under the process (rule G17): then it is shut down,
    initialised and the call made again, once, and not more often than every 30 s, because a library older than the
    kernel module stays so until the process ends. ``generation`` counts the sessions; indices may differ between them.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._nvml: Any = None
        self._pid = 0
        self._closed = False
        self._reopened_at = -math.inf
        self._handles: dict[str, Any] = {}
        self._lock = threading.RLock()

    def close(self) -> None:
        """For good: later calls are ``Unavailable``."""
        with self._lock:
            nvml, self._nvml, self._closed = self._nvml, None, True
            if nvml is not None:
                _checked(nvml, "nvmlShutdown", nvml.nvmlShutdown)

    def call(self, function: str, *arguments: Any) -> Any:
        """A function of the node, or of a handle that was just made (a GPU not known by UUID yet, a MIG slice)."""
        return self._retried(function, lambda nvml: getattr(nvml, function)(*arguments))

    def on(self, uuid: str, function: str, *arguments: Any) -> Any:
        """A function of one GPU."""
        return self._retried(function, lambda nvml: getattr(nvml, function)(self._handle(nvml, uuid), *arguments), uuid)

    def _retried(self, function: str, attempt: Callable[[Any], Any], uuid: str = "") -> Any:
        nvml, generation = self._open()
        try:
            return _checked(nvml, function, lambda: attempt(nvml), uuid)
        except Unavailable as error:
            if codes.of(error) not in codes.SESSION_LOST or not self._reopen(generation):
                raise
        nvml, _ = self._open()
        return _checked(nvml, function, lambda: attempt(nvml), uuid)

    def _open(self) -> tuple[Any, int]:
        with self._lock:
            if self._closed:
                raise Unavailable("NVML was closed by this process", call="nvmlInit")
            if self._nvml is None:
                nvml = importlib.import_module("pynvml")
                _checked(nvml, "nvmlInit", nvml.nvmlInit)
                self._nvml, self._pid = nvml, os.getpid()
                self._handles.clear()
                self.generation += 1
            return self._nvml, self.generation

    def _reopen(self, generation: int) -> bool:
        """Whether a session younger than ``generation`` is there now. Raises what ``nvmlInit`` says if it fails."""
        with self._lock:
            if self.generation != generation:
                return True
            forked = self._pid != os.getpid()
            if not forked and time.monotonic() - self._reopened_at < _REOPEN_AFTER_S:
                return False
            self._reopened_at = time.monotonic()
            nvml, self._nvml = self._nvml, None
            with suppress(GpuError):
                _checked(nvml, "nvmlShutdown", nvml.nvmlShutdown)
            self._open()
            return True

    def _handle(self, nvml: Any, uuid: str) -> Any:
        handle = self._handles.get(uuid)
        if handle is None:
            handle = self._handles[uuid] = nvml.nvmlDeviceGetHandleByUUID(uuid)
        return handle


def _checked(nvml: Any, function: str, call: Callable[[], Any], uuid: str = "") -> Any:
    try:
        return call()
    except nvml.NVMLError as error:
        raise codes.translate(error.value, uuid=uuid, call=function) from error
    except nvml.NVMLLibraryMismatchError as error:
        raise NotSupported(f"{uuid or 'NVML'}: {function}: {error}", uuid=uuid, call=function) from error
