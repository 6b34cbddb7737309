"""``chase exec`` never stands between a person and their training, but for a mistake in its own options."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

_AS_NOBODY = """
import importlib, os, sys
from chase.cli import main
import chase.client.daemonlink
for name in main.entries: main.get_command(None, name)
os.setgid(65534); os.setuid(65534)
main(sys.argv[1:], prog_name="chase")
"""


def as_nobody(*args: object, **env: object) -> subprocess.CompletedProcess[str]:
    """The command by a user who owns nothing here."""
    environment = {**os.environ, **{key: str(value) for key, value in env.items()}}
    command = [sys.executable, "-c", _AS_NOBODY, *map(str, args)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def closed_socket():
    """A listening socket of another user."""
    with tempfile.TemporaryDirectory(prefix="chase-") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = Path(folder, "chase.sock")
        listener.bind(str(path))
        listener.listen(8)
        path.chmod(0o600)
        Path(folder).chmod(0o755)
        yield path


root_only = pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed to be refused")


@root_only
@pytest.mark.parametrize("by", ["variable", "flag"])
def test_exec_with_anothers_socket_says_so_in_one_line_and_runs(closed_socket, by):
    """A socket that may not be used costs the training nothing but a line on stderr."""
    flag = ["--socket", closed_socket] if by == "flag" else []
    done = as_nobody("exec", *flag, "--", "sh", "-c", "echo trained; exit 4", CHASE_SOCKET=closed_socket, TMPDIR="/tmp")
    assert (done.returncode, done.stdout) == (4, "trained\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"chase: {closed_socket}: not yours to use")


@root_only
@pytest.mark.parametrize("arguments", [["status"], ["jobs"], ["hold", "off"]], ids=" ".join)
def test_looking_through_anothers_socket_is_refused_in_plain_words(closed_socket, arguments):
    """It is no usage error, as the option was right: the rights are not there."""
    done = as_nobody(*arguments, CHASE_SOCKET=closed_socket)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {closed_socket}: not yours to use; ask to be put into")


@pytest.mark.parametrize("by", ["variable", "flag"])
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_socket_that_is_none_stops_a_look_and_no_training(chase, tmp_path, kind, by):
    """What is no socket is named as such: by ``status`` and ``hold`` with exit code 1, by ``exec`` on the way."""
    path = tmp_path / kind
    path.mkdir() if kind == "folder" else path.touch()
    flag = ["--socket", path] if by == "flag" else []
    env = {**os.environ, "CHASE_SOCKET": str(path)}
    for look in (["status"], ["hold", "off"]):
        done = chase(*look, *flag, env=env)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"Error: {path} is not a socket")
    done = chase("exec", *flag, "--", "sh", "-c", "echo trained; exit 4", env=env)
    assert (done.returncode, done.stdout) == (4, "trained\n")
    assert done.stderr.startswith(f"chase: {path} is not a socket")


@pytest.mark.parametrize(
    "arguments",
    [["--naem", "x", "--", "true"], ["--naem=x", "true"], ["-z", "true"], ["--name", "x", "--gpsu", "0", "true"]],
    ids=" ".join,
)
def test_an_unknown_option_before_the_command_is_a_usage_error(run, arguments):
    """A typing mistake is not taken for a command to run."""
    done = run("exec", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "No such option" in done.stderr


def test_an_unknown_option_gets_the_nearest_ones_name(run):
    """``--naem`` was meant to be ``--name``."""
    assert "'--name'" in run("exec", "--naem", "x", "--", "true").stderr


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["printf", "%s|", "--naem", "-z", "--"], "--naem|-z|--|"),
        (["--", "printf", "%s|", "--naem", "-z"], "--naem|-z|"),
        (["--name", "mine", "printf", "%s|", "--name", "other"], "--name|other|"),
        (["--name", "mine", "--", "printf", "%s|", "--", "--help"], "--|--help|"),
    ],
)
def test_every_option_after_the_command_is_the_commands(chase, arguments, printed):
    """What follows the first word that is no option of ours, or ``--``, reaches the command as it was typed."""
    done = chase("exec", *arguments)
    assert (done.returncode, done.stdout) == (0, printed)


def test_help_says_which_region_a_job_may_name(run):
    """Only the region that the service polls can be a job's."""
    assert "must be the region that the service polls" in " ".join(run("exec", "--help").stdout.split())


def test_exec_with_a_file_that_cannot_be_used_says_so_and_runs(tmp_path):
    """CHASE_CONFIG may be somebody's mistake; the training is not to pay for it."""
    path = tmp_path / "mine.toml"
    path.write_text("[servise]\n")
    environment = {**os.environ, "CHASE_CONFIG": str(path)}
    environment.pop("CHASE_SOCKET", None)
    command = [sys.executable, "-m", "chase", "exec", "--", sys.executable, "-c", "print(6 * 7)"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "42\n")
    assert f"{path}:1: servise" in done.stderr
    assert "the service is looked for in the usual places" in done.stderr
