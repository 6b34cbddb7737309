"""What the controller books beside joules and grams: the host, money, embodied emissions, and the value gone by."""

from __future__ import annotations

from datetime import timedelta

import pytest
from controller_bench import CLEAN, DIRTY, OWNER, START, Bench

from chase.prices import PriceFeed
from chase.report import job_report
from providers.base import Capabilities, Market, PricePoint, PriceSeries

HOUR = timedelta(hours=1)
J_PER_KWH = 3.6e6


class Tariff:
    """A price for each hour of the day, below nothing in the first."""

    name, zone = "tariff", "XX"
    capabilities = Capabilities(observed=True, forecast=False, step_s=3600.0, poll_s=900.0)

    def prices(self, start, end) -> PriceSeries:
        del start, end
        facts = {"zone": "XX", "currency": "EUR", "market": Market.DAY_AHEAD, "source": self.name, "fetched_at": START}
        at = [START + n * HOUR for n in range(24)]
        points = (PricePoint(start=t, end=t + HOUR, price_per_kwh=n / 10 - 0.05, **facts) for n, t in enumerate(at))
        return PriceSeries(tuple(points))

    def close(self) -> None: ...


def with_prices(bench: Bench) -> PriceFeed:
    feed = PriceFeed("test", [Tariff()], currency="EUR", time_zone="UTC", clock=bench.clock, store=bench.store)
    feed.poll()
    bench.controller.prices["test"] = feed
    return feed


def test_the_host_and_what_made_the_hardware_are_booked_as_configured(make_bench):
    """Watts for as long as a job runs, and a year's part of a kilogram for each GPU of it; nothing by default."""
    bench = make_bench(policy__host_power_w=150.0, embodied__kg_co2e=1000.0, embodied__share_per_gpu=0.5)
    job = bench.register(0, 1)
    bench.run(1200, step_s=10)
    summary, *_ = bench.controller.end(job.id, OWNER, "done", job.units_done)
    assert summary.host_energy_j == pytest.approx(150.0 * summary.seconds)
    assert summary.embodied_grams == pytest.approx(2 * 0.5 * 1e6 * summary.seconds / (4 * 365.25 * 86400))
    assert summary.grams == pytest.approx((summary.energy_j + summary.host_energy_j) / J_PER_KWH * CLEAN * 1.2)
    assert summary.sci_g_per_unit == pytest.approx((summary.grams + summary.embodied_grams) / summary.units)


def test_a_job_may_say_what_its_host_draws(bench):
    """Its own word, where the configuration says nothing; without one there is no host."""
    jobs = bench.register(0, policy={"host_power_w": 90.0}), bench.register(1, job_id="b" * 16)
    bench.run(120, step_s=10)
    said, silent = (bench.controller.end(job.id, OWNER, "done", job.units_done)[0] for job in jobs)
    assert (said.host_energy_j, silent.host_energy_j) == (pytest.approx(90.0 * 120), 0.0)


def test_a_host_is_counted_once_for_two_jobs_on_a_gpu(make_bench):
    """As the GPU's own energy is."""
    bench = make_bench(policy__host_power_w=100.0)
    jobs = [bench.register(0, job_id=name * 16) for name in "ab"]
    bench.run(600, step_s=10)
    ended = [bench.controller.end(job.id, OWNER, "done", job.units_done)[0] for job in jobs]
    # Until the second came, a moment later, the first had the host to itself.
    assert sum(summary.host_energy_j for summary in ended) == pytest.approx(100.0 * 600, rel=0.02)


def test_money_is_paid_at_the_price_of_the_moment(make_bench):
    """An hour in which drawing is paid for, and one that costs; at the meter, so that PUE counts."""
    bench = make_bench()
    with_prices(bench)
    job = bench.register(0)
    bench.run(7200, step_s=20)
    summary, *_ = bench.controller.end(job.id, OWNER, "done", job.units_done)
    rows = bench.store.intervals(job=job.id)
    halves = [sum(row.energy_j for row in rows if (row.start < START + HOUR) is first) for first in (True, False)]
    expected = (halves[0] * -0.05 + halves[1] * 0.05) * 1.2 / J_PER_KWH
    assert summary.cost == pytest.approx(expected, abs=2e-3 * sum(halves) / J_PER_KWH)
    assert (summary.currency, summary.price_kinds) == ("EUR", ("day-ahead",))
    assert summary.saved_cost == summary.efficiency_cost + summary.timing_cost


def test_without_a_source_of_prices_there_is_no_cost(bench):
    """None, not 0."""
    job = bench.register(0)
    bench.run(120, step_s=10)
    assert bench.controller.end(job.id, OWNER, "done", job.units_done)[0].cost is None


def test_a_row_keeps_what_was_gone_by_when_its_limit_was_chosen(bench):
    """The grid changes: the interval that ends then was run by the old value, whatever is found out of it later."""
    job = bench.register(0)
    bench.run(600, step_s=10)
    bench.grid.g_per_kwh = DIRTY
    bench.run(600, step_s=10)
    bench.controller.end(job.id, OWNER, "done", job.units_done)
    rows = bench.store.intervals(job=job.id)
    used = [row.used_intensity_g_per_kwh for row in rows]
    assert (used[1], used[-1]) == (CLEAN, DIRTY)
    assert used == sorted(used)
    assert {row.intensity_source for row in rows} == {"fake-grid"}
    assert {row.used_intensity_kind for row in rows} == {"measured"}


def test_the_end_of_a_job_tells_what_the_database_holds(bench):
    """The summary that a job gets and the report that anybody reads afterwards are the same numbers."""
    job = bench.register(0)
    for value in (CLEAN, DIRTY, CLEAN):
        bench.grid.g_per_kwh = value
        bench.run(900, step_s=10)
    summary, decisions, units = bench.controller.end(job.id, OWNER, "done", job.units_done)
    bench.store.flush()
    report = job_report(bench.store, bench.store.job(job.id))
    assert report.summary == summary
    assert (report.decisions, report.job.units) == (decisions, units)
    assert summary.saved_grams is not None
