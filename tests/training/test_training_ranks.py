"""Four gloo ranks as real processes: one change for all, one memory's end for all, and a rank that is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forked_ranks import run

torch = pytest.importorskip("torch")

from training_problems import Images, one_thread, train_as_ever, weights  # noqa: E402

HERE = Path(__file__).parent
LENGTH, EPOCHS = 150, 8  # as in four_ranks.py


def four_ranks(directory, *scenarios):
    """How each of them ended, and what each saw."""
    printed, seen = run(HERE / "four_ranks.py", directory, *scenarios)
    return json.loads(printed), seen


@pytest.fixture(scope="module")
def saw(tmp_path_factory):
    """What each rank saw in each scenario."""
    too_big = "too_big", "too_big_early", "too_big_compiled"
    ended, saw = four_ranks(tmp_path_factory.mktemp("ranks"), "agree", "wander", "train", *too_big)
    assert ended == [0, 0, 0, 0]
    return {scenario: [each[scenario] for each in saw] for scenario in saw[0]}


@pytest.mark.slow
def test_all_four_apply_a_change_at_the_same_step(saw):
    """With delays, wishes and refusals at random every rank has the same outcomes at the same steps."""
    said = saw["agree"][0]["said"]
    assert all(each["said"] == said for each in saw["agree"])
    assert len(said) > 20
    assert {(size, verdict) for _, size, verdict in said} == {(8, "yes"), (16, "yes"), (32, "no")}


@pytest.mark.slow
def test_ranks_that_do_not_meet_still_apply_all_or_nothing(saw):
    """Without an exchange in each step some proposals come too late, for all; the others are applied at one step."""
    verdicts = [[verdict for _, _, verdict in each["said"]] for each in saw["wander"]]
    assert all(each == verdicts[0] for each in verdicts)
    applied = [[k for k, _, verdict in each["said"] if verdict == "yes"] for each in saw["wander"]]
    assert all(each == applied[0] for each in applied)
    assert applied[0]


@pytest.mark.slow
def test_four_ranks_that_change_end_with_the_weights_of_one_process(saw):
    """Changes at random, fillers where a rank has no sample left, and the weights of a plain run on whole batches."""
    ranks = saw["train"]
    assert all(each == ranks[0] for each in ranks)
    assert len({size for _, _, size in ranks[0]["said"]}) >= 5
    model = Images()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    with one_thread():
        train_as_ever(model, optimizer, Images.dataset(LENGTH), global_batch=48, epochs=EPOCHS)
    assert float((torch.tensor(ranks[0]["weights"]) - weights(model)).abs().max()) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["too_big", "too_big_early", "too_big_compiled"])
def test_one_rank_out_of_memory_puts_the_size_out_on_all(saw, scenario):
    """Only rank 2 lacks the memory, in its forward pass or before: all redo that batch at the size before, at the same
    step, and none hangs.
    """
    ranks = saw[scenario]
    assert all(each == ranks[0] for each in ranks)
    assert ranks[0]["said"] == [[3, 4, 12], ["out", 12], [4, 12, 4], [6, 4, 6], ["out", 6], [6, 6, 4]]


def test_a_rank_that_is_killed_ends_the_change_on_the_others(tmp_path):
    """The three that live all abort, after the time limit and not after for ever."""
    ended, saw = four_ranks(tmp_path, "killed")
    assert ended == [0, 0, 0, -9]
    assert [[each[1:] for each in rank["killed"]["said"]] for rank in saw[:3]] == [[[16, "lost"]]] * 3
