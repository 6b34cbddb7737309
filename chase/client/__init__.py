"""What a training process uses: ``from chase.client import Job``, and ``Recurring`` for one trained again and again."""

from __future__ import annotations

from chase.client.job import Job

TYPE_CHECKING = False  # typing itself is a tenth of what this package costs a training process
if TYPE_CHECKING:
    from typing import Any

    from chase.client.recurring import Recurring

__all__ = ["Job", "Recurring"]


def __getattr__(name: str) -> Any:
    """``Recurring`` is of use to few, and not paid for by the others."""
    if name == "Recurring":
        from chase.client.recurring import Recurring

        return Recurring
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
