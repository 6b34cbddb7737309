"""Recurring jobs in the controller: each gets its trial, its joules and seconds are kept, and it ends as it did."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "controller"))

from controller_bench import OWNER, Bench

from chase.client.messages import Said
from chase.client.recurring import Recurring
from chase.jobs import Job, JobRefused, Peer
from zeus_core.trials import Status

NIGHTLY = Recurring(batch_sizes=(32, 64, 128), default=64, target=0.8, max_epochs=10)
OTHER = Peer(4242, 1)


@pytest.fixture
def open_bench(tmp_path):
    """Benches on one database, one after the other."""
    benches: list[Bench] = []

    def make(**more: Any) -> Bench:
        if benches:
            benches[-1].close()
        benches.append(Bench(tmp_path, **{"policy__without_signal": "speed-first", **more}))
        benches[-1].controller.tick()
        return benches[-1]

    yield make
    benches[-1].close()


def begin(bench: Bench, number: int, **more: Any) -> Job:
    wanted = {"name": "nightly", "recurring": NIGHTLY.to_dict(), **more}
    return bench.register(0, job_id=f"{number:016x}", **wanted)


def train(bench: Bench, job: Job, seconds: float, said: Said = Said(reached=True, epochs=4, metric=0.81)) -> None:  # noqa: B008
    """At the size that it was told, unless ``said`` has another."""
    bench.run(seconds, step_s=5.0)
    size = said.global_batch or bench.controller.trial(job)["trial"]["batch_size"]
    bench.controller.report(job.id, OWNER, job.units_done, replace(said, global_batch=size))


def whole(bench: Bench, number: int, seconds: float, reason: str = "done", **more: Any) -> Job:
    """One training, from its beginning to its end."""
    job = begin(bench, number)
    train(bench, job, seconds, **more)
    bench.controller.end(job.id, OWNER, reason, job.units_done)
    return job


def trials(bench: Bench) -> list[Any]:
    return bench.store.trials()


class TestTrials:
    def test_the_first_is_its_own_size(self, open_bench):
        """The answer to the registration says which, and why; the database has it at once."""
        bench = open_bench()
        job = begin(bench, 1)
        told = bench.controller.trial(job)
        assert (told["trial"]["number"], told["trial"]["batch_size"], told["stop"]) == (1, 64, "")
        (row,) = trials(bench)
        assert (row.status, row.batch_size, row.stage, row.job_id) == ("running", 64, "pruning", job.id)
        assert row.max_power_w == 300.0
        assert "eta 0.25: of the grid's last weeks fewer than 24 hours are known" in row.reason
        assert "trial-begun" in bench.codes()

    def test_what_it_took_is_kept(self, open_bench):
        """Joules as the ledger has them, and its seconds."""
        bench = open_bench()
        job = whole(bench, 1, 600.0)
        (row,) = trials(bench)
        assert (row.status, row.epochs, row.metric) == ("converged", 4, 0.81)
        assert row.duration_s == pytest.approx(600.0)
        assert row.energy_j == pytest.approx(job.energy_j)
        assert row.ended_at is not None

    def test_one_after_the_other(self, open_bench):
        """The search goes on from recurrence to recurrence, and comes to the quicker size."""
        bench, took = open_bench(), {32: 900.0, 64: 600.0, 128: 300.0}
        for number in range(1, 16):
            job = begin(bench, number)
            train(bench, job, took[bench.controller.trial(job)["trial"]["batch_size"]])
            bench.controller.end(job.id, OWNER, "done", job.units_done)
        sizes = [row.batch_size for row in trials(bench)]
        assert sizes[:3] == [64, 32, 128]
        assert sizes[-5:] == [128] * 5

    @pytest.mark.parametrize(
        ("reason", "said", "status"),
        [
            ("done", Said(epochs=10, metric=0.5, reached=False), Status.FAILED),
            ("failed: ValueError", Said(epochs=1), Status.LOST),
            ("done", Said(epochs=9, metric=0.5), Status.LOST),
            ("failed: ValueError", Said(epochs=10), Status.FAILED),
            ("failed: OutOfMemoryError", Said(), Status.OUT_OF_MEMORY),
            ("failed: exit status 1 (OutOfMemoryError)", Said(), Status.OUT_OF_MEMORY),
            ("killed by SIGKILL", Said(epochs=3), Status.LOST),
            ("interrupted", Said(), Status.LOST),
            ("failed: exit status 1", Said(epochs=4, reached=True), Status.CONVERGED),
        ],
    )
    def test_as_it_ends(self, open_bench, reason, said, status):
        """Well, badly, or by somebody's hand."""
        bench = open_bench()
        whole(bench, 1, 60.0, reason, said=said)
        assert trials(bench)[0].status == status.value

    def test_a_job_that_falls_silent_is_lost_and_blocks_nobody(self, open_bench):
        """Its lease ends it; the next one tries its size."""
        bench = open_bench()
        begin(bench, 1)
        bench.run(120.0, report=False)
        assert trials(bench)[0].status == "lost"
        job = begin(bench, 2)
        assert bench.controller.trial(job)["trial"]["batch_size"] == 64

    def test_the_size_in_force_counts(self, open_bench):
        """A training that was faster than the service ran at its default: so it is written down."""
        bench = open_bench()
        whole(bench, 1, 60.0)
        job = begin(bench, 2)
        assert trials(bench)[1].batch_size == 32
        train(bench, job, 60.0, Said(global_batch=64, epochs=2, reached=True))
        bench.controller.end(job.id, OWNER, "done", job.units_done)
        assert trials(bench)[1].batch_size == 64

    def test_two_at_once(self, open_bench):
        """The second runs the best that is known, and not the size that the first is trying."""
        bench = open_bench(gpus=2)
        whole(bench, 1, 60.0)
        begin(bench, 2)
        second = bench.register(1, job_id=f"{3:016x}", name="nightly", recurring=NIGHTLY.to_dict())
        assert bench.controller.trial(second)["trial"]["stage"] == "concurrent"


