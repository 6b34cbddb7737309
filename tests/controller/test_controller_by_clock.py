"""A job that counts nothing is counted by its GPUs' SM clock, and everything says so."""

from __future__ import annotations

import pytest
from controller_bench import OWNER, Bench
from test_controller_budget import Forecasting

from chase.clock_proxy import UNITS
from chase.jobs import Job
from zeus_core.gpus.base import Lost


@pytest.fixture
def silent(make_bench):
    """A job of which nothing is heard but that it is there."""

    def make(*gpus: int, **more) -> tuple[Bench, Job]:
        wishes = {"policy__name": "budget", "profile__points": 3, "profile__window_s": 10.0, "gpus": 2}
        bench = make_bench(grid=Forecasting, **wishes)
        bench.signal.poll()
        return bench, bench.register(*(gpus or (0,)), **{"profile": None, "total_units": 1000.0, **more})

    return make


def breathe(bench: Bench, job: Job, seconds: float, units: float = 0.0) -> None:
    for _ in range(round(seconds / 5.0)):
        bench.clock.advance(5.0)
        bench.controller.report(job.id, OWNER, units)
        bench.controller.tick()


class TestCounts:
    def test_after_a_while_and_says_so(self, silent):
        """Two minutes of nothing, and it has its frontier like any other job, labelled."""
        bench, job = silent()
        breathe(bench, job, 115)
        assert (job.units_done, job.by_clock) == (0.0, None)
        breathe(bench, job, 1200)
        assert job.units == UNITS
        assert job.frontier_source == "measured by SM clock"
        assert bench.codes().count("by-clock") == 1
        assert bench.limits[0] < 300

    def test_the_account_says_in_what(self, silent):
        """For the launcher's last words: its job said "steps", and no step was ever counted."""
        bench, job = silent()
        breathe(bench, job, 300)
        summary, _, units = bench.controller.end(job.id, OWNER, "done", 0.0)
        assert units == UNITS
        assert summary.units > 0

    def test_cycles(self, silent):
        """A GHz for a second, of a GPU that is busy all the time, is a Gcycle."""
        bench, job = silent()
        breathe(bench, job, 125)
        before, ghz = job.units_done, bench.gpus[0].sm_clock_mhz() / 1000
        breathe(bench, job, 5)
        assert job.units_done - before == pytest.approx(5 * ghz)

    def test_the_slowest_of_its_gpus(self, silent):
        """Both wait for the one that is held down."""
        bench, job = silent(0, 1)
        breathe(bench, job, 125)
        bench.gpus[1].occupy(OWNER.pid, OWNER.uid, load=0.5)
        breathe(bench, job, 5)
        before = job.units_done
        breathe(bench, job, 5)
        clocks = [gpu.sm_clock_mhz() * gpu.utilisation() / 1000 for gpu in bench.gpus]
        assert job.units_done - before == pytest.approx(5 * min(clocks))

    def test_an_idle_gpu_does_no_work(self, silent):
        """Nothing is taken on while nothing runs."""
        bench, job = silent()
        bench.gpus[0].vacate(OWNER.pid)
        breathe(bench, job, 600)
        assert (job.units_done, job.by_clock) == (0.0, None)

    def test_a_gpu_that_cannot_be_read(self, silent, monkeypatch):
        """Counts as standing still, and hurts nobody."""
        bench, job = silent()
        breathe(bench, job, 150)
        monkeypatch.setattr(bench.gpus[0], "utilisation", lambda: (_ for _ in ()).throw(Lost("gone")))
        breathe(bench, job, 5)
        before = job.units_done
        breathe(bench, job, 60)
        assert job.units_done == before


class TestGivesWay:
    def test_to_the_jobs_own_count(self, silent):
        """The first step that is heard of ends it, in the job's own units and from its own number."""
        bench, job = silent()
        breathe(bench, job, 1200)
        breathe(bench, job, 5, units=7.0)
        assert (job.units, job.units_done, job.total_units, job.by_clock) == ("steps", 7.0, 1000.0, None)
        assert job.frontier is None or "clock" not in job.frontier_source
        breathe(bench, job, 10, units=9.0)
        rows = [row.units for row in bench.store.intervals()]
        assert all(units >= 0 for units in rows)

    def test_a_job_that_counts_is_never_taken_on(self, silent):
        """Also when it stalls: that is a hang, and no work."""
        bench, job = silent()
        breathe(bench, job, 5, units=1.0)
        breathe(bench, job, 1200, units=1.0)
        assert (job.units, job.units_done) == ("steps", 1.0)

    def test_to_a_registration(self, silent):
        """Who registers again says what is counted; silence takes another two minutes."""
        bench, job = silent()
        breathe(bench, job, 300)
        bench.register(0, profile=None, total_units=1000.0)
        assert (job.units, job.units_done) == ("steps", 0.0)
        breathe(bench, job, 130)
        assert job.units == UNITS

    def test_a_published_profile_is_of_other_units(self, silent):
        """Images of a published curve are no cycles: what is measured by cycles is gone by."""
        bench, job = silent(profile="a40-resnet50")
        breathe(bench, job, 60)
        assert job.frontier_source == "profile a40-resnet50"
        breathe(bench, job, 1200)
        assert job.frontier_source == "measured by SM clock"
        breathe(bench, job, 10, units=5.0)
        assert job.frontier_source == "profile a40-resnet50"
