"""The noise scale as a training measures it: of microbatches, and of ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from forked_ranks import run

torch = pytest.importorskip("torch")

from noise_problem import KNOWN, D, loss_of, model_at  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.data import TensorDataset  # noqa: E402

from zeus_core.goodput import NoiseScale  # noqa: E402
from zeus_core.training.batch_plan import BatchPlan  # noqa: E402
from zeus_core.training.batching import Batching  # noqa: E402
from zeus_core.training.noise_scale import GradientNoise  # noqa: E402
from zeus_core.training.sampling import SampleLoader  # noqa: E402
from zeus_core.training.steps import Steps  # noqa: E402

HERE = Path(__file__).parent


def measured(steps: int, microbatch: int, count: int) -> GradientNoise:
    model, generator = model_at(), torch.Generator().manual_seed(1)
    noise = GradientNoise(model.parameters(), every=1, memory=2000.0)
    for _ in range(steps):
        for _ in range(count):
            (loss_of(model, microbatch, generator) / count).backward()
            noise.micro(microbatch, 1.0 / count)
        noise.step()
        model.zero_grad()
    return noise


def test_of_microbatches():
    """Within a tenth of what it is known to be."""
    noise = measured(800, 8, 4)
    assert noise.scale.value == pytest.approx(KNOWN, rel=0.1)
    assert abs(noise.scale.value - KNOWN) < 3 * noise.scale.error


class Tied(nn.Module):
    """Its last layer is its first, and the one between them of another type."""

    def __init__(self, dtype):
        super().__init__()
        self.inner, self.outer = nn.Linear(6, 6, dtype=dtype), nn.Linear(6, 6, dtype=torch.float64)
        self.last = self.inner

    def forward(self, x):
        x = self.outer(self.inner(x).double())
        return self.last(x.to(self.inner.weight.dtype)).double()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_exactly_the_norms_of_the_microbatches(dtype):
    """As from a backward pass for each of them alone, also where a weight is used twice."""
    torch.manual_seed(3)
    model = Tied(dtype)
    inputs = torch.randn(4, 8, 6, dtype=dtype)
    known = NoiseScale()
    alone = []
    for each in inputs:
        parts = torch.autograd.grad(model(each).square().mean(), list(model.parameters()))
        alone.append(torch.cat([part.flatten().double() for part in parts]))
    alone = torch.stack(alone)
    square_of_mean = alone.mean(dim=0).square().sum()
    known.observe(float(alone.square().sum(dim=1).mean()), float(square_of_mean), microbatch=8, count=4)
    noise = GradientNoise([*model.parameters(), *model.last.parameters()], every=1)
    for each in inputs:
        (model(each).square().mean() / 4).backward()
        noise.micro(8, 0.25)
    assert noise.step()
    tolerance = {torch.float16: 1e-2, torch.bfloat16: 5e-2}.get(dtype, 1e-5)
    assert noise.scale.gradient_square == pytest.approx(known.gradient_square, rel=tolerance)
    assert noise.scale.trace == pytest.approx(known.trace, rel=tolerance)


def test_the_sum_as_well_as_the_mean():
    """A loop that does not divide its losses has m times the gradient, and is told so by the weights."""
    scales = []
    for weight in (0.25, 1.0):
        model, generator = model_at(), torch.Generator().manual_seed(2)
        noise = GradientNoise(model.parameters(), every=1)
        for _ in range(4):
            (loss_of(model, 8, generator) * weight).backward()
            noise.micro(8, weight)
        assert noise.step()
        scales.append(noise.scale)
    assert scales[1].gradient_square == pytest.approx(scales[0].gradient_square, rel=1e-4)
    assert scales[1].trace == pytest.approx(scales[0].trace, rel=1e-4)


def test_half_precision_does_not_overflow():
    """A gradient of 300 fits into half precision, and its square does not."""
    weight = nn.Parameter(torch.ones(1, dtype=torch.float16))
    noise = GradientNoise([weight], every=1)
    for gradient in (300.0, 400.0):
        (weight * gradient).sum().backward()
        noise.micro(1, 1.0)
    assert noise.step()
    assert noise.scale.gradient_square == pytest.approx(300.0 * 400.0, rel=1e-5)
    assert noise.scale.trace == pytest.approx(100.0**2 / 2, rel=1e-2)


def test_complex_parameters():
    """Count as their real and imaginary parts."""
    weight = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    noise = GradientNoise([weight], every=1)
    for gradient in (3.0, 4.0):
        (weight * gradient).abs().sum().backward()
        noise.micro(1, 1.0)
    assert noise.step()
    assert noise.scale.gradient_square == pytest.approx(2 * 3.0 * 4.0)


class Calls(TorchDispatchMode):
    """What reaches the device."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_steps_that_are_not_due_are_as_without_it():
    """To the last call of a kernel, and no hook is left in the graph."""

    def step(noise):
        with Calls() as calls:
            for _ in range(2):
                (loss_of(model, 4, torch.Generator()) / 2).backward()
                if noise is not None:
                    noise.micro(4, 0.5)
            if noise is not None:
                noise.step(lambda: pytest.fail("asked for the loss scale"))
        return calls.names

    model = model_at()
    step(None)  # which makes the gradients that the next ones are added to
    without = step(None)
    noise = GradientNoise(model.parameters(), every=3)
    noise.load_state_dict({"steps": 1, "scale": NoiseScale().to_dict()})
    assert step(noise) == without
    assert step(noise) == without
    with pytest.raises(pytest.fail.Exception):
        step(noise)


