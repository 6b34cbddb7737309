"""What is believed of a size before any training here: by trainings on other GPUs, and by a prior."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trainings import COSTS, EPOCHS, PAPER, SIZES, SPEC, asked, history, on

from zeus_core.trials import Stage, Status, Trial


class TestOtherGpus:
    """Cost' = epochs x new epoch cost (papers B.3), the epoch's cost being that of whatever was trained here."""

    V100 = tuple(on("V100", n, size) for n, size in enumerate((32, 16, 64, 128, 64, 64), 1))

    def beliefs(self, *here: Trial, eta: float = 1.0) -> dict[int, tuple[float | None, float | None]]:
        arms = asked([*self.V100, *here], gpu_model="A40", eta=eta).arms
        return {arm.batch_size: (arm.mean, arm.sd) for arm in arms}

    def test_before_anything_was_trained_here_sizes_can_still_be_compared(self):
        """So the first is one that is good there, and not a walk over all of them again."""
        told = asked(self.V100, gpu_model="A40")
        assert told.batch_size in {32, 64}
        assert told.stage is Stage.SAMPLING
        assert told.stop_above is None
        assert "by what it took elsewhere" in told.reason
        assert self.beliefs()[64] == (90.0, pytest.approx(0.2 * 90.0))

    def test_the_others_follow_the_one_that_was_trained_here(self):
        """Three times as much an epoch: so it is for its neighbours, with more doubt than for itself."""
        found = self.beliefs(on("A40", 7, 64, factor=3.0))
        assert found[64][0] == pytest.approx(270.0)
        assert found[64][1] < 0.04 * 270.0
        assert found[16] == (pytest.approx(360.0), pytest.approx(0.2 * 360.0))

    def test_joules_and_seconds_each_have_their_ratio(self):
        """Half the time at the same energy, at either end of eta."""
        here = Trial(7, 64, Status.CONVERGED, 90.0, 90.0 / 600.0, 7.0, "A40")
        assert self.beliefs(here, eta=1.0)[32][0] == pytest.approx(100.0)
        assert self.beliefs(here, eta=0.0)[32][0] == pytest.approx(50.0)

    @pytest.mark.parametrize("status", [Status.STOPPED, Status.FAILED, Status.LOST])
    def test_some_epochs_are_enough_for_the_ratio(self, status):
        """What did not arrive costs as much an epoch."""
        cost = 0.5 * COSTS[128] * 6.0 / EPOCHS[128]
        found = self.beliefs(Trial(7, 128, status, cost, cost / 300.0, 6.0, "A40"))
        assert found[64][0] == pytest.approx(45.0)

    @pytest.mark.parametrize("status", [Status.FAILED, Status.LOST, Status.OUT_OF_MEMORY])
    def test_one_that_was_killed_in_its_second_epoch_says_nothing_of_one(self, status):
        """It took two for the one that was counted: its size would look twice as dear as all others, for ever."""
        cost = COSTS[64] * 1.95 / EPOCHS[64]
        killed = Trial(7, 64, status, cost, cost / 300.0, 1.0, "A40")
        found = self.beliefs(killed, on("A40", 8, 32))
        assert found[16][0] == pytest.approx(COSTS[16])
        if status is Status.LOST:
            assert found[64][0] == pytest.approx(COSTS[64])

    def test_models_on_which_none_arrived_hide_no_others(self):
        """A night on a borrowed card that came to nothing, and what was learnt before it still counts."""
        lost = [on("A40", 7, 32, Status.LOST), on("A40", 8, 32, Status.FAILED)]
        assert {*(arm.mean for arm in asked([*self.V100, *lost], gpu_model="H200", eta=1.0).arms)} == {
            *(arm.mean for arm in asked(self.V100, gpu_model="H200", eta=1.0).arms)
        }

    def test_more_epochs_here_than_there(self):
        """The cost of an epoch is one thing and their number another: both trainings count for the size itself."""
        here = Trial(7, 64, Status.CONVERGED, 2 * 90.0, 2 * 90.0 / 300.0, 14.0, "A40")
        mean, _ = self.beliefs(here)[64]
        assert 135.0 < mean < 180.0

    def test_what_failed_there_fails_here(self):
        """Whether a size reaches the target is no matter of the GPU; whether it fits into the memory is."""
        failed = [*self.V100[:3], on("V100", 4, 128, Status.FAILED), on("V100", 5, 8, Status.OUT_OF_MEMORY)]
        found, told = [], [*failed]
        for number in range(6, 12):
            asked_for = asked(told, gpu_model="A40", number=number)
            found.append(asked_for.batch_size)
            told.append(on("A40", number, asked_for.batch_size, factor=2.0))
        assert 128 not in found
        assert 8 in found

    def test_no_second_walk(self):
        """Of sizes that all arrived there, each is tried here only as the draw has it."""
        told = list(self.V100)
        for number in range(7, 30):
            size = asked(told, gpu_model="A40", number=number).batch_size
            told.append(on("A40", number, size, factor=0.25))
        here = [trial.batch_size for trial in told[6:]]
        assert here.count(8) == 1  # which was never tried there, and its way had not ended
        assert here[-8:] == [64] * 8 or here[-8:].count(64) + here[-8:].count(32) == 8

    def test_in_the_paper_all_begins_anew(self):
        """``published`` is the paper's search as it stands."""
        assert asked(self.V100, PAPER, gpu_model="A40").batch_size == 32
        assert asked(self.V100, PAPER, gpu_model="A40").stage is Stage.PRUNING

    @given(
        st.lists(st.tuples(st.sampled_from(SIZES), st.sampled_from(list(Status))), max_size=12),
        st.lists(st.tuples(st.sampled_from(SIZES), st.sampled_from(list(Status))), max_size=6),
        st.floats(0.1, 10.0),
        st.floats(0.0, 1.0),
    )
    def test_whatever_was_seen_there_and_here(self, there, here, factor, eta):
        """An allowed size, and beliefs that are finite and positive."""
        told = [on("V100", n, *each) for n, each in enumerate(there, 1)]
        told += [on("A40", n, *each, factor=factor) for n, each in enumerate(here, len(there) + 1)]
        found = asked(told, gpu_model="A40", eta=eta)
        assert found.batch_size in SIZES
        assert all(arm.mean > 0 and 0 < arm.sd < math.inf for arm in found.arms if arm.mean is not None)
        assert found == asked(told[::-1], gpu_model="A40", eta=eta)


class TestPrior:
    def test_a_size_with_a_prior_alone_is_drawn_and_not_explored(self):
        """It was not of any use before a training at that size."""
        spec = replace(SPEC, prior={64: (50.0, 5.0), 128: (500.0, 5.0)})
        assert asked([], spec).batch_size == 64
        assert asked([], spec).stage is Stage.SAMPLING
        told = history((64, 50.0), (32, 100.0), (16, 120.0), (8, 260.0))
        assert {asked(told, spec, number=number).batch_size for number in range(5, 40)} == {64}

    def test_a_training_that_fails_contradicts_it(self):
        """A belief is none any more once it was seen otherwise."""
        spec = replace(SPEC, prior={64: (50.0, 5.0)})
        assert asked(history((64, Status.FAILED)), spec).batch_size == 32
