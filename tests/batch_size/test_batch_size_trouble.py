"""Trainings that fail, are killed, run out of memory, or cost something else by now: the search goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from calls import counted
from trainings import COSTS, PAPER, RUINS, SPEC, asked, ended, history, on

from zeus_core.trials import Stage, Status, Trial


class TestUpstreamsFaults:
    def test_a_killed_trial_blocks_nobody(self):
        """Upstream waited for ever for a trial that was SIGKILLed: a lost one is tried again."""
        told = [ended(1, 32, 100.0), Trial(2, 16, Status.LOST)]
        found = asked(told)
        assert (found.batch_size, found.stage) == (16, Stage.PRUNING)

    def test_but_not_for_ever(self):
        """A size at which the job always dies is given up."""
        told = [ended(1, 32, 100.0), *(Trial(n, 16, Status.LOST) for n in (2, 3, 4))]
        assert asked(told).batch_size == 64
        assert asked(told).arms[1].state == "out"

    def test_what_does_not_fit_is_out_with_all_larger_ones(self):
        """Upstream dropped a trial that ran out of memory from its history, and tried the same size again and again."""
        told = history((32, 100.0), (16, 120.0), (64, Status.OUT_OF_MEMORY))
        found = asked(told)
        assert [arm.state for arm in found.arms] == ["waiting", "open", "open", "out", "out"]
        for number in range(4, 60):
            assert asked(told, number=number).batch_size <= 32

    def test_two_failures_are_enough(self):
        """Once may be chance, in a training that is started again."""
        told = history((32, 100.0), (16, 120.0), (64, Status.FAILED), (64, Status.FAILED))
        assert asked(told).arms[3].state == "out"

    def test_a_trial_of_pruning_that_ends_late_is_history(self):
        """Upstream raised in the trainer when pruning was over by then."""
        told = [ended(1, 32, 100.0), Trial(2, 16), ended(3, 64, 90.0), ended(4, 128, 130.0), Trial(5, 8, Status.FAILED)]
        late = [
            replace(trial, status=Status.CONVERGED, joules=120.0, seconds=0.4) for trial in told if trial.number == 2
        ]
        assert asked([told[0], *late, *told[2:]]).stage is Stage.SAMPLING

    def test_while_a_size_is_tried_others_run_the_best_known(self):
        """Concurrent recurrences do not try it a second time."""
        told = [ended(1, 32, 100.0), ended(2, 16, 80.0), Trial(3, 64)]
        found = asked([*told, Trial(4, 8)])
        assert (found.batch_size, found.stage) == (16, Stage.CONCURRENT)

    def test_a_size_that_is_allowed_no_more(self):
        """What is known of it is kept out of the way."""
        told = history((32, 100.0), (16, 50.0), (64, 90.0))
        spec = replace(SPEC, batch_sizes=(32, 64))
        assert all(asked(told, spec, number=number).batch_size in {32, 64} for number in range(4, 40))

    def test_drift_is_followed(self):
        """The window forgets: a size that has become three times as dear is left, and the next best found."""
        trials = history((32, 100.0), (16, 120.0), (64, 90.0), (128, 130.0))
        for number in range(5, 100):
            found = asked(trials)
            cost = COSTS[found.batch_size] * (3.0 if number > 30 and found.batch_size == 64 else 1.0)
            stopped = found.stop_above is not None and cost > found.stop_above
            state = Status.STOPPED if stopped else Status.CONVERGED
            trials.append(ended(number, found.batch_size, min(cost, found.stop_above or cost), state))
        assert [trial.batch_size for trial in trials[-20:]].count(32) > 10

    def test_a_person_goes_before_all(self):
        """Pinned is pinned."""
        found = asked([], pinned=128)
        assert (found.batch_size, found.stage) == (128, Stage.PINNED)


class TestTrouble:
    """Of this search: each was once a fault of it."""

    def test_the_walk_does_not_end_at_sizes_that_were_never_tried(self):
        """Five trainings at one size on other GPUs say nothing of the other sizes."""
        told = [ended(n, 32, 100.0, gpu_model="V100") for n in range(1, 6)]
        sizes = []
        for number in range(6, 10):
            found = asked([*told], gpu_model="A40", number=number)
            sizes.append(found.batch_size)
            told.append(ended(number, found.batch_size, COSTS[found.batch_size], gpu_model="A40"))
        assert sizes == [32, 16, 64, 128]

    def test_memory_of_another_model_is_another(self):
        """What did not fit there may fit here."""
        told = [Trial(1, 64, Status.OUT_OF_MEMORY, gpu_model="V100")]
        assert all(arm.state != "out" for arm in asked(told, gpu_model="H200").arms)

    def test_smaller_sizes_than_the_first_that_fits_are_reached(self):
        """A default that does not fit, and neither the next: the walk goes on below them."""
        spec = replace(SPEC, default=64)
        told = history((64, Status.OUT_OF_MEMORY), (32, Status.OUT_OF_MEMORY))
        assert asked(told, spec).batch_size == 16

    def test_a_size_that_often_fails_is_as_dear_as_that(self):
        """What was spent in vain counts with the next training that arrives."""
        told = history((32, 100.0), (16, 120.0), (64, 50.0), (128, Status.FAILED), (8, Status.FAILED))
        told += [ended(n, 64, 50.0, Status.FAILED) for n in range(6, 15)] + [ended(15, 64, 50.0)]
        arm = next(arm for arm in asked(told).arms if arm.batch_size == 64)
        assert arm.mean == pytest.approx((50.0 + 500.0) / 2)
        assert asked(told).batch_size == 32

    def test_one_that_stops_arriving_is_left(self):
        """It cannot cost less than it has cost already."""
        told = history((32, 100.0), (16, 120.0), (64, 50.0), (128, Status.FAILED), (8, Status.FAILED))
        told += [ended(n, 64, 50.0, Status.FAILED) for n in range(6, 12)]
        assert asked(told).batch_size == 32

    def test_a_size_that_is_out_makes_no_limit(self):
        """The best of those that are left does."""
        told = history((32, 110.0), (16, 120.0), (64, 50.0), *[(64, Status.OUT_OF_MEMORY)] * 2, (8, Status.FAILED))
        assert asked(told).stop_above == pytest.approx(220.0)

    def test_what_was_too_dear_at_one_eta_is_tried_at_another(self):
        """A size that was ended for its energy may be the quickest."""
        slow = [Trial(n, size, Status.CONVERGED, 100.0, 10.0) for n, size in enumerate((32, 16), 1)]
        quick = Trial(3, 64, Status.STOPPED, 180.0, 2.0)
        failed = Trial(4, 8, Status.FAILED, 50.0, 10.0)
        assert asked([*slow, quick, failed], eta=1.0).batch_size != 64
        assert asked([*slow, quick, failed], eta=0.0).batch_size == 64

    def test_when_the_best_becomes_dear_others_are_tried_again(self):
        """What was ended at 190 J is worth another look once the best costs 1000 J."""
        told = [ended(1, 32, 100.0), ended(2, 16, 190.0, Status.STOPPED), ended(3, 64, 190.0, Status.STOPPED)]
        told += [ended(n, 32, 1000.0) for n in range(4, 8)]
        assert asked(told).batch_size in {16, 64}

    def test_who_pins_is_not_stopped(self):
        """And pins a size that is allowed."""
        told = history((32, 100.0), (16, 120.0))
        assert asked(told, pinned=8).stop_above is None
        with pytest.raises(ValueError, match="pinned must be one of batch_sizes"):
            asked(told, pinned=7)

    def test_a_jump_is_another_size(self):
        """Three times the cost: what was before is forgotten at once."""
        told = history((32, 100.0), (16, 120.0), (64, 90.0), (128, 170.0), (8, Status.FAILED))
        told += [ended(n, 64, 90.0) for n in range(6, 16)] + [ended(16, 64, 270.0)]
        arm = next(arm for arm in asked(told).arms if arm.batch_size == 64)
        assert (arm.count, arm.mean) == (1, 270.0)

    def test_ten_thousand_trainings_are_answered_for_at_once(self):
        """The service holds its lock meanwhile: four times as many take some four times as long, and not sixteen."""

        def calls(count: int) -> int:
            return counted(lambda: asked([ended(n, 64, 90.0 + n % 7) for n in range(count)]))[1]

        assert calls(12_000) < 5 * calls(3000)

    @pytest.mark.parametrize("here", ["", "A40"])
    def test_a_training_whose_energy_could_not_be_read_tells_nothing(self, here):
        """0 J at eta 1 is no cost: nobody is ended for more than that, and at eta 0 its seconds count."""
        told = [Trial(1, 32, Status.CONVERGED, 0.0, 5.0), *(Trial(n, s, Status.FAILED, 1.0, 1.0) for n, s in RUINS)]
        assert asked(told, eta=1.0, gpu_model=here).stop_above is None
        assert all(arm.mean is None for arm in asked(told, eta=1.0, gpu_model=here).arms)
        assert asked(told, eta=0.0, gpu_model=here).arms[2].mean == 1500.0

    def test_a_default_that_does_not_fit_is_not_tried_for_ever(self):
        """Not where the next one fails and ends the way, nor where the job moved to a card of less memory."""
        spec = replace(SPEC, default=64)
        told = history((64, Status.OUT_OF_MEMORY), (32, Status.FAILED))
        for number in range(3, 20):
            size = asked(told, spec).batch_size
            state = Status.OUT_OF_MEMORY if size >= 64 else Status.CONVERGED if size == 16 else Status.FAILED
            told.append(ended(number, size, 100.0, state))
        assert [trial.batch_size for trial in told[2:]].count(64) == 0
        assert [trial.batch_size for trial in told[-5:]] == [16] * 5

    def test_what_has_fitted_is_not_given_up_for_once(self):
        """Another process had the memory that night; the second time it is the size that has become too large."""
        told = history((32, 100.0), (16, 120.0), (64, 50.0), (128, 170.0), (8, 260.0), (8, Status.OUT_OF_MEMORY))
        assert all(arm.state == "open" for arm in asked(told).arms)
        told.append(ended(7, 64, 1.0, Status.OUT_OF_MEMORY))
        assert asked(told).batch_size == 64
        told.append(ended(8, 64, 1.0, Status.OUT_OF_MEMORY))
        assert [arm.state for arm in asked(told).arms] == ["open"] * 3 + ["out"] * 2

    def test_what_fits_after_all_is_open_again(self):
        """A person pinned it after the model was made smaller; and a size above it that was out for it, too."""
        told = history((32, 100.0), (64, Status.OUT_OF_MEMORY), (16, 120.0), (64, 50.0))
        assert [arm.state for arm in asked(told).arms] == ["waiting", "open", "open", "open", "waiting"]

    @pytest.mark.parametrize("nights", [3, 4, 6, 8, 15])
    @pytest.mark.parametrize("wrong", [Status.FAILED, Status.LOST])
    def test_nights_with_a_broken_job_spoil_no_size(self, nights, wrong):
        """Whatever was tried in them: once the job is mended the best of all is found."""
        told: list[Trial] = []
        for number in range(1, nights + 60):
            size = asked(told).batch_size
            bad = number <= nights or size == 128
            told.append(ended(number, size, 5.0, wrong) if bad else ended(number, size, COSTS[size]))
        assert [trial.batch_size for trial in told[-10:]].count(64) >= 8

    def test_one_failure_in_many_gives_no_good_size_up(self):
        """50 J, and 150 J in vain once in twenty, are 58 J a training: less than the 100 J of the next."""
        told = history((32, 100.0), (16, 120.0), (64, 50.0), (128, 170.0), (8, Status.FAILED))
        for number in range(6, 206):
            size = asked(told).batch_size
            bad = size == 64 and number % 20 == 0
            cost = 150.0 if bad else 50.0 if size == 64 else COSTS[size]
            told.append(ended(number, size, cost, Status.FAILED if bad else Status.CONVERGED))
        assert [trial.batch_size for trial in told[-100:]].count(64) >= 95
        (mean,) = (arm.mean for arm in asked(told, replace(SPEC, window=None)).arms if arm.batch_size == 64)
        assert mean == pytest.approx(58.0, abs=2.0)

    def test_a_size_that_is_lost_again_and_again_is_left(self):
        """Though it had arrived before: something kills it by now. Two that were killed by chance change nothing."""
        told = history((32, 100.0), (16, 120.0), (64, 50.0), (128, 170.0), (8, Status.FAILED))
        beliefs = []
        for number in range(6, 26):
            found = asked(told)
            beliefs.append(found.arms[3].mean)
            told.append(
                ended(number, found.batch_size, 30.0, Status.LOST if found.batch_size == 64 else told[0].status)
            )
        assert beliefs[:3] == [50.0] * 3
        assert [trial.batch_size for trial in told[-10:]].count(64) == 0

    def test_where_none_fits_that_arrived_on_other_gpus(self):
        """The walk goes on below them, though there is much that was believed."""
        told = [on("V100", n, size) for n, size in enumerate((32, 16, 64, 128), 1)]
        told += [on("A40", 5, 16, Status.OUT_OF_MEMORY)]
        assert asked(told, gpu_model="A40").batch_size == 8

    def test_beside_the_first_of_a_walk_no_size_is_run_that_is_out(self):
        """A default that does not fit is not what the second of two at once runs at."""
        told = [*history((64, Status.OUT_OF_MEMORY)), Trial(2, 32)]
        found = asked(told, replace(SPEC, default=64))
        assert (found.batch_size, found.stage) == (32, Stage.CONCURRENT)
        assert "the best known" not in found.reason

    def test_when_all_are_given_up_one_that_fits_is_run(self):
        """Of a default that does not fit nothing can come."""
        spec = replace(SPEC, batch_sizes=(32, 64), default=64)
        told = history((64, Status.OUT_OF_MEMORY), *[(32, Status.FAILED)] * 5)
        assert asked(told, spec).batch_size == 32

    def test_in_the_paper_only_survivors_are_sampled(self):
        """One that arrived in the first round and not in the second is dropped."""
        told = history((32, 100.0), (16, 90.0), (8, Status.FAILED), (64, Status.FAILED))
        told += [ended(5, 16, 90.0, Status.FAILED), ended(6, 32, 101.0)]
        assert {asked(told, PAPER, number=number).batch_size for number in range(7, 40)} == {32}


def test_a_fault_in_the_code_costs_no_size_its_place():
    """Ten crashes before anything ever arrived say nothing: the default is tried again, and then the others are."""
    told = [Trial(n, 32, Status.LOST) for n in range(1, 11)]
    assert asked(told).batch_size == 32
    told += [ended(11, 32, 100.0)]
    assert asked(told).batch_size != 32
    assert all(arm.state != "out" for arm in asked(told).arms)
