"""What the service, the command and the person see of a launched job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from daemon_peer import UUIDS, PeerDaemon
from launch_harness import LAUNCHER, ROOT, launcher_env, until

from chase.launch import job_name

PYTHON = sys.executable
TRAIN = """
import os, sys, time
from chase.client import Job
with Job("inner", units="samples", total_units=4096, profile="a40-bert", policy={"eta": 0.9}) as job:
    for _ in range(8):
        job.step(32)
    print(job.id, os.getpid(), flush=True)
"""
WAIT_FOR_LIMIT = """
import sys, time
from chase.client import Job
with Job("inner") as job:
    print("ready", flush=True)
    for watts in map(float, sys.argv[1:]):
        while job.setting.power_limit_w != watts:
            job.step()
            time.sleep(0.005)
        print(job.mode, watts, job.connected, flush=True)
"""


def test_the_command_is_one_job_with_the_launchers_gpus_and_the_commands_pid(launch, daemon):
    """One registration by the launcher, with the GPUs of the environment; the process inside registers none."""
    done = launch(PYTHON, "-c", TRAIN, CUDA_VISIBLE_DEVICES="1")
    job_id, pid = done.stdout.split()
    assert list(daemon.ended) == [job_id]
    assert {asked.body["id"] for asked in daemon.asked if asked.path == "/v1/jobs"} == {job_id}
    first = next(asked.body for asked in daemon.asked if asked.path == "/v1/jobs")
    assert (first["gpus"], first["pid"]) == ([UUIDS[1]], int(pid))


def test_units_of_the_process_inside_are_the_jobs(launch, daemon):
    """What the command counts is reported once, with what it says of itself."""
    done = launch(PYTHON, "-c", TRAIN)
    (ended,) = daemon.ended.values()
    assert (ended["units_done"], ended["units"], ended["total_units"]) == (256.0, "samples", 4096.0), done.stderr
    assert (ended["profile"], ended["policy"]) == ("a40-bert", {"eta": 0.9})


def test_processes_one_after_another_add_up(launch, daemon):
    """A script that runs two trainings has done the work of both; a count never falls."""
    launch("sh", "-c", f'{PYTHON} -c "$TRAIN" && {PYTHON} -c "$TRAIN"', TRAIN=TRAIN)
    (ended,) = daemon.ended.values()
    assert ended["units_done"] == 512.0
    told = [asked.body["units_done"] for asked in daemon.asked if "units_done" in asked.body]
    assert told == sorted(told)


def test_ranks_of_a_job_count_once(launch, daemon):
    """Of several ranks inside, local rank 0 counts."""
    ranks = " & ".join(f'LOCAL_RANK={rank} {PYTHON} -c "$TRAIN"' for rank in range(3))
    launch("sh", "-c", f"{ranks} & wait", TRAIN=TRAIN)
    (ended,) = daemon.ended.values()
    assert ended["units_done"] == 256.0


def test_flags_go_before_what_the_command_says(socket_path, daemon):
    """The person at the launcher has the last word, but for the unit, which only the command knows."""
    code = (
        "import sys; from chase.launch import run; from chase.client.messages import Terms;"
        "sys.exit(run(sys.argv[1:], name='mine', gpus=['GPU-2222'],"
        " terms=Terms(units='tokens', total_units=9, policy={'eta': 0.1})))"
    )
    subprocess.run([PYTHON, "-c", code, PYTHON, "-c", TRAIN], env=launcher_env(socket_path), check=True, timeout=60)
    (ended,) = daemon.ended.values()
    assert (ended["name"], ended["gpus"], ended["total_units"]) == ("mine", [UUIDS[1]], 9.0)
    assert (ended["policy"], ended["profile"], ended["units"]) == ({"eta": 0.1}, "a40-bert", "samples")


def test_a_command_that_counts_nothing_is_a_job_all_the_same(launch, daemon):
    """Any command can be launched: its units stay 0."""
    launch("true")
    (ended,) = daemon.ended.values()
    assert (ended["units_done"], ended["units"], ended["name"]) == (0.0, "steps", "true")


def test_the_setting_reaches_the_process_inside_as_it_changes(running, daemon):
    """The command reads each setting that the service asks for, through the launcher."""
    process = running(PYTHON, "-c", WAIT_FOR_LIMIT, "150", "250")
    assert process.line() == "ready"
    daemon.mode, daemon.setting = "efficiency-first", {"power_limit_w": 150}
    assert process.line() == "efficiency-first 150.0 True"
    daemon.mode, daemon.setting = "speed-first", {"power_limit_w": 250}
    assert process.line() == "speed-first 250.0 True"
    assert process.end()[0] == 0


def test_the_end_is_summed_up_on_stderr(launch, daemon):
    """Joules, grams, time, slowdown, the saving and of what, and where to look further."""
    done = launch(PYTHON, "-c", TRAIN)
    (job_id,) = daemon.ended
    cost, saving, why = done.stderr.splitlines()
    assert cost == "chase: job inner: 1,200 samples in 4 min 10 s, 71.3 kJ (counter), 4.12 g CO2eq"
    assert saving.startswith("chase: against the same 1,200 samples at full power (83 kJ, 4.8 g CO2eq): ")
    assert saving.endswith(": 14.1 % less energy, 14.2 % less carbon, 6.2 % slower")
    assert why == f"chase: more: chase report {job_id}; why: chase decisions --job {job_id}"


@pytest.mark.parametrize(
    ("flag", "code", "expected"),
    [("mine", TRAIN, "mine"), (None, TRAIN, "inner"), (None, "pass", "python"), ("mine", "pass", "mine")],
)
def test_the_flag_then_the_job_then_the_command_says_the_name(socket_path, daemon, flag, code, expected):
    """A name that the launcher was given wins, then that of the command's ``Job``, then the command's own."""
    launcher = f"import sys; from chase.launch import run; sys.exit(run(sys.argv[1:], name={flag!r}))"
    command = [PYTHON, "-c", launcher, PYTHON, "-c", code]
    done = subprocess.run(
        command, env=launcher_env(socket_path), capture_output=True, text=True, timeout=60, check=True
    )
    (ended,) = daemon.ended.values()
    assert ended["name"] == expected
    assert done.stderr.startswith(f"chase: job {expected}: ")


def test_of_several_jobs_inside_the_first_gives_its_name(launch, daemon):
    """Two trainings of one command are one job, and the first of them has named it."""
    second = TRAIN.replace('"inner"', '"second"')
    launch("sh", "-c", f'{PYTHON} -c "$FIRST" && {PYTHON} -c "$SECOND"', FIRST=TRAIN, SECOND=second)
    (ended,) = daemon.ended.values()
    assert (ended["name"], ended["units_done"]) == ("inner", 512.0)


@pytest.mark.parametrize("listed", [None, UUIDS[0]])
@pytest.mark.parametrize(("simulated", "said"), [(True, True), (False, False), (None, False)])
def test_the_summary_says_that_its_gpus_are_simulated(launch, daemon, listed, simulated, said):
    """Figures of GPUs that do not exist are marked as such, however the GPUs were named; real ones are not."""
    daemon.simulated = simulated
    done = launch("true", **({} if listed is None else {"CHASE_JOB_GPUS": listed}))
    name = "true (simulated GPUs)" if said else "true"
    assert done.stderr.startswith(f"chase: job {name}: 1,200 steps")


def test_the_summary_names_the_units_that_the_service_counted(launch, daemon):
    """A command that counts nothing may have been counted by another thing than the steps it was registered with."""
    daemon.summary = daemon.summary | {"counted_in": "Gcycles of the SM clock"}
    assert launch("true").stderr.startswith("chase: job true: 1,200 Gcycles of the SM clock in 4 min 10 s")


def test_a_service_without_a_summary_is_said(launch, daemon):
    """Where the service gives none, one line says where to look."""
    daemon.summary = None
    done = launch("true")
    (job_id,) = daemon.ended
    assert done.stderr == f"chase: job true: the service gave no summary; see chase decisions --job {job_id}\n"


@pytest.mark.parametrize(
    ("script", "reason"),
    [("exit 0", "done"), ("exit 3", "failed: exit status 3"), ("kill -TERM $$", "killed by SIGTERM")],
)
def test_the_service_learns_how_the_command_ended(launch, daemon, script, reason):
    """Done, failed with a status, or killed by a signal."""
    launch("sh", "-c", script)
    (ended,) = daemon.ended.values()
    assert ended["reason"] == reason


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        ("raise OutOfMemoryError('20 GiB')", "failed: exit status 1 (OutOfMemoryError)"),
        ("raise SystemExit(3)", "failed: exit status 3 (SystemExit)"),
        ("raise SystemExit(0)", "done"),
    ],
)
def test_and_by_which_error_of_the_job_inside(launch, daemon, last, reason):
    """A status alone does not tell that the memory was too small: a recurring job would try the next larger size."""
    lines = (
        "from chase.client import Job",
        "class OutOfMemoryError(RuntimeError): ...",
        "with Job('inner'):",
        f"    {last}",
    )
    launch(PYTHON, "-c", "\n".join(lines))
    (ended,) = daemon.ended.values()
    assert ended["reason"] == reason


def test_without_a_service_one_line_says_so_and_the_command_runs(launch, socket_path):
    """No service: the command's output and status as ever, one line on stderr that says what is missing."""
    done = launch(PYTHON, "-c", TRAIN + "\nsys.exit(5)")
    assert (done.returncode, len(done.stdout.split())) == (5, 2)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"chase: no service answers at {socket_path}; ")
    assert line.endswith("; the training goes on without it")


