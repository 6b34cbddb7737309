from __future__ import annotations

import tomllib

import pytest

from chase.config import config_dir, profile_names, profile_path
from chase.errors import ConfigError
from zeus_core.gpus.simulated import load_profile

NAMES = [f"{card}-{work}" for card in ("a40", "v100") for work in ("bert-squad", "resnet50", "shufflenet")]
KEYS = {"name", "gpu", "workload", "unit", "source", "licence", "min_w", "max_w", "default_w", "idle_w", "point"}

# Seconds of an epoch and mean watts at each limit, as the reference of this project lists them.
A40_RESNET50_B256 = {
    300: (3847.5, 235.2),
    275: (3857.8, 230.8),
    250: (3865.0, 214.6),
    225: (3909.5, 196.4),
    200: (4123.5, 177.6),
    175: (4705.6, 160.2),
    150: (6326.8, 144.6),
    125: (9640.0, 125.5),
    100: (10606.0, 120.7),
}
V100_RESNET50_B256 = {
    250: (3515.0, 220.3),
    225: (3584.0, 205.4),
    200: (3701.0, 184.9),
    175: (3852.0, 166.4),
    150: (4149.0, 144.6),
    125: (5065.0, 122.0),
    100: (6781.0, 98.4),
}


def test_the_shipped_profiles_are_these():
    """Two cards with three workloads each."""
    assert profile_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_profile_is_whole(name):
    """Each profile has all keys, its file's name, its source, and points that cover its range."""
    data = tomllib.loads(profile_path(name).read_text())

    assert data.keys() == KEYS
    assert data["name"] == name
    assert "Zeus NSDI'23" in data["source"]
    assert data["licence"] == "Apache-2.0"
    limits = [point["power_limit_w"] for point in data["point"]]
    assert limits == sorted(limits, reverse=True)
    assert (limits[-1], limits[0]) == (data["min_w"], data["max_w"])
    assert 0 < data["idle_w"] < min(point["watts"] for point in data["point"])
    assert "config/profiles" in (config_dir().parent / "NOTICE").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_profile_can_be_simulated(name):
    """What is shipped is what the simulated GPUs load."""
    assert load_profile(profile_path(name)).name == name


@pytest.mark.parametrize(
    ("name", "published"), [("a40-resnet50", A40_RESNET50_B256), ("v100-resnet50", V100_RESNET50_B256)]
)
def test_resnet50_is_the_published_sweep(name, published):
    """A sample's time times the samples of ImageNet is the published epoch, and the power is the published mean."""
    points = tomllib.loads(profile_path(name).read_text())["point"]

    found = {point["power_limit_w"]: (point["seconds_per_unit"] * 1_281_167, point["watts"]) for point in points}

    assert found.keys() == published.keys()
    for limit, (seconds, watts) in published.items():
        assert found[limit][0] == pytest.approx(seconds, abs=0.6)
        assert found[limit][1] == pytest.approx(watts, abs=0.06)


def test_a_profile_by_path(tmp_path, monkeypatch):
    """A profile of one's own is named by its path, from where one is."""
    (tmp_path / "mine.toml").write_text("")
    monkeypatch.chdir(tmp_path)

    assert profile_path("mine.toml") == tmp_path / "mine.toml"


def test_a_missing_profile_is_named():
    """Both a wrong name and a wrong path say what there is."""
    with pytest.raises(ConfigError, match=r"profile 'h100' is unknown.*a40-resnet50"):
        profile_path("h100")
    with pytest.raises(ConfigError, match=r"profile file /nowhere/h100\.toml: there is none.*a40-resnet50"):
        profile_path("/nowhere/h100.toml")
