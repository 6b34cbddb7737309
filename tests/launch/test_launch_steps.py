"""Optimizer steps counted from outside: in whatever Python the command runs, and no concern of the training's.

Most run on ``a_little_torch``: a package of two modules with torch's names, since what is tested is the way in. Those
named after torch run on torch itself.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from launch_harness import until

from chase.client.messages import Terms
from chase.launch.handover import Count, Handover
from chase.launch.launcher import instrumented

PYTHON = sys.executable
UNITS = "optimizer steps"
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
OPTIMIZER = """
_hooks = []
def register_optimizer_step_post_hook(hook):
    _hooks.append(hook)
class Optimizer:
    def step(self):
        for hook in _hooks:
            hook(self, (), {})
"""


@pytest.fixture
def a_little_torch(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH in which something is called torch."""
    package = tmp_path / "lib/torch/optim"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("from torch.optim.optimizer import Optimizer\n")
    (package / "optimizer.py").write_text(OPTIMIZER)
    return package.parents[1]


@pytest.fixture
def counted(launch, daemon, a_little_torch):
    """Run a script under the launcher; what the service was told at the end, and what was printed."""

    def run(script: str, *flags: str, **env: object):
        root = Path(__file__).parents[2]
        path = os.pathsep.join((str(a_little_torch), str(env.pop("before", "")), str(root)))
        done = launch(PYTHON, *flags, "-c", textwrap.dedent(script), PYTHONPATH=path, **env)
        ended = list(daemon.ended.values())
        return (ended[-1]["units"], ended[-1]["units_done"]), done

    return run


def test_each_step_counts_once(counted):
    """Also those of the last second; what the command prints is its own."""
    said, done = counted(
        "from torch.optim import Optimizer\no = Optimizer()\nfor _ in range(250): o.step()\nprint('hi')"
    )
    assert said == (UNITS, 250.0)
    assert done.stdout == "hi\n"


def test_of_several_optimizers_the_one_that_steps_most(counted):
    """A generator and a discriminator make one training."""
    said, _ = counted("""
        from torch.optim import Optimizer
        one, two = Optimizer(), Optimizer()
        for i in range(100):
            one.step()
            if i % 2: two.step()
    """)
    assert said == (UNITS, 100.0)


@pytest.mark.parametrize("first", ["steps", "job"])
def test_a_process_that_counts_by_itself_silences_it(counted, first):
    """Whichever came first: its own units count, and nothing twice."""
    said, _ = counted(f"""
        import time
        from torch.optim import Optimizer
        from chase.client import Job
        o = Optimizer()
        if {first == "steps"}:
            for _ in range(500): o.step()
            time.sleep(0.4)
        with Job("mine", units="samples") as job:
            for _ in range(10):
                o.step()
                job.step(32)
    """)
    assert said == ("samples", 320.0)


def test_a_job_in_another_process_goes_before(counted, a_little_torch):
    """One that counts by itself speaks for all."""
    said, _ = counted("""
        import subprocess, sys
        from torch.optim import Optimizer
        from chase.client import Job
        o = Optimizer()
        for _ in range(7): o.step()
        script = "from chase.client import Job\\nwith Job('x', units='tokens') as job: job.step(99)"
        subprocess.run([sys.executable, "-c", script], check=True)
    """)
    assert said == ("tokens", 99.0)


