"""History run again: the controller of production on a clock and GPUs that are not there, and what it saved."""

from __future__ import annotations

from chase.replay.cell import Cell, Result
from chase.replay.run import run_cell

__all__ = ["Cell", "Result", "run_cell"]
