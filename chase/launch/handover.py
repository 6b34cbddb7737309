"""How the processes of one launched job and their launcher tell each other things: small files in a private directory.

The launcher alone talks to the service. Each process inside that counts (a ``Job`` that found ``CHASE_JOB_DIR``) keeps
one file with its own count, the launcher reports their sum, and leaves the service's answer in another file. So units
are counted once however many processes follow or accompany each other, a process killed at any moment leaves its last
count behind, and with the launcher the lease ends.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from chase.client.inside import ADVICE, COUNT, OFTEN_S, STEPS, read, write
from chase.client.messages import Answer, Said, Terms, number, text
from chase.errors import ChaseError

_MISSED = 3  # reports that the launcher may miss before its word is old


@dataclass(frozen=True, slots=True)
class Count:
    """What one process inside has done, what it says of the job, and how it ended: empty while it goes on."""

    units_done: float
    terms: Terms
    name: str = ""
    said: Said = field(default_factory=Said)
    ended: str = ""


class Handover:
    """The launcher's end of the directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._first: Count | None = None

    @classmethod
    def create(cls, env: Mapping[str, str] = os.environ) -> Handover:
        """In the user's run directory, or where temporary files go. Raises ``OSError`` when neither takes it."""
        run_dir = env.get("XDG_RUNTIME_DIR")
        with contextlib.suppress(OSError):
            if run_dir:
                return cls(Path(tempfile.mkdtemp(prefix="chase-job-", dir=run_dir)))
        return cls(Path(tempfile.mkdtemp(prefix="chase-job-")))

    def gather(self) -> Count:
        """The sum over all processes that count in the unit of the first of them, and what that one said of the job.

        Where none counts by itself, of those whose optimizer steps are counted (``inject/sitecustomize.py``).
        """
        counts = list(self._counts())
        if not counts and self._first is None:
            return self._steps()
        self._first = self._first or next(iter(counts), None)
        if self._first is None:
            return Count(0.0, Terms())
        same = [count.units_done for count in counts if count.terms.units == self._first.terms.units]
        last = counts[0] if counts else Count(0.0, Terms())
        return replace(self._first, units_done=sum(same), said=last.said, ended=last.ended)

    def publish(self, answer: Answer) -> None:
        """Leave an answer for the processes inside. Where the disk is full they see that the last one is old."""
        good_until_s = time.monotonic() + _MISSED * max(answer.next_s, OFTEN_S)
        data = {
            **answer.advice.to_dict(),
            "connected": answer.connected,
            "next_s": answer.next_s,
            "good_until_s": good_until_s,
        }
        with contextlib.suppress(OSError):
            write(self.directory / ADVICE, data)

    def remove(self) -> None:
        """Renamed first: a process that still writes there finds no such directory, and cannot refill it."""
        gone = self.directory.with_name(f"{self.directory.name}.gone")
        with contextlib.suppress(OSError):
            self.directory.rename(gone)
        for _ in range(3):  # a file that was being made at that moment may still appear
            shutil.rmtree(gone, ignore_errors=True)
            if not gone.exists():
                return

    def _steps(self) -> Count:
        """Trainings one after the other, as the commands of a script: their sum.

        Of those at the same time the one that has done most: they may be ranks that were started without a number
        (``torch.multiprocessing.spawn``), each of which makes every step.
        """
        done = most = 0.0
        ended_s, first = -math.inf, Terms()
        for path in self._files(STEPS):
            with contextlib.suppress(OSError, ChaseError):
                data = read(path)
                count, from_s, until_s = (number(data, key) or 0.0 for key in ("units_done", "from_s", "until_s"))
                if from_s > ended_s:
                    done, most = done + most, 0.0
                most, ended_s = max(most, count), max(ended_s, until_s)
                first = first if first.units else Terms.from_dict(data)
        return Count(done + most, first)

    def _files(self, suffix: str) -> list[Path]:
        """In order of arrival. Not "*": for pathlib that is also the hidden file that is still being written."""
        return sorted(self.directory.glob(f"[!.]*{suffix}"), key=lambda path: path.name)

    def _counts(self) -> Iterator[Count]:
        for path in self._files(COUNT):
            with contextlib.suppress(OSError, ChaseError):  # of a process that writes something else
                data = read(path)
                said = Said.from_dict({key.removeprefix("now_"): data[key] for key in data if key.startswith("now_")})
                done, name, ended = number(data, "units_done"), text(data, "name"), text(data, "ended")
                yield Count(done or 0.0, Terms.from_dict(data), name or "", said, ended or "")
