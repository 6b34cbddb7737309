"""What the planner of a replay sees of the days ahead: our own forecast, made once for a grid, or a simple one.

A refit of our own takes tens of milliseconds, and a sweep asks for each hour of a grid thousands of times: so what
production's forecaster says at each hour is written down, a week's hours in a file, when somebody first needs it, by
running production's signal through that week. What is read back is what it would say, to the last bit of a float32;
where the steps of the trace are no part of an hour, its mean over each of them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from importlib.resources import files
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chase.ahead import Expects, Typical
from chase.clock import ManualClock
from chase.config.models import SignalConfig
from chase.errors import ChaseError
from chase.forecast.expected import OWN, PERSISTENCE, Steps
from chase.forecast.forecaster import Forecaster
from chase.replay.feed import Feed, Publication
from chase.replay.trace import Floats, Trace
from chase.signal import GridSignal, Limits
from providers.base import IntensityPoint

Rows = NDArray[np.float32]

HORIZON = timedelta(days=7)
ORIGINS = 168  # in one file
_DAY_S = 86400.0
_HISTORY_H = SignalConfig().history_h


def forecaster_of(said: Publication, name: str, cache: Path | None) -> Callable[[Typical], Expects]:
    """Who expects what comes, by its name in a cell; "live" is our own made anew each time, as production does."""
    if name == "live":
        return lambda typical: Forecaster(typical=typical)
    if name == "own":
        table = table_of(said, cache)
        return lambda _: Recalled(table)
    simple = _SIMPLE[name]
    return lambda _: simple(said.trace)


def _newest_first(observed: Collection[IntensityPoint]) -> Iterator[IntensityPoint]:
    """Of points that ascend."""
    return reversed(observed)  # type: ignore[call-overload,no-any-return]  # the values of a dict


class _OnGrid(ABC):
    """Knows what was observed last, and where the steps of the trace lie."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._last = -1

    def learn(self, observed: Collection[IntensityPoint], issued: Collection[IntensityPoint] = ()) -> None:  # noqa: ARG002
        self._last = self._trace.step_of(next(_newest_first(observed)).start)

    def steps(
        self,
        start: datetime,
        end: datetime,
        *,
        at: datetime,  # noqa: ARG002  nothing is learnt of a later time
        published: Sequence[IntensityPoint] = (),  # noqa: ARG002  a trace publishes none
    ) -> Steps:
        first = max(self._trace.step_of(start), self._last + 1)
        count = -int((start - end).total_seconds() // self._trace.step_s)
        middle, low, high = self._values(first, first + count)
        starts = _edges(self._trace)[first : first + len(middle) + 1]
        return Steps(starts[:-1], starts[1:], middle, low, high, [self._who()] * len(middle))

    def _who(self) -> str:
        return type(self).__name__.lower()

    @abstractmethod
    def _values(self, first: int, last: int) -> Sequence[Floats]:
        """Median, low and high of the steps from ``first`` on, up to ``last`` or as far as it knows."""


@lru_cache(maxsize=16)
def _edges(trace: Trace) -> Floats:
    """Where steps begin, in seconds since the epoch, also after the trace."""
    beyond = int(2 * HORIZON.total_seconds() / trace.step_s)
    return np.arange(len(trace) + beyond + 1, dtype=np.float64) * trace.step_s + trace.start_s


class Perfect(_OnGrid):
    """What will come."""

    def _values(self, first: int, last: int) -> Sequence[Floats]:
        return (self._trace.values[first:last],) * 3


class Persistence(_OnGrid):
    """What is now stays."""

    _now = 0.0

    def learn(self, observed: Collection[IntensityPoint], issued: Collection[IntensityPoint] = ()) -> None:
        super().learn(observed, issued)
        self._now = next(_newest_first(observed)).g_per_kwh

    def _values(self, first: int, last: int) -> Sequence[Floats]:
        return (np.full(last - first, self._now),) * 3


class Yesterday(_OnGrid):
    """Each step is as the one at the same time of the last day that was observed."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._day: Floats = np.zeros(1)

    def learn(self, observed: Collection[IntensityPoint], issued: Collection[IntensityPoint] = ()) -> None:
        super().learn(observed, issued)
        of_a_day = islice(_newest_first(observed), round(_DAY_S / self._trace.step_s))
        self._day = np.array([point.g_per_kwh for point in of_a_day])[::-1]

    def _values(self, first: int, last: int) -> Sequence[Floats]:
        return (self._day[(np.arange(first, last) - self._last - 1) % len(self._day)],) * 3


_SIMPLE: dict[str, Callable[[Trace], Expects]] = {
    "perfect": Perfect,
    "persistence": Persistence,
    "yesterday": Yesterday,
}


class Recalled(_OnGrid):
    """Our own, out of a table."""

    def __init__(self, table: Table) -> None:
        super().__init__(table.said.trace)
        self._table = table

    def _who(self) -> str:
        return OWN if (self._last + 1) * self._trace.step_s >= _DAY_S else PERSISTENCE

    def _values(self, first: int, last: int) -> Sequence[Floats]:
        begin = first - self._last - 1
        row = self._table.row(self._last)[:, begin : begin + last - first].astype(np.float64)
        known = np.isfinite(row[0])
        return tuple(row if known.all() else row[:, : int(np.argmin(known))])


@lru_cache(maxsize=16)
def table_of(said: Publication, cache: Path | None) -> Table:
    return Table(said, cache)


class Table:
    """What our own forecast says after each step of a publication has become known: (3, leads) a step, g/kWh.

    ``folder`` holds a file for each ``ORIGINS`` steps; without one they are kept in memory.
    """

    def __init__(self, said: Publication, cache: Path | None) -> None:
        self.said = said
        self.folder = cache / self.key if cache is not None else None
        self._chunks: dict[int, Rows] = {}

    @property
    def key(self) -> str:
        """Of all that the figures depend on: the grid, how it is published, and the forecaster's own code."""
        said = self.said
        what = f"{said.trace.digest} {said.delay_s!r} {said.first_words!r} {said.trace.name} {_code()} {ORIGINS}"
        return hashlib.sha256(what.encode()).hexdigest()[:24]

    @property
    def leads(self) -> int:
        """As many as it takes to see a week ahead, though the newest value may be late."""
        return int((HORIZON.total_seconds() + self.said.delay_s) // self.said.trace.step_s) + 1

    def row(self, i: int) -> Rows:
        """(3, leads), when step i is the last that is known; not a number where that says nothing of what comes.

        Made, and kept, if it is not there.
        """
        chunk = self._chunks.get(i // ORIGINS)
        row: Rows = (self.chunk(i // ORIGINS) if chunk is None else chunk)[i % ORIGINS]
        return row

    def chunk(self, number: int) -> Rows:
        """The rows of ``ORIGINS`` steps."""
        if number not in self._chunks:
            self._chunks[number] = self._made(number) if self.folder is None else self._kept(self.folder, number)
        return self._chunks[number]

    def chunks(self, start: datetime, seconds: float) -> range:
        """Those that a job over this time needs: to be made by several processes before it runs."""
        trace = self.said.trace
        first, last = (max(self.said.count(at) - 1, 0) for at in (start, start + timedelta(seconds=seconds)))
        return range(first // ORIGINS, min(last, len(trace) - 1) // ORIGINS + 1)

    def has(self, number: int) -> bool:
        return number in self._chunks or (self.folder is not None and self._path(self.folder, number).is_file())

    def _kept(self, folder: Path, number: int) -> Rows:
        path = self._path(folder, number)
        found = self._read(path, number)
        if found is not None:
            return found
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _alone(path.with_suffix(".lock")):
                found = self._read(path, number)  # another process may have made it while we waited
                return self._written(path, number) if found is None else found
        except OSError as error:
            raise ChaseError(
                f"{folder}: forecasts cannot be kept there: {error.strerror}; name another folder"
            ) from error

    def _written(self, path: Path, number: int) -> Rows:
        rows = self._made(number)
        beside = path.with_suffix(f".{os.getpid()}.tmp")
        with beside.open("wb") as file:
            np.save(file, rows)
        beside.replace(path)
        return rows

    def _read(self, path: Path, number: int) -> Rows | None:
        """None for a file that is not there, or not what it should be."""
        try:
            rows = np.asarray(np.load(path, mmap_mode="r"))
        except (OSError, ValueError, EOFError):
            return None
        count = min(ORIGINS, len(self.said.trace) - number * ORIGINS)
        return rows if rows.shape == (count, 3, self.leads) and rows.dtype == np.float32 else None

    def _path(self, folder: Path, number: int) -> Path:
        return folder / f"{number:05d}.npy"

    def _made(self, number: int) -> Rows:
        origins = range(number * ORIGINS, min((number + 1) * ORIGINS, len(self.said.trace)))
        return np.stack(list(self._run(origins)))

    def _run(self, origins: range) -> Iterator[Rows]:
        """Production's signal, from one publication to the next."""
        said, trace = self.said, self.said.trace
        clock = ManualClock(trace.starts[origins[0]] + timedelta(seconds=said.delay_s))
        asked = _Asked(trace, self.leads)
        signal = GridSignal(
            "replay",
            [Feed(said, clock.now)],
            clock=clock,
            limits=Limits.of(SignalConfig(usable_s=2 * _DAY_S + said.delay_s)),
            forecaster=lambda _: asked,
        )
        signal.remember(said.between(clock.now() - timedelta(hours=_HISTORY_H), clock.now(), clock.now()))
        for _ in origins:
            signal.poll()
            signal.outlook(HORIZON)
            yield asked.row
            clock.advance(trace.step_s)


class _Asked:
    """Production's forecaster, asked for all leads from what is known on; ``row`` is what it said last."""

    def __init__(self, trace: Trace, leads: int) -> None:
        self._forecaster = Forecaster()
        self._leads, self._step_s = leads, trace.step_s
        self._end: datetime | None = None
        self.row: Rows = np.empty((3, 0), np.float32)

    def learn(self, observed: Collection[IntensityPoint], issued: Collection[IntensityPoint] = ()) -> None:
        self._forecaster.learn(observed, issued)
        self._end = next(_newest_first(observed)).end

    def steps(
        self,
        start: datetime,  # noqa: ARG002  all is wanted
        end: datetime,  # noqa: ARG002
        *,
        at: datetime,
        published: Sequence[IntensityPoint] = (),  # noqa: ARG002
    ) -> Steps:
        assert self._end is not None  # noqa: S101  it has learnt before it is asked
        said = self._forecaster.steps(self._end, self._end + self._leads * timedelta(seconds=self._step_s), at=at)
        edges = np.arange(self._leads + 1, dtype=np.float64) * self._step_s + self._end.timestamp()
        self.row = np.stack([_means(said, column, edges) for column in (said.g, said.low, said.high)]).astype(
            np.float32
        )
        return said


def _means(said: Steps, values: Floats, edges: Floats) -> Floats:
    """Of each step between ``edges``. Our own forecast goes by parts of an hour, whatever the trace does."""
    if np.array_equal(said.start_s, edges[:-1]):
        return values
    if not len(values):
        return np.full(len(edges) - 1, np.nan)
    total = np.concatenate([[0.0], np.cumsum(values * (said.end_s - said.start_s))])
    means: Floats = np.diff(np.interp(edges, [said.start_s[0], *said.end_s], total)) / np.diff(edges)
    return means


@lru_cache(maxsize=1)
def _code() -> str:
    """Changes with the forecaster, and with what asks it."""
    modules = [entry for entry in files("chase.forecast").iterdir() if entry.name.endswith(".py")]
    modules += [files("chase") / name for name in ("ahead.py", "outliers.py", "signal.py", "source.py")]
    modules.append(files("chase.replay") / "feed.py")
    return hashlib.sha256(b"".join(module.read_bytes() for module in sorted(modules, key=_name))).hexdigest()


def _name(entry: object) -> str:
    return str(getattr(entry, "name", ""))


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While no other process of this machine is here."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
