"""docs/accounting.md names every column and figure there is, and its numbers are the code's."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest
from pages import examples, page, quoted, rows, section

from chase.accounting import JobSummary
from chase.accounting.doubt import RELATIVE_ERROR
from chase.clock import ManualClock
from chase.config import Config, RegionConfig
from chase.records import IntervalRecord, JobRecord
from chase.store import Store
from chase.store.rows import INTERVAL

PAGE = page("accounting.md")
T0 = datetime(2026, 3, 1, tzinfo=UTC)


def named(title: str) -> list[str]:
    return [name for row in rows(section(PAGE, title)) for name in quoted(row[0])]


def test_every_column_of_an_interval_is_explained():
    """Each once, by the name that it has in the database; but for whose interval it is."""
    assert sorted(named("An interval")) == sorted(set(INTERVAL.names) - {"job_id"})


def test_every_figure_of_a_job_is_explained():
    """All that ``--json`` has under ``account``, and nothing that it has not."""
    there = sorted({*named("A job"), "saved_cost", "efficiency_cost", "timing_cost"})
    assert there == sorted(field.name for field in fields(JobSummary))
    assert "`saved_cost`, `efficiency_cost`, `timing_cost` alike" in section(PAGE, "A job")


def test_the_errors_assumed_are_those_of_the_code():
    """Kind by kind."""
    written = {row[0].strip("`"): row[1] for row in rows(section(PAGE, "How sure"))[2:]}
    assert written == {kind.value: f"{error:.0%}".replace("%", " %") for kind, error in RELATIVE_ERROR.items()}


def test_the_settings_it_names_exist():
    """A section and its key, as in the configuration."""
    config = Config()
    for name in re.findall(r"`(control|policy|embodied)\.(\w+)`", PAGE):
        assert hasattr(getattr(config, name[0]), name[1]), name
    assert "pue" in RegionConfig.model_fields


@pytest.mark.parametrize("sql", examples(PAGE, "sql"))
def test_its_sql_runs_and_finds_the_sums(sql, tmp_path):
    """On a database of ours; full power where there is any, and what was drawn elsewhere."""
    path = tmp_path / "chase.sqlite"
    job = JobRecord(
        id="ab", name="resnet50", uid=1, pid=1, gpus=("GPU-1",), units="steps", region="gb", registered_at=T0
    )
    facts = {"job_id": "ab", "method": "counter", "power_limit_w": None, "intensity_kind": "measured"}
    with Store(path, clock=ManualClock(T0)) as store:
        store.upsert_job(job)
        for hour, reference in enumerate((5.0, None)):
            store.add_interval(
                IntervalRecord(
                    start=T0 + timedelta(hours=hour),
                    end=T0 + timedelta(hours=hour + 1),
                    units=1.0,
                    energy_j=3.6e6,
                    host_energy_j=1.8e6,
                    intensity_g_per_kwh=2.0,
                    grams=3.0,
                    reference_grams=reference,
                    cost=-0.5,
                    **facts,
                )
            )
        store.flush()
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute(sql).fetchall() == [(2.0, 1.0, 6.0, -1.0, 8.0)]
