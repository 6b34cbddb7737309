"""A launcher between a shell and a command: neither can tell that it is there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launch_harness import LAUNCHER, PATIENCE_S, launcher_env, process_state, until

PYTHON = sys.executable


@pytest.mark.parametrize("status", [0, 1, 2, 3, 75, 126, 127, 255])
def test_the_exit_status_is_the_commands(launch, status):
    """Whatever the command exits with, so does the launcher."""
    assert launch("sh", "-c", f"exit {status}").returncode == status


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGKILL", "SIGSEGV", "SIGABRT", "SIGUSR1", "SIGHUP", "SIGPIPE"])
def test_a_death_by_signal_is_repeated(launch, name):
    """Who waits for the launcher sees the signal that killed the command, not a number."""
    assert launch("sh", "-c", f"kill -{name[3:]} $$").returncode == -getattr(signal, name)


def test_a_real_time_signal_has_no_name_and_is_repeated_all_the_same(launch, daemon):
    """Numbers without a name are told as numbers."""
    signo = signal.SIGRTMIN + 3
    assert launch("sh", "-c", f"kill -{signo} $$").returncode == -signo
    (ended,) = daemon.ended.values()
    assert ended["reason"] == f"killed by signal {signo}"


def _made(directory: Path, kind: str) -> str:
    path = directory / kind
    if kind == "directory":
        path.mkdir()
    elif kind == "not executable":
        path.write_text("#!/bin/sh\nexit 0\n")
    elif kind == "bad interpreter":
        path.write_text("#!/no/such/interpreter\n")
        path.chmod(0o755)
    elif kind == "below a file":
        path.write_text("")
        path /= "below"
    return str(path)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("missing", 127),
        ("directory", 126),
        ("not executable", 126),
        ("bad interpreter", 126),
        ("below a file", 126),
    ],
)
def test_a_command_that_cannot_be_run_has_a_shells_status(launch, daemon, tmp_path, kind, status):
    """127 for what is not there and 126 for what cannot be run, with the reason, and no job for it."""
    command = _made(tmp_path, kind)
    done = launch(command)
    assert done.returncode == status
    assert done.stderr.startswith(f"chase: {command}: ")
    assert len(done.stderr.splitlines()) == 1
    assert not daemon.asked


def test_a_name_that_is_on_no_path_is_not_found(launch):
    """As a shell says it."""
    done = launch("no-such-command-anywhere")
    assert (done.returncode, done.stderr) == (127, "chase: no-such-command-anywhere: command not found\n")


def test_an_argument_with_a_zero_byte_is_refused_plainly(socket_path):
    """What no system call can carry is said, not raised."""
    code = "import sys; from chase.launch import run; sys.exit(run(['true', 'a\\0b']))"
    done = subprocess.run(
        [PYTHON, "-c", code], env=launcher_env(socket_path), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 126
    assert "cannot be run" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_script_without_a_first_line_is_the_shells(launch, tmp_path):
    """Every shell runs such a file itself; so do we, found by path and by name."""
    script = tmp_path / "plain-script"
    script.write_text('echo "$1 from $(basename "$0")"; exit 4\n')
    script.chmod(0o755)
    for command in (str(script), "plain-script"):
        done = launch(command, "hello", PATH=f"{tmp_path}:{os.environ['PATH']}")
        assert (done.returncode, done.stdout) == (4, "hello from plain-script\n")


def test_input_and_output_are_the_commands_own(launch):
    """Standard input and output pass untouched, without a line of ours on standard output."""
    text = "one\ntwo\n" * 5000
    done = launch("cat", stdin=text)
    assert done.stdout == text


def test_open_files_stay_open(socket_path):
    """Files that a shell opened for the command (``3<file``, ``<(...)``) reach it."""
    read, write = os.pipe()
    os.write(write, b"through the pipe\n")
    os.close(write)
    done = subprocess.run(
        [*LAUNCHER, "cat", f"/dev/fd/{read}"],
        env=launcher_env(socket_path),
        pass_fds=[read],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(read)
    assert done.stdout == "through the pipe\n"


def test_the_command_starts_as_from_a_shell(launch):
    """Same process group, no signal blocked, none ignored, and the job's three variables in its environment."""
    code = (
        "import os, json; s = dict(l.split(':', 1) for l in open('/proc/self/status'));"
        "print(json.dumps([os.getpgrp() == os.getpgid(os.getppid()), s['SigBlk'].strip(),"
        " [k for k in os.environ if k.startswith('CHASE_')]]))"
    )
    group, blocked, names = json.loads(launch(PYTHON, "-c", code).stdout)
    assert group
    assert int(blocked, 16) == 0
    assert sorted(names) == ["CHASE_JOB_DIR", "CHASE_JOB_ID", "CHASE_SOCKET"]
    ignored = launch("sh", "-c", "grep SigIgn /proc/self/status").stdout.split()[1]
    assert int(ignored, 16) & 0x7FFF_FFFF == 0  # above are two of the C library's own


