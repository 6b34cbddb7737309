"""Hooks that come twice, unpaired, or not at all: what is counted is the trainer's own step."""

from __future__ import annotations

import pytest

from chase.integrations.loop import TrainingLoop


def last(service) -> dict:
    (ended,) = service.ended.values()
    return ended


def test_steps_and_their_total(service):
    """A step is so many samples, and what was done before is not this run's."""
    loop = TrainingLoop("job", region="gb")
    loop.begin(step=10, samples=32, last_step=110)
    for step in range(11, 21):
        loop.reached(step)
    loop.end()
    ended = last(service)
    assert (ended["units"], ended["units_done"], ended["total_units"], ended["region"]) == (
        "samples",
        320.0,
        3200.0,
        "gb",
    )


def test_hooks_that_are_missing_or_come_twice(service):
    """A step that was not told counts with the next; one that is told twice counts once."""
    loop = TrainingLoop("job")
    loop.reached(3)
    loop.begin(step=0, samples=8, last_step=None)
    loop.begin(step=0, samples=8, last_step=None)
    for step in (1, 1, 4, 2, 4):
        loop.reached(step)
    loop.end("failed: ValueError")
    loop.end()
    loop.reached(9)
    ended = last(service)
    assert (ended["units_done"], ended["total_units"], ended["reason"]) == (32.0, None, "failed: ValueError")


def test_another_training_is_another_job(service):
    """With the same callback."""
    loop = TrainingLoop("job")
    for _ in range(2):
        loop.begin(step=0, samples=None, last_step=5.0)
        loop.reached(5)
        loop.end()
    assert [(end["units"], end["units_done"]) for end in service.ended.values()] == [("steps", 5.0)] * 2


@pytest.mark.parametrize("total", [None, float("inf"), float("nan"), 0, -1])
def test_a_length_that_is_not_known(service, total):
    """Is not made up."""
    loop = TrainingLoop("job")
    loop.begin(step=0, samples=4, last_step=total)
    loop.end()
    assert last(service)["total_units"] is None


def test_what_is_logged(service):
    """The limit, the mode as a number, what was done, and whether the service is there."""
    loop = TrainingLoop("job")
    assert loop.scalars() == {}
    loop.begin(step=0, samples=4, last_step=None)
    loop.reached(2)
    service.wait_for(lambda: service.count("POST", "/report") >= 2, "of the job")
    logged = loop.scalars()
    assert logged == {
        "chase/units_done": 8.0,
        "chase/connected": 1.0,
        "chase/power_limit_w": 200.0,
        "chase/mode": 1.0,
    }
    loop.end()


def test_arguments_that_mean_nothing_are_told_at_once():
    """Before the training begins, since nothing is raised into it."""
    with pytest.raises(ValueError, match="total_units"):
        TrainingLoop("job", total_units=-1)
