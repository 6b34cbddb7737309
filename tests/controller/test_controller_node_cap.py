"""Several jobs under ``max_node_power_w``: together they never draw more, and each decision says what moved it."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
from controller_bench import CLEAN, DIRTY, OWNER, Bench

from chase.explain import explain
from zeus_core.gpus.base import NoPermission

FULL_W, FRUGAL_W = 235.21, 177.58  # what an A40 draws at 300 and at 200 W
FAST = {"name": "static", "selector": "time"}
IDS = [letter * 16 for letter in "abcdef"]


@pytest.fixture
def make_bench(make_bench):
    """Jobs name their own policies: the bench forces none on them."""
    return partial(make_bench, policy__name=None)


def cap(bench: Bench, watts: float | None) -> None:
    """The operator writes another cap into the file and reloads it."""
    config = bench.controller.config
    control = config.control.model_copy(update={"max_node_power_w": watts})
    bench.controller.reconfigure(config.model_copy(update={"control": control}), bench.loaded.region)


def start(bench: Bench, *jobs: tuple[int, ...], **more: object) -> list:
    more.setdefault("policy", FAST)
    return [bench.register(*gpus, job_id=job_id, **more) for job_id, gpus in zip(IDS, jobs, strict=False)]


def expected_w(bench: Bench) -> float:
    """What the jobs draw: by their curve at the limits in force where that is known, else the limits themselves."""
    by_uuid = {gpu.uuid: gpu for gpu in bench.gpus}
    known = {uuid for job in bench.controller.jobs if job.frontier is not None for uuid in job.gpus}
    used = {uuid for job in bench.controller.jobs for uuid in job.gpus}
    cards = {uuid: by_uuid[uuid] for uuid in used}
    return sum(
        card.profile.watts_at(card.power_limit_w()) if uuid in known else card.power_limit_w()
        for uuid, card in cards.items()
    )


def highest_w(bench: Bench, seconds: float, step_s: float = 5.0) -> float:
    """The most that is expected after any tick of so many seconds."""
    highest = 0.0
    for _ in range(round(seconds / step_s)):
        bench.run(step_s, step_s=step_s)
        highest = max(highest, expected_w(bench))
    return highest


def last(bench: Bench, job_id: str):
    return next(d for d in reversed(bench.decisions()) if d.job_id == job_id)


class TestKept:
    def test_jobs_are_moved_down_until_all_fit(self, make_bench):
        """Three jobs at full power would draw 706 W: under 620 W they draw as much of it as settings allow."""
        bench = make_bench(gpus=3, control__max_node_power_w=620.0)
        start(bench, (0,), (1,), (2,))
        bench.run(60)
        assert 590.0 < expected_w(bench) <= 620.0
        assert "node-cap" in bench.codes()

    def test_a_decision_says_by_which_numbers(self, make_bench):
        """Code, cap, what all would draw, what this one and all draw now, and what was wished for."""
        bench = make_bench(gpus=2, control__max_node_power_w=460.0)
        start(bench, (0,), (1,))
        bench.run(10)
        moved = [d for d in bench.decisions() if d.code == "node-cap"]
        assert moved[0].reason == (
            "the node's jobs would draw 470 W, more than max_node_power_w 460 W: 250 W keeps this one to 215 W, "
            "and all to 450 W; but for the cap: 300 W is the choice of selector time"
        )
        assert moved[0].choice["wished"] == {"power_limit_w": 300.0}

    def test_each_decision_can_be_taken_again(self, make_bench):
        """What the cap left is among the inputs: ``explain`` comes to the same, before it, under it and after it."""
        bench = make_bench(gpus=3, control__max_node_power_w=500.0)
        start(bench, (0,), (1, 2), policy={"name": "threshold"})
        for watts, grid in ((None, CLEAN), (500.0, CLEAN), (400.0, DIRTY), (None, DIRTY)):
            cap(bench, watts)
            bench.grid.g_per_kwh = grid
            bench.run(60)
        decisions = bench.decisions()
        assert {"node-cap", "below-threshold", "above-threshold"} <= {d.code for d in decisions}
        assert all(explain(d).same for d in decisions)

    @pytest.mark.parametrize("seed", range(4))
    def test_whatever_happens_the_sum_is_never_above_the_cap(self, make_bench, seed):
        """Jobs come, measure, go and change their minds, the grid and the cap move: no tick ends above the cap."""
        draw = random.Random(seed)
        bench = make_bench(gpus=5, profile__points=4, profile__window_s=10.0)
        for _ in range(12):
            running = {job.id for job in bench.controller.jobs}
            free = [i for i in range(5) if not any(bench.gpus[i].uuid in j.gpus for j in bench.controller.jobs)]
            idle = [job_id for job_id in IDS if job_id not in running]
            if free and draw.random() < 0.8:
                gpus = draw.sample(free, draw.randint(1, min(2, len(free))))
                name = draw.choice(["threshold", "chase", "budget"])
                profile = draw.choice([None, "a40-resnet50"])
                bench.register(*gpus, job_id=idle[0], policy={"name": name}, profile=profile, name=f"train{len(idle)}")
            elif running and draw.random() < 0.3:
                bench.controller.end(draw.choice(sorted(running)), OWNER, "done", 1.0)
            bench.grid.g_per_kwh = draw.choice([CLEAN, DIRTY, None])
            watts = 130.0 * 5 + draw.uniform(0.0, 850.0)
            cap(bench, watts)
            assert highest_w(bench, draw.choice([10.0, 90.0])) <= watts + 1e-6
        assert "node-cap-exceeded" not in bench.codes()
        assert all(explain(d).same for d in bench.decisions())

    def test_it_is_kept_while_frontiers_are_measured(self, make_bench):
        """Three jobs that are new share 700 W: they wait for each other, all are measured, and no tick is above it."""
        bench = make_bench(gpus=3, profile__points=5, control__max_node_power_w=700.0)
        jobs = start(bench, (0,), (1,), (2,), profile=None)
        assert highest_w(bench, 3000.0) <= 700.0
        assert [job.frontier_source for job in jobs] == ["measured"] * 3
        assert all(job.frontier.reference.setting.power_limit_w == 300.0 for job in jobs)

    def test_a_job_that_is_measured_counts_with_its_original_limits(self, make_bench):
        """Whatever limit is measured just now: the others must not move at each step of the sweep."""
        bench = make_bench(gpus=2, profile__points=5, control__max_node_power_w=500.0)
        start(bench, (0,), profile=None)
        bench.register(1, job_id=IDS[1], policy=FAST)
        limits = set()
        for _ in range(60):
            bench.run(5)
            limits.add(bench.limits[1])
        assert limits == {225.0}  # 196 W beside 300

    def test_jobs_that_share_a_gpu_count_once_and_move_together(self, make_bench):
        """One card with two jobs is not two cards: under 250 W its one limit is, and both decisions say so."""
        bench = make_bench(gpus=1, control__max_node_power_w=250.0)
        start(bench, (0,), (0,))
        bench.run(30)
        assert 225.0 < bench.limits[0] <= 250.0
        assert {last(bench, job_id).code for job_id in IDS[:2]} == {"node-cap"}
        cap(bench, 300.0)
        bench.run(10)
        assert bench.limits[0] == 300.0

    def test_of_jobs_on_one_gpu_only_those_that_wish_for_more_are_moved(self, make_bench):
        """Who wishes for less than is left keeps its own choice."""
        bench = make_bench(gpus=1, control__max_node_power_w=250.0)
        bench.register(0, job_id=IDS[0], policy=FAST)
        bench.register(0, job_id=IDS[1], policy={"name": "static", "selector": "energy"})
        bench.run(30)
        assert [last(bench, job_id).code for job_id in IDS[:2]] == ["node-cap", "static"]

    def test_a_measurement_that_waits_loses_nothing(self, make_bench, monkeypatch):
        """What keeps a waiting job's limit from being in force says nothing of the limit that it wants to measure."""
        bench = make_bench(gpus=2, profile__points=5, control__max_node_power_w=450.0)
        jobs = start(bench, (0,), (1,), profile=None)
        bench.run(10)
        waiting = next(i for i, limit_w in enumerate(bench.limits) if limit_w < 300.0)
        with monkeypatch.context() as patch:
            patch.setattr(bench.gpus[waiting], "enforced_power_limit_w", lambda: 110.0)
            bench.run(60)
        bench.run(3000)
        assert [job.frontier_source for job in jobs] == ["measured"] * 2

    def test_the_hosts_power_counts(self, make_bench):
        """``host_power_w`` of the configuration is in the sum for each job."""
        bench = make_bench(gpus=2, control__max_node_power_w=620.0, policy__host_power_w=100.0)
        start(bench, (0,), (1,))
        bench.run(30)
        assert expected_w(bench) <= 420.0

    @pytest.mark.parametrize("said_w", [0.0, 50.0, 100_000.0])
    @pytest.mark.parametrize("measured", [True, False])
    def test_what_a_job_says_of_its_host_takes_nothing_from_others(self, make_bench, said_w, measured):
        """Nobody slows a neighbour by a figure of his own, or keeps himself out of the sum by another."""
        bench = make_bench(gpus=2, control__max_node_power_w=620.0, policy__host_power_w=100.0)
        policy = {"name": "static", "selector": "time"}
        bench.register(0, job_id=IDS[0], policy=policy)
        profile = "a40-resnet50" if measured else None
        bench.register(1, job_id=IDS[1], policy={**policy, "host_power_w": said_w}, profile=profile)
        bench.run(30)
        limits = bench.limits
        bench.register(1, job_id=IDS[1], policy=policy, profile=profile)
        bench.run(30)
        assert bench.limits == limits
        assert min(limits) > 100.0

    def test_what_falls_is_set_before_what_rises(self, make_bench, monkeypatch):
        """When two jobs change places there is no moment with more than the cap between the two calls."""
        bench = make_bench(gpus=2, control__max_node_power_w=420.0)
        start(bench, (0,), (1,), policy={"name": "threshold"})
        seen: list[float] = []
        for gpu in bench.gpus:

            def note(watts: float, plain=gpu.set_power_limit_w) -> None:
                plain(watts)
                seen.append(expected_w(bench))

            monkeypatch.setattr(gpu, "set_power_limit_w", note)
        for first, second in (("speed-first", "efficiency-first"), ("efficiency-first", "speed-first")) * 2:
            bench.controller.hold(first, OWNER, job_id=IDS[0])
            bench.controller.hold(second, OWNER, job_id=IDS[1])
            bench.run(10)
        assert len(seen) >= 6
        assert max(seen[1:]) <= 420.0

    def test_alike_jobs_do_not_take_turns(self, make_bench):
        """Of two equal jobs the one that gave way keeps giving way for an hour."""
        bench = make_bench(gpus=2, control__max_node_power_w=440.0)
        start(bench, (0,), (1,), policy={"name": "chase", "eta": 0.1})
        bench.run(30)
        seen = []
        for minute in range(60):
            bench.grid.g_per_kwh = CLEAN + minute % 7
            bench.run(60, step_s=20)
            seen.append(bench.limits)
        assert all(before == after for before, after in pairwise(seen))


