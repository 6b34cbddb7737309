"""What a training process uses: ``from chase.client import Job``."""

from chase.client.job import Job

__all__ = ["Job"]
