"""One job's fault is one job's trouble, and nobody reaches into another's."""

from __future__ import annotations

import math
from dataclasses import replace
from operator import attrgetter

import pytest
from controller_bench import CLEAN, DIRTY, MIDDLE, OWNER

from chase.jobs import MAX_JOBS_PER_USER, MOST_UNITS, JobRefused, Peer, Registration

OTHER, ROOT = Peer(1001, 99), Peer(0, 1)
FULL, FRUGAL = 300.0, 200.0


def refused(status: int, code: str):
    return pytest.raises(JobRefused, check=lambda error: (error.status, error.code) == (status, code))


class TestFaults:
    @pytest.mark.parametrize("units", [1e308, 2 * MOST_UNITS, math.inf, math.nan, -1.0])
    def test_no_count_can_overflow_the_books(self, bench, units):
        """Counts beyond any that is meant are refused at the edge."""
        job = bench.register(0)
        with refused(422, "bad-units"):
            bench.controller.report(job.id, OWNER, units)

    def test_the_greatest_count_is_harmless(self, bench):
        """What is just allowed goes through all the arithmetic."""
        job = bench.register(0)
        bench.controller.report(job.id, OWNER, MOST_UNITS)
        bench.run(25, report=False)
        bench.controller.end(job.id, OWNER, "done", MOST_UNITS)
        assert "job-failed" not in bench.codes()

    @pytest.mark.parametrize("place", ["_grid", "_recorder.record", "_settle", "_watch_progress"])
    def test_a_fault_in_one_job_leaves_the_others_alone(self, bench, monkeypatch, place):
        """Whatever fails for one job, the others are controlled, and all are given back at their end."""
        bad = bench.register(0, job_id="a" * 16)
        good = bench.register(1, job_id="b" * 16)
        *room, name = place.split(".")
        owner = attrgetter(*room)(bench.controller) if room else bench.controller
        whole = getattr(owner, name)

        def sometimes(job, *rest, **named):
            if job is bad:
                raise ZeroDivisionError("for the test")
            return whole(job, *rest, **named)

        monkeypatch.setattr(owner, name, sometimes)
        bench.grid.g_per_kwh = DIRTY
        bench.run(60)
        assert bench.limits[1] == FRUGAL
        assert bench.codes().count("job-failed") == 1
        for job in (bad, good):
            bench.controller.end(job.id, OWNER, "done", 1.0)
        assert bench.limits == [FULL, FULL]

    def test_a_job_whose_books_fail_still_gives_its_gpu_back(self, bench, monkeypatch):
        """At the end of a job the GPU comes first; and a lease that ends is no different."""
        bench.register(0)
        bench.grid.g_per_kwh = DIRTY
        bench.run(10)

        def broken(*_: object) -> None:
            raise ValueError("not finite")

        monkeypatch.setattr(bench.controller._ledger, "post", broken)
        bench.run(40, report=False)
        assert bench.limits[0] == FULL
        assert len(bench.controller.jobs) == 0

    def test_a_gpu_that_cannot_be_given_back_is_said(self, bench, monkeypatch):
        """A restore that fails is an event, not silence."""
        job = bench.register(0)
        bench.grid.g_per_kwh = DIRTY
        bench.run(10)
        from zeus_core.gpus.base import Refused

        def refuse(_: float) -> None:
            raise Refused("no", uuid=bench.gpus[0].uuid, call="set")

        with monkeypatch.context() as patch:
            patch.setattr(bench.gpus[0], "set_power_limit_w", refuse)
            bench.controller.end(job.id, OWNER, "done", 1.0)
            assert "apply-failed" in bench.codes()
        bench.run(10)
        assert bench.limits[0] == FULL


