"""What a policy is given and what it gives back. Pure values: the same input gives the same choice, at any later time.

Two named modes recur: *speed-first* is the fastest point of the hull, *efficiency-first* the one of least energy per
unit of work, both within what the owner allows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chase.horizon import Horizon
from zeus_core.frontier import Frontier, Setting

SPEED, EFFICIENCY, BETWEEN, OFF, PROFILING = "speed-first", "efficiency-first", "between", "off", "profiling"
PAUSED = "paused"
NODE_CAP = "node-cap"
AGREED = "agreed"
LEADS, FOLLOWS = "leads", "follows"


@dataclass(frozen=True, slots=True)
class Grid:
    """The intensity a decision goes by, in gCO2eq/kWh, None if there is none.

    ``freshness`` is fresh, stale, or fallback for what stands in for an observed value: then ``low_g_per_kwh`` and
    ``high_g_per_kwh`` are its 10 and 90 % quantiles. ``efficiency_above_g`` and
    ``speed_below_g`` are the thresholds in force; ``reference_g`` is the fixed intensity of Chase's rule (MaxCI). Any
    of them is None where it is not known.
    """

    g_per_kwh: float | None = None
    kind: str = "none"
    source: str = ""
    age_s: float | None = None
    freshness: str = "fallback"
    efficiency_above_g: float | None = None
    speed_below_g: float | None = None
    reference_g: float | None = None
    low_g_per_kwh: float | None = None
    high_g_per_kwh: float | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """The owner's wishes, from ``[policy]``.

    ``max_slowdown`` 0.05 is five per cent of time: of the whole job for ``budget``, of each setting for the others,
    where None is no cap. ``min_power_limit_w`` and ``max_power_limit_w`` are the limits of a GPU that people permit.
    """

    name: str = "threshold"
    dwell_s: float = 600.0
    eta: float = 0.5
    selector: str = "energy"
    slowdown: float = 0.1
    max_slowdown: float | None = None
    without_signal: str = SPEED
    min_power_limit_w: float | None = None
    max_power_limit_w: float | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is, since this service looks after it.

    ``units_left`` is None where nobody knows how long it is. ``delay_s`` is how much longer the ``units_done`` took
    than they would have at the reference; ``deadline_s`` how long from now the owner's deadline is, None without one.
    ``units_before`` were done before that, None in a decision of a version that did not say so.
    """

    units_left: float | None = None
    units_done: float = 0.0
    delay_s: float = 0.0
    deadline_s: float | None = None
    units_before: float | None = None


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """All that a decision depends on.

    ``max_power_w`` is MaxPower of the papers: the original limits of all the job's GPUs. ``since_s`` is how long the
    current choice has held. ``barred`` says why this job may not be touched at all, empty if it may. ``measure`` is
    the setting that the profiler wants next, and ``note`` says how far it is, or why there is no frontier. ``horizon``
    are the prices ahead, None where nothing is known of them. ``host_w`` is what the rest of the node draws for this
    job as long as it runs; ``paused_w`` what all of it draws while the job is paused, None where it may not be.
    ``capped`` is what the node's power cap leaves of the choice, None where it leaves all, and ``cap_note`` says why.
    ``joint`` says that the job has ranks on other nodes, which agree on one setting: whether this node ``leads`` or
    ``follows``, empty for all other jobs; ``agreed`` is what they agreed on last, None before that.
    """

    frontier: Frontier | None
    rules: Rules
    grid: Grid = field(default_factory=Grid)
    max_power_w: float = 0.0
    current_mode: str | None = None
    current: Setting | None = None
    since_s: float = math.inf
    hold: str | None = None
    barred: str = ""
    measure: Setting | None = None
    note: str = ""
    progress: Progress = field(default_factory=Progress)
    horizon: Horizon | None = None
    host_w: float = 0.0
    paused_w: float | None = None
    capped: Setting | None = None
    cap_note: str = ""
    joint: str = ""
    agreed: Setting | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "frontier": self.frontier.to_dict() if self.frontier else None,
            "rules": _fields(self.rules),
            "grid": _fields(self.grid),
            "max_power_w": self.max_power_w,
            "current_mode": self.current_mode,
            "current": self.current.to_dict() if self.current else None,
            "since_s": self.since_s if math.isfinite(self.since_s) else None,
            "hold": self.hold,
            "barred": self.barred,
            "measure": self.measure.to_dict() if self.measure else None,
            "note": self.note,
            "progress": _fields(self.progress),
            "horizon": self.horizon.to_dict() if self.horizon else None,
            "host_w": self.host_w,
            "paused_w": self.paused_w,
            "capped": self.capped.to_dict() if self.capped else None,
            "cap_note": self.cap_note,
            "joint": self.joint,
            "agreed": self.agreed.to_dict() if self.agreed else None,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PolicyInput:
        """The inverse of ``to_dict``, also of what a version before ``progress`` and ``horizon`` wrote."""
        return cls(
            frontier=Frontier.from_dict(data["frontier"]) if data["frontier"] else None,
            rules=Rules(**data["rules"]),
            grid=Grid(**data["grid"]),
            max_power_w=data["max_power_w"],
            current_mode=data["current_mode"],
            current=Setting(**data["current"]) if data["current"] is not None else None,
            since_s=math.inf if data["since_s"] is None else data["since_s"],
            hold=data["hold"],
            barred=data["barred"],
            measure=Setting(**data["measure"]) if data["measure"] is not None else None,
            note=data["note"],
            progress=Progress(**data.get("progress", {})),
            horizon=Horizon.from_dict(data["horizon"]) if data.get("horizon") else None,
            host_w=data.get("host_w", 0.0),
            paused_w=data.get("paused_w"),
            capped=Setting(**data["capped"]) if data.get("capped") is not None else None,
            cap_note=data.get("cap_note", ""),
            joint=data.get("joint", ""),
            agreed=Setting(**data["agreed"]) if data.get("agreed") is not None else None,
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point that was weighed, its slowdown, and its cost in the policy's own unit, None where it has none."""

    setting: Setting
    seconds_per_unit: float
    joules_per_unit: float
    slowdown: float
    cost: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {**_fields(self), "setting": self.setting.to_dict()}


@dataclass(frozen=True, slots=True)
class Choice:
    """What to set and why. ``setting`` None means: as the GPU was found. ``code`` is stable, for grep.

    ``until_s`` is how long it is meant to hold, where that is less than until the next value of the signal.
    ``wished`` is what it would be but for the node's power cap, or for the other ranks of the job, where the code says
    that one of these came between.
    """

    setting: Setting | None
    mode: str
    code: str
    reason: str
    candidates: tuple[Candidate, ...] = ()
    until_s: float | None = None
    wished: Setting | None = None

    @property
    def own(self) -> Setting | None:
        """What the policy chose, whatever the node's power cap left of it and the other ranks made of it."""
        return self.wished if self.code in {NODE_CAP, AGREED} else self.setting

    def to_dict(self) -> dict[str, Any]:
        return {
            "setting": self.setting.to_dict() if self.setting else None,
            "mode": self.mode,
            "code": self.code,
            "reason": self.reason,
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "until_s": self.until_s,
            "wished": self.wished.to_dict() if self.wished else None,
        }


def _fields(value: Any) -> dict[str, Any]:
    """Of a flat dataclass: ``asdict`` copies deeply, and takes ten times as long."""
    return {name: getattr(value, name) for name in value.__slots__}
