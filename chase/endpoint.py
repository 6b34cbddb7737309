"""One of the things that a source is asked: when it is due, how it fares, and what has been said of that."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from chase.clock import minute
from providers.base import AuthError, BadRequest, PlanError, ProviderError, RateLimited

_RETRY_PERSON_S = 3600.0  # a fault that only a person can mend is looked at again hourly
_SLACK_SHARE, _SLACK_S = 0.1, 30.0  # a timer of the same period that fires a little early still finds the source due
_SPREAD_SHARE, _SPREAD_S = 0.1, 300.0  # how far the nodes of a fleet are spread after the full minute
_TOLD = 8  # different texts in one outage; more are no news
_VARIES = re.compile(r"\w*\d[\w.:+-]*")  # numbers, times, ids of requests


def spread_s(poll_s: float, *who: str) -> float:
    """Seconds after each slot that ``who`` asks: always the same, and different for each."""
    digest = hashlib.sha256("\0".join(who).encode()).digest()
    return int.from_bytes(digest[:4]) / 2**32 * min(_SPREAD_SHARE * poll_s, _SPREAD_S)


@dataclass(slots=True, eq=False)
class Endpoint:
    """``problem`` is empty while it answers. ``due`` is on the monotonic clock, the other times are wall time.

    Its slots are the multiples of ``poll_s`` on the wall clock, moved by ``offset_s``: what a source publishes at the
    full quarter of an hour is then read soon after, and not by all nodes of a fleet in the same second.
    """

    poll_s: float
    offset_s: float = 0.0
    due: float = 0.0
    problem: str = ""
    down_since: datetime | None = None
    last_good: datetime | None = None
    _told: set[str] = field(default_factory=set)

    @classmethod
    def spread(cls, poll_s: float, node: str, *who: str) -> Self:
        """One for ``who`` on ``node``; with no node at the full slot."""
        return cls(poll_s, spread_s(poll_s, node, *who) if node else 0.0)

    def next_slot_s(self, at: datetime) -> float:
        return self.poll_s - (at.timestamp() - self.offset_s) % self.poll_s

    def begin(self, began_s: float, at: datetime) -> None:
        """It is asked now, in the slot that runs or that begins within the slack. A slow answer costs no slot."""
        wait_s, slack_s = self.next_slot_s(at), min(_SLACK_SHARE * self.poll_s, _SLACK_S)
        self.due = began_s + (wait_s if wait_s > slack_s else wait_s + self.poll_s) - slack_s

    def answered(self, at: datetime) -> datetime | None:
        """Since when it had been down, None if it was not."""
        since, self.down_since, self.last_good, self.problem = self.down_since, None, at, ""
        self._told.clear()
        return since

    def failed(self, error: ProviderError, now_s: float, at: datetime) -> bool:
        """True if that is news: a text that differs in more than numbers, times and the like from those before."""
        self.put_off(error, now_s)
        self.problem = f"{type(error).__name__}: {error}"
        self.down_since = self.down_since or at
        gist = _VARIES.sub("#", self.problem)
        is_news = gist not in self._told and len(self._told) < _TOLD
        self._told.add(gist)
        return is_news

    def put_off(self, error: ProviderError, now_s: float) -> None:
        """Some failures ask for a longer wait than the next slot, and that is never cut short."""
        if isinstance(error, RateLimited):
            self.due = max(self.due, now_s + max(self.poll_s, error.retry_after_s or 0.0))
        elif isinstance(error, AuthError | PlanError | BadRequest):
            self.due = max(self.due, now_s + max(self.poll_s, _RETRY_PERSON_S))

    @property
    def outage(self) -> str:
        """What is wrong and since when, for people; empty while it answers."""
        if self.down_since is None:
            return ""
        good = f"last good {minute(self.last_good)}" if self.last_good else "no answer so far"
        return f"down since {minute(self.down_since)}, {good}: {self.problem}"


def soonest_slot_s(endpoints: Iterable[Endpoint], at: datetime, otherwise_s: float) -> float:
    """Seconds until the next slot of that which is asked most often: a timer from then on meets the slots of all."""
    often = min(endpoints, key=lambda endpoint: endpoint.poll_s, default=None)
    return otherwise_s if often is None else often.next_slot_s(at)
