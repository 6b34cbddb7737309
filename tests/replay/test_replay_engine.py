"""Engines by their names, and their workers' ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from farm_engines import alive, wait_until
from farm_tasks import double, notes_pid_and_waits

from chase.errors import ConfigError, TryLater
from chase.replay import engine as engines
from chase.replay.engine import Inline, Processes, engine_of

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def test_an_engine_is_named_by_a_word():
    """Processes as many as there are cores or as many as it says, or this process."""
    assert isinstance(engine_of("inline"), Inline)
    assert isinstance(engine_of("processes"), Processes)
    assert engine_of("processes").workers >= 1
    assert engine_of("processes:3").workers == 3


@pytest.mark.parametrize(
    "spec",
    ["", "threads", "processes:", "processes:0", "processes:-1", "processes:two", "processes:99999", "ray://x:1"],
)
def test_an_unknown_engine_is_refused(spec):
    """With what may be written in its place."""
    with pytest.raises(ConfigError, match="write 'processes', 'processes:4', 'dask://HOST:PORT' or 'inline'"):
        engine_of(spec)


def test_dask_that_is_not_installed_is_told_with_the_fix(monkeypatch):
    """The extra is named."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ConfigError, match=r"pip install 'carbon-chase\[cluster\]'"):
        engine_of("dask://127.0.0.1:8786")


def test_a_scheduler_that_is_not_there_is_told_with_the_fix():
    """How to start one, and the exit code for a later try."""
    pytest.importorskip("distributed")
    with pytest.raises(TryLater, match=r"no Dask scheduler answers at 127.0.0.1:1: start one with 'dask scheduler"):
        engine_of("dask://127.0.0.1:1", connect_s=0.2)


@pytest.mark.parametrize("address", ["", "nonsense", ":8786", "127.0.0.1:port", "127.0.0.1:0", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(address):
    """Before Dask is asked what it makes of it."""
    with pytest.raises(ConfigError, match=rf"engine 'dask://{address}': '{address}' is not HOST:PORT"):
        engine_of(f"dask://{address}")


def test_a_machine_too_busy_to_begin_with_dask_is_told_to_try_later(monkeypatch):
    """Its client's loop gives up after ten seconds, with an assertion."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "Client", _asserts)
    with pytest.raises(TryLater, match="no Dask scheduler answers"):
        engine_of("dask://127.0.0.1:8786")


def _asserts(*_, **__):
    raise AssertionError


def test_processes_start_with_the_first_task_and_again_after_a_death():
    """A pool that is broken is put in place anew."""
    with Processes(1) as engine:
        assert engine.submit(double, 1).result() == 2
        with pytest.raises(engine.deaths):
            engine.submit(os._exit, 3).result()
        assert engine.submit(double, 2).result() == 4


def test_an_error_ends_workers_in_the_midst_of_a_task(tmp_path):
    """Leaving by an exception, such as Ctrl-C, waits for nobody."""
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path, 2)
    assert not any(alive(int(path.name)) for path in tmp_path.iterdir())


def interrupted(folder, workers, then=lambda _: None):
    with Processes(workers) as engine:
        for _ in range(workers):
            engine.submit(notes_pid_and_waits, str(folder))
        wait_until(lambda: len(list(folder.iterdir())) == workers)
        then(int(next(folder.iterdir()).name))
        raise KeyboardInterrupt


def test_ctrl_c_does_not_reach_workers(tmp_path):
    """What becomes of them is said by the process that they work for."""
    ignored = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path, 1, lambda worker: ignored.extend(_ignored(worker)))
    assert signal.SIGINT in ignored


def _ignored(pid):
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn"))
    mask = int(line.split()[1], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


ORPHANING = """
import sys
from farm_tasks import notes_pid_and_waits
from chase.replay.engine import Processes
if __name__ == "__main__":
    with Processes(2) as engine:
        futures = [engine.submit(notes_pid_and_waits, sys.argv[1]) for _ in range(2)]
        futures[0].result()
"""


def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    """Though they are in the midst of something and nobody told them."""
    script, folder = tmp_path / "orphaning.py", tmp_path / "pids"
    script.write_text(ORPHANING)
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)])}
    parent = subprocess.Popen([sys.executable, script, folder], env=environment, stderr=subprocess.DEVNULL)
    wait_until(lambda: len(list(folder.iterdir())) == 2)
    workers = [int(path.name) for path in folder.iterdir()]
    parent.kill()
    parent.wait()
    wait_until(lambda: not any(map(alive, workers)))


def test_the_engine_is_imported_without_dask():
    """It is an extra, loaded when an engine of that kind is asked for."""
    code = "import sys, chase.replay.engine; print([name for name in ('dask', 'distributed') if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert shown.stdout == "[]\n"
    assert engines.Dask.tries == 1
