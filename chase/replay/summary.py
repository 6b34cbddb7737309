"""Results of a sweep as rows: one for each run, and means over several."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from chase.replay.cell import Cell, Result
from chase.replay.trace import load_trace
from chase.replay.typical import MARK

Row = dict[str, Any]

_NOTHING = 1e-4  # a hundredth of a point: no share is said of less
_MEANS = ("saved", "efficiency", "timing", "optimum_saved", "optimum_timing", "slowdown", "switches_per_day")
BY_GRID = ("grid", "policy", "forecast", "settings", "shuffle")
_FIGURES = (
    *("saved", "efficiency", "timing", "moved", "optimum_saved", "optimum_timing", "of_optimum", "of_optimum_timing"),
    *("slowdown", "exceeded_s", "grams", "full_grams", "fixed_grams", "optimum_grams", "energy_j", "full_j"),
    *("seconds", "full_s", "allowed_s", "units", "switches", "peak_w", "decisions", "ticks", "wall_s"),
)


def row_of(result: Result) -> Row:
    """All that is known of a run, flat: the same keys for every run."""
    return {**_asked(result.cell), "start": result.cell.start, **{name: getattr(result, name) for name in _FIGURES}}


def means(results: Iterable[Result], by: Collection[str] = ()) -> list[Row]:
    """Over the runs that are alike in all that was asked for, or in ``by`` alone, in the order of the first of each.

    Shares of the optimum are of sums: no run is divided by nearly nothing. ``exceeded_s`` is the worst.
    """
    groups: dict[str, tuple[Row, list[Result]]] = {}
    for result in results:
        asked = {key: value for key, value in _asked(result.cell).items() if not by or key in by}
        groups.setdefault(repr(asked), (asked, []))[1].append(result)
    return [{**asked, **_mean(group)} for asked, group in groups.values()]


def label(row: Mapping[str, Any]) -> str:
    """A policy with what sets it apart from others of its name."""
    said = [row["policy"]]
    if row["forecast"] is not None:
        said.append(f"{row['forecast']} forecast")
    said += [f"{key} {value}" for key, value in row["settings"].items()]
    if row["shuffle"] is not None:
        said.append("shuffled signal")
    return ", ".join(said)


def _mean(group: Sequence[Result]) -> Row:
    return {
        "runs": len(group),
        **{name: fmean(getattr(result, name) for result in group) for name in _MEANS},
        "of_optimum": _share(group, "saved", "optimum_saved"),
        "of_optimum_timing": _share(group, "timing", "optimum_timing"),
        "exceeded_s": max(result.exceeded_s for result in group),
    }


def _share(group: Sequence[Result], part: str, whole: str) -> float | None:
    total = sum(getattr(result, whole) for result in group)
    return sum(getattr(result, part) for result in group) / total if total > _NOTHING * len(group) else None


def _asked(cell: Cell) -> Row:
    """What a run was asked for, but its start."""
    name = load_trace(Path(cell.trace), column=cell.column).name
    settings = dict(cell.settings)
    return {
        "grid": name,
        "typical": name.endswith(MARK),
        "profile": cell.profile,
        "policy": cell.policy,
        "forecast": cell.forecast if cell.policy == "budget" else None,
        "max_slowdown": settings.pop("max_slowdown", None),
        "settings": settings,
        "days": cell.days,
        "shuffle": cell.shuffle,
        "delay_s": cell.delay_s,
        "gpus": cell.gpus,
        "pue": cell.pue,
    }
