"""The service's own life: readiness, watchdog, reload, and bad luck that must not stop control."""

from __future__ import annotations

import dataclasses
import os
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from apscheduler.schedulers.base import STATE_RUNNING
from service_node import REGION, until

from chase.config import load, load_region
from chase.errors import ChaseError, ConfigError, TryLater
from chase.records import IntervalRecord
from chase.service import Service, needs_restart
from chase.store import Reader
from chase.unixhttp import request


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """A started service on two simulated cards, with quick ticks; stopped at the end."""
    with ExitStack() as stack:

        def make(**settings: Any) -> Service:
            service = Service(loaded(tmp_path, **settings))
            stack.callback(service.shutdown)
            service.startup()
            return service

        yield make


def loaded(folder: Path, **settings: Any) -> Any:
    values = {
        "service.state_dir": folder / "state",
        "service.run_dir": folder / "run",
        "control.gpus": "simulated",
        "control.interval_s": 0.1,
        "control.account_s": 0.2,
        "control.ramp_w_per_s": 0.0,
        "profile.window_s": 1.0,
        "policy.dwell_s": 0.0,
    }
    values |= {key.replace("__", "."): value for key, value in settings.items()}
    (folder / "trace.csv").write_text("start,end,g_per_kwh\n")
    file = folder / "region.toml"
    file.write_text(REGION.format(trace=folder / "trace.csv"))
    return load(region=file, overrides=values, env={})


def register(service: Service, **more: Any) -> dict[str, Any]:
    gpu = service.system.gpus()[0].uuid
    body = {"id": "a" * 16, "name": "train", "gpus": [gpu], "profile": "a40-resnet50", **more}
    return request(service.config.service.socket_path, "POST", "/v1/jobs", body)


def codes(service: Service) -> list[str]:
    with Reader(service.config.service.db_path) as log:
        return [event.code for event in log.events()]