class TestOthersJobs:
    @pytest.mark.parametrize("restarted", [False, True])
    def test_an_id_stays_its_owners_for_ever(self, make_bench, restarted):
        """An ended job, or one that has not come back since a restart, cannot be taken over by its id."""
        bench = make_bench()
        job = bench.register(0)
        bench.run(20)
        if restarted:
            bench.close()
            bench = make_bench()
        else:
            bench.controller.end(job.id, OWNER, "done", 1.0)
        with refused(403, "not-yours"):
            bench.register(0, peer=OTHER)
        assert bench.store.job("a" * 16).uid == OWNER.uid
        assert bench.register(0).id == "a" * 16

    def test_two_users_trainings_of_one_name_share_no_frontier(self, make_bench):
        """`train.py` is everybody's name: a frontier is used again by its owner alone."""
        bench = make_bench(profile__points=5)
        first = bench.register(0, profile=None)
        bench.run(1500)
        bench.controller.end(first.id, OWNER, "done", first.units_done)
        theirs = bench.register(0, profile=None, job_id="b" * 16, peer=OTHER)
        bench.run(5)
        assert theirs.frontier is None

    def test_one_user_cannot_fill_the_node(self, bench):
        """Each has his own share of the places."""
        gpu = bench.gpus[0].uuid
        for number in range(MAX_JOBS_PER_USER):
            bench.controller.register(Registration(id=f"{number:016x}", name="x", gpus=(gpu,)), OWNER)
        with refused(503, "too-many-jobs"):
            bench.controller.register(Registration(id="f" * 16, name="x", gpus=(gpu,)), OWNER)
        other = Registration(id="e" * 16, name="x", gpus=(bench.gpus[1].uuid,))
        assert bench.controller.register(other, OTHER).uid == OTHER.uid

    def test_a_job_does_not_move_to_other_gpus(self, bench):
        """The same id on other GPUs is a mistake, and is said to be one."""
        bench.register(0)
        with refused(409, "other-gpus"):
            bench.register(1)


class TestHolds:
    def test_a_users_hold_of_all_is_of_his_jobs_alone(self, bench):
        """Held before anybody came, it does not touch a job of somebody else."""
        bench.controller.hold("efficiency-first", OTHER)
        bench.register(0)
        bench.run(10)
        assert bench.limits[0] == FULL

    def test_nobody_lifts_the_operators_hold(self, bench):
        """Root's hold of the node beats the owner's own, and stays until root lifts it."""
        bench.register(0)
        bench.controller.hold("efficiency-first", ROOT)
        bench.controller.hold("speed-first", OWNER, job_id="a" * 16)
        assert bench.controller.unhold(OWNER) == 0
        bench.run(10)
        assert bench.limits[0] == FRUGAL
        assert bench.controller.unhold(ROOT) == 1
        assert [hold.mode for hold in bench.store.holds(bench.clock.now())] == ["speed-first"]
        bench.run(10)
        assert bench.limits[0] == FULL

    def test_a_hold_that_is_over_already_is_a_mistake(self, bench):
        """A time in the past holds nothing, so it is refused."""
        with refused(422, "past"):
            bench.controller.hold("off", ROOT, until=bench.clock.now())


class TestShared:
    def test_a_shared_gpu_books_no_saving(self, bench):
        """Half of a card's joules against a frontier of the whole card would be a saving of a half."""
        job = bench.register(0, job_id="a" * 16)
        bench.register(0, job_id="b" * 16)
        bench.run(1200, step_s=10)
        summary, *_ = bench.controller.end(job.id, OWNER, "done", job.units_done)
        assert not summary.saved_grams
        assert all(row.reference_energy_j is None for row in bench.store.intervals(job=job.id))

    def test_the_slower_wish_is_not_taken_for_what_is_in_force(self, bench):
        """A job whose neighbour wants more runs at the neighbour's limit: no drift, and that limit in its books."""
        slow = bench.register(0, job_id="a" * 16, policy={"name": "static"})
        bench.register(0, job_id="b" * 16, policy={"name": "static", "selector": "time"})
        bench.run(1500, step_s=10)
        assert "drift" not in bench.codes()
        assert slow.frontier is not None
        assert bench.limits[0] == FULL
        assert {row.power_limit_w for row in bench.store.intervals(job=slow.id)[1:]} == {FULL}

    def test_a_job_that_comes_later_pays_for_nothing_before(self, bench):
        """Energy drawn before a job registered is not its own, however long the last tick is ago."""
        bench.gpus[0].occupy(1, 1000)
        bench.run(5)
        bench.clock.advance(3600)
        job = bench.register(0)
        bench.clock.advance(1)
        bench.report(1)
        assert job.energy_j < 1.1 * 300.0