class TestLifted:
    def test_without_the_cap_all_go_back_at_once(self, make_bench):
        """Each job is where its policy wants it at the next tick, whatever dwell time it has, and an event says so."""
        bench = make_bench(gpus=2, control__max_node_power_w=400.0, policy__dwell_s=86400.0)
        start(bench, (0,), (1,), policy={"name": "chase", "eta": 0.0})
        bench.run(30)
        assert min(bench.limits) < 300.0
        cap(bench, None)
        bench.run(5)
        assert bench.limits == [300.0, 300.0]
        assert bench.codes().count("node-cap-over") == 1

    def test_a_job_that_ends_leaves_its_power_to_the_others(self, make_bench):
        """What one no longer draws, another may."""
        bench = make_bench(gpus=2, control__max_node_power_w=400.0)
        jobs = start(bench, (0,), (1,))
        bench.run(30)
        bench.controller.end(jobs[0].id, OWNER, "done", 1.0)
        bench.run(10)
        assert bench.limits == [300.0, 300.0]

    def test_a_restart_remembers_what_the_policy_wished(self, make_bench):
        """A job that comes back under a cap has its policy's own choice and not what the cap left of it."""
        bench = make_bench(gpus=2, control__max_node_power_w=400.0)
        start(bench, (0,), (1,), policy={"name": "chase", "eta": 0.0})
        bench.run(60)
        bench.close()
        again = make_bench(gpus=2, control__max_node_power_w=400.0)
        again.clock.advance(90.0)
        jobs = start(again, (0,), (1,), policy={"name": "chase", "eta": 0.0})
        assert [job.own.power_limit_w for job in jobs] == [300.0, 300.0]
        assert min(job.setting.power_limit_w for job in jobs) < 300.0
        again.run(10)
        assert expected_w(again) <= 400.0


