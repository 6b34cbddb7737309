"""What a job, its launcher and the service tell each other, as values that were checked on the way in.

Bytes from another process are never trusted: each ``from_dict`` takes what it knows, leaves what it does not know,
and raises ``ChaseError`` for a value that cannot be true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from chase.errors import ChaseError
from zeus_core.setting import Setting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_BYTES = 64 * 1024
MOST = 1e15  # far beyond any watt, second or count that is meant
_MOST_SIZES = 64
_SHOWN = 60  # characters of a wrong value in an error


@dataclass(frozen=True, slots=True)
class Terms:
    """What a job says of itself beside its name. None is left to the launcher's flags and the service's defaults."""

    units: str | None = None
    total_units: float | None = None
    region: str | None = None
    policy: Mapping[str, Any] | None = None
    profile: str | None = None
    batch_size: int | None = None
    batch_sizes: tuple[int, ...] | None = None
    recurring: Mapping[str, Any] | None = None
    joint: str | None = None

    def or_else(self, other: Terms) -> Terms:
        """These terms, with what they leave open taken from ``other``."""
        missing = [f.name for f in fields(self) if getattr(self, f.name) is None]
        return replace(self, **{name: getattr(other, name) for name in missing})

    def to_dict(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Terms:
        policy, recurring = (_table(data, key) for key in ("policy", "recurring"))
        return cls(
            units=text(data, "units"),
            total_units=number(data, "total_units"),
            region=text(data, "region"),
            policy=policy,
            profile=text(data, "profile"),
            batch_size=_whole(data, "batch_size"),
            batch_sizes=_sizes(data, "batch_sizes"),
            recurring=recurring,
            joint=text(data, "joint"),
        )


@dataclass(frozen=True, slots=True)
class Said:
    """What a process says of its training, beside the units done.

    ``batch_size`` is the one in force, and ``impossible`` are those that turned out so. ``epochs`` are those that were
    evaluated, ``metric`` is what the last of them came to, and ``reached`` whether that is the target. ``agreed_w`` is
    the power limit that all its ranks agreed on. ``global_batch`` is the size that a recurring job is trained with.
    """

    batch_size: int | None = None
    impossible: tuple[int, ...] = ()
    epochs: int | None = None
    metric: float | None = None
    reached: bool | None = None
    agreed_w: float | None = None
    global_batch: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Without what there is nothing to say of."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) not in {None, ()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Said:
        reached = data.get("reached")
        return cls(
            _whole(data, "batch_size"),
            _sizes(data, "impossible") or (),
            _whole(data, "epochs"),
            number(data, "metric", low=-MOST),
            None if reached is None else reached is True,
            number(data, "agreed_w", low=1.0, high=1e6),
            _whole(data, "global_batch"),
        )


@dataclass(frozen=True, slots=True)
class Trial:
    """Which recurrence of a job this is: the batch size that it tries, and in which stage of the search."""

    number: int
    batch_size: int
    stage: str = ""
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trial:
        number_, batch_size = _whole(data, "number"), _whole(data, "batch_size")
        if number_ is None or batch_size is None:
            raise ChaseError("a trial without number and batch_size is none of the service's")
        return cls(number_, batch_size, text(data, "stage") or "", text(data, "reason") or "")


@dataclass(frozen=True, slots=True)
class Advice:
    """What the service last said: the setting that it wants (and sets, unless ``control`` is ``observe``), and why.

    ``trial`` is which one a recurring job is, and ``stop`` why it should end early, empty while it should not.
    ``intensity_g_per_kwh`` is the grid's that the service went by.
    """

    setting: Setting = field(default_factory=Setting)
    mode: str = "off"
    control: str = "observe"
    reason: str = ""
    trial: Trial | None = None
    stop: str = ""
    intensity_g_per_kwh: float | None = None

    @property
    def wish(self) -> tuple[Setting, str, str]:
        """Without the reason, whose figures change while the wish is the same."""
        return self.setting, self.mode, self.control

    def __str__(self) -> str:
        observed = " (observed only)" if self.control == "observe" else ""
        return f"{self.mode}, {self.setting}{observed}" + (f": {self.reason}" if self.reason else "")

    def to_dict(self) -> dict[str, Any]:
        return {
            "setting": self.setting.to_dict(),
            "mode": self.mode,
            "control": self.control,
            "reason": self.reason,
            "trial": self.trial.to_dict() if self.trial else None,
            "stop": self.stop,
            "intensity_g_per_kwh": self.intensity_g_per_kwh,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Advice:
        mode = text(data, "mode")
        if mode is None or "setting" not in data:
            raise ChaseError("an answer without mode and setting is none of the service's")
        control = text(data, "control") or ("observe" if data.get("observed") else "control")
        told = _table(data, "trial")
        trial = Trial.from_dict(told) if told is not None else None
        reason, stop = (text(data, key) or "" for key in ("reason", "stop"))
        intensity = number(data, "intensity_g_per_kwh", low=-MOST)
        return cls(_setting(data["setting"]), mode, control, reason, trial, stop, intensity)


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one exchange. ``next_s`` is how long to wait for the next, in this machine's seconds.

    ``alone`` is for a process whose launcher has asked the service, and nobody answered.
    """

    advice: Advice = field(default_factory=Advice)
    next_s: float = 5.0
    connected: bool = False
    alone: bool = False


def number(data: Mapping[str, Any], key: str, *, low: float = 0.0, high: float = MOST) -> float | None:
    """A finite number within bounds, or None where there is none. Raises ``ChaseError`` for anything else."""
    value = data.get(key)
    if value is None:
        return None
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (plain and low <= value <= high):  # NaN fails the comparison
        raise ChaseError(f"{key} must be a number from {low:g} to {high:g}, not {_short(value)}")
    return float(value)


def text(data: Mapping[str, Any], key: str) -> str | None:
    """Text without control characters, so that it may be shown. Raises ``ChaseError`` for anything but text."""
    value = data.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise ChaseError(f"{key} must be text, not {_short(value)}")
    return "".join(letter if letter.isprintable() else " " for letter in value[:1000])


def _setting(data: object) -> Setting:
    if data is None:
        return Setting()
    if not isinstance(data, dict):
        raise ChaseError(f"setting must be a table, not {_short(data)}")
    return Setting(
        power_limit_w=number(data, "power_limit_w", low=1.0, high=1e6),
        sm_clock_mhz=_whole(data, "sm_clock_mhz"),
        batch_size=_whole(data, "batch_size"),
        plan=text(data, "plan"),
        paused=data.get("paused") is True,
    )


def _whole(data: Mapping[str, Any], key: str) -> int | None:
    value = number(data, key, low=1.0, high=1e12)
    if value is not None and not value.is_integer():
        raise ChaseError(f"{key} must be a whole number, not {value!r}")
    return None if value is None else int(value)


def _table(data: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    value = data.get(key)
    if not (value is None or isinstance(value, dict)):
        raise ChaseError(f"{key} must be a table, not {_short(value)}")
    return value


def _sizes(data: Mapping[str, Any], key: str) -> tuple[int, ...] | None:
    value = data.get(key)
    if value is None:
        return None
    if not isinstance(value, list | tuple) or len(value) > _MOST_SIZES:
        raise ChaseError(f"{key} must be a list of at most {_MOST_SIZES} whole numbers, not {_short(value)}")
    found = (_whole({key: size}, key) for size in value)
    return tuple(size for size in found if size is not None)


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
