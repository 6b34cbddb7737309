"""The search for a batch size over recurrences: the paper's algorithms, and each of upstream's faults."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_core.batch_size import Proposal, Spec, Stage, Status, Trial, cost_of, epoch_cost, propose
from zeus_core.frontier import Frontier, OperatingPoint, Setting

SIZES = (8, 16, 32, 64, 128)
SPEC = Spec(batch_sizes=SIZES, default=32, max_power_w=300.0)
PAPER = replace(SPEC, published=True, window=None)
RUINS = ((2, 16), (3, 64))
COSTS = {8: 260.0, 16: 120.0, 32: 100.0, 64: 90.0, 128: 130.0}


def ended(number: int, size: int, cost: float, status: Status = Status.CONVERGED, **more: object) -> Trial:
    """One whose cost is ``cost`` at eta 1 and at any other."""
    return Trial(number, size, status, joules=cost, seconds=cost / 300.0, **more)


def history(*pairs: tuple[int, float | Status]) -> list[Trial]:
    """Of sizes and their costs, or how they ended badly."""
    return [
        ended(i, size, 150.0, found) if isinstance(found, Status) else ended(i, size, found)
        for i, (size, found) in enumerate(pairs, 1)
    ]


def asked(trials: list[Trial], spec: Spec = SPEC, *, eta: float = 0.5, **more: object) -> Proposal:
    return propose(spec, trials, eta=eta, **more)


def walk(spec: Spec, costs: dict[int, float | Status], count: int) -> list[int]:
    """The sizes of the first trials, each ending as ``costs`` say."""
    trials: list[Trial] = []
    for number in range(1, count + 1):
        size = asked(trials, spec).batch_size
        found = costs[size]
        bad = isinstance(found, Status)
        trials.append(ended(number, size, 150.0 if bad else found, found if bad else Status.CONVERGED))
    return [trial.batch_size for trial in trials]


class TestPruning:
    def test_as_in_the_paper(self):
        """Algorithm 3: the default, down to the first failure, up to the first; again among those that remain, from
        the cheapest of them.
        """
        costs = {**COSTS, 8: Status.FAILED, 128: Status.FAILED}
        assert walk(PAPER, costs, 8) == [32, 16, 8, 64, 128, 64, 32, 16]
        after = history(*((size, costs[size]) for size in (32, 16, 8, 64, 128, 64, 32, 16)))
        assert asked(after, PAPER).stage is Stage.SAMPLING

    def test_ours_goes_where_it_is_cheaper(self):
        """One step each way, and then the better way first: the other need not be gone to its end."""
        assert walk(SPEC, {**COSTS, 16: 170.0}, 4) == [32, 16, 64, 128]
        told = history((32, 100.0), (16, 170.0), (64, 90.0), (128, 130.0))
        assert asked(told).stage is Stage.SAMPLING

    def test_a_default_that_fails(self):
        """The others are tried all the same."""
        assert walk(SPEC, {**COSTS, 32: Status.FAILED}, 4) == [32, 16, 64, 128]

    def test_nothing_works(self):
        """Then it is the default, and the reason says so."""
        told = history((32, Status.FAILED), (16, Status.FAILED), (64, Status.FAILED))
        found = asked(told)
        assert found.batch_size == 32
        assert "no batch size is known to reach the target; this is the default" in found.reason


class TestSampling:
    def test_it_comes_to_the_cheapest(self):
        """Of two hundred recurrences nearly all are at it."""
        trials = history(*((size, COSTS[size]) for size in (32, 16, 64, 128)), (8, Status.FAILED))
        for number in range(6, 206):
            found = asked(trials)
            assert found.stage is Stage.SAMPLING
            trials.append(ended(number, found.batch_size, COSTS[found.batch_size] * (1 + 0.02 * (number % 3 - 1))))
        assert [trial.batch_size for trial in trials[-50:]].count(64) >= 48

    def test_the_belief_is_the_papers(self):
        """Algorithm 2, with a prior: precisions add up."""
        spec = replace(PAPER, prior={64: (80.0, 10.0)})
        told = history((32, 100.0), (16, Status.FAILED), (64, 90.0), (128, Status.FAILED), (64, 94.0), (32, 104.0))
        arm = next(arm for arm in asked(told, spec).arms if arm.batch_size == 64)
        precision = 1 / 100.0 + 2 / 4.0
        assert arm.mean == pytest.approx((80.0 / 100.0 + 184.0 / 4.0) / precision)
        assert arm.sd == pytest.approx(precision**-0.5)

    def test_draws_are_not_correlated(self):
        """Upstream drew each arm from a generator of its own, seeded by the second: all arms had one and the same z."""
        rounds = [(size, cost) for cost in (98.0, 102.0) for size in (32, 16, 64, 128)]
        told = history(*rounds, (8, Status.FAILED), (8, Status.FAILED))
        chosen = {asked(told, PAPER, number=number).batch_size for number in range(11, 80)}
        assert chosen == {16, 32, 64, 128}

    def test_the_same_question_has_the_same_answer(self):
        """Whoever asks, whenever: of the same history, seed and number."""
        told = history((32, 100.0), (16, 101.0), (64, 99.0), (128, 130.0), (8, Status.FAILED))
        assert asked(told) == asked(list(reversed(told)))
        other = [asked(told, replace(SPEC, seed=seed)).batch_size for seed in range(20)]
        assert len({*other}) > 1

    def test_equal_costs_are_not_certain(self):
        """Upstream gave an arm whose costs were equal an infinite precision, and never tried another again."""
        told = history((32, 100.0), (16, 101.0), (8, Status.FAILED), (128, 150.0), *[(64, 100.0)] * 3)
        arm = next(arm for arm in asked(told).arms if arm.batch_size == 64)
        assert arm.sd is not None
        assert arm.sd > 0.0
        assert {asked(told, replace(SPEC, seed=seed)).batch_size for seed in range(200)} > {64}

    def test_of_equals_the_one_of_least_energy(self):
        """On equal cost less energy wins, as among power limits."""
        cost = 100.0

        def of(number: int, size: int, joules: float) -> Trial:
            return Trial(number, size, Status.CONVERGED, joules, (cost - 0.5 * joules) / (0.5 * 300.0))

        trials = [of(n, size, 60.0 if size == 64 else 90.0) for n, size in enumerate((32, 16, 64, 128) * 4, 1)]
        trials.append(Trial(17, 8, Status.FAILED))
        chosen = [asked(trials, number=number).batch_size for number in range(20, 60)]
        assert chosen.count(64) > 20


class TestEta:
    def test_two_etas_over_one_history(self):
        """Speed-first and efficiency-first are two values of eta: outcomes are kept as joules and seconds."""
        trials = [
            Trial(1, 32, Status.CONVERGED, 1000.0, 10.0),
            Trial(2, 16, Status.CONVERGED, 900.0, 14.0),
            Trial(3, 64, Status.CONVERGED, 3000.0, 6.0),
            Trial(4, 8, Status.FAILED, 1500.0, 20.0),
            Trial(5, 128, Status.FAILED, 1500.0, 20.0),
        ]
        speed, frugal = (asked(trials, eta=eta) for eta in (0.0, 1.0))
        assert min(speed.arms, key=lambda arm: arm.mean or math.inf).batch_size == 64
        assert min(frugal.arms, key=lambda arm: arm.mean or math.inf).batch_size == 16

    @given(st.floats(0.0, 1.0), st.floats(1.0, 1e6), st.floats(1.0, 1e6))
    def test_the_cost_lies_between_its_parts(self, eta, joules, seconds):
        """Eq 2: energy at eta 1, the time's worth at eta 0."""
        cost = cost_of(joules, seconds, eta=eta, max_power_w=300.0)
        low, high = sorted((joules, 300.0 * seconds))
        assert low * (1 - 1e-12) <= cost <= high * (1 + 1e-12)

    def test_an_epochs_frontier_makes_the_cost(self):
        """Eqs 5 to 7: epochs times the least of an epoch over the limits, whatever the limits were that it ran at."""
        fast, slow = OperatingPoint(Setting(300.0), 10.0, 2500.0), OperatingPoint(Setting(150.0), 14.0, 1500.0)
        frontier = Frontier.of([fast, slow])
        assert epoch_cost(frontier, eta=1.0, max_power_w=300.0) == (1500.0, 1500.0)
        assert epoch_cost(frontier, eta=0.0, max_power_w=300.0) == (3000.0, 2500.0)
        trial = Trial(1, 32, Status.CONVERGED, joules=1.0, seconds=1.0, epochs=7.0)
        arm = asked([trial], eta=1.0, epochs={32: frontier}).arms[2]
        assert (arm.batch_size, arm.mean) == (32, 7 * 1500.0)

    def test_another_model_of_gpu(self):
        """Its epochs hold here, at what an epoch costs by its frontier (Cost' of papers B.3)."""
        trial = Trial(1, 32, Status.CONVERGED, 1000.0, 10.0, epochs=5.0, gpu_model="V100")
        frontier = Frontier.of([OperatingPoint(Setting(300.0), 10.0, 2000.0)])
        assert asked([trial], gpu_model="A40", eta=1.0, epochs={32: frontier}).arms[2].mean == 10000.0

    @pytest.mark.parametrize("eta", [-0.1, 1.1, math.nan])
    def test_what_is_no_eta(self, eta):
        """Named."""
        with pytest.raises(ValueError, match="eta must be from 0 to 1"):
            asked([], eta=eta)


