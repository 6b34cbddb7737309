"""From what somebody asks for to the cells of a sweep, each checked before any is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from chase.clock import minute
from chase.config import load_region
from chase.errors import ChaseError, ConfigError
from chase.frontiers import frontier_of_profile
from chase.policy.budget import DEFAULT_SLOWDOWN
from chase.replay.cell import BUDGETED, Cell
from chase.replay.inputs import Inputs
from chase.replay.profiles import profile_of
from chase.replay.sweep import Grid, Policy, cells, spread
from chase.replay.trace import load_trace
from chase.replay.typical import typical_trace

_CAPPED = frozenset({"threshold", "chase", "static"})  # a slowdown, if given, is the most of any setting of theirs
_TYPICAL_YEAR = 2023
_WARM = timedelta(days=28)  # the history that a forecast is made of

COMPARED = (
    *(Policy("full-power"), Policy("best-fixed"), Policy("zeus-eta", {"eta": 0.5})),
    *(
        Policy("chase", {"eta": 0.24}),
        Policy("chase", {"eta": 0.5}),
        Policy("threshold"),
        Policy("suspend-resume-limit"),
    ),
    *(Policy("budget", forecast=name) for name in ("persistence", "own", "perfect")),
    *(Policy("budget", forecast="perfect", shuffle=0), Policy("clairvoyant")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """``budgets`` are slowdowns, ``begins`` starts; both may be empty. ``starts`` jobs are spread from the first on."""

    traces: Sequence[Path]
    regions: Sequence[str]
    profiles: Sequence[str]
    policies: Sequence[Policy]
    budgets: Sequence[float]
    days: Sequence[float]
    begins: Sequence[datetime]
    starts: int | None
    column: str
    common: Mapping[str, Any]
    cache: Path

    def cells(self) -> list[Cell]:
        """Raises ``ConfigError`` for what cannot be run, in the words of what is wrong with it."""
        try:
            found = list(self._cells())
            for cell in found:
                Inputs.of(cell)
        except ChaseError as error:
            raise ConfigError(str(error)) from error
        return found

    def _cells(self) -> Iterator[Cell]:
        for grid in self._grids():
            for policy in self.policies:
                yield from cells(
                    [grid],
                    self.profiles,
                    [policy],
                    days=self.days,
                    starts=self._starts,
                    budgets=self._budgets(policy),
                    **self.common,
                )

    def _grids(self) -> Iterator[Grid]:
        for trace in self.traces:
            yield Grid(str(trace.absolute()), self.column)
        years = [begin.year for begin in self.begins] or [_TYPICAL_YEAR]
        for name in self.regions:
            path = typical_trace(load_region(name), self.cache / "typical", first=min(years), last=max(years))
            yield Grid(str(path.absolute()))

    def _budgets(self, policy: Policy) -> Sequence[float | None]:
        if policy.name in BUDGETED:
            return self.budgets or (DEFAULT_SLOWDOWN,)
        return self.budgets or (None,) if policy.name in _CAPPED else (None,)

    def _starts(self, grid: Grid, days: float) -> Sequence[datetime]:
        if len(self.begins) > 1 or (self.begins and self.starts is None):
            return self.begins
        trace = load_trace(Path(grid.trace), column=grid.column)
        last = trace.end - timedelta(days=days) * (1.0 + self._slowest())
        first = self.begins[0] if self.begins else trace.start + _WARM
        if not self.begins and first > last:
            first = trace.start
        if first > last:
            raise ConfigError(
                f"{grid.trace} ends at {minute(trace.end)}: a job of {days:g} days from {minute(first)} on may not be"
                " done by then; make it shorter, or begin earlier with --start"
            )
        return spread(first, last, self.starts or 1)

    def _slowest(self) -> float:
        """The most that any job can be slowed down: by its budget, or to the lowest setting that anybody chooses."""
        budgets = [slowdown for policy in self.policies for slowdown in self._budgets(policy)]
        if None not in budgets:
            return max(slowdown for slowdown in budgets if slowdown is not None)
        frontiers = [frontier_of_profile(profile_of(name), gpus=1) for name in self.profiles]
        return max(f.frugal.seconds_per_unit / f.reference.seconds_per_unit - 1.0 for f in frontiers)
