"""How many joules a stretch of time took on each GPU: named windows that may nest and overlap.

Nothing runs by itself: whoever holds the meter samples it, at least every half a minute where a GPU has no energy
counter. Memory is bounded by the number of GPUs and of open windows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from zeus_core.energy_curve import EnergyCurve, Mark, Method, Reading, Tally
from zeus_core.gpus.base import Gpu

__all__ = ["EnergyMeter", "Flag", "Measurement", "Method", "Reading"]

Flag = Literal[
    "below_resolution",  # so short that the counter's own steps, about 0.1 s, are a fifth of it or more
    "gap",  # a sample failed, or a piece of time could not be measured
    "lost",  # the GPU was gone or hung at some sample
    "mixed",  # partly counter, partly integrated
    "refused",  # an impossible reading was thrown away
    "reset",  # the counter began again
    "sparse",  # power readings lay more than half a minute apart
    "stuck",  # the counter stood still while power was drawn
    "unmeasured",  # no piece of the window was measured at all
]

RESOLUTION_S = 0.5
MAX_WINDOWS = 1024


@dataclass(frozen=True, slots=True)
class Measurement:
    """A window: its length, and for each GPU by UUID the joules, how they were found and what was odd."""

    seconds: float
    joules: dict[str, float]
    method: dict[str, Method]
    flags: dict[str, frozenset[Flag]]

    @property
    def total_j(self) -> float:
        return sum(self.joules.values())


@dataclass(frozen=True, slots=True)
class _Window:
    at: float
    edges: dict[str, Mark]


class EnergyMeter:
    """Thread-safe. Times given as ``at`` are of the ``monotonic`` clock, and may lie in the sampled past."""

    def __init__(self, gpus: Iterable[Gpu], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._curves = {gpu.uuid: EnergyCurve(gpu, monotonic) for gpu in gpus}
        self._windows: dict[str, _Window] = {}
        self._lock = threading.Lock()

    def sample(self, uuids: Collection[str] | None = None) -> dict[str, Reading]:
        """Read every GPU, or these alone, then as ``read``. A GPU that fails is counted and flagged; others go on."""
        for uuid, curve in self._curves.items():
            if uuids is None or uuid in uuids:
                curve.sample()
        return self.read()

    def read(self) -> dict[str, Reading]:
        """The latest figure of each GPU by UUID, without touching any."""
        return {uuid: curve.reading() for uuid, curve in self._curves.items()}

    def begin(self, name: str, *, at: float | None = None, restart: bool = False) -> None:
        """Open a window now, or at a time between earlier samples.

        Raises ``ValueError`` if one of that name is open (unless ``restart``), if 1024 are, or if ``at`` is not within
        what is remembered.
        """
        moment = self._moment(at)
        edges = {uuid: curve.edge(moment, opening=True) for uuid, curve in self._curves.items()}
        with self._lock:
            if name in self._windows and not restart:
                raise ValueError(f"a window named {name!r} is open already; end it, or begin it with restart=True")
            if len(self._windows) >= MAX_WINDOWS and name not in self._windows:
                raise ValueError(f"{MAX_WINDOWS} windows are open; some are never ended")
            self._windows[name] = _Window(moment, edges)

    def end(self, name: str, *, at: float | None = None) -> Measurement:
        """Close a window and measure it. Raises ``ValueError`` for an unknown name, or an ``at`` before its begin."""
        window = self._open_window(name)
        moment = self._moment(at)
        if moment < window.at:
            raise ValueError(f"the window {name!r} began at {window.at}, after {moment}")
        with self._lock:
            if self._windows.get(name) is not window:
                raise ValueError(f"the window {name!r} was ended meanwhile")
            del self._windows[name]
        return self._measure(window, moment)

    def cancel(self, name: str) -> None:
        """Forget a window, if there is one."""
        with self._lock:
            self._windows.pop(name, None)

    def windows(self) -> tuple[str, ...]:
        """The names of the open ones."""
        with self._lock:
            return tuple(self._windows)

    def _open_window(self, name: str) -> _Window:
        with self._lock:
            window = self._windows.get(name)
            if window is None:
                raise ValueError(f"no window is named {name!r}; open: {', '.join(sorted(self._windows)) or 'none'}")
            return window

    def _moment(self, at: float | None) -> float:
        """The time meant. Now is taken before sampling, so that the edge lies between two readings."""
        now = self._monotonic()
        if at is None:
            self.sample()
            return now
        oldest = max((mark for curve in self._curves.values() if (mark := curve.oldest()) is not None), default=now)
        if not oldest <= at <= now:
            raise ValueError(f"{at} is not between {oldest}, the oldest sample remembered, and {now}")
        return at

    def _measure(self, window: _Window, moment: float) -> Measurement:
        joules: dict[str, float] = {}
        method: dict[str, Method] = {}
        flags: dict[str, frozenset[Flag]] = {}
        for uuid, curve in self._curves.items():
            start, end = window.edges[uuid], curve.edge(moment, opening=False)
            if curve.covers(window.at):  # a GPU that failed at the beginning has become known since
                start = curve.edge(window.at, opening=True)
            happened = Tally(*(after - before for before, after in zip(start.tally, end.tally, strict=True)))
            joules[uuid] = max(0.0, end.joules - start.joules)
            method[uuid] = _method(happened, curve.expected_method())
            flags[uuid] = _flags(happened, moment - window.at)
        return Measurement(moment - window.at, joules, method, flags)


def _method(happened: Tally, otherwise: Method) -> Method:
    if happened.integrated:
        return "integrated"
    return "counter" if happened.counted else otherwise


def _flags(happened: Tally, seconds: float) -> frozenset[Flag]:
    holds: dict[Flag, bool] = {
        "below_resolution": seconds < RESOLUTION_S,
        "gap": happened.gaps > 0,
        "lost": happened.lost > 0,
        "mixed": happened.counted > 0 and happened.integrated > 0,
        "refused": happened.refused > 0,
        "reset": happened.resets > 0,
        "sparse": happened.sparse > 0,
        "stuck": happened.stuck > 0,
        "unmeasured": not (happened.counted or happened.integrated),
    }
    return frozenset(flag for flag, true in holds.items() if true)
