"""Work that may block for ever ends for us at its deadline."""

from __future__ import annotations

import threading

import pytest

from providers.deadline import Deadlines, Expired


def test_work_in_time_hands_over_its_result():
    """Value or exception, as if called directly."""
    assert Deadlines[int]().run(lambda: 7, 5.0) == 7
    with pytest.raises(KeyError):
        Deadlines[int]().run(lambda: {}["x"], 5.0)


def test_work_that_hangs_is_left():
    """The caller goes on; the thread ends with its work."""
    release = threading.Event()
    with pytest.raises(Expired, match=r"within 0\.01 s"):
        Deadlines[bool]().run(lambda: release.wait(30.0), 0.01)
    release.set()


def test_threads_left_behind_are_bounded_and_come_back():
    """When all hang nothing is begun; when one ends there is room again."""
    release = threading.Event()
    deadlines = Deadlines[bool](threads=2)
    for _ in range(2):
        with pytest.raises(Expired, match="within"):
            deadlines.run(lambda: release.wait(30.0), 0.01)
    with pytest.raises(Expired, match="still hang"):
        deadlines.run(lambda: True, 0.01)
    release.set()
    assert deadlines.run(lambda: True, 5.0)


def test_closing_wakes_and_refuses():
    """Whoever waits is let go at once, whoever comes later is turned away, and no slot is lost."""
    began, release = threading.Event(), threading.Event()
    deadlines = Deadlines[bool](threads=1)
    said: list[str] = []

    def work() -> bool:
        began.set()
        return release.wait(30.0)

    def wait() -> None:
        try:
            deadlines.run(work, 30.0)
        except Expired as error:
            said.append(str(error))

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert began.wait(5.0)
    deadlines.close()
    waiter.join(5.0)
    release.set()
    assert said == ["closed"]
    for _ in range(3):
        with pytest.raises(Expired, match="closed"):
            deadlines.run(lambda: True, 5.0)


def test_nothing_is_kept_of_work_that_is_over():
    """A service that polls for years does not grow by what it once waited for."""
    deadlines = Deadlines[int]()
    for _ in range(20):
        deadlines.run(lambda: 7, 5.0)
    assert not deadlines._waiting


def test_a_machine_out_of_threads_is_survived(monkeypatch):
    """Where no thread can be started the call fails as one that expired, and the next may succeed."""
    deadlines = Deadlines[bool](threads=1)
    with monkeypatch.context() as patch:
        patch.setattr(
            threading.Thread, "start", lambda _: (_ for _ in ()).throw(RuntimeError("can't start new thread"))
        )
        with pytest.raises(Expired, match="no thread"):
            deadlines.run(lambda: True, 5.0)
    assert deadlines.run(lambda: True, 5.0)
