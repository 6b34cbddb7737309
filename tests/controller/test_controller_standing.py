"""A choice stands while nothing but time has passed, and not a tick longer."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from controller_bench import OWNER, START, Bench, Grid
from test_controller_budget import HOUR, MINUTE, SLOWEST, Forecasting, images, tick, until_done

from chase.explain import explain
from chase.jobs import Job
from chase.standing import Standing

OTHER_HOURS = (400.0, 90.0, 480.0)


class Told(Forecasting):
    """One that says what comes once and for all: as new as it was when it was first said."""

    def _point(self, at, kind):
        point = super()._point(at, kind)
        return replace(point, issued_at=START if point.issued_at else None)


@pytest.fixture
def standing(make_bench):
    """A job whose choice stands: half an hour of it is over."""

    def make(**more: Any) -> tuple[Bench, Job]:
        chosen = {"grid": Told, "policy__name": "budget", "policy__dwell_s": 0.0, "control__heartbeat_s": 3 * HOUR}
        bench = make_bench(**{**chosen, **more})
        bench.signal.poll()
        job = bench.register(0, total_units=images(12), policy={"max_slowdown": 0.1})
        for _ in range(3):
            tick(bench, job)
        return bench, job

    return make


def stood(bench: Bench, job: Job, **more: Any) -> bool:
    """Whether the choice outlives the next minute."""
    before = job.standing
    assert before is not None
    tick(bench, job, **more)
    return job.standing is before


class TestStands:
    def test_until_the_hour_is_over(self, standing):
        """Minute after minute, and the next hour has a price of its own."""
        bench, job = standing()
        until_full = round(60 - bench.clock.now().minute)
        assert [stood(bench, job) for _ in range(until_full)] == [True] * (until_full - 1) + [False]

    def test_what_it_is_meant_to_hold_shrinks(self, standing):
        """The timer of the tick at which the setting changes is set by what is left of it."""
        bench, job = standing()
        before_s = None
        while before_s is None or not stood(bench, job):
            tick(bench, job)
            before_s = job.until_s if job.standing is not None else None
        assert job.until_s == pytest.approx(before_s - MINUTE)

    def test_where_nothing_can_be_set(self, standing):
        """The wish of an observer is not in force, and stands all the same."""
        bench, job = standing(actuate=False)
        assert stood(bench, job)


class TestNews:
    def test_a_value_of_the_grid(self, standing):
        """The running hour is corrected."""
        bench, job = standing()
        bench.grid.values = OTHER_HOURS
        assert not stood(bench, job)

    def test_a_hold_and_its_end(self, standing):
        """At once, both ways."""
        bench, job = standing()
        bench.controller.hold("speed-first", OWNER, job_id=job.id)
        tick(bench, job)
        assert bench.limits[0] == 300.0
        bench.controller.unhold(OWNER, job_id=job.id)
        tick(bench, job)
        assert bench.limits[0] < 300.0

    def test_the_owner_wishes_otherwise(self, standing):
        """What a job says anew is heard at the next tick."""
        bench, job = standing()
        bench.register(0, total_units=job.total_units, units_done=job.units_done, policy={"max_slowdown": 0.0})
        tick(bench, job)
        assert bench.limits[0] == 300.0

    def test_the_job_is_longer_than_it_said(self, standing):
        """There is twice as much to plan."""
        bench, job = standing()
        bench.register(0, total_units=2 * job.total_units, units_done=job.units_done, policy=job.policy)
        assert not stood(bench, job)

    def test_the_service_is_configured_otherwise(self, standing):
        """A reload: people's floor is above what was chosen."""
        bench, job = standing()
        config = bench.loaded.config.model_copy(deep=True)
        config._policy_above["min_power_limit_w"] = 300.0
        bench.controller.reconfigure(config, bench.loaded.region)
        tick(bench, job)
        assert bench.limits[0] == 300.0

    def test_somebody_else_sets_the_limit(self, standing):
        """The job is at another pace than was planned."""
        bench, job = standing()
        bench.gpus[0].set_power_limit_w(150.0)
        assert not stood(bench, job)
        assert "foreign-change" in bench.codes()

    def test_a_node_cap_comes(self, standing):
        """What one job may have depends on all of them."""
        bench, job = standing()
        config = bench.loaded.config
        control = config.control.model_copy(update={"max_node_power_w": 150.0})
        bench.controller.reconfigure(config.model_copy(update={"control": control}), bench.loaded.region)
        assert not stood(bench, job)
        assert bench.decisions()[-1].code == "node-cap"

    @pytest.mark.parametrize("pace", [0.0, 0.7, 1.5])
    def test_the_job_does_not_get_on_as_planned(self, standing, pace):
        """It stands still, it is slow, it is quick: a few minutes later there is another plan."""
        bench, job = standing()
        before, at = job.standing, bench.clock.now().minute
        while job.standing is before:
            bench.clock.advance(MINUTE)
            bench.controller.report(job.id, OWNER, job.units_done + pace * bench.gpus[0].rate() * MINUTE)
            bench.signal.poll()
            bench.controller.tick()
        assert bench.clock.now().minute - at <= 2

    def test_the_signal_is_lost(self, standing):
        """What was fresh is stale, and later there is nothing: each is another state of affairs."""
        bench, job = standing(policy__without_signal="speed-first")
        bench.signal.poll = lambda: False
        for _ in range(3 * 60):
            tick(bench, job)
        assert "stale" in {row.inputs["grid"]["freshness"] for row in bench.decisions()}


