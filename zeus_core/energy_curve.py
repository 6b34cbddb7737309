"""One GPU's energy since the meter began: a curve over time that never falls, and how each piece of it was found.

Between two readings the hardware counter's difference is booked. Where there is no counter, where it was reset, where
it stands still or jumps impossibly, the power readings are integrated over that piece instead, and it is said.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from zeus_core.gpus.base import BadReading, Gpu, GpuError, Lost, NotSupported

Method = Literal["counter", "integrated"]

SPARSE_S = 30.0  # power readings further apart than this say little about the time between them
STILL_S = 5.0  # an idle card draws 25 J in this time at the least, so a counter that did not move is dead
EXCESS = 1.5  # times the highest limit: more than that over a piece is no reading but a fault (rule G14)
_UNKNOWN_LIMIT_W = 5000.0
_COUNTER_PERIOD_S = 0.5  # a counter may show this much time's energy late, in one step
_MARKS = 512


class Tally(NamedTuple):
    """What has happened so far, as counts; the difference of two tells what happened between them."""

    counted: int = 0  # pieces booked from the counter
    integrated: int = 0  # pieces booked from power
    resets: int = 0  # epochs of the counter that ended
    refused: int = 0  # impossible readings
    lost: int = 0  # samples that found the GPU gone or hanging
    gaps: int = 0  # samples that failed for another reason, or that could not be bridged
    sparse: int = 0  # pieces integrated over more than SPARSE_S
    stuck: int = 0  # pieces in which the counter stood still under power


class Mark(NamedTuple):
    """A point of the curve."""

    at: float
    joules: float
    tally: Tally


@dataclass(frozen=True, slots=True)
class Reading:
    """Joules since the meter began, never falling, up to monotonic time ``at`` (None before the first reading).

    ``method`` is that of the piece booked last. ``epoch`` counts the counter's resets, ``refused`` the impossible
    readings; ``lost`` is whether the last sample found the GPU gone or hanging.
    """

    joules: float
    method: Method
    epoch: int
    at: float | None
    refused: int
    lost: bool


class _Look(NamedTuple):
    """One sample. ``began`` is before the counter was read and ``at`` after."""

    began: float
    at: float
    counter_j: float | None
    power_w: float | None


class EnergyCurve:
    """Thread-safe; the GPU is read outside the lock, so that one that hangs blocks only who samples it."""

    def __init__(self, gpu: Gpu, monotonic: Callable[[], float]) -> None:
        self._gpu = gpu
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._marks: deque[Mark] = deque(maxlen=_MARKS)
        self._tally = Tally()
        self._has_counter = True
        self._highest_w: float | None = None
        self._base: tuple[float, float] | None = None  # time and value of the counter's last good reading
        self._suspect: tuple[float, float] | None = None  # the same of an impossible one, in case it was right
        self._moved_at = math.inf  # when the counter last moved
        self._power: tuple[float, float] | None = None  # time and value of the last power reading
        self._method: Method | None = None  # of the piece booked last
        self._first_at = math.inf
        self._looked_at: float | None = None  # when the GPU last answered
        self._failing = False
        self._lost = False
        self._reading = self._read()

    def sample(self) -> None:
        """Read the GPU and extend the curve. Failures are counted, never raised.

        On a clock that stood still since the last good look nothing can have been drawn.
        """
        now = self._monotonic()
        if now == self._looked_at:
            return
        self._first_at = min(self._first_at, now)
        try:
            look = self._look()
        except GpuError as error:
            self._failed(error)
            return
        with self._lock:
            self._lost, self._looked_at = False, look.at
            if not self._marks:
                self._begin(look)
            elif look.at > self._marks[-1].at:
                self._extend(look)
            self._reading = self._read()

    def reading(self) -> Reading:
        return self._reading

    def _read(self) -> Reading:
        last = self._marks[-1] if self._marks else None
        return Reading(
            joules=last.joules if last else 0.0,
            method=self._method or self._expected(),
            epoch=self._tally.resets,
            at=last.at if last else None,
            refused=self._tally.refused,
            lost=self._lost,
        )

    def covers(self, at: float) -> bool:
        """Whether ``at`` lies between marks that are still kept, so that ``edge`` gives its final answer."""
        with self._lock:
            return bool(self._marks) and self._marks[0].at <= at <= self._marks[-1].at

    def oldest(self) -> float | None:
        with self._lock:
            return self._marks[0].at if self._marks else None

    def edge(self, at: float, *, opening: bool) -> Mark:
        """The curve at ``at``, straight between marks and level beyond them.

        Its tally is so chosen that the piece in which a window opens or closes belongs to the window.
        """
        with self._lock:
            left, right = self._around(at)
            before = left or Mark(at, right.joules if right else 0.0, right.tally if right else Tally())
            after = right or Mark(at, before.joules, self._tally)
            width = after.at - before.at
            share = (at - before.at) / width if width > 0 else 1.0
            joules = before.joules + share * (after.joules - before.joules)
            return Mark(at, joules, (before if opening else after).tally)

    def expected_method(self) -> Method:
        with self._lock:
            return self._expected()

    def _expected(self) -> Method:
        return "counter" if self._has_counter else "integrated"

    def _around(self, at: float) -> tuple[Mark | None, Mark | None]:
        """The last mark at or before ``at`` and the first at or after it."""
        right: Mark | None = None
        for mark in reversed(self._marks):
            if mark.at <= at:
                return mark, mark if mark.at == at else right
            right = mark
        return None, right

    # Reading: outside the lock.

    def _look(self) -> _Look:
        if self._highest_w is None:
            self._highest_w = self._highest_limit_w()
        began = self._monotonic()
        counter_j = self._counter_j()
        at = self._monotonic()
        return _Look(began, at, counter_j, self._power_if_needed(counter_j, at))

    def _power_if_needed(self, counter_j: float | None, at: float) -> float | None:
        if counter_j is None:
            return self._power_w()
        try:
            return self._power_w() if self._needs_power(counter_j, at) else None
        except GpuError:  # the counter is there, and the next sample asks again
            return None

    def _highest_limit_w(self) -> float:
        try:
            return self._gpu.power_limits().max_w
        except (NotSupported, BadReading):
            return _UNKNOWN_LIMIT_W

    def _counter_j(self) -> float | None:
        if not self._has_counter:
            return None
        try:
            joules = self._gpu.energy_j()
        except NotSupported:
            self._has_counter = False
            return None
        except BadReading:
            joules = math.nan
        if math.isfinite(joules) and joules >= 0:
            return joules
        with self._lock:
            self._count(refused=1)
        return None

    def _power_w(self) -> float:
        watts = self._gpu.power_w()
        most = EXCESS * (self._highest_w or _UNKNOWN_LIMIT_W)
        if not 0 <= watts <= most:  # false for NaN too
            raise BadReading(f"{self._gpu.uuid}: {watts!r} W cannot be true", uuid=self._gpu.uuid, call="power_w")
        return watts

    def _needs_power(self, counter_j: float, at: float) -> bool:
        base = self._base
        if base is None:
            return True
        still = counter_j == base[1] and at - self._moved_at >= STILL_S
        return still or not self._possible(base, counter_j, at)

    def _possible(self, base: tuple[float, float], counter_j: float, at: float) -> bool:
        seconds = at - base[0] + _COUNTER_PERIOD_S
        return 0 <= counter_j - base[1] <= EXCESS * (self._highest_w or _UNKNOWN_LIMIT_W) * seconds

    # Booking: under the lock.

    def _failed(self, error: GpuError) -> None:
        with self._lock:
            self._failing, self._looked_at = True, None
            self._lost = isinstance(error, Lost)
            name = "lost" if self._lost else "refused" if isinstance(error, BadReading) else "gaps"
            self._count(**{name: 1})
            self._reading = self._read()

    def _count(self, **more: int) -> None:
        self._tally = self._tally._replace(**{name: getattr(self._tally, name) + n for name, n in more.items()})

    def _begin(self, look: _Look) -> None:
        self._adopt(look)
        if self._failing:
            self._marks.append(Mark(self._first_at, 0.0, Tally()))
        self._failing = False
        self._marks.append(Mark(look.at, 0.0, self._tally))

    def _adopt(self, look: _Look) -> None:
        """Take this sample as the left end of the next piece."""
        if look.counter_j is None:
            self._base = None  # what the counter missed is booked from power, and not once more when it is back
        else:
            if self._base is None or look.counter_j != self._base[1]:
                self._moved_at = look.at
            self._base = (look.began, look.counter_j)
            self._suspect = None
        if look.power_w is not None:
            self._power = (look.at, look.power_w)

    def _extend(self, look: _Look) -> None:
        if look.counter_j is None or self._base is None:
            self._book_power(look)
        elif self._possible(self._base, look.counter_j, look.at):
            self._book_counter(look, self._base)
        elif look.counter_j < self._base[1]:
            self._count(resets=1)
            self._book_power(look)
        elif self._suspect is not None and self._possible(self._suspect, look.counter_j, look.at):
            self._count(resets=1)  # it did jump, and went on from there
            self._book_power(look)
        else:
            self._suspect = (look.began, look.counter_j)
            self._highest_w = None  # perhaps the limits were raised
            self._failing = True
            self._count(refused=1)

    def _book_counter(self, look: _Look, base: tuple[float, float]) -> None:
        joules = (look.counter_j or 0.0) - base[1]
        if joules == 0 and look.power_w is not None and look.power_w >= 1:
            self._count(stuck=1)
            self._book_power(look)
        else:
            self._tally = self._tally._replace(counted=self._tally.counted + 1)
            self._method = "counter"
            self._book(look, joules)

    def _book_power(self, look: _Look) -> None:
        joules = self._integral(look)
        if joules is None:
            self._count(gaps=1)
            self._book(look, 0.0)
            return
        sparse = look.at - self._marks[-1].at > SPARSE_S
        self._count(integrated=1, sparse=int(sparse))
        self._method = "integrated"
        self._book(look, joules)

    def _integral(self, look: _Look) -> float | None:
        """The trapezoid from the last mark, or None where a failure lies between that is too long to bridge."""
        last = self._marks[-1].at
        seconds = look.at - last
        if look.power_w is None or (self._failing and seconds > SPARSE_S):
            return None
        left_w = self._power[1] if self._power is not None and self._power[0] == last else look.power_w
        return (left_w + look.power_w) / 2 * seconds

    def _book(self, look: _Look, joules: float) -> None:
        self._adopt(look)
        self._failing = False
        self._marks.append(Mark(look.at, self._marks[-1].joules + joules, self._tally))
