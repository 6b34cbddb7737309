"""A job whose service is dead, slow, wrong, refusing, or started anew: the training never notices."""

from __future__ import annotations

import logging
import threading
import time
from datetime import UTC, datetime

import pytest
from daemon_peer import TROUBLES, PeerDaemon

from chase.client import Job
from chase.client.messages import Advice, Answer
from chase.client.reporter import Reporter
from chase.clock import ScaledClock
from chase.errors import ChaseError, TryLater
from zeus_core.frontier import Setting


@pytest.fixture
def hasty():
    """Back-offs of seconds pass in milliseconds."""
    return ScaledClock(datetime(2026, 1, 1, tzinfo=UTC), rate=50)


def test_without_a_service_everything_works_and_one_line_says_so(socket_path, caplog):
    """No service: steps count, the setting is 'as found', closing is quick, and the log has one warning."""
    began_s = time.monotonic()
    with caplog.at_level(logging.INFO, "chase.client"), Job("job", socket=socket_path) as job:
        job.step(5)
        assert job.units_done == 5
        assert (job.connected, job.setting, job.mode) == (False, Setting(), "off")
    assert time.monotonic() - began_s < 2.5
    assert job.summary is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"no service answers at {socket_path}" in caplog.text


def test_a_service_that_comes_up_later_is_found(socket_path, hasty, caplog):
    """The job registers when there is somebody to register with, with all it has done until then."""
    peer = PeerDaemon(socket_path, report_s=1)
    with caplog.at_level(logging.INFO, "chase.client"), Job("job", socket=socket_path, clock=hasty) as job:
        job.step(41)
        _until(lambda: caplog.records)
        with peer.running():
            peer.wait_for(lambda: peer.jobs, "of a job")
            assert peer.only_job()["units_done"] == 41.0
            peer.wait_for(lambda: peer.count("POST", "/report"), "how far the job is")
            assert job.connected
            job.close()
    assert "the service answers again" in caplog.text


@pytest.mark.parametrize("leave_socket", [True, False], ids=["killed", "stopped"])
def test_a_service_that_ends_costs_nothing_and_is_found_when_it_is_back(daemon, socket_path, hasty, leave_socket):
    """Over a restart the job keeps its id and its count, and what it read last stays readable as old news."""
    daemon.report_s, daemon.mode, daemon.setting = 1, "efficiency-first", {"power_limit_w": 150}
    with Job("job", socket=socket_path, clock=hasty) as job:
        job.step(10)
        daemon.wait_for(lambda: daemon.count("POST", "/report"), "how far the job is")
        daemon.stop(leave_socket=leave_socket)
        daemon.jobs.clear()
        _until(lambda: not job.connected)
        assert job.setting == Setting(power_limit_w=150.0)
        job.step(5)
        daemon.start()
        daemon.wait_for(lambda: daemon.jobs, "of the job again")
        assert daemon.only_job()["id"] == job.id
        assert daemon.only_job()["units_done"] == 15.0


def test_a_service_that_forgot_the_job_is_told_again_at_once(daemon, socket_path):
    """404 to a report makes a registration with the same id in the same breath."""
    with Job("job", socket=socket_path) as job:
        daemon.wait_for(lambda: daemon.count("POST", "/report"), "how far the job is")
        with daemon.changed:
            daemon.jobs.clear()
        daemon.wait_for(lambda: daemon.count("POST", "/v1/jobs") == 2, "of the job again")
        kinds = [asked.path.rsplit("/", 1)[-1] for asked in daemon.asked]
        assert kinds[kinds.index("jobs", 2) - 1] == "report"
        assert job.connected


def test_a_job_forgotten_before_its_end_is_registered_to_be_ended(daemon, socket_path):
    """An end that is answered with 404 is told again after a registration, so that the count is not lost."""
    daemon.report_s = 60
    job = Job("job", socket=socket_path).start()
    daemon.wait_for(lambda: daemon.jobs, "of the job")
    with daemon.changed:
        daemon.jobs.clear()
    job.step(9)
    job.close()
    assert daemon.ended[job.id]["units_done"] == 9.0
    assert job.summary is not None


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_service_that_answers_wrongly_is_no_service(daemon, socket_path, hasty, trouble, caplog):
    """Whatever comes over the socket, the job stays as it was, says so once, and recovers when answers are right."""
    daemon.report_s, daemon.trouble = 1, trouble
    with caplog.at_level(logging.WARNING, "chase.client"), Job("job", socket=socket_path, clock=hasty) as job:
        job.step(4)
        daemon.wait_for(lambda: len(daemon.asked) >= 3, "anything")
        assert (job.connected, job.setting, job.mode) == (False, Setting(), "off")
        assert len(caplog.records) == 1, caplog.text
        assert caplog.records[0].exc_info is None, "a service's fault is not shown as ours"
        daemon.trouble = ""
        daemon.wait_for(lambda: daemon.jobs.get(job.id, {}).get("units_done") == 4.0, "of 4 units")
        _until(lambda: job.connected)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_wrong_answers_to_reports_leave_the_last_good_setting(daemon, socket_path, hasty, trouble):
    """A registered job keeps what it read last while answers are wrong."""
    daemon.report_s, daemon.mode, daemon.setting = 1, "efficiency-first", {"power_limit_w": 150}
    with Job("job", socket=socket_path, clock=hasty) as job:
        daemon.wait_for(lambda: daemon.count("POST", "/report"), "how far the job is")
        daemon.trouble = trouble
        seen = len(daemon.asked)
        daemon.wait_for(lambda: len(daemon.asked) >= seen + 3, "anything")
        assert job.setting == Setting(power_limit_w=150.0)
        assert not job.connected
        daemon.trouble = ""
        _until(lambda: job.connected)


