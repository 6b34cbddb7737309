"""Pictures of a replay: one run hour by hour, and what the runs of a sweep saved. Drawn by matplotlib, an extra."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from chase.errors import ConfigError
from chase.records import IntervalRecord
from chase.replay.cell import CLOSED, Cell, Result
from chase.replay.inputs import Inputs
from chase.replay.reference import Cost, Reference
from chase.replay.run import run_cell
from chase.replay.summary import BY_GRID, label, means
from chase.store import Reader

_DPI = 120
_DAY_S = 86400.0
_PARTS = ("efficiency", "timing", "optimum_saved", "saved")
_POINTS = 400  # of a line that is known everywhere


def need_matplotlib() -> None:
    """Raises ``ConfigError`` where it is not installed."""
    try:
        import_module("matplotlib")
    except ImportError as error:
        raise ConfigError(
            "pictures need matplotlib, which is not installed: pip install 'carbon-chase[plots]'"
        ) from error


def draw_run(result: Result, folder: Path, cache: Path | None) -> Path | None:
    """Intensity and power over time, and the grams beside full power's and the best fixed setting's.

    The run is run again for it, and its database stays in ``folder`` beside the picture. None for a policy that has a
    closed form: it has no course.
    """
    if result.cell.policy in CLOSED:
        return None
    path = folder / f"run-{_slug(result.cell)}.png"
    database = path.with_suffix(".sqlite")
    for old in (database, *folder.glob(f"{database.name}-*")):
        old.unlink(missing_ok=True)
    run_cell(result.cell, cache=cache, db=database)
    with closing(sqlite3.connect(database)) as db:
        db.execute("PRAGMA journal_mode = DELETE")  # nobody writes it any more: one file, and none beside it
    with Reader(database) as log:
        rows = log.intervals()
    figure = _figure(9, 6)
    above, below = figure.subplots(2, 1, sharex=True)
    _draw_power(above, result, rows)
    _draw_grams(below, result, rows)
    figure.savefig(path, dpi=_DPI)
    return path


def _draw_power(axes: Any, result: Result, rows: Sequence[IntervalRecord]) -> None:
    inputs = Inputs.of(result.cell)
    seconds, values = inputs.trace.pieces(result.cell.start, result.seconds)
    axes.stairs(values, np.concatenate([[0.0], np.cumsum(seconds)]) / _DAY_S, color="0.6", baseline=None)
    axes.set_ylabel("gCO2eq/kWh")
    axes.set_title(f"{inputs.trace.name}, {inputs.profile.name}: {result.cell.policy}")
    power = axes.twinx()
    edges = [_days(result.cell, row.start) for row in rows] + [_days(result.cell, rows[-1].end)]
    power.stairs([_joules(row) / (row.end - row.start).total_seconds() for row in rows], edges, baseline=None)
    power.set_ylim(bottom=0)
    power.set_ylabel("W drawn", color="C0")


def _draw_grams(axes: Any, result: Result, rows: Sequence[IntervalRecord]) -> None:
    reference = Inputs.of(result.cell).reference
    fixed = reference.fixed(result.seconds)
    for name, cost, style in (("full power", reference.full(), "--"), ("best fixed setting, equal time", fixed, ":")):
        at = np.linspace(0.0, cost.seconds, _POINTS)
        axes.plot(at / _DAY_S, [_emitted(reference, cost, s) / 1e3 for s in at], style, color="0.4", label=name)
    ends = [0.0, *(_days(result.cell, row.end) for row in rows)]
    emitted = np.cumsum([0.0, *(row.grams or 0.0 for row in rows)])
    axes.plot(ends, emitted / 1e3, label=f"this run: {result.saved:.1%} saved")
    axes.set_xlabel(f"days since {result.cell.start:%Y-%m-%d %H:%M} UTC")
    axes.set_ylabel("kg CO2eq")
    axes.legend()


def draw_shares(results: Sequence[Result], path: Path) -> Path:
    """For each grid and policy what was saved, in its two parts, and what could have been; means over all else."""
    rows = means(results, BY_GRID)
    place = np.arange(len(rows))[::-1]
    efficiency, timing, best, saved = (np.array([100 * row[part] for row in rows]) for part in _PARTS)
    figure = _figure(9, 1.5 + 0.3 * len(rows))
    axes = figure.subplots()
    axes.barh(place, efficiency, label="efficiency: the best fixed setting, equal time")
    axes.barh(place, timing, left=efficiency, height=0.5, label="timing: the rest")
    axes.plot(saved, place, "wo", markeredgecolor="k", markersize=4, label="saved: both")
    axes.plot(best, place, "k|", markersize=12, label="who knew what would come")
    axes.set_yticks(place, [f"{row['grid']}: {label(row)}" for row in rows])
    axes.set_xlabel("saved, % of full power's CO2eq")
    axes.axvline(0.0, color="0.4", linewidth=0.8)
    figure.legend(loc="outside lower center", ncols=4, fontsize="small")
    figure.savefig(path, dpi=_DPI)
    return path


def _figure(width: float, height: float) -> Any:
    """Of its own: the picture needs no screen, and nothing of the process's other figures."""
    return import_module("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")


def _emitted(reference: Reference, cost: Cost, seconds: float) -> float:
    """After so many seconds at one power, g."""
    return reference.grams(cost.energy_j / cost.seconds, seconds)


def _joules(row: IntervalRecord) -> float:
    return row.energy_j + row.host_energy_j


def _days(cell: Cell, at: datetime) -> float:
    return (at - cell.start).total_seconds() / _DAY_S


def _slug(cell: Cell) -> str:
    """A file's name that tells runs apart, and a person which it is."""
    said = f"{Path(cell.trace).name.partition('.')[0]}-{cell.policy}-{cell.forecast}-{cell.start:%Y%m%dT%H%M}"
    return f"{re.sub(r'[^A-Za-z0-9_-]+', '-', said)}-{cell.key[:8]}"
