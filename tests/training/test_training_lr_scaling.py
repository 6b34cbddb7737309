"""The learning rate when the global batch changes: which rule, through any scheduler, and once only."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch import optim  # noqa: E402
from torch.optim import lr_scheduler  # noqa: E402

from zeus_core.training.lr_scaling import RateScale, SampleSchedule, rate_factor, rule_for  # noqa: E402

RATE = 0.1


def optimizer_of(kind=optim.SGD, rate=RATE, **options):
    groups = [
        {"params": [torch.nn.Parameter(torch.ones(2))]},
        {"params": [torch.nn.Parameter(torch.ones(2))], "lr": 0.02},
    ]
    made = kind(groups, lr=rate, **options)
    for group in made.param_groups:
        group["params"][0].grad = torch.ones(2)
    return made


def moved(optimizer):
    """How far plain SGD moves each group in one step: the rates that were really used."""
    before = [group["params"][0].detach().clone() for group in optimizer.param_groups]
    optimizer.step()
    return [
        float((old - group["params"][0].detach())[0]) for old, group in zip(before, optimizer.param_groups, strict=True)
    ]


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "Adadelta", "Adagrad", "Adamax", "RMSprop", "NAdam", "RAdam"])
def test_optimizers_that_divide_by_the_gradients_size_follow_the_root(kind):
    """Adam and its kin are scaled by the square root of the ratio."""
    assert rule_for(optimizer_of(getattr(optim, kind))) == "sqrt"


def test_sgd_follows_the_ratio_and_others_nothing_unless_named():
    """SGD is linear; an optimizer that nobody knows is refused by name, and takes the rule that is named."""
    assert rule_for(optimizer_of()) == "linear"
    unknown = optim.LBFGS([torch.nn.Parameter(torch.ones(2))])
    with pytest.raises(ValueError, match=r"known for LBFGS: name one \(rate_rule='sqrt' or 'linear'\)"):
        rule_for(unknown)
    assert rule_for(unknown, "sqrt") == "sqrt"
    assert rule_for(optimizer_of(), "sqrt") == "sqrt"


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6), st.floats(1e-3, 1e6))
def test_factors_of_two_changes_multiply(one, two, three):
    """Going by a third size comes to the same, and there and back to 1."""
    for rule in ("sqrt", "linear"):
        by_way = rate_factor(rule, one, two) * rate_factor(rule, two, three)
        assert by_way == pytest.approx(rate_factor(rule, one, three), rel=1e-12)
        assert rate_factor(rule, one, two) * rate_factor(rule, two, one) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(("before", "after"), [(0, 8), (8, 0), (8, float("nan")), (8, float("inf")), (-8, 8)])
def test_no_ratio_no_factor(before, after):
    """What is not finite and positive is refused before any rate is touched."""
    with pytest.raises(ValueError, match="must be finite and positive"):
        rate_factor("linear", before, after)


@pytest.mark.parametrize("factor", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_is_never_multiplied_by_nonsense(factor):
    """A factor that is not finite and positive is refused."""
    with pytest.raises(ValueError, match="factor on a learning rate"):
        RateScale(optimizer_of()).aim(factor, 0)


@pytest.mark.parametrize("rate", [RATE, torch.tensor(RATE)], ids=["number", "tensor"])
def test_every_group_is_scaled_in_the_step_and_as_before_after_it(rate):
    """All groups move by their own rate times the factor; outside of the step the rates are the schedule's."""
    optimizer = optimizer_of(rate=rate)
    scale = RateScale(optimizer)
    scale.aim(3, warmup_steps=0)
    assert moved(optimizer) == pytest.approx([0.3, 0.06])
    assert [float(group["lr"]) for group in optimizer.param_groups] == pytest.approx([0.1, 0.02])
    assert optimizer.param_groups[0]["lr"] is rate


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop])
def test_a_tensor_that_is_the_rate_of_several_groups_is_scaled_once(kind):
    """Groups without a rate of their own have one tensor together: the steps are those of the rate as a number."""
    as_tensor, as_number = (
        kind([{"params": [torch.nn.Parameter(torch.ones(2))]} for _ in range(3)], lr=rate)
        for rate in (torch.tensor(RATE), RATE)
    )
    assert as_tensor.param_groups[0]["lr"] is as_tensor.param_groups[2]["lr"]
    for each in (as_tensor, as_number):
        RateScale(each).aim(2, warmup_steps=0)
        for group in each.param_groups:
            group["params"][0].grad = torch.ones(2)
    for _ in range(4):
        assert moved(as_tensor) == pytest.approx(moved(as_number), rel=1e-4)
        assert [float(group["lr"]) for group in as_tensor.param_groups] == pytest.approx([RATE] * 3)


