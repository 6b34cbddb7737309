"""Where the cells of a sweep are run: this machine's processes, a Dask cluster's workers, or this process itself.

Each is a ``concurrent.futures`` executor with what a sweep must know besides: how many workers there are, and what a
future raises whose worker died. An engine is a context manager; leaving it by an exception ends what still runs.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from chase.errors import ConfigError, TryLater

_MOST = 1024
_PORTS = 65535
_FORMS = "write 'processes', 'processes:4', 'dask://HOST:PORT' or 'inline'"
_CONNECT_S = 10.0
_ANSWER_S = 30.0
_SCHEME = "dask://"


class Engine(ABC):
    """``deaths`` are raised by the future of a task whose worker died; a task that is alone may die ``tries`` times."""

    deaths: tuple[type[BaseException], ...] = ()
    tries = 2

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(now=kind is not None)

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many tasks can run at once; may change as workers come and go."""

    @abstractmethod
    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]: ...

    @abstractmethod
    def close(self, *, now: bool) -> None:
        """End the workers that are ours: ``now``, or after what they are at."""

    def gone(self) -> TryLater:
        """What is to be said when tasks were given up by others than ourselves."""
        return TryLater("the workers are gone; what was done is kept, and the same command goes on from there")


def engine_of(spec: str, *, connect_s: float = _CONNECT_S) -> Engine:
    """The engine that ``--engine`` names. Raises ``ConfigError`` for none, ``TryLater`` where no cluster answers."""
    name, _, rest = spec.partition(":")
    if name == "processes":
        return Processes(_count(spec, rest))
    if spec == "inline":
        return Inline()
    if spec.startswith(_SCHEME):
        return Dask(_address(spec, spec.removeprefix(_SCHEME)), connect_s=connect_s)
    raise ConfigError(f"engine {spec!r} is unknown; {_FORMS}")


def _count(spec: str, count: str) -> int:
    if spec == "processes":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not count.isascii() or not count.isdigit() or not 1 <= int(count) <= _MOST:
        raise ConfigError(f"engine {spec!r}: {count!r} is not a number of processes from 1 to {_MOST}; {_FORMS}")
    return int(count)


def _address(spec: str, address: str) -> str:
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= _PORTS:
        raise ConfigError(f"engine {spec!r}: {address!r} is not HOST:PORT with a port from 1 to {_PORTS}; {_FORMS}")
    return address


class Inline(Engine):
    """One task at a time, here and now: for tests, a debugger, and a single cell."""

    workers = 1

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args))
        except Exception as error:  # noqa: BLE001  a future holds whatever was raised
            future.set_exception(error)
        return future

    def close(self, *, now: bool) -> None:
        """Nothing runs between two tasks."""


class Processes(Engine):
    """Spawned processes. When one dies the pool is broken, all its futures say so, and the next task opens another."""

    deaths = (BrokenExecutor,)
    workers = 0

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._line: Connection | None = None

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        if self._pool is not None:
            with suppress(BrokenExecutor):
                return self._pool.submit(function, *args)
            self.close(now=True)
        self._pool = self._opened()
        return self._pool.submit(function, *args)

    def _opened(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        theirs, self._line = context.Pipe(duplex=False)
        return ProcessPoolExecutor(self.workers, mp_context=context, initializer=_begin, initargs=(theirs,))

    def close(self, *, now: bool) -> None:
        """Only this process holds our end of the line: workers end with it, also when it is killed."""
        pool, line, self._pool, self._line = self._pool, self._line, None, None
        if pool is None or line is None:
            return
        if now:
            line.close()
        pool.shutdown(wait=True, cancel_futures=True)
        line.close()


def _begin(line: Connection) -> None:
    """In a new worker. Ctrl-C reaches a whole process group: what becomes of workers is their parent's to say."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(line,), name="parent", daemon=True).start()


def _end_with(line: Connection) -> None:
    with suppress(OSError):
        line.poll(None)  # nothing is ever sent: this returns when the other end is closed
    os._exit(1)


class Dask(Engine):
    """The workers of a Dask scheduler, which itself gives a dead worker's task to others, four times in all."""

    tries = 1

    def __init__(self, address: str, *, connect_s: float = _CONNECT_S) -> None:
        distributed = _distributed()
        # What it says while it looks for a scheduler is for its own authors; ours says what to do.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        self.address = address
        self.deaths = (distributed.KilledWorker,)
        try:
            self._client = distributed.Client(address, timeout=connect_s, set_as_default=False)
        except (OSError, ValueError, AssertionError) as error:  # the last where its own loop has not begun within 10 s
            raise TryLater(
                f"no Dask scheduler answers at {address}: start one with 'dask scheduler --host HOST --port PORT' "
                "and workers with 'dask worker HOST:PORT --nthreads 1', or leave --engine away"
            ) from error
        try:
            self._client.wait_for_workers(1, timeout=connect_s)
        except TimeoutError as error:
            self._client.close()
            raise TryLater(
                f"the Dask scheduler at {address} has no workers: start some with "
                f"'dask worker {address} --nthreads 1' where the project is installed"
            ) from error
        self._executor = self._client.get_executor(pure=False)

    @property
    def workers(self) -> int:
        """Processes, not threads: replaying holds the interpreter's lock."""
        self._refuse_silence()
        try:
            return max(1, len(self._client.sync(self._client.scheduler.ncores, callback_timeout=_ANSWER_S)))
        except (OSError, TimeoutError) as error:
            raise self.gone() from error

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        self._refuse_silence()
        submitted: Future[Any] = self._executor.submit(function, *args)
        return submitted

    def _refuse_silence(self) -> None:
        """A client that has lost its scheduler looks for it for a while, and keeps what is asked of it meanwhile."""
        if self._client.status != "running":
            raise self.gone()

    def gone(self) -> TryLater:
        return TryLater(
            f"the Dask scheduler at {self.address} is gone; what was done is kept, and the same command goes on from "
            "there when it is back"
        )

    def close(self, *, now: bool) -> None:
        if self._client.status == "running":
            self._executor.shutdown(wait=not now)
        self._client.close()


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError as error:
        raise ConfigError(
            "engine dask:// needs Dask, which is not installed: pip install 'carbon-chase[cluster]'"
        ) from error
