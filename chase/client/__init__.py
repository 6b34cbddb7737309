"""What a training process uses: ``from chase.client import Job``, and ``Recurring`` for one trained again and again."""

from chase.client.job import Job
from chase.client.recurring import Recurring

__all__ = ["Job", "Recurring"]
