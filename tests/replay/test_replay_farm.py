"""A farm of tasks: chunks, groups, faults of tasks and deaths of workers."""

from __future__ import annotations

import pytest
from farm_engines import Counted, both, errors, tasks, values
from farm_tasks import (
    breaks_on_odd,
    dies,
    dies_on_seven,
    dies_once,
    double,
    fails_on_odd,
    pid,
    unsendable_on_odd,
)
from hypothesis import given
from hypothesis import strategies as st

from chase.errors import ChaseError
from chase.replay.engine import Inline, Processes
from chase.replay.farm import Farm


def test_nothing_to_do_is_done_at_once():
    """No worker is started for it."""
    engine = Counted()
    assert list(Farm(engine, double, []).run()) == []
    assert engine.chunks == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 99)), unique=True, max_size=60), st.floats(1e-6, 1e-2))
def test_each_task_comes_back_once_with_its_own_value(items, chunk_s):
    """Whatever the groups and the chunks are."""
    work = tasks(items, group=lambda item: item[0])
    back = [one for some in Farm(Inline(), double_of_pair, work, chunk_s=chunk_s).run() for one in some]
    assert sorted(one.task.key for one in back) == sorted(task.key for task in work)
    assert all(one.value == 2 * one.task.item[1] for one in back)


def double_of_pair(item):
    return 2 * item[1]


def test_short_tasks_travel_together():
    """A thousand of them take some dozen trips, not a thousand: large ones first, small ones towards the end."""
    engine = Counted()
    assert len(values(Farm(engine, double, tasks(range(1000))).run())) == 1000
    assert len(engine.chunks) < 30
    assert engine.chunks[:2] == [1, 256]
    assert engine.chunks[-1] == 1


def test_tasks_longer_than_a_chunk_travel_alone():
    """What takes as long as a chunk may is not put together with others."""
    engine = Counted()
    list(Farm(engine, double, tasks(range(20)), chunk_s=1e-9).run())
    assert engine.chunks == [1] * 20


def test_groups_go_one_after_another():
    """However their tasks were mixed when they were asked for."""
    work = tasks(range(30), group=lambda number: f"grid {number % 3}")
    back = [one.task.group for some in Farm(Inline(), double, work).run() for one in some]
    assert back == ["grid 0"] * 10 + ["grid 1"] * 10 + ["grid 2"] * 10


def test_a_tasks_error_is_its_own():
    """The others of its chunk are done, and it is told in the words of the error."""
    done, failed = both(Farm(Inline(), fails_on_odd, tasks(range(40))).run())
    assert done == {f"cell {number}": number for number in range(0, 40, 2)}
    assert failed == {f"cell {number}": f"{number} is odd" for number in range(1, 40, 2)}


def test_of_a_fault_of_ours_the_place_is_told():
    """With the file and the line, so that a report of it can be followed."""
    failed = errors(Farm(Inline(), breaks_on_odd, tasks([1])).run())
    assert failed["cell 1"].startswith("ZeroDivisionError: integer division or modulo by zero (farm_tasks.py:")


def test_on_processes_each_task_comes_back():
    """From two workers that are not this process, over groups."""
    with Processes(2) as engine:
        done, failed = both(Farm(engine, double, tasks(range(50), group=lambda number: str(number % 3))).run())
        where = set(values(Farm(engine, pid, tasks(range(50)), chunk_s=1e-9).run()).values())
    assert done == {f"cell {number}": 2 * number for number in range(50)}
    assert not failed
    assert len(where) <= 2


def test_a_result_that_cannot_travel_is_one_tasks_error():
    """Its chunk is taken apart, and the others come back."""
    with Processes(1) as engine:
        done, failed = both(Farm(engine, unsendable_on_odd, tasks([0, 1, 2, 4, 6, 8])).run())
    assert sorted(done.values()) == [0, 2, 4, 6, 8]
    assert list(failed) == ["cell 1"]
    assert "unsendable_on_odd.<locals>.<lambda>" in failed["cell 1"]


def test_a_killed_workers_tasks_are_done_again(tmp_path):
    """Nothing is lost, and nothing is reported, when a worker is killed once."""
    with Processes(2) as engine:
        items = [(str(tmp_path), number) for number in range(20)]
        done, failed = both(Farm(engine, dies_once, tasks(items)).run())
    assert sorted(done.values()) == list(range(20))
    assert not failed
    assert (tmp_path / "died").exists()


def test_a_task_that_kills_its_worker_is_named_and_the_rest_goes_on():
    """Those that were in flight with it are not blamed."""
    with Processes(2) as engine:
        done, failed = both(Farm(engine, dies_on_seven, tasks(range(20))).run())
    assert sorted(done.values()) == [number for number in range(20) if number != 7]
    assert failed == {"cell 7": "its worker died each time it was tried (killed, or out of memory)"}


def test_workers_that_die_of_anything_end_the_sweep():
    """Where nothing ever came back, a thousand tasks are not blamed one after another."""
    with Processes(1) as engine, pytest.raises(ChaseError, match="the fault is in the workers"):
        list(Farm(engine, dies, tasks(range(1000))).run())
