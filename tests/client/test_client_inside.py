"""A job inside a launched one: the files through which launcher and processes talk."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chase.client import Job
from chase.client.inside import InsideLink, read
from chase.client.messages import Advice, Answer, Terms
from chase.errors import ChaseError
from chase.launch.handover import Handover
from zeus_core.frontier import Setting


@pytest.fixture
def handover(monkeypatch):
    """A launcher's directory, as its child finds it."""
    handover = Handover.create()
    monkeypatch.setenv("CHASE_JOB_ID", "0123456789abcdef0123456789abcdef")
    monkeypatch.setenv("CHASE_JOB_DIR", str(handover.directory))
    yield handover
    handover.remove()
    assert not handover.directory.exists()


def test_a_job_inside_takes_the_launchers_id_and_asks_no_service(handover, daemon, socket_path):
    """Under a launcher nothing is registered; the count is left for the launcher, the last of it at the end."""
    with Job("inner", units="samples", total_units=100, socket=socket_path) as job:
        job.step(32)
    assert job.id == "0123456789abcdef0123456789abcdef"
    assert job.summary is None
    assert handover.gather().units_done == 32.0
    assert handover.gather().terms == Terms("samples", 100.0)
    assert handover.gather().name == "inner"
    assert not daemon.asked


def test_counts_of_processes_one_after_another_and_side_by_side_add_up(handover):
    """Two jobs at once and one after them: each unit is counted once."""
    with Job("a") as first, Job("b") as second:
        first.step(10)
        second.step(5)
    with Job("c") as third:
        third.step(1)
    assert handover.gather().units_done == 16.0


def test_the_first_process_says_what_is_counted(handover):
    """Another unit cannot be added to the first's, and does not replace it."""
    with Job("train", units="samples", total_units=100) as job:
        job.step(64)
        with Job("other", units="files") as other:
            other.step(7)
    assert handover.gather().units_done == 64.0
    assert handover.gather().terms.units == "samples"


def test_the_launchers_answer_reaches_the_job_inside(handover):
    """Setting, mode and reason are read as from the service itself, and so is whether it answers."""
    advice = Advice(Setting(power_limit_w=180.0), "efficiency-first", "control", "dirty")
    handover.publish(Answer(advice, 0.05, connected=True))
    with Job("inner") as job:
        _until(lambda: job.connected)
        assert (job.setting, job.mode, job.reason) == (advice.setting, "efficiency-first", "dirty")
        handover.publish(Answer(advice, 0.05, connected=False))
        _until(lambda: not job.connected)
        assert job.setting == advice.setting


def test_a_launcher_that_says_nothing_any_more_is_not_connected(handover):
    """An answer grows old: a killed launcher leaves its last one behind."""
    link = InsideLink(handover.directory, units_done=lambda: 0.0, terms=Terms("steps"))
    handover.publish(Answer(Advice(mode="speed-first"), 5.0, connected=True))
    assert link.exchange().connected
    path = handover.directory / "advice.json"
    data = json.loads(path.read_text())
    assert 10 < data["good_until_s"] - time.monotonic() < 20
    path.write_text(json.dumps({**data, "good_until_s": time.monotonic() - 0.001}))
    answer = link.exchange()
    assert not answer.connected
    assert answer.advice.mode == "speed-first"


def test_a_directory_that_is_gone_disturbs_nothing(handover, caplog):
    """The launcher cleaned up, or its directory was never ours to see: the training goes on."""
    with Job("inner") as job:
        handover.remove()
        job.step(3)
    assert job.units_done == 3
    assert not handover.directory.exists()


def test_a_directory_goes_while_others_write_into_it(handover):
    """Whoever still counts when the launcher cleans up cannot keep its directory alive."""
    stop = threading.Event()

    def count() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            with contextlib.suppress(OSError):
                (handover.directory / f"{number}.count.json").write_text("{}")

    writers = [threading.Thread(target=count) for _ in range(4)]
    for writer in writers:
        writer.start()
    while not any(handover.directory.iterdir()):
        stop.wait(0.001)
    handover.remove()
    stop.set()
    for writer in writers:
        writer.join()
    left = [path for path in handover.directory.parent.iterdir() if path.name.startswith(handover.directory.name)]
    assert left == []


