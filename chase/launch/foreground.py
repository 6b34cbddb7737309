"""Run one command in our own place: same terminal, same process group, same open files, same end.

Whoever started us meets the command as if we were not there. The rules, all of them about one process in between:

- A signal sent to us is passed on. One that was typed at the terminal is not: the kernel has given it to the whole
  foreground group, so the command has it already. A sender that signals the whole group reaches the command twice.
- Signals that are ignored when we start (``nohup``, a shell's background jobs) stay ignored, for both.
- When the command is stopped by job control we stop too, so that the shell notices; when we are continued, so is it.
- We end as it ended: with its status, or by the signal that it died of.
- As process 1 of a container we also reap whatever is left behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as a shell says it

_PASSED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGCONT,
)
_TYPED = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP})
_JOB_CONTROL = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_SI_KERNEL = 0x80  # siginfo's si_code of a signal that no process sent


class CannotRun(Exception):
    """The command was not started. ``status`` is what a shell would exit with."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: an exit ``status``, or the ``signal`` that killed it."""

    status: int = 0
    signal: int | None = None

    @property
    def shell_status(self) -> int:
        return self.status if self.signal is None else 128 + self.signal

    def repeat(self) -> int:
        """End this process the same way. Returns the status to exit with where that is left to the caller."""
        if self.signal is not None:
            _die_of(self.signal)
        return self.shell_status  # also when we are process 1, which no signal of its own kills


@dataclass(frozen=True, slots=True)
class Held:
    """Signals that wait to be asked for. ``before`` is the mask that was in force, which the command gets."""

    signals: frozenset[signal.Signals]
    before: frozenset[int]


@contextlib.contextmanager
def held_signals() -> Iterator[Held]:
    """Hold back what is to be passed on. Call it before any thread is started, which would take the signals."""
    children = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # who ignores it has no children to wait for
    taken = {signo for signo in _PASSED if signal.getsignal(signo) is not signal.SIG_IGN}
    taken.add(signal.SIGCHLD)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, taken)
    try:
        yield Held(frozenset(taken), frozenset(before))
    finally:
        while signal.sigtimedwait(taken, 0):  # came too late to be passed on; ours is the command's end
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if children is not None:
            signal.signal(signal.SIGCHLD, children)


def spawn(argv: Sequence[str], env: Mapping[str, str], held: Held) -> int:
    """Start ``argv`` and return its pid. Raises ``CannotRun``."""
    try:
        return _spawn(list(argv), env, held)
    except OSError as error:
        if error.errno == errno.ENOEXEC:  # a script without a first line: the shell's, as every shell does
            return _spawn(["/bin/sh", shutil.which(argv[0]) or argv[0], *argv[1:]], env, held)
        raise _cannot_run(argv[0], error) from error
    except ValueError as error:
        raise CannotRun(f"{argv[0]!r}: cannot be run: {error}", NOT_EXECUTABLE) from error


def wait(child: int, held: Held) -> Ended:
    """Pass signals on until ``child`` has ended."""
    while True:
        ended = _reap(child)
        if ended is not None:
            return ended
        info = signal.sigwaitinfo(held.signals)
        typed = info.si_code == _SI_KERNEL and info.si_signo in _TYPED
        if info.si_signo != signal.SIGCHLD and not typed:
            with contextlib.suppress(PermissionError):  # it has become another user (sudo), and is out of our reach
                os.kill(child, info.si_signo)


def signal_name(signo: int) -> str:
    """``SIGTERM`` and the like; most of the real-time ones have none."""
    return signal.Signals(signo).name if signo in set(signal.Signals) else f"signal {signo}"


def _cannot_run(command: str, error: OSError) -> CannotRun:
    if error.errno != errno.ENOENT:
        return CannotRun(f"{command}: cannot be run: {error.strerror}", NOT_EXECUTABLE)
    if shutil.which(command):
        return CannotRun(f"{command}: cannot be run: the interpreter of its first line is missing", NOT_EXECUTABLE)
    return CannotRun(f"{command}: command not found", NOT_FOUND)


def _spawn(argv: list[str], env: Mapping[str, str], held: Held) -> int:
    """``posix_spawn``, not ``subprocess``: it sets the mask itself and leaves the caller's open files open."""
    return os.posix_spawnp(argv[0], argv, env, setsigmask=held.before, setsigdef=_IGNORED_BY_PYTHON)


def _reap(child: int) -> Ended | None:
    """Every change of every child since the last call; how ``child`` ended, if it did."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return None
        if os.WIFSTOPPED(status):
            if pid == child and os.WSTOPSIG(status) in _JOB_CONTROL and _has_terminal():
                os.kill(os.getpid(), signal.SIGSTOP)
        elif pid == child:
            return Ended(signal=os.WTERMSIG(status)) if os.WIFSIGNALED(status) else Ended(os.WEXITSTATUS(status))


def _has_terminal() -> bool:
    """Whether a shell may be there that controls jobs. Without one, nobody would ever continue us."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _die_of(signo: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))  # the command has left its own core
    with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler to reset
        signal.signal(signo, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signo})
    os.kill(os.getpid(), signo)
