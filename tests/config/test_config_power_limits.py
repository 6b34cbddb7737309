"""A floor and a ceiling by people, and the node's cap."""

from __future__ import annotations

import pytest

from chase.config import job_policy, load
from chase.errors import ConfigError


def test_a_floor_above_the_ceiling_is_refused_where_it_is_written(write, env):
    """File, line, both keys with their values, and what to do."""
    path = write("[policy]\nmin_power_limit_w = 250\nmax_power_limit_w = 200\n")

    with pytest.raises(ConfigError) as caught:
        load(service_file=path, env=env)

    assert str(caught.value) == (
        f"{path}:2: policy.min_power_limit_w and policy.max_power_limit_w: "
        "min_power_limit_w 250 is above max_power_limit_w 200; lower the first or raise the second"
    )


def test_one_watt_may_be_both(env):
    """Floor and ceiling at the same limit pin a GPU there."""
    pinned = {"policy.min_power_limit_w": 200, "policy.max_power_limit_w": 200.0}

    assert load(overrides=pinned, env=env).config.policy.min_power_limit_w == 200.0


def test_a_job_may_not_cross_the_operators_limit(env):
    """A job's own floor above the ceiling that the environment sets is refused, and both are named."""
    loaded = load(env={**env, "CHASE_POLICY__MAX_POWER_LIMIT_W": "200"})

    assert job_policy(loaded.config, None, {"max_power_limit_w": 300.0}).max_power_limit_w == 200.0
    with pytest.raises(ConfigError, match="min_power_limit_w 250 is above max_power_limit_w 200"):
        job_policy(loaded.config, None, {"min_power_limit_w": 250.0})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("min_power_limit_w = 0", "policy.min_power_limit_w = 0: must be greater than 0 (watts)"),
        ("max_power_limit_w = -5", "policy.max_power_limit_w = -5: must be greater than 0 (watts)"),
        ("max_power_limit_w = nan", "must be a finite number (watts)"),
        ('max_power_limit_w = "250W"', 'policy.max_power_limit_w = "250W": must be a number of watts, without quotes'),
        ("max_power_limit_w = 250000", "must be less than or equal to 5000 (watts)"),
    ],
)
def test_a_limit_that_no_gpu_has_is_refused(write, env, line, said):
    """Nothing, less than nothing, milliwatts and text are no limits."""
    with pytest.raises(ConfigError) as caught:
        load(service_file=write(f"[policy]\n{line}\n"), env=env)

    assert said in str(caught.value)


@pytest.mark.parametrize("value", [0, -1, 2_000_000])
def test_a_nodes_cap_is_a_power(env, value):
    """No cap is no key; a cap of nothing would be a node switched off."""
    with pytest.raises(ConfigError, match=r"control\.max_node_power_w"):
        load(overrides={"control.max_node_power_w": value}, env=env)
