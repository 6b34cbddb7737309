"""Providers by name: ours, outsiders', and names that nobody knows."""

from __future__ import annotations

import sys
import textwrap

import pytest
from grid_server import NOW

from providers import registry
from providers.base import BadRequest
from providers.electricity_maps import ElectricityMaps

PROFILE = [[100.0] * 24] * 12


@pytest.fixture
def given(session):
    return {"zone": "GB", "options": {}, "token": None, "base_url": None, "session": session, "now": lambda: NOW}


@pytest.fixture
def outsiders(tmp_path, monkeypatch):
    """An installed package that brings a good provider and several bad ones."""
    package = tmp_path / "grid_outsider.py"
    package.write_text(
        textwrap.dedent("""
        class Good:
            name, capabilities = "my_grid", None
            def __init__(self, *, zone, options, token, base_url, session, now):
                self.zone, self.token = zone, token
            def observe(self, start, end): ...
            def forecast(self, start, end): ...
            def close(self): ...
        class Half:
            def __init__(self, **given): ...
        """)
    )
    metadata = tmp_path / "grid_outsider-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: grid-outsider\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        f"[{registry.GROUP}]\nmy_grid = grid_outsider:Good\nhalf = grid_outsider:Half\n"
        "broken = grid_outsider:Missing\ngone = no_such_module:X\nneso = grid_outsider:Good\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("grid_outsider", None)


def test_the_built_in_ones_are_known():
    """The four of this package are always there."""
    assert {"electricity_maps", "file", "neso", "static"} <= set(registry.names())


@pytest.mark.parametrize(
    ("name", "options"),
    [("electricity_maps", {}), ("neso", {}), ("static", {"g_per_kwh": PROFILE}), ("file", {"path": "grid.csv"})],
)
def test_each_is_made_by_its_name(given, name, options):
    """What is made bears its own name and the zone asked for, and asked nobody yet."""
    made = registry.create(name, **{**given, "options": options})
    assert (made.name, made.zone) == (name, "GB")


def test_a_token_is_wrapped_at_the_door(given):
    """From here on the credential cannot be shown by accident."""
    made = registry.create("electricity_maps", **{**given, "token": "PlainToken98765"})
    assert isinstance(made, ElectricityMaps)
    assert "PlainToken98765" not in repr(vars(made))


@pytest.mark.parametrize(
    ("name", "meant"),
    [("electricitymaps", "electricity_maps"), ("nesso", "neso"), ("files", "file"), ("Static", "static")],
)
def test_an_unknown_name_gets_a_suggestion(given, name, meant):
    """The error names what was written, what was probably meant, and all there is."""
    with pytest.raises(BadRequest, match=f"no provider '{name}' \\(did you mean '{meant}'\\?\\); known are .*static"):
        registry.create(name, **given)


def test_a_name_like_no_other_gets_the_list(given):
    """Nothing is suggested where nothing is near."""
    with pytest.raises(BadRequest, match="no provider 'zzz'; known are"):
        registry.create("zzz", **given)


@pytest.mark.usefixtures("outsiders")
def test_an_outsider_is_found_by_its_entry_point(given):
    """Another package's provider is listed and made like ours."""
    assert "my_grid" in registry.names()
    made = registry.create("my_grid", **{**given, "token": "abc"})
    assert made.zone == "GB"
    assert made.token.reveal() == "abc"


@pytest.mark.usefixtures("outsiders")
def test_nobody_takes_over_a_built_in_name(given):
    """``neso`` stays ours, whatever is installed."""
    assert type(registry.create("neso", **given)).__module__ == "providers.neso"


@pytest.mark.usefixtures("outsiders")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("broken", "grid-outsider .*Missing.* cannot be loaded: AttributeError"),
        ("gone", "grid-outsider .*no_such_module:X.* cannot be loaded: ModuleNotFoundError"),
        ("half", "lacks name, zone, capabilities, observe, forecast, close"),
    ],
)
def test_a_broken_outsider_is_named(given, name, text):
    """The error says whose package it is and what is wrong with it."""
    with pytest.raises(BadRequest, match=text):
        registry.create(name, **given)


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("neso", {"regionid": 13, "pathh": 1}, "neso has no option 'pathh'; it knows postcode, regionid"),
        ("neso", {"regoinid": 13}, "did you mean 'regionid'"),
        ("neso", {"regionid": 18}, "regionid is 18, but must be a number from 1 to 17"),
        ("neso", {"regionid": True}, "regionid is True"),
        ("neso", {"regionid": 1.5}, "whole number"),
        ("neso", {"postcode": "RG10 9XY"}, "outward part alone, like RG10"),
        ("neso", {"postcode": "../x"}, "outward part"),
        ("neso", {"postcode": "RG10", "regionid": 13}, "not both"),
        ("electricity_maps", {"version": "v5"}, "version is 'v5', but must be one of v4, v3"),
        ("electricity_maps", {"granularity": "daily"}, "granularity is 'daily'"),
        ("electricity_maps", {"scope": "lifecicle"}, r"did you mean 'lifecycle'"),
        ("electricity_maps", {"flow_traced": "yes"}, "true or false"),
        ("electricity_maps", {"flow_traced": False, "version": "v3"}, "needs version v4"),
        ("file", {}, "path is missing"),
        ("file", {"path": 7}, "path is 7, but must be a text"),
        ("file", {"path": "grid.dat"}, "set format to csv, json, jsonl"),
        ("file", {"path": "grid.csv", "step_s": 0}, "step_s is 0"),
        ("file", {"path": "grid.csv", "kind": "guess"}, "kind is 'guess'"),
        ("static", {}, "12 months of 24 UTC hours"),
        ("static", {"g_per_kwh": PROFILE[:11]}, "12 months"),
        ("static", {"g_per_kwh": [*PROFILE[:11], [1.0] * 23]}, "24 UTC hours"),
        ("static", {"g_per_kwh": [*PROFILE[:11], [1.0] * 23 + [None]]}, "month 12, hour 23 is missing"),
        ("static", {"g_per_kwh": [*PROFILE[:11], [1.0] * 23 + [-1]]}, "month 12, hour 23 is -1"),
        ("static", {"g_per_kwh": [*PROFILE[:11], [1.0] * 23 + ["x"]]}, "month 12, hour 23 is 'x'"),
        ("static", {"g_per_kwh": PROFILE, "scope": "all"}, "scope is 'all'"),
    ],
)
def test_wrong_options_are_refused_at_once(given, name, options, text):
    """Before anything is asked of a network, with the option, its value and what it may be."""
    with pytest.raises(BadRequest, match=text):
        registry.create(name, **{**given, "options": options})


@pytest.mark.parametrize(
    "base_url", ["grid.example", "ftp://grid.example", "http://", "http://[::1", "https://g/?k=v", "https://u:pw@g"]
)
@pytest.mark.parametrize("name", ["neso", "electricity_maps"])
def test_a_base_url_that_cannot_be_used_is_refused(given, name, base_url):
    """With an example of a good one, and without quoting what may hold a password."""
    with pytest.raises(BadRequest, match="base_url must be like https://") as caught:
        registry.create(name, **{**given, "base_url": base_url})
    assert "pw" not in str(caught.value)


def test_neso_is_for_great_britain_alone(given):
    """Its figures are never filed under another zone."""
    with pytest.raises(BadRequest, match="zone 'FR' must be GB"):
        registry.create("neso", **{**given, "zone": "FR"})
