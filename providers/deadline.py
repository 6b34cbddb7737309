"""Work that may block for ever, held to a deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Expired(Exception):
    """The work did not end in time, was not begun because too much hangs already, or nobody waits for it any more."""


class Deadlines(Generic[T]):
    """Runs work in threads of its own and stops waiting when time is up.

    A name look-up, a TLS handshake and dripping header lines obey no timeout that a caller could set. The thread left
    behind is a daemon and ends with its socket; at most ``threads`` exist at one time.
    """

    def __init__(self, threads: int = 8) -> None:
        self._slots = threading.BoundedSemaphore(threads)
        self._waiting: set[SimpleQueue[T | Exception]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def run(self, work: Callable[[], T], seconds: float) -> T:
        """What ``work`` returns or raises, or ``Expired`` after ``seconds``, or at once if ``close`` is called."""
        if not self._slots.acquire(timeout=max(0.0, seconds)):
            raise Expired("too many earlier requests still hang")
        outcome = self._begin(work)
        try:
            result = outcome.get(timeout=max(0.0, seconds))
        except Empty:
            raise Expired(f"nothing complete within {seconds:.3g} s") from None
        finally:
            with self._lock:
                self._waiting.discard(outcome)
        if isinstance(result, Exception):
            raise result
        return result

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for outcome in self._waiting:
                outcome.put(Expired("closed"))

    def _begin(self, work: Callable[[], T]) -> SimpleQueue[T | Exception]:
        outcome: SimpleQueue[T | Exception] = SimpleQueue()
        with self._lock:
            if self._closed:
                self._slots.release()
                raise Expired("closed")
            self._waiting.add(outcome)
        try:
            threading.Thread(target=self._work, args=(work, outcome), name="deadline", daemon=True).start()
        except RuntimeError:
            self._slots.release()
            outcome.put(Expired("no thread can be started"))
        return outcome

    def _work(self, work: Callable[[], T], outcome: SimpleQueue[T | Exception]) -> None:
        try:
            outcome.put(work())
        except Exception as error:  # noqa: BLE001 - handed to the one who waits, whatever it is
            outcome.put(error)
        finally:
            self._slots.release()
