"""The frontier of a decision: kept once for each job, and part of every decision that is read."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_cases import DECISION, FRONTIER, JOB, T0, count_of, rows_of, sound
from test_store_upgrade import first_schema

from chase.errors import StoreError
from chase.store import Keep, Store, Tuning, open_readonly
from chase.store.rows import DECISION as SHAPE
from chase.store.rows import JOB as JOBS
from chase.store.rows import json_text
from zeus_core.frontier import Frontier, OperatingPoint, Setting

OTHER = Frontier.of([OperatingPoint(Setting(300.0), 0.5, 90.0), OperatingPoint(Setting(250.0), 0.6, 80.0)])
INPUTS = {"frontier": FRONTIER.to_dict(), **DECISION.inputs}
minute, day = timedelta(minutes=1), timedelta(days=1)


def decided(frontier: Frontier | None = FRONTIER, **changes: object):
    inputs = {**INPUTS, "frontier": None if frontier is None else frontier.to_dict()}
    return replace(DECISION, **{"inputs": inputs, **changes})


def test_many_decisions_share_one_frontier(store, path):
    """It is stored once for a job, again only where it changes, and each decision comes back with its own."""
    store.upsert_job(JOB)
    given_frontiers = [None, FRONTIER, FRONTIER, OTHER, FRONTIER, None]
    for i, frontier in enumerate(given_frontiers):
        store.add_decision(decided(frontier, at=T0 + i * minute))
    plain = [None if frontier is None else frontier.to_dict() for frontier in given_frontiers]
    assert [decision.inputs["frontier"] for decision in store.decisions()] == plain
    assert store.decision(4).inputs == {**INPUTS, "frontier": OTHER.to_dict()}
    assert count_of(path, "decision_frontiers") == 2
    assert rows_of(path, "SELECT count(*) FROM decisions WHERE inputs_json LIKE '%seconds_per_unit%'") == [(0,)]
    assert sound(path)


def test_each_job_has_its_own(store, path):
    """So that a job that is forgotten takes its frontier along, and no other's."""
    for job_id in ("aaaaaaaa", "bbbbbbbb"):
        store.upsert_job(replace(JOB, id=job_id))
        store.add_decision(decided(job_id=job_id))
    assert count_of(path, "decision_frontiers") == 2
    assert [decision.inputs["frontier"] for decision in store.decisions()] == [FRONTIER.to_dict()] * 2


def test_a_plain_dict_is_kept_once_too(store, path):
    """Whoever hands it over: what counts is what is in it, when it is handed over."""
    store.upsert_job(JOB)
    mine = json.loads(json.dumps(FRONTIER.to_dict()))
    store.add_decision(decided())
    store.add_decision(replace(DECISION, inputs={**INPUTS, "frontier": mine}))
    mine["points"][0]["samples"] = 99
    store.add_decision(replace(DECISION, inputs={**INPUTS, "frontier": mine}))
    assert count_of(path, "decision_frontiers") == 2
    assert [d.inputs["frontier"]["points"][0]["samples"] for d in store.decisions()] == [2, 2, 99]


def test_a_decision_from_before_keeps_its_frontier_inside(path, open_store):
    """Old rows are read as they are, beside new ones."""
    old = SHAPE.row(DECISION) | {"inputs_json": json_text(INPUTS, "inputs")}
    first_schema(path, [("jobs", JOBS.row(JOB)), ("decisions", old)], stop_before="m004_frontiers_once")
    store = open_store()
    store.add_decision(decided(at=T0 + minute))
    store.flush()
    assert [decision.inputs for decision in store.decisions()] == [INPUTS, INPUTS]
    assert rows_of(path, "SELECT frontier_digest IS NULL FROM decisions ORDER BY id") == [(1,), (0,)]
    assert sound(path)


def test_a_frontier_goes_with_the_last_decision_of_its_job(path, clock):
    """Retention keeps what any decision refers to."""
    with Store(path, clock=clock, keep=Keep(log_days=100), tuning=Tuning(patience_s=20.0)) as store:
        store.upsert_job(JOB)
        for i, frontier in enumerate((FRONTIER, OTHER, FRONTIER)):
            store.add_decision(decided(frontier, at=T0 + 50 * i * day))
        store.end_job(JOB.id, T0 + 100 * day, "finished", 1.0)
        store.prune(T0 + 170 * day)
        assert [decision.inputs["frontier"] for decision in store.decisions()] == [FRONTIER.to_dict()]
        removed = store.prune(T0 + 250 * day)
        assert (removed["decisions"], removed["decision_frontiers"], removed["jobs"]) == (1, 2, 1)
        assert count_of(path, "decision_frontiers") == 0
        assert sound(path)


def test_a_frontier_that_is_gone_is_an_error(store, path):
    """A decision without its frontier would be retaken as another one: the file is damaged, and it is said."""
    store.upsert_job(JOB)
    store.add_decision(decided())
    store.flush()
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("DELETE FROM decision_frontiers")
    conn.close()
    with open_readonly(path) as reader, pytest.raises(StoreError, match="may be damaged"):
        reader.decisions()


numbers = st.floats(0.01, 1e6, allow_subnormal=False)
limits = st.lists(numbers, min_size=1, max_size=6, unique=True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limits_w=limits, seconds=numbers, joules=numbers)
def test_any_frontier_comes_back_to_the_last_bit(store, limits_w, seconds, joules):
    """What explains a decision is what decided it."""
    store.upsert_job(JOB)
    frontier = Frontier.of(OperatingPoint(Setting(w), seconds * w, joules / w) for w in limits_w)
    number = store.add_decision(decided(frontier))
    assert Frontier.from_dict(store.decision(number).inputs["frontier"]) == frontier
