from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_core.gpus.profiles import GpuProfile, ProfileError, ProfilePoint, load_profile

SHIPPED = sorted((Path(__file__).parents[2] / "config" / "profiles").glob("*.toml"))

TOY = """
name = "toy"
gpu = "NVIDIA A40"
workload = "counting"
unit = "step"
source = "made up"
licence = "CC0-1.0"
min_w = 100
max_w = 300
default_w = 250
idle_w = 20.5
[[point]]
power_limit_w = 300
seconds_per_unit = 1.0
watts = 260
[[point]]
power_limit_w = 100
seconds_per_unit = 4
watts = 101
"""


def load(tmp_path: Path, text: str) -> GpuProfile:
    path = tmp_path / "toy.toml"
    path.write_text(text, encoding="utf-8")
    return load_profile(path)


def test_a_file_becomes_a_profile(tmp_path: Path):
    """Every key arrives, and points are put in ascending order of limit."""
    profile = load(tmp_path, TOY)
    assert (profile.name, profile.gpu, profile.workload, profile.unit) == ("toy", "NVIDIA A40", "counting", "step")
    assert (profile.source, profile.licence) == ("made up", "CC0-1.0")
    assert (profile.min_w, profile.max_w, profile.default_w, profile.idle_w) == (100, 300, 250, 20.5)
    assert profile.points == (ProfilePoint(100, 4, 101), ProfilePoint(300, 1, 260))


@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_the_shipped_profiles_load(path: Path):
    """Each published curve loads under its own name, and speed and draw rise with the limit."""
    profile = load_profile(path)
    assert profile.name == path.stem
    limits = [profile.min_w + step * (profile.max_w - profile.min_w) / 50 for step in range(51)]
    rates, draws = [profile.rate_at(w) for w in limits], [profile.watts_at(w) for w in limits]
    assert rates == sorted(rates)
    assert draws == sorted(draws)
    assert draws[0] > profile.idle_w


def test_the_curve_meets_the_published_figures(tmp_path: Path):
    """At a published limit the figures are the published ones, a draw above the limit included."""
    profile = load(tmp_path, TOY)
    assert (profile.rate_at(300), profile.watts_at(300)) == (1, 260)
    assert (profile.rate_at(100), profile.watts_at(100)) == (0.25, 101)
    assert (profile.rate_at(200), profile.watts_at(200)) == (0.625, 180.5)


def test_beyond_the_points_the_curve_is_level(tmp_path: Path):
    """Nothing is extrapolated."""
    profile = load(tmp_path, TOY)
    assert profile.rate_at(50) == profile.rate_at(100)
    assert profile.watts_at(400) == profile.watts_at(300)


def test_a_draw_held_otherwise_than_by_a_limit(tmp_path: Path):
    """At a published draw the rate is the published one; below the lowest it falls to nothing at idle, as the clock."""
    profile = load(tmp_path, TOY)
    assert (profile.rate_drawing(260), profile.rate_drawing(101)) == (1, 0.25)
    assert profile.rate_drawing(20.5 + (101 - 20.5) / 8) == pytest.approx(0.125)
    assert (profile.rate_drawing(20.5), profile.rate_drawing(5)) == (0, 0)


figures = st.lists(st.tuples(st.floats(0.1, 10), st.floats(30, 400)), min_size=1, max_size=8)


@given(figures, st.lists(st.floats(50, 450), min_size=2, max_size=20))
def test_more_power_is_never_slower(figures: list[tuple[float, float]], limits: list[float]):
    """Whatever the noise of the sweep, rate and draw never fall as the limit rises, and stay within the figures."""
    width = 200 / len(figures)
    points = tuple(ProfilePoint(100 + at * width, seconds, watts) for at, (seconds, watts) in enumerate(figures))
    profile = GpuProfile("n", "g", "w", "u", "s", "l", 100, 300, 300, 20, points)
    ordered = sorted(limits)
    for values, measured in (
        ([profile.rate_at(w) for w in ordered], [1 / point.seconds_per_unit for point in points]),
        ([profile.watts_at(w) for w in ordered], [point.watts for point in points]),
    ):
        assert all(right >= left * (1 - 1e-12) for left, right in itertools.pairwise(values))
        assert min(measured) * (1 - 1e-9) <= values[0]
        assert values[-1] <= max(measured) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "toy"', "", "name must be a text, not None"),
        ('unit = "step"', "unit = 3", "unit must be a text, not 3"),
        ("min_w = 100", 'min_w = "100"', "min_w must be a finite number, not '100'"),
        ("min_w = 100", "min_w = nan", "min_w must be a finite number, not nan"),
        ("min_w = 100", "min_w = true", "min_w must be a finite number, not True"),
        ("min_w = 100", "min_w = 10", "idle_w < min_w <= default_w <= max_w does not hold"),
        ("default_w = 250", "default_w = 350", "does not hold"),
        ("watts = 260", "watts = 0", "must be positive"),
        ("watts = 101", "watts = 20.5", "watts of every point must exceed idle_w, 20.5"),
        ("seconds_per_unit = 1.0", "seconds_per_unit = -1", "must be positive"),
        ("watts = 260", "", "watts must be a finite number, not None"),
        ("watts = 260", "watts = 260\nspeed = 1", "unknown key 'speed' in a [[point]]"),
        ("power_limit_w = 100", "power_limit_w = 300", "must ascend"),
        ("power_limit_w = 100", "power_limit_w = 90", "must lie between min_w and max_w"),
        ("idle_w = 20.5", "idle_w = 20.5\nidel = 1", "unknown key 'idel'"),
        ("[[point]]", "[[points]]", "unknown key 'points'"),
        ("min_w = 100", "min_w = ", "Invalid value"),
    ],
)
def test_a_bad_file_is_named_with_its_fault(tmp_path: Path, old: str, new: str, message: str):
    """A profile that cannot be used names the file, the key and the value."""
    assert old in TOY
    with pytest.raises(ProfileError) as caught:
        load(tmp_path, TOY.replace(old, new))
    assert str(caught.value).startswith(f"{tmp_path / 'toy.toml'}: ")
    assert message in str(caught.value)


def test_no_points_at_all(tmp_path: Path):
    """A profile without points, or with points that are no tables, says so."""
    head = TOY.partition("[[point]]")[0]
    with pytest.raises(ProfileError, match=r"there is no \[\[point\]\]"):
        load(tmp_path, head)
    with pytest.raises(ProfileError, match="array of tables"):
        load(tmp_path, head + "point = 3")


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None):
    """A missing or binary file is the same error, with its name."""
    path = tmp_path / "none.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ProfileError, match=r"none\.toml"):
        load_profile(path)
