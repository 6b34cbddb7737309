"""What must not get into the log, and how it is refused."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from store_cases import DECISION, EVENT, FRONTIER, HOLD, INTERVAL, JOB, POINT, T0, WINDOWS, count_of, rows_of

from chase.store.rows import DECISION as SHAPE
from zeus_core.frontier import OperatingPoint, Setting, Window

NOT_FINITE = [math.nan, math.inf, -math.inf]
ADDERS = {"add_decision": DECISION, "add_interval": INTERVAL, "upsert_job": JOB}
REALS = [
    (adder, field.name)
    for adder, record in ADDERS.items()
    for field in fields(record)
    if isinstance(getattr(record, field.name), float)
]


@pytest.mark.parametrize(("adder", "name"), REALS)
def test_a_number_that_is_not_finite_is_refused_by_name(store, adder, name):
    """Every real column of every record: the error names table and field, and nothing is written."""
    store.upsert_job(JOB)
    for value in NOT_FINITE:
        with pytest.raises(ValueError, match=rf"(jobs|decisions|intervals)\.{name} must be a finite number, not"):
            getattr(store, adder)(replace(ADDERS[adder], **{name: value}))
    assert store.health.ok
    assert (count_of(store.path, "decisions"), count_of(store.path, "intervals")) == (0, 0)


@pytest.mark.parametrize("value", NOT_FINITE)
@pytest.mark.parametrize("field", ["inputs", "choice", "applied"])
def test_json_that_is_not_finite_is_refused_by_place(store, field, value):
    """However deep the NaN lies, the error says where."""
    broken = {"a": 1, "candidates": [{"cost": 1.0}, {"cost": value}]}
    with pytest.raises(ValueError, match=rf"decisions\.{field}\.candidates\[1\]\.cost must be finite and plain JSON"):
        store.add_decision(replace(DECISION, **{field: broken}))


@pytest.mark.parametrize("value", [{1, 2}, T0, b"bytes", object(), np.int64(3)])
def test_json_that_is_not_plain_is_refused_by_place(store, value):
    """A set, a time, bytes: an error with the place, and no text that nobody can read back."""
    with pytest.raises(ValueError, match=r"events\.data\.gpu\.thing"):
        store.add_event(replace(EVENT, data={"gpu": {"thing": value}}))


@pytest.mark.parametrize("at", [datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1)))])  # noqa: DTZ001
def test_a_time_that_is_not_utc_is_refused(store, at):
    """Naive or of another zone: never silently shifted."""
    with pytest.raises(ValueError, match=r"decisions\.at must be an aware UTC time"):
        store.add_decision(replace(DECISION, at=at))
    with pytest.raises(ValueError, match="aware UTC"):
        store.decisions(since=at)


@pytest.mark.parametrize(
    ("name", "value"), [("pid", 2**63), ("pid", 1.5), ("uid", "root"), ("name", 7), ("name", b"x")]
)
def test_a_value_of_the_wrong_type_is_refused_by_name(store, name, value):
    """SQLite would store it as it is; a reader would stumble over it."""
    with pytest.raises(ValueError, match=rf"jobs\.{name} must be"):
        store.upsert_job(replace(JOB, **{name: value}))


def test_numbers_of_numpy_become_plain_ones(store):
    """Values come from arrays, too; as bytes they would be lost to every other reader."""
    store.upsert_job(replace(JOB, uid=np.int64(7)))
    store.add_interval(replace(INTERVAL, energy_j=np.float32(0.5), power_limit_w=np.float64(200), units=np.int32(3)))
    assert rows_of(store.path, "SELECT typeof(uid) FROM jobs") == [("integer",)]
    types = "SELECT typeof(energy_j), typeof(power_limit_w), typeof(units) FROM intervals"
    assert rows_of(store.path, types) == [("real",) * 3]


@pytest.mark.parametrize(
    "name", ["caf\udce9.py", "\ud800", "line\nbreak", "nul\0", "", "ключ 🔑", "'; DROP TABLE jobs; --"]
)
def test_any_name_of_a_job_can_be_stored(store, name):
    """Command lines may hold bytes that are no UTF-8; the log keeps what can be kept, and reads it back."""
    store.upsert_job(replace(JOB, name=name))
    (found,) = store.jobs()
    assert found.name == name.encode("utf-8", "replace").decode()


def test_nothing_is_written_of_points_with_one_that_is_wrong(store):
    """A batch is refused as a whole, before anything of it is stored."""
    broken = replace(POINT, start=T0 + timedelta(hours=1), end=T0 + timedelta(hours=2))
    object.__setattr__(broken, "g_per_kwh", math.nan)
    with pytest.raises(ValueError, match=r"signal_points\.g_per_kwh must be a finite number"):
        store.add_points([POINT, broken])
    assert count_of(store.path, "signal_points") == 0


def test_a_row_that_the_database_refuses_is_lost_alone(store):
    """A decision of a job that nobody registered breaks no other row, and its loss is an event."""
    store.upsert_job(JOB)
    assert store.add_decision(replace(DECISION, job_id="ffffffff")) is None
    assert store.add_decision(DECISION) == 1
    assert store.health.ok
    assert store.health.lost == 1
    (event,) = store.events(code="store-rows-lost")
    assert event.data == {"decisions": 1}


def test_a_severity_that_is_none_is_refused_by_the_database(store):
    """Words with a fixed set are checked in the table as well."""
    assert store.add_event(replace(EVENT, severity="panic")) is None
    assert store.health.lost == 1


def test_windows_and_frontiers_that_cannot_be_are_refused(store):
    """Their settings go through the same edge."""
    point = OperatingPoint(Setting(math.inf), 1.0, 1.0)
    with pytest.raises(ValueError, match=r"frontiers\.reference_power_limit_w must be a finite number"):
        store.save_frontier("key", replace(FRONTIER, points=(point,), reference=point), T0)
    with pytest.raises(ValueError, match=r"frontiers\.frontier\.points\[1\]\.setting\.power_limit_w"):
        store.save_frontier("key", replace(FRONTIER, points=(*FRONTIER.points[:1], point)), T0)
    with pytest.raises(ValueError, match=r"windows\.power_limit_w"):
        store.add_windows("key", [*WINDOWS, Window(Setting(math.inf), 1.0, 1.0, 1.0)])
    assert count_of(store.path, "windows") == 0


def test_hold_and_event_times_are_checked_as_well(store):
    """Optional times, too."""
    with pytest.raises(ValueError, match=r"holds\.until"):
        store.add_hold(replace(HOLD, until=datetime(2026, 1, 1)))  # noqa: DTZ001
    with pytest.raises(ValueError, match=r"events\.at"):
        store.add_event(replace(EVENT, at=datetime(2026, 1, 1)))  # noqa: DTZ001


def test_every_field_of_a_record_has_a_column():
    """A field added to the record and forgotten in the log fails here."""
    assert set(SHAPE.columns) == {field.name for field in fields(DECISION)}