@pytest.mark.parametrize("kind", ["directory", "file", "closed directory"])
def test_a_socket_that_cannot_be_one_is_said_and_the_command_runs(launch, tmp_path, kind):
    """Whatever ``CHASE_SOCKET`` points to, one line says what is wrong with it, and the training runs."""
    path = tmp_path / "there"
    path.touch() if kind == "file" else path.mkdir(0 if kind == "closed directory" else 0o755)
    done = launch("sh", "-c", "echo trained; exit 5", CHASE_SOCKET=path)
    assert (done.returncode, done.stdout) == (5, "trained\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"chase: {path} is not a socket; ")


def test_a_service_that_comes_up_later_gets_the_job(running, socket_path):
    """The launcher goes on looking, and registers with all that was counted until then."""
    process = running(PYTHON, "-c", WAIT_FOR_LIMIT, "150")
    assert process.line() == "ready"
    time.sleep(0.2)
    peer = PeerDaemon(socket_path, report_s=0.1, mode="efficiency-first", setting={"power_limit_w": 150})
    with peer.running():
        assert process.line() == "efficiency-first 150.0 True"
        assert process.end()[0] == 0
        (ended,) = peer.ended.values()
        assert ended["units_done"] > 0


def test_a_service_that_is_started_anew_gets_the_job_again(running, daemon):
    """The same job, the same count, and the setting reaches the command again."""
    process = running(PYTHON, "-c", WAIT_FOR_LIMIT, "150", "120")
    assert process.line() == "ready"
    daemon.setting = {"power_limit_w": 150}
    assert process.line().startswith("speed-first 150")
    first = daemon.only_job()["id"]
    daemon.restart()
    daemon.setting = {"power_limit_w": 120}
    assert process.line() == "speed-first 120.0 True"
    assert daemon.only_job()["id"] == first
    assert process.end()[0] == 0


@pytest.mark.parametrize("trouble", ["silent", "garbage", "error"])
def test_a_service_in_trouble_neither_delays_nor_changes_the_command(launch, daemon, trouble):
    """Hung or wrong, the service costs at most the two seconds of the end."""
    daemon.trouble = trouble
    began_s = time.monotonic()
    done = launch("sh", "-c", "echo $$; exit 7")
    assert done.returncode == 7
    assert time.monotonic() - began_s < 8
    assert "Traceback" not in done.stderr


def test_the_command_starts_before_the_service_answers(running, daemon):
    """A hung service does not hold up the start of the training."""
    daemon.trouble = "silent"
    process = running("sh", "-c", "echo up; read x")
    assert process.line() == "up"


def test_a_launcher_inside_a_launched_job_makes_no_second_one(launch, daemon):
    """The outer launcher has the job; the inner one only runs its command, and the count arrives."""
    launcher = "import sys; from chase.launch import run; sys.exit(run(sys.argv[1:]))"
    done = launch(PYTHON, "-c", launcher, PYTHON, "-c", TRAIN)
    assert done.returncode == 0
    (ended,) = daemon.ended.values()
    assert ended["units_done"] == 256.0


def test_nothing_is_left_behind(launch, daemon, tmp_path):
    """The job's own files are gone at the end, after a normal end and after a death by signal."""
    for script in ("exit 0", "kill -TERM $$"):
        launch("sh", "-c", script, TMPDIR=tmp_path, XDG_RUNTIME_DIR="")
    assert list(tmp_path.iterdir()) == []


def test_no_room_for_files_is_no_reason_not_to_run(socket_path, daemon):
    """Where no temporary file can be made the command runs, and the service has the job without its count."""
    code = """
import sys
from chase.launch import handover, launcher as launch
def full(env):
    raise OSError(28, "No space left on device")
handover.Handover.create = full
sys.exit(launch.run(sys.argv[1:]))
"""
    command = [PYTHON, "-c", code, "sh", "-c", "exit 4"]
    done = subprocess.run(
        command, env=launcher_env(socket_path), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 4
    assert "No space left on device" in done.stderr
    assert len(daemon.ended) == 1


def test_a_closed_stderr_changes_nothing(socket_path, daemon):
    """A launcher that cannot speak still runs its command and reports it."""
    command = ["sh", "-c", 'exec 2>&-; exec "$@"', "sh", *LAUNCHER, "sh", "-c", "exit 3"]
    done = subprocess.run(command, env=launcher_env(socket_path), timeout=60, check=False)
    assert done.returncode == 3
    assert len(daemon.ended) == 1


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["python", "train.py", "--lr", "1"], "train.py"),
        (["/usr/bin/python3", "-u", "/home/me/train.py"], "train.py"),
        (["torchrun", "--nproc-per-node", "4", "src/train.py"], "train.py"),
        (["python", "-m", "my.training"], "my.training"),
        (["./run.sh", "x"], "run.sh"),
        (["make"], "make"),
        (["python", "-m"], "python"),
        (["/"], "/"),
        (["x" * 300], "x" * 200),
    ],
)
def test_a_job_is_named_as_a_person_would(argv, name):
    """The script or module, else the command, within what the service takes."""
    assert job_name(argv) == name


