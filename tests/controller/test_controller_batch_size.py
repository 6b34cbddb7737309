"""The batch size as a lever: declared by a job, measured beside the limits, wanted by the plan, and never forced."""

from __future__ import annotations

from typing import Any

import pytest
from controller_bench import OWNER, Bench
from test_controller_budget import Forecasting, images

from chase.client.messages import Said
from chase.explain import explain
from chase.jobs import Job, JobRefused
from zeus_core.frontier import Setting

SPEED_OF = {64: 0.85, 128: 1.0, 256: 1.1}  # of a batch size, against the job's own


@pytest.fixture
def training(make_bench):
    """A job that can change its batch size, and changes it when it is told to at the next report."""

    def make(**more: Any) -> tuple[Bench, Job]:
        chosen = {"grid": Forecasting, "policy__name": "budget", "profile__points": 3, "profile__window_s": 10.0}
        bench = make_bench(**{**chosen, **more})
        bench.signal.poll()
        wanted = {"batch_size": 128, "batch_sizes": (64, 128, 256), "policy": {"max_slowdown": 0.2}}
        return bench, bench.register(0, profile=None, total_units=images(60), **wanted)

    return make


def run(bench: Bench, job: Job, seconds: float, *, step_s: float = 5.0, obeys: bool = True, **more: Any) -> None:
    """Training at the speed of its batch size; ``obeys`` says whether it changes when it is told to."""
    end_s = bench.clock.monotonic() + seconds
    while bench.clock.monotonic() < end_s:
        bench.clock.advance(step_s)
        done = job.units_done + bench.gpus[0].rate() * SPEED_OF[job.batch_in_force] * step_s
        wanted = job.setting.batch_size if obeys and job.setting is not None else None
        bench.controller.report(job.id, OWNER, done, Said(wanted, **more))
        bench.signal.poll()
        bench.controller.tick()


def until_measured(bench: Bench, job: Job) -> None:
    for _ in range(100):
        run(bench, job, 60.0)
        if job.frontier is not None:
            return
    raise AssertionError("it was not measured")


class TestMeasured:
    def test_limits_at_each_size(self, training):
        """One frontier over both levers, against the job's own size at its own limit."""
        bench, job = training()
        until_measured(bench, job)
        assert job.frontier.batch_sizes == (64, 128, 256)
        assert job.frontier.reference.setting == Setting(power_limit_w=300.0, batch_size=128)
        at_300 = {size: job.frontier.seconds_at(300.0, size) for size in SPEED_OF}
        assert {size: at_300[128] / seconds for size, seconds in at_300.items()} == pytest.approx(SPEED_OF, rel=0.02)

    def test_the_sizes_before_it_are_waited_for(self, training):
        """A job changes at its own boundary, and until then nothing is booked to the size that is wanted."""
        bench, job = training()
        while job.setting is None or job.setting.batch_size == 128:
            run(bench, job, 5.0)
        before = len(job.profiler.windows)
        run(bench, job, 900.0, obeys=False)
        assert len(job.profiler.windows) == before
        assert job.profiler.note == "waiting for 300 W, batch 64 to be in force"
        until_measured(bench, job)

    def test_again_from_the_database(self, training, make_bench):
        """The next run of the same job knows them; one that allows fewer is given no other."""
        bench, job = training()
        until_measured(bench, job)
        bench.controller.end(job.id, OWNER, "done", job.units_done)
        wanted = {"batch_size": 128, "batch_sizes": (64, 128)}
        again = bench.register(0, job_id="b" * 16, profile=None, **wanted)
        bench.controller.tick()
        assert again.frontier_source == "measured before"
        assert again.frontier.batch_sizes == (64, 128)

    def test_of_a_published_profile_only_the_limits(self, training, make_bench):
        """Nobody has measured other sizes: the job stays at its own."""
        bench = make_bench(grid=Forecasting, policy__name="budget")
        bench.signal.poll()
        job = bench.register(0, total_units=images(60), batch_size=128, batch_sizes=(64, 128))
        run(bench, job, 60.0)
        assert job.frontier.batch_sizes == (128,)
        assert job.setting.batch_size == 128


