"""A GPU whose counter and power a test writes down, on a clock that a test moves."""

from __future__ import annotations

from chase.clock import ManualClock
from zeus_core.gpus.base import BadReading, GpuError, Lost, NotSupported, PowerLimits, Unavailable


class Scripted:
    """As much of a GPU as the meter reads. ``draw_w`` fills its counter; each fault stays until it is taken away."""

    def __init__(self, clock: ManualClock, uuid: str = "GPU-0", max_w: float = 300.0) -> None:
        self.uuid = uuid
        self.max_w = max_w
        self.has_counter = True
        self.fault: GpuError | None = None
        self.counter_fault: GpuError | None = None
        self.power_fault: GpuError | None = None
        self.limits_fault: GpuError | None = None
        self.counter_offset_j = 1e6
        self.power_reads = 0
        self._clock = clock
        self._draw_w = 100.0
        self._energy_j = 0.0
        self._at = clock.monotonic()

    @property
    def true_j(self) -> float:
        now = self._clock.monotonic()
        self._energy_j += self._draw_w * (now - self._at)
        self._at = now
        return self._energy_j

    @property
    def draw_w(self) -> float:
        return self._draw_w

    @draw_w.setter
    def draw_w(self, watts: float) -> None:
        assert self.true_j >= 0
        self._draw_w = watts

    def reset_counter(self) -> None:
        """What a driver reload does."""
        self.counter_offset_j = -self.true_j

    def power_limits(self) -> PowerLimits:
        self._raise(self.fault, self.limits_fault)
        return PowerLimits(100, self.max_w, self.max_w)

    def energy_j(self) -> float:
        self._raise(self.fault, self.counter_fault)
        if not self.has_counter:
            raise NotSupported("no counter", uuid=self.uuid)
        return self.counter_offset_j + self.true_j

    def power_w(self) -> float:
        self.power_reads += 1
        self._raise(self.fault, self.power_fault)
        return self._draw_w

    @staticmethod
    def _raise(*faults: GpuError | None) -> None:
        for fault in faults:
            if fault is not None:
                raise fault


LOST, DOWN, BAD, ABSENT = Lost("gone"), Unavailable("not now"), BadReading("2^63"), NotSupported("never")
