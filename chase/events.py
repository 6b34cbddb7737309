"""Events: what happened, once in the log and once in the database. State changes only, never one line a tick."""

from __future__ import annotations

from typing import Any, Protocol

import structlog

from chase.clock import Clock
from chase.records import EventRecord

log = structlog.get_logger("chase")
_REMEMBERED = 64


class EventStore(Protocol):
    """Where events are kept."""

    def add_event(self, event: EventRecord) -> object: ...


class EventLog:
    """Writes events. With ``once`` the same code, GPU, job and text is written again only after ``forget``. One that is
    not ``aloud`` writes to the database alone.
    """

    def __init__(self, store: EventStore, clock: Clock, *, aloud: bool = True) -> None:
        self._store = store
        self._clock = clock
        self._aloud = aloud
        self._seen: dict[tuple[str, str | None, str | None], set[str]] = {}

    def __call__(
        self,
        code: str,
        severity: str,
        message: str,
        *,
        job_id: str | None = None,
        gpu: str | None = None,
        once: bool = False,
        **data: Any,
    ) -> None:
        if once and not self._is_new((code, job_id, gpu), message):
            return
        if self._aloud:
            about = {k: v for k, v in (("job", job_id), ("gpu", gpu)) if v}
            getattr(log, severity)(message, code=code, **about, **data)
        self._store.add_event(
            EventRecord(
                at=self._clock.now(), code=code, severity=severity, message=message, job_id=job_id, gpu=gpu, data=data
            )
        )

    def _is_new(self, key: tuple[str, str | None, str | None], message: str) -> bool:
        seen = self._seen.setdefault(key, set())
        if message in seen:
            return False
        if len(seen) >= _REMEMBERED:
            seen.clear()
        seen.add(message)
        return True

    def forget(self, code: str, *, job_id: str | None = None, gpu: str | None = None) -> bool:
        """The condition has passed; True if it had been written."""
        return self._seen.pop((code, job_id, gpu), None) is not None
