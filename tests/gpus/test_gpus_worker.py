from __future__ import annotations

import threading

import pytest

from zeus_core.gpus.worker import Stuck, Worker


class Gate:
    """A call that blocks until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.release = threading.Event()

    def __call__(self) -> str:
        self.entered.set()
        self.release.wait()
        return "late"


def test_results_and_errors_come_back():
    """A call's result is the caller's, and so is its error, with its own type."""
    worker = Worker("test", budget_s=5)
    assert worker.run(lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        worker.run(lambda: 1 // 0)
    worker.close()


def test_calls_run_in_one_thread_one_at_a_time():
    """All calls share one daemon thread, so the driver sees one caller a GPU."""
    worker = Worker("gpu-0", budget_s=5)
    threads = {worker.run(threading.current_thread) for _ in range(5)}
    assert [(thread.name, thread.daemon) for thread in threads] == [("gpu-0", True)]
    worker.close()


def test_a_call_over_budget_is_stuck_and_later_ones_at_once():
    """The first caller waits for the budget, the next not at all, until the call is back."""
    worker, gate, begun = Worker("test", budget_s=0.05), Gate(), []
    with pytest.raises(Stuck, match="no answer for 0"):
        worker.run(gate)
    with pytest.raises(Stuck):
        worker.run(lambda: begun.append(1))
    gate.release.set()
    while True:
        try:
            assert worker.run(lambda: "fine") == "fine"
            break
        except Stuck:
            continue
    assert begun == []
    worker.close()


def test_a_call_given_up_in_the_queue_never_runs():
    """Whoever waited in vain behind a stuck call does not have it run afterwards."""
    worker, gate, ran = Worker("test", budget_s=0.2), Gate(), []

    def wait() -> None:
        with pytest.raises(Stuck):
            worker.run(gate)

    first = threading.Thread(target=wait)
    first.start()
    gate.entered.wait()
    with pytest.raises(Stuck):
        worker.run(lambda: ran.append("second"))
    first.join()
    gate.release.set()
    while True:
        try:
            worker.run(lambda: ran.append("third"))
            break
        except Stuck:
            continue
    assert ran == ["third"]
    worker.close()


def test_many_callers_each_get_their_own_answer():
    """Threads that share a worker never see each other's results."""
    worker = Worker("test", budget_s=20)
    answers: dict[int, int] = {}

    def ask(number: int) -> None:
        for _ in range(50):
            answers[number] = worker.run(lambda: number)
            assert answers[number] == number

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: number for number in range(8)}
    worker.close()


def test_a_closed_worker_starts_again_when_needed():
    """Closing ends the thread, not the object."""
    worker = Worker("test", budget_s=5)
    before = worker.run(threading.current_thread)
    worker.close()
    before.join(5)
    assert not before.is_alive()
    assert worker.run(lambda: 1) == 1
    worker.close()
