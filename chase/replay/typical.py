"""A region's typical profile as a trace: for somebody who has no history of the grid at hand.

It is the mean of each hour of a month, so it repeats one day for a month and no week is unlike another: what a job
could gain by timing on the real grid is more, and harder to get.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chase.config import RegionConfig
from chase.config.regions import TypicalProfile
from chase.errors import ConfigError

MARK = "-typical"
_HOUR = timedelta(hours=1)
_BEFORE = timedelta(days=28)  # the history that the first forecast is made of


def typical_trace(region: RegionConfig, folder: Path, *, first: int, last: int) -> Path:
    """A file of the years ``first`` to ``last`` in ``folder``, with four weeks before them and two months after.

    Raises ``ConfigError`` for a region that has no typical profile.
    """
    if region.typical is None:
        raise ConfigError(
            f"region {region.id} has no typical profile to replay; give a file of its history with --trace"
        )
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["start_utc", "g_per_kwh"])
    rows.writerows(_hours(region.typical, first, last))
    path = folder / f"{region.id}{MARK}_{first}-{last}.csv"
    _write(path, text.getvalue())
    return path


def _hours(typical: TypicalProfile, first: int, last: int) -> Iterator[tuple[str, float]]:
    at, end = datetime(first, 1, 1, tzinfo=UTC) - _BEFORE, datetime(last + 1, 3, 1, tzinfo=UTC)
    while at < end:
        yield at.isoformat(), typical.at(at.month, at.hour)
        at += _HOUR


def _write(path: Path, text: str) -> None:
    """Whole or not at all: somebody else's sweep may be reading it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
