"""Who drew which joules: the meter's readings shared among jobs, and posted to the database as priced intervals.

A GPU's energy is counted once. Where several jobs share one, each is given an equal part, since no counter can tell
them apart; of what is configured beside it (the host's power, embodied emissions) likewise.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from chase import accounting
from chase.accounting import JobSummary
from chase.clock import Clock
from chase.config import RegionConfig
from chase.config.models import EmbodiedConfig
from chase.jobs import Account, Job, JobTable
from chase.outlook import Outlook
from chase.prices import PriceFeed
from chase.recall import best_known, best_prices
from chase.report import summary_of
from chase.signal import GridSignal
from chase.store import Store
from providers.base import IntensityPoint, PriceSeries
from zeus_core.meter import EnergyMeter, Reading

_YEAR_S = 365.25 * 86400.0


@dataclass(frozen=True, slots=True)
class Rates:
    """What a joule and a second count for where a job runs. ``embodied_g_per_s`` is that of one GPU of it."""

    pue: float = 1.0
    prices: PriceFeed | None = None
    embodied_g_per_s: float | None = None

    @classmethod
    def of(cls, region: RegionConfig, embodied: EmbodiedConfig, prices: PriceFeed | None) -> Self:
        if embodied.kg_co2e is None:
            return cls(region.pue, prices)
        grams = 1000.0 * embodied.kg_co2e * embodied.share_per_gpu
        return cls(region.pue, prices, grams / (embodied.lifetime_years * _YEAR_S))


class Ledger:
    """Samples the meter and keeps each job's open interval."""

    def __init__(self, meter: EnergyMeter, store: Store, clock: Clock) -> None:
        self._meter = meter
        self._store = store
        self._clock = clock
        self._last: dict[str, Reading] = {}
        self._sampled = (clock.now(), clock.monotonic())

    def open(self, job: Job) -> None:
        job.account = self._account(job)

    @property
    def integrates(self) -> bool:
        """Whether some GPU has no energy counter, so that its energy depends on how often it is looked at."""
        return any(reading.method == "integrated" for reading in self._meter.read().values())

    def sample(self, jobs: JobTable, only: Collection[str] | None = None) -> None:
        """Read the meter, of ``only`` these GPUs if given, and book what was drawn since to the jobs that are there."""
        self._sampled = (self._clock.now(), self._clock.monotonic())
        for uuid, reading in self._meter.sample(only).items():
            before = self._last.get(uuid)
            if reading is before:  # this GPU was not read
                continue
            drawn_j = reading.joules - (before or reading).joules
            self._last[uuid] = reading
            sharing = jobs.on_gpu(uuid)
            for job in sharing:
                job.energy_j += drawn_j / len(sharing)
                if job.account is not None:
                    job.account.methods.add(reading.method)
                    job.account.sharers = max(job.account.sharers, len(sharing))

    def post(self, job: Job, outlook: Outlook, rates: Rates, account_s: float) -> None:
        """Close the open interval if it is ``account_s`` old, or if the limit changed, and begin the next.

        Both at the moment of the last sample, so that intervals meet end to end however long a tick takes.
        """
        account = job.account
        limit_w = _in_force_w(job)
        if account is None:
            return
        at, at_s = self._sampled
        seconds = at_s - account.began_s
        if seconds <= 0:
            account.power_limit_w = limit_w  # nothing was drawn under the one before
            return
        if seconds < account_s and limit_w == account.power_limit_w:
            return
        ended, per_s = account.began + timedelta(seconds=seconds), rates.embodied_g_per_s
        interval = accounting.interval(
            job_id=job.id,
            start=account.began,
            end=at,
            seconds=seconds,
            units=job.units_done - account.units,
            energy_j=job.energy_j - account.energy_j,
            method=_method(account.methods),
            power_limit_w=account.power_limit_w,
            point=outlook.now,
            used=account.used or outlook.now,
            cost=None if rates.prices is None else rates.prices.paid(account.began, ended),
            pue=rates.pue,
            host_power_w=job.policy_config.host_power_w / account.sharers,
            embodied_g_per_s=None if per_s is None else per_s * len(job.gpus) / account.sharers,
            frontier=job.frontier,
            compare=job.trusted and account.sharers == 1,
        )
        self._store.add_interval(interval)
        job.account = self._account(job, outlook.now)

    def summary(self, job: Job, grid: GridSignal, rates: Rates) -> JobSummary:
        """The account of a job, at what is known now: of the same rows that the database then holds."""
        if self._store.health.ok:
            self._store.flush()
        rows = self._store.intervals(job=job.id)
        if rows:
            start, end = rows[0].start, rows[-1].end
            prices = PriceSeries() if rates.prices is None else best_prices(rates.prices, self._store, start, end)
            known = best_known(grid, self._store, start, end)
            booked, rows = rows, accounting.reprice(rows, known, pue=rates.pue, prices=prices)
            self._store.update_prices(row for row, before in zip(rows, booked, strict=True) if row is not before)
        return summary_of(self._store, job.id, rows)

    def _account(self, job: Job, used: IntensityPoint | None = None) -> Account:
        return Account(*self._sampled, job.units_done, job.energy_j, _in_force_w(job), used)


def _in_force_w(job: Job) -> float | None:
    """The limit that was read back, None where it was not ours: what was wished for is not what was drawn at."""
    return job.in_force.power_limit_w if job.in_force else None


def _method(methods: set[str]) -> str:
    return methods.copy().pop() if len(methods) == 1 else "mixed" if methods else "none"
