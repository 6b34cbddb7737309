"""A grid's past as one array: each step's intensity, without a gap, checked once so that nobody need ask again.

Read are CSV, JSON and JSON lines, also gzipped, with the columns that the provider ``file`` knows: the start of each
interval in UTC and its value.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chase.errors import ChaseError
from providers.base import ProviderError, Scope, Signal
from providers.columns import Columns, Entry
from providers.table import FORMATS, Row, parse

Floats = NDArray[np.float64]

_SUFFIXES = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_LONGEST_S = 86400.0
_HOUR_S = 3600.0


@dataclass(frozen=True, eq=False)
class Trace:
    """Step i is ``[start + i step_s, start + (i + 1) step_s)``, at ``values[i]`` gCO2eq/kWh, (n,), none negative."""

    name: str
    start: datetime
    step_s: float
    values: Floats
    signal: Signal = Signal.AVERAGE
    scope: Scope = Scope.UNSPECIFIED

    def __len__(self) -> int:
        return len(self.values)

    @property
    def end(self) -> datetime:
        return self.start + timedelta(seconds=len(self) * self.step_s)

    @cached_property
    def start_s(self) -> float:
        """Since the epoch."""
        return self.start.timestamp()

    @cached_property
    def starts(self) -> tuple[datetime, ...]:
        """Of each step, and of the one after the last."""
        return tuple(self.start + timedelta(seconds=i * self.step_s) for i in range(len(self) + 1))

    @cached_property
    def cv(self) -> float:
        """Coefficient of variation of the hourly means (of the steps, where they are longer), of the whole trace."""
        per_hour = max(1, round(_HOUR_S / self.step_s))
        hours = self.values[: len(self) // per_hour * per_hour].reshape(-1, per_hour).mean(axis=1)
        mean = float(hours.mean()) if len(hours) else 0.0
        return float(hours.std()) / mean if mean > 0 else 0.0

    @cached_property
    def digest(self) -> str:
        """Of all that a forecast depends on."""
        what = f"{self.start.isoformat()} {self.step_s!r} {self.signal} {self.scope} ".encode()
        return hashlib.sha256(what + np.ascontiguousarray(self.values, np.float64).tobytes()).hexdigest()

    def shuffled(self, seed: int) -> Trace:
        """The same values in an order that has nothing to do with the true one: for a placebo."""
        order = np.random.default_rng(seed).permutation(len(self))
        return replace(self, name=f"{self.name} shuffled by {seed}", values=self.values[order])

    def step_of(self, at: datetime) -> int:
        """The step in which a time lies; below 0 or past the last outside of the trace."""
        return int((at - self.start).total_seconds() // self.step_s)

    def area(self, seconds: float | Floats) -> Floats:
        """Integral of the intensity over the first ``seconds`` of the trace, g/kWh s; none of it lies outside."""
        step = np.asarray(seconds, np.float64) / self.step_s
        whole = np.clip(np.floor(step).astype(np.int64), 0, len(self) - 1)
        found: Floats = (self._areas[whole] + (step - whole) * self.values[whole]) * self.step_s
        return found

    def mean(self, start: datetime, seconds: float) -> float:
        """Of ``[start, start + seconds)``, weighted by time, g/kWh."""
        first_s = (start - self.start).total_seconds()
        return float(self.area(first_s + seconds) - self.area(first_s)) / seconds

    def pieces(self, start: datetime, seconds: float) -> tuple[Floats, Floats]:
        """Seconds and g/kWh of each stretch of ``[start, start + seconds)`` that lies within one step."""
        first_s = (start - self.start).total_seconds()
        first, last = int(first_s // self.step_s), -int(-(first_s + seconds) // self.step_s)
        edges = np.clip(np.arange(first, last + 1) * self.step_s, first_s, first_s + seconds)
        return np.diff(edges), self.values[first:last]

    @cached_property
    def _areas(self) -> Floats:
        return np.concatenate([[0.0], np.cumsum(self.values)])


def load_trace(path: Path, *, column: str = "", signal: Signal = Signal.AVERAGE) -> Trace:
    """Read and check a file, once while it stays as it is. ``column`` names the value's where there are several, or
    says which scope is meant.

    Raises ``ChaseError`` naming the file, the line, the value and what to do.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise ChaseError(f"{path}: cannot be read: {error.strerror}; check the path") from error
    return _loaded(path, column.lower(), signal, (found.st_mtime_ns, found.st_size))


