"""A job with a service that behaves."""

from __future__ import annotations

import json
import logging
import threading
from datetime import UTC, datetime

import numpy as np
import pytest
from daemon_peer import SUMMARY, UUIDS
from hypothesis import given
from hypothesis import strategies as st

from chase.client import Job
from zeus_core.frontier import Setting


def test_registers_with_all_that_it_was_told(daemon, socket_path):
    """The registration carries the job's name, units, total, GPUs, policy, region and profile, and our pid."""
    import os

    with Job(
        "resnet",
        units="samples",
        total_units=5000,
        gpus=[1],
        region="gb",
        policy={"eta": 0.3},
        profile="a40-resnet50",
        socket=socket_path,
    ) as job:
        daemon.wait_for(lambda: daemon.jobs, "of a job")
        body = next(asked.body for asked in daemon.asked if asked.path == "/v1/jobs")
    assert body == {
        "id": job.id,
        "name": "resnet",
        "pid": os.getpid(),
        "gpus": [UUIDS[1]],
        "units": "samples",
        "total_units": 5000.0,
        "units_done": 0.0,
        "region": "gb",
        "policy": {"eta": 0.3},
        "profile": "a40-resnet50",
    }


def test_reports_the_sum_of_its_steps(daemon, socket_path):
    """Steps of any size reach the service as one cumulative count."""
    with Job("job", socket=socket_path) as job:
        job.step()
        job.step(31)
        job.step(0.5)
        job.step(0)
        daemon.wait_for(lambda: daemon.jobs.get(job.id, {}).get("units_done") == 32.5, "of 32.5 units")
        assert job.units_done == 32.5


def test_setting_mode_and_reason_follow_the_service(daemon, socket_path):
    """What the service says last is what the job reads."""
    with Job("job", socket=socket_path) as job:
        daemon.wait_for(lambda: daemon.count("POST", "/report") >= 1, "how far the job is")
        assert job.connected
        assert (job.mode, job.setting, job.reason) == ("speed-first", Setting(), "the grid is clean")
        daemon.mode, daemon.setting, daemon.reason = "efficiency-first", {"power_limit_w": 180}, "dirty now"
        seen = daemon.count("POST", "/report")
        daemon.wait_for(lambda: daemon.count("POST", "/report") >= seen + 3, "three times more")
        assert (job.mode, job.setting, job.reason) == ("efficiency-first", Setting(power_limit_w=180.0), "dirty now")


def test_close_ends_the_job_with_the_last_count_and_fetches_the_summary(daemon, socket_path):
    """Leaving the block reports every unit, says why it ended, and leaves the summary on the job."""
    with Job("job", socket=socket_path) as job:
        daemon.wait_for(lambda: daemon.jobs, "of a job")
        job.step(7)
    assert daemon.ended[job.id]["units_done"] == 7.0
    assert daemon.ended[job.id]["reason"] == "done"
    assert job.summary is not None
    assert job.summary.energy_j == SUMMARY["energy_j"]
    assert job.summary.slowdown == SUMMARY["slowdown"]
    assert not job.connected


def test_a_job_shorter_than_its_registration_is_told_whole(daemon, socket_path):
    """A block that is left at once still registers, reports and ends."""
    with Job("blink", socket=socket_path) as job:
        job.step(3)
    assert daemon.ended[job.id]["units_done"] == 3.0


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("secret"), "failed: ValueError"),
        (KeyboardInterrupt(), "interrupted"),
        (SystemExit(0), "done"),
        (SystemExit(3), "failed: SystemExit"),
    ],
    ids=["error", "ctrl-c", "exit 0", "exit 3"],
)
def test_an_error_ends_the_job_and_goes_on_unchanged(daemon, socket_path, error, reason):
    """The service learns the error's type and nothing of its text; the caller gets the error itself."""
    with pytest.raises(type(error)) as raised, Job("job", socket=socket_path):
        raise error
    assert raised.value is error
    (ended,) = daemon.ended.values()
    assert ended["reason"] == reason


def test_start_and_close_do_without_a_block_and_bear_repetition(daemon, socket_path):
    """``start`` and ``close`` are the block's two ends, and calling them again changes nothing."""
    job = Job("job", socket=socket_path)
    job.close()
    assert job.start() is job
    assert job.start() is job
    daemon.wait_for(lambda: daemon.jobs, "of a job")
    job.close()
    job.close("again")
    assert daemon.count("POST", "/v1/jobs") == 1
    assert daemon.ended[job.id]["reason"] == "done"


