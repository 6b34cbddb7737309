"""What an error means for an actuator. Its text is for people already: the room that raised it knows the fix."""

from __future__ import annotations

from zeus_core.actuation.base import ActuationError, Status
from zeus_core.gpus.base import Lost, NoPermission, NotSupported


class ForeignLimit(Exception):
    """Somebody else's limit is in force over ours: an answer, not a fault."""


class JournalError(ActuationError):
    """The originals cannot be written down, so nothing may be changed."""


_STATUSES: tuple[tuple[type[Exception], Status], ...] = (
    (ForeignLimit, Status.FOREIGN),
    (NoPermission, Status.NO_PERMISSION),
    (NotSupported, Status.NOT_SUPPORTED),
    (Lost, Status.LOST),
)


def status_of(error: Exception) -> Status:
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), Status.FAILED)