class TestInside:
    """Microbatches and limits move while a recurrence runs; what it is trained with does not."""

    SIZES = {"batch_size": 16, "batch_sizes": (16, 32, 64, 128)}  # noqa: RUF012  constant

    def test_only_those_that_divide_it(self, open_bench):
        """The second recurrence tries 32, so that 64 at once cannot be."""
        bench = open_bench()
        job = begin(bench, 1, **self.SIZES)
        assert (job.global_batch, job.batch_sizes) == (64, (16, 32, 64))
        train(bench, job, 60.0)
        bench.controller.end(job.id, OWNER, "done", job.units_done)
        job = begin(bench, 2, **self.SIZES)
        assert (job.global_batch, job.batch_sizes, job.out) == (32, (16, 32), {64, 128})

    def test_what_was_out_of_memory_stays_out(self, open_bench):
        """Also where the training was begun at its default, since the service was slower than it."""
        bench = open_bench()
        whole(bench, 1, 60.0)
        job = begin(bench, 2, **self.SIZES)
        bench.controller.report(job.id, OWNER, 1.0, Said(batch_size=16, impossible=(32,), global_batch=32))
        assert job.batch_sizes == (16,)
        bench.controller.report(job.id, OWNER, 2.0, Said(batch_size=16, impossible=(32,), global_batch=64))
        assert (job.global_batch, job.batch_sizes) == (64, (16, 64))

    def test_registering_again_changes_nothing(self, open_bench):
        """A launcher does, and so does a client that lost its service."""
        bench = open_bench()
        job = begin(bench, 1, profile=None, **self.SIZES)
        bench.run(30.0)
        profiler = job.profiler
        again = begin(bench, 1, profile=None, **self.SIZES)
        assert again is job
        assert profiler is not None
        assert (job.batch_sizes, job.profiler) == ((16, 32, 64), profiler)

    def test_microbatches_that_are_said_later_divide_it_as_well(self, open_bench):
        """The recurrence had begun when they were said."""
        bench = open_bench()
        job = begin(bench, 1)
        begin(bench, 1, **self.SIZES)
        assert (job.global_batch, job.batch_sizes, job.out) == (64, (16, 32, 64), {128})

    def test_each_size_has_a_frontier_of_its_own(self, open_bench):
        """A night at another batch is no night at this one: what was measured at 64 says nothing of 32."""
        bench = open_bench(profile__points=3, profile__window_s=10.0)
        keys = []
        for number, size in enumerate((None, 64, 32), 1):
            if size is not None:
                bench.controller.pin("nightly", OWNER, size)
            job = begin(bench, number, profile=None)
            bench.run(600.0)
            keys.append((job.global_batch, job.frontier_source))
            bench.controller.end(job.id, OWNER, "done", job.units_done)
        assert keys == [(64, "measured"), (64, "measured before"), (32, "measured")]

    def test_a_microbatch_that_divides_not_all(self, open_bench):
        """Refused, as the client does."""
        with pytest.raises(JobRefused, match="batch_size 64 must divide"):
            begin(open_bench(), 1, batch_size=64, batch_sizes=(64,))