class TestWrittenDown:
    def test_as_often_as_ever_and_each_with_its_own_inputs(self, standing):
        """Heartbeats are planned anew, so that a restart goes on from how things are; all can be taken again."""
        bench, job = standing(control__heartbeat_s=600.0)
        for _ in range(2 * 60):
            tick(bench, job)
        rows = bench.decisions()
        assert max(b.at - a.at for a, b in pairwise(rows)) <= timedelta(minutes=11)
        assert len({row.inputs["progress"]["units_done"] for row in rows}) == len(rows)
        assert all(explain(row).same for row in rows)

    def test_a_card_that_refuses_is_news_with_todays_inputs(self, standing, monkeypatch):
        """What a tick finds out while a choice stands is written down with how far the job is now."""
        bench, job = standing()
        for _ in range(5):
            assert stood(bench, job)
        done = job.units_done
        bench.gpus[0].set_power_limit_w(150.0)
        tick(bench, job)
        row = bench.decisions()[-1]
        assert row.inputs["progress"]["units_done"] > done
        assert explain(row).same


@pytest.mark.parametrize("seed", range(12))
def test_it_comes_to_the_same(tmp_path, seed):
    """The budget is kept as by planning at every tick, and what is emitted is the same but for rounding."""
    chance = random.Random(seed)
    values = tuple(chance.uniform(20.0, 900.0) for _ in range(chance.randint(2, 12)))
    slowdown, hours, grams = chance.choice([0.02, 0.05, 0.2]), chance.uniform(1.0, 9.0), []
    for name, holds in (("stands", Standing.holds), ("anew", lambda *_, **__: False)):
        (tmp_path / name).mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Standing, "holds", holds)
            grams.append(_run(tmp_path / name, values, slowdown, hours))
    assert grams[0] == pytest.approx(grams[1], rel=2e-3)


def _run(folder: Any, values: tuple[float, ...], slowdown: float, hours: float) -> float:
    wishes = {"policy__name": "budget", "policy__dwell_s": 0.0, "policy__max_slowdown": slowdown}
    bench = Bench(folder, grid=lambda clock: Told(clock, values), **wishes)
    try:
        bench.signal.poll()
        job = bench.register(0, total_units=images(hours))
        bench.controller.tick()
        finish_s = until_done(bench, job, 5 * MINUTE)
        assert finish_s <= hours * HOUR * (1 + slowdown) + 5 * MINUTE * SLOWEST
        bench.clock.advance(finish_s - bench.clock.monotonic())
        summary, *_ = bench.controller.end(job.id, OWNER, "done", job.total_units)
        return summary.grams
    finally:
        bench.close()


def test_a_grid_without_news_of_it(make_bench):
    """The other policies are quick, and weigh anew at every tick."""
    bench = make_bench(grid=Grid)
    job = bench.register(0, total_units=images(2))
    bench.grid.g_per_kwh = 100.0
    bench.run(60.0)
    assert job.standing is None