@pytest.mark.parametrize("trouble", ["silent", "drip"])
def test_a_service_that_hangs_holds_up_neither_steps_nor_the_end(daemon, socket_path, trouble):
    """Against an answer that never finishes, steps are as fast as ever and closing takes two seconds at most."""
    daemon.trouble = trouble
    with Job("job", socket=socket_path) as job:
        daemon.wait_for(lambda: daemon.asked, "anything")
        began_s = time.perf_counter()
        for _ in range(10_000):
            job.step()
        assert time.perf_counter() - began_s < 1.0
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 2.5
    assert job.units_done == 10_000


def test_an_answer_in_drops_is_given_up_as_a_whole(daemon, socket_path):
    """The time limit is for the whole answer: one that drips for ever is given up although each read succeeds."""
    from chase import unixhttp

    daemon.trouble = "drip"
    began_s = time.monotonic()
    with pytest.raises(TryLater, match="did not answer in time"):
        unixhttp.request(socket_path, "GET", "/v1/status", timeout_s=0.3)
    assert time.monotonic() - began_s < 2.0


def test_a_refusal_is_told_with_the_services_own_words_and_tried_again(daemon, socket_path, hasty, caplog):
    """A registration that is refused is said once with the reason, and taken when the reason is gone."""
    daemon.refusal = (403, "gpu-taken", "a job of another user is registered on GPU-1")
    with caplog.at_level(logging.WARNING, "chase.client"), Job("job", socket=socket_path, clock=hasty) as job:
        daemon.wait_for(lambda: daemon.count("POST", "/v1/jobs") >= 3, "of the job three times")
        assert [record.message.split(";")[0] for record in caplog.records] == [daemon.refusal[2]]
        daemon.refusal = None
        daemon.wait_for(lambda: job.id in daemon.jobs, "of the job")


def test_a_refusal_of_another_kind_is_a_change_of_state(daemon, socket_path, hasty, caplog):
    """Absent, then refused for one reason, then for another: three different things to know, three lines."""
    with caplog.at_level(logging.WARNING, "chase.client"), Job("job", socket=socket_path, clock=hasty):
        for code in ("gpu-taken", "bad-body"):
            daemon.refusal = (422, code, f"because of {code}")
            seen = len(daemon.asked)
            daemon.wait_for(lambda seen=seen: len(daemon.asked) >= seen + 4, "of the job")
    said = [record.message for record in caplog.records]
    assert [text for text in said if "because of" in text] == [
        f"because of {code}; the training goes on without it" for code in ("gpu-taken", "bad-body")
    ]


def test_a_socket_that_is_no_socket_is_said_plainly(place, caplog):
    """A path too long for a socket, a directory, a file: a warning names the path, and nothing raises."""
    (place / "file").write_text("hello")
    for path in (place, place / "file", place / ("x" * 200)):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "chase.client"), Job("job", socket=path):
            pass
        assert str(path) in caplog.text


class _Script:
    """A link that does what it is told, and the clock that its reporter waits by."""

    patience_s = 30.0
    rate = 1.0

    def __init__(self, outcomes):
        self.outcomes = list(outcomes)
        self.waits: list[float] = []
        self.ended = ""
        self.done = threading.Event()

    def exchange(self):
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def end(self, reason):
        self.ended = reason

    def now(self):
        raise AssertionError("nobody asks for the time")

    def monotonic(self):
        raise AssertionError("nobody asks for the time")

    def wait(self, event, seconds):
        self.waits.append(seconds)
        if self.outcomes:
            return event.is_set()
        self.done.set()
        return event.wait()


def _play(outcomes, chance=0.0):
    script = _Script(outcomes)
    reporter = Reporter(script, clock=script, chance=lambda: chance)
    reporter.start()
    assert script.done.wait(10)
    reporter.stop("done", 5)
    return script, reporter


def test_tries_come_later_each_time_up_to_the_links_patience():
    """Back-off doubles from half a second to thirty, and begins anew after a success."""
    late = TryLater("nobody there")
    script, _ = _play([late] * 9 + [Answer(next_s=5, connected=True)] + [late] * 2)
    assert script.waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 5, 0.5, 1]


def test_chance_takes_up_to_half_off_a_wait():
    """Jitter spreads the jobs of a node over half of each wait, and never lengthens one."""
    script, _ = _play([TryLater("nobody there")] * 3, chance=1.0)
    assert script.waits == [0.25, 0.5, 1.0]


def test_a_thousand_failures_do_not_overflow():
    """The wait stays at the link's patience however long the service is away."""
    script, _ = _play([TryLater("nobody there")] * 1100)
    assert script.waits[-1] == 30.0


def test_a_fault_of_our_own_is_logged_once_with_its_trace_and_ends_nothing(caplog):
    """An error that nobody foresaw is logged whole, once, and reporting goes on."""
    with caplog.at_level(logging.WARNING, "chase.client"):
        script, reporter = _play(
            [ZeroDivisionError("ours")] * 3 + [Answer(Advice(mode="speed-first"), 5, connected=True)]
        )
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert reporter.answer.advice.mode == "speed-first"
    assert script.ended == "done"


def test_an_end_that_fails_is_no_error(caplog):
    """The job's last word may find nobody; closing then just has no summary."""

    class Gone(_Script):
        def end(self, reason):
            raise ChaseError(f"nobody to tell {reason}")

    script = Gone([Answer(connected=True)])
    reporter = Reporter(script, clock=script)
    reporter.start()
    assert script.done.wait(10)
    assert reporter.stop("done", 5) is None


def _until(told):
    """A state of our own thread, that no request announces."""
    deadline_s = time.monotonic() + 10
    while not told():
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.002)