class TestWanted:
    def test_the_faster_size_buys_a_lower_limit(self, training):
        """The plan uses both levers, and its decision can be taken again."""
        bench, job = training()
        until_measured(bench, job)
        run(bench, job, 3600.0)
        assert job.setting.batch_size == 256
        assert job.setting.power_limit_w < 300.0
        rows = bench.decisions()
        assert all(explain(row).same for row in rows)
        assert "batch 256" in rows[-1].reason

    def test_what_is_spent_is_by_the_size_in_force(self, training):
        """A job that does not change is as late as its own size makes it, not as the size that is wanted would."""
        bench, job = training()
        until_measured(bench, job)
        spent = []
        for obeys in (True, False):
            before_s, units, at_s = job.pace.delayed_s(job.frontier), job.units_done, bench.clock.monotonic()
            run(bench, job, 1800.0, obeys=obeys)
            took_s = bench.clock.monotonic() - at_s
            late_s = took_s - (job.units_done - units) * job.frontier.reference.seconds_per_unit
            spent.append(job.pace.delayed_s(job.frontier) - before_s)
            assert spent[-1] == pytest.approx(late_s, abs=0.03 * took_s)
            bench.controller.report(job.id, OWNER, job.units_done, Said(128))

    def test_off_is_the_jobs_own(self, training):
        """Who holds the job off gets it as it was found."""
        bench, job = training()
        until_measured(bench, job)
        bench.controller.hold("off", OWNER, job_id=job.id)
        bench.controller.tick()
        assert job.setting is None


class TestImpossible:
    def test_while_it_is_measured(self, training):
        """What does not fit into the memory is left out of the sweep, and of the frontier."""
        bench, job = training()
        while job.setting is None or job.setting.batch_size != 256:
            run(bench, job, 5.0)
        run(bench, job, 5.0, impossible=(256,))
        until_measured(bench, job)
        assert job.frontier.batch_sizes == (64, 128)
        assert "batch-size-out" in bench.codes()

    def test_once_it_is_known(self, training):
        """It is out of the plan at the next tick, for good."""
        bench, job = training()
        until_measured(bench, job)
        run(bench, job, 600.0)
        assert job.setting.batch_size == 256
        bench.controller.report(job.id, OWNER, job.units_done, Said(128, (256,)))
        run(bench, job, 60.0)
        assert job.frontier.batch_sizes == (64, 128)
        assert job.setting.batch_size != 256

    def test_its_own_is_not_out_while_it_runs_at_it(self, training):
        """There would be nothing to compare with."""
        bench, job = training()
        run(bench, job, 5.0, impossible=(128,))
        assert job.batch_sizes == (64, 128, 256)

    def test_what_it_runs_at_instead_of_its_own_is_its_own(self, training):
        """A job whose own size does not fit this GPU: all is compared with the size that it fell back to."""
        bench, job = training()
        run(bench, job, 30.0)
        bench.controller.report(job.id, OWNER, job.units_done, Said(64, (128, 256)))
        assert (job.batch_size, job.batch_sizes, job.batch_in_force) == (64, (64,), 64)
        wanted = {"batch_size": 128, "batch_sizes": (64, 128, 256), "policy": {"max_slowdown": 0.2}}
        bench.register(0, profile=None, total_units=images(60), units_done=job.units_done, **wanted)
        assert (job.batch_size, job.batch_sizes) == (64, (64,))
        until_measured(bench, job)
        assert job.frontier.reference.setting == Setting(power_limit_w=300.0, batch_size=64)

    def test_registering_again_brings_none_back(self, training):
        """A job that says its terms again (its reporter lost the service) still cannot run there."""
        bench, job = training()
        run(bench, job, 5.0, impossible=(256,))
        wanted = {"batch_size": 128, "batch_sizes": (64, 128, 256), "policy": {"max_slowdown": 0.2}}
        again = bench.register(0, profile=None, total_units=images(60), units_done=job.units_done, **wanted)
        assert again is job
        assert job.batch_sizes == (64, 128)
        assert job.profiler is not None


class TestRefused:
    @pytest.mark.parametrize(
        ("own", "sizes", "words"),
        [
            (64, (), "1 to 16 different whole numbers"),
            (None, (64,), "batch_size must be one of"),
            (32, (64, 128), r"one of batch_sizes \[64, 128\], not 32"),
            (64, (64, 64), "different"),
            (0, (0, 64), "from 1"),
            (1, tuple(range(1, 18)), "1 to 16"),
        ],
    )
    def test_sizes_that_mean_nothing(self, bench, own, sizes, words):
        """Told at registration, with what would be right."""
        with pytest.raises(JobRefused, match=words):
            bench.register(0, batch_size=own, batch_sizes=sizes)

    def test_a_size_that_was_never_named(self, training):
        """A report of one is another job's."""
        bench, job = training()
        with pytest.raises(JobRefused, match="the job named batch sizes 64, 128, 256, and not 512"):
            bench.controller.report(job.id, OWNER, 1.0, Said(512))