class TestTrust:
    def test_a_profile_that_does_not_fit_books_no_saving(self, bench):
        """A job ten times slower than the profile it names: decided by its shape, never compared with its figures."""
        job = bench.register(0)
        for _ in range(200):
            bench.clock.advance(10)
            bench.controller.report(job.id, OWNER, job.units_done + bench.gpus[0].rate())
            bench.signal.poll()
            bench.controller.tick()
        assert bench.codes().count("drift") == 1
        assert job.frontier is not None
        summary, *_ = bench.controller.end(job.id, OWNER, "done", job.units_done)
        assert summary.saved_grams in {None, 0.0}
        assert summary.slowdown is None

    def test_a_frontier_that_proves_wrong_takes_its_bookings_back(self, make_bench, monkeypatch):
        """What was booked against an old frontier is cleared when a drift is told."""
        bench = make_bench(profile__points=5)
        first = bench.register(0, profile=None)
        bench.run(1500)
        bench.controller.end(first.id, OWNER, "done", first.units_done)
        again = bench.register(0, profile=None, job_id="b" * 16)
        bench.run(300)
        assert any(row.reference_energy_j for row in bench.store.intervals(job=again.id))
        rate = bench.gpus[0].rate
        monkeypatch.setattr(bench.gpus[0], "rate", lambda: rate() * 0.8)
        bench.run(1000)
        bench.store.flush()
        assert "drift" in bench.codes()
        assert not any(row.reference_energy_j for row in bench.store.intervals(job=again.id))

    def test_observe_mode_books_the_limit_that_is_there(self, make_bench):
        """The wish is not what the card ran at."""
        bench = make_bench(actuate=False)
        job = bench.register(0)
        bench.grid.g_per_kwh = DIRTY
        bench.run(200)
        assert {row.power_limit_w for row in bench.store.intervals(job=job.id)[1:]} == {FULL}


class TestComingBack:
    def test_mode_and_dwell_survive_a_restart(self, make_bench):
        """Inside the band a job stays efficiency-first over a restart, and its dwell goes on."""
        bench = make_bench(policy__dwell_s=3600.0)
        bench.grid.g_per_kwh = DIRTY
        bench.register(0)
        bench.run(20)
        assert bench.limits[0] == FRUGAL
        bench.close()
        bench = make_bench(policy__dwell_s=3600.0)
        bench.clock.advance(60)
        bench.grid.g_per_kwh = CLEAN
        bench.register(0)
        bench.run(20)
        assert bench.limits[0] == FRUGAL  # still within its dwell
        bench.grid.g_per_kwh = MIDDLE
        bench.run(3600, step_s=20)
        assert bench.limits[0] == FRUGAL  # within the band, as before

    def test_the_reference_of_chases_rule_survives_a_restart(self, make_bench):
        """A reference that moved would silently retune eta (papers A.7)."""
        settings = {"policy__name": "chase", "policy__eta": 0.3}
        bench = make_bench(**settings)
        bench.grid.g_per_kwh = 500.0
        bench.register(0)
        bench.run(20)
        bench.close()
        bench = make_bench(**settings)
        bench.clock.advance(30)
        bench.grid.g_per_kwh = 100.0
        job = bench.register(0)
        bench.run(20)
        assert job.reference_g == 500.0

    def test_a_reference_is_never_fixed_on_a_guess(self, bench):
        """A silent grid at the first tick: no forecast or typical value becomes the reference for life."""
        bench.grid.g_per_kwh = None
        job = bench.register(0, policy={"name": "chase"})
        bench.run(20)
        assert job.reference_g is None
        bench.grid.g_per_kwh = 120.0
        bench.run(20)
        assert job.reference_g == 120.0

    @pytest.mark.parametrize("broken", [{"inputs": {}}, {"choice": {}}])
    def test_a_last_decision_that_cannot_be_read_keeps_nobody_out(self, make_bench, broken):
        """A row of another version: the job is taken in and begins anew, and it is said."""
        bench = make_bench()
        bench.register(0)
        bench.run(20)
        bench.store.add_decision(replace(bench.decisions()[-1], id=None, at=bench.clock.now(), **broken))
        bench.close()
        bench = make_bench()
        bench.clock.advance(30)
        assert bench.register(0).mode is None
        assert "not-recalled" in bench.codes()

    def test_decisions_are_counted_over_both_runs(self, make_bench):
        """The account says how many decisions there were, not how many since the restart."""
        bench = make_bench()
        job = bench.register(0)
        bench.run(20)
        bench.close()
        bench = make_bench()
        bench.clock.advance(30)
        job = bench.register(0)
        bench.run(20)
        _, decisions, _ = bench.controller.end(job.id, OWNER, "done", 1.0)
        assert decisions == len(bench.store.decisions(job=job.id)) >= 2


def test_a_card_cut_into_instances_is_left_alone(bench, monkeypatch):
    """Its limit would slow whoever has the other slices (rule G21)."""
    monkeypatch.setattr(bench.gpus[0], "mig_uuids", lambda: ("MIG-1", "MIG-2"))
    bench.register(0)
    bench.grid.g_per_kwh = DIRTY
    bench.run(10)
    assert bench.limits[0] == FULL
    assert "MIG" in bench.decisions()[-1].reason