def test_an_id_without_a_directory_registers_no_second_job(daemon, socket_path, monkeypatch, caplog):
    """Half of a launcher's environment is said and makes no double registration."""
    monkeypatch.setenv("CHASE_JOB_ID", "0123456789abcdef0123456789abcdef")
    with Job("inner", socket=socket_path) as job:
        job.step()
    assert not daemon.asked
    assert "CHASE_JOB_DIR is not" in caplog.text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"units_done": -5}',
        b'{"units_done": NaN}',
        b'{"units_done": "9"}',
        b"[" * 50_000,
        b"\xff\x00",
        b'{"x": "' + b"y" * 100_000 + b'"}',
    ],
    ids=lambda content: repr(content[:12]),
)
def test_a_file_of_somebody_elses_counts_for_nothing(handover, content):
    """Whatever lies in the directory, good counts are summed and the rest is left aside."""
    with Job("good") as job:
        job.step(4)
    (handover.directory / "9-strange.count.json").write_bytes(content)
    assert handover.gather().units_done == 4.0


def test_files_half_written_are_never_read(handover):
    """A process killed in the middle of writing leaves its previous count."""
    link = InsideLink(handover.directory, units_done=lambda: 11.0, terms=Terms("steps"))
    link.exchange()
    (count,) = handover.directory.glob("*.count.json")
    count.with_name(f".{count.name}").write_text('{"units_done": 9999')
    assert handover.gather().units_done == 11.0


def test_a_count_that_is_being_replaced_is_counted_once(handover):
    """The moment in which the new count lies complete beside the old one doubles nothing: a count never falls again."""
    link = InsideLink(handover.directory, units_done=lambda: 11.0, terms=Terms("steps"))
    link.exchange()
    (count,) = handover.directory.glob("*.count.json")
    count.with_name(f".{count.name}").write_bytes(count.read_bytes())
    assert handover.gather().units_done == 11.0


def test_the_directory_is_ours_alone(handover):
    """Nobody else may count for the job, or read of it."""
    assert handover.directory.stat().st_mode & 0o077 == 0
    assert handover.directory.stat().st_uid == os.getuid()


def test_a_run_directory_that_takes_no_files_is_passed_over(tmp_path):
    """A stale XDG_RUNTIME_DIR, as sudo leaves it, is no reason to fail."""
    handover = Handover.create({"XDG_RUNTIME_DIR": str(tmp_path / "gone")})
    assert handover.directory.is_dir()
    handover.remove()
    here = Handover.create({"XDG_RUNTIME_DIR": str(tmp_path)})
    assert here.directory.parent == tmp_path
    here.remove()


def test_publishing_to_nowhere_is_no_error():
    """A full or lost disk makes the answer old for those inside; the lease is worth more."""
    Handover(Path(os.devnull)).publish(Answer())
    assert Handover(Path(os.devnull)).gather().units_done == 0.0


def test_reading_something_else_names_the_file(tmp_path):
    """The error says which file was not ours."""
    path = tmp_path / "advice.json"
    path.write_text("hello")
    with pytest.raises(ChaseError, match=str(path)):
        read(path)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 1000), max_size=5), max_size=6))
def test_the_sum_never_falls_and_ends_at_the_total(processes):
    """However processes report in turn, the launcher's sum grows to the sum of their last words."""
    handover = Handover.create()
    try:
        seen = [0.0]
        for steps in processes:
            done = [0.0]
            link = InsideLink(handover.directory, units_done=lambda done=done: done[0], terms=Terms("steps"))
            for n in steps:
                done[0] += n
                link.exchange()
                seen.append(handover.gather().units_done)
        assert seen == sorted(seen)
        assert handover.gather().units_done == sum(sum(steps) for steps in processes)
    finally:
        handover.remove()


def _until(told):
    deadline_s = time.monotonic() + 10
    while not told():
        assert time.monotonic() < deadline_s
        time.sleep(0.002)
