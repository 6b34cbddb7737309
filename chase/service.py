"""The daemon: ticks, the API, signals and the service manager, around one controller.

startup     lock, store, GPUs, sources, API, first poll, ready
main_loop   waits; the work happens in the scheduler's threads and in the API's
shutdown    GPUs given back, ticks and polls ended, socket gone, rows written
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import structlog
import uvicorn
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobExecutionEvent
from apscheduler.schedulers.background import BackgroundScheduler

from chase import __version__
from chase.api import PeerProtocol, create_app
from chase.build import actuator_of, clock_of, session_of, signal_of, system_of
from chase.clock import Clock
from chase.config import Loaded
from chase.controller import Controller
from chase.errors import ChaseError, ConfigError, TryLater
from chase.events import EventLog
from chase.notify import Notifier
from chase.signal import GridSignal
from chase.store import Keep, Store
from zeus_core.gpus.base import GpuSystem

log = structlog.get_logger("chase.service")
_STOP_S = 10.0
_SAMPLE_S = 1.0
_RAMP_S = 1.0
_SHORTEST_S = 0.05  # between two ticks of one kind, however fast a simulated clock runs


class Service:
    """One node's service. ``again`` loads the configuration anew for SIGHUP.

    ``clock`` and ``system`` may be handed over, which is what the demo and the tests do.
    """

    def __init__(
        self,
        loaded: Loaded,
        *,
        again: Callable[[], Loaded] | None = None,
        clock: Clock | None = None,
        system: GpuSystem | None = None,
    ) -> None:
        self.loaded = loaded
        self.config = loaded.config
        self.clock = clock or clock_of(self.config)
        self._again = again or (lambda: loaded)
        self._given_system = system
        self._stop = threading.Event()
        self._reload = threading.Event()
        self._notify = Notifier()
        self._cleanup: list[Callable[[], object]] = []
        self._began_s = self.clock.monotonic()

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
        keep = Keep(log_days=self.config.store.keep_days, signal_days=self.config.store.keep_signal_days)
        self.store = Store(service.db_path, clock=self.clock, keep=keep)
        self._cleanup.append(self.store.close)
        self.events = EventLog(self.store, self.clock)
        self.controller = self._controller()
        self._cleanup.append(self.controller.close)
        self._start_api()
        self._start_ticks()
        # Last in, first out: a GPU is given back before anything slow is waited for.
        self._cleanup.remove(self.controller.close)
        self._cleanup.append(self.controller.close)
        text = f"chase {__version__} in {self.controller.control[0]} mode on {len(self.controller.gpus)} GPU(s)"
        self.events("started", "info", text, gpus=self.system.kind, pid=os.getpid())
        self._notify("READY=1")

    def main_loop(self) -> None:
        while not self._stop.wait(1.0):
            if self._reload.is_set():
                self._reload.clear()
                self.reload()

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
            self.config = loaded.config
            self.controller.reconfigure(loaded.config, loaded.region)
            self.events("reloaded", "info", "the configuration was read again")
        self._notify("READY=1")

    # -- parts --------------------------------------------------------------------------------------------------------

    def _controller(self) -> Controller:
        region = self.loaded.region
        self._session = session_of(self.config)
        grid = signal_of(
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
            store=self.store,
            clock=self.clock,
            events=self.events,
            observe_reason=reason,
        )

    def _recall(self, grid: GridSignal) -> None:
        now = self.clock.now()
        since = now - timedelta(hours=self.config.signal.history_h)
        for state in grid.states:
            where = {"zone": state.provider.zone, "source": state.provider.name}
            grid.remember(self.store.points(**where, start=since, end=now))
            grid.remember(self.store.forecasts(**where, start=now, end=now + timedelta(days=7)))

    def _start_ticks(self) -> None:
        scheduler = BackgroundScheduler(
            timezone=UTC, job_defaults={"coalesce": True, "misfire_grace_time": None, "max_instances": 1}
        )
        scheduler.add_listener(self._on_tick_event, EVENT_JOB_MISSED | EVENT_JOB_ERROR | EVENT_JOB_MAX_INSTANCES)
        self._every(scheduler, "control", self.config.control.interval_s, self._tick)
        for region, grid in self.controller.signals.items():
            self._every(scheduler, f"poll {region}", grid.poll_s, partial(self._poll, grid))
        if self.controller.integrates:
            self._every(scheduler, "sample", _SAMPLE_S, self.controller.sample)
        self._every(scheduler, "housekeeping", 86400.0, self._housekeeping, first_s=3600.0)
        logging.getLogger("apscheduler").setLevel(logging.CRITICAL)  # the listener tells what is worth telling
        self._scheduler = scheduler
        scheduler.start()
        self._cleanup.append(partial(scheduler.shutdown, wait=True))
        self._cleanup.append(self._session.close)  # wakes a poll that waits, so that the ticks end soon

    def _every(
        self,
        scheduler: BackgroundScheduler,
        name: str,
        seconds: float,
        work: Callable[[], object],
        first_s: float = 0.0,
    ) -> None:
        first = datetime.now(UTC) + timedelta(seconds=first_s / self.clock.rate)
        period = max(seconds / self.clock.rate, _SHORTEST_S)
        scheduler.add_job(work, "interval", seconds=period, id=name, next_run_time=first)

    def _tick(self) -> None:
        if self.controller.tick():
            self._again_soon()
        self._notify("WATCHDOG=1")  # fed by the control loop alone: a hung loop must look hung

    def _again_soon(self) -> None:
        """A limit that rises by the ramp goes on at the next second, not at the next tick."""
        soon = datetime.now(UTC) + timedelta(seconds=_RAMP_S / self.clock.rate)
        self._scheduler.add_job(self._tick, "date", run_date=soon, id="ramp", replace_existing=True)

    def _poll(self, grid: GridSignal) -> None:
        if grid.poll():
            self._tick()  # news does not wait for the next tick

    def _housekeeping(self) -> None:
        removed = self.store.prune(self.clock.now())
        self.store.checkpoint()
        self.events("pruned", "info", "old rows were dropped", removed=removed)

    def _on_tick_event(self, event: JobExecutionEvent) -> None:
        if event.code == EVENT_JOB_ERROR:
            text = f"{event.job_id} tick failed: {type(event.exception).__name__}: {event.exception}"
            log.error(text, traceback=event.traceback)
            self.events("tick-failed", "error", text, once=True)
        else:
            self.events("tick-late", "warning", f"{event.job_id} tick came late or overran its interval", once=True)

    def _start_api(self) -> None:
        listener = listen(self.config.service.socket_path, self.config.service.socket_group)
        app = create_app(self.controller, lambda: self.config, self._facts)
        server = uvicorn.Server(uvicorn.Config(app, http=PeerProtocol, **server_settings()))
        thread = threading.Thread(target=server.run, args=([listener],), name="api", daemon=True)
        thread.start()

        def stop() -> None:
            server.should_exit = True
            thread.join(_STOP_S)
            self.config.service.socket_path.unlink(missing_ok=True)

        self._cleanup.append(stop)

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
            "db": str(self.config.service.db_path),
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


def run(load: Callable[[], Loaded]) -> int:
    """``chase serve``: ``load`` reads the configuration, now and at each SIGHUP."""
    loaded = load()
    _log_to_stderr(loaded.config.log.level, as_json=bool(loaded.config.log.json))
    return Service(loaded, again=load).run()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    except OSError as error:
        raise ChaseError(
            f"cannot make {folder}: {error.strerror}; set service.state_dir and service.run_dir"
        ) from error


def _instance_lock(path: Path) -> Callable[[], None]:
    """One service a node, by a lock that the kernel drops with its holder. Raises ``TryLater`` naming the holder."""
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read(20).strip() or "unknown"
        file.close()
        raise TryLater(f"another chase service runs here already (pid {holder}, lock {path})") from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file.close


def server_settings() -> dict[str, Any]:
    """How uvicorn serves the API; handed to ``uvicorn.Config``."""
    return {
        "loop": "asyncio",
        "ws": "none",
        "lifespan": "off",
        "access_log": False,
        "proxy_headers": False,  # a header must never overwrite what the kernel said of the caller
        "server_header": False,
        "log_config": None,
        "limit_concurrency": 128,
        "timeout_keep_alive": 5,
        "timeout_graceful_shutdown": 2,
    }


def listen(path: Path, group: str | None) -> socket.socket:
    """The API's socket, never open wider than 0660 for a moment; the instance lock makes replacing a stale one safe."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    before = os.umask(0o117)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise ChaseError(f"cannot listen on {path}: {error.strerror or error}; set service.socket") from error
    finally:
        os.umask(before)
    if group is not None:
        _give_to_group(path, group)
    listener.listen(64)
    return listener


def _give_to_group(path: Path, group: str) -> None:
    try:
        shutil.chown(path, group=group)
    except (LookupError, OSError) as error:
        raise ConfigError(f"service.socket_group = {group!r}: {error}; name a group that this user is in") from error


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