class TestBeyondWishes:
    def test_a_cap_that_cannot_be_kept_leaves_all_at_their_lowest(self, make_bench):
        """Two jobs under 100 W: both draw the least they can, and a decision and an event say that it is too much."""
        bench = make_bench(gpus=2, control__max_node_power_w=100.0)
        start(bench, (0,), (1,))
        bench.run(60)
        assert bench.limits == [100.0, 100.0]
        assert "still above the cap" in last(bench, IDS[0]).reason
        assert bench.codes().count("node-cap-exceeded") == 1
        cap(bench, 600.0)
        bench.run(10)
        cap(bench, 100.0)
        bench.run(10)
        assert bench.codes().count("node-cap-exceeded") == 2

    def test_the_cap_goes_before_a_budget_that_is_used_up(self, make_bench):
        """A job that may lose no time loses some: the reason says so, and one event for the job."""
        bench = make_bench(gpus=1, control__max_node_power_w=200.0)
        bench.register(0, policy={"name": "budget", "max_slowdown": 0.0}, total_units=1e6)
        bench.run(300)
        assert bench.limits[0] == 225.0
        assert "the cap goes before its budget, which is used up" in last(bench, IDS[0]).reason
        assert bench.codes().count("cap-beats-budget") == 1

    def test_a_budget_with_time_to_spare_is_not_beaten(self, make_bench):
        """Slowed down early by the cap, a job with slack has spent some of it and broken nothing."""
        bench = make_bench(gpus=1, control__max_node_power_w=200.0)
        bench.register(0, policy={"name": "budget", "max_slowdown": 0.1}, total_units=1e6)
        bench.run(60)
        assert bench.limits[0] <= 225.0
        assert "cap-beats-budget" not in bench.codes()

    def test_the_job_with_time_to_spare_gives_way(self, make_bench):
        """Of two budgets the one that has slack is slowed, in whichever order they came."""
        for slacks in ((0.0, 0.2), (0.2, 0.0)):
            bench = make_bench(gpus=2, control__max_node_power_w=400.0)
            for index, slack in enumerate(slacks):
                rules = {"name": "budget", "max_slowdown": slack}
                bench.register(index, job_id=IDS[index], policy=rules, total_units=1e6)
            bench.run(30)
            busy = slacks.index(0.0)
            assert bench.limits[busy] > bench.limits[1 - busy]
            bench.close()

    def test_the_cap_goes_before_a_max_slowdown(self, make_bench):
        """A cap on each setting's slowdown is beaten in the same words."""
        bench = make_bench(gpus=1, control__max_node_power_w=150.0)
        start(bench, (0,), policy={**FAST, "max_slowdown": 0.05})
        bench.run(30)
        assert bench.limits[0] == 150.0
        assert "the cap goes before its max_slowdown 0.05" in last(bench, IDS[0]).reason

    def test_a_floor_gives_way_last(self, make_bench):
        """While others can give way a job stays above its floor; where they cannot the cap goes before it."""
        bench = make_bench(gpus=2, control__max_node_power_w=400.0)
        start(bench, (0,), policy={**FAST, "min_power_limit_w": 250.0})
        bench.register(1, job_id=IDS[1], policy=FAST)
        bench.run(30)
        assert bench.limits[0] >= 250.0
        cap(bench, 300.0)
        bench.run(10)
        assert bench.limits[0] < 250.0
        assert "the cap goes before its min_power_limit_w 250 W" in last(bench, IDS[0]).reason
        assert expected_w(bench) <= 300.0

    def test_a_hold_at_full_speed_does_not_beat_the_cap(self, make_bench):
        """The operator's cap goes before what is held."""
        bench = make_bench(gpus=2, control__max_node_power_w=400.0)
        start(bench, (0,), (1,))
        bench.controller.hold("speed-first", OWNER)
        assert highest_w(bench, 30.0) <= 400.0

    def test_what_must_be_left_as_found_is_and_counts_in_full(self, make_bench):
        """A job that is off keeps its 300 W: the other one makes room for it."""
        bench = make_bench(gpus=2, control__max_node_power_w=450.0)
        bench.register(0, job_id=IDS[0], policy={"name": "off"})
        bench.register(1, job_id=IDS[1], policy=FAST)
        bench.run(30)
        assert bench.limits == [300.0, 150.0]

    def test_a_gpu_that_takes_no_limit_counts_with_the_one_in_force(self, make_bench, monkeypatch):
        """A card that refuses stays at 300 W: the other one is moved for both from the next tick on."""
        bench = make_bench(gpus=2, control__max_node_power_w=400.0)

        def refuse(power_limit_w: float) -> None:
            raise NoPermission("not allowed", uuid=bench.gpus[0].uuid, call="set")

        monkeypatch.setattr(bench.gpus[0], "set_power_limit_w", refuse)
        bench.register(0, job_id=IDS[0], policy={"name": "static", "selector": "energy"})
        bench.register(1, job_id=IDS[1], policy=FAST)
        bench.run(30)
        assert bench.limits == [300.0, 100.0]
        assert "node-cap-exceeded" in bench.codes()

    def test_a_foreign_limit_counts_with_what_it_is(self, make_bench):
        """Somebody gives a card all its power back: that is not fought, and the other job makes room for it."""
        bench = make_bench(gpus=2, control__max_node_power_w=430.0)
        start(bench, (0,), (1,), policy={"name": "static", "selector": "energy"})
        bench.run(30)
        assert bench.limits == [200.0, 200.0]
        bench.gpus[0].set_power_limit_w(300.0)
        bench.run(30)
        assert bench.limits == [300.0, 125.0]
        assert "foreign-change" in bench.codes()

    def test_without_a_frontier_the_limit_itself_is_lowered(self, make_bench):
        """Of a job of which nothing can be known at least the limit is: it is not above what is left of the cap."""
        bench = make_bench(gpus=2, profile__min_headroom=1.0, control__max_node_power_w=450.0)
        start(bench, (0,), (1,), profile=None)
        bench.run(30)
        assert sum(bench.limits) <= 450.0
        assert {last(bench, job_id).mode for job_id in IDS[:2]} == {"off"}

    def test_observing_decides_the_same(self, make_bench, tmp_path):
        """Observe mode says what the cap would do, and touches nothing."""
        control = make_bench(gpus=2, control__max_node_power_w=460.0)
        start(control, (0,), (1,))
        control.run(10)
        wanted = [(d.job_id, d.code, d.power_limit_w) for d in control.decisions()]
        control.close()
        (tmp_path / "chase.sqlite").unlink()
        observe = make_bench(gpus=2, actuate=False, control__max_node_power_w=460.0)
        start(observe, (0,), (1,))
        observe.run(10)
        assert [(d.job_id, d.code, d.power_limit_w) for d in observe.decisions()] == wanted
        assert observe.limits == [300.0, 300.0]


