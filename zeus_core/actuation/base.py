"""What changing a GPU looks like from outside, the same for the local, the remote and the command backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class ActuationError(Exception):
    """The actuator as a whole cannot serve: unreachable, refused us, or broke its protocol."""


class HeldElsewhere(ActuationError):
    """Another actuator holds the GPU. ``pid`` is the holder's, or None where it is not known."""

    def __init__(self, message: str, *, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


@dataclass(frozen=True, slots=True)
class Wish:
    """The setting wanted for one GPU. A field that is None is a lever not used: that lever is given back."""

    power_limit_w: float | None = None
    sm_clock_mhz: int | None = None


class Status(StrEnum):
    """What became of a wish."""

    APPLIED = "applied"  # set and verified against the enforced limit
    UNCHANGED = "unchanged"  # it was already so
    RAMPING = "ramping"  # a part of the rise was set; apply again to go on
    BOUND = "bound"  # set, but somebody else's lower limit is in force (rule G9)
    FOREIGN = "foreign"  # somebody changed the limit since; theirs is respected, nothing was set
    NO_PERMISSION = "no_permission"
    NOT_SUPPORTED = "not_supported"
    LOST = "lost"
    FAILED = "failed"  # any other fault, a failed read-back included
    ROLLED_BACK = "rolled_back"  # another GPU of the same call failed, so this one was put back
    RESTORED = "restored"  # the original is in force again
    NOTHING = "nothing"  # a restore where nothing of ours was in force

    @property
    def good(self) -> bool:
        return self in _GOOD


_GOOD = frozenset({Status.APPLIED, Status.UNCHANGED, Status.RAMPING, Status.BOUND, Status.RESTORED, Status.NOTHING})


@dataclass(frozen=True, slots=True)
class Applied:
    """The result for one GPU: asked for, set after clamping and ramping, and in force as read back."""

    uuid: str
    status: Status
    requested_w: float | None = None
    set_w: float | None = None
    enforced_w: float | None = None
    sm_clock_mhz: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class GpuState:
    """What an actuator knows of one GPU. ``can_set`` is the probed capability (rule G6), ``reason`` says why not.

    ``original_w`` is the journalled limit to give back, None while nothing of ours is in force. ``foreign_w`` is the
    limit that somebody else put in force over ours, None if nobody did.
    """

    uuid: str
    name: str
    index: int
    power_limit_w: float | None
    enforced_w: float | None
    min_w: float | None
    max_w: float | None
    default_w: float | None
    original_w: float | None
    foreign_w: float | None
    can_set: bool
    reason: str = ""


class Actuator(Protocol):
    """Sets GPUs and gives them back.

    ``backend`` is ``local``, ``remote`` or ``command``. ``lease_s`` is the silence after which it gives everything
    back by itself, None where it does not, or while it is not known. One call of ``apply`` is one group: all its GPUs
    get their setting together or none does (rule G23). ``close`` gives back everything that this actuator changed.
    """

    @property
    def backend(self) -> str: ...
    @property
    def lease_s(self) -> float | None: ...
    def describe(self) -> tuple[GpuState, ...]: ...
    def apply(self, wishes: Mapping[str, Wish]) -> dict[str, Applied]: ...
    def restore(self, uuids: Iterable[str] | None = None) -> dict[str, Applied]:
        """Put the journalled originals back, of all GPUs if ``uuids`` is None, and forget foreign changes there."""
        ...

    def keepalive(self) -> None:
        """Renew the lease; a no-op where there is none."""
        ...

    def close(self) -> None: ...