@lru_cache(maxsize=32)
def _loaded(path: Path, column: str, signal: Signal, _: tuple[int, int]) -> Trace:
    try:
        rows = parse(_content(path), _format(path), str(path))
        return _trace(path, rows, column, signal)
    except ProviderError as error:
        raise ChaseError(f"{error}; mend the file, or give another") from error


def _format(path: Path) -> str:
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    form = _SUFFIXES.get(suffix.lower())
    if form is None:
        raise ChaseError(
            f"{path}: {suffix!r} does not say what it holds; name it .{', .'.join(FORMATS)}, or .gz of one"
        )
    return form


def _content(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
        content = gzip.decompress(raw) if path.suffix == ".gz" else raw
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ChaseError(f"{path}: is no gzip file or is cut ({error}); fetch it again") from error
    except OSError as error:
        raise ChaseError(f"{path}: cannot be read: {error.strerror}; check the path") from error
    return content if content.endswith(b"\n") else content + b"\n"  # nobody is writing it any more


def _trace(path: Path, rows: Sequence[Row], column: str, signal: Signal) -> Trace:
    scope = column if column in set(Scope) else ""
    value = "" if scope else column
    columns = Columns.of(_with_start(rows, value), str(path), value=value, scope=scope)
    entries = list(zip(rows, columns.entries(_with_start(rows, value), 0.0), strict=True))
    entries.sort(key=lambda pair: pair[1].start)
    step_s = _check(path, entries)
    values = np.array([entry.g_per_kwh for _, entry in entries], np.float64)
    found = Scope(scope) if scope else columns.scope or Scope.UNSPECIFIED
    return Trace(_name(path), entries[0][1].start, step_s, values, signal, found)


def _with_start(rows: Sequence[Row], value: str) -> Sequence[Row]:
    """Of a table of two columns, whose value has been named, the other is the time: in UTC, where it does not say."""
    names = list(rows[0].fields) if rows else []
    other = next((name for name in names if name != value), "")
    if not value or value not in names or len(names) != 2 or "start" in other:  # noqa: PLR2004
        return rows
    return [Row(row.place, {"start_utc": row.fields[other], value: row.fields[value]}) for row in rows]


def _check(path: Path, entries: Sequence[tuple[Row, Entry]]) -> float:
    """The length of a step. Raises ``ChaseError`` for a gap, an overlap, a missing value, or less than two steps."""
    if len(entries) < 2:  # noqa: PLR2004
        raise ChaseError(f"{path}: holds {len(entries)} interval(s); a replay needs at least two")
    blank = next((row for row, entry in entries if entry.g_per_kwh is None), None)
    if blank is not None:
        raise ChaseError(f"{blank.place}: the value is missing; fill it in, or cut the file there")
    step = entries[1][1].start - entries[0][1].start
    for (_, before), (row, after) in pairwise(entries):
        if after.start - before.start != step:
            raise ChaseError(
                f"{row.place}: {_minute(after.start)} follows {_minute(before.start)}, where the steps are of"
                f" {step.total_seconds():g} s; each step is there once: fill the gap, or cut the file there"
            )
    if not 0 < step.total_seconds() <= _LONGEST_S:
        raise ChaseError(f"{path}: steps of {step.total_seconds():g} s tell nothing of a day; a day is the longest")
    return step.total_seconds()


def _name(path: Path) -> str:
    """What stands before the year, as in ``DE_2023_hourly.csv.gz``."""
    stem = path.name.partition(".")[0]
    for part in stem.split("_"):
        if part[:4].isdigit() and part[:2] in {"19", "20"}:
            return stem.partition(f"_{part}")[0] or stem
    return stem


def _minute(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%MZ}"
