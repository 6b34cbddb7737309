"""A cell run: its world put together, its events in order, and the account at the end.

Controller, policy, signal, forecast, store and accounts are production's own. What is not there is the wall clock (it
is moved by hand), the grid's API (``feed``), the cards and who sets them (``cards``), and the sockets and timers of the
service: in their place every event is taken in its order,

    the clock moves, the source publishes, the signal asks, the job reports, the controller ticks

whenever a value comes out, when a choice is not meant to hold that long, and at the very second at which the job ends.
A job is known to be as long as it is, and its frontier is given: measuring one is not part of a replay.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from chase.accounting import JobSummary, reprice
from chase.ahead import Expects, Typical
from chase.clock import ManualClock, minute
from chase.controller import Controller
from chase.errors import ChaseError
from chase.events import EventLog
from chase.jobs import Job, Peer, Registration
from chase.recording import CountingRecorder
from chase.replay.cards import Cards
from chase.replay.cell import CLOSED, Cell, Result
from chase.replay.feed import Feed, publication
from chase.replay.forecasts import forecaster_of
from chase.replay.inputs import REGION, Inputs, region_of, replay_config, scope_of
from chase.replay.reference import Cost
from chase.report import summary_of
from chase.signal import GridSignal, Limits
from chase.store import Store
from chase.store.writer import Tuning
from providers.base import IntensityPoint, Scope, Series
from zeus_core.gpus.simulated import SimulatedSystem
from zeus_core.selectors import ZeusCost

_OWNER = Peer(1000, 4321)
_JOB = "0" * 16
_HOUR_S = 3600.0
_SOON_S = 1.0
_LINGER_S = 5.0
_MANY = 100


def run_cell(cell: Cell, *, cache: Path | None = None, db: Path | None = None) -> Result:
    """Run one cell. ``cache`` is a folder of forecasts made before, to which those missing are added; ``db`` keeps the
    database, and must not exist. Raises ``ChaseError`` for a cell that cannot be run, saying what is wrong with it.
    """
    began_s = time.perf_counter()
    inputs = Inputs.of(cell)
    if cell.policy in CLOSED:
        cost = _closed(cell, inputs)
        return _result(cell, inputs, cost, began_s=began_s)
    with _database(db) as path, ExitStack() as stack:
        world = World(cell, inputs, path, cache, stack, decisions=db is not None)
        cost = world.run()
        return _result(cell, inputs, cost, began_s=began_s, ticks=world.ticks, decisions=world.decisions)


class _Points:
    """What the signal has learnt, for the store: a hundred points at a time, since nobody looks before the end."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[IntensityPoint] = []

    def add_points(self, points: Iterable[IntensityPoint]) -> int:
        before = len(self._waiting)
        self._waiting += points
        added = len(self._waiting) - before
        if len(self._waiting) >= _MANY:
            self.hand_over()
        return added

    def hand_over(self) -> None:
        self._store.add_points(self._waiting)
        self._waiting = []


