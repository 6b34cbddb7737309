"""The figures that are shipped, against the data that they are of. Without the data these tests have nothing to do."""

from __future__ import annotations

import importlib.util
import sys
from datetime import UTC, datetime, timedelta

import pytest

from chase.config import config_dir, load_region, region_ids

BENCHMARKS = config_dir().parent / "benchmarks"


def _script(name: str):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


typical = _script("typical_profiles")
gpu = _script("gpu_profiles")
DATA = typical.data_dir()


def _present(folder: str) -> bool:
    return (DATA / folder).is_dir()


@pytest.mark.parametrize("region", typical.SOURCES)
def test_typical_profiles_are_the_means_of_their_data(region):
    """Computed again, each of the 288 figures of a region is the shipped one."""
    if _present("intensity"):
        assert typical.table(typical.samples(region, DATA)) == typical.shipped(region)


def test_every_hourly_profile_is_computed():
    """A region that is not is one with a single figure for the year, from a publisher that its file names."""
    flat = {region for region in region_ids() if load_region(region).typical.flat}

    assert set(region_ids()) - flat == set(typical.SOURCES)


@pytest.mark.parametrize("region", typical.SOURCES)
def test_a_profile_is_of_the_column_that_its_file_says(region):
    """Zone and scope of the data are those of the region's text and key."""
    zone, column = typical.SOURCES[region]
    profile = load_region(region).typical

    assert column.startswith(profile.scope)
    assert f"{zone} 2023 hourly, {profile.scope} emissions" in profile.source


@pytest.mark.parametrize(("name", "card", "workload"), list(gpu.profiles()))
def test_gpu_profiles_are_the_published_sweeps(name, card, workload):
    """Written again, each profile is the shipped file."""
    if _present("zeus_nsdi23"):
        assert gpu.text(card, workload, DATA) == (gpu.PROFILES / f"{name}.toml").read_text()


def test_means_are_by_month_and_utc_hour():
    """A table holds the mean of its cell's values alone, rounded to whole grams."""
    start = datetime(2023, 1, 1, tzinfo=UTC)
    hours = [start + timedelta(hours=index) for index in range(365 * 24)]
    samples = [(at, 100.0 * at.month + at.hour + (1.0 if at.day % 2 else 0.0)) for at in hours]

    table = typical.table(iter(samples))

    assert table[0][5] == round(100 + 5 + 16 / 31)
    assert table[11][23] == round(1200 + 23 + 16 / 31)


@pytest.mark.parametrize("script", [typical, gpu])
def test_without_the_data_the_command_says_so(script, monkeypatch, tmp_path, capsys):
    """A benchmark without its data ends with an error that names the folder and the variable."""
    monkeypatch.setenv("CHASE_DATA", str(tmp_path / "nowhere"))

    assert script.main([]) == 1
    assert "set CHASE_DATA" in capsys.readouterr().err
