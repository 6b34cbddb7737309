"""Many small tasks on an engine's workers: handed out in chunks, and done again where a worker dies.

Tasks of one group share what a worker loads once, such as a grid: they go one group after another. A chunk is as long
as keeps the overhead small, and shorter towards the end. Which task killed its worker nobody can tell of several, so
those in flight are then tried again one at a time; one that dies alone too is named, and the rest goes on.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Generic, TypeVar

from chase.errors import ChaseError
from chase.replay.engine import Engine

T = TypeVar("T")
R = TypeVar("R")

CHUNK_S = 2.0
_MOST_IN_CHUNK = 256
_HOPELESS = 3  # tasks in a row that died before any came back
_one_at_a_time = threading.Lock()  # a Dask worker may have several threads


@dataclass(frozen=True, slots=True)
class Task(Generic[T]):
    key: str
    group: str
    item: T


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T, R]):
    """``value`` of a task that came to an end, else what is to be said of its ``error``."""

    task: Task[T]
    value: R | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Done(Generic[R]):
    value: R | None
    error: str
    seconds: float


@dataclass(slots=True)
class _Group(Generic[T]):
    tasks: deque[Task[T]] = field(default_factory=deque)
    task_s: float | None = None  # how long one takes, of late


class Farm(Generic[T, R]):
    """``function`` of each task's item, as they come back. It must be one that workers can import by its name."""

    def __init__(
        self, engine: Engine, function: Callable[[T], R], tasks: Iterable[Task[T]], *, chunk_s: float = CHUNK_S
    ) -> None:
        self._engine, self._function, self._chunk_s = engine, function, chunk_s
        self._groups: dict[str, _Group[T]] = {}
        for task in tasks:
            self._groups.setdefault(task.group, _Group()).tasks.append(task)
        self._left = sum(len(group.tasks) for group in self._groups.values())
        self._again: deque[Task[T]] = deque()
        self._deaths: Counter[str] = Counter()
        self._alone = False  # whether what is under way is one of those tried again
        self._returned = False
        self._flying: dict[Future[list[_Done[R]]], list[Task[T]]] = {}

    def run(self) -> Iterator[list[Outcome[T, R]]]:
        """What came back, a chunk at a time.

        Raises ``TryLater`` when the cluster is gone, and ``ChaseError`` when workers die whatever they are given.
        """
        try:
            while self._launch():
                for future in wait(self._flying, return_when=FIRST_COMPLETED).done:
                    yield list(self._landed(self._flying.pop(future), future))
        finally:
            for future in self._flying:
                future.cancel()

    def _launch(self) -> bool:
        """Keep every worker busy. Whether anything is under way."""
        while len(self._flying) < self._engine.workers and (chunk := self._next()):
            self._flying[self._engine.submit(_work, self._function, [task.item for task in chunk])] = chunk
        return bool(self._flying)

    def _next(self) -> list[Task[T]]:
        if self._alone or (self._again and self._flying):
            return []
        if self._again:
            self._alone = True
            return [self._again.popleft()]
        for group in self._groups.values():
            if group.tasks:
                count = self._size(group)
                self._left -= count
                return [group.tasks.popleft() for _ in range(count)]
        return []

    def _size(self, group: _Group[T]) -> int:
        if group.task_s is None:
            return 1
        fitting = int(self._chunk_s / max(group.task_s, 1e-9))
        share = -(-self._left // (2 * self._engine.workers))
        return max(1, min(fitting, share, len(group.tasks), _MOST_IN_CHUNK))

    def _landed(self, chunk: list[Task[T]], future: Future[list[_Done[R]]]) -> Iterator[Outcome[T, R]]:
        alone, self._alone = self._alone, False
        try:
            done = future.result()
        except CancelledError as error:
            raise self._engine.gone() from error
        except self._engine.deaths as error:
            yield from self._died(chunk, error, alone=alone)
        except Exception as error:  # noqa: BLE001  such as a result that cannot travel
            yield from self._failed(chunk, error)
        else:
            self._returned = True
            group, mean_s = self._groups[chunk[0].group], fmean(one.seconds for one in done)
            group.task_s = mean_s if group.task_s is None else (group.task_s + mean_s) / 2
            for task, one in zip(chunk, done, strict=True):
                yield Outcome(task, one.value, one.error)

    def _died(self, chunk: Sequence[Task[T]], error: BaseException, *, alone: bool) -> Iterator[Outcome[T, R]]:
        if alone:
            self._deaths[chunk[0].key] += 1
        if not alone or self._deaths[chunk[0].key] < self._engine.tries:
            self._again.extendleft(chunk)
            return
        if not self._returned and len(self._deaths) >= _HOPELESS:
            raise ChaseError(
                f"{_HOPELESS} workers in a row died of the first cell they were given, so the fault is in the workers: "
                "look for 'Killed' in the system's log (out of memory?), and try one cell with --engine inline"
            ) from error
        yield Outcome(chunk[0], error="its worker died each time it was tried (killed, or out of memory)")

    def _failed(self, chunk: Sequence[Task[T]], error: Exception) -> Iterator[Outcome[T, R]]:
        if len(chunk) > 1:
            self._again.extend(chunk)
        else:
            yield Outcome(chunk[0], error=told(error))


def _work(function: Callable[[T], R], items: Sequence[T]) -> list[_Done[R]]:
    """In the worker: one task's exception is its own."""
    done = []
    with _one_at_a_time:
        for item in items:
            began = time.perf_counter()
            value: R | None = None
            error = ""
            try:
                value = function(item)
            except Exception as raised:  # noqa: BLE001
                error = told(raised)
            done.append(_Done(value, error, time.perf_counter() - began))
    return done


def told(error: Exception) -> str:
    """What is wrong, in one line; of a fault of ours with the place where it shows."""
    if isinstance(error, ChaseError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
