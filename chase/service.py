"""The daemon: ticks, the API, signals and the service manager, around one controller.

startup     lock, store, GPUs, sources, API, first poll, ready
main_loop   waits; the work happens in the scheduler's threads and in the API's
shutdown    GPUs given back, ticks and polls ended, socket gone, rows written
"""

from __future__ import annotations

import fcntl
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import structlog
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobExecutionEvent
from apscheduler.schedulers.background import BackgroundScheduler

from chase import __version__
from chase.api import create_app
from chase.build import actuator_of, clock_of, keep_of, prices_feed, session_of, signal_of, system_of
from chase.clock import Clock
from chase.config import Loaded
from chase.controller import Controller
from chase.errors import ChaseError, StoreError, TryLater
from chase.events import EventLog
from chase.memory import give_back
from chase.notify import Notifier
from chase.prices import AHEAD, MEMORY, PriceFeed
from chase.recall import best_known, best_prices, recall
from chase.repricing import reprice_recent
from chase.serving import ApiServer
from chase.signal import GridSignal
from chase.store import Store
from zeus_core.gpus.base import GpuError, GpuSystem

log = structlog.get_logger("chase.service")
_SAMPLE_S = 1.0
_RAMP_S = 1.0
_STEP_S = 2.0  # more than slewing does in a second
_LATE_TICKS = 3
_LATE_S = 1.0
_LOOK_S = 60.0
_GIVE_UP_S = 300.0
_TELL_AGAIN_S = 60.0
_REPRICE_H = 72
_SHORTEST_S = 0.05  # between two ticks of one kind, however fast a simulated clock runs


