"""A thread that runs the calls of one GPU, so that a call which never returns holds up nobody else (rule G15).

A GPU that fell off the bus can leave its caller in uninterruptible sleep inside the driver. That thread is then left
behind: it is a daemon, the caller gets ``Stuck`` after its budget, and later callers at once, until it comes back.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Stuck(Exception):
    """The call, or one before it, has not come back. ``seconds`` is since when."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer for {seconds:.1f} s")
        self.seconds = seconds


class _Task:
    __slots__ = ("abandoned", "call", "done", "error", "result")

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.done = threading.Event()
        self.abandoned = False
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self.call()
        except BaseException as error:  # noqa: BLE001  # raised again in the caller's thread
            self.error = error


class Worker:
    """Calls run one at a time, in the order of arrival, each within ``budget_s`` from its caller's view."""

    def __init__(self, name: str, budget_s: float) -> None:
        self.name = name
        self._budget_s = budget_s
        self._lock = threading.Lock()
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._pid = 0
        self._stuck_since: float | None = None

    def run(self, call: Callable[[], T]) -> T:
        """The result of ``call``, or its error, or ``Stuck``. A call given up before it began never begins."""
        self._ensure_thread()
        began = time.monotonic()
        if self._stuck_since is not None:
            raise Stuck(began - self._stuck_since)
        task = _Task(call)
        self._tasks.put(task)
        if not task.done.wait(self._budget_s) and self._abandon(task, began):
            raise Stuck(time.monotonic() - began)
        if task.error is not None:
            raise task.error
        result: T = task.result
        return result

    def close(self) -> None:
        """End the thread. A later call starts another."""
        with self._lock:
            self._tasks.put(None)
            self._pid = 0

    def _ensure_thread(self) -> None:
        """Threads do not survive a fork, so each process starts its own."""
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid == os.getpid():
                return
            self._tasks = queue.SimpleQueue()
            self._stuck_since = None
            self._pid = os.getpid()
            threading.Thread(target=self._serve, args=(self._tasks,), name=self.name, daemon=True).start()

    def _abandon(self, task: _Task, began: float) -> bool:
        with self._lock:
            if task.done.is_set():
                return False
            task.abandoned = True
            if self._stuck_since is None:
                self._stuck_since = began
            return True

    def _serve(self, tasks: queue.SimpleQueue[_Task | None]) -> None:
        while (task := tasks.get()) is not None:
            if not task.abandoned:
                task.run()
            with self._lock:
                task.done.set()
                self._stuck_since = None
