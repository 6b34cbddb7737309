"""A cell run: the world put together, its events in order, and the account at the end."""

from __future__ import annotations

from pathlib import Path

from chase.replay.cell import Cell, Result


def run_cell(cell: Cell, *, cache: Path | None = None, db: Path | None = None) -> Result:
    """Run one cell. ``cache`` is the folder of forecasts made before; ``db`` keeps the database, which must not exist.

    Raises ``ChaseError`` for a cell that cannot be run: it names what is wrong with it.
    """
    raise NotImplementedError(cell, cache, db)