def test_busy_shows_the_setting_as_it_changes(running, daemon):
    """The example prints each change that reaches it, and counts its steps."""
    process = running(PYTHON, str(ROOT / "examples" / "busy.py"), "--seconds", "30", "--step-ms", "2")
    assert "speed-first" in process.line()
    daemon.mode, daemon.setting, daemon.reason = "efficiency-first", {"power_limit_w": 150}, "the grid is dirty"
    line = process.line()
    assert "150 W" in line
    assert "efficiency-first" in line
    daemon.wait_for(lambda: daemon.only_job()["units_done"] > 0, "of steps")
    os.kill(process.pid, signal.SIGTERM)
    process.end()
    (ended,) = daemon.ended.values()
    assert ended["name"] == "busy"
    assert ended["units_done"] > 0


def test_busy_prints_no_empty_brackets(running, daemon):
    """A setting that comes without a reason is shown alone."""
    daemon.mode, daemon.reason = "off", ""
    process = running(PYTHON, str(ROOT / "examples" / "busy.py"), "--seconds", "30", "--step-ms", "2")
    assert process.line().endswith(" off: as found")
    os.kill(process.pid, signal.SIGTERM)
    process.end()


def test_busy_does_its_steps_without_a_service(launch):
    """The example runs alone, and says how much it did."""
    done = launch(PYTHON, str(ROOT / "examples" / "busy.py"), "--steps", "20", "--step-ms", "1")
    assert done.returncode == 0
    assert "20 steps" in done.stdout


def test_torch_trains_under_the_launcher(launch, daemon):
    """A real PyTorch loop, unchanged but for the client, reports its samples and learns."""
    pytest.importorskip("torch")
    done = launch(PYTHON, str(ROOT / "examples" / "torch_train.py"), "--epochs", "2", "--samples", "512")
    assert done.returncode == 0, done.stderr
    (ended,) = daemon.ended.values()
    assert (ended["units"], ended["units_done"], ended["total_units"]) == ("samples", 1024.0, 1024.0)
    losses = [float(line.split("loss ")[1].split()[0]) for line in done.stdout.splitlines() if "loss " in line]
    assert losses[-1] < losses[0]


def test_the_directory_is_in_the_users_run_directory(running, daemon):
    """Where there is one, the job's files lie in memory and go with the session."""
    with tempfile.TemporaryDirectory() as run_dir:
        process = running("sh", "-c", "echo $CHASE_JOB_DIR; read x", XDG_RUNTIME_DIR=run_dir)
        assert Path(process.line()).parent == Path(run_dir)
        process.end()
        until(lambda: not list(Path(run_dir).iterdir()), "the job's files are gone")
