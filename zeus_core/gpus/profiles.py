"""Published power and speed curves of one workload on one GPU model, from a TOML file.

name = "a40-resnet50"
gpu = "NVIDIA A40"
workload = "..."           # what was trained
unit = "..."               # what seconds_per_unit counts
source = "..."             # where the figures are from
licence = "..."
min_w = 100                # the limits the card accepts
max_w = 300
default_w = 300
idle_w = 30                # its draw with nothing to do
[[point]]
power_limit_w = 300
seconds_per_unit = 0.21
watts = 284                # its mean draw at work under that limit
"""

from __future__ import annotations

import bisect
import itertools
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from zeus_core.frontier import isotonic

_TEXTS = ("name", "gpu", "workload", "unit", "source", "licence")
_WATTS = ("min_w", "max_w", "default_w", "idle_w")
_POINT = ("power_limit_w", "seconds_per_unit", "watts")


class ProfileError(ValueError):
    """A profile that cannot be used; names the file, the key and the value."""


@dataclass(frozen=True, slots=True)
class ProfilePoint:
    """What the workload did under one power limit, on one GPU."""

    power_limit_w: float
    seconds_per_unit: float
    watts: float


@dataclass(frozen=True, slots=True)
class GpuProfile:
    """Curves between the published points, which are in ascending order of power limit.

    Rate and draw are made non-decreasing in the limit (measured sweeps are not, quite) and run straight between the
    points, level beyond them. So they meet the figures exactly wherever the published ones are monotone.
    """

    name: str
    gpu: str
    workload: str
    unit: str
    source: str
    licence: str
    min_w: float
    max_w: float
    default_w: float
    idle_w: float
    points: tuple[ProfilePoint, ...]
    _limits: list[float] = field(init=False, repr=False, compare=False)
    _rates: list[float] = field(init=False, repr=False, compare=False)
    _draws: list[float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.idle_w < self.min_w <= self.default_w <= self.max_w:
            raise ProfileError("idle_w < min_w <= default_w <= max_w does not hold")
        if not self.points:
            raise ProfileError("there is no [[point]]")
        if min(point.watts for point in self.points) <= self.idle_w:
            raise ProfileError(f"watts of every point must exceed idle_w, {self.idle_w:g}")
        limits = [point.power_limit_w for point in self.points]
        if any(left >= right for left, right in itertools.pairwise(limits)):
            raise ProfileError(f"power_limit_w of the points must ascend, not {limits}")
        if limits[0] < self.min_w or limits[-1] > self.max_w:
            raise ProfileError(f"power_limit_w of the points must lie between min_w and max_w, not {limits}")

        object.__setattr__(self, "_limits", limits)
        object.__setattr__(self, "_rates", _rising([1 / point.seconds_per_unit for point in self.points]))
        object.__setattr__(self, "_draws", _rising([point.watts for point in self.points]))

    def rate_at(self, power_limit_w: float) -> float:
        """Units per second under a limit."""
        return _along(self._limits, self._rates, power_limit_w)

    def watts_at(self, power_limit_w: float) -> float:
        """Mean draw at work under a limit. Low limits are not kept by real cards: it may lie above."""
        return _along(self._limits, self._draws, power_limit_w)

    def rate_drawing(self, watts: float) -> float:
        """Units per second where the draw is held at ``watts`` otherwise than by a limit.

        Below the lowest published draw the rate goes with the clock, and the power above idle with its cube.
        """
        least = self._draws[0]
        if watts >= least:
            return _along(self._draws, self._rates, watts)
        return self._rates[0] * math.cbrt(max(0.0, watts - self.idle_w) / (least - self.idle_w))


def load_profile(path: Path | Traversable) -> GpuProfile:
    """Raises ``ProfileError`` for a file that is missing, no TOML, or no profile."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return _profile(data)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ProfileError) as error:
        raise ProfileError(f"{path}: {error}") from error


def _profile(data: Mapping[str, Any]) -> GpuProfile:
    known = {*_TEXTS, *_WATTS, "point"}
    if unknown := sorted(set(data) - known):
        raise ProfileError(f"unknown key {unknown[0]!r}; the keys are {', '.join(sorted(known))}")
    points = data.get("point", [])
    if not (isinstance(points, list) and all(isinstance(point, dict) for point in points)):
        raise ProfileError("point must be an array of tables, [[point]]")
    texts = {key: _text(data, key) for key in _TEXTS}
    watts = {key: _number(data, key) for key in _WATTS}
    fields: dict[str, Any] = {**texts, **watts}
    return GpuProfile(
        **fields,
        points=tuple(sorted(map(_point, points), key=lambda point: point.power_limit_w)),
    )


def _point(data: Mapping[str, Any]) -> ProfilePoint:
    if unknown := sorted(set(data) - set(_POINT)):
        raise ProfileError(f"unknown key {unknown[0]!r} in a [[point]]; the keys are {', '.join(_POINT)}")
    power_limit_w, seconds_per_unit, watts = (_number(data, key) for key in _POINT)
    if min(power_limit_w, seconds_per_unit, watts) <= 0:
        raise ProfileError(f"the figures of a [[point]] must be positive, not {dict(data)}")
    return ProfilePoint(power_limit_w, seconds_per_unit, watts)


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not (isinstance(value, str) and value):
        raise ProfileError(f"{key} must be a text, not {value!r}")
    return value


def _number(data: Mapping[str, Any], key: str) -> float:
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ProfileError(f"{key} must be a finite number, not {value!r}")
    return float(value)


def _rising(values: Sequence[float]) -> list[float]:
    return isotonic(values, [1.0] * len(values))


def _along(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """Straight lines through the points; level before the first and after the last."""
    right = bisect.bisect_left(xs, x)
    if right == 0:
        return ys[0]
    if right == len(xs):
        return ys[-1]
    share = (x - xs[right - 1]) / (xs[right] - xs[right - 1])
    return ys[right - 1] + share * (ys[right] - ys[right - 1])