@pytest.fixture
def manager(tmp_path, monkeypatch) -> Iterator[socket.socket]:
    """The service manager's end: it wants a sign of life every second."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "1000000")
        yield sock


class TestServiceManager:
    def test_ready_watchdog_and_stopping(self, start, manager):
        """READY once it serves, WATCHDOG while the control loop ticks, STOPPING at the end."""
        service = start()
        assert manager.recv(100) == b"READY=1"
        until(lambda: service.controller.states, "the first tick")
        service.look()
        assert manager.recv(100) == b"WATCHDOG=1"
        service.look()  # sooner than is wanted, so nothing is said
        service.shutdown()
        assert manager.recv(100) == b"STOPPING=1"

    def test_a_hung_control_loop_starves_the_watchdog(self, start, manager, monkeypatch):
        """The main loop goes on, the API goes on, and the service manager hears nothing."""
        service = start()
        go_on = threading.Event()
        monkeypatch.setattr(service.controller, "tick", lambda: go_on.wait(20) and False)
        try:
            until(lambda: service.clock.monotonic() - service.controller.ticked_s > 1.1, "the last tick is old")
            manager.setblocking(False)
            with suppress(BlockingIOError):
                while manager.recv(100):
                    pass
            service.look()
            with pytest.raises(BlockingIOError):
                manager.recv(100)
        finally:
            go_on.set()

    def test_a_manager_that_is_gone_harms_nobody(self, start, tmp_path, monkeypatch):
        """A NOTIFY_SOCKET that leads nowhere is ignored."""
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
        service = start()
        assert register(service)["id"] == "a" * 16


class TestReload:
    def test_the_policy_of_running_jobs_follows(self, start, tmp_path):
        """SIGHUP: what may change while running does, for jobs that are there already."""
        service = start()
        register(service)
        settings = {"policy.name": "static", "policy.selector": "energy"}
        service._again = lambda: loaded(tmp_path, **settings)
        service.reload()
        until(lambda: service.system.gpus()[0].power_limit_w() < 300, "the new policy rules")
        assert "reloaded" in codes(service)

    def test_what_can_hardly_be_meant_is_said(self, start, tmp_path):
        """A deadline that is over stops nothing, and the log names it."""
        service = start()
        assert "config-doubt" not in codes(service)
        service._again = lambda: loaded(tmp_path, **{"policy.deadline": datetime(2020, 1, 1, tzinfo=UTC)})
        service.reload()
        with Reader(service.config.service.db_path) as log:
            event = next(event for event in log.events() if event.code == "config-doubt")
        assert event.message.startswith("flag: policy.deadline 2020-01-01 00:00:00+00:00 is over")

    def test_a_faulty_file_changes_nothing(self, start):
        """The old configuration stays in force, and the event names the fault."""
        service = start()
        before = service.config

        def faulty() -> Any:
            raise ConfigError("chase.toml:3: polcy: unknown section")

        service._again = faulty
        service.reload()
        assert service.config is before
        with Reader(service.config.service.db_path) as log:
            event = next(event for event in log.events() if event.code == "reload-failed")
        assert "chase.toml:3" in event.message


class TestBadLuck:
    def test_a_tick_that_fails_is_recorded_and_the_next_one_runs(self, start, monkeypatch):
        """An error in one tick is an event, once, and control goes on."""
        service = start()
        ticks = []
        whole = service.controller.tick

        def sometimes() -> bool:
            ticks.append(1)
            if len(ticks) < 4:
                raise RuntimeError("for the test")
            return whole()

        monkeypatch.setattr(service.controller, "tick", sometimes)
        until(lambda: len(ticks) > 6, "ticks after the failure")
        assert codes(service).count("tick-failed") == 1  # of each kind one a minute at the most

    def test_control_goes_on_without_a_database(self, start):
        """The file damaged while running: limits still move, it is kept aside, and a new one is begun."""
        service = start(policy__name="static", policy__selector="energy")
        path = service.config.service.db_path
        until(lambda: "started" in codes(service), "the first event")
        damage(path)
        register(service)
        until(lambda: service.system.gpus()[0].power_limit_w() < 300, "control goes on")
        until(lambda: list(path.parent.glob("chase.sqlite.corrupt-*")), "the damaged file is kept aside")
        until(lambda: decisions(path), "a new file is begun")

    def test_a_locked_database_stops_nothing(self, start):
        """Somebody holds the write lock: control goes on and the rows come when it is gone."""
        service = start(policy__name="static", policy__selector="energy")
        with closing(sqlite3.connect(service.config.service.db_path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            register(service)
            until(lambda: service.system.gpus()[0].power_limit_w() < 300, "control goes on")
            other.execute("ROLLBACK")
        until(lambda: decisions(service.config.service.db_path), "the decision is written")

    def test_a_journal_that_cannot_be_written_means_no_change(self, tmp_path):
        """No place to write down what was found: the service does not start, so no GPU is touched."""
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "actuator").write_text("a file where the journal's folder should be")
        service = Service(loaded(tmp_path))
        with pytest.raises(ChaseError, match="actuator"):
            service.startup()
        service.shutdown()


class TestStarting:
    def test_the_second_one_is_told_who_is_first(self, start, tmp_path):
        """One service a node, by the kernel's lock, with the holder's pid."""
        start()
        second = Service(loaded(tmp_path))
        with pytest.raises(TryLater, match=str(os.getpid())):
            second.startup()
        second.shutdown()

    def test_a_socket_path_that_is_too_long_is_explained(self, tmp_path):
        """The kernel allows 107 bytes; the text names the key to set."""
        service = Service(loaded(tmp_path, service__socket=tmp_path / ("x" * 120)))
        with pytest.raises(ChaseError, match=r"service\.socket"):
            service.startup()
        service.shutdown()

    def test_without_a_driver_the_text_says_what_to_do(self, tmp_path, monkeypatch):
        """No NVIDIA driver: an error with the way to a demo, and not a traceback."""
        from zeus_core.gpus import nvml
        from zeus_core.gpus.base import Unavailable

        def none(*_: object) -> None:
            raise Unavailable("libnvidia-ml.so.1 was not found")

        monkeypatch.setattr(nvml.NvmlSystem, "gpus", none)
        service = Service(loaded(tmp_path, control__gpus="nvml"))
        with pytest.raises(ChaseError, match="chase demo"):
            service.startup()
        service.shutdown()


def damage(path: Path) -> None:
    """Overwrite parts of every page, as a bad disk does."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        for page in range(0, path.stat().st_size, 4096):
            file.seek(page + 8)
            file.write(b"\xff" * 512)


def decisions(path: Path) -> list[Any]:
    try:
        with Reader(path) as log:
            return log.decisions()
    except ChaseError:
        return []