class TestStops:
    def test_beta_times_the_best(self):
        """In the paper of the cheapest training, in ours of the best size's mean."""
        told = history((32, 100.0), (16, 120.0), (64, 90.0), (128, 300.0), (8, Status.FAILED), (64, 110.0))
        assert asked(told, PAPER).stop_above == pytest.approx(180.0)
        assert asked(told).stop_above == pytest.approx(200.0)

    def test_what_did_not_converge_lowers_no_limit(self):
        """Upstream's failed trials tightened the limit of all others."""
        told = [*history((32, 100.0)), ended(2, 16, 5.0, Status.FAILED), ended(3, 64, 5.0, Status.STOPPED)]
        assert asked(told, PAPER).stop_above == pytest.approx(200.0)

    def test_nobody_is_ended_before_one_has_arrived(self):
        """There is nothing to compare with."""
        assert asked([]).stop_above is None
        assert asked(history((32, Status.FAILED))).stop_above is None

    def test_no_beta_no_end(self):
        """As the owner wishes."""
        assert asked(history((32, 100.0)), replace(SPEC, beta=None)).stop_above is None

    def test_after_two_in_a_row_the_limit_is_lifted(self):
        """The costs have changed: else no training would ever arrive again."""
        told = history((32, 100.0), (16, 120.0), (64, 90.0), (128, 300.0), (64, Status.STOPPED), (64, Status.STOPPED))
        assert asked(told).stop_above is None


