"""Time, as one thing that can be handed over: wall time in aware UTC, and a monotonic clock for durations."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """``now`` labels, ``monotonic`` measures, ``wait`` blocks. ``rate`` is how many seconds pass in a real one."""

    rate: float

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until ``event`` is set or ``seconds`` of this clock have passed; True if it was set."""
        ...


def minute(at: datetime) -> str:
    """For people: a time to the minute, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%MZ}"


class SystemClock:
    """The machine's own clocks."""

    rate = 1.0

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)


class ScaledClock:
    """A simulated day in seconds: starts at ``start`` and runs ``rate`` times as fast as the machine's clock."""

    def __init__(self, start: datetime, rate: float) -> None:
        if start.utcoffset() != timedelta(0):
            raise ValueError(f"start must be an aware UTC time, not {start!r}")
        if not rate > 0:
            raise ValueError(f"rate must be positive, not {rate!r}")
        self.rate = rate
        self._start = start
        self._began = time.monotonic()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return (time.monotonic() - self._began) * self.rate

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds / self.rate)


class ManualClock:
    """A clock that moves only when told to: for tests and replays."""

    rate = 1.0

    def __init__(self, start: datetime) -> None:
        self._now = start
        self._monotonic = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if not event.is_set():
            self.advance(seconds)
        return event.is_set()

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds

    def step_wall(self, seconds: float) -> None:
        """Move the wall clock alone, as NTP or a person does."""
        self._now += timedelta(seconds=seconds)
