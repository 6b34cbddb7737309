"""A real Dask scheduler with two worker processes, started as a user starts them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from farm_engines import both, tasks, values, wait_until
from farm_tasks import dies_on_seven, dies_once, double, pid

from chase.errors import TryLater
from chase.replay.engine import engine_of
from chase.replay.farm import Farm

pytest.importorskip("distributed")
HERE = Path(__file__).parent


@pytest.fixture
def start(tmp_path):
    """``dask ARGS`` on loopback, without a dashboard; what was started ends with the test."""
    started = []
    path = os.pathsep.join([str(HERE.parents[1]), str(HERE)])
    environment = {**os.environ, "PYTHONPATH": path, "DASK_TEMPORARY_DIRECTORY": str(tmp_path)}
    environment["DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES"] = "1"  # of three: a worker takes seconds to come back

    def call(*args):
        command = [sys.executable, "-m", "dask", *map(str, args), "--host", "127.0.0.1", "--no-dashboard"]
        started.append(
            subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True)
        )
        return started[-1]

    yield call
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a worker's nanny waits long for a scheduler that is gone
        process.wait(30)


@pytest.fixture
def scheduler(start):
    """A scheduler's process and its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = "127.0.0.1:{1}".format(*probe.getsockname())
    return start("scheduler", "--port", address.rpartition(":")[2]), address


@pytest.mark.slow
def test_a_sweep_on_dask_survives_its_workers_and_names_a_deadly_task(start, scheduler, tmp_path):
    """Without workers it says what to start. Two share the tasks; one is killed in the midst; one task kills whoever
    has it; when the scheduler goes, that is said.
    """
    process, address = scheduler
    with pytest.raises(TryLater, match=f"has no workers: start some with 'dask worker {address}"):
        wait_for_scheduler(address)
    for _ in range(2):
        start("worker", address, "--nthreads", 1)
    with engine_of(f"dask://{address}", connect_s=60) as engine:
        wait_until(lambda: engine.workers == 2)
        where = set(values(Farm(engine, pid, tasks(range(10)), chunk_s=1e-9).run()).values())
        assert len(where) == 2

        items = [(str(tmp_path), number) for number in range(20)]
        done, failed = both(Farm(engine, dies_once, tasks(items)).run())
        assert sorted(done.values()) == list(range(20))
        assert not failed
        assert (tmp_path / "died").exists()

        done, failed = both(Farm(engine, dies_on_seven, tasks(range(20))).run())
        assert sorted(done.values()) == [number for number in range(20) if number != 7]
        assert list(failed) == ["cell 7"]

        process.terminate()
        process.wait(30)
        with pytest.raises(TryLater, match="is gone; what was done is kept"):
            list(Farm(engine, double, tasks(range(3))).run())


def wait_for_scheduler(address):
    """An engine on it, as soon as it answers."""
    host, port = address.split(":")

    def answers():
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    wait_until(answers)
    return engine_of(f"dask://{address}", connect_s=1)
