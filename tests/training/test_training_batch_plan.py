"""What a job may declare about its batch size."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zeus_core.training.batch_plan import BatchPlan


def plan(**changed) -> BatchPlan:
    return BatchPlan(**{"global_batch": 96, "microbatch": 8, "microbatches": (8, 16, 24), **changed})


@given(st.integers(1, 2000), st.integers(1, 8), st.integers(1, 300))
def test_what_is_refused_comes_with_the_nearest_that_divide(share, world, size):
    """A size runs where it divides the ranks' share; else the message names the nearest below and above that do."""
    declared = BatchPlan(share * world, 1, (1, size))
    if share % size == 0:
        declared.check(world)
        assert (
            declared.accumulation(size, world) * size * world == share * world == declared.global_batch_at(size, world)
        )
        return
    with pytest.raises(ValueError, match=f"microbatch {size} x {world} ranks") as caught:
        declared.check(world)
    named = [int(word) for word in str(caught.value).split("are ")[1].split(" and ")]
    divisors = [each for each in range(1, share + 1) if share % each == 0]
    assert named == [
        *[max(each for each in divisors if each < size)],
        *[each for each in divisors if each > size][:1],
    ]


def test_ranks_that_cannot_share_the_global_batch_are_refused_with_the_nearest_ones():
    """A global batch that the ranks cannot share evenly names those just below and above."""
    with pytest.raises(
        ValueError, match="global_batch 96 cannot be shared by 5 ranks evenly; the nearest are 95 and 100"
    ):
        plan().check(5)
    with pytest.raises(ValueError, match="the nearest are 128"):
        plan().check(128)


def test_without_the_global_batch_only_the_first_size_must_divide():
    """Where the accumulation is kept, any size goes, and the global batch follows it."""
    free = plan(microbatches=(7, 8, 100), keep_global_batch=False)
    free.check(4)
    assert [free.global_batch_at(size, 4) for size in free.microbatches] == [84, 96, 1200]
    assert {free.accumulation(size, 4) for size in free.microbatches} == {3}


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        ({"microbatch": 12}, ValueError, r"microbatch 12 must be one of microbatches, \[8, 16, 24\]"),
        ({"microbatch": 8.0}, TypeError, "microbatch must be a whole number, not 8.0"),
        ({"microbatches": (8, True)}, TypeError, "microbatches must be a whole number, not True"),
        ({"microbatches": (8, 0)}, ValueError, "microbatches must be at least 1, not 0"),
        ({"global_batch": -96}, ValueError, "global_batch must be at least 1"),
        ({"boundary": "step"}, ValueError, "boundary must be one of epoch, accumulation, checkpoint, not 'step'"),
        ({"keep_global_batch": 1}, TypeError, "keep_global_batch must be true or false, not 1"),
        ({"keep_global_batch": False, "rate_rule": "cubic"}, ValueError, "rate_rule must be one of sqrt, linear"),
        ({"rate_rule": "sqrt"}, ValueError, "rate_rule needs keep_global_batch=False"),
        ({"warmup_steps": -1}, ValueError, "warmup_steps must be at least 0"),
    ],
)
def test_a_plan_that_means_nothing_is_refused(changed, error, says):
    """Each wrong value is named with its key, and with what would do."""
    with pytest.raises(error, match=says):
        plan(**changed)


def test_a_plan_survives_json():
    """Stored as JSON and read back it is the same plan, sizes in order and once each."""
    declared = plan(microbatches=(24, 8, 16, 8), keep_global_batch=False, rate_rule="linear", boundary="checkpoint")
    assert declared.microbatches == (8, 16, 24)
    assert BatchPlan.from_dict(json.loads(json.dumps(declared.to_dict()))) == declared


@pytest.mark.parametrize(
    ("raw", "error", "says"),
    [
        ({"global_batch": 96, "microbatch": 8}, ValueError, "needs microbatches"),
        ({**plan().to_dict(), "micro": 3}, ValueError, "has no micro; it has global_batch, microbatch"),
        ({**plan().to_dict(), "microbatches": "8, 16"}, TypeError, "microbatches must be a list of whole numbers"),
    ],
)
def test_a_stored_plan_that_is_none_is_refused(raw, error, says):
    """A key that is missing, unknown or of another kind is named."""
    with pytest.raises(error, match=says):
        BatchPlan.from_dict(raw)


@given(st.data())
def test_plans_differ_in_what_is_said(data):
    """Every difference is said, and two plans without one are equal."""
    kinds = {"boundary": ["epoch", "accumulation"], "warmup_steps": [0, 5], "microbatches": [(8,), (8, 16)]}
    one, other = ({key: data.draw(st.sampled_from(values)) for key, values in kinds.items()} for _ in range(2))
    said = plan(**one).differences(plan(**other))
    assert sorted(text.split()[0] for text in said) == sorted(key for key in kinds if one[key] != other[key])
    assume(one["microbatches"] != other["microbatches"])
    assert f"microbatches was {list(one['microbatches'])} and is {list(other['microbatches'])}" in said