class TestStops:
    def test_one_that_is_too_dear_is_told(self, open_bench):
        """By its running cost at its own eta, and it is written down as that."""
        bench = open_bench()
        whole(bench, 1, 300.0)
        job = begin(bench, 2)
        train(bench, job, 500.0, Said(epochs=2))
        assert not bench.controller.trial(job)["stop"]
        train(bench, job, 500.0, Said(epochs=5))
        assert "more than its limit" in bench.controller.trial(job)["stop"]
        bench.controller.end(job.id, OWNER, "done", job.units_done)
        assert trials(bench)[1].status == "stopped early"

    def test_not_one_that_has_arrived(self, open_bench):
        """However dear it was."""
        bench = open_bench()
        whole(bench, 1, 300.0)
        job = begin(bench, 2)
        bench.controller.report(job.id, OWNER, 1.0, Said(epochs=2, reached=True))
        train(bench, job, 2000.0)
        assert not bench.controller.trial(job)["stop"]


class TestRestart:
    def test_a_trial_goes_on(self, open_bench):
        """The same number and size, and what it took before is not forgotten."""
        bench = open_bench()
        job = begin(bench, 1)
        train(bench, job, 300.0, Said(epochs=2))
        assert bench.controller.trial(job)["trial"]["number"] == 1
        first_j, at_s = job.energy_j, bench.clock.monotonic()
        again = open_bench()
        again.clock.advance(at_s)
        back = begin(again, 1)
        assert again.controller.trial(back)["trial"]["number"] == 1
        train(again, back, 300.0)
        again.controller.end(back.id, OWNER, "done", back.units_done)
        (row,) = trials(again)
        assert row.energy_j == pytest.approx(first_j + back.energy_j, rel=0.02)
        assert row.duration_s == pytest.approx(600.0, rel=0.02)

    def test_a_trial_whose_job_does_not_come_back_is_lost(self, open_bench):
        """Found out when the next one begins."""
        bench = open_bench()
        begin(bench, 1)
        again = open_bench()
        again.run(120.0)
        job = begin(again, 2)
        assert [row.status for row in trials(again)] == ["lost", "running"]
        assert again.controller.trial(job)["trial"]["batch_size"] == 64

    @pytest.mark.parametrize("before_s", [0.0, 30.0, 300.0])
    def test_what_it_took_with_nobody_looking_counts(self, open_bench, before_s):
        """A training goes on without the service: its time is known, and it drew what it draws otherwise."""
        bench = open_bench()
        job = begin(bench, 1)
        bench.run(before_s, step_s=5.0)
        at_s = bench.clock.monotonic()
        again = open_bench()
        again.clock.advance(at_s + 600.0)
        back = begin(again, 1)
        train(again, back, 300.0)
        again.controller.end(back.id, OWNER, "done", back.units_done)
        (row,) = trials(again)
        assert row.status == "converged"
        assert row.duration_s == pytest.approx(before_s + 900.0, rel=0.02)
        assert row.energy_j / row.duration_s == pytest.approx(back.energy_j / 300.0, rel=0.05)
        assert job.name == back.name

    def test_one_that_was_reset_meanwhile_goes_on_and_ends(self, open_bench):
        """It is not gone by any more, but it is one training: no second row, and none that runs for ever."""
        bench = open_bench()
        job = begin(bench, 1)
        train(bench, job, 300.0, Said(epochs=2))
        bench.controller.reset("nightly", OWNER)
        again = open_bench()
        back = begin(again, 1)
        train(again, back, 60.0)
        again.controller.end(back.id, OWNER, "done", back.units_done)
        assert [(row.number, row.status) for row in trials(again)] == [(1, "converged")]
        assert again.controller.trial(begin(again, 2))["trial"]["number"] == 2

    def test_one_that_was_lost_before_a_reset_is_closed(self, open_bench):
        """When the next one begins."""
        bench = open_bench()
        begin(bench, 1)
        bench.controller.reset("nightly", OWNER)
        again = open_bench()
        again.run(120.0)
        begin(again, 2)
        assert [row.status for row in trials(again)] == ["lost", "running"]

    @pytest.mark.parametrize("between", [False, True])
    def test_a_job_that_was_silent_for_its_lease_goes_on_with_its_trial(self, open_bench, between):
        """Its epochs count from its beginning, and so do its joules: the rest alone would be a cheap training."""
        bench = open_bench(gpus=2)
        job = begin(bench, 1)
        train(bench, job, 600.0, Said(epochs=4))
        first_j = job.energy_j
        bench.run(120.0, report=False)
        assert trials(bench)[0].status == "lost"
        if between:
            bench.register(1, job_id=f"{2:016x}", name="nightly", recurring=NIGHTLY.to_dict())
        back = begin(bench, 1)
        assert bench.controller.trial(back)["trial"]["number"] == 1
        train(bench, back, 300.0, Said(epochs=6, reached=True))
        bench.controller.end(back.id, OWNER, "done", back.units_done)
        row = trials(bench)[0]
        assert (row.status, row.epochs, len(trials(bench))) == ("converged", 6, 1 + between)
        assert row.duration_s > 900.0
        assert row.energy_j > first_j + back.energy_j * 0.99


