"""How often one host may be asked, and how long it asked us to wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

LONGEST_HOLD_S = 6 * 3600.0


@dataclass(slots=True)
class _Host:
    rate: float
    burst: float
    tokens: float
    filled_at: float
    held_until: float = float("-inf")


class Pace:
    """A token bucket for each host or lane, and the hold-offs that hosts ask for. Safe to share between threads.

    A lane is what a source counts for itself, such as one dataset that may be asked once a minute.
    """

    def __init__(self, *, rate_per_s: float, burst: int, monotonic: Callable[[], float]) -> None:
        self._rate = rate_per_s
        self._burst = float(burst)
        self._monotonic = monotonic
        self._hosts: dict[str, _Host] = {}
        self._lock = threading.Lock()

    def reserve(self, host: str, patience_s: float, *, every_s: float | None = None) -> float:
        """Seconds to wait before asking ``host``; a turn is taken only if they are within ``patience_s``.

        ``every_s`` is for a lane: one request in so many seconds, and none saved up.
        """
        with self._lock:
            state = self._refilled(host, every_s)
            wait_s = _wait_s(state)
            if wait_s <= patience_s:
                state.tokens -= 1.0
            return wait_s

    def wait_s(self, host: str, *, every_s: float | None = None) -> float:
        """What ``reserve`` would say, with no turn taken."""
        with self._lock:
            return _wait_s(self._refilled(host, every_s))

    def hold(self, host: str, seconds: float) -> None:
        """Leave ``host`` alone for so long."""
        with self._lock:
            state = self._refilled(host)
            state.held_until = max(state.held_until, state.filled_at + min(seconds, LONGEST_HOLD_S))

    def _refilled(self, host: str, every_s: float | None = None) -> _Host:
        now = self._monotonic()
        rate, burst = (1.0 / every_s, 1.0) if every_s else (self._rate, self._burst)
        state = self._hosts.setdefault(host, _Host(rate, burst, burst, now))
        state.tokens = min(state.burst, state.tokens + (now - state.filled_at) * state.rate)
        state.filled_at = now
        return state


def _wait_s(state: _Host) -> float:
    return max(0.0, (1.0 - state.tokens) / state.rate, state.held_until - state.filled_at)


def retry_after_s(header: str | None, now: datetime) -> float | None:
    """``Retry-After`` in either of its forms, as seconds from ``now``; None where it is absent or makes no sense."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), LONGEST_HOLD_S)
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    if at.utcoffset() is None:
        return None
    return min(max(0.0, (at - now) / timedelta(seconds=1)), LONGEST_HOLD_S)
