"""Many cells on an engine, and their results in one file: what is asked for again is not run again.

A cell is known by what it says, what is in the files that it names, and the code that runs it; where those files lie
and what they are called makes no difference. A worker whose files or code are others says so in place of a result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from chase.errors import ChaseError
from chase.policy.budget import DEFAULT_SLOWDOWN
from chase.replay.cell import CLOSED, Cell, Result
from chase.replay.engine import Engine
from chase.replay.farm import CHUNK_S, Farm, Outcome, Task
from chase.replay.feed import publication
from chase.replay.forecasts import Table, table_of
from chase.replay.profiles import profile_of
from chase.replay.results import Failure, Results
from chase.replay.run import run_cell
from chase.replay.trace import Trace, load_trace
from providers.base import Signal

_PACKAGES = ("chase", "zeus_core", "providers")
_DAY_S = 86400.0
# What no cell ever runs.
_NOT_RUN = (
    *(f"chase/{name}/" for name in ("cli", "client", "demo", "launch", "share")),
    *(f"chase/replay/{name}.py" for name in ("engine", "farm", "plots", "results", "summary", "sweep", "typical")),
)
_NAMES = ("trace", "column", "profile")  # what is in them counts


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy of a comparison: its settings, and what it is told of the days ahead."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    forecast: str = "own"
    shuffle: int | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """A trace's file and the column of it that is meant."""

    trace: str
    column: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker is sent."""

    cell: Cell
    stamp: str
    cache: Path | None = None

    @property
    def key(self) -> str:
        said = {name: value for name, value in self.cell.to_dict().items() if name not in _NAMES}
        return hashlib.sha256(f"{json.dumps(said, sort_keys=True)} {self.stamp}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Progress:
    """``done`` of ``total`` cells, ``known`` of which were in the file already, and how many of them ``failed``.

    Before the cells come the ``forecasts`` that they share, as far as nobody has made them.
    """

    done: int
    total: int
    known: int = 0
    failed: int = 0
    forecasts: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """In the order of the cells that were asked for."""

    results: Sequence[Result]
    failures: Sequence[Failure]
    known: int


def cells(
    grids: Iterable[Grid],
    profiles: Sequence[str],
    policies: Sequence[Policy],
    *,
    days: Sequence[float],
    starts: Callable[[Grid, float], Sequence[datetime]],
    budgets: Sequence[float | None] = (None,),
    **common: Any,
) -> Iterator[Cell]:
    """Every combination, those of one grid one after another. ``starts`` is asked for each grid and length.

    A budget is the ``max_slowdown`` of the policies whose settings name none; ``common`` goes into every cell.
    """
    for grid in grids:
        when = {length: starts(grid, length) for length in days}
        for profile, policy, length, budget in product(profiles, policies, days, budgets):
            for start in when[length]:
                yield Cell(
                    trace=grid.trace,
                    column=grid.column,
                    profile=profile,
                    start=start,
                    days=length,
                    policy=policy.name,
                    settings={**({} if budget is None else {"max_slowdown": budget}), **policy.settings},
                    forecast=policy.forecast,
                    shuffle=policy.shuffle,
                    **common,
                )


def spread(first: datetime, last: datetime, count: int) -> list[datetime]:
    """``count`` whole hours from ``first`` to ``last``, evenly: they are not all at one time of the day."""
    gaps = max(1, count - 1)
    return [first + timedelta(hours=(last - first) * i / gaps // timedelta(hours=1)) for i in range(count)]


def run_sweep(
    asked: Iterable[Cell],
    engine: Engine,
    results: Results,
    *,
    cache_dir: Path | None = None,
    chunk_s: float = CHUNK_S,
    watch: Callable[[Progress], None] = lambda _: None,
) -> Report:
    """Run what ``results`` does not have. What is done is kept, however this ends.

    Without ``cache_dir``, a folder that all workers reach, each worker makes its own forecasts.
    """
    wanted = [Work(cell, stamp(cell), cache_dir) for cell in asked]
    works = {work.key: work for work in wanted}
    known = results.known(works)
    tasks = [Task(key, _group(work.cell), work) for key, work in works.items() if key not in known]
    if cache_dir is not None:
        _make_forecasts([task.item.cell for task in tasks], engine, cache_dir, watch)
    progress = Progress(len(known), len(works), len(known))
    watch(progress)
    for some in Farm(engine, run_work, tasks, chunk_s=chunk_s).run():
        _keep(results, some)
        failed = progress.failed + sum(one.value is None for one in some)
        progress = replace(progress, done=progress.done + len(some), failed=failed)
        watch(progress)
    return _report(wanted, results, len(known))


def run_work(work: Work) -> Result:
    """In the worker. Raises ``ChaseError`` where it would not be the cell that was asked for."""
    if stamp(work.cell) != work.stamp:
        raise ChaseError(
            f"the worker's {work.cell.trace}, its {work.cell.profile} or its code is not what the sweep began with: "
            "give all workers the same files and version, and start the sweep again"
        )
    return run_cell(work.cell, cache=work.cache)


def stamp(cell: Cell) -> str:
    """What is in the files that a cell names, and the code. Raises ``ChaseError`` for a file that cannot be used."""
    return f"{_trace(cell).digest} {_profile_digest(cell.profile)} {CODE}"


@lru_cache(maxsize=64)
def _profile_digest(name: str) -> str:
    return hashlib.sha256(repr(profile_of(name)).encode()).hexdigest()


def code_version() -> str:
    """Of all source that a cell may run: a change of it, however small, makes other results."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        root = Path(str(files(package)))
        for path in sorted(root.rglob("*.py")):
            name = f"{package}/{path.relative_to(root).as_posix()}"
            if not name.startswith(_NOT_RUN):
                digest.update(f"{name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()


CODE = code_version()  # when it was loaded: what is written to the files later is not what runs


def _group(cell: Cell) -> str:
    """Those that read one table of forecasts."""
    if cell.policy in CLOSED:
        return f"{cell.trace} {cell.column}"
    return f"{cell.trace} {cell.column} {cell.forecast} {cell.delay_s} {cell.first_words} {cell.shuffle}"


def _keep(results: Results, some: Sequence[Outcome[Work, Result]]) -> None:
    results.add(
        [(one.task.key, one.value) for one in some if one.value is not None],
        [(one.task.key, Failure(one.task.item.cell, one.error)) for one in some if one.value is None],
    )


def _report(wanted: Sequence[Work], results: Results, known: int) -> Report:
    """A result may have been run for a cell whose files lay elsewhere: it is told with the names asked for now."""
    keys = [work.key for work in wanted]
    found, errors = results.results(set(keys)), results.failures(set(keys))
    pairs = list(zip(keys, wanted, strict=True))
    return Report(
        [replace(found[key], cell=work.cell) for key, work in pairs if key in found],
        [Failure(work.cell, errors[key]) for key, work in pairs if key in errors and key not in found],
        known,
    )


@dataclass(frozen=True, slots=True)
class Week:
    """One file of a table of forecasts, by a cell that needs it."""

    cell: Cell
    number: int
    cache: Path

    def make(self) -> None:
        self.table.chunk(self.number)

    @property
    def table(self) -> Table:
        return _table(_trace(self.cell), self.cell.shuffle, self.cell.delay_s, self.cell.first_words, self.cache)


def _make_forecasts(todo: Iterable[Cell], engine: Engine, folder: Path, watch: Callable[[Progress], None]) -> None:
    """Those that cells need, by all workers: else the first cells of a grid would make them while others wait."""
    weeks = {key: week for cell in todo for key, week in _weeks(cell, folder)}
    tasks = [Task(key, _group(week.cell), week) for key, week in weeks.items() if not week.table.has(week.number)]
    progress = Progress(0, len(tasks), forecasts=True)
    for some in Farm(engine, Week.make, tasks).run():  # one that fails is told by the cells that need it
        progress = replace(progress, done=progress.done + len(some))
        watch(progress)


def _weeks(cell: Cell, folder: Path) -> Iterator[tuple[str, Week]]:
    """A job that takes longer than this makes what it needs beyond itself."""
    if cell.policy != "budget" or cell.forecast != "own":
        return
    slowdown = cell.settings.get("max_slowdown") or DEFAULT_SLOWDOWN
    table = Week(cell, 0, folder).table
    for number in table.chunks(cell.start, cell.days * _DAY_S * (1.0 + slowdown)):
        yield f"{table.key} {number}", Week(cell, number, folder)


@lru_cache(maxsize=32)
def _table(trace: Trace, shuffle: int | None, delay_s: float, first_words: float, folder: Path) -> Table:
    seen = trace if shuffle is None else trace.shuffled(shuffle)
    return table_of(publication(seen, delay_s, first_words), folder)


def _trace(cell: Cell) -> Trace:
    return load_trace(Path(cell.trace), column=cell.column, signal=Signal(cell.signal))
