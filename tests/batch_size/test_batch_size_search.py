"""The search for a batch size over recurrences: the paper's algorithms."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trainings import COSTS, PAPER, SIZES, SPEC, asked, ended, history, walk

from zeus_core.batch_size import epoch_cost
from zeus_core.frontier import Frontier, OperatingPoint, Setting
from zeus_core.trials import Stage, Status, Trial, cost_of


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
