"""What an account takes from the configuration: the host's watts and the embodied share."""

from __future__ import annotations

import pytest

from chase.config import job_policy, load
from chase.config.region_file import load_region
from chase.errors import ConfigError


def test_embodied_figures_of_a_region_beat_the_service_file(write, env, region_text):
    """Key by key, as [policy] and [signal] do; what nobody says is the default, and counts nothing."""
    assert load(env=env).config.embodied.kg_co2e is None
    service = write("[embodied]\nkg_co2e = 1000\nlifetime_years = 5\n")
    region = write(f"{region_text}\n[embodied]\nkg_co2e = 1400\nshare_per_gpu = 0.125\n", "home.toml")

    loaded = load(service_file=service, region=region, env=env)

    assert loaded.config.embodied.model_dump() == {"kg_co2e": 1400, "lifetime_years": 5, "share_per_gpu": 0.125}
    assert loaded.origin["embodied.kg_co2e"].startswith(f"{region}:")
    assert load_region(region).embodied == {"kg_co2e": 1400, "share_per_gpu": 0.125}


@pytest.mark.parametrize(
    "line", ["kg_co2e = -1", "lifetime_years = 0", "share_per_gpu = 8", 'kg_co2e = "1 t"', "kg = 1"]
)
def test_a_wrong_embodied_figure_is_refused_where_it_stands(write, env, region_text, line):
    """In the service file as in a region's."""
    key = line.split(" ")[0]
    for path in (write(f"[embodied]\n{line}\n"), write(f"{region_text}\n[embodied]\n{line}\n", "home.toml")):
        given = {"region": path} if path.name == "home.toml" else {"service_file": path}
        with pytest.raises(ConfigError, match=rf"{path.name}:\d+: embodied\.{key}"):
            load(**given, env=env)


def test_a_job_says_its_own_host_power(write, env, region_text):
    """Over the region's, which is over the service file's; less than nothing is refused."""
    region = write(f"{region_text}\n[policy]\nhost_power_w = 200\n", "home.toml")
    loaded = load(service_file=write("[policy]\nhost_power_w = 400\n"), region=region, env=env)

    assert job_policy(loaded.config, loaded.region, {}).host_power_w == 200
    assert job_policy(loaded.config, loaded.region, {"host_power_w": 90}).host_power_w == 90
    with pytest.raises(ConfigError, match="host_power_w"):
        job_policy(loaded.config, loaded.region, {"host_power_w": -1})
