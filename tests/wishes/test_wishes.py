"""Jobs that share GPUs: who wins, and who must change together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chase.wishes import joint_wishes
from zeus_core.actuation.base import Wish
from zeus_core.frontier import Setting


def limit(power_limit_w: float) -> Setting:
    return Setting(power_limit_w=power_limit_w)


def test_each_job_alone_is_a_group_of_its_own():
    """Jobs that share nothing must not be able to roll each other back."""
    groups = joint_wishes({"a": ["g0"], "b": ["g1"]}, {"a": limit(200), "b": limit(250)})
    assert groups == ({"g0": Wish(200)}, {"g1": Wish(250)})


def test_a_job_of_several_gpus_is_one_group():
    """A synchronous job is as slow as its slowest rank: all or nothing."""
    assert joint_wishes({"a": ["g0", "g1"]}, {"a": limit(200)}) == ({"g0": Wish(200), "g1": Wish(200)},)


def test_the_faster_wish_wins_on_a_shared_gpu():
    """Two jobs on one GPU: nobody is slowed beyond his own wish."""
    assert joint_wishes({"a": ["g0"], "b": ["g0"]}, {"a": limit(200), "b": limit(250)}) == ({"g0": Wish(250)},)


def test_as_found_is_the_fastest_wish_of_all():
    """A job that wants the GPU as it was found wins over any limit."""
    assert joint_wishes({"a": ["g0"], "b": ["g0"]}, {"a": limit(200), "b": None}) == ({"g0": Wish(None)},)


gpus = st.lists(st.sampled_from([f"g{i}" for i in range(6)]), min_size=1, max_size=4, unique=True)
jobs = st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(gpus, st.none() | st.floats(100, 300)), max_size=6)


@given(jobs)
def test_groups_partition_the_gpus_and_never_cut_a_job(table):
    """Every used GPU is in one group, a job's GPUs are in the same one, and no wish is slower than any job's own."""
    used = {job: pair[0] for job, pair in table.items()}
    wanted = {job: None if pair[1] is None else limit(pair[1]) for job, pair in table.items()}
    groups = joint_wishes(used, wanted)
    flat = [gpu for group in groups for gpu in group]
    assert sorted(flat) == sorted({gpu for gpus_ in used.values() for gpu in gpus_})
    for job, gpus_ in used.items():
        assert sum(bool(set(gpus_) & set(group)) for group in groups) == 1
        for group in groups:
            for gpu in set(gpus_) & set(group):
                given_w = group[gpu].power_limit_w
                assert given_w is None or (wanted[job] is not None and given_w >= wanted[job].power_limit_w)
