"""A job with ranks on several nodes: what one node wishes is set on all, once they have agreed, and not before."""

from __future__ import annotations

import pytest
from controller_bench import OWNER, Bench
from test_controller_budget import Forecasting, images

from chase.client.messages import Said
from chase.explain import explain
from chase.jobs import Job, JobRefused

NOTHING = Said()


@pytest.fixture
def joint(make_bench):
    """One node's part of a job."""

    def make(part: str, **more) -> tuple[Bench, Job]:
        bench = make_bench(**{"grid": Forecasting, "policy__name": "budget", **more})
        bench.signal.poll()
        wanted = {"joint": part, "total_units": images(20), "policy": {"max_slowdown": 0.2}}
        return bench, bench.register(0, **wanted)

    return make


def go_on(bench: Bench, job: Job, seconds: float, said: Said = NOTHING) -> None:
    for _ in range(round(seconds / 10.0)):
        bench.clock.advance(10.0)
        bench.controller.report(job.id, OWNER, job.units_done + bench.gpus[0].rate() * 10.0, said)
        bench.signal.poll()
        bench.controller.tick()


class TestLeads:
    def test_a_wish_is_not_set_before_all_agree(self, joint):
        """The job hears of it, the card does not."""
        bench, job = joint("leads")
        go_on(bench, job, 60)
        assert job.own.power_limit_w < 300
        assert bench.limits[0] == 300
        decision = bench.decisions()[-1]
        assert decision.code == "agreed"
        assert "nothing is what the job's ranks agreed on; this node wishes for" in decision.reason
        assert explain(decision).same

    def test_what_they_agreed_on_is_set(self, joint):
        """Also where the wish is another by now."""
        bench, job = joint("leads")
        go_on(bench, job, 60)
        go_on(bench, job, 20, Said(agreed_w=225.0))
        assert bench.limits[0] == 225.0
        decision = bench.decisions()[-1]
        assert (decision.power_limit_w, decision.code) == (225.0, "agreed")
        assert explain(decision).same

    def test_its_time_is_counted_at_the_agreed_limit(self, joint):
        """What was only wished for costs nothing."""
        bench, job = joint("leads")
        go_on(bench, job, 600)
        assert job.pace.delayed_s(job.frontier) == pytest.approx(0.0, abs=1e-6)

    def test_it_is_measured_by_agreement(self, joint):
        """The profiler waits until each limit is in force, and what is not yet is no refusal."""
        bench, job = joint("leads", profile__points=3, profile__window_s=10.0)
        bench.controller.end(job.id, OWNER, "done", 0.0)
        job = bench.register(0, job_id="b" * 16, joint="leads", profile=None, total_units=images(20))
        go_on(bench, job, 120)
        assert {window.setting.power_limit_w for window in job.profiler.windows} == {300.0}
        for _ in range(200):
            wish = job.own.power_limit_w if job.own else None
            go_on(bench, job, 10, Said(agreed_w=wish))
            if job.frontier is not None:
                break
        assert len(job.frontier.points) == 3

    @pytest.mark.parametrize("code", ["hold", "end"])
    def test_giving_back_needs_nobodys_consent(self, joint, code):
        """A person's hold and the end of the job leave the card as it was found."""
        bench, job = joint("leads")
        go_on(bench, job, 60, Said(agreed_w=200.0))
        assert bench.limits[0] == 200.0
        if code == "hold":
            bench.controller.hold("off", OWNER, job_id=job.id)
            bench.controller.tick()
        else:
            bench.controller.end(job.id, OWNER, "done", job.units_done)
        assert bench.limits[0] == 300.0

    def test_people_on_this_node_come_first(self, joint):
        """A floor here is kept, whatever ranks elsewhere agree on."""
        bench, job = joint("leads", policy__min_power_limit_w=250.0)
        go_on(bench, job, 60, Said(agreed_w=120.0))
        assert bench.limits[0] == 250.0


class TestFollows:
    def test_it_wishes_for_nothing_and_measures_nothing(self, joint):
        """Two nodes that measure would each wait for the other."""
        bench, job = joint("follows")
        job.profile = None
        go_on(bench, job, 300)
        assert job.profiler is None
        assert bench.limits[0] == 300.0
        assert "another node leads" in bench.decisions()[-1].reason

    def test_it_sets_what_was_agreed_on(self, joint):
        """At its next tick."""
        bench, job = joint("follows")
        go_on(bench, job, 20, Said(agreed_w=200.0))
        assert bench.limits[0] == 200.0
        assert explain(bench.decisions()[-1]).same


def test_a_part_that_means_nothing(bench):
    """Named, with what it may be."""
    with pytest.raises(JobRefused, match="joint must be 'leads' or 'follows', not 'both'"):
        bench.register(0, joint="both")