class World:
    """One job on its own cards, on a grid of its own. Its ``decisions`` are written down where somebody will look."""

    def __init__(
        self, cell: Cell, inputs: Inputs, db: Path, cache: Path | None, stack: ExitStack, *, decisions: bool
    ) -> None:
        self.cell, self.inputs = cell, inputs
        self.clock = ManualClock(cell.start)
        self.said = publication(inputs.seen, cell.delay_s, cell.first_words)
        self.units = inputs.reference.units
        self.slot_s = min(self.said.trace.step_s, _HOUR_S) if cell.forecast == "live" else self.said.trace.step_s
        self.ticks = self.decisions = self._polled = 0
        self.peak_w, self._odd = 0.0, False
        self._paces: dict[tuple[float, ...], tuple[float, float]] = {}
        system = SimulatedSystem(inputs.profile, cell.gpus, monotonic=self.clock.monotonic)
        self.cards, self.actuator = system.cards, Cards(system.cards)
        self.store = Store(db, clock=self.clock, tuning=Tuning(linger_s=_LINGER_S))
        self.points = _Points(self.store)
        stack.callback(self.store.close, 60.0)
        self.signal = self._signal(forecaster_of(self.said, cell.forecast, cache))
        self.controller = Controller(
            config=replay_config(),
            system=system,
            actuator=self.actuator,
            regions={REGION: region_of(inputs.trace, cell.pue)},
            signals={REGION: self.signal},
            store=self.store,
            clock=self.clock,
            events=EventLog(self.store, self.clock, aloud=False),
            profiles={inputs.profile.name: inputs.profile},
            recorder=None if decisions else CountingRecorder(self.store, self.clock),
        )

    def _signal(self, forecaster: Callable[[Typical], Expects]) -> GridSignal:
        limits = Limits.of(replay_config().signal)
        signal = GridSignal(
            REGION,
            [Feed(self.said, self.clock.now)],
            clock=self.clock,
            limits=limits,
            store=self.points,
            wants=(self.said.trace.signal, Scope(scope_of(self.said.trace))),
            on_event=self._note,
            forecaster=forecaster,
        )
        now = self.clock.now()
        past = self.said.between(now - timedelta(hours=limits.history_h), now, now)
        signal.remember(past)
        self.points.add_points(past[-1:])  # the interval that runs is the job's first
        return signal

    def run(self) -> Cost:
        """To the end of the job. Raises ``ChaseError`` where the trace ends before it."""
        job = self._begin()
        done = 0.0
        while True:
            rate = self._pace()
            seconds, ends = self._next(job, rate, done)
            self.clock.advance(seconds)
            done += rate * seconds
            if ends:
                return self._end(job)
            self._event(job, done)

    def _begin(self) -> Job:
        gpus = tuple(card.uuid for card in self.cards)
        wishes = {"name": self.cell.policy, **self.cell.settings}
        wanted = Registration(
            id=_JOB, name="replay", gpus=gpus, total_units=self.units, policy=wishes, profile=self.inputs.profile.name
        )
        job = self.controller.register(wanted, _OWNER)
        for card in self.cards:
            card.occupy(_OWNER.pid, _OWNER.uid)
        self._event(job, 0.0)
        return job

    def _pace(self) -> float:
        """Units a second, at the limits in force."""
        limits = tuple([card.power_limit_w() for card in self.cards])
        if limits not in self._paces:
            watts = sum(map(self.inputs.profile.watts_at, limits)) + self.inputs.reference.host_w
            self._paces[limits] = sum(card.rate() for card in self.cards), watts
        rate, watts = self._paces[limits]
        self.peak_w = max(self.peak_w, watts)
        return rate

    def _next(self, job: Job, rate: float, done: float) -> tuple[float, bool]:
        """Seconds until something happens, and whether that is the end of the job."""
        now = self.clock.now()
        waits = [self._until_news(now)]
        if self.cell.interval_s is not None:
            waits = [self.cell.interval_s]
        elif job.until_s is not None:
            waits.append(max(job.until_s, _SOON_S))
        seconds = min(waits)
        left = self.units - done
        if rate > 0 and left <= rate * seconds:
            return left / rate, True
        if now + timedelta(seconds=seconds) > self.inputs.trace.end:
            raise ChaseError(
                f"{self.cell.trace} ends at {minute(self.inputs.trace.end)}, before the job of {self.cell.days:g} days"
                f" from {minute(self.cell.start)} on is done: begin earlier, make it shorter, or allow less of a"
                " slowdown"
            )
        return seconds, False

    def _until_news(self, now: datetime) -> float:
        """Seconds until the next slot of a plan begins, which has a price of its own, or the next value comes out."""
        trace, out = self.said.trace, self.said.count(now)
        waits = [self.slot_s - (now - trace.start).total_seconds() % self.slot_s]
        if self.cell.delay_s and out < len(trace):
            waits.append((trace.starts[out] - now).total_seconds() + self.cell.delay_s)
        return min(waits)

    def _event(self, job: Job, done: float) -> None:
        self._poll()
        self.controller.report(job.id, _OWNER, min(done, self.units))
        self.controller.tick()
        self.ticks += 1

    def _poll(self) -> None:
        """Where something has come out since."""
        out = self.said.count(self.clock.now())
        if out > self._polled:
            self._polled = out
            self.signal.poll()

    def _end(self, job: Job) -> Cost:
        self._poll()
        self.points.hand_over()
        summary, *_ = self.controller.end(job.id, _OWNER, "done", self.units)
        self.decisions = job.decisions
        if self._odd or self.cell.delay_s or self.cell.first_words or self.cell.shuffle is not None:
            summary = self._by_the_last_word()
        self.controller.close()
        return _cost(summary, self.peak_w, self.actuator.switches)

    def _by_the_last_word(self) -> JobSummary:
        """What the service finds out in the days after: the true trace, which not all has been said of by now."""
        truth, rows = publication(self.inputs.trace, 0.0, 0.0), self.store.intervals(job=_JOB)
        known = Series(truth.between(rows[0].start, rows[-1].end, self.inputs.trace.end))
        rows = reprice(rows, known, pue=self.cell.pue)
        self.store.update_prices(rows)
        return summary_of(self.store, _JOB, rows)

    def _note(self, code: str, *_: object, **__: object) -> None:
        """An odd value is held back from decisions and accounts; the trace says that it was right."""
        self._odd |= code == "outlier-held"