def test_commands_of_a_script_add_up(launch, daemon, a_little_torch):
    """As counts of a job do."""
    script = "from torch.optim import Optimizer\no = Optimizer()\nfor _ in range(20): o.step()"
    path = os.pathsep.join((str(a_little_torch), str(Path(__file__).parents[2])))
    done = launch("sh", "-c", f'{PYTHON} -c "$S" && {PYTHON} -c "$S"', S=script, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    (ended,) = daemon.ended.values()
    assert (ended["units"], ended["units_done"]) == (UNITS, 40.0)


@pytest.mark.parametrize("rank", ["LOCAL_RANK", "SLURM_LOCALID"])
def test_only_the_first_rank_of_a_node_counts(counted, rank):
    """All ranks make the same step."""
    said, _ = counted("from torch.optim import Optimizer\nOptimizer().step()", **{rank: "1"})
    assert said == ("steps", 0.0)


@pytest.mark.parametrize(("flags", "env"), [((), {"CHASE_INSTRUMENT": "0"}), (("-S",), {})])
def test_it_can_be_turned_off(counted, flags, env):
    """By its owner, or by Python's own flags: then nothing is counted, and nothing is wrong."""
    said, done = counted("import os, sys; print('_chase_steps' in sys.modules)", *flags, **env)
    assert said == ("steps", 0.0)
    assert (done.stdout, done.returncode) == ("False\n", 0)


def test_the_users_own_sitecustomize_still_runs(counted, tmp_path):
    """Ours goes on to it, and is out of the way."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own/sitecustomize.py").write_text("import sys\nsys.mine = 'here'\n")
    script = (
        "import sys, sitecustomize; print(sys.mine, 'own' in sitecustomize.__file__, '_chase_steps' in sys.modules)"
    )
    _, done = counted(script, before=tmp_path / "own")
    assert done.stdout == "here True True\n"


def test_a_sitecustomize_that_fails_fails_as_it_would(counted, tmp_path):
    """Python says so and goes on."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own/sitecustomize.py").write_text("raise RuntimeError('mine')\n")
    script = "from torch.optim import Optimizer\nOptimizer().step()\nprint('on')"
    said, done = counted(script, before=tmp_path / "own")
    assert (done.stdout, said) == ("on\n", (UNITS, 1.0))
    assert "RuntimeError: mine" in done.stderr


@pytest.mark.parametrize(
    "broken",
    ["raise ValueError('broken')", "def register_optimizer_step_post_hook(hook): raise TypeError", "x = 1"],
)
def test_a_torch_that_is_otherwise_is_left_alone(counted, a_little_torch, broken):
    """What it raises is what the training sees, and nothing of ours is."""
    (a_little_torch / "torch/optim/optimizer.py").write_text(broken + "\nclass Optimizer: pass\n")
    _, done = counted("""
        try:
            import torch.optim
        except ValueError as error:
            print(error)
        else:
            print("on")
    """)
    assert done.stdout == ("broken\n" if "broken" in broken else "on\n")
    assert all(line.startswith("chase: ") for line in done.stderr.splitlines())


def test_a_forked_child_counts_for_nobody(counted):
    """A worker of a data loader has the hook and makes no step of the training."""
    said, _ = counted("""
        import os
        from torch.optim import Optimizer
        o = Optimizer()
        for _ in range(3): o.step()
        pid = os.fork()
        if pid == 0:
            for _ in range(1000): o.step()
            os._exit(0)
        os.waitpid(pid, 0)
    """)
    assert said == (UNITS, 3.0)