def broken(*_: object) -> None:
    raise ZeroDivisionError("for the test")


class TestFaults:
    """What works the cap out fails; the cap is kept all the same."""

    @pytest.fixture(params=["chase.controller.members", "chase.capping.parts", "zeus_core.power_cap.fit"])
    def fault(self, request, monkeypatch):
        """Breaks one of its steps, until it is called again."""

        def mend(patched: pytest.MonkeyPatch) -> Callable[[], None]:
            patched.setattr(request.param, broken)
            return patched.undo

        return partial(mend, monkeypatch)

    def test_jobs_stay_where_they_were(self, make_bench, fault):
        """What was within the cap before is so now; one event says why, and a decision is explained as any other."""
        bench = make_bench(gpus=2, control__max_node_power_w=440.0)
        start(bench, (0,), (1,))
        bench.run(20)
        before = bench.limits
        mend = fault()
        bench.run(1000)  # until the decisions are logged again
        assert bench.limits == before
        assert bench.codes().count("node-cap-failed") == 1
        note = "max_node_power_w cannot be worked out in this tick: it stays where it was; but for the cap: 300 W"
        assert any(d.reason.startswith(note) and explain(d).same for d in bench.decisions())
        mend()
        bench.run(20)
        assert bench.limits == before

    @pytest.mark.parametrize("cap_w", [620.0, 400.0, 10.0])
    def test_a_new_job_has_its_share(self, make_bench, fault, cap_w):
        """Its power is not known to fit, so that each limit is a third of the cap, and none is below the lowest."""
        bench = make_bench(gpus=3, control__max_node_power_w=cap_w)
        start(bench, (0,), (1,))
        bench.run(20)
        fault()
        bench.register(2, job_id=IDS[2], policy=FAST)
        bench.run(20)
        lowest_w = bench.gpus[2].power_limits().min_w
        assert bench.limits == [max(lowest_w, cap_w // 3)] * 3

    @pytest.mark.parametrize("before_w", [None, 620.0])
    def test_a_cap_that_is_new_or_lower_holds_from_the_first_tick(self, make_bench, fault, before_w):
        """What was within another cap need not be within this one; what the host draws counts."""
        bench = make_bench(gpus=3, control__max_node_power_w=500.0, policy__host_power_w=10.0)
        start(bench, (0,), (1, 2))
        bench.run(20)
        cap(bench, before_w)
        bench.run(20)
        assert sum(bench.limits) > 480.0
        cap(bench, 500.0)
        fault()
        bench.run(20)
        assert bench.limits == [160.0, 160.0, 160.0]

    def test_one_that_must_be_left_alone_takes_its_power_from_the_others(self, make_bench, fault):
        """A job that is held off may draw all that its limit lets it."""
        bench = make_bench(gpus=3, control__max_node_power_w=620.0)
        start(bench, (0,), (1,), (2,))
        bench.run(20)
        fault()
        bench.controller.hold("off", OWNER, job_id=IDS[0])
        bench.run(20)
        assert bench.limits == [300.0, 160.0, 160.0]

    def test_explain_shows_what_was_wished_for_and_what_the_cap_left(self, make_bench):
        """The mark stays at the best of what was weighed."""
        bench = make_bench(gpus=2, control__max_node_power_w=460.0)
        start(bench, (0,), (1,))
        bench.run(10)
        capped = next(d for d in bench.decisions() if d.code == "node-cap")
        lines = explain(capped).lines()
        assert "  capped  to 250 W by the node's cap, in place of 300 W" in lines
        assert [line.split()[1] for line in lines if line.strip().startswith("->")] == ["300"]
