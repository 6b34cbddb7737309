from __future__ import annotations

from datetime import UTC, datetime

import pytest

from chase.config import Config, job_policy, load, load_region
from chase.errors import ConfigError


def test_a_job_without_wishes_has_the_services_policy(env):
    """Nothing asked, nothing changed."""
    loaded = load(env=env, overrides={"policy.eta": 0.25})

    assert job_policy(loaded.config, loaded.region, {}) == loaded.config.policy


def test_a_job_beats_the_files(write, env, region_text):
    """A job's wish is over the region's default, which is over the service file."""
    service = write("[policy]\ndwell_s = 1\neta = 0.1\nslowdown = 0.1\n")
    region = write(f"{region_text}\n[policy]\ndwell_s = 2\neta = 0.2\n", "home.toml")
    loaded = load(service_file=service, region=region, env=env)

    policy = job_policy(loaded.config, loaded.region, {"dwell_s": 3})

    assert (policy.dwell_s, policy.eta, policy.slowdown) == (3, 0.2, 0.1)


def test_environment_and_flag_beat_a_job(write, env):
    """What the operator pins from outside no job can lift."""
    loaded = load(overrides={"policy.max_slowdown": 0.1}, env={**env, "CHASE_POLICY__DWELL_S": "60"})

    policy = job_policy(loaded.config, loaded.region, {"max_slowdown": 3, "dwell_s": 0, "eta": 0.9})

    assert (policy.max_slowdown, policy.dwell_s, policy.eta) == (0.1, 60, 0.9)


def test_a_job_in_another_region_gets_that_regions_defaults(write, env, region_text):
    """Defaults of the service's own region do not follow a job into another one."""
    home = write(f"{region_text}\n[policy]\neta = 0.2\n", "home.toml")
    away = load_region(write(f"{region_text}\n[policy]\ndwell_s = 7\n", "away.toml"))
    loaded = load(region=home, env=env)

    policy = job_policy(loaded.config, away, {})

    assert (policy.eta, policy.dwell_s) == (0.5, 7)


def test_a_config_made_by_hand_is_the_base_itself():
    """Without layers the given policy is what a job's wishes go over."""
    config = Config.model_validate({"policy": {"eta": 0.3}})

    assert job_policy(config, None, {"dwell_s": 5}).model_dump() == {
        **config.policy.model_dump(),
        "dwell_s": 5,
    }


def test_null_takes_back_a_cap(write, env):
    """JSON's null means not given, where that is possible."""
    loaded = load(service_file=write("[policy]\nmax_slowdown = 0.1\n"), env=env)

    assert job_policy(loaded.config, None, {"max_slowdown": None}).max_slowdown is None


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"dwel_s": 5}, "job policy: policy.dwel_s is not a setting; did you mean dwell_s?"),
        ({"interval_s": 5}, "job policy: policy.interval_s is not a setting; did you mean control.interval_s?"),
        ({"dwell_s": -1}, "job policy: policy.dwell_s = -1: must be greater than or equal to 0 (seconds)"),
        ({"dwell_s": "5"}, 'job policy: policy.dwell_s = "5": must be a number of seconds'),
        ({"dwell_s": float("nan")}, "must be a finite number"),
        ({"dwell_s": None}, "job policy: policy.dwell_s = null: must be a number of seconds"),
        (
            {"name": ["off"]},
            "job policy: policy.name = [\"off\"]: must be 'budget', 'threshold', 'chase', 'static' or 'off'",
        ),
        ({"speed_below": "p70"}, 'job policy: speed_below "p70" is above efficiency_above "p60"'),
        ({"speed_below": {"a": 1}}, "policy.speed_below = { ... }: must be gCO2eq/kWh"),
        ({"token": "hunter2"}, "job policy: policy.token is not a setting"),
        ({"deadline": "tomorrow"}, 'policy.deadline = "tomorrow": must be a UTC time such as 2023-06-01T00:00:00Z'),
        ({"deadline": "2026-03-01T18:00"}, "must be a UTC time that ends in Z"),
        ({"deadline": "2026-03-01T18:00+01:00"}, "must be a UTC time that ends in Z"),
        ({"deadline": 1772388000}, "job policy: policy.deadline = 1772388000: must be a UTC time"),
    ],
)
def test_a_jobs_mistakes_are_told_as_a_files_are(env, wishes, said):
    """Wishes over the socket are checked as strictly as a file, and no stranger's value is repeated."""
    loaded = load(env=env)

    with pytest.raises(ConfigError) as caught:
        job_policy(loaded.config, loaded.region, wishes)

    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("deadline", ["2026-03-01T18:00Z", "2026-03-01T18:00:00+00:00"])
def test_a_deadline_comes_as_text(env, deadline):
    """JSON has no times: what a client sends is text, and a file's own time is the same."""
    policy = job_policy(load(env=env).config, None, {"deadline": deadline})

    assert policy.deadline == datetime(2026, 3, 1, 18, tzinfo=UTC)
    assert policy == job_policy(load(env=env).config, None, {"deadline": datetime(2026, 3, 1, 18, tzinfo=UTC)})


def test_all_of_a_jobs_mistakes_come_at_once(env):
    """One answer names them all."""
    with pytest.raises(ConfigError) as caught:
        job_policy(load(env=env).config, None, {"dwell_s": -1, "eta": 2, "x": 1})

    assert len(str(caught.value).splitlines()) == 3
