"""Electricity Maps further back than its ``history`` of 24 hours: ``past-range``, where the plan has it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from providers.base import AuthError, BadRequest, IntensityPoint, NoData, PlanError, ProviderError

if TYPE_CHECKING:
    from providers.session import Session

_LONGEST = timedelta(days=10)  # of one request, for steps of an hour and less
_FURTHEST = 4 * _LONGEST
_POLLED = timedelta(hours=72)
_KEPT_S = 6 * 3600.0
_LATER_S, _ANOTHER_DAY_S = 900.0, 86400.0
_log = logging.getLogger(__name__)


class Past:
    """``ask`` fetches one range, of at most ten days.

    Whether a plan has it is found out by who wants more than a poll does, not by every poll. Then it is asked again
    every six hours, since values are revised, and once a day where it was refused. Nothing here ever fails: these rows
    are a gain, and without them there is still ``history``.
    """

    def __init__(self, ask: Callable[[datetime, datetime], Sequence[IntensityPoint]], session: Session) -> None:
        self._ask, self._session = ask, session
        self._since: datetime | None = None  # where the rows kept begin; None while the plan is not known to have any
        self._points: list[IntensityPoint] = []
        self._old_at = self._barred_until = float("-inf")

    def points(self, start: datetime, until: datetime, now: datetime) -> Sequence[IntensityPoint]:
        """What there is of ``[start, until)``, ``until`` being where ``history`` begins; it may be more."""
        first = max(start, now - _FURTHEST)
        if first >= until or (self._since is None and now - first <= _POLLED):
            return ()
        at_s = self._session.monotonic()
        lacking = self._since is None or first < self._since or at_s >= self._old_at
        if lacking and at_s >= self._barred_until:
            self._refresh(first, now)
        return self._points

    def _refresh(self, first: datetime, now: datetime) -> None:
        """Up to now, so that no gap opens towards ``history`` while the rows are kept."""
        try:
            self._points = [point for start, end in _pieces(first, now) for point in self._range(start, end)]
        except ProviderError as error:
            lasting = isinstance(error, (PlanError, AuthError, BadRequest))
            self._barred_until = self._session.monotonic() + (_ANOTHER_DAY_S if lasting else _LATER_S)
            _log.debug("no past-range: %s: %s", type(error).__name__, error)
            return
        self._since, self._old_at = first, self._session.monotonic() + _KEPT_S

    def _range(self, start: datetime, end: datetime) -> Sequence[IntensityPoint]:
        try:
            return self._ask(start, end)
        except NoData:
            return ()


def _pieces(start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    count = -((start - end) // _LONGEST)
    return [(start + n * _LONGEST, min(start + (n + 1) * _LONGEST, end)) for n in range(count)]