def test_a_launcher_that_is_gone_hurts_nobody(tmp_path, a_little_torch):
    """Its folder is not there any more, and the training goes on."""
    env = instrumented({**os.environ, "PYTHONPATH": str(a_little_torch), "CHASE_JOB_DIR": str(tmp_path / "gone")})
    script = "from torch.optim import Optimizer\no = Optimizer()\nfor _ in range(9): o.step()\nprint('done')"
    done = subprocess.run([PYTHON, "-c", script], env=env, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_what_a_killed_process_had_written_is_kept(running, daemon, a_little_torch):
    """A count that is at most a second old."""
    script = """if True:
        import os, signal, sys, time
        from torch.optim import Optimizer
        o = Optimizer()
        for _ in range(12): o.step()
        where = os.environ["CHASE_JOB_DIR"]
        while not any(name[0] != "." for name in os.listdir(where) if name.endswith(".steps.json")): time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    path = os.pathsep.join((str(a_little_torch), str(Path(__file__).parents[2])))
    running(PYTHON, "-c", script, PYTHONPATH=path).process.wait(30)
    until(lambda: daemon.ended, "the end was told")
    (ended,) = daemon.ended.values()
    assert ended["units_done"] >= 1.0
    assert ended["reason"] == "killed by SIGKILL"


def test_what_lies_in_the_folder_is_checked(tmp_path):
    """Whoever wrote it: a count that cannot be true is none."""
    handover = Handover(tmp_path)
    (tmp_path / "1-1.steps.json").write_text('{"units": "steps", "units_done": -5}')
    (tmp_path / "2-1.steps.json").write_text("[1, 2")
    assert handover.gather().units_done == 0.0
    (tmp_path / "3-1.steps.json").write_text('{"units": "steps", "units_done": 5}')
    count = handover.gather()
    assert (count.units_done, count.terms) == (5.0, Terms("steps"))


@pytest.mark.parametrize(
    ("runs", "done"),
    [
        ([(10, 0, 5)], 10),
        ([(10, 0, 5), (20, 6, 9)], 30),  # commands of a script
        ([(10, 0, 5), (12, 0.1, 5.5)], 12),  # ranks of torch.multiprocessing.spawn
        ([(10, 0, 5), (10, 0.1, 5), (7, 6, 9), (8, 6.1, 9)], 18),  # and two such trainings
        ([(10, 0, 9), (2, 1, 2), (3, 4, 5)], 10),  # short ones beside a long one
    ],
)
def test_processes_at_the_same_time_are_one_training(tmp_path, runs, done):
    """And those one after the other are two."""
    for index, (count, from_s, until_s) in enumerate(runs):
        said = {"units": UNITS, "units_done": count, "from_s": from_s, "until_s": until_s}
        (tmp_path / f"{index}-1.steps.json").write_text(json.dumps(said))
    assert Handover(tmp_path).gather() == Count(done, Terms(UNITS))


REAL = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters())
for i in range(30):
    model(torch.ones(8, 4)).sum().backward()
    if i % 3 == 2:
        optimizer.step()
        optimizer.zero_grad()
"""


@needs_torch
@pytest.mark.slow
def test_torch_itself_with_accumulation(launch, daemon):
    """Three microbatches are one step."""
    done = launch(PYTHON, "-c", REAL, OMP_NUM_THREADS=1)
    assert done.returncode == 0, done.stderr
    (ended,) = daemon.ended.values()
    assert (ended["units"], ended["units_done"]) == (UNITS, 10.0)


COMPILED = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
step = torch.compile(optimizer.step, backend="aot_eager")
for _ in range(3):
    model(torch.ones(8, 4)).sum().backward()
    step()
"""


@needs_torch
@pytest.mark.slow
def test_a_compiled_step_is_counted_and_warns_of_nothing(launch, daemon):
    """The compiler goes around our hook, and says no more than it says without it."""
    env = {"OMP_NUM_THREADS": 1, "TORCH_LOGS": "-all"}
    done = launch(PYTHON, "-c", COMPILED, **env)
    assert done.returncode == 0, done.stderr
    (ended,) = daemon.ended.values()
    assert ended["units_done"] == 3.0
    assert "sitecustomize" not in done.stderr
    bare = launch(PYTHON, "-c", COMPILED, CHASE_INSTRUMENT=0, **env)
    assert done.stderr.count("Warning") == bare.stderr.count("Warning")


@needs_torch
@pytest.mark.slow
def test_torchrun_counts_one_rank(launch, daemon, tmp_path):
    """Two ranks of gloo make ten steps together, not twenty."""
    script = tmp_path / "train.py"
    ranks = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
    script.write_text(ranks + REAL + "dist.destroy_process_group()\n")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = launch(PYTHON, *torchrun, str(script), OMP_NUM_THREADS=1)
    assert done.returncode == 0, done.stderr
    (ended,) = daemon.ended.values()
    assert ended["units_done"] == 10.0
