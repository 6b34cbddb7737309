"""What docs/install.md says, checked against the commands, the units and the code."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT, examples, page, parsed

from chase.cli import main
from chase.config import load
from chase.unixhttp import SYSTEM_SOCKET, default_socket

PAGE = page("install.md")
DEPLOY = ROOT / "deploy"
UNITS = {path.name: path.read_text() for path in DEPLOY.glob("*.service")}


def commands(text: str) -> list[list[str]]:
    """Every call of chase: a line of an example, a command in a sentence, an Exec line of a unit."""
    lines = "\n".join(examples(text, "")).replace("\\\n", " ").splitlines()
    lines += re.findall(r"`([^`\n]+)`", text)
    lines += [line.partition("=")[2].lstrip("-") for line in text.splitlines() if line.startswith("Exec")]
    found = []
    for line in lines:
        words = shlex.split(line, comments=True)
        at = [index for index, word in enumerate(words) if word == "chase" or word.endswith("bin/chase")]
        calls = [words[index + 1 :] for index in at if index + 1 < len(words) and words[index + 1] in main.entries]
        found += calls[:1]
    return found


@pytest.mark.parametrize("args", [*commands(PAGE), *(call for text in UNITS.values() for call in commands(text))])
def test_every_command_of_the_page_and_the_units_is_one(args):
    """Its name and its options are those of the program."""
    parsed(args)


def test_the_page_has_commands():
    """What finds them finds something."""
    assert {"serve", "exec", "status", "doctor", "actuator", "restore"} <= {call[0] for call in commands(PAGE)}


@pytest.mark.parametrize("text", examples(PAGE, "toml"))
def test_the_service_files_load(text, tmp_path):
    """As they stand, and with what the page calls optional."""
    for variant in (text, text.replace("# socket_group", "socket_group"), f'{text}\nmode = "observe"\n'):
        path = tmp_path / "chase.toml"
        path.write_text(variant)
        load(service_file=path, env={"HOME": "/"})


def settings(unit: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in UNITS[unit].splitlines() if "=" in line and not line.startswith("#"))
    return {key: value for key, _, value in pairs}


def test_the_paths_of_the_page_are_those_of_the_units():
    """Program, user, configuration, secrets and folders are said once and meant everywhere."""
    service, actuator = settings("chase.service"), settings("chase-actuator.service")
    assert service["ExecStart"] == "/opt/chase/bin/chase serve --config /etc/chase/chase.toml"
    assert actuator["ExecStart"] == "/opt/chase/bin/chase actuator --user chase"
    assert actuator["ExecStopPost"] == "-/opt/chase/bin/chase restore --all"
    assert (service["User"], service["Group"]) == ("chase", "chase")
    assert service["EnvironmentFile"] == "-/etc/chase/secrets.env"
    assert "python3 -m venv /opt/chase" in PAGE
    assert "useradd --system --user-group" in PAGE
    for path in ("/etc/chase/chase.toml", "/etc/chase/secrets.env", "/var/lib/chase-actuator", "/run/chase"):
        assert path in PAGE


def test_the_folders_of_the_units_are_those_of_the_program():
    """The service manager makes what the actuator and the commands look for by default."""
    from chase.cli.actuator import actuator
    from chase.cli.restore import Places
    from chase.cli.where import SYSTEM_DB

    service, unit = settings("chase.service"), settings("chase-actuator.service")
    defaults = {option.name: option.default for option in actuator.params}
    run, state = Path("/run") / unit["RuntimeDirectory"], Path("/var/lib") / unit["StateDirectory"]
    assert defaults["socket_file"] == run / "actuator.sock"
    assert defaults["state_dir"] == state
    assert (Places().lock_dir, Places().state_dir) == (run / "locks", state)
    assert SYSTEM_SOCKET.parent == Path("/run") / service["RuntimeDirectory"]
    assert SYSTEM_DB.parent == Path("/var/lib") / service["StateDirectory"]


def test_containers_keep_the_folder_of_the_socket():
    """A runtime folder is deleted at each stop unless told, and a mount of it would keep the deleted one."""
    assert settings("chase.service")["RuntimeDirectoryPreserve"] == "yes"


def test_the_socket_is_found_as_the_page_says(tmp_path):
    """CHASE_SOCKET, then the system's, then one's own by XDG_RUNTIME_DIR or the home."""
    if SYSTEM_SOCKET.exists():
        pytest.skip("a service of the system runs here")
    assert default_socket({"CHASE_SOCKET": "/a/b.sock"}) == Path("/a/b.sock")
    assert default_socket({"HOME": str(tmp_path)}) == SYSTEM_SOCKET
    for env, place in (
        ({"XDG_RUNTIME_DIR": str(tmp_path / "xdg")}, "xdg/chase/chase.sock"),
        ({"HOME": str(tmp_path)}, ".local/state/chase/run/chase.sock"),
    ):
        path = tmp_path / place
        path.parent.mkdir(parents=True)
        path.touch()
        assert default_socket(env) == path


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_understands_the_units(tmp_path):
    """``systemd-analyze verify`` finds nothing, with a program in the place of ours."""
    for name, text in UNITS.items():
        (tmp_path / name).write_text(text.replace("/opt/chase/bin/chase", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", *(str(tmp_path / name) for name in UNITS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if "chase" in line] == []
