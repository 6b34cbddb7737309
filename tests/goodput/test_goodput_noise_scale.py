"""The noise scale on a problem of which it is known, and what follows for time and energy."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_core.frontier import Frontier, OperatingPoint, Setting, Window
from zeus_core.goodput import NoiseScale, efficiency, in_progress

D, DELTA, SIGMA = 20, 1.0, 1.0
# Linear regression, y = x w* + e with x ~ N(0, I_d), e ~ N(0, sigma^2), loss (x w - y)^2 / 2, at w* + delta: a sample's
# gradient is x (x delta - e), whose mean is delta, and E |g|^2 = (d + 2) |delta|^2 + d sigma^2.
KNOWN = (D + 1) + D * SIGMA**2 / DELTA**2


def gradients(rng: np.random.Generator, samples: int) -> np.ndarray:
    delta = np.zeros(D)
    delta[0] = DELTA
    x, e = rng.standard_normal((samples, D)), SIGMA * rng.standard_normal(samples)
    return x * (x @ delta - e)[:, None]


def observe(scale: NoiseScale, means: np.ndarray, microbatch: int) -> None:
    """A step of the ``means`` of its microbatches' gradients."""
    mean_square, square_of_mean = (means**2).sum(axis=1).mean(), (means.mean(axis=0) ** 2).sum()
    assert scale.observe(float(mean_square), float(square_of_mean), microbatch=microbatch, count=len(means))


def observed(scale: NoiseScale, steps: int, microbatch: int, count: int, *, factor=1.0, seed=3) -> NoiseScale:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        means = factor * gradients(rng, microbatch * count).reshape(count, microbatch, D).mean(axis=1)
        observe(scale, means, microbatch)
    return scale


class TestKnown:
    @pytest.mark.parametrize(("microbatch", "count"), [(8, 4), (16, 2), (4, 16), (32, 8)])
    def test_within_a_tenth(self, microbatch, count):
        """Whatever the microbatches are."""
        scale = observed(NoiseScale(2000.0), 4000, microbatch, count)
        assert scale.value == pytest.approx(KNOWN, rel=0.1)
        assert scale.gradient_square == pytest.approx(DELTA**2, rel=0.1)
        assert scale.trace == pytest.approx(KNOWN * DELTA**2, rel=0.1)

    def test_a_scaled_loss_is_the_same_problem(self):
        """The noise scale has no unit but samples."""
        one, other = (observed(NoiseScale(100.0), 200, 8, 4, factor=factor).value for factor in (1.0, 1000.0))
        assert one == pytest.approx(other)

    def test_the_first_steps_have_no_bias(self):
        """A moving average that begins at nothing is corrected for that."""
        many = [observed(NoiseScale(1000.0), 1, 8, 4).trace]
        rng = np.random.default_rng(5)
        for _ in range(3000):
            scale = NoiseScale(1000.0)
            observe(scale, gradients(rng, 32).reshape(4, 8, D).mean(axis=1), 8)
            many.append(scale.trace)
        assert np.mean(many) == pytest.approx(KNOWN, rel=0.05)

    def test_its_error_is_what_it_says(self):
        """The true one lies within two standard errors in about 95 of 100 trainings, and outside in some."""
        scales = [observed(NoiseScale(300.0), 150, 8, 4, seed=seed) for seed in range(100)]
        inside = sum(abs(scale.value - KNOWN) <= 2 * scale.error for scale in scales)
        assert 88 <= inside <= 99
        spread = np.std([scale.value for scale in scales])
        assert np.mean([scale.error for scale in scales]) == pytest.approx(spread, rel=0.35)

    def test_it_follows_a_training(self):
        """Steps long ago are forgotten."""
        scale = observed(NoiseScale(50.0), 400, 8, 4)
        rng = np.random.default_rng(4)
        for _ in range(400):  # the same noise, a tenth of the gradient
            mean = rng.standard_normal(D) / 100
            parts = mean + rng.standard_normal((4, D))
            observe(scale, parts, 8)
        assert scale.value > 20 * KNOWN


@given(
    st.integers(2, 6).flatmap(
        lambda m: st.lists(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3), min_size=m, max_size=m)
    ),
    st.integers(1, 64),
)
def test_each_step_is_the_mean_over_pairs_and_the_sample_variance(parts, microbatch):
    """Which have no bias whatever the distribution is, and of a step's norms alone."""
    parts = np.array(parts)
    count = len(parts)
    scale = NoiseScale()
    observe(scale, parts, microbatch)
    pairs = [parts[i] @ parts[j] for i in range(count) for j in range(i)]
    size = float((parts**2).sum()) + 1e-300
    assert scale.gradient_square == pytest.approx(np.mean(pairs), abs=1e-9 * size)
    assert scale.trace == pytest.approx(microbatch * parts.var(axis=0, ddof=1).sum(), abs=1e-9 * size * microbatch)