class Service:
    """One node's service. ``clock`` and ``system`` may be handed over, which is what the demo and the tests do."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        clock: Clock | None = None,
        system: GpuSystem | None = None,
    ) -> None:
        self.loaded = loaded
        self.config = loaded.config
        self._pue = loaded.region.pue
        self._recalled = False
        self.clock = clock or clock_of(self.config)
        self._again = loaded.again
        self._given_system = system
        self._stop = threading.Event()
        self._reload = threading.Event()
        self._notify = Notifier()
        self._cleanup: list[Callable[[], object]] = []
        self._began_s = self.clock.monotonic()
        self._look_at_s = self._answered_s = time.monotonic()
        self._fed_s = -math.inf
        self._offset_s = time.time() - time.monotonic()
        self._told_late: dict[str, float] = {}

    # -- life ---------------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Until SIGTERM or SIGINT. Whatever happens, what was changed is given back."""
        with self._signals():
            try:
                self.startup()
                self.main_loop()
            finally:
                self.shutdown()
        return 0

    def startup(self) -> None:
        service = self.config.service
        for folder in (service.run_dir, service.state_dir):
            _make_folder(folder)
        self._cleanup.append(_instance_lock(service.run_dir / "chase.lock"))
        self.system = self._given_system or system_of(self.config, self.clock)
        self._cleanup.append(self.system.close)
        self.store = Store(service.db_path, clock=self.clock, keep=keep_of(self.config))
        self._cleanup.append(self.store.close)
        self.events = EventLog(self.store, self.clock)
        self.controller = self._controller()
        self._cleanup.append(self.controller.close)
        self._start_api()
        self._start_share()
        self._start_ticks()
        # Last in, first out: a GPU is given back before anything slow is waited for.
        self._cleanup.remove(self.controller.close)
        self._cleanup.append(self.controller.close)
        gpus = f"{len(self.controller.gpus)} {self.system.kind} GPU(s)"
        text = f"chase {__version__} on {gpus}, region {self.loaded.region.id}"
        self.events("started", "info", text, socket=str(service.socket_path), db=str(service.db_path), pid=os.getpid())
        self._doubt(self.loaded)
        stopped = partial(self.events, "stopped", "info", "stopped")
        self._cleanup.insert(self._cleanup.index(self.store.close) + 1, stopped)
        self._notify("READY=1")

    def main_loop(self) -> None:
        while not self._stop.wait(1.0):
            if self._reload.is_set():
                self._reload.clear()
                self.reload()
            self.look()

    def look(self) -> None:
        """Once a second: tell the service manager that the control loop is alive, and see whether the driver is.

        A control loop that hangs must look hung: nothing is said once its last tick is older than a few intervals.
        """
        real_s = (self.clock.monotonic() - self.controller.ticked_s) / self.clock.rate
        alive = real_s < max(_LATE_TICKS * self.config.control.interval_s / self.clock.rate, _LATE_S)
        self._watch_clock()
        now_s = time.monotonic()
        if alive and now_s - self._fed_s >= self._notify.watchdog_s:
            self._fed_s = now_s
            self._notify("WATCHDOG=1")
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + _LOOK_S
            self._look_for_gpus(now_s)

    def _watch_clock(self) -> None:
        """The scheduler's times are wall times: a clock that is set back an hour would stop the ticks for an hour."""
        offset_s = time.time() - time.monotonic()
        stepped_s, self._offset_s = offset_s - self._offset_s, offset_s
        if abs(stepped_s) < _STEP_S:
            return
        self.events("clock-stepped", "warning", f"the wall clock was set by {stepped_s:+.0f} s: ticks go on now")
        for job in self._scheduler.get_jobs():
            job.modify(next_run_time=datetime.now(UTC))

    def _look_for_gpus(self, now_s: float) -> None:
        """A driver that was exchanged under us answers only a new process, so leave it to the service manager."""
        try:
            self.system.gpus()
        except GpuError as error:
            self.events("driver-gone", "error", f"no GPU answers: {error}", once=True)
            if now_s - self._answered_s > _GIVE_UP_S:
                raise ChaseError(f"no GPU has answered for {_GIVE_UP_S:.0f} s: {error}") from error
            return
        self._answered_s = now_s
        self.events.forget("driver-gone")
        for index, fault in getattr(self.system, "missing", {}).items():
            self.events("gpu-missing", "warning", f"GPU {index} does not answer: {fault}", once=True)

    def stop(self) -> None:
        self._stop.set()

    def shutdown(self) -> None:
        """Undo ``startup`` in reverse, each step whether or not the one before it failed."""
        self._notify("STOPPING=1")
        while self._cleanup:
            step = self._cleanup.pop()
            try:
                step()
            except Exception:  # every other step must still run
                log.exception("a step of the shutdown failed", step=getattr(step, "__qualname__", repr(step)))

    def reload(self) -> None:
        """Read the configuration again (SIGHUP). A faulty one changes nothing."""
        self._notify("RELOADING=1")
        try:
            loaded = self._again()
        except ChaseError as error:
            self.events("reload-failed", "error", f"the configuration was not taken: {error}")
        else:
            self._take(loaded)
        self._notify("READY=1")

    def _take(self, loaded: Loaded) -> None:
        """What may change while running does; what cannot is named, and stays as it was."""
        kept = needs_restart(self.loaded, loaded)
        before, self.config = self.config, loaded.config
        if loaded.region.id == self.loaded.region.id:
            self._pue = loaded.region.pue
        self.controller.reconfigure(loaded.config, loaded.region)
        if loaded.config.control.interval_s != before.control.interval_s:
            seconds = self._period_s(loaded.config.control.interval_s)
            self._scheduler.reschedule_job("control", trigger="interval", seconds=seconds)
        text = "the configuration was read again"
        if kept:
            text += f"; these need a restart and are as before: {', '.join(kept)}"
        self.events("reloaded", "warning" if kept else "info", text)
        self._doubt(loaded)

    def _doubt(self, loaded: Loaded) -> None:
        for text in loaded.doubts(self.clock.now()):
            self.events("config-doubt", "warning", text)

    # -- parts --------------------------------------------------------------------------------------------------------

    def _controller(self) -> Controller:
        region = self.loaded.region
        self._session = session_of(self.config)
        grid = signal_of(
            region, self.config, session=self._session, clock=self.clock, store=self.store, events=self.events
        )
        self._prices = prices_feed(
            region, self.config, session=self._session, clock=self.clock, store=self.store, events=self.events
        )
        self._recall(grid)
        actuator, reason = actuator_of(self.config, self.system, self.clock)
        return Controller(
            config=self.config,
            system=self.system,
            actuator=actuator,
            regions={region.id: region},
            signals={region.id: grid},
            prices={region.id: self._prices} if self._prices.states else {},
            store=self.store,
            clock=self.clock,
            events=self.events,
            observe_reason=reason,
        )

    def _recall(self, grid: GridSignal) -> None:
        """Once: later where an old database is still being brought up to date, for which nothing else waits."""
        try:
            self.store.check()
        except StoreError:
            return
        self._recalled, now = True, self.clock.now()
        recall(grid, self.store, now, timedelta(hours=self.config.signal.history_h))
        for state in self._prices.states:
            where = {"zone": state.provider.zone, "source": state.provider.name}
            self._prices.remember(self.store.prices(**where, start=now - MEMORY, end=now + AHEAD))

    def _start_ticks(self) -> None:
        scheduler = BackgroundScheduler(
            timezone=UTC, job_defaults={"coalesce": True, "misfire_grace_time": None, "max_instances": 1}
        )
        scheduler.add_listener(self._on_tick_event, EVENT_JOB_MISSED | EVENT_JOB_ERROR | EVENT_JOB_MAX_INSTANCES)
        self._every(scheduler, "control", self.config.control.interval_s, self._tick)
        for region, grid in self.controller.signals.items():
            self._poll_every(scheduler, f"poll {region}", grid, partial(self._poll, grid))
        if self._prices.states:
            self._poll_every(scheduler, "prices", self._prices, self._prices.poll)
        if self.controller.integrates:
            self._every(scheduler, "sample", _SAMPLE_S, self.controller.sample)
        self._every(scheduler, "housekeeping", 86400.0, self._housekeeping, first_s=3600.0)
        self._every(scheduler, "reprice", 3600.0, self._reprice, first_s=3600.0)
        logging.getLogger("apscheduler").setLevel(logging.CRITICAL)  # the listener tells what is worth telling
        self._scheduler = scheduler
        scheduler.start()
        self._cleanup.append(self._end_ticks)
        self._cleanup.append(self._session.close)  # wakes a poll that waits, so that the ticks end soon

    def _end_ticks(self) -> None:
        """Not in the midst of a round: what is due just once would be looked for in vain, and the thread would die."""
        self._scheduler.pause()
        self._scheduler.get_jobs()  # waits for the round that runs
        self._scheduler.shutdown(wait=True)

    def _poll_every(
        self, scheduler: BackgroundScheduler, name: str, asked: GridSignal | PriceFeed, poll: Callable[[], object]
    ) -> None:
        """At once, and then in the slots of the sources."""
        scheduler.add_job(poll, "date", run_date=datetime.now(UTC), id=f"first {name}")
        self._every(scheduler, name, asked.poll_s, poll, first_s=asked.next_slot_s)

    def _every(
        self,
        scheduler: BackgroundScheduler,
        name: str,
        seconds: float,
        work: Callable[[], object],
        first_s: float = 0.0,
    ) -> None:
        first = datetime.now(UTC) + timedelta(seconds=first_s / self.clock.rate)
        scheduler.add_job(work, "interval", seconds=self._period_s(seconds), id=name, next_run_time=first)

    def _period_s(self, seconds: float) -> float:
        return max(seconds / self.clock.rate, _SHORTEST_S)

    def _tick(self) -> None:
        if self.controller.tick():
            self._again_soon()

    def _again_soon(self) -> None:
        """A limit that rises by the ramp goes on at the next second, not at the next tick."""
        soon = datetime.now(UTC) + timedelta(seconds=_RAMP_S / self.clock.rate)
        self._scheduler.add_job(self._tick, "date", run_date=soon, id="ramp", replace_existing=True)

    def _poll(self, grid: GridSignal) -> None:
        if not self._recalled:
            self._recall(grid)
        if grid.poll():
            self._tick()  # news does not wait for the next tick

    def _housekeeping(self) -> None:
        removed = self.store.prune(self.clock.now())
        self.store.checkpoint()
        give_back()
        self.events("pruned", "info", "old rows were dropped", removed=removed)

    def _reprice(self) -> None:
        """Sources revise the last days: what was drawn then is priced at what is known of it now."""
        now = self.clock.now()
        region, grid = self.loaded.region, self.controller.signals[self.loaded.region.id]
        since = now - timedelta(hours=_REPRICE_H)
        series = best_known(grid, self.store, since, now)
        prices = best_prices(self._prices, self.store, since, now)
        reprice_recent(self.store, series, pue=self._pue, region=region.id, since=since, prices=prices)

    def _on_tick_event(self, event: JobExecutionEvent) -> None:
        """Missed, failed and overrunning ticks are recorded, of each kind one a minute at the most."""
        failed = event.code == EVENT_JOB_ERROR
        code = "tick-failed" if failed else "tick-late"
        now_s, key = time.monotonic(), f"{code} {event.job_id}"
        if now_s - self._told_late.get(key, -_TELL_AGAIN_S) < _TELL_AGAIN_S:
            return
        self._told_late[key] = now_s
        if failed:
            text = f"{event.job_id} tick failed: {type(event.exception).__name__}: {event.exception}"
            log.error(text, traceback=event.traceback)
            self.events(code, "error", text)
        else:
            self.events(code, "warning", f"{event.job_id} tick came late or overran its interval")

    def _start_api(self) -> None:
        service = self.config.service
        app = create_app(self.controller, lambda: self.config, self._facts)
        self._cleanup.append(ApiServer(app, service.socket_path, service.socket_group).close)

    def _start_share(self) -> None:
        if self.config.share.listen is None:
            return
        from chase.share.document import Shared
        from chase.share.server import ShareServer

        prices = {self._prices.region: self._prices} if self._prices.states else {}
        shared = [Shared(region, grid, prices.get(region)) for region, grid in self.controller.signals.items()]
        server = ShareServer(self.config.share, shared)
        self._cleanup.append(server.close)
        self.events("sharing", "info", f"the signal is shared at {server.url}")

    def _facts(self) -> dict[str, Any]:
        health = self.store.health
        return {
            "version": __version__,
            "pid": os.getpid(),
            "uid": os.geteuid(),
            "uptime_s": self.clock.monotonic() - self._began_s,
            "now": self.clock.now().isoformat().replace("+00:00", "Z"),
            "clock_rate": self.clock.rate,
            "region": self.loaded.region.id,
            "db": str(self.store.path),
            "store_ok": health.ok,
            "store_reason": health.reason,
            "tick_age_s": self.clock.monotonic() - self.controller.ticked_s,
        }

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(_number: int, _frame: FrameType | None) -> None:
            self._stop.set()

        def reload(_number: int, _frame: FrameType | None) -> None:
            self._reload.set()

        handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run(loaded: Loaded) -> int:
    """``chase serve``."""
    _log_to_stderr(loaded.config.log.level, as_json=bool(loaded.config.log.json))
    return Service(loaded).run()


