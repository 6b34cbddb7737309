"""At a terminal, under a shell with job control."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch_harness import LAUNCHER, PATIENCE_S, launcher_env, process_state, until

RECORDER = """
import os, signal, sys
def got(signo, frame):
    print("got", signal.Signals(signo).name, flush=True)
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), got)
print("ready", os.getpid(), os.isatty(0), os.tcgetpgrp(0) == os.getpgrp(), flush=True)
for line in sys.stdin:
    print("read", line.strip(), flush=True)
    if line.strip() == "end":
        sys.exit(6)
"""


class Terminal:
    """A person at a terminal: what is typed, what is shown, and what the shell says of its job."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.master, slave = pty.openpty()
        told, tell = os.pipe()
        wake, self._woken = os.pipe()
        shell = [sys.executable, str(Path(__file__).parent / "mini_shell.py"), *map(str, (slave, tell, wake))]
        self.shell = subprocess.Popen([*shell, *argv], pass_fds=[slave, tell, wake], env=env)
        for fd in (slave, tell, wake):
            os.close(fd)
        self._told = os.fdopen(told)
        self.shown = ""
        self._away = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while not self._away.is_set():
                if select.select([self.master], [], [], 0.02)[0]:
                    self.shown += os.read(self.master, 4096).decode(errors="replace").replace("\r", "")

    def see(self, text: str) -> None:
        until(lambda: text in self.shown, f"{text!r} in {self.shown!r}")

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def job(self) -> str:
        return self._told.readline().strip()

    def foreground(self) -> None:
        os.write(self._woken, b"fg\n")

    def command(self) -> int:
        """Its pid, once it is up."""
        return int(until(lambda: re.search(r"ready (\d+).*\n", self.shown), "the command is ready")[1])

    def hang_up(self) -> None:
        """Close the terminal's other end. A read in progress would hold it open."""
        if not self._away.is_set():
            self._away.set()
            self._reader.join(PATIENCE_S)
            os.close(self.master)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if not self._away.is_set() and (group := os.tcgetpgrp(self.master)) > 1:  # 0 is nobody, or us
                os.killpg(group, signal.SIGKILL)
        self.hang_up()
        self.shell.kill()
        self.shell.wait(PATIENCE_S)
        self._told.close()
        os.close(self._woken)


@pytest.fixture
def terminal(socket_path) -> Iterator[Terminal]:
    argv = [*LAUNCHER, sys.executable, "-c", RECORDER, "SIGINT", "SIGQUIT"]
    terminal = Terminal(argv, launcher_env(socket_path))
    yield terminal
    terminal.close()


def test_the_command_has_the_terminal(terminal):
    """It reads what is typed, in the foreground, and its status is the shell's."""
    terminal.see("True True")
    terminal.type("hello\n")
    terminal.see("read hello")
    terminal.type("end\n")
    assert terminal.job() == "exited 6"


def test_a_typed_interrupt_reaches_the_command_once(terminal):
    r"""Ctrl-C and Ctrl-\ go to the whole foreground group by the kernel, so the launcher adds none of its own."""
    terminal.command()
    terminal.type("\x03")
    terminal.see("got SIGINT")
    terminal.type("\x1c")
    terminal.see("got SIGQUIT")
    terminal.type("end\n")
    assert terminal.job() == "exited 6"
    assert terminal.shown.count("got SIGINT") == 1
    assert terminal.shown.count("got SIGQUIT") == 1


def test_a_typed_interrupt_ends_a_command_that_does_not_handle_it(socket_path):
    """The shell sees a job that died of SIGINT, as without a launcher."""
    terminal = Terminal([*LAUNCHER, "sh", "-c", "echo ready $$; exec sleep 600"], launcher_env(socket_path))
    try:
        terminal.command()
        terminal.type("\x03")
        assert terminal.job() == f"killed {int(signal.SIGINT)}"
    finally:
        terminal.close()


def test_suspending_stops_the_whole_job_and_resuming_continues_it(terminal):
    """Ctrl-Z: the shell gets its prompt, command and launcher are stopped; ``fg`` continues both, more than once."""
    command = terminal.command()
    launcher = parent(command)
    for turn in range(2):
        terminal.type("\x1a")
        assert terminal.job().startswith("stopped")
        assert {process_state(launcher), process_state(command)} == {"T"}
        terminal.foreground()
        until(lambda: process_state(command) == "S", "the command goes on")
        terminal.type(f"turn {turn}\n")
        terminal.see(f"read turn {turn}")
    terminal.type("end\n")
    assert terminal.job() == "exited 6"


def test_a_terminal_that_goes_away_takes_both_with_it(terminal):
    """A closed window or a lost connection hangs up the whole session: nothing is left behind."""
    command = terminal.command()
    launcher = parent(command)
    terminal.hang_up()
    for pid in (command, launcher):
        until(lambda pid=pid: process_state(pid) in {"", "Z"}, "it has ended")


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