class TestWhatSaysNothing:
    """Of its batch size, so that the size is tried again and nobody's limit is the lower for it."""

    def test_a_size_that_nobody_asked_for(self, open_bench):
        """A training that never reads ``job.batch_size`` runs at its own, whatever it was told: that is said."""
        bench = open_bench()
        job = begin(bench, 1)
        bench.run(300.0)
        bench.controller.report(job.id, OWNER, job.units_done, Said(epochs=4, reached=True))
        bench.controller.end(job.id, OWNER, "done", job.units_done)
        assert trials(bench)[0].status == "lost"
        assert "trial-not-asked" in bench.codes()

    def test_shared_gpus(self, open_bench):
        """Two trainings on one card get half of its joules each."""
        bench = open_bench()
        job = begin(bench, 1)
        other = bench.register(0, job_id="f" * 16, name="other")
        train(bench, job, 60.0)
        bench.controller.end(other.id, OWNER, "done", other.units_done)
        train(bench, job, 60.0)
        bench.controller.end(job.id, OWNER, "done", job.units_done)
        assert trials(bench)[0].status == "lost"
        assert bench.codes().count("trial-shared") == 1

    def test_a_fault_in_the_code_does_not_cost_a_size_its_place(self, open_bench):
        """After the bug is mended the default is tried like any other."""
        bench = open_bench()
        whole(bench, 1, 30.0, "failed: NameError", said=Said())
        assert begin(bench, 2).global_batch == 64


