"""A person's floor and ceiling while measuring and after it, and what happens when they change."""

from __future__ import annotations

from functools import partial

import pytest
from controller_bench import CLEAN, DIRTY, OWNER

from chase.explain import explain

RULES = {"name": "threshold"}


@pytest.fixture
def make_bench(make_bench):
    """Jobs name their own policies: the bench forces none on them."""
    return partial(make_bench, policy__name=None)


def permit(bench, job, **rules: object) -> None:
    """The operator writes other rules into the file and reloads it; jobs ask for what they asked for."""
    policy = bench.controller.config.policy.model_copy(update=rules)
    config = bench.controller.config.model_copy(update={"policy": policy})
    config._policy_below, config._policy_above = policy.model_dump(), {}
    bench.controller.reconfigure(config, bench.loaded.region)
    assert all(getattr(job.policy_config, key) == value for key, value in rules.items())


def measured(bench, seconds: float = 1500.0) -> set[float]:
    """All limits that were in force after a tick."""
    seen = set()
    for _ in range(round(seconds / 10)):
        bench.run(10, step_s=5)
        seen.add(bench.limits[0])
    return seen


def limits_of(job) -> list[float]:
    return [point.setting.power_limit_w for point in job.frontier.points]


def test_the_sweep_stays_within(make_bench):
    """From the first tick on no limit is above the ceiling or below the floor, and the ceiling is the reference."""
    bench = make_bench(profile__points=5)
    rules = {**RULES, "min_power_limit_w": 150.0, "max_power_limit_w": 250.0}
    job = bench.register(0, profile=None, policy=rules)
    bench.grid.g_per_kwh = DIRTY
    assert 150.0 <= min(seen := measured(bench)) <= max(seen) <= 250.0
    assert job.frontier_source == "measured"
    assert job.frontier.reference.setting.power_limit_w == 250.0
    assert sorted(limits_of(job)) == [150.0, 175.0, 200.0, 225.0, 250.0]
    assert all(explain(d).same for d in bench.decisions())


def test_a_profile_is_used_within(make_bench):
    """Of a published curve what lies above the ceiling is left out: full power is the ceiling."""
    bench = make_bench()
    job = bench.register(0, policy={**RULES, "max_power_limit_w": 240.0})
    bench.grid.g_per_kwh = CLEAN
    bench.run(30)
    assert bench.limits[0] == 240.0
    assert job.frontier.reference.setting.power_limit_w == 240.0


@pytest.mark.parametrize(("key", "watts", "in_force_w"), [("max", 50.0, 100.0), ("min", 500.0, 300.0)])
def test_bounds_that_no_gpu_can_keep_give_the_nearest(make_bench, key, watts, in_force_w):
    """A ceiling below the lowest limit there is, a floor above what was found: the end of the range, and it is said."""
    bench = make_bench()
    bench.register(0, policy={**RULES, f"{key}_power_limit_w": watts})
    bench.grid.g_per_kwh = DIRTY
    bench.run(30)
    assert bench.limits[0] == in_force_w
    assert "and the nearest is taken" in bench.decisions()[-1].reason


def test_a_floor_never_raises_above_what_was_found(make_bench):
    """A card that was found at 200 W stays there under a floor of 250."""
    bench = make_bench()
    bench.gpus[0].set_power_limit_w(200.0)
    bench.register(0, policy={**RULES, "min_power_limit_w": 250.0})
    bench.run(30)
    assert bench.limits[0] == 200.0


def test_too_narrow_to_measure_still_keeps_the_ceiling(make_bench):
    """Between 245 and 250 W there is nothing to measure: the job runs at its ceiling."""
    bench = make_bench()
    bench.register(0, profile=None, policy={**RULES, "min_power_limit_w": 245.0, "max_power_limit_w": 250.0})
    bench.run(60)
    assert bench.limits[0] == 250.0
    assert "no headroom" in bench.decisions()[-1].reason


def test_bounds_that_are_drawn_closer_hold_at_once(make_bench):
    """A job that runs is within the new bounds at the next tick, on the frontier that it has."""
    bench = make_bench()
    job = bench.register(0, policy=RULES)
    bench.grid.g_per_kwh = CLEAN
    bench.run(10)
    before = job.frontier
    permit(bench, job, max_power_limit_w=225.0)
    bench.run(5)
    assert bench.limits[0] == 225.0
    permit(bench, job, max_power_limit_w=None)
    bench.run(5)
    assert (bench.limits[0], job.frontier) == (300.0, before)


def test_bounds_that_are_widened_are_measured_anew(make_bench):
    """What was never measured cannot be chosen: the sweep begins anew over all that is permitted now."""
    bench = make_bench(profile__points=5)
    job = bench.register(0, profile=None)
    permit(bench, job, name="threshold", max_power_limit_w=200.0)
    bench.grid.g_per_kwh = CLEAN
    assert max(measured(bench)) == 200.0
    permit(bench, job, max_power_limit_w=300.0)
    measured(bench)
    assert max(limits_of(job)) == 300.0
    assert bench.limits[0] == 300.0


def test_bounds_that_change_in_mid_sweep_hold_at_once(make_bench):
    """The sweep goes on within the new bounds, and never returns to a limit outside of them."""
    bench = make_bench(profile__points=5)
    job = bench.register(0, profile=None)
    measured(bench, 60)
    permit(bench, job, max_power_limit_w=200.0)
    assert max(measured(bench)) == 200.0
    assert job.frontier_source == "measured"


def test_what_was_measured_within_bounds_is_not_all_there_is(make_bench):
    """A later run without bounds measures for itself, and one with the same bounds need not."""
    bench = make_bench(profile__points=5)
    rules = {**RULES, "max_power_limit_w": 200.0}
    first = bench.register(0, profile=None, policy=rules)
    measured(bench)
    bench.controller.end(first.id, OWNER, "done", first.units_done)
    same = bench.register(0, profile=None, policy=rules, job_id="b" * 16)
    bench.run(5)
    assert same.frontier_source == "measured before"
    bench.controller.end(same.id, OWNER, "done", same.units_done)
    free = bench.register(0, profile=None, policy=RULES, job_id="c" * 16)
    bench.run(5)
    assert free.frontier is None
    assert free.profiler.wants.power_limit_w == 300.0