def test_no_step_is_lost_when_many_threads_step(socket_path):
    """Threads that step at once, switched as often as the interpreter can, lose no unit, and reading never falls."""
    import sys

    job = Job("job", socket=socket_path)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    seen = [0.0]
    try:
        threads = [threading.Thread(target=lambda: [job.step(2) for _ in range(20_000)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            seen.append(job.units_done)
    finally:
        sys.setswitchinterval(before)
    for thread in threads:
        thread.join()
    assert job.units_done == 8 * 20_000 * 2
    assert seen == sorted(seen)


def test_threads_that_come_and_go_leave_no_trace(socket_path):
    """A thousand short threads are counted, and take no more room than those that live at once."""
    job = Job("job", socket=socket_path)
    for _ in range(1000):
        thread = threading.Thread(target=job.step)
        thread.start()
        thread.join()
    assert job.units_done == 1000
    assert len(job._count._cells) < 10


class _Awkward:
    def __float__(self) -> float:
        raise RuntimeError("cannot be read")


@pytest.mark.parametrize(
    "n",
    [-1, -0.5, float("nan"), float("inf"), float("-inf"), None, "three", [1], object(), _Awkward(), "10", 1e300],
    ids=lambda n: repr(n)[:12],
)
def test_what_is_no_count_is_not_counted_and_never_raises(socket_path, n, caplog):
    """A step of nonsense is complained of once and leaves the count as it was, whole steps after it included."""
    job = Job("job", socket=socket_path)
    job.step(2)
    with caplog.at_level(logging.WARNING, "chase.client"):
        job.step(n)
        job.step(n)
    job.step(0.5)
    job.step(1)
    assert job.units_done == 3.5
    assert len(caplog.records) == 1


def test_a_count_beyond_all_reason_stays_at_the_most_that_is_sent(socket_path):
    """An absurd whole number neither raises, now or later, nor reaches the service as such."""
    job = Job("job", socket=socket_path)
    job.step(10**400)
    job.step(0.5)
    job.step(2)
    assert job.units_done == 1e15


@given(st.lists(st.one_of(st.integers(0, 10**9), st.floats(0, 1e9), st.booleans())))
def test_the_count_is_the_sum(steps):
    """Whatever mix of counts is stepped, the count is their sum."""
    job = Job("job")
    for n in steps:
        job.step(n)
    assert job.units_done == pytest.approx(float(sum(steps)))


def test_numpy_numbers_are_numbers(socket_path):
    """Scalars and one-element arrays of numpy count as what they hold."""
    numpy = pytest.importorskip("numpy")
    job = Job("job", socket=socket_path)
    job.step(numpy.int64(3))
    job.step(numpy.float32(0.5))
    job.step(numpy.array(2))
    assert job.units_done == 5.5


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"name": " "}, ValueError, "name must not be empty"),
        ({"name": 7}, TypeError, "name must be text, not 7"),
        ({"name": "x" * 201}, ValueError, "at most 200"),
        ({"units": ""}, ValueError, "units must not be empty"),
        ({"total_units": 0}, ValueError, "total_units must be a positive number"),
        ({"total_units": float("nan")}, ValueError, "not nan"),
        ({"gpus": "GPU-1"}, TypeError, "gpus must be a list"),
        ({"gpus": []}, ValueError, "gpus must not be empty"),
        ({"gpus": [1.5]}, TypeError, "gpus must be a list"),
        ({"gpus": 0}, TypeError, "gpus must be a list, not 0"),
        ({"gpus": [True]}, TypeError, "gpus must be a list of UUIDs or indices"),
        ({"total_units": "100"}, TypeError, "total_units must be a number or None, not '100'"),
        ({"total_units": True}, TypeError, "total_units must be a number or None, not True"),
        ({"region": 5}, TypeError, "region must be text, not 5"),
        ({"profile": 3}, TypeError, "profile must be text, not 3"),
        ({"policy": "budget"}, TypeError, "policy must be a table of the policy's keys, not 'budget'"),
        ({"recurring": {"target": 1}}, TypeError, "recurring must be a chase.client.Recurring, not {'target': 1}"),
        ({"batch_sizes": 16}, TypeError, "batch_sizes must be a list, not 16"),
        ({"batch_size": 16.0, "batch_sizes": [16]}, TypeError, "must be whole numbers, not 16.0"),
        ({"policy": {"eta": float("nan")}}, ValueError, "JSON"),
        ({"policy": {"eta": object()}}, TypeError, "JSON"),
    ],
)
def test_arguments_that_mean_nothing_are_refused_at_once(arguments, error, said):
    """A wrong argument is an error where it is written, before anything runs."""
    with pytest.raises(error, match=said):
        Job(**{"name": "job", **arguments})


