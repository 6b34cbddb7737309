"""One line of the doctor: what was looked at, how it is, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    OK = "ok"
    WARN = "warn"  # it works, less well than it could
    FAIL = "fail"  # it will not work like this
    SKIP = "skip"  # not looked at, and why


@dataclass(frozen=True, slots=True)
class Finding:
    """``subject`` is stable, for grep; ``gpu`` is the UUID where one GPU is meant."""

    subject: str
    state: State
    found: str
    advice: str = ""
    gpu: str = ""


def guarded(subject: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """The doctor goes on whatever a check runs into: a crash of one is a finding too."""
    try:
        return list(check())
    except Exception as error:  # noqa: BLE001  the other checks are wanted all the more then
        found = f"the check itself failed: {type(error).__name__}: {error}"
        return [Finding(subject, State.FAIL, found, "report this with the output of 'chase doctor --json'")]