def test_what_is_frozen_may_change():
    """Parameters that are unfrozen count from the next measured step on, and frozen ones no more."""
    model = nn.Sequential(nn.Linear(D, 3), nn.Linear(3, 1))
    noise = GradientNoise(model.parameters(), every=1)
    for first, last in ((True, True), (False, True), (True, False), (True, True)):
        model[0].requires_grad_(first)
        model[1].requires_grad_(last)
        noise.load_state_dict({"steps": 0, "scale": NoiseScale().to_dict()})
        generator = torch.Generator().manual_seed(2)
        for _ in range(2):
            (loss_of(model, 8, generator) / 2).backward()
            noise.micro(8, 0.5)
        mean = sum(float(each.grad.square().sum()) for each in model.parameters() if each.requires_grad)
        assert noise.step()
        assert noise.scale.gradient_square + noise.scale.trace / 16 == pytest.approx(mean, rel=1e-4)
        model.zero_grad()


def test_a_gradient_in_parts_is_not_measured():
    """Two backward passes of one microbatch, or one that was broken off: the norm of their sum is not known."""
    model, generator = model_at(), torch.Generator().manual_seed(1)
    noise = GradientNoise(model.parameters(), every=1)
    for _ in range(2):
        (loss_of(model, 4, generator) / 2).backward()
        (loss_of(model, 4, generator) / 2).backward()
        noise.micro(4, 0.5)
    assert not noise.step()
    assert "came in parts" in noise.why
    for _ in range(2):
        (loss_of(model, 4, generator) / 2).backward()
        noise.micro(4, 0.5)
    assert noise.step()
    assert noise.why is None


@pytest.mark.parametrize("micros", [0, 2])
def test_a_step_without_gradients_is_not_measured(micros):
    """And nothing is raised into the training."""
    noise = GradientNoise(model_at().parameters(), every=1)
    for _ in range(micros):
        noise.micro(4, 0.5)
    assert not noise.step()
    assert "not at all" in noise.why


def test_with_steps_that_change_their_microbatch():
    """The global batch stays, and so does what is measured; the uneven end of an epoch is left out."""
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(4 * 64 + 24, D, generator=generator)
    dataset = TensorDataset(x, torch.randn(len(x), 1, generator=generator))
    model = model_at()
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    plan = BatchPlan(global_batch=64, microbatch=8, microbatches=(8, 16), boundary="accumulation")
    batching = Batching(plan, optimizer)
    loader = SampleLoader(dataset, chunk=16, seed=0)
    noise = GradientNoise(model.parameters(), every=1)
    told = []
    for step in Steps(batching, loader):
        with step:
            for micro in step:
                inputs, labels = micro.data
                ((0.5 * (model(inputs) - labels).square().mean()) * micro.weight).backward()
                noise.micro(micro.samples, micro.weight)
            told.append((len(step), noise.step()))
            optimizer.step()
            optimizer.zero_grad()
        batching.request(16)
    assert told == [(8, True), (4, True), (4, True), (4, True), (2, False)]
    assert noise.scale.value == pytest.approx(KNOWN, rel=0.9)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_model():
    """Measures the same."""
    values = []
    for compiled in (False, True):
        model, generator = model_at(), torch.Generator().manual_seed(1)
        run = torch.compile(model, backend="aot_eager") if compiled else model
        noise = GradientNoise(model.parameters(), every=2)
        for _ in range(4):
            x = torch.randn(2, 4, D, generator=generator)
            for each in x:
                (run(each).square().mean() / 2).backward()
                noise.micro(4, 0.5)
            noise.step()
            model.zero_grad()
        values.append(noise.scale.value)
    assert noise.scale.steps == 2
    assert values[1] == pytest.approx(values[0], rel=1e-4)


