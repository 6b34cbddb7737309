"""Measuring a frontier over power limits and batch sizes: a sweep of the limits for each size, one after the other.

The job's own batch size comes first, since its highest limit is the reference of all; then the others, ascending. What
comes next depends on the finished windows alone, as within one sweep. A size that turns out impossible (it does not
fit into the memory) is left out, and what was measured of it as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from zeus_core.frontier import Frontier, Setting, Window
from zeus_core.profiler import Profiler, SweepPlan


class Sweeps:
    """As ``Profiler``, for ``plan`` at its own batch size and at each of ``batch_sizes``; without any it is the one.

    Every window is of a setting with a batch size, which must be that of the plan's reference in the first sweep.
    Raises ``ValueError`` where the reference has none, or one that is not among them.
    """

    def __init__(
        self, plan: SweepPlan, gpus: int = 1, windows: Sequence[Window] = (), *, batch_sizes: Iterable[int] = ()
    ) -> None:
        own, sizes = plan.reference.batch_size, sorted(set(batch_sizes))
        if sizes and own not in sizes:
            raise ValueError(f"the reference's batch size, {own}, must be one of those to measure, {sizes}")
        others = [replace(plan, reference=replace(plan.reference, batch_size=size)) for size in sizes if size != own]
        self._sweeps = [Profiler(each, gpus, windows) for each in (plan, *others)]
        self._reference = plan.reference
        self._reason = ""

    @property
    def wants(self) -> Setting:
        """The setting to put in force now; the reference once there is nothing left to measure."""
        return self._reference if self.done else self._current.wants

    @property
    def done(self) -> bool:
        """Without the reference there is nothing to compare the other sizes with."""
        first = self._sweeps[0]
        return all(sweep.done for sweep in self._sweeps) or (first.done and not first.windows)

    @property
    def note(self) -> str:
        """What it is waiting for, for people."""
        return self._reason or self._current.note

    @property
    def windows(self) -> tuple[Window, ...]:
        """All finished windows, by batch size and then in the order they were measured."""
        return tuple(window for sweep in self._sweeps for window in sweep.windows)

    @property
    def progress(self) -> tuple[int, int]:
        """Windows finished, and needed as far as can be told."""
        finished, needed = zip(*(sweep.progress for sweep in self._sweeps), strict=True)
        return sum(finished), sum(needed)

    def frontier(self) -> Frontier:
        """Fitted to what was measured so far. Raises ``ValueError`` while the reference was not."""
        return Frontier.fit(self.windows, self._reference)

    def observe(
        self,
        at_s: float,
        units_done: float,
        energy_j: float,
        setting_in_force: Setting | None,
        *,
        reported_s: float | None = None,
    ) -> Window | None:
        """One tick; a window when one was finished (``Profiler.observe``)."""
        self._reason = ""
        return self._current.observe(at_s, units_done, energy_j, setting_in_force, reported_s=reported_s)

    def interrupt(self, reason: str) -> None:
        """Drop the open window."""
        self._reason = ""
        self._current.interrupt(reason)

    def skip(self, reason: str) -> None:
        """Leave the wanted limit out, at the wanted batch size."""
        self._reason = ""
        self._current.skip(reason)

    def leave_out(self, batch_size: int, reason: str) -> None:
        """Measure no more of a batch size, and forget what was. Nothing is left without the reference's own."""
        own = self._reference.batch_size
        kept = [sweep for sweep in self._sweeps if sweep.plan.reference.batch_size != batch_size]
        self._sweeps = kept if batch_size != own else self._sweeps
        self._reason = reason

    @property
    def _current(self) -> Profiler:
        return next((sweep for sweep in self._sweeps if not sweep.done), self._sweeps[-1])