def test_a_closed_job_says_that_it_counts_for_nobody(daemon, socket_path, caplog):
    """Used a second time it would be silent for ever."""
    job = Job("job", socket=socket_path)
    with job:
        job.step()
    with caplog.at_level(logging.WARNING, "chase.client"), job:
        job.step()
    assert "job job is closed and counts for nobody any more: make another Job" in caplog.text


def test_numpys_whole_numbers_are_batch_sizes():
    """As of ``np.arange``: what is sent is Python's own."""
    job = Job("job", batch_size=np.int64(16), batch_sizes=np.array([8, 16]))
    job.runs_at(np.int64(8))
    job.cannot_run_at(np.int64(16))
    assert json.dumps(job._terms.to_dict()["batch_sizes"]) == "[8, 16]"
    assert json.dumps(job._said.to_dict()) == '{"batch_size": 8, "impossible": [16]}'


def test_a_changed_policy_of_the_caller_is_not_ours(daemon, socket_path):
    """The policy is copied: the caller may go on using its dict."""
    policy = {"eta": 0.3}
    job = Job("job", policy=policy, socket=socket_path)
    policy["eta"] = 0.9
    with job:
        daemon.wait_for(lambda: daemon.jobs, "of a job")
        assert daemon.only_job()["policy"] == {"eta": 0.3}


def test_a_deadline_may_be_a_time(daemon, socket_path):
    """It is sent as text, which JSON can carry."""
    deadline = datetime(2026, 3, 1, 18, tzinfo=UTC)
    with Job("job", policy={"deadline": deadline}, socket=socket_path):
        daemon.wait_for(lambda: daemon.jobs, "of a job")
        assert daemon.only_job()["policy"] == {"deadline": "2026-03-01T18:00:00+00:00"}


def test_the_reporting_interval_is_the_services_within_its_lease(socket_path):
    """Reports come as often as asked, thrice a lease at least, by the service's clock, and never in a frenzy."""
    from chase.client.daemonlink import _interval_s

    assert _interval_s({"report_s": 5, "lease_s": 30, "clock_rate": 1}) == 5.0
    assert _interval_s({"report_s": 50, "lease_s": 30}) == 10.0
    assert _interval_s({"report_s": 50, "lease_s": 300, "clock_rate": 100}) == 0.5
    assert _interval_s({"report_s": 5, "lease_s": 30, "clock_rate": 86400}) == 0.02
    assert _interval_s({"report_s": 1e6, "lease_s": 1e9}) == 60.0


def test_the_usual_socket_is_found_by_the_environment(daemon, socket_path, monkeypatch):
    """Without ``socket`` the job goes where ``CHASE_SOCKET`` says."""
    monkeypatch.setenv("CHASE_SOCKET", str(socket_path))
    with Job("job") as job:
        daemon.wait_for(lambda: job.id in daemon.jobs, "of the job")


def test_an_observing_service_is_seen_as_such(daemon, socket_path, caplog):
    """In observe mode the wish is still read, and the log says that nothing was touched."""
    daemon.control, daemon.mode, daemon.setting = "observe", "efficiency-first", {"power_limit_w": 150}
    with caplog.at_level(logging.INFO, "chase.client"), Job("job", socket=socket_path) as job:
        daemon.wait_for(lambda: daemon.count("POST", "/report") >= 2, "how far the job is")
        assert job.setting == Setting(power_limit_w=150.0)
    assert any("efficiency-first, 150 W (observed only)" in record.message for record in caplog.records)


def test_only_changes_are_logged(daemon, socket_path, caplog):
    """Many reports with one answer make one line, though the reason's figures change."""
    with caplog.at_level(logging.DEBUG, "chase.client"), Job("job", socket=socket_path) as job:
        daemon.wait_for(lambda: daemon.count("POST", "/report") >= 5, "how far the job is, five times")
        daemon.reason = "2 of 20 windows"
        seen = daemon.count("POST", "/report")
        daemon.wait_for(lambda: daemon.count("POST", "/report") >= seen + 3, "how far the job is, again")
        assert job.reason == "2 of 20 windows"
    assert [record.message for record in caplog.records] == ["speed-first, as found: the grid is clean"]