@pytest.mark.parametrize(
    ("bad", "match"), [({"parameters": []}, "no parameters"), ({"every": 0}, "at least 1"), ({"memory": 0}, "memory")]
)
def test_what_cannot_be_measured(bad, match):
    """Is said at once."""
    with pytest.raises(ValueError, match=match):
        GradientNoise(**{"parameters": model_at().parameters(), **bad})


def test_only_each_so_many_th_step():
    """The others cost a comparison."""
    model, generator = model_at(), torch.Generator().manual_seed(1)
    noise = GradientNoise(model.parameters(), every=5)
    told = []
    for _ in range(11):
        for _ in range(2):
            (loss_of(model, 4, generator) / 2).backward()
            noise.micro(4, 0.5)
        told.append(noise.step())
        model.zero_grad()
    assert [i for i, measured_ in enumerate(told) if measured_] == [0, 5, 10]


def test_an_uneven_step_is_not_measured():
    """The last of an epoch; and neither is one of a single microbatch."""
    model, generator = model_at(), torch.Generator().manual_seed(1)
    noise = GradientNoise(model.parameters(), every=1)
    for size in (4, 3):
        loss_of(model, size, generator).backward()
        noise.micro(size, size / 7)
    assert not noise.step()
    loss_of(model, 4, generator).backward()
    noise.micro(4, 1.0)
    assert not noise.step()
    assert noise.scale.steps == 0


def test_mixed_precisions_scale_is_divided_out():
    """The noise scale does not know of it."""
    models = model_at(), model_at()
    plain, scaled = (GradientNoise(model.parameters(), every=1) for model in models)
    for model, noise, factor in zip(models, (plain, scaled), (1.0, 1024.0), strict=True):
        generator = torch.Generator().manual_seed(2)
        for _ in range(4):
            (loss_of(model, 8, generator) / 4 * factor).backward()
            noise.micro(8, 0.25)
        noise.step(loss_scale=factor)
    assert scaled.scale.trace == pytest.approx(plain.scale.trace, rel=1e-5)


def test_overflow_sparse_and_missing_gradients():
    """Infinite ones are left out, sparse ones counted, and parameters without any are none of its business."""
    table, unused = torch.nn.Embedding(10, 4, sparse=True), torch.nn.Linear(3, 3)
    noise = GradientNoise([*table.parameters(), *unused.parameters()], every=1)
    for rows in ([1, 1, 2], [2, 3, 3]):
        table(torch.tensor(rows)).sum().div(2).backward()
        noise.micro(3, 0.5)
    assert noise.step()
    table.zero_grad()
    for _ in range(2):
        (table(torch.tensor([1, 2, 3])).sum() * float("inf")).backward()
        noise.micro(3, 0.5)
    assert not noise.step()
    assert (noise.scale.skipped, noise.why) == (1, "its gradients were not finite")


def test_it_is_checkpointed_and_taken_away():
    """Both leave the training as it was."""
    noise = measured(20, 8, 4)
    again = GradientNoise(model_at().parameters(), every=1)
    again.load_state_dict(noise.state_dict())
    assert again.scale == noise.scale
    model = model_at()
    noise = GradientNoise(model.parameters(), every=1)
    noise.remove()
    loss_of(model, 4, torch.Generator().manual_seed(1)).backward()
    noise.micro(4, 1.0)
    assert not noise.step()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of four ranks saw in each scenario of noise_ranks.py."""
    return run(HERE / "noise_ranks.py", tmp_path_factory.mktemp("ranks"))[1]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["one", "accumulated"])
def test_of_ranks(ranks, scenario):
    """From what each had before the gradients were averaged, and all have the same."""
    assert {rank[scenario]["value"] for rank in ranks} == {ranks[0][scenario]["value"]}
    assert ranks[0][scenario]["value"] == pytest.approx(KNOWN, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "why"), [("uneven", "of one size"), ("not averaged", "were not averaged yet")])
def test_ranks_refuse_together(ranks, scenario, why):
    """What one of them cannot measure, and gradients that the ranks do not share."""
    assert all(rank[scenario]["value"] is None and why in rank[scenario]["why"] for rank in ranks)


@pytest.mark.slow
def test_a_group_of_ranks_is_by_itself(ranks):
    """Two that had the same samples saw no noise, and the others nothing."""
    assert [rank.get("group", {}).get("value") for rank in ranks] == [0.0, 0.0, None, None]


@pytest.mark.slow
def test_what_it_costs_is_printed():
    """What docs/training.md quotes comes from benchmarks/noise_cost.py."""
    done = subprocess.run(
        [sys.executable, "-W", "error", HERE.parents[1] / "benchmarks/noise_cost.py", "5"],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == ["without", "not measured", "measured"]