# The service is built of these once; everything else follows a reload.
_BUILT_OF = ("service", "simulated", "signal", "store", "share", "log")
_BUILT_OF_REGION = ("id", "time_zone", "signal", "scope", "currency", "typical")
_FOLLOWS = frozenset({"interval_s", "heartbeat_s", "account_s"})


def needs_restart(before: Loaded, after: Loaded) -> list[str]:
    """Dotted keys that changed and that only a restart takes up."""
    changed = [
        f"{section}.{key}"
        for section, values in after.config.model_dump().items()
        if section in {*_BUILT_OF, "control"}
        for key, value in values.items()
        if value != before.config.model_dump()[section][key] and not (section == "control" and key in _FOLLOWS)
    ]
    was, now = before.region, after.region
    changed += [f"the region's {key}" for key in _BUILT_OF_REGION if getattr(was, key) != getattr(now, key)]
    return changed + (["the region's sources"] if (was.sources, was.prices) != (now.sources, now.prices) else [])


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    except OSError as error:
        raise ChaseError(
            f"cannot make {folder}: {error.strerror}; set service.state_dir and service.run_dir"
        ) from error


def _instance_lock(path: Path) -> Callable[[], None]:
    """One service a node, by a lock that the kernel drops with its holder. Raises ``TryLater`` naming the holder."""
    # Nobody else may open it, or anybody could hold the lock and keep the service from starting.
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+")
    os.fchmod(file.fileno(), 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read(20).strip() or "unknown"
        file.close()
        raise TryLater(f"another chase service runs here already (pid {holder}, lock {path})") from None
    file.seek(0)
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file.close


def _log_to_stderr(level: str, *, as_json: bool) -> None:
    """Logs are talk, so they go to stderr; one line an event, as text or JSON."""
    renderer: Any = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=False)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )
