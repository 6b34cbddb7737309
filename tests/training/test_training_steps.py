"""One process that trains while its batch size changes: the same weights, no sample lost, and memory that runs out."""

from __future__ import annotations

import copy
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.utils.data import TensorDataset  # noqa: E402
from training_problems import Images, Letters, largest_difference, one_thread, train_as_ever  # noqa: E402

from zeus_core.training.batch_plan import BatchPlan  # noqa: E402
from zeus_core.training.batching import Batching  # noqa: E402
from zeus_core.training.sampling import SampleLoader  # noqa: E402
from zeus_core.training.steps import Steps, is_out_of_memory  # noqa: E402

SIZES = (4, 6, 8, 12, 24)
OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, 0.05, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, 3e-3),
}


@pytest.fixture(autouse=True)
def _one_thread():
    with one_thread():
        yield


class Run:
    """A training that is under way, with all that it told: changes, sizes out, and the samples of each step."""

    def __init__(self, model, optimizer, dataset, *, boundary="accumulation", sizes=SIZES, microbatch=8, **changed):
        self.model, self.optimizer = model, optimizer
        plan = BatchPlan(24, microbatch, sizes, boundary, **changed)
        self.changes, self.told_out, self.samples = [], [], []
        self.batching = Batching(plan, optimizer, on_change=self.changes.append, on_out=self.told_out.append)
        self.loader = SampleLoader(dataset, chunk=max(sizes))
        self.steps = Steps(self.batching, self.loader)
        self.fits = max(sizes)

    def epoch(self, before_step=lambda step: None, after_step=lambda step: None):
        for step in self.steps:
            before_step(step)
            with step:
                self.do(step)
            if not step.failed:
                self.samples.append(step.samples)
            after_step(step)

    def do(self, step):
        for micro in step:
            if len(micro.data[0]) > self.fits:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
            (self.model.loss(*micro.data) * micro.weight).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def images_run(length=75, **changed):
    model = Images()
    return Run(model, OPTIMIZERS["SGD"](model.parameters()), Images.dataset(length), **changed)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("problem", [Images, Letters])
def test_the_weights_are_those_of_a_run_that_never_changed(problem, optimizer):
    """With the global batch kept, changes midway leave weights, steps and schedule as they are, uneven ends too."""
    ours, theirs, dataset = problem(), problem(), problem.dataset(130)
    run = Run(ours, OPTIMIZERS[optimizer](ours.parameters()), dataset)
    plain = OPTIMIZERS[optimizer](theirs.parameters())
    schedules = [torch.optim.lr_scheduler.CosineAnnealingLR(each, 24) for each in (run.optimizer, plain)]
    wishes = random.Random(7)
    for _ in range(4):
        run.epoch(lambda _: run.batching.request(wishes.choice(SIZES)), lambda _: schedules[0].step())
    train_as_ever(theirs, plain, dataset, global_batch=24, epochs=4, after_step=lambda _: schedules[1].step())
    assert run.samples == [24, 24, 24, 24, 24, 10] * 4
    assert run.batching.steps == schedules[1].last_epoch == 24
    assert schedules[0].get_last_lr() == schedules[1].get_last_lr()
    assert len({change.microbatch for change in run.changes}) == len(SIZES)
    assert largest_difference(ours, theirs) < 1e-5
    assert largest_difference(ours, problem()) > 1e-2


@given(st.integers(1, 90), st.sampled_from(SIZES), st.integers(0, 3))
def test_a_mean_over_the_global_batch_is_over_samples(length, microbatch, seed):
    """Each sample counts the same, however uneven the last batch of an epoch and its microbatches are."""
    weight = torch.nn.Parameter(torch.zeros(()))
    values = torch.randn(length, generator=torch.Generator().manual_seed(seed))
    batching = Batching(BatchPlan(24, microbatch, SIZES), torch.optim.SGD([weight], 1.0))
    steps = Steps(batching, SampleLoader(TensorDataset(values), chunk=24, shuffle=False))
    at = 0
    for step in steps:
        with step:
            micros = list(step)
            assert len(micros) == len(step)
            assert sum(micro.samples for micro in micros) == step.samples
            mean = sum(float(micro.data[0].mean()) * micro.weight for micro in micros)
        assert mean == pytest.approx(float(values[at : at + step.samples].mean()), abs=1e-6)
        at += step.samples
    assert at == length


def test_a_wish_waits_for_an_epoch_to_begin():
    """With the boundary `epoch` nothing changes midway; the latest wish counts."""
    run = images_run(boundary="epoch")
    run.epoch(lambda step: run.batching.request(24 if step.samples == 24 else 12))
    assert run.changes == []
    run.epoch()
    (change,) = run.changes
    assert (change.step, change.before, change.microbatch, change.accumulation, change.global_batch) == (
        4,
        8,
        12,
        2,
        24,
    )


def test_a_wish_waits_for_a_checkpoint():
    """With the boundary `checkpoint` it is applied in the step after one, and after a resume."""
    run = images_run(boundary="checkpoint")
    run.batching.request(12)
    run.epoch(after_step=lambda _: run.batching.checkpointed() if run.batching.steps == 2 else None)
    assert [(change.step, change.microbatch) for change in run.changes] == [(2, 12)]
    resumed = images_run(boundary="checkpoint")
    resumed.steps.load_state_dict(run.steps.state_dict())
    resumed.batching.request(6)
    resumed.epoch()
    assert [(change.step, change.before, change.microbatch) for change in resumed.changes] == [(4, 12, 6)]


def test_a_size_that_was_not_declared_is_refused():
    """The wish is refused where it is made, with the sizes that there are."""
    with pytest.raises(ValueError, match=r"microbatch 7 is none of the declared ones, \[4, 6, 8, 12, 24\]"):
        images_run().batching.request(7)


@pytest.mark.parametrize(
    ("fits", "changes", "out"), [(4, [6, 4], [8, 12, 24, 6]), (6, [6], [8, 12, 24]), (12, [24, 8], [24])]
)
def test_out_of_memory_does_the_batch_again_at_the_last_good_size(fits, changes, out):
    """That size and larger ones are out for good, no sample is lost or repeated, and the weights are as ever."""
    run, plain = images_run(), images_run()
    run.epoch()
    run.fits = fits
    for _ in range(2):
        run.epoch(lambda _: run.batching.request(24))
    train_as_ever(plain.model, plain.optimizer, run.loader.dataset, global_batch=24, epochs=3)
    assert run.samples == [24, 24, 24, 3] * 3
    assert ([change.microbatch for change in run.changes], run.told_out) == (changes, out)
    assert largest_difference(run.model, plain.model) < 1e-5


def test_the_end_of_an_epoch_shows_of_no_size_that_it_fits():
    """A step with less than a whole microbatch does not make a size a good one."""
    run = images_run()
    run.epoch(lambda step: run.batching.request(24 if run.batching.steps == 2 else 8))
    assert [(change.step, change.microbatch) for change in run.changes] == [(3, 24)]
    assert (run.batching.good, run.batching.tried) == ((8,), False)


def test_a_size_that_is_out_stays_out_after_a_resume():
    """The checkpoint knows it, so that it is not tried again."""
    run = images_run()
    run.fits = 8
    run.batching.request(12)
    run.epoch()
    assert run.batching.out == {12, 24}
    resumed = images_run()
    resumed.steps.load_state_dict(copy.deepcopy(run.steps.state_dict()))
    resumed.batching.request(24)
    resumed.epoch()
    assert (resumed.changes, resumed.batching.microbatch) == ([], 8)


def test_a_size_that_fitted_elsewhere_is_tried_again_after_a_resume():
    """The GPU that it goes on with may have less memory; of sizes to fall back to it is still the good one."""
    run = images_run()
    run.epoch()
    assert run.batching.tried
    resumed = images_run()
    resumed.steps.load_state_dict(copy.deepcopy(run.steps.state_dict()))
    assert (resumed.batching.good, resumed.batching.tried) == ((8,), False)
    resumed.epoch()
    assert resumed.batching.tried


def test_the_smallest_size_that_does_not_fit_ends_the_training():
    """With nothing smaller to go to the error is the caller's."""
    run = images_run()
    run.fits = 3
    with pytest.raises(torch.OutOfMemoryError):
        run.epoch()
    assert (run.batching.microbatch, run.batching.steps, run.samples) == (4, 0, [])


def test_memory_that_runs_out_in_the_optimizer_is_not_tried_again():
    """Weights may have changed by then: doing the step again would count it twice."""
    run = images_run()

    class Half(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            raise torch.OutOfMemoryError("CUDA out of memory")

    run = Run(run.model, Half(run.model.parameters(), 0.1), Images.dataset(48))
    with pytest.raises(torch.OutOfMemoryError) as caught:
        run.epoch()
    assert "had begun to change the weights" in caught.value.__notes__[0]
    assert (run.batching.out, run.loader.position) == (frozenset(), 0)


def test_real_allocations_that_fail_are_known():
    """What the host's allocator raises is known by its text, and no other error is taken for it."""
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 50)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("any"))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_out_of_memory(ValueError("DefaultCPUAllocator: can't allocate memory"))


def test_any_other_error_is_the_callers_and_counts_nothing():
    """A step that fails for another reason is not counted, and the next loop begins with its samples."""
    run = images_run()

    def fail(step):
        if run.batching.steps == 1:
            raise KeyError("a bug")

    with pytest.raises(KeyError):
        run.epoch(fail)
    assert (run.batching.steps, run.loader.position) == (1, 24)
    run.epoch()
    assert run.samples == [24, 24, 24, 3]


def test_a_step_left_midway_is_not_counted():
    """After a `break` among the microbatches the step is there again; going on without it is an error."""
    run = images_run()
    steps = iter(run.steps)
    with next(steps) as step:
        for _ in step:
            break
    with pytest.raises(RuntimeError, match="after its last microbatch"):
        next(steps)
    assert (run.batching.steps, run.loader.position) == (0, 0)
    run.optimizer.zero_grad()
    run.epoch()
    assert run.samples == [24, 24, 24, 3]


def test_a_changed_plan_is_refused_on_resume():
    """What differs is said, with what it was and what it is."""
    state = images_run().steps.state_dict()
    other = images_run(sizes=(4, 8), boundary="epoch")
    with pytest.raises(
        ValueError, match=r"another batch plan: microbatches was \[4, 6, 8, 12, 24\] and is \[4, 8\]; bou"
    ):
        other.steps.load_state_dict(state)


def test_ranks_without_an_agreement_are_refused():
    """Several ranks need one, and the loader must be for as many."""
    model = Images()
    plan, optimizer = BatchPlan(24, 8, (8,)), OPTIMIZERS["SGD"](model.parameters())
    with pytest.raises(ValueError, match="3 ranks need an agreement of as many"):
        Batching(plan, optimizer, world=3)
    with pytest.raises(ValueError, match="for 1 ranks and the loader for 2"):
        Steps(Batching(plan, optimizer), SampleLoader(Images.dataset(8), chunk=8, world=2))


@pytest.mark.parametrize(("kind", "rule"), [("SGD", "linear"), ("AdamW", "sqrt")])
def test_without_the_global_batch_the_rate_follows_it(kind, rule):
    """The global batch grows with the microbatch and the rate by the optimizer's rule, over the warm-up's steps."""
    model = Images()
    optimizer = OPTIMIZERS[kind](model.parameters())
    run = Run(model, optimizer, Images.dataset(600), microbatch=6, keep_global_batch=False, warmup_steps=4)
    rate, seen = optimizer.param_groups[0]["lr"], []
    optimizer.register_step_pre_hook(lambda optimizer, *_: seen.append(optimizer.param_groups[0]["lr"] / rate))
    run.epoch(lambda _: run.batching.request(24 if run.batching.steps >= 1 else 6))
    full = 4 if rule == "linear" else 2
    assert seen[:6] == pytest.approx([1, 1, *(1 + (full - 1) * share for share in (0.25, 0.5, 0.75, 1))])
    assert seen[-1] == pytest.approx(full)
    assert optimizer.param_groups[0]["lr"] == rate
    assert run.samples[-2] == 96
    assert sum(run.samples) == 600


@pytest.mark.parametrize("keep", [False, True])
def test_the_rate_of_a_training_before_is_left_with_it(keep):
    """A second training with the same optimizer begins at the schedule's rates, whichever plan either has."""
    model = Images()
    optimizer = OPTIMIZERS["SGD"](model.parameters())
    growing = {"microbatch": 6, "keep_global_batch": False, "warmup_steps": 0}
    first = Run(model, optimizer, Images.dataset(600), **growing)
    first.epoch(lambda _: first.batching.request(24))
    assert first.batching.rate.factor == 4
    rate, seen = optimizer.param_groups[0]["lr"], []
    second = Run(model, optimizer, Images.dataset(96), **({} if keep else growing))
    optimizer.register_step_pre_hook(lambda optimizer, *_: seen.append(optimizer.param_groups[0]["lr"] / rate))
    second.epoch()
    assert seen == [1.0] * 4
    assert optimizer.param_groups[0]["lr"] == rate