def test_a_rise_is_warmed_up_and_a_fall_is_not():
    """Growing takes the steps that were said, from wherever the factor was; shrinking is at once."""
    optimizer = optimizer_of()
    scale = RateScale(optimizer)
    scale.aim(5, warmup_steps=4)
    assert [moved(optimizer)[0] for _ in range(3)] == pytest.approx([0.2, 0.3, 0.4])
    scale.aim(8, warmup_steps=2)
    assert [moved(optimizer)[0] for _ in range(3)] == pytest.approx([0.6, 0.8, 0.8], rel=1e-5)
    scale.aim(0.5, warmup_steps=9)
    assert moved(optimizer)[0] == pytest.approx(0.05, rel=1e-5)
    assert scale.factor == 0.5


def test_a_step_that_failed_leaves_no_factor_behind():
    """The rate is put back before it is scaled again."""

    class Failing(optim.SGD):
        def step(self, closure=None):
            if self.param_groups[0]["params"][0].grad is None:
                raise ArithmeticError
            return super().step(closure)

    optimizer = optimizer_of(Failing)
    RateScale(optimizer).aim(2, warmup_steps=0)
    parameter = optimizer.param_groups[0]["params"][0]
    parameter.grad, grad = None, parameter.grad
    with pytest.raises(ArithmeticError):
        optimizer.step()
    parameter.grad = grad
    assert moved(optimizer) == pytest.approx([0.2, 0.04])
    assert optimizer.param_groups[0]["lr"] == RATE


SCHEDULERS = {
    "LambdaLR": lambda each: lr_scheduler.LambdaLR(each, lambda step: 0.9**step),
    "StepLR": lambda each: lr_scheduler.StepLR(each, 3, 0.5),
    "CosineAnnealingLR": lambda each: lr_scheduler.CosineAnnealingLR(each, 8, eta_min=0.01),
    "OneCycleLR": lambda each: lr_scheduler.OneCycleLR(each, 0.3, total_steps=20, cycle_momentum=False),
    "SequentialLR": lambda each: lr_scheduler.SequentialLR(
        each, [lr_scheduler.LinearLR(each, 0.1, total_iters=3), lr_scheduler.ExponentialLR(each, 0.8)], [3]
    ),
}


@pytest.mark.parametrize("kind", SCHEDULERS)
def test_no_scheduler_undoes_or_compounds_the_factor(kind):
    """Whether it computes from its base rates or from the group's own, every step moves by schedule times factor."""
    ours, plain = optimizer_of(), optimizer_of()
    schedules = [SCHEDULERS[kind](each) for each in (ours, plain)]
    scale = RateScale(ours)
    for step in range(12):
        if step in {2, 7}:
            scale.aim(step, warmup_steps=0)
        factor = scale.factor
        assert moved(ours) == pytest.approx([factor * rate for rate in moved(plain)], rel=1e-4)
        for schedule in schedules:
            schedule.step()
        assert [group["lr"] for group in ours.param_groups] == [group["lr"] for group in plain.param_groups]


def test_resuming_does_not_scale_twice():
    """From a checkpoint midway through the warm-up the rates go on as if nothing had been."""
    straight = optimizer_of()
    scale = RateScale(straight)
    scale.aim(5, warmup_steps=4)
    states, expected = [], []
    for _ in range(6):
        states.append(copy.deepcopy((straight.state_dict(), scale.state_dict())))
        expected.append(moved(straight)[0])
    for at, (optimizer_state, scale_state) in enumerate(states):
        resumed = optimizer_of()
        again = RateScale(resumed)
        resumed.load_state_dict(optimizer_state)
        again.load_state_dict(scale_state)
        assert [moved(resumed)[0] for _ in range(6 - at)] == pytest.approx(expected[at:], rel=1e-5)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40), st.integers(1, 100))
def test_a_schedule_in_samples_is_as_long_at_any_batch_size(steps, samples_per_step):
    """After any steps of any sizes the scheduler is where those samples put it."""
    optimizer = optimizer_of()
    scheduler = lr_scheduler.StepLR(optimizer, 1_000_000)
    schedule = SampleSchedule(scheduler, samples_per_step)
    optimizer.step()
    for samples in steps:
        schedule.advance(samples)
        assert scheduler.last_epoch == schedule.samples // samples_per_step
    assert schedule.samples == sum(steps)


def test_a_schedule_goes_on_from_its_checkpoint_and_in_its_own_steps():
    """A remainder of samples is not lost on resume, and a schedule in other steps is refused."""
    optimizer = optimizer_of()
    scheduler = lr_scheduler.StepLR(optimizer, 100)
    schedule = SampleSchedule(scheduler, 10)
    optimizer.step()
    schedule.advance(19)
    resumed = SampleSchedule(scheduler, 10)
    resumed.load_state_dict(schedule.state_dict())
    resumed.advance(1)
    assert scheduler.last_epoch == 2
    with pytest.raises(ValueError, match="samples_per_step was 10 in the checkpoint and is 20"):
        SampleSchedule(scheduler, 20).load_state_dict(schedule.state_dict())
    with pytest.raises(TypeError, match="goes by a metric, not by samples"):
        SampleSchedule(lr_scheduler.ReduceLROnPlateau(optimizer), 10)
    with pytest.raises(ValueError, match="samples_per_step must be a whole number of at least 1, not 0"):
        SampleSchedule(scheduler, 0)
