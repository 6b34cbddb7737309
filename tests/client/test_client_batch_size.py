"""What a job and the service tell each other of batch sizes: while it runs, and from one recurrence to the next."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import time

import numpy as np
import pytest

from chase.client import Job, Recurring
from chase.client.inside import InsideLink
from chase.client.messages import Advice, Answer, Said, Terms, Trial
from chase.errors import ChaseError
from chase.launch.handover import Handover

SIZES = {"batch_size": 64, "batch_sizes": (32, 64, 128)}
NIGHTLY = Recurring(batch_sizes=(32, 64, 128), default=64, target=0.84, max_epochs=3)
TRIAL = {"number": 7, "batch_size": 32, "stage": "sampling", "reason": "the draw was in its favour"}


def exchanged(daemon, times: int = 2) -> None:
    """The service was told something more, and answered it before."""
    seen = daemon.count("POST", "/report")
    daemon.wait_for(lambda: daemon.count("POST", "/report") >= seen + times, "more")


class TestWhileItRuns:
    def test_the_sizes_are_declared_and_the_wish_is_read(self, daemon, socket_path):
        """The job's own until the service wants another."""
        with Job("job", socket=socket_path, **SIZES) as job:
            assert job.batch_size == 64
            body = daemon.wait_for(lambda: next(iter(daemon.jobs.values()), None), "of a job")
            assert (body["batch_size"], body["batch_sizes"]) == (64, [32, 64, 128])
            daemon.setting = {"power_limit_w": 200, "batch_size": 128}
            exchanged(daemon)
            assert job.batch_size == 128

    def test_what_is_in_force_is_said_with_each_report(self, daemon, socket_path):
        """From the first one on, and what turned out impossible as well."""
        with Job("job", socket=socket_path, **SIZES) as job:
            daemon.wait_for(lambda: daemon.jobs.get(job.id, {}).get("batch_size") == 64, "of its own size")
            job.runs_at(128)
            daemon.wait_for(lambda: daemon.jobs[job.id]["batch_size"] == 128, "of another size")
            daemon.setting = {"batch_size": 128}
            job.cannot_run_at(128)
            job.cannot_run_at(128)
            daemon.wait_for(lambda: daemon.jobs[job.id].get("impossible") == [128], "that it is impossible")
            exchanged(daemon)
            assert job.batch_size == 64

    def test_a_wish_is_only_good_while_the_service_is_there(self, daemon, socket_path):
        """A dead service wants nothing: the job goes back to its own size."""
        daemon.setting = {"batch_size": 32}
        with Job("job", socket=socket_path, **SIZES) as job:
            exchanged(daemon)
            assert job.batch_size == 32
            daemon.trouble = "cut"
            seen = len(daemon.asked)
            daemon.wait_for(lambda: len(daemon.asked) >= seen + 2, "anything")
            assert job.batch_size == 64

    def test_one_that_was_never_declared_is_not_wanted(self, daemon, socket_path):
        """Whatever a service says."""
        daemon.setting = {"batch_size": 4096}
        with Job("job", socket=socket_path, **SIZES) as job:
            exchanged(daemon)
            assert job.batch_size == 64

    @pytest.mark.parametrize("call", ["runs_at", "cannot_run_at"])
    def test_one_that_was_never_declared_is_refused(self, call):
        """Here at once, as the service would."""
        with pytest.raises(ValueError, match="none of the declared ones"):
            getattr(Job("job", **SIZES), call)(256)

    def test_what_is_in_force_is_not_impossible(self, daemon, socket_path):
        """Nor is its own, but where it runs at another one by then: that is its own from then on."""
        with Job("job", socket=socket_path, **SIZES) as job:
            with pytest.raises(ValueError, match="64 is in force: say first, with runs_at"):
                job.cannot_run_at(64)
            job.runs_at(32)
            job.cannot_run_at(64)
            assert job.batch_size == 32

    @pytest.mark.parametrize(
        ("own", "sizes", "error"),
        [
            (64, (), ValueError),
            (None, (32, 64), TypeError),
            (48, (32, 64), ValueError),
            (64, (64, 64), ValueError),
            (0, (0, 1), ValueError),
            (1.5, (1.5,), TypeError),
            (True, (True,), TypeError),
            (1, tuple(range(1, 18)), ValueError),
        ],
    )
    def test_sizes_that_mean_nothing_are_no_declaration(self, own, sizes, error):
        """The training is told before it begins."""
        with pytest.raises(error, match="batch_size"):
            Job("job", batch_size=own, batch_sizes=sizes)

    def test_a_job_without_them_says_nothing_of_them(self, daemon, socket_path):
        """An older service would refuse the word."""
        with Job("job", socket=socket_path) as job:
            exchanged(daemon)
            assert job.batch_size is None
        assert all(set(asked.body) <= {"units_done", "reason"} for asked in daemon.asked if asked.path.count("/") == 4)


