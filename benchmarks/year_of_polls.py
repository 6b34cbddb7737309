"""A year of polls: how large the database becomes, and whether memory grows.

    python benchmarks/year_of_polls.py [--days 365]

24 regions are polled every five minutes through the service's own signal and store, with the daily roll-up at its
defaults. Sixteen sources publish hours, eight publish five minutes; each value comes late, is revised for three days as
real ones are (most after a day, some later), and a forecast of two days is issued anew every hour. The clock is
simulated: a day takes ten seconds. Values come from a hash, so that every run is the same. The last seven days of
issued forecasts are remembered, and are full of all leads after nine days: until then memory grows by a few megabytes.
"""

from __future__ import annotations

import argparse
import math
import sqlite3
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chase.build import keep_of
from chase.clock import ManualClock
from chase.config import Config
from chase.memory import give_back
from chase.signal import GridSignal, Limits
from chase.store import Store
from providers.base import Boundary, Capabilities, IntensityPoint, Kind, Scope, Series, Signal

# Not at a full second: a real fetch is not, and its time then takes eight bytes in the database instead of four.
START = datetime(2025, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
HOUR = timedelta(hours=1)
POLL_S = 300.0
HORIZON = 48
LIMIT_MB, WEEK = 200.0, 7
GROWTH = 1.05  # what the allocator may differ by from week to week
HISTORY = timedelta(days=29)  # more than the signal asks for
# At which age, in hours, what share of the values is published anew.
REVISIONS = {HOUR: ((6, 0.5), (24, 1.0), (48, 0.3), (72, 0.1)), HOUR / 12: ((3, 0.1), (24, 0.6), (71, 0.2))}


@dataclass
class Grid:
    """A source whose history grows as the clock does. Points that did not change are the same objects."""

    zone: str
    clock: ManualClock
    step: timedelta
    late: timedelta
    name: str = "grid"
    points: list[IntensityPoint] = field(default_factory=list)
    issued: list[IntensityPoint] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.capabilities = Capabilities(
            observed=True,
            forecast=True,
            step_s=self.step.total_seconds(),
            poll_s=POLL_S,
            forecast_horizon_s=HORIZON * 3600.0,
        )
        self._next = floor(self.clock.now(), self.step) - HISTORY
        self._asked = self.clock.now()

    def observe(self, start: datetime, end: datetime) -> Series:
        now = self.clock.now()
        self._revise(now)
        self._publish(now)
        oldest = self.points[0].start
        if oldest < now - HISTORY - 24 * HOUR:
            del self.points[: (now - HISTORY - oldest) // self.step]
            oldest = self.points[0].start
        first, last = (start - oldest) // self.step, math.ceil((end - oldest) / self.step)
        return Series(tuple(self.points[max(0, first) : max(0, last)]))

    def forecast(self, start: datetime, end: datetime) -> Series:
        del start, end
        issue = floor(self.clock.now(), HOUR)
        if not self.issued or self.issued[0].start != issue:
            self.issued = [self._expected(issue, lead) for lead in range(HORIZON)]
        return Series(tuple(self.issued))

    def close(self) -> None: ...

    def _publish(self, now: datetime) -> None:
        while self._next + self.step + self.late <= now:
            self.points.append(self._point(self._next, 0, now))
            self._next += self.step

    def _revise(self, now: datetime) -> None:
        """Values whose next revision fell due since the last poll."""
        if self.points:
            for stage, (age_h, share) in enumerate(REVISIONS[self.step], 1):
                for index in self._between(self._asked - age_h * HOUR, now - age_h * HOUR):
                    start = self.points[index].start
                    if chance(self.zone, start, stage) < share:
                        self.points[index] = self._point(start, stage, now)
        self._asked = now

    def _between(self, after: datetime, until: datetime) -> Iterator[int]:
        """The places of the points whose start is in ``(after, until]``."""
        first = self.points[0].start
        low = math.floor((after - first) / self.step) + 1
        high = math.floor((until - first) / self.step)
        yield from range(max(0, low), min(high, len(self.points) - 1) + 1)

    def _point(self, start: datetime, stage: int, now: datetime) -> IntensityPoint:
        kind = Kind.ESTIMATED if stage == 0 and self.step == HOUR else Kind.MEASURED
        return self._made(start, now, level(self.zone, start, stage, self.step), kind)

    def _expected(self, issue: datetime, lead: int) -> IntensityPoint:
        start = issue + lead * HOUR
        grams = level(self.zone, start, 100 + issue.hour, HOUR) + lead * 0.1
        return self._made(start, self.clock.now(), grams, Kind.FORECAST)

    def _made(self, start: datetime, now: datetime, grams: float, kind: Kind) -> IntensityPoint:
        forecast = kind is Kind.FORECAST
        return IntensityPoint(
            zone=self.zone,
            start=start,
            end=start + (HOUR if forecast else self.step),
            g_per_kwh=grams,
            kind=kind,
            signal=Signal.AVERAGE,
            scope=Scope.LIFECYCLE,
            boundary=Boundary.CONSUMPTION,
            source=self.name,
            fetched_at=now,
            issued_at=floor(now, HOUR) if forecast else None,
            updated_at=now.replace(second=0, microsecond=0),
            method="" if kind is Kind.MEASURED else "model",
        )


def chance(zone: str, start: datetime, stage: int) -> float:
    """From 0 to 1, the same for the same arguments in every run."""
    return zlib.crc32(f"{zone} {start.timestamp():.0f} {stage}".encode()) / 2**32


def level(zone: str, start: datetime, stage: int, step: timedelta) -> float:
    """Grams with a day and a year in them, and noise that a revision changes a little."""
    hours = start.timestamp() / 3600
    shape = 300 + 80 * math.sin(hours * math.tau / 24) + 60 * math.sin(hours * math.tau / 8766)
    noise = 40 * chance(zone, floor(start, HOUR), 0) + 4 * chance(zone, start, stage)
    return shape + noise if step == HOUR else round(shape + noise, 2)


def floor(at: datetime, step: timedelta) -> datetime:
    return at - (at - datetime(2025, 1, 1, tzinfo=UTC)) % step


def resident_mb() -> float:
    with Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def size_mb(path: Path) -> float:
    """What it takes on the disk, its log included."""
    return sum(file.stat().st_size for file in path.parent.iterdir() if file.name.startswith(path.name)) / 1e6


@dataclass
class Course:
    """What is measured on the way: resident megabytes week by week, the largest database, and seconds."""

    resident_mb: list[float] = field(default_factory=list)
    largest_mb: float = 0.0
    roll_up_s: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def spent_s(self) -> float:
        return time.monotonic() - self.began


def regions(count: int, clock: ManualClock, store: Store) -> list[GridSignal]:
    signal = Config().signal
    limits = Limits(signal.fresh_s, signal.usable_s, signal.history_h)
    grids = []
    for number in range(count):
        step, late = (HOUR / 12, timedelta(minutes=8)) if number % 3 == 0 else (HOUR, timedelta(minutes=25))
        source = Grid(f"Z{number:02d}", clock, step, late)
        wants = (Signal.AVERAGE, Scope.LIFECYCLE)
        grids.append(GridSignal(source.zone, [source], clock=clock, limits=limits, store=store, wants=wants))
    return grids


def run(path: Path, days: int, count: int, look_h: int) -> Course:
    clock = ManualClock(START)
    store = Store(path, clock=clock, keep=keep_of(Config()))
    grids, course = regions(count, clock, store), Course()
    for day in range(1, days + 1):
        for poll in range(int(86400 / POLL_S)):
            for grid in grids:
                grid.poll()
                if poll % round(look_h * 3600 / POLL_S) == 0:
                    grid.outlook()
            clock.advance(POLL_S)
        roll_up(store, clock, course)
        course.largest_mb = max(course.largest_mb, size_mb(path))
        if day % WEEK == 0:
            report(day, path, course)
    health = store.health
    store.close(60)
    if not health.ok or health.lost:
        raise SystemExit(f"the store is not well: {health}")
    polls, spent_s = count * days * 86400 / POLL_S, course.spent_s
    print(
        f"{polls:.0f} polls in {spent_s:.0f} s ({spent_s / polls * 1e3:.2f} ms each), roll-up {course.roll_up_s:.0f} s"
    )
    return course


def roll_up(store: Store, clock: ManualClock, course: Course) -> None:
    """As the service does once a day."""
    before = time.monotonic()
    store.prune(clock.now())
    store.checkpoint()
    give_back()
    course.roll_up_s += time.monotonic() - before


def report(day: int, path: Path, course: Course) -> None:
    course.resident_mb.append(resident_mb())
    print(
        f"day {day:>4}   database {size_mb(path):6.1f} MB   resident {course.resident_mb[-1]:6.1f} MB"
        f"   {course.spent_s:6.0f} s, {course.roll_up_s:5.0f} of them roll-up",
        flush=True,
    )


def rows_of(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as db:
        tables = ("signal_rows", "forecast_rows")
        return {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


def in_a_year_mb(path: Path, days: int, count: int) -> float:
    """After a month each day adds to each region 24 hours observed and 24 expected."""
    per_row = size_mb(path) / sum(rows_of(path).values())
    return size_mb(path) + max(0, 365 - days) * count * 48 * per_row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=365, help="at least 7; the rest is projected")
    parser.add_argument("--regions", type=int, default=24)
    parser.add_argument("--look-h", type=int, default=24, help="how often each region's outlook is made, in hours")
    parser.add_argument("--directory", type=Path, help="where the database is made (default: the temporary directory)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        path = Path(directory) / "year.sqlite"
        course = run(path, options.days, options.regions, options.look_h)
        print(", ".join(f"{rows} {table}" for table, rows in rows_of(path).items()))
        year_mb = in_a_year_mb(path, options.days, options.regions)
    print(f"database: largest {course.largest_mb:.1f} MB, in a year {year_mb:.1f} MB (bound: {LIMIT_MB:.0f} MB)")
    first, last = course.resident_mb[0], course.resident_mb[-1]
    print(f"resident: after a week {first:.1f} MB, at the end {last:.1f} MB, most {max(course.resident_mb):.1f} MB")
    return 0 if max(course.largest_mb, year_mb) < LIMIT_MB and last <= first * GROWTH else 1


if __name__ == "__main__":
    sys.exit(main())