@given(st.floats(1e-3, 1e3), st.floats(0, 10), st.floats(0.1, 100))
def test_neither_the_losses_unit_nor_the_samples_name_matters(factor, noise, mean):
    """Ten times the loss is the same noise scale; samples counted by the dozen are a twelfth of it."""
    one, other, dozens = NoiseScale(), NoiseScale(), NoiseScale()
    for k in (0.5, 1.5, 2.0):
        s, n = mean + noise * k, mean
        one.observe(s, n, microbatch=12, count=4)
        other.observe(s * factor, n * factor, microbatch=12, count=4)
        dozens.observe(s, n, microbatch=1, count=4)
    assert other.value == pytest.approx(one.value, rel=1e-9)
    assert dozens.value * 12 == pytest.approx(one.value, rel=1e-9)
    if math.isfinite(one.value):
        assert other.error == pytest.approx(one.error, rel=1e-3, abs=1e-6 * (1 + one.value))


class TestEdges:
    def test_nothing_is_known_before_the_first_step(self):
        """And nothing is made up."""
        scale = NoiseScale()
        assert (scale.value, scale.error) == (None, None)
        scale.observe(4.0, 2.0, microbatch=8, count=4)
        assert scale.value is not None
        assert scale.error is None

    def test_noise_alone(self):
        """Where no gradient can be told, a larger batch costs nothing."""
        scale = NoiseScale()
        scale.observe(4.0, 0.5, microbatch=8, count=4)
        assert scale.gradient_square < 0
        assert scale.value == math.inf
        scale.observe(4.0, 0.5, microbatch=8, count=4)
        assert scale.error == math.inf
        assert efficiency(4096, 32, scale.value) == 1.0

    def test_no_noise_at_all(self):
        """Then a sample more in the batch is a sample wasted."""
        scale = NoiseScale()
        scale.observe(4.0, 4.0, microbatch=8, count=4)
        assert scale.value == 0.0
        assert efficiency(64, 32, 0.0) == 0.5

    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_an_overflow_is_left_out(self, bad):
        """As the step itself is, in mixed precision."""
        scale = observed(NoiseScale(), 10, 8, 4)
        before = scale.value
        assert not scale.observe(bad, 1.0, microbatch=8, count=4)
        assert not scale.observe(1e200, 1.0, microbatch=8, count=4)  # whose square is none
        assert (scale.value, scale.skipped, scale.steps) == (before, 2, 10)

    def test_one_microbatch_tells_nothing(self):
        """There is nothing to compare it with."""
        with pytest.raises(ValueError, match="at least 2 microbatches"):
            NoiseScale().observe(1.0, 1.0, microbatch=8, count=1)

    @pytest.mark.parametrize("memory", [0.5, math.nan, math.inf])
    def test_a_memory_that_is_none(self, memory):
        """Named."""
        with pytest.raises(ValueError, match="memory must be at least 1 step"):
            NoiseScale(memory)

    def test_a_memory_of_one_step(self):
        """The last step alone, of which no error can be told."""
        scale = observed(NoiseScale(1.0), 10, 8, 4)
        scale.observe(4.0, 2.0, microbatch=8, count=4)
        assert scale.gradient_square == pytest.approx(4 / 3)
        assert scale.trace == pytest.approx(8 * 4 / 3 * 2)
        assert scale.error is None

    def test_there_and_back(self):
        """Through a checkpoint."""
        scale = observed(NoiseScale(50.0), 30, 8, 4)
        again = NoiseScale.from_dict(json.loads(json.dumps(scale.to_dict())))
        assert again == scale
        assert (again.value, again.error) == (scale.value, scale.error)
        observe(scale, np.ones((4, D)), 8)
        observe(again, np.ones((4, D)), 8)
        assert again.value == scale.value

    def test_another_kind_of_state(self):
        """Says what is missing."""
        with pytest.raises(ValueError, match="lacks skipped, means"):
            NoiseScale.from_dict({"memory": 100.0, "steps": 3})


@given(st.floats(1, 1e6), st.floats(1, 1e6), st.floats(0, 1e9))
def test_efficiency_is_one_at_its_own_and_falls(batch, base, noise):
    """Larger batches are worth less a sample, and a sample is never worth more than the sizes' ratio."""
    assert efficiency(base, base, noise) == 1.0
    worth = efficiency(batch, base, noise)
    low, high = sorted((1.0, base / batch))
    assert low * (1 - 1e-9) <= worth <= high * (1 + 1e-9)
    assert efficiency(2 * batch, base, noise) <= worth


