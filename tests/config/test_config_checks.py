from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chase.config import Config, load
from chase.config.checks import clashes, policy_clashes
from chase.config.models import PolicyConfig
from chase.errors import ConfigError


@pytest.mark.parametrize(
    ("values", "keys", "said"),
    [
        (
            {"simulated.rate": 60.0},
            "simulated.rate and control.gpus",
            "rate 60 with real GPUs; real time cannot be hurried",
        ),
        ({"simulated.rate": 0.5}, "simulated.rate and control.gpus", "rate 0.5 with real GPUs"),
        ({"control.actuator": "command"}, "control.actuator and control.setter_command", "needs a setter_command"),
        ({"signal.usable_s": 60}, "signal.usable_s and signal.fresh_s", "usable_s 60 is shorter than fresh_s 5400"),
        (
            {"control.heartbeat_s": 5},
            "control.heartbeat_s and control.interval_s",
            "heartbeat_s 5 is shorter than interval_s 10",
        ),
        ({"jobs.lease_s": 5}, "jobs.lease_s and jobs.report_s", "lease_s 5 must be longer than report_s 5"),
        (
            {"profile.window_s": 5},
            "profile.window_s and control.interval_s",
            "window_s 5 is shorter than interval_s 10",
        ),
        (
            {"policy.speed_below": "p70"},
            "policy.speed_below and policy.efficiency_above",
            'speed_below "p70" is above efficiency_above "p60"',
        ),
        (
            {"policy.speed_below": 300, "policy.efficiency_above": 200},
            "policy.speed_below and policy.efficiency_above",
            "speed_below 300 is above efficiency_above 200",
        ),
        (
            {"policy.selector": "max-slowdown", "policy.slowdown": 0.3, "policy.max_slowdown": 0.2},
            "policy.slowdown and policy.max_slowdown",
            "slowdown 0.3 is more than max_slowdown 0.2 allows",
        ),
    ],
)
def test_combinations_that_cannot_be_are_refused(env, values, keys, said):
    """Settings that are each good and together impossible end in one sentence that names both."""
    with pytest.raises(ConfigError) as caught:
        load(overrides=values, env=env)

    assert str(caught.value).startswith(f"flag: {keys}: ")
    assert said in str(caught.value)


def test_a_simulated_time_needs_simulated_gpus(write, env):
    """A simulated start with real GPUs is refused, and fine with simulated ones."""
    path = write("[simulated]\nstart = 2023-06-01T00:00:00Z\nrate = 60\n")

    with pytest.raises(ConfigError, match=r"chase\.toml:2: simulated\.start and control\.gpus"):
        load(service_file=path, env=env)
    loaded = load(service_file=path, overrides={"control.gpus": "simulated"}, env=env)
    assert loaded.config.simulated.start.isoformat() == "2023-06-01T00:00:00+00:00"


def test_a_clash_is_placed_where_somebody_wrote_it(write, env):
    """When a default and a written value clash, the written one is shown; of two written ones the first named."""
    path = write('[policy]\nefficiency_above = "p30"\n')

    with pytest.raises(ConfigError, match=r"chase\.toml:2: policy\.speed_below and policy\.efficiency_above"):
        load(service_file=path, env=env)


def test_all_clashes_are_shown_at_once(env):
    """Combinations are reported together, as single mistakes are."""
    with pytest.raises(ConfigError) as caught:
        load(overrides={"simulated.rate": 2.0, "jobs.lease_s": 1, "signal.usable_s": 1}, env=env)

    assert len(str(caught.value).splitlines()) == 3


def test_the_shipped_settings_clash_with_nothing():
    """The defaults are a combination that can be."""
    assert list(clashes(Config())) == []


_grams = st.floats(min_value=0, max_value=5000, allow_nan=False)
_percentiles = st.integers(min_value=0, max_value=100)


@given(low=_grams, high=_grams)
@settings(max_examples=50)
def test_thresholds_in_grams_must_be_in_order(low, high):
    """For any two intensities, they are refused exactly when speed_below is the higher."""
    assert bool(list(policy_clashes(PolicyConfig(speed_below=low, efficiency_above=high)))) == (low > high)


@given(low=_percentiles, high=_percentiles)
@settings(max_examples=50)
def test_thresholds_in_percentiles_must_be_in_order(low, high):
    """For any two percentiles, they are compared as numbers and not as text."""
    policy = PolicyConfig(speed_below=f"p{low}", efficiency_above=f"p{high}")

    assert bool(list(policy_clashes(policy))) == (low > high)


@given(grams=_grams, percentile=_percentiles)
@settings(max_examples=20)
def test_grams_and_percentiles_are_not_compared(grams, percentile):
    """What a percentile is in grams is known later, so a mixed pair is never refused beforehand."""
    assert not list(policy_clashes(PolicyConfig(speed_below=grams, efficiency_above=f"p{percentile}")))
    assert not list(policy_clashes(PolicyConfig(speed_below=f"p{percentile}", efficiency_above=grams)))
