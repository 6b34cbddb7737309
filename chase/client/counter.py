"""A count that many threads may add to and any thread may read, with no lock on either way.

``x += n`` is a read, an addition and a write, and another thread may come between. So each thread adds to a cell that
nobody else writes, and a reader sums the cells. That is right by itself, on an interpreter without a GIL too, and does
not lean on which bytecodes happen not to be interrupted.
"""

from __future__ import annotations

import threading

MOST = 10**15


class Cell:
    """What one thread has counted. Whole numbers apart: adding one of any size to them cannot fail."""

    __slots__ = ("owner", "part", "whole")

    def __init__(self, owner: threading.Thread) -> None:
        self.owner = owner
        self.whole = 0
        self.part = 0.0


class Own(threading.local):
    """``cell`` is the calling thread's; made when it first asks."""

    def __init__(self, counter: Counter) -> None:
        self.cell = counter.claim()


class Counter:
    """Add by ``counter.own.cell.whole += n``. ``value`` never falls, and stays at ``MOST`` once there."""

    def __init__(self) -> None:
        self._cells: list[Cell] = []
        self._claiming = threading.Lock()
        self.own = Own(self)

    @property
    def value(self) -> float:
        cells = tuple(self._cells)
        return min(float(min(sum(cell.whole for cell in cells), MOST)) + sum(cell.part for cell in cells), float(MOST))

    def claim(self) -> Cell:
        """A cell for the calling thread: one whose thread has died, counting on from there, or a new one."""
        me = threading.current_thread()
        if self._claiming.acquire(blocking=False):  # not held by us: a forked child may have it locked for ever
            try:
                for cell in self._cells:
                    if not cell.owner.is_alive():
                        cell.owner = me
                        return cell
            finally:
                self._claiming.release()
        cell = Cell(me)
        self._cells.append(cell)
        return cell
