"""What workers of the tests do: functions that they can import by name."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from chase.errors import ChaseError


def double(number):
    return 2 * number


def pid(_):
    return os.getpid()


def fails_on_odd(number):
    if number % 2:
        raise ChaseError(f"{number} is odd")
    return number


def breaks_on_odd(number):
    return 1 // (1 - number % 2)


def unsendable_on_odd(number):
    return (lambda: number) if number % 2 else number


def dies_on_seven(number):
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def dies_once(item):
    """``item`` is a folder's path and a number: the worker that has 7 first is killed, the next one is not."""
    folder, number = item
    if number == 7:
        try:
            (Path(folder) / "died").mkdir()
        except FileExistsError:
            return number
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def dies(_):
    os._exit(1)


def notes_pid_and_waits(folder):
    """Says who it is, then never ends by itself."""
    (Path(folder) / str(os.getpid())).touch()
    signal.pause()
