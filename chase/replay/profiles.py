"""The curve of a job's GPUs, by name: a shipped profile, a profile file, or a row of a published sweep.

``FILE.csv:key=value,...`` is a sweep: one row for each power limit, with ``power_limit`` in W, ``time_per_epoch`` in s
and ``average_power`` in W, as in the Zeus artifact's ``summary_power_GPU.csv``; the keys are columns that tell its runs
apart.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from chase.config import profile_path
from chase.errors import ChaseError
from zeus_core.gpus.profiles import GpuProfile, ProfileError, ProfilePoint, load_profile

_LIMIT, _SECONDS, _WATTS = "power_limit", "time_per_epoch", "average_power"
_IDLE_SHARE = 0.5  # of the least draw that was measured, where nobody has measured the card without work
_FEW = 8

Numbered = tuple[int, Mapping[str, str]]  # a line's number, and its row


@lru_cache(maxsize=64)
def profile_of(name: str) -> GpuProfile:
    """Raises ``ChaseError`` for what is no profile, saying what there is."""
    path, _, row = name.partition(".csv:")
    if name.endswith((".csv", ".csv:")):
        raise ChaseError(f"profile {name!r}: a sweep has many runs; write FILE.csv:network=resnet50,batch_size=128")
    try:
        profile = profile_from_sweep(Path(f"{path}.csv"), _row_of(name, row)) if row else _shipped(name)
    except ProfileError as error:
        raise ChaseError(str(error)) from error
    return monotone(profile)


def profile_from_sweep(path: Path, wanted: Mapping[str, str], *, idle_w: float | None = None) -> GpuProfile:
    """The sweep whose columns are as ``wanted``: a unit is an epoch, and the highest limit is the reference.

    ``idle_w`` is what the card draws without work; half of the least draw measured unless given. Raises
    ``ProfileError`` naming the file, the line and the value.
    """
    every = _rows(path)
    rows = [(line, row) for line, row in every if all(row.get(key) == value for key, value in wanted.items())]
    if not rows:
        raise ProfileError(f"{path}: no row has {_said(wanted)}; {_there_is(every, wanted)}")
    points = sorted((_point(path, *numbered) for numbered in rows), key=lambda point: point.power_limit_w)
    limits = [point.power_limit_w for point in points]
    if len(set(limits)) < len(limits):
        raise ProfileError(f"{path}: {_said(wanted)} fits several runs; name more of {_choices(rows, _names(rows))}")
    return GpuProfile(
        name=f"{path.stem}:{_said(wanted)}",
        gpu=path.stem.rpartition("_")[2].upper(),
        workload=_said(wanted),
        unit="epoch",
        source=path.name,
        licence="see its source",
        min_w=limits[0],
        max_w=limits[-1],
        default_w=limits[-1],
        idle_w=_IDLE_SHARE * min(*limits, *(point.watts for point in points)) if idle_w is None else idle_w,
        points=tuple(points),
    )


def monotone(profile: GpuProfile) -> GpuProfile:
    """With the points that a simulated card of it has, which never gets slower by a higher limit: noise does that."""
    return replace(
        profile,
        points=tuple(
            ProfilePoint(limit_w, 1 / profile.rate_at(limit_w), profile.watts_at(limit_w))
            for limit_w in (point.power_limit_w for point in profile.points)
        ),
    )


def _shipped(name: str) -> GpuProfile:
    return load_profile(profile_path(name))


def _row_of(name: str, row: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in row.split(",")]
    wrong = next((key for key, equals, _ in pairs if not equals or not key.strip()), None)
    if wrong is not None:
        raise ChaseError(
            f"profile {name!r}: {wrong!r} is no COLUMN=VALUE; write FILE.csv:network=resnet50,batch_size=128"
        )
    return {key.strip(): value.strip() for key, _, value in pairs}


def _rows(path: Path) -> Sequence[Numbered]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [(number, row) for number, row in enumerate(csv.DictReader(file), start=2)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ProfileError(f"{path}: cannot be read as a sweep: {error}; give the path of a CSV file") from error


def _point(path: Path, line: int, row: Mapping[str, str]) -> ProfilePoint:
    limit_w, seconds, watts = (_number(path, line, row, column) for column in (_LIMIT, _SECONDS, _WATTS))
    return ProfilePoint(limit_w, seconds, watts)


def _number(path: Path, line: int, row: Mapping[str, str], column: str) -> float:
    if column not in row:
        raise ProfileError(f"{path}: has no column {column}; a sweep has {_LIMIT}, {_SECONDS} and {_WATTS}")
    try:
        value = float(row[column])
    except (TypeError, ValueError):
        value = 0.0
    if not 0 < value < float("inf"):
        raise ProfileError(f"{path} line {line}: {column} is {row[column]!r}, not a positive number; mend the line")
    return value


def _said(wanted: Mapping[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in wanted.items())


def _there_is(rows: Sequence[Numbered], wanted: Mapping[str, str]) -> str:
    unknown = [key for key in wanted if key not in _names(rows)]
    return f"its columns are {', '.join(_names(rows))}" if unknown else f"there is {_choices(rows, list(wanted))}"


def _names(rows: Sequence[Numbered]) -> list[str]:
    """The columns that tell runs apart."""
    return [name for name in (rows[0][1] if rows else ()) if name not in {_LIMIT, _SECONDS, _WATTS}]


def _choices(rows: Sequence[Numbered], names: Sequence[str]) -> str:
    found = {name: sorted({row[name] for _, row in rows}) for name in names}
    return "; ".join(f"{name}: {', '.join(values[:_FEW])}" for name, values in found.items() if len(values) > 1)
