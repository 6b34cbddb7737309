"""Sources whose answers a test sets, and the points they give."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from chase.clock import ManualClock
from chase.outlook import Outlook
from chase.signal import GridSignal, Limits
from providers.base import Boundary, Capabilities, IntensityPoint, Kind, Scope, Series, Signal

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


Identity = tuple[Signal, Scope, Boundary]
DIRECT: Identity = (Signal.AVERAGE, Scope.DIRECT, Boundary.PRODUCTION)


def point(
    start: datetime,
    value: float,
    *,
    source: str = "first",
    kind: Kind = Kind.MEASURED,
    of: Identity = DIRECT,
    step: timedelta = HOUR,
    issued_at: datetime | None = None,
) -> IntensityPoint:
    signal, scope, boundary = of
    return IntensityPoint(
        zone="XX",
        start=start,
        end=start + step,
        g_per_kwh=value,
        kind=kind,
        signal=signal,
        scope=scope,
        boundary=boundary,
        source=source,
        fetched_at=start + step,
        issued_at=(issued_at or start - HOUR) if kind is Kind.FORECAST else None,
    )


@dataclass
class Source:
    """A provider whose answers a test sets: a table of observed values and of forecasts, or an error.

    ``takes_s`` of its ``clock`` pass in each request; ``since`` is what it was last asked from.
    """

    name: str = "first"
    zone: str = "XX"
    observed: dict[datetime, float] = field(default_factory=dict)
    expected: dict[datetime, float] = field(default_factory=dict)
    error: Exception | None = None
    forecast_error: Exception | None = None
    asked: int = 0
    poll_s: float = 300.0
    kind: Kind = Kind.MEASURED
    of: Identity = DIRECT
    step: timedelta = HOUR
    takes_s: float = 0.0
    clock: ManualClock | None = None
    since: datetime | None = None

    @property
    def capabilities(self) -> Capabilities:
        can = bool(self.expected) or self.forecast_error is not None
        return Capabilities(observed=True, forecast=can, step_s=3600, poll_s=self.poll_s)

    def observe(self, start: datetime, end: datetime) -> Series:
        self.asked, self.since = self.asked + 1, start
        if self.clock:
            self.clock.advance(self.takes_s)
        if self.error:
            raise self.error
        found = {at: value for at, value in self.observed.items() if start <= at < end}
        return Series.of(
            point(at, value, source=self.name, kind=self.kind, of=self.of, step=self.step)
            for at, value in found.items()
        )

    def forecast(self, start: datetime, end: datetime) -> Series:
        if self.forecast_error:
            raise self.forecast_error
        found = {at: value for at, value in self.expected.items() if start - HOUR < at < end}
        return Series.of(
            point(at, value, source=self.name, kind=Kind.FORECAST, of=self.of, step=self.step, issued_at=start)
            for at, value in found.items()
        )

    def close(self) -> None: ...


class Typical(Source):
    """A typical profile: the same for every hour asked for."""

    def observe(self, start: datetime, end: datetime) -> Series:
        first = start.replace(minute=0, second=0, microsecond=0)
        hours = int((end - first) / HOUR) + 1
        return Series.of(point(first + i * HOUR, 222.0, source="static", kind=Kind.TYPICAL) for i in range(hours))

    forecast = observe


@dataclass(frozen=True)
class Look:
    """What a signal says at a time of so much time ahead; ``typical`` is whether the region's profile is known."""

    outlook: Outlook
    now: datetime
    ahead: timedelta
    typical: bool


@st.composite
def looks(draw: st.DrawFn) -> Look:
    """After one poll and some silence: gaps, holes, sparse forecasts, nothing at all."""
    step, clock = timedelta(minutes=draw(st.sampled_from([15, 30, 60]))), ManualClock(NOW)
    values = st.floats(0, 1000)
    observed = draw(st.dictionaries(st.integers(-100, 3), values, max_size=40))
    expected = draw(st.dictionaries(st.integers(-3, 60), values, max_size=20))
    source = Source(
        observed={NOW + n * step: value for n, value in observed.items()},
        expected={NOW + n * step: value for n, value in expected.items()},
        step=step,
    )
    typical, ahead = draw(st.booleans()), draw(st.integers(1, 168)) * HOUR
    grid = GridSignal("xx", [source], clock=clock, limits=Limits(), typical=Typical() if typical else None)
    grid.poll()
    clock.advance(draw(st.integers(0, 400_000)))
    return Look(grid.outlook(ahead), clock.now(), ahead, typical)


@dataclass
class Kept:
    points: list[IntensityPoint] = field(default_factory=list)

    def add_points(self, points) -> int:
        self.points += points
        return len(self.points)