class TestFaults:
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


class TestReviewed:
    """What a stranger found wrong with the first version of this search."""

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

        def took(count: int) -> float:
            told = [ended(n, 64, 90.0 + n % 7) for n in range(count)]
            began = time.process_time()
            asked(told)
            return time.process_time() - began

        assert took(12_000) < 10.0 * min(took(3000) for _ in range(3))

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


class TestValues:
    @given(st.sampled_from(list(Status)), st.floats(0, 1e9), st.floats(0, 1e9))
    def test_a_trial_there_and_back(self, status, joules, seconds):
        """Through JSON."""
        trial = Trial(3, 64, status, joules, seconds, 7.0, "V100")
        assert Trial.from_dict(json.loads(json.dumps(trial.to_dict()))) == trial

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("batch_sizes", ()),
            ("batch_sizes", (0, 32)),
            ("default", 48),
            ("max_power_w", 0.0),
            ("max_power_w", math.inf),
            ("beta", 1.0),
            ("window", 0),
            ("prior", {32: (100.0, 0.0)}),
            ("prior", {48: (100.0, 5.0)}),
            ("seed", -1),
        ],
    )
    def test_a_spec_that_means_nothing(self, key, value):
        """Names the key."""
        with pytest.raises(ValueError, match="prior of batch size" if key == "prior" else key):
            replace(SPEC, **{key: value})

    @pytest.mark.parametrize("name", ["joules", "seconds", "epochs"])
    def test_a_trial_that_means_nothing(self, name):
        """As well."""
        with pytest.raises(ValueError, match=f"{name} of a trial"):
            Trial(1, 32, **{name: math.nan})


