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
    tokens: float
    filled_at: float
    held_until: float = float("-inf")


class Pace:
    """A token bucket for each host, and the hold-offs that hosts ask for. Safe to share between threads."""

    def __init__(self, *, rate_per_s: float, burst: int, monotonic: Callable[[], float]) -> None:
        self._rate = rate_per_s
        self._burst = float(burst)
        self._monotonic = monotonic
        self._hosts: dict[str, _Host] = {}
        self._lock = threading.Lock()

    def reserve(self, host: str, patience_s: float) -> float:
        """Seconds to wait before asking ``host``; a turn is taken only if they are within ``patience_s``."""
        with self._lock:
            state = self._refilled(host)
            wait_s = max(0.0, (1.0 - state.tokens) / self._rate, state.held_until - state.filled_at)
            if wait_s <= patience_s:
                state.tokens -= 1.0
            return wait_s

    def hold(self, host: str, seconds: float) -> None:
        """Leave ``host`` alone for so long."""
        with self._lock:
            state = self._refilled(host)
            state.held_until = max(state.held_until, state.filled_at + min(seconds, LONGEST_HOLD_S))

    def _refilled(self, host: str) -> _Host:
        now = self._monotonic()
        state = self._hosts.setdefault(host, _Host(self._burst, now))
        state.tokens = min(self._burst, state.tokens + (now - state.filled_at) * self._rate)
        state.filled_at = now
        return state


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