class TestInside:
    def test_a_launched_process_says_it_to_its_launcher(self, place):
        """Through the count file: what it is, what is in force, and what is impossible."""
        handover = Handover(place)
        said = Said(batch_size=32, impossible=(128,), epochs=2, metric=0.5, reached=False)
        terms = Terms("samples", batch_size=64, batch_sizes=(32, 64, 128))
        link = InsideLink(place, units_done=lambda: 3.0, terms=terms, said=lambda: said)
        link.exchange()
        count = handover.gather()
        assert (count.said, count.terms, count.units_done) == (said, terms, 3.0)

    def test_and_hears_of_its_trial(self, place):
        """Through the advice file."""
        advice = Advice(mode="off", trial=Trial.from_dict(TRIAL), stop="too dear")
        assert Advice.from_dict(advice.to_dict()) == advice


class TestRecurring:
    def test_the_size_it_tries_is_waited_for_and_kept(self, daemon, socket_path):
        """The first answer tells; what the service says later changes nothing any more."""
        daemon.more = {"trial": TRIAL, "stop": ""}
        with Job("nightly", socket=socket_path, recurring=NIGHTLY) as job:
            assert job.batch_size == 32
            assert (job.trial.number, job.trial.stage) == (7, "sampling")
            daemon.more = {"trial": {**TRIAL, "batch_size": 128}, "stop": ""}
            exchanged(daemon)
            assert job.batch_size == 32
            body = daemon.jobs[job.id]
            assert body["recurring"] == {**NIGHTLY.to_dict(), "batch_sizes": [32, 64, 128]}
            assert body["global_batch"] == 32

    def test_without_a_service_it_is_the_default(self, socket_path):
        """At once: nobody waits for a service that is not there."""
        began_s = time.monotonic()
        with Job("nightly", socket=socket_path, recurring=NIGHTLY) as job:
            assert job.batch_size == 64
            assert job.trial is None
        assert time.monotonic() - began_s < 5

    def test_a_trial_of_a_size_that_is_not_its_own_is_not_tried(self, daemon, socket_path):
        """Whatever a service says."""
        daemon.more = {"trial": {**TRIAL, "batch_size": 4096}}
        with Job("nightly", socket=socket_path, recurring=NIGHTLY) as job:
            assert job.batch_size == 64

    def test_epochs_and_target_reach_the_service(self, daemon, socket_path):
        """Also the last one, which no report may follow."""
        daemon.more = {"trial": TRIAL}
        with Job("nightly", socket=socket_path, recurring=NIGHTLY) as job:
            daemon.wait_for(lambda: job.id in daemon.jobs, "of a job")
            assert not job.should_stop
            job.report(0.7)
            assert not job.should_stop
            job.report(0.85)
            assert job.should_stop
        end = daemon.ended[job.id]
        assert (end["epochs"], end["metric"], end["reached"]) == (2, 0.85, True)

    def test_at_the_end_of_its_epochs(self):
        """Without a service as well."""
        job = Job("nightly", recurring=NIGHTLY)
        stops = []
        for _ in range(3):
            job.report(0.1)
            stops.append(job.should_stop)
        assert stops == [False, False, True]

    def test_when_the_service_says_so(self, daemon, socket_path):
        """It has become too dear."""
        daemon.more = {"trial": TRIAL, "stop": "it has cost 3e6 J by now"}
        with Job("nightly", socket=socket_path, recurring=NIGHTLY) as job:
            exchanged(daemon)
            assert job.should_stop

    @pytest.mark.parametrize("metric", [math.nan, math.inf, -math.inf, "x", None, [1.0]])
    def test_what_is_no_metric_does_not_hurt(self, daemon, socket_path, metric):
        """It counts as an epoch; an infinite one is beyond any target, the others are not."""
        with Job("nightly", socket=socket_path, recurring=NIGHTLY) as job:
            job.report(metric)
            exchanged(daemon)
            told = daemon.jobs[job.id]
        assert told["epochs"] == 1
        assert "metric" not in told
        assert told["reached"] is (metric == math.inf)

    def test_lower_may_be_better(self):
        """A loss, or an error rate."""
        job = Job("nightly", recurring=dataclasses.replace(NIGHTLY, target=40.0, higher_is_better=False))
        job.report(41.0)
        assert not job.should_stop
        job.report(40.0)
        assert job.should_stop

    def test_other_jobs_never_stop(self):
        """And may report what they like."""
        job = Job("job")
        job.report(1.0)
        assert not job.should_stop

    def test_microbatches_change_inside_a_recurrence(self, daemon, socket_path):
        """What it is trained with is one thing, and stays; what is on the device at once is another."""
        daemon.more = {"trial": TRIAL, "setting": {"power_limit_w": 200.0, "batch_size": 16}}
        sizes = {"batch_size": 8, "batch_sizes": (8, 16)}
        with Job("nightly", socket=socket_path, recurring=NIGHTLY, **sizes) as job:
            assert job.global_batch == 32
            assert (job.batch_size, job.own_batch_size) == (16, 8)
            job.runs_at(16)
            exchanged(daemon)
            told = daemon.jobs[job.id]
        assert (told["global_batch"], told["batch_size"]) == (32, 16)

    def test_a_launcher_without_a_service_is_not_waited_for(self, place, monkeypatch):
        """It has asked already, and nobody answered."""
        handover = Handover(place)
        handover.publish(Answer(next_s=60.0))
        monkeypatch.setenv("CHASE_JOB_ID", "a" * 32)
        monkeypatch.setenv("CHASE_JOB_DIR", str(place))
        began_s = time.monotonic()
        with Job("nightly", recurring=NIGHTLY) as job:
            assert job.batch_size == 64
        assert time.monotonic() - began_s < 5

    def test_sizes_and_target_may_be_anybodys_numbers(self):
        """Of numpy, of a range: what is sent is Python's own."""
        sizes = np.array([32, 64])
        made = Recurring(
            batch_sizes=sizes, default=np.int64(64), target=np.float32(0.5), max_epochs=np.int32(3), beta=2
        )
        assert made == Recurring(batch_sizes=(32, 64), default=64, target=0.5, max_epochs=3, beta=2.0)
        assert json.loads(json.dumps(made.to_dict()))["batch_sizes"] == [32, 64]
        assert Recurring(batch_sizes=range(1, 4), default=2, target=1).batch_sizes == (1, 2, 3)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("batch_sizes", 64),
            ("batch_sizes", "64"),
            ("batch_sizes", (64.0,)),
            ("default", 64.0),
            ("max_epochs", True),
            ("target", "0.8"),
            ("target", None),
            ("beta", "2"),
        ],
    )
    def test_what_is_no_number_is_named(self, key, value):
        """By its argument and its value."""
        with pytest.raises(TypeError, match=f"^{key} must be a .*not {re.escape(repr(value).strip('()').rstrip(','))}"):
            dataclasses.replace(NIGHTLY, **{key: value})

    def test_its_own_microbatch_divides_whatever_is_tried(self):
        """All others are compared with it, so it has to be possible in each recurrence."""
        with pytest.raises(ValueError, match=r"batch_size 48 must divide .* 32, 64, 128 is no multiple of it"):
            Job("job", recurring=NIGHTLY, batch_size=48, batch_sizes=(48,))

    def test_other_jobs_have_no_global_batch(self):
        """Theirs is their own business."""
        assert Job("job", **SIZES).global_batch is None

    @pytest.mark.parametrize(
        ("key", "value", "error"),
        [
            ("batch_sizes", (), ValueError),
            ("batch_sizes", (64, 64), ValueError),
            ("batch_sizes", (0, 64), ValueError),
            ("batch_sizes", tuple(range(50, 70)), ValueError),
            ("default", 48, ValueError),
            ("default", 64.0, TypeError),
            ("target", math.nan, ValueError),
            ("max_epochs", 0, ValueError),
            ("max_epochs", True, TypeError),
            ("higher_is_better", "yes", TypeError),
            ("beta", 1.0, ValueError),
            ("beta", math.inf, ValueError),
        ],
    )
    def test_what_means_nothing_names_its_key(self, key, value, error):
        """And the value."""
        name = {"batch_sizes": "batch", "default": "default|whole", "max_epochs": "max_epochs"}.get(key, key)
        with pytest.raises(error, match=name):
            dataclasses.replace(NIGHTLY, **{key: value})

    def test_there_and_back(self):
        """As it is sent."""
        sent = {**NIGHTLY.to_dict(), "batch_sizes": [32, 64, 128]}
        assert Recurring.from_dict(sent) == NIGHTLY


@pytest.mark.parametrize(
    "answer",
    [{"trial": 7}, {"trial": {"number": 1}}, {"trial": {"number": 0, "batch_size": 1}}, {"trial": TRIAL, "stop": 3}],
)
def test_an_answer_that_cannot_be_true_is_none(answer):
    """Bytes of another process are never trusted."""
    with pytest.raises(ChaseError):
        Advice.from_dict({"setting": {}, "mode": "off", **answer})