@given(
    st.lists(st.tuples(st.sampled_from(SIZES), st.sampled_from(list(Status)), st.floats(1.0, 1e4)), max_size=40),
    st.floats(0.0, 1.0),
    st.booleans(),
)
def test_of_any_history_there_is_an_answer(rows, eta, published):
    """An allowed size, never one that is out while another is not, a finite limit, and the same answer again."""
    trials = [Trial(n, size, status, cost, cost / 200.0) for n, (size, status, cost) in enumerate(rows, 1)]
    spec = replace(SPEC, published=published)
    found = asked(trials, spec, eta=eta)
    assert found.batch_size in SIZES
    assert found == asked(trials, spec, eta=eta)
    assert found.stop_above is None or 0.0 < found.stop_above < math.inf
    state = {arm.batch_size: arm.state for arm in found.arms}
    if state[found.batch_size] == "out" and not published:
        assert {*state.values()} == {"out"}


EPOCHS = {8: 3.0, 16: 4.0, 32: 5.0, 64: 7.0, 128: 11.0}


def on(model: str, number: int, size: int, status: Status = Status.CONVERGED, factor: float = 1.0) -> Trial:
    """A training on a model of GPU on which everything takes ``factor`` times as much."""
    epochs = EPOCHS[size] if status is Status.CONVERGED else 2.0
    cost = factor * COSTS[size] * epochs / EPOCHS[size]
    return Trial(number, size, status, cost, cost / 300.0, epochs, model)


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


def test_a_fault_in_the_code_costs_no_size_its_place():
    """Ten crashes before anything ever arrived say nothing: the default is tried again, and then the others are."""
    told = [Trial(n, 32, Status.LOST) for n in range(1, 11)]
    assert asked(told).batch_size == 32
    told += [ended(11, 32, 100.0)]
    assert asked(told).batch_size != 32
    assert all(arm.state != "out" for arm in asked(told).arms)


class TestDraws:
    def test_no_size_is_tried_again_for_the_tail_of_a_bell(self):
        """One that cost five times as much, once, in a job whose costs scatter by a third: never in 500 draws."""
        told = history(*((64, 130.0 if n % 2 else 70.0) for n in range(20)), (32, 500.0), (16, 500.0), (128, 500.0))
        assert {asked(told, number=number).batch_size for number in range(30, 530)} == {64}

    @pytest.mark.parametrize(("eta", "size"), [(0.0, 64), (0.5, 32)])
    def test_at_eta_0_no_time_is_given_for_energy(self, eta, size):
        """One per cent slower at a tenth less energy is the same to most, and not to who asks for speed alone."""
        told = [Trial(n, 64, Status.CONVERGED, 2000.0, 10.0) for n in range(40)]
        told += [Trial(n, 32, Status.CONVERGED, 1940.0, 10.1) for n in range(40)]
        told += history((16, 9e4), (128, 9e4))
        told = [replace(trial, number=n) for n, trial in enumerate(told, 1)]
        found = [asked(told, replace(SPEC, window=None), eta=eta, number=n).batch_size for n in range(900, 950)]
        assert max(set(found), key=found.count) == size
