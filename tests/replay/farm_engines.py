"""An engine that counts, and what a farm gave back."""

from __future__ import annotations

import os
import time
from pathlib import Path

from chase.replay.engine import Inline
from chase.replay.farm import Task


class Counted(Inline):
    """Runs at once, and remembers how many tasks it was given each time."""

    def __init__(self):
        self.chunks = []

    def submit(self, function, *args):
        self.chunks.append(len(args[1]))
        return super().submit(function, *args)


def tasks(items, group=lambda _: "one"):
    return [Task(f"cell {item}", group(item), item) for item in items]


def values(outcomes):
    return {one.task.key: one.value for some in outcomes for one in some if not one.error}


def errors(outcomes):
    return {one.task.key: one.error for some in outcomes for one in some if one.error}


def both(outcomes):
    known = list(outcomes)
    return values(known), errors(known)


def wait_until(condition, timeout_s=30.0):
    """Of another process, whose end nobody announces."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
