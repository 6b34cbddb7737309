"""A service that finds the database of an older version: it begins at once, and knows its past when that is read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from service_node import REGION, until

from chase.config import load
from chase.service import Service
from chase.store.connect import open_db
from chase.store.rows import utc_text
from chase.store.schema import migrations

HOUR = timedelta(hours=1)


@pytest.fixture
def service(tmp_path):
    """Of a node whose only source, a file, knows nothing any more."""
    (tmp_path / "trace.csv").write_text("start,end,g_per_kwh\n")
    file = tmp_path / "region.toml"
    file.write_text(REGION.format(trace=tmp_path / "trace.csv"))
    values = {"service.state_dir": tmp_path / "state", "service.run_dir": tmp_path / "run", "control.gpus": "simulated"}
    service = Service(load(region=file, overrides=values, env={}))
    yield service
    service.shutdown()


def an_old_file(path, hours: int) -> None:
    """Of the first schema, with values of the last hours."""
    path.parent.mkdir(parents=True)
    now = datetime.now(UTC)
    db = open_db(path)
    migrations.apply(db, stop_before="m002_compact")
    texts = {"zone": "XX", "source": "file", "signal": "average", "scope": "direct", "boundary": "unspecified"}
    for back in range(hours, 0, -1):
        start, end = now - back * HOUR, now - (back - 1) * HOUR
        times = {"start_utc": utc_text(start), "end_utc": utc_text(end), "fetched_at_utc": utc_text(end)}
        row = {**texts, **times, "kind": "measured", "method": "", "intensity_g_per_kwh": 300.0 + back}
        db.table("signal_points").insert(row)
    db.conn.close()


def grid_of(service: Service):
    return next(iter(service.controller.signals.values()))


def test_the_past_is_known_at_the_start(service):
    """A short file is brought up to date before anybody looks."""
    an_old_file(service.config.service.db_path, 24)
    service.startup()
    assert len(grid_of(service).outlook().recent) == 24


def test_the_past_is_known_as_soon_as_a_long_file_is_up_to_date(service):
    """Until then the service runs without: for a source that tells no history it would be gone for weeks."""
    path = service.config.service.db_path
    an_old_file(path, 24)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # as if the move took that long
        service.startup()
        assert grid_of(service).outlook().recent == ()
        until(lambda: service.controller.states, "the first tick")
    until(lambda: grid_of(service).outlook().recent, "the past is known")
    assert grid_of(service).outlook().now.g_per_kwh == 301.0
