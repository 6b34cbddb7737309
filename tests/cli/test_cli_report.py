"""``chase report``: one job of a real database, in words and as JSON."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from grid_log import hour_to

from chase import accounting
from chase.clock import ManualClock
from chase.pricing import Paid
from chase.report import frontier_of
from chase.store import Store
from providers.base import Kind

BEGAN = datetime(2026, 3, 1, 6, 0, tzinfo=UTC)
RESNET = "aa" * 16


@pytest.fixture
def accounted(log):
    """Two hours of the job ``resnet`` at full power and at 200 W, with a host and a price."""
    with Store(log.path, clock=ManualClock(BEGAN)) as store:
        frontier = frontier_of(store, RESNET)
        for hour, point in enumerate(frontier.hull[:2]):
            start, end = BEGAN + timedelta(hours=hour), BEGAN + timedelta(hours=hour + 1)
            grid = hour_to(end, 200.0 + 100.0 * hour, zone="GB", source="neso", kind=Kind.MEASURED)
            row = accounting.interval(
                job_id=RESNET,
                start=start,
                end=end,
                units=3600 * point.rate,
                energy_j=3600 * point.power_w,
                method="counter",
                power_limit_w=point.setting.power_limit_w,
                point=grid,
                cost=Paid(0.3, "GBP", "retail"),
                host_power_w=50.0,
                frontier=frontier,
            )
            store.add_interval(row)
        store.flush()
    return log


def summed(path, column: str) -> float:
    with closing(sqlite3.connect(path)) as conn:
        return conn.execute(f"SELECT sum({column}) FROM intervals").fetchone()[0]


@pytest.mark.parametrize("name", ["resnet", "aaaa", RESNET])
def test_a_report_says_what_the_database_adds_up_to(run, accounted, name):
    """By name, by the beginning of the id, by the id; grams, joules and money are SQL's."""
    out = run("report", name, "--db", accounted.path).stdout
    assert out.splitlines()[0] == f"job resnet ({RESNET}), region gb: running"
    assert f"{summed(accounted.path, 'energy_j') / 1e6:.4g} MJ by its GPUs (counter); 360 kJ by its host" in out
    assert f"{summed(accounted.path, 'grams'):.4g} g CO2eq" in out
    assert f"{summed(accounted.path, 'cost'):.2g} GBP (retail price)" in out
    assert "100.0 % neso measured" in out


def test_a_report_as_json_has_every_figure(run, accounted):
    """The job, from when to when, and the account with its parts and what they are shares of."""
    data = json.loads(run("report", "resnet", "--db", accounted.path, "--json").stdout)
    account = data["account"]
    assert (data["job"]["id"], data["began"], data["ended"]) == (RESNET, "2026-03-01T06:00:00Z", "2026-03-01T08:00:00Z")
    assert account["grams"] == pytest.approx(summed(accounted.path, "grams"))
    assert account["cost"] == pytest.approx(summed(accounted.path, "cost"))
    assert account["saved_grams"] == account["efficiency_grams"] + account["timing_grams"]
    assert account["host_energy_j"] == 360_000.0
    assert "configured, not measured" in account["denominators"]


def test_a_job_without_an_account_is_reported_too(run, log):
    """It has just begun, or ended at once."""
    out = run("report", "bert", "--db", log.path).stdout
    assert "ended 2026-03-01 09:00:00Z (done)" in out
    assert "nothing was measured yet" in out


def test_a_job_that_nobody_knows_is_an_error_with_a_hint(run, log):
    """Exit status 2, and where to look."""
    result = run("report", "nobody", "--db", log.path)
    assert result.exit_code == 2
    assert "Invalid value for 'JOB': no job is called 'nobody'; see 'chase jobs'" in result.stderr