def _recorder(status: int) -> str:
    """A command that says which signals it got, one a line, and exits when it got SIGTERM."""
    return f"""
import os, signal, sys
def got(signo, frame):
    print(signal.Signals(signo).name, flush=True)
    if signo == signal.SIGTERM:
        sys.exit({status})
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT"):
    signal.signal(getattr(signal, name), got)
print("ready", os.getpid(), flush=True)
while True:
    signal.pause()
"""


def test_signals_sent_to_the_launcher_reach_the_command(running):
    """Each signal is passed on once, in order, and the launcher outlives them as long as its command does."""
    process = running(PYTHON, "-c", _recorder(9))
    assert process.line().startswith("ready")
    for name in ("SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGINT"):
        os.kill(process.pid, getattr(signal, name))
        assert process.line() == name
    os.kill(process.pid, signal.SIGTERM)
    status, out, _ = process.end()
    assert (status, out) == (9, "SIGTERM\n")


def test_a_signal_that_the_command_does_not_handle_kills_both(running):
    """SIGTERM to the launcher of a plain command: the command dies of it, and the launcher shows that."""
    process = running("sh", "-c", "echo ready; exec sleep 600")
    assert process.line() == "ready"
    os.kill(process.pid, signal.SIGTERM)
    assert process.end()[0] == -signal.SIGTERM


def test_a_signal_before_the_command_is_up_is_not_lost(running):
    """A SIGTERM in the launcher's first moments still ends both."""
    for _ in range(5):
        process = running("sleep", "600")
        until(lambda process=process: _holds(process.pid, signal.SIGTERM), "the launcher holds its signals")
        os.kill(process.pid, signal.SIGTERM)
        assert process.end()[0] == -signal.SIGTERM


def _holds(pid: int, signo: int) -> bool:
    """Whether it blocks the signal, or is past that: the kernel shows none blocked while they are waited for."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    blocked = next(line.split()[1] for line in lines if line.startswith("SigBlk"))
    started = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return bool(int(blocked, 16) >> (signo - 1) & 1 or started)


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGQUIT"])
def test_what_was_ignored_stays_ignored(socket_path, name):
    """Under ``nohup``, or in a script's background, the signal reaches neither the launcher nor the command."""
    command = f"trap '' {name[3:]}; exec \"$@\""
    process = subprocess.Popen(
        ["sh", "-c", command, "sh", *LAUNCHER, "sh", "-c", f"kill -{name[3:]} $PPID; kill -{name[3:]} $$; exit 5"],
        env=launcher_env(socket_path),
        stderr=subprocess.DEVNULL,
    )
    assert process.wait(PATIENCE_S) == 5


def test_stop_and_continue_reach_the_command(running):
    """SIGTSTP to the launcher stops the command, and SIGCONT continues both."""
    process = running("sh", "-c", "echo $$; exec sleep 600")
    command = int(process.line())
    os.kill(process.pid, signal.SIGTSTP)
    until(lambda: process_state(command) == "T", "the command is stopped")
    os.kill(process.pid, signal.SIGCONT)
    until(lambda: process_state(command) == "S", "the command goes on")
    until(lambda: process_state(process.pid) == "S", "the launcher goes on")


def test_a_launcher_killed_outright_leaves_its_command_alone(running, daemon):
    """Kill -9: the command goes on, nothing ends the job, and no report comes any more: its lease will end."""
    code = """
import sys, time
from chase.client import Job
with Job("inner") as job:
    print("ready", flush=True)
    while True:
        job.step()
        time.sleep(0.01)
        print(job.units_done, flush=True)
"""
    process = running(PYTHON, "-c", code)
    assert process.line() == "ready"
    daemon.wait_for(lambda: daemon.jobs and daemon.only_job()["units_done"] > 0, "of steps")
    os.kill(process.pid, signal.SIGKILL)
    process.process.wait(PATIENCE_S)
    before = float(process.line())
    while float(process.line()) < before + 20:
        pass
    asked = len(daemon.asked)
    while float(process.line()) < before + 60:
        pass
    assert len(daemon.asked) == asked
    assert not daemon.ended


@pytest.mark.skipif(shutil.which("unshare") is None or os.getuid() != 0, reason="needs a process namespace")
def test_as_process_1_it_reaps_orphans_and_says_how_its_command_died(socket_path):
    """As a container's process 1 it leaves no zombie, and a death by signal is a status of 128 and more."""
    orphans = "for i in 1 2 3; do (sleep 0.01 &) ; done; sleep 0.2; ps -o stat= --ppid 1 | grep -c Z; kill -TERM $$"
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", *LAUNCHER, "sh", "-c", orphans],
        env=launcher_env(socket_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "unshare failed" in done.stderr:
        pytest.skip("this container may make no process namespace")
    assert (done.stdout.strip(), done.returncode) == ("0", 128 + signal.SIGTERM)


def test_without_a_command_there_is_nothing_to_run():
    """An empty command is the caller's mistake, said as one."""
    from chase.launch import run

    with pytest.raises(ValueError, match="no command"):
        run([])
