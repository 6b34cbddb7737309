"""When a source is due: once in each of its slots, and later after the failures that ask for it."""

from __future__ import annotations

from dataclasses import dataclass

from providers.base import AuthError, BadRequest, PlanError, ProviderError, RateLimited

_RETRY_PERSON_S = 3600.0  # a fault that only a person can mend is looked at again hourly
_SLACK_SHARE, _SLACK_S = 0.1, 30.0  # a timer of the same period that fires a little early still finds the source due


@dataclass(slots=True)
class Turn:
    """``due`` is a monotonic time in seconds."""

    poll_s: float
    due: float = 0.0

    def begin(self, began_s: float) -> None:
        """It is asked now. Its slots count from the start of each request, so that a slow answer costs no slot."""
        self.due = began_s + self.poll_s - min(_SLACK_SHARE * self.poll_s, _SLACK_S)

    def put_off(self, error: ProviderError, now_s: float) -> None:
        """Some failures ask for a longer wait than the next slot, and that is never cut short."""
        if isinstance(error, RateLimited):
            self.due = now_s + max(self.poll_s, error.retry_after_s or 0.0)
        elif isinstance(error, (AuthError, PlanError, BadRequest)):
            self.due = now_s + max(self.poll_s, _RETRY_PERSON_S)
