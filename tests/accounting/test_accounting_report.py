"""A job's report is read from the database, and what it says is what SQL finds there."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import asdict, replace

import pytest
from account_cases import T0, THREE, moved, standstill, work

from chase import accounting
from chase.clock import ManualClock
from chase.policy import Grid, PolicyInput, Rules, choose
from chase.pricing import Paid
from chase.recording import decision
from chase.records import DecisionRecord, JobRecord
from chase.report import frontier_of, job_report
from chase.store import Reader, Store
from providers.base import Kind
from zeus_core.frontier import Frontier

JOB = JobRecord(
    id="job", name="resnet", uid=1000, pid=42, gpus=("GPU-1",), units="steps", region="gb", registered_at=T0
)
PAID = {"cost": Paid(0.25, "GBP", "retail"), "host_power_w": 80.0, "embodied_g_per_s": 0.002, "pue": 1.2}
SUMS = {
    "energy_j": "energy_j",
    "host_energy_j": "host_energy_j",
    "grams": "grams",
    "cost": "cost",
    "units": "units",
    "embodied_grams": "embodied_grams",
    "reference_grams_by_interval": "CASE WHEN progress THEN reference_grams ELSE grams END",
    "reference_cost_by_interval": "CASE WHEN progress THEN reference_cost ELSE cost END",
    "reference_energy_j": "CASE WHEN progress THEN reference_energy_j ELSE energy_j END",
    "reference_host_energy_j": "CASE WHEN progress THEN reference_host_energy_j ELSE host_energy_j END",
    "seconds": "(julianday(end_utc) - julianday(start_utc)) * 86400",
}


def decided(frontier: Frontier | None) -> DecisionRecord:
    given = PolicyInput(frontier=frontier, rules=Rules(), grid=Grid(), max_power_w=300.0)
    return decision(at=T0, job_id=JOB.id, why="job", given=given, choice=choose(given), applied={}, control="control")


@pytest.fixture
def rows():
    """An hour at two settings, a hang, and some more, of measured and estimated intensities."""
    worked = work(THREE, [(300.0, 1000, 100.0), (200.0, 1000, 480.0)], **PAID)
    after = work(THREE, [(250.0, 2000, 250.0)], kind=Kind.ESTIMATED, **PAID)
    hang = standstill(2250, 600, 60e3, 300.0, **PAID)
    return [*worked, hang, *(moved(row, 2250 + 600) for row in after)]


@pytest.fixture
def log(tmp_path, rows):
    """The database after the job, opened as anybody would."""
    path = tmp_path / "chase.sqlite"
    with Store(path, clock=ManualClock(T0)) as store:
        store.upsert_job(JOB)
        store.add_decision(decided(THREE))
        store.add_decision(decided(None))
        for row in rows:
            store.add_interval(row)
        store.end_job(JOB.id, rows[-1].end, "done", 4000.0)
        store.flush()
    with Reader(path) as reader:
        yield reader


def from_sql(path, expression: str) -> float:
    with closing(sqlite3.connect(path)) as conn:
        return conn.execute(f"SELECT sum({expression}) FROM intervals WHERE job_id = 'job'").fetchone()[0]


def test_every_sum_is_that_of_the_table(log):
    """Whoever opens the file and adds up a column finds the figure of the report."""
    account = job_report(log, log.job("job")).to_dict()["account"]
    for name, expression in SUMS.items():
        assert account[name] == pytest.approx(from_sql(log.path, expression), rel=1e-9, abs=1e-4), name
    # To the grams of the table the own time line adds only when full power would have worked.
    saved = account["efficiency_grams"] + account["timing_grams"]
    assert account["reference_grams"] == account["grams"] + account["saved_grams"]
    assert account["saved_grams"] == saved


def test_what_is_printed_is_what_the_table_says(log):
    """The text rounds to four figures, and to nothing else than SQL's sums."""
    lines = dict(
        re.findall(r"^  (\w[\w ]*?)  +(.*)$", "\n".join(job_report(log, log.job("job")).lines()), re.MULTILINE)
    )
    grams, cost = from_sql(log.path, "grams"), from_sql(log.path, "cost")
    assert lines["energy"].startswith(f"{from_sql(log.path, 'energy_j') / 1e6:.4g} MJ by its GPUs (counter); ")
    assert f"{from_sql(log.path, 'host_energy_j') / 1e3:.4g} kJ by its host (configured)" in lines["energy"]
    assert lines["carbon"].startswith(f"{grams:.4g} g CO2eq, ")
    assert lines["money"] == f"{cost:.2g} GBP (retail price)"
    assert lines["work"] == "4,000 steps in 1 h 22 min"
    emitted = from_sql(log.path, "grams + embodied_grams") / from_sql(log.path, "units")
    assert lines["SCI"].startswith(f"{emitted * 1e3:.4g} mg CO2eq a unit (steps): ")


def test_every_figure_says_of_what_it_is(log):
    """Shares name full power, the host is said to be configured, intensities their source, and ± what it means."""
    text = "\n".join(job_report(log, log.job("job")).lines())
    assert re.search(r"energy by intensity: \d+\.\d % file measured, \d+\.\d % file estimated", text)
    assert "PUE 1.2" in text
    for part in ("saved", "efficiency", "timing"):
        assert re.search(rf"{part} +-?[\d.]+ ± [\d.]+ g CO2eq, -?\d+\.\d % of full power's, -?[\d.e-]+ GBP", text), part
    assert "the best fixed setting that ends when it did" in text
    assert "± is one standard deviation, of intensities and the profile; the profile does not say" in text
    assert re.search(r"of \d+\.\d % of the energy; the rest counts the same on both sides", text)


def test_the_report_is_plain_json_and_whole(log, rows):
    """The job's facts, from when to when, and the account as ``summarise`` makes it of the rows."""
    data = job_report(log, log.job("job")).to_dict()
    assert data["account"] == asdict(accounting.summarise(rows, THREE))
    assert (data["began"], data["ended"], data["decisions"]) == (rows[0].start, rows[-1].end, 2)
    assert json.loads(json.dumps(data["account"])) == {**data["account"], "price_kinds": ["retail"]}


def test_the_frontier_is_the_newest_that_a_decision_went_by(log):
    """Later decisions may have none, as while a GPU was barred; a job without any has no parts."""
    assert frontier_of(log, "job") == THREE
    assert frontier_of(log, "nobody") is None


def test_a_job_without_intervals_is_said_so(tmp_path):
    """Registered and gone at once, or running for seconds."""
    with Store(tmp_path / "chase.sqlite", clock=ManualClock(T0)) as store:
        store.upsert_job(JOB)
        store.flush()
        report = job_report(store, JOB)
    title, said = report.lines()
    assert title == "job resnet (job), region gb: running"
    assert said.split() == ["energy", "nothing", "was", "measured", "yet"]
    assert (report.began, report.summary.grams) == (None, None)


def test_what_is_not_known_is_said_and_no_number(tmp_path):
    """Neither an intensity nor a frontier: joules stand alone, and nothing is compared."""
    with Store(tmp_path / "chase.sqlite", clock=ManualClock(T0)) as store:
        store.upsert_job(JOB)
        for row in work(THREE, [(250.0, 1000, None)]):
            store.add_interval(replace(row, reference_energy_j=None, reference_host_energy_j=None, reference_s=None))
        store.flush()
        text = "\n".join(job_report(store, JOB).lines())
    assert "carbon       unknown: no intensity of this time is known" in text
    assert (
        "saved        unknown: nothing to compare with without progress, or a frontier that was seen to fit the job"
        in text
    )
    assert "None" not in text
    assert "nan" not in text
