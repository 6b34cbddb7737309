"""The background thread that stands between a training process and whoever it reports to.

It is the only place of the training side that waits for anything. Nothing it meets reaches the training: a fault is
logged when it begins and when it ends, and the next try comes later each time, with jitter.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import replace

from chase.client.messages import Answer
from chase.errors import ChaseError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from chase.client.summary import Summary
    from chase.clock import Clock

    class Link(Protocol):
        """Whom a job reports to. Both calls may raise ``ChaseError``, and neither blocks for more than some seconds."""

        patience_s: float
        """The longest wait between two tries."""

        def exchange(self) -> Answer:
            """Say how far the job is, hear what is wanted of it."""
            ...

        def end(self, reason: str) -> Summary | None: ...


logger = logging.getLogger("chase.client")


class Reporter:
    """Calls ``link.exchange`` until ``stop``, then ``link.end`` once. ``answer`` is the latest, never torn."""

    FIRST_BACKOFF_S = 0.5

    def __init__(self, link: Link, *, clock: Clock | None = None, chance: Callable[[], float] | None = None) -> None:
        self.answer = Answer()
        self._link = link
        self._clock = clock
        self._chance = chance or _chance
        self._closing = threading.Event()
        self._heard = threading.Condition()
        self._reason = ""
        self._summary: Summary | None = None
        self._failures = 0
        self._trouble: object = None
        self._thread = threading.Thread(target=self._run, name="chase-reporter", daemon=True)

    def start(self) -> None:
        """Raises ``RuntimeError`` when the process may have no more threads."""
        self._thread.start()

    @property
    def stopped(self) -> bool:
        return self._closing.is_set()

    def wait_for(self, known: Callable[[Answer], bool], timeout_s: float) -> bool:
        """Wait until an answer says what is asked for; False where nobody answers, or not in time."""
        with self._heard:
            self._heard.wait_for(lambda: known(self.answer) or self._failures > 0 or self.stopped, timeout_s)
        return known(self.answer)

    def stop(self, reason: str, timeout_s: float) -> Summary | None:
        """End the job and wait at most ``timeout_s`` for its summary; None when nobody gave one in time."""
        self._reason = reason
        self._closing.set()
        self._thread.join(timeout_s)
        self.answer = replace(self.answer, connected=False)
        return self._summary

    def _run(self) -> None:
        while not self._wait(self._exchange()):
            pass
        try:
            self._summary = self._link.end(self._reason)
        except Exception as error:  # noqa: BLE001 - the training has ended well whatever happens here
            logger.info("the job's end could not be told: %s", error)

    def _wait(self, seconds: float) -> bool:
        """Whether it is to close by then."""
        return self._closing.wait(seconds) if self._clock is None else self._clock.wait(self._closing, seconds)

    def _exchange(self) -> float:
        """One exchange; the seconds to wait until the next."""
        try:
            answer = self._link.exchange()
        except Exception as error:  # noqa: BLE001 - never raises into training; told once
            return self._lost(error)
        self._failures = 0
        if answer.connected and self._trouble is not None:
            self._trouble = None
            logger.info("the service answers again")
        if answer.advice.wish != self.answer.advice.wish:
            logger.info("%s", answer.advice)
        self._take(answer)
        return answer.next_s

    def _take(self, answer: Answer) -> None:
        with self._heard:
            self.answer = answer
            self._heard.notify_all()

    def _lost(self, error: Exception) -> float:
        self.answer = replace(self.answer, connected=False)
        trouble = (type(error), getattr(error, "code", ""))
        if trouble != self._trouble:
            self._trouble = trouble
            ours = None if isinstance(error, ChaseError) else error
            logger.warning("%s; the training goes on without it", error or type(error).__name__, exc_info=ours)
        with self._heard:
            self._failures += 1
            self._heard.notify_all()
        return self._backoff_s()

    def _backoff_s(self) -> float:
        """Doubles from ``FIRST_BACKOFF_S`` up to the link's patience, less up to half by chance."""
        longest = min(self._link.patience_s, self.FIRST_BACKOFF_S * 2.0 ** min(self._failures - 1, 30))
        return longest * (1.0 - self._chance() / 2.0)


def _chance() -> float:
    """Uniform in [0, 1). Not from ``random``, which loads OpenSSL into every training process."""
    return int.from_bytes(os.urandom(4)) / 2.0**32
