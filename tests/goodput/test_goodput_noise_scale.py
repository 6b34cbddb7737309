"""The noise scale on a problem of which it is known, and what follows for time and energy."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_core.frontier import Frontier, OperatingPoint, Setting
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


def observed(scale: NoiseScale, steps: int, microbatch: int, count: int, factor: float = 1.0) -> NoiseScale:
    rng = np.random.default_rng(3)
    for _ in range(steps):
        means = factor * gradients(rng, microbatch * count).reshape(count, microbatch, D).mean(axis=1)
        mean_square = float((means**2).sum(axis=1).mean())
        scale.observe(mean_square, float((means.mean(axis=0) ** 2).sum()), microbatch=microbatch, count=count)
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
        one, other = (observed(NoiseScale(100.0), 200, 8, 4, factor).value for factor in (1.0, 1000.0))
        assert one == pytest.approx(other)

    def test_the_first_steps_have_no_bias(self):
        """A moving average that begins at nothing is corrected for that."""
        many = [observed(NoiseScale(1000.0), 1, 8, 4).trace]
        rng = np.random.default_rng(5)
        for _ in range(3000):
            scale = NoiseScale(1000.0)
            means = gradients(rng, 32).reshape(4, 8, D).mean(axis=1)
            scale.observe(
                float((means**2).sum(axis=1).mean()), float((means.mean(axis=0) ** 2).sum()), microbatch=8, count=4
            )
            many.append(scale.trace)
        assert np.mean(many) == pytest.approx(KNOWN, rel=0.05)


class TestEdges:
    def test_nothing_is_known_before_the_first_step(self):
        """And nothing is made up."""
        assert NoiseScale().value is None

    def test_noise_alone(self):
        """Where no gradient can be told, a larger batch costs nothing."""
        scale = NoiseScale()
        scale.observe(4.0, 0.5, microbatch=8, count=4)
        assert scale.gradient_square < 0
        assert scale.value == math.inf
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
        assert (scale.value, scale.skipped) == (before, 1)

    def test_one_microbatch_tells_nothing(self):
        """There is nothing to compare it with."""
        with pytest.raises(ValueError, match="at least 2 microbatches"):
            NoiseScale().observe(1.0, 1.0, microbatch=8, count=1)

    def test_a_memory_that_is_none(self):
        """Named."""
        with pytest.raises(ValueError, match="memory must be at least 1 step"):
            NoiseScale(0.5)

    def test_there_and_back(self):
        """Through a checkpoint."""
        scale = observed(NoiseScale(50.0), 30, 8, 4)
        again = NoiseScale.from_dict(json.loads(json.dumps(scale.to_dict())))
        assert (again.value, again.steps) == (scale.value, 30)


@given(st.floats(1, 1e6), st.floats(1, 1e6), st.floats(0, 1e9))
def test_efficiency_is_one_at_its_own_and_falls(batch, base, noise):
    """Larger batches are worth less a sample, and a sample is never worth more than the sizes' ratio."""
    assert efficiency(base, base, noise) == 1.0
    worth = efficiency(batch, base, noise)
    low, high = sorted((1.0, base / batch))
    assert low * (1 - 1e-9) <= worth <= high * (1 + 1e-9)
    assert efficiency(2 * batch, base, noise) <= worth


@pytest.mark.parametrize("wrong", [(0, 32, 1), (32, 0, 1), (32, 32, -1), (math.nan, 32, 1)])
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
