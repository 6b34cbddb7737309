"""One run as a value, what is asked and what came of it: text and numbers alone, so that both travel and are kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Self

# Those that no controller is needed for: they have a closed form (``chase.replay.reference``).
CLOSED = frozenset({"full-power", "best-fixed", "zeus-eta", "suspend-resume-limit", "clairvoyant"})
# Those that have a time allowed for all of the job.
BUDGETED = frozenset({"budget", "best-fixed", "suspend-resume-limit", "clairvoyant"})
FORECASTS = ("own", "persistence", "yesterday", "perfect", "live")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A job of ``days`` at full power that begins at ``start``, on ``gpus`` cards, on the grid of ``trace``.

    ``trace`` is a file (``chase.replay.trace``) and ``column`` the column or the scope of its values, empty where there
    is one only. ``profile`` is a shipped profile's name, a profile file, or a run of a sweep, as
    ``FILE.csv:network=resnet50,batch_size=128`` (``chase.replay.profiles``). ``policy`` is a name of ``[policy]``, with
    the section's other keys in ``settings``, or one of ``CLOSED``, of which all but the first take ``max_slowdown``,
    "zeus-eta" an ``eta`` instead.

    ``forecast`` is what the planner sees of the days ahead: "own" is production's, "persistence" that what is now
    stays, "yesterday" that each hour is as the day before, "perfect" what will come; all but our own are certain of
    themselves. "live" is our own, asked anew at each value instead of made once for the grid: the same, and slow. The
    value of an interval is known ``delay_s`` after it began; of the share ``first_words`` of them something else is
    said first, and corrected within about a day. With ``shuffle`` decisions go by the trace in an order drawn from that
    seed, and accounts by the true one: the placebo. ``interval_s`` is between two ticks; without it there is one
    whenever something can have changed. A host's power is ``host_power_w`` of the settings.
    """

    trace: str
    profile: str
    start: datetime
    days: float
    policy: str = "budget"
    settings: Mapping[str, Any] = field(default_factory=dict)
    forecast: str = "own"
    column: str = ""
    signal: str = "average"
    gpus: int = 1
    pue: float = 1.0
    delay_s: float = 0.0
    first_words: float = 0.0
    shuffle: int | None = None
    interval_s: float | None = None

    @property
    def key(self) -> str:
        """The same for the same cell on any machine: for whoever keeps results, to find what is done already."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:32]

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "settings": dict(self.settings), "start": self.start.isoformat()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of ``to_dict``."""
        return cls(**{**data, "start": datetime.fromisoformat(data["start"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a cell. All grams are of all the job's GPUs and its host, times PUE, at the true intensities.

    ``full_*`` is the same job at full power over its own, shorter, time. ``fixed_grams`` is the same work in the same
    ``seconds`` at one constant mix of two neighbouring settings at the most: the best fixed setting at equal time;
    ``fixed_j`` its energy.
    ``allowed_s`` is the budget, None where the policy has none. ``optimum_grams`` is the least with which the work
    could have been done within ``allowed_s`` (else within ``seconds``) by who knew the future, and
    ``optimum_fixed_grams`` the best fixed setting in the optimum's own time.
    """

    cell: Cell
    units: float
    seconds: float
    energy_j: float
    grams: float
    full_s: float
    full_j: float
    full_grams: float
    fixed_j: float
    fixed_grams: float
    optimum_grams: float
    optimum_fixed_grams: float
    allowed_s: float | None = None
    switches: int = 0
    peak_w: float = 0.0
    decisions: int = 0
    ticks: int = 0
    wall_s: float = 0.0

    @property
    def slowdown(self) -> float:
        return self.seconds / self.full_s - 1.0

    @property
    def exceeded_s(self) -> float:
        """By how much the job took longer than it was allowed to; below 0 is what was left."""
        return 0.0 if self.allowed_s is None else self.seconds - self.allowed_s

    @property
    def saved(self) -> float:
        """Share of full power's grams; efficiency and timing are its two parts."""
        return 1.0 - self.grams / self.full_grams

    @property
    def efficiency(self) -> float:
        return 1.0 - self.fixed_grams / self.full_grams

    @property
    def timing(self) -> float:
        return (self.fixed_grams - self.grams) / self.full_grams

    @property
    def moved(self) -> float:
        """What of ``timing`` is owed to energy being drawn at cleaner times than on average.

        The rest is what it costs to change the setting at all: along a convex frontier a mix takes more energy than
        what is fixed. Of a placebo the first is 0 in the mean, and the second is not.
        """
        return (self.fixed_grams * self.energy_j / self.fixed_j - self.grams) / self.full_grams

    @property
    def optimum_saved(self) -> float:
        return 1.0 - self.optimum_grams / self.full_grams

    @property
    def optimum_timing(self) -> float:
        return (self.optimum_fixed_grams - self.optimum_grams) / self.full_grams

    @property
    def of_optimum(self) -> float | None:
        """What was saved as a share of what could have been; None where nothing could."""
        return self.saved / self.optimum_saved if self.optimum_saved > _NOTHING else None

    @property
    def of_optimum_timing(self) -> float | None:
        return self.timing / self.optimum_timing if self.optimum_timing > _NOTHING else None

    @property
    def switches_per_day(self) -> float:
        return self.switches / (self.seconds / 86400.0)

    def to_dict(self) -> dict[str, Any]:
        """With the derived figures, for tables; ``from_dict`` leaves them out again."""
        derived = {name: getattr(self, name) for name in _DERIVED}
        return {**asdict(self), "cell": self.cell.to_dict(), **derived}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of ``to_dict``."""
        given = {name: value for name, value in data.items() if name not in _DERIVED}
        return cls(**{**given, "cell": Cell.from_dict(data["cell"])})


_NOTHING = 1e-9
_DERIVED = (
    "slowdown",
    "exceeded_s",
    "saved",
    "efficiency",
    "timing",
    "moved",
    "optimum_saved",
    "optimum_timing",
    "of_optimum",
    "of_optimum_timing",
    "switches_per_day",
)