@pytest.mark.parametrize(
    "wrong", [(0, 32, 1), (32, 0, 1), (32, 32, -1), (math.nan, 32, 1), (math.inf, 32, 1), (32, 32, math.nan)]
)
def test_what_is_no_batch_size(wrong):
    """Named."""
    with pytest.raises(ValueError, match="above 0"):
        efficiency(*wrong)


class TestFrontier:
    POINTS = tuple(
        OperatingPoint(Setting(w, batch_size=size), s, j)
        for w, size, s, j in ((300.0, 64, 0.01, 2.5), (300.0, 256, 0.006, 1.6), (200.0, 64, 0.012, 2.0))
    )

    def test_in_units_of_progress(self):
        """A larger batch is quicker a sample, and slower a unit of progress where noise is small."""
        frontier = Frontier.of(self.POINTS, Setting(300.0, batch_size=64))
        progress = in_progress(frontier, noise=64.0)
        large = progress.at(Setting(300.0, batch_size=256))
        assert large.seconds_per_unit == pytest.approx(0.006 * 320 / 128)
        assert large.joules_per_unit == pytest.approx(1.6 * 320 / 128)
        assert progress.reference == frontier.reference
        assert progress.fastest.setting.batch_size == 64
        assert in_progress(frontier, noise=math.inf).fastest.setting.batch_size == 256

    def test_points_without_a_batch_size(self):
        """Nothing can be told of their progress."""
        with pytest.raises(ValueError, match="has no batch size"):
            in_progress(Frontier.of([OperatingPoint(Setting(300.0), 0.01, 2.5)]), 10.0)

    def test_the_microbatch_as_the_lever(self):
        """Four ranks that accumulate twice make a step of eight of them."""
        frontier = Frontier.of(self.POINTS, Setting(300.0, batch_size=64))
        large = in_progress(frontier, 512.0, batches=8).at(Setting(300.0, batch_size=256))
        assert large.seconds_per_unit == pytest.approx(0.006 * (512 + 8 * 256) / (512 + 8 * 64))
        with pytest.raises(ValueError, match="at least 1 batch"):
            in_progress(frontier, 512.0, batches=0)

    def test_raw_windows_come_along(self):
        """In the units of the points, so that a fit of them is the same frontier."""
        windows = [
            Window(point.setting, 1000.0 * k, 1000.0 * k * point.seconds_per_unit, 1000.0 * k * point.joules_per_unit)
            for point in self.POINTS
            for k in (1, 3)
        ]
        progress = in_progress(Frontier.fit(windows, Setting(300.0, batch_size=64)), 100.0)
        again = Frontier.fit(progress.windows, progress.reference.setting)
        for point, fitted in zip(progress.points, again.points, strict=True):
            assert fitted.setting == point.setting
            assert fitted.seconds_per_unit == pytest.approx(point.seconds_per_unit)
            assert fitted.joules_per_unit == pytest.approx(point.joules_per_unit)


POWER_AND_SIZE = st.dictionaries(
    st.tuples(st.sampled_from([200.0, 250.0, 300.0]), st.sampled_from([32, 64, 128, 512])),
    st.tuples(st.floats(1e-3, 1.0), st.floats(0.1, 100.0)),
    min_size=1,
)


@given(POWER_AND_SIZE, st.floats(0, 1e6), st.floats(0, 1e6))
def test_more_noise_is_good_for_large_batches_alone(measured, noise, more):
    """In units of progress the reference stays, power does, and time and energy fall with the noise above its batch."""
    points = [OperatingPoint(Setting(w, batch_size=b), s, j) for (w, b), (s, j) in measured.items()]
    frontier = Frontier.of(points, points[0].setting)
    base = frontier.reference.setting.batch_size
    quiet, loud = in_progress(frontier, noise), in_progress(frontier, noise + more)
    assert quiet.reference == frontier.reference
    for point in frontier.points:
        less, later = quiet.at(point.setting), loud.at(point.setting)
        assert less.power_w == pytest.approx(point.power_w)
        falls = later.seconds_per_unit <= less.seconds_per_unit * (1 + 1e-12)
        rises = later.seconds_per_unit >= less.seconds_per_unit * (1 - 1e-12)
        assert falls if point.setting.batch_size >= base else rises
        assert in_progress(frontier, math.inf).at(point.setting) == point