class TestPeople:
    def test_of_several_users_none_is_taken_for_another(self, open_bench):
        """Root is told whose there are."""
        bench = open_bench()
        for number, uid in enumerate((4242, 4343), 1):
            bench.register(0, job_id=f"{number:016x}", name="nightly", recurring=NIGHTLY.to_dict(), peer=Peer(uid, 1))
            bench.controller.end(f"{number:016x}", Peer(uid, 1), "done", 0.0)
        with pytest.raises(JobRefused, match="users 4242, 4343 each have a job 'nightly'"):
            bench.controller.pin("nightly", Peer(0, 1), 32)
        assert bench.controller.pin("nightly", Peer(4343, 1), 32).uid == 4343

    def test_pinned_and_let_go(self, open_bench):
        """From the next training on."""
        bench = open_bench()
        whole(bench, 1, 60.0)
        bench.controller.pin("nightly", OWNER, 128)
        whole(bench, 2, 60.0)
        assert (trials(bench)[1].batch_size, trials(bench)[1].stage) == (128, "pinned")
        bench.controller.pin("nightly", OWNER, None)
        whole(bench, 3, 60.0)
        assert trials(bench)[2].stage == "pruning"

    def test_reset(self, open_bench):
        """The search begins anew, and what was tried stays in the database."""
        bench = open_bench()
        for number in (1, 2):
            whole(bench, number, 60.0)
        bench.controller.reset("nightly", OWNER)
        job = begin(bench, 3)
        assert bench.controller.trial(job)["trial"]["batch_size"] == 64
        assert [row.number for row in trials(bench)] == [1, 2, 3]

    def test_only_ones_own(self, open_bench):
        """Root may, others may not."""
        bench = open_bench()
        whole(bench, 1, 60.0)
        with pytest.raises(JobRefused, match="belongs to another user"):
            bench.controller.pin("nightly", OTHER, 32)
        bench.controller.pin("nightly", Peer(0, 1), 32)
        with pytest.raises(JobRefused, match="no job 'daily' was trained here"):
            bench.controller.reset("daily", OWNER)
        with pytest.raises(JobRefused, match="runs at 32, 64, 128, not at 48"):
            bench.controller.pin("nightly", OWNER, 48)

    def test_two_users_jobs_of_one_name(self, open_bench):
        """Are two jobs."""
        bench = open_bench(gpus=2)
        whole(bench, 1, 60.0)
        other = bench.register(1, job_id="f" * 16, peer=OTHER, name="nightly", recurring=NIGHTLY.to_dict())
        assert bench.controller.trial(other)["trial"]["number"] == 1

    @pytest.mark.parametrize(
        "wrong", [{"default": 48}, {"batch_sizes": []}, {"surprise": 1}, {"target": "x"}, {"batch_sizes": 7}]
    )
    def test_what_means_nothing_is_refused(self, open_bench, wrong):
        """With the reason, before a job is made of it."""
        bench = open_bench()
        with pytest.raises(JobRefused, match="recurring"):
            begin(bench, 1, recurring={**NIGHTLY.to_dict(), **wrong})
        assert len(bench.controller.jobs) == 0

    @pytest.mark.parametrize("change", [{"target": 0.6}, {"max_epochs": 20}, {"higher_is_better": False}])
    def test_another_end_is_another_search(self, open_bench, change):
        """All failed at a target that was too high: none of them is given up at one that can be reached."""
        bench = open_bench()
        for number in range(1, 5):
            whole(bench, number, 60.0, said=Said(epochs=10, metric=0.7, reached=False))
        sizes = []
        for number in range(5, 9):
            job = begin(bench, number, recurring={**NIGHTLY.to_dict(), **change})
            sizes.append(job.global_batch)
            train(bench, job, 60.0 + number)
            bench.controller.end(job.id, OWNER, "done", job.units_done)
        assert sizes[:3] == [64, 32, 128]
        assert bench.codes().count("search-anew") == 1

    def test_other_sizes_from_now_on(self, open_bench):
        """What was learnt of those that are still allowed is of use."""
        bench = open_bench()
        whole(bench, 1, 60.0)
        changed = {**NIGHTLY.to_dict(), "batch_sizes": (64, 256), "default": 64}
        job = begin(bench, 2, recurring=changed)
        assert bench.controller.trial(job)["trial"]["batch_size"] == 256
