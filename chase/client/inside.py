"""A process inside a launched job: its end of the files through which launcher and processes talk.

Kept apart from the launcher's end (``handover.py``), as every training process imports this one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from chase.client.messages import MAX_BYTES, Advice, Answer, Said, Terms, number
from chase.errors import ChaseError

DIRECTORY_VARIABLE = "CHASE_JOB_DIR"
ADVICE = "advice.json"
COUNT = ".count.json"
STEPS = ".steps.json"  # of a process that does not count by itself
OFTEN_S = 1.0  # looking at a file costs nothing, so a process inside need not wait for the next report


class InsideLink:
    """A link whose far side is the launcher. The launcher ends the job and sums it up."""

    patience_s = OFTEN_S

    def __init__(
        self,
        directory: Path,
        *,
        units_done: Callable[[], float],
        terms: Terms,
        name: str = "",
        said: Callable[[], Said] = Said,
    ) -> None:
        # In order of arrival, so that the first to count is the first in the list.
        file = f"{time.monotonic_ns():020d}-{os.getpid()}-{os.urandom(4).hex()}{COUNT}"
        self._count = directory / file
        self._advice = directory / ADVICE
        self._units_done = units_done
        self._terms = terms
        self._name = name
        self._said = said
        if (steps := sys.modules.get("_chase_steps")) is not None:
            steps.silence()  # this process counts by itself

    def exchange(self) -> Answer:
        try:
            self._deposit()
            return self._latest()
        except OSError as error:
            raise ChaseError(f"this job's launcher is gone ({error.strerror})") from error

    def end(self, reason: str) -> None:
        self._deposit(ended=reason)  # other processes of the job may go on

    def _deposit(self, **more: str) -> None:
        said = {f"now_{key}": value for key, value in self._said().to_dict().items()}
        counted = {"name": self._name, "units_done": self._units_done(), **said}
        write(self._count, {**self._terms.to_dict(), **counted, **more})

    def _latest(self) -> Answer:
        """Not connected, quietly, where the launcher has no answer of its own: it has said so itself."""
        try:
            data = read(self._advice)
        except FileNotFoundError:
            return Answer(next_s=OFTEN_S)
        fresh = time.monotonic() <= (number(data, "good_until_s") or 0.0)
        next_s = number(data, "next_s") or OFTEN_S
        connected = fresh and data.get("connected") is True
        return Answer(Advice.from_dict(data), min(next_s, OFTEN_S), connected=connected, alone=not connected)


def write(path: Path, data: Mapping[str, Any]) -> None:
    """All or nothing for whoever reads; not for a power cut, after which nobody does."""
    beside = path.with_name(f".{path.name}")
    beside.write_text(json.dumps(data, allow_nan=False))
    beside.replace(path)


def read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    try:
        data = json.loads(raw) if len(raw) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise ChaseError(f"{path} holds something else than a launcher and its job write")
    return data
