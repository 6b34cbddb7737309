"""Which optimizer's steps are the training's, where a process has several at once or one after the other."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chase.launch

INJECTED = Path(chase.launch.__file__).parent / "inject/sitecustomize.py"


@pytest.fixture(scope="module")
def injected():
    spec = importlib.util.spec_from_file_location("injected", INJECTED)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def looked(injected):
    """Look at the steps of each optimizer once in a while: what the training was said to have done."""

    def look(*looks: dict[int, int]) -> list[int]:
        lead = injected._Lead()
        return [lead.count(dict(steps)) for steps in looks]

    return look


def test_generator_and_discriminator(looked):
    """Two steps in turn are one of the training, also where one of them steps less often."""
    assert looked({1: 10, 2: 10}, {1: 20, 2: 20}, {1: 30, 2: 25}) == [10, 20, 30]


def test_folds_add_up(looked):
    """Each with an optimizer of its own, which begins when the one before is done."""
    first = [{1: 10 * n} for n in range(1, 21)]
    second = [{1: 200, 2: 10 * n} for n in range(1, 26)]
    third = [{1: 200, 2: 250, 3: 10 * n} for n in range(1, 16)]
    said = looked(*first, *second, *third)
    assert said[-1] == 600
    assert said == sorted(said)


def test_a_fold_longer_than_the_one_before_overtakes_it(looked):
    """Until it is believed that the first steps no more, the larger counts: nothing is told twice or taken back."""
    said = looked({1: 10}, *({1: 10, 2: 10 * n} for n in range(1, 30)))
    assert said[-1] in {290, 300}
    assert said == sorted(said)


def test_a_pause_ends_nothing(looked):
    """An hour of evaluation, in which nobody steps, and then the same one goes on."""
    assert looked({1: 50, 2: 20}, *[{1: 50, 2: 20}] * 3600, {1: 60, 2: 30}) == [50] * 3601 + [60]


def test_one_that_steps_seldom_keeps_the_lead(looked):
    """A discriminator's five steps between two of the generator's, each of them seen, are no new training."""
    looks = [{1: n, 2: n // 5} for n in range(1, 101)]
    assert looked(*looks) == list(range(1, 101))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), min_size=1, max_size=60))
def test_never_back_and_never_more_than_was_done(injected, moves):
    """Whoever steps when: the count grows by no more than all steps did, and covers the one that did most."""
    lead, steps, said = injected._Lead(), {}, [0]
    for optimizer, count in moves:
        steps[optimizer] = steps.get(optimizer, 0) + count
        said.append(lead.count(dict(steps)))
        assert max(steps.values()) <= said[-1] <= sum(steps.values())
    assert all(before <= after for before, after in pairwise(said))
