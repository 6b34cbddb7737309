"""``chase exec``: a command as one job of the service."""

from chase.launch.launcher import job_name, run

__all__ = ["job_name", "run"]
