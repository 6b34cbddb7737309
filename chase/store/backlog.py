"""What waits to be written: in order, bounded, and counted when it has to be forgotten."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from chase.errors import StoreError

if TYPE_CHECKING:
    from sqlite_utils import Database

_LOG = logging.getLogger(__name__)
BATCH = 256  # operations in one transaction


class Worth(IntEnum):
    """What is forgotten first where memory is short: what can be computed again, then what sources have said, thousands
    of rows at once, then what only this node knows; of each the oldest first.

    State (a job begins or ends) is forgotten last: the rows that come after refer to it.
    """

    SPARE = 0
    SAID = 1
    ROW = 2
    STATE = 3


@dataclass(slots=True, eq=False)
class Op:
    """Something to do to the database inside a transaction; ``done`` tells the caller who waits, if one does."""

    table: str
    apply: Callable[[Database], int | None]
    rows: int = 1
    worth: Worth = Worth.ROW
    done: Future[int | None] | None = None

    def succeed(self, result: int | None) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_result(result)

    def fail(self, error: Exception) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_exception(error)


class Backlog:
    """Not thread-safe: the writer's lock covers it."""

    def __init__(self, limit_rows: int) -> None:
        self._limit_rows = limit_rows
        self._ops: deque[Op] = deque()
        self.rows = 0
        self.lost_rows = 0
        self.unreported: Counter[str] = Counter()  # rows lost, by table, of which no event tells yet

    def __len__(self) -> int:
        return len(self._ops)

    def put(self, op: Op) -> None:
        self._ops.append(op)
        self.rows += op.rows
        self._trim()

    def take(self) -> list[Op]:
        """The oldest ones, as many as go into one transaction."""
        taken = [self._ops.popleft() for _ in range(min(BATCH, len(self._ops)))]
        self.rows -= sum(op.rows for op in taken)
        return taken

    def put_back(self, ops: Iterable[Op]) -> None:
        """To the front, for the next try."""
        for op in reversed(list(ops)):
            self._ops.appendleft(op)
            self.rows += op.rows
        self._trim()

    def lose(self, op: Op) -> None:
        """Counted, unless it can be computed again."""
        if op.worth is Worth.SPARE:
            _LOG.info("%d rows of %s were given up, and can be computed again", op.rows, op.table)
            return
        self.lost_rows += op.rows
        self.unreported[op.table] += op.rows

    def reported(self, counts: Counter[str]) -> None:
        self.unreported -= counts

    def _trim(self) -> None:
        while self.rows > self._limit_rows and len(self._ops) > 1:
            place, least = min(enumerate(self._ops), key=lambda placed: placed[1].worth)  # of equals the oldest
            del self._ops[place]
            self.rows -= least.rows
            self.lose(least)
            least.fail(StoreError(f"{least.table}: memory is full"))