def _cost(summary: JobSummary, peak_w: float, switches: int) -> Cost:
    if summary.grams is None:
        raise ChaseError("nothing of the job could be priced")
    return Cost(summary.seconds, summary.energy_j + summary.host_energy_j, summary.grams, peak_w, switches)


def _closed(cell: Cell, inputs: Inputs) -> Cost:
    reference = inputs.reference
    seconds = inputs.allowed_s(cell) or reference.full().seconds
    if cell.policy == "full-power":
        return reference.full()
    if cell.policy == "zeus-eta":
        rule = ZeusCost(inputs.rules.eta, inputs.profile.default_w * cell.gpus)
        return reference.at(rule.choose(inputs.frontier.hull))
    if cell.policy == "best-fixed":
        return reference.fixed(seconds)
    if cell.policy == "suspend-resume-limit":
        return reference.suspend_resume(seconds, inputs.profile.idle_w * cell.gpus)
    return reference.optimum(seconds)


def _result(cell: Cell, inputs: Inputs, cost: Cost, *, began_s: float, ticks: int = 0, decisions: int = 0) -> Result:
    reference, allowed = inputs.reference, inputs.allowed_s(cell)
    full, fixed = reference.full(), reference.fixed(cost.seconds)
    optimum = reference.optimum(cost.seconds if allowed is None else allowed)
    return Result(
        cell=cell,
        units=reference.units,
        seconds=cost.seconds,
        energy_j=cost.energy_j,
        grams=cost.grams,
        full_s=full.seconds,
        full_j=full.energy_j,
        full_grams=full.grams,
        fixed_j=fixed.energy_j,
        fixed_grams=fixed.grams,
        optimum_grams=optimum.grams,
        optimum_fixed_grams=reference.fixed(optimum.seconds).grams,
        allowed_s=allowed,
        switches=cost.switches,
        peak_w=cost.peak_w,
        decisions=decisions,
        ticks=ticks,
        wall_s=time.perf_counter() - began_s,
    )


@contextmanager
def _database(path: Path | None) -> Iterator[Path]:
    """A new file; a temporary one where nobody wants to keep it."""
    if path is not None:
        if path.exists():
            raise ChaseError(f"{path} exists already; a replay writes a database of its own: name another file")
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="chase-replay-", dir=_quick()) as folder:
        yield Path(folder) / "replay.sqlite"


def _quick() -> Path | None:
    """Memory, where the system has a file system of it: nothing of a temporary database is worth a disk's wait."""
    shared = Path("/dev/shm")  # noqa: S108  a folder of its own is made in it
    return shared if os.access(shared, os.W_OK) else None
