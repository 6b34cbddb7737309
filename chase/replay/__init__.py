"""History run again: the controller of production on a clock and GPUs that are not there, and what it saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chase.replay.cell import Cell, Result

if TYPE_CHECKING:
    from chase.replay.run import run_cell

__all__ = ["Cell", "Result", "run_cell"]


def __getattr__(name: str) -> Any:
    """A second of imports that neither a cell nor a worker's start need wait for."""
    if name == "run_cell":
        from chase.replay.run import run_cell

        return run_cell
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
