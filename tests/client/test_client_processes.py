"""Forks, exits, ranks and imports: a job as one process among others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from daemon_peer import UUIDS

from chase.client import Job

ROOT = Path(__file__).parents[2]


def _python(code: str, **env: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, UUIDS[0]],
        env={**os.environ, "PYTHONPATH": str(ROOT), **{key: str(value) for key, value in env.items()}},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_forked_child_never_speaks_for_its_parent(daemon, socket_path):
    """A child may step, read and close as it likes: the parent's count and job stay the parent's."""
    code = """
import os, sys
from chase.client import Job
with Job("parent", gpus=[sys.argv[1]]) as job:
    job.step(10)
    pid = os.fork()
    if pid == 0:
        job.step(1000)
        job.start()
        assert not job.connected
        assert job.units_done == 1010
        job.close("the child's")
        sys.exit(7)  # through __exit__ and the interpreter's own end
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert job.units_done == 10
print(job.id)
"""
    done = _python(code, CHASE_SOCKET=socket_path)
    assert done.returncode == 0, done.stderr
    assert len(daemon.ended) == 1
    ended = daemon.ended[done.stdout.strip()]
    assert (ended["units_done"], ended["reason"]) == (10.0, "done")
    assert not any(asked.body.get("units_done", 0) > 10 for asked in daemon.asked)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_forked_at_any_moment_can_count(socket_path):
    """Forking while other threads make their first step leaves no lock behind that the child would wait for."""
    import threading

    job = Job("job", socket=socket_path)
    stop = threading.Event()

    def newcomers():
        while not stop.is_set():
            thread = threading.Thread(target=job.step)
            thread.start()
            thread.join()

    busy = [threading.Thread(target=newcomers) for _ in range(4)]
    for thread in busy:
        thread.start()
    try:
        for _ in range(30):
            pid = os.fork()
            if pid == 0:
                signal.alarm(10)
                before = job.units_done
                thread = threading.Thread(target=job.step)
                thread.start()
                thread.join()
                os._exit(0 if job.units_done == before + 1 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        stop.set()
        for thread in busy:
            thread.join()


def test_a_child_may_have_a_job_of_its_own(daemon, socket_path):
    """A forked child that makes a job registers it as another one."""
    code = """
import os, sys
from chase.client import Job
with Job("parent", gpus=[sys.argv[1]]):
    pid = os.fork()
    if pid == 0:
        with Job("child", gpus=[sys.argv[1]]) as job:
            job.step(3)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
    done = _python(code, CHASE_SOCKET=socket_path)
    assert done.returncode == 0, done.stderr
    assert sorted((job["name"], job["units_done"]) for job in daemon.ended.values()) == [
        ("child", 3.0),
        ("parent", 0.0),
    ]


@pytest.mark.parametrize("way", ["pass", "raise SystemExit(3)", "raise RuntimeError('training broke')", "1 / 0"])
def test_the_interpreters_end_ends_a_job_that_was_never_closed(daemon, socket_path, way):
    """However a script ends, the service hears of it, with every unit."""
    code = f"""
import sys
from chase.client import Job
job = Job("script", gpus=[sys.argv[1]]).start()
job.step(12)
{way}
"""
    _python(code, CHASE_SOCKET=socket_path)
    (ended,) = daemon.ended.values()
    assert ended["units_done"] == 12.0


def test_the_interpreters_end_is_quick_against_a_service_that_hangs(daemon, socket_path):
    """A hung service costs two seconds at the end, and leaves no noise."""
    daemon.trouble = "silent"
    code = """
import sys, time
from chase.client import Job
job = Job("script", gpus=[sys.argv[1]]).start()
job.step()
import atexit
began = time.monotonic()
atexit._run_exitfuncs()
assert time.monotonic() - began < 2.5
"""
    done = _python(code, CHASE_SOCKET=socket_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_that_ends_at_once_ends_cleanly(daemon, socket_path):
    """A thread in the middle of its first exchange does not disturb the interpreter's end."""
    for _ in range(5):
        code = "import sys; from chase.client import Job; Job('blink', gpus=[sys.argv[1]]).start()"
        done = _python(code, CHASE_SOCKET=socket_path)
        assert (done.returncode, done.stderr) == (0, "")
    assert len(daemon.ended) == 5


@pytest.mark.parametrize("variable", ["LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"])
def test_only_local_rank_0_talks(daemon, socket_path, monkeypatch, variable):
    """Of the ranks on a node one registers; the others count for themselves."""
    for rank in (1, 2, 0):
        monkeypatch.setenv(variable, str(rank))
        with Job(f"rank {rank}", socket=socket_path) as job:
            job.step(rank + 1)
            assert job.units_done == rank + 1
    assert [job["name"] for job in daemon.ended.values()] == ["rank 0"]


def test_the_launcher_closest_to_the_process_names_its_rank(daemon, socket_path, monkeypatch):
    """With torchrun under srun, LOCAL_RANK is the rank, and the Slurm task's number is the same for all."""
    monkeypatch.setenv("SLURM_LOCALID", "0")
    monkeypatch.setenv("LOCAL_RANK", "3")
    with Job("job", socket=socket_path):
        pass
    assert not daemon.asked


@pytest.mark.parametrize("rank", ["", "first", "-1", "0x1"])
def test_a_rank_that_is_no_number_is_none(daemon, socket_path, monkeypatch, rank):
    """Nonsense in the variable is as if it were not set: the job is reported."""
    monkeypatch.setenv("LOCAL_RANK", rank)
    with Job("job", socket=socket_path):
        pass
    assert len(daemon.ended) == 1


def test_a_process_that_may_have_no_more_threads_trains_without_reporting(daemon, socket_path, monkeypatch, caplog):
    """Where no thread can be started the job says so and goes on."""
    import threading

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with Job("job", socket=socket_path) as job:
        job.step()
    assert job.units_done == 1
    assert "can't start new thread" in caplog.text


def test_importing_the_client_loads_nothing_heavy():
    """The training process pays for the standard library only, and for no network until a job starts."""
    code = """
import sys
import chase.client
heavy = {"requests", "urllib3", "pydantic", "numpy", "click", "rich", "sqlite3", "fastapi", "torch", "apscheduler",
         "structlog", "stamina", "pynvml", "http.client", "ssl", "hashlib", "asyncio", "subprocess"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
from chase.client import Job
Job("job").start().close()
heavy -= {"http.client", "ssl", "hashlib"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    done = _python(code, CHASE_SOCKET="/nonexistent")
    assert done.returncode == 0, done.stderr


def test_the_callers_logging_is_left_alone():
    """No handler, no level and no root configuration comes with the import or a job."""
    code = """
import logging
from chase.client import Job
with Job("job"):
    pass
ours = logging.getLogger("chase.client")
assert ours.handlers == [] and ours.level == logging.NOTSET and ours.propagate
assert logging.root.handlers == [] and logging.root.level == logging.WARNING
logging.getLogger("chase.client").setLevel(logging.CRITICAL)
with Job("job"):
    pass
"""
    done = _python(code, CHASE_SOCKET="/nonexistent/chase.sock")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("no service answers") == 1


def test_a_step_costs_next_to_nothing():
    """The benchmark's own limit, with room for a busy machine: a step adds well under a microsecond."""
    bench = ROOT / "benchmarks" / "step_cost.py"
    done = subprocess.run(
        [sys.executable, str(bench), "--runs", "15", "--calls", "5000"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    line = next((line for line in done.stdout.splitlines() if line.startswith("a step adds ")), "")
    assert line, done.stderr
    assert float(line.split()[3]) < 1000