class TestReloadInPart:
    def test_the_tick_follows_and_the_rest_is_named(self, start, tmp_path):
        """A new interval is taken up; what only a restart takes up is named and stays as it was."""
        service = start()
        other = tmp_path / "other.sock"
        other.write_text("somebody's file")
        service._again = lambda: loaded(tmp_path, control__interval_s=0.05, service__socket=other)
        service.reload()
        with Reader(service.config.service.db_path) as log:
            event = next(event for event in log.events() if event.code == "reloaded")
        assert "service.socket" in event.message
        assert service._scheduler.get_job("control").trigger.interval.total_seconds() == 0.05
        service.shutdown()
        assert other.read_text() == "somebody's file"
        assert not (tmp_path / "run" / "chase.sock").exists()

    @pytest.mark.parametrize(
        ("key", "other"),
        [
            ("id", "other"),
            ("time_zone", "Europe/Berlin"),
            ("signal", "marginal"),
            ("scope", "lifecycle"),
            ("currency", "GBP"),
            ("typical", load_region("de").typical),
        ],
    )
    def test_what_the_signal_is_built_of_is_named(self, tmp_path, key, other):
        """Another scope that is silently not taken up would have the wrong grams booked for weeks."""
        before = loaded(tmp_path)
        after = dataclasses.replace(before, region=before.region.model_copy(update={key: other}))
        assert needs_restart(before, after) == [f"the region's {key}"]

    @pytest.mark.parametrize(("key", "other"), [("pue", 1.5), ("name", "Elsewhere")])
    def test_what_is_taken_up_is_not(self, tmp_path, key, other):
        """Nobody restarts for nothing."""
        before = loaded(tmp_path)
        after = dataclasses.replace(before, region=before.region.model_copy(update={key: other}))
        assert needs_restart(before, after) == []

    def test_energy_without_a_pue_is_priced_with_the_one_that_was_taken_up(self, start, tmp_path):
        """Rows of a first version say none; that of the start is not what the account of the job goes by."""
        service = start()
        now = service.clock.now().replace(minute=0, second=0, microsecond=0)
        trace = [f"{now - timedelta(hours=h)},{now - timedelta(hours=h - 1)},100" for h in range(4, 0, -1)]
        (tmp_path / "trace.csv").write_text("\n".join(["start,end,g_per_kwh", *trace, ""]))
        grid = next(iter(service.controller.signals.values()))
        until(lambda: grid.poll() or grid.outlook().recent, "the trace is read")
        job = register(service)
        span = {"start": now - timedelta(hours=2), "end": now - timedelta(hours=1)}
        service.store.add_interval(
            IntervalRecord(
                job_id=job["id"],
                **span,
                units=1.0,
                energy_j=3.6e6,
                method="counter",
                power_limit_w=None,
                intensity_g_per_kwh=None,
                intensity_kind="",
                grams=None,
                reference_energy_j=None,
                reference_s=None,
                progress=True,
            )
        )
        again = service.loaded
        changed = dataclasses.replace(again, region=again.region.model_copy(update={"pue": 1.5}))
        service._again = lambda: changed
        service.reload()
        service._reprice()
        assert service.store.flush()
        (row,) = [row for row in service.store.intervals(job["id"]) if row.start == span["start"]]
        assert row.grams == pytest.approx(150.0)


def test_an_end_in_the_midst_of_a_round_is_quiet(start, monkeypatch):
    """The scheduler looks for what is due once, such as the first poll, while it is ended: no thread dies of that."""
    service, died = start(), []
    monkeypatch.setattr(threading, "excepthook", died.append)
    scheduler = service._scheduler
    store = scheduler._jobstores["default"]
    due, looking = store.get_due_jobs, threading.Event()

    def slow(now: datetime) -> list[Any]:
        found = due(now)
        if any(job.id == "once" for job in found):
            looking.set()
            until(lambda: not scheduler.running or scheduler.state != STATE_RUNNING, "the end has begun")
        return found

    monkeypatch.setattr(store, "get_due_jobs", slow)
    scheduler.add_job(lambda: None, "date", run_date=datetime.now(UTC), id="once")
    assert looking.wait(10)
    service.shutdown()
    assert died == []


def test_the_lock_is_nobody_elses_to_hold(start, tmp_path):
    """A lock that anybody may open is one that anybody may hold: the service would never start again."""
    start()
    assert (tmp_path / "run" / "chase.lock").stat().st_mode & 0o777 == 0o600


def test_a_driver_that_is_gone_ends_the_service(start, monkeypatch):
    """A driver exchanged under us answers only a new process, so after a while the service manager gets its turn."""
    from zeus_core.gpus.base import Unavailable

    service = start()

    def gone() -> tuple:
        raise Unavailable("version mismatch")

    monkeypatch.setattr(service.system, "gpus", gone)
    service._look_for_gpus(service._answered_s + 10)
    assert "driver-gone" in codes(service)
    with pytest.raises(ChaseError, match="version mismatch"):
        service._look_for_gpus(service._answered_s + 1000)


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
def test_a_wall_clock_that_is_set_does_not_stop_the_ticks(start, monkeypatch, step_s):
    """The scheduler waits for wall times; set back an hour, it would do nothing for an hour (APScheduler #339)."""
    import time

    service = start()
    until(lambda: service.controller.states, "the first tick")
    # What a step does to it: every next run lies that much further off than it was meant to.
    for job in service._scheduler.get_jobs():
        job.modify(next_run_time=datetime.now(UTC) + timedelta(hours=1))
    whole = time.time
    monkeypatch.setattr(time, "time", lambda: whole() + step_s)
    before_s = service.controller.ticked_s
    service.look()
    until(lambda: service.controller.ticked_s > before_s, "a tick", within_s=5.0)
    assert codes(service).count("clock-stepped") == 1
