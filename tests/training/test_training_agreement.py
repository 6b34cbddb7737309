"""The ranks' agreement on a batch size, rank by rank in every order that their exchange of gradients allows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.distributed import HashStore  # noqa: E402

from zeus_core.training.agreement import Agreement, Outcome  # noqa: E402

SIZES = (8, 16, 32)


class Watched:
    """A store that counts what is asked of it, and of how much had to be waited for."""

    def __init__(self):
        self.store, self.asked, self.waited = HashStore(), 0, 0

    def __getattr__(self, name):
        self.asked += 1
        return getattr(self.store, name)

    def wait(self, keys, timeout):
        self.waited += not self.store.check(keys)
        self.store.wait(keys, timeout)


def ranks_of(store, world, **options):
    return [Agreement(store, rank, world, **{"timeout_s": 0.05, **options}) for rank in range(world)]


def run(agreements, ticks, pick, wish, can):
    """Each rank goes through its ticks, none beginning one before all have ended the one before."""
    outcomes, done = [{} for _ in agreements], [0] * len(agreements)
    while min(done) < ticks:
        rank = pick([rank for rank, k in enumerate(done) if k == min(done)])
        k = done[rank]
        outcome = agreements[rank].tick(k, wish(k) if rank == 0 else None, lambda size, rank=rank: can(rank, size))
        if outcome:
            outcomes[rank][k] = outcome
        done[rank] += 1
    return outcomes


@given(st.data(), st.integers(1, 5), st.integers(1, 4))
def test_all_ranks_change_at_the_same_tick_or_none_does(data, world, every):
    """Whatever the order and the delays, outcomes and their ticks are equal on all ranks, and nobody ever waits."""
    store = Watched()
    refused = data.draw(st.sets(st.tuples(st.integers(0, world - 1), st.sampled_from(SIZES)), max_size=2))
    wishes = data.draw(st.lists(st.sampled_from([None, None, *SIZES]), min_size=30, max_size=30))
    outcomes = run(
        ranks_of(store, world, every=every),
        30,
        lambda ready: data.draw(st.sampled_from(ready)),
        lambda k: wishes[k],
        lambda rank, size: (rank, size) not in refused,
    )
    assert all(each == outcomes[0] for each in outcomes)
    assert store.waited == 0
    for k, outcome in outcomes[0].items():
        can = not any(size == outcome.microbatch for _, size in refused)
        assert outcome.verdict == ("yes" if can else "no")
        assert outcome.microbatch == wishes[k - 2 * every]
        assert k % every == 0
    first = next((k for k, size in enumerate(wishes) if size and k % every == 0), 30)
    assert min(outcomes[0], default=30) == min(30, first + 2 * every)


def test_ticks_without_a_wish_cost_one_look_at_most():
    """Rank 0 asks the store nothing, the others look once in every so many ticks."""
    store = Watched()
    agreements = ranks_of(store, 2, every=5)
    store.asked = 0
    for k in range(100):
        assert agreements[0].tick(k, None, bool) is None
    assert store.asked == 0
    for k in range(100):
        assert agreements[1].tick(k, None, bool) is None
    assert store.asked == 20


def test_a_proposal_that_is_seen_too_late_is_made_again_with_more_lead():
    """Ranks that do not meet in every step agree later: all abort, and the next proposal gives twice the time."""
    store = HashStore()
    first, second = ranks_of(store, 2)
    assert first.tick(0, 16, bool) is None
    assert second.tick(3, None, bool) == Outcome(16, "late")  # it was due at 2
    assert first.tick(2, 16, bool) == Outcome(16, "late")
    assert first.tick(3, 16, bool) is None
    assert second.tick(6, None, bool) is None  # due at 7 now
    assert [each.tick(7, None, bool) for each in (first, second)] == [Outcome(16, "yes")] * 2


def test_a_lost_rank_ends_the_change_within_the_time_limit():
    """The others wait for its vote no longer than that, none applies, and nothing is proposed any more."""
    store = Watched()
    agreements = ranks_of(store, 3)
    alive = agreements[:2]
    for agreement in alive:
        agreement.tick(0, 16, bool)
    assert [agreement.tick(2, 16, bool) for agreement in alive] == [Outcome(16, "lost")] * 2
    assert store.waited == 1  # the second finds the verdict of the first
    assert all(agreement.lost for agreement in alive)
    store.asked = 0
    assert [agreement.tick(3, 16, bool) for agreement in alive] == [None, None]
    assert store.asked == 0


def test_a_rank_that_was_only_slow_hears_that_it_was_given_up():
    """It voted for the change, and does not apply it: the verdict is written once."""
    first, slow = ranks_of(HashStore(), 2)
    first.tick(0, 16, bool)
    assert first.tick(2, None, bool) == Outcome(16, "lost")
    assert slow.tick(1, None, bool) is None
    assert slow.tick(2, None, bool) == Outcome(16, "lost")


def test_a_vote_asks_everybody_at_once():
    """One no is a no for all, each vote stands for itself, and who does not vote is lost."""
    agreements = ranks_of(HashStore(), 2)
    agreements[0]._cast(f"{agreements[0]._prefix}/vote/0", "no")  # what vote() does before it waits
    assert agreements[1].vote(yes=True) == "no"
    agreements[0]._votes = 1
    agreements[0]._cast(f"{agreements[0]._prefix}/vote/1", "yes")
    assert agreements[1].vote(yes=True) == "yes"
    assert agreements[1].vote(yes=True) == "lost"


def test_agreements_in_one_store_do_not_hear_each_other():
    """A second training in the same processes begins anew, not with the first one's proposals."""
    store = HashStore()
    old, _ = ranks_of(store, 2)
    old.tick(0, 16, bool)
    new = ranks_of(store, 2)
    assert [agreement.tick(1, None, bool) for agreement in new] == [None, None]
    assert new[1]._open is None


class Gone(Watched):
    """A store whose server is no more, from when that is said."""

    gone = False

    def __getattr__(self, name):
        if self.gone:
            raise torch.distributed.DistNetworkError("Connection reset by peer")
        return super().__getattr__(name)

    def wait(self, keys, timeout: timedelta):
        return self.__getattr__("wait")(keys, timeout)


def test_a_store_that_is_gone_ends_the_agreement_and_not_the_training():
    """Where nothing is under way the size stays as it is; where this rank has voted it must not guess the verdict."""
    store = Gone()
    idle, _ = ranks_of(store, 2)
    store.gone = True
    assert idle.tick(0, 16, bool) is None
    assert idle.lost
    store = Gone()
    voted, _ = ranks_of(store, 2)
    voted.tick(0, 16, bool)
    store.gone = True
    with pytest.raises(RuntimeError, match="gone before they agreed"):
        voted.tick(2, 16, bool)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((2, 2, {}), "rank must lie within 0 to world - 1, not 2 of 2"),
        ((0, 2, {"every": 0}), "every must be at least 1"),
        ((0, 2, {"timeout_s": float("nan")}), "timeout_s above 0"),
    ],
)
def test_an_agreement_that_cannot_be_is_refused(arguments, says):
    """A rank outside the world, no interval and no time limit are named."""
    rank, world, options = arguments
    with pytest.raises(ValueError, match=says):
        Agreement(HashStore(), rank, world, **options)
