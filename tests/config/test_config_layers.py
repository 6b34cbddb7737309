from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chase.config import load, load_region, loading, origin_rows
from chase.config.problems import show
from chase.errors import ConfigError

LAYERS = ("service", "region", "environment", "flag")


@given(
    st.dictionaries(st.sampled_from(LAYERS), st.integers(min_value=1, max_value=100_000)),
    st.dictionaries(st.sampled_from(LAYERS), st.integers(min_value=21_600, max_value=100_000)),
)
@settings(deadline=None, max_examples=60)
def test_the_last_layer_wins_for_each_key_alone(dwell, usable):
    """Of the layers that set a key the last one holds and is named as its origin; other keys do not matter."""
    with tempfile.TemporaryDirectory() as folder:
        loaded = _loaded(Path(folder), {"policy.dwell_s": dwell, "signal.usable_s": usable})

    for key, values, found, default in (
        ("policy.dwell_s", dwell, loaded.config.policy.dwell_s, 600),
        ("signal.usable_s", usable, loaded.config.signal.usable_s, 21_600),
    ):
        winner = next((layer for layer in reversed(LAYERS) if layer in values), None)
        assert found == (values[winner] if winner else default)
        assert _layer_of(loaded.origin[key]) == (winner or "default")


def _loaded(folder: Path, values: dict[str, dict[str, int]]) -> loading.Loaded:
    files = {"service": "", "region": _REGION}
    for layer, head in files.items():
        lines = [f"{key} = {by_layer[layer]}\n" for key, by_layer in values.items() if layer in by_layer]
        (folder / f"{layer}.toml").write_text("".join(lines) + head)
    env = {
        f"CHASE_{key.upper().replace('.', '__')}": str(by_layer["environment"])
        for key, by_layer in values.items()
        if "environment" in by_layer
    }
    flags = {key: by_layer.get("flag") for key, by_layer in values.items()}
    return load(service_file=folder / "service.toml", region=folder / "region.toml", overrides=flags, env=env)


_REGION = """
[region]
id = "home"
name = "Home"
time_zone = "UTC"
signal = "average"
scope = "direct"
currency = "EUR"
[[sources]]
provider = "file"
zone = "home"
"""


def _layer_of(origin: str) -> str:
    return Path(origin.partition(":")[0]).stem.partition(" ")[0]


def test_origin_names_file_and_line_variable_and_flag(write, env):
    """Whoever set a key is named so that a person finds the place."""
    path = write('# ours\n[control]\ninterval_s = 5\n\n[policy]\nname = "off"\neta = 0.25\n')

    origin = load(
        service_file=path,
        overrides={"store.keep_days": 7},
        env={**env, "CHASE_POLICY__ETA": "0.75"},
    ).origin

    assert origin["control.interval_s"] == f"{path}:3"
    assert origin["policy.name"] == f"{path}:6"
    assert origin["policy.eta"] == "environment CHASE_POLICY__ETA"
    assert origin["store.keep_days"] == "flag"
    assert origin["store.keep_signal_days"] == "default"


def test_lines_are_found_in_any_shape_of_toml(write, env):
    """Dotted keys, inline tables and arrays over several lines have the line on which they begin."""
    path = write(
        "control.interval_s = 14\n"
        "jobs = { lease_s = 31, report_s = 6 }\n"
        "control.setter_command = [\n"
        '  "/bin/set",\n'
        '  "{uuid}",\n'
        '  """{power_limit_w}""",\n'
        "]\n"
        "[ policy ]  # with a comment\n"
        '  name = "off"\n'
    )

    origin = load(service_file=path, env=env).origin

    assert origin["control.interval_s"] == f"{path}:1"
    assert origin["jobs.report_s"] == f"{path}:2"
    assert origin["control.setter_command"] == f"{path}:3"
    assert origin["policy.name"] == f"{path}:9"


def test_text_over_several_lines_is_not_taken_for_keys(write, env):
    """What looks like a key inside a multi-line text has no line of its own."""
    path = write('[service]\nsocket_group = """\\\nregion = 3\n[policy]\n"""\n[jobs]\nreport_s = 7\n')

    loaded = load(service_file=path, env=env)

    assert loaded.origin["service.region"] == "default"
    assert loaded.origin["jobs.report_s"] == f"{path}:7"


@pytest.mark.parametrize(
    ("name", "text", "key", "value"),
    [
        ("CHASE_CONTROL__INTERVAL_S", "5", "control.interval_s", 5.0),
        ("CHASE_CONTROL__INTERVAL_S", " 2.5 ", "control.interval_s", 2.5),
        ("CHASE_LOG__JSON", "true", "log.json", True),
        ("CHASE_POLICY__NAME", "off", "policy.name", "off"),
        ("CHASE_POLICY__NAME", '"off"', "policy.name", "off"),
        ("CHASE_POLICY__EFFICIENCY_ABOVE", "p70", "policy.efficiency_above", "p70"),
        ("CHASE_POLICY__EFFICIENCY_ABOVE", "300", "policy.efficiency_above", 300.0),
        ("CHASE_SERVICE__SOCKET_GROUP", "1000", "service.socket_group", "1000"),
        ("CHASE_SERVICE__SOCKET_GROUP", "true", "service.socket_group", "true"),
        ("CHASE_SERVICE__DB", "/data/a b.sqlite", "service.db", Path("/data/a b.sqlite")),
        (
            "CHASE_CONTROL__SETTER_COMMAND",
            '["/bin/set", "{uuid}", "{power_limit_w}"]',
            "control.setter_command",
            ("/bin/set", "{uuid}", "{power_limit_w}"),
        ),
    ],
)
def test_variables_are_read_as_the_setting_needs(env, name, text, key, value):
    """Numbers, truth values and lists are TOML; text needs no quotes and stays text even if it looks like a number."""
    section, name_of_key = key.split(".")

    config = load(env={**env, name: text}).config

    assert getattr(getattr(config, section), name_of_key) == value


@pytest.mark.parametrize(
    "name", ["CHASE_CONFIG_DIR", "CHASE_SOCKET", "CHASE_DATA", "CHASE_STANDIN_NVML_STATE", "XCHASE_A__B"]
)
def test_variables_of_other_kinds_are_no_settings(env, name):
    """Only CHASE_ names with two underscores are settings."""
    assert set(load(env={**env, name: "/tmp/x"}).origin.values()) == {"default"}


def test_a_blank_variable_counts_as_unset(env):
    """An empty variable, as compose files leave them, changes nothing."""
    assert load(env={**env, "CHASE_CONTROL__INTERVAL_S": " "}).config.control.interval_s == 10


def test_a_flag_that_is_none_was_not_given(env):
    """The CLI hands over all its flags; those without a value do not count."""
    loaded = load(env={**env, "CHASE_SERVICE__MODE": "observe"}, overrides={"service.mode": None})

    assert loaded.config.service.mode == "observe"


def test_flags_may_be_nested(env):
    """Overrides by section mean the same as by dotted key, and both may be given."""
    loaded = load(env=env, overrides={"policy": {"eta": 0.1}, "policy.name": "chase", "jobs": {}})

    assert (loaded.config.policy.eta, loaded.config.policy.name) == (0.1, "chase")
    assert loaded.origin["policy.eta"] == "flag"


def test_a_path_given_as_a_flag_may_be_relative(env, tmp_path, monkeypatch):
    """A person types paths from where they are."""
    monkeypatch.chdir(tmp_path)

    loaded = load(env=env, overrides={"service.db": Path("x.sqlite")})

    assert loaded.config.service.db == tmp_path / "x.sqlite"


def test_search_order_of_the_service_file(write, env, tmp_path):
    """Named file, then $CHASE_CONFIG, then the user's, then the system's; the first there is and no other."""
    found = {
        "system": (write("[store]\nkeep_days = 1\n", "etc/chase.toml"), 1),
        "user": (write("[store]\nkeep_days = 2\n", "home/.config/chase/chase.toml"), 2),
        "variable": (write("[store]\nkeep_days = 3\n", "variable.toml"), 3),
        "named": (write("[store]\nkeep_days = 4\n", "named.toml"), 4),
    }
    named = {**env, "CHASE_CONFIG": str(found["variable"][0])}

    assert load(service_file=found["named"][0], env=named).config.store.keep_days == 4
    assert load(env=named).config.store.keep_days == 3
    assert load(env=env).config.store.keep_days == 2
    found["user"][0].unlink()
    loaded = load(env=env)
    assert (loaded.config.store.keep_days, loaded.service_file) == (1, found["system"][0])
    assert load(env={**env, "XDG_CONFIG_HOME": str(tmp_path / "xdg")}).config.store.keep_days == 1
    write("[store]\nkeep_days = 5\n", "xdg/chase/chase.toml")
    assert load(env={**env, "XDG_CONFIG_HOME": str(tmp_path / "xdg")}).config.store.keep_days == 5


def test_a_named_file_that_is_missing_is_an_error(env, tmp_path):
    """A file that somebody named is never skipped silently, and the message says who named it."""
    with pytest.raises(ConfigError, match=r"nowhere\.toml: there is no such file"):
        load(service_file=tmp_path / "nowhere.toml", env=env)
    with pytest.raises(ConfigError, match=r"nowhere\.toml \(\$CHASE_CONFIG\): there is no such file"):
        load(env={**env, "CHASE_CONFIG": str(tmp_path / "nowhere.toml")})
    with pytest.raises(ConfigError, match="there is no such file"):
        load(env={**env, "CHASE_CONFIG": str(tmp_path)})


@pytest.mark.parametrize("how", ["file", "variable", "flag", "argument"])
def test_the_region_may_come_from_any_layer(write, env, how):
    """Whoever names the region, its file is read and its defaults hold."""
    service = write('[service]\nregion = "de"\n') if how == "file" else None
    loaded = load(
        service_file=service,
        region="de" if how == "argument" else None,
        overrides={"service.region": "de"} if how == "flag" else None,
        env={**env, "CHASE_SERVICE__REGION": "de"} if how == "variable" else env,
    )

    assert (loaded.region.id, loaded.config.service.region) == ("de", "de")


def test_a_region_file_in_a_service_file_is_relative_to_it(write, env, region_text, tmp_path):
    """A folder with a service file and its region file can be moved and used from anywhere."""
    write(region_text, "site/home.toml")
    service = write('[service]\nregion = "home.toml"\n', "site/chase.toml")

    loaded = load(service_file=service, env=env)

    assert loaded.region.id == "home"
    assert loaded.config.service.region == str(tmp_path / "site/home.toml")
    assert load_region(loaded.config.service.region) == loaded.region


def test_a_profile_in_a_service_file_is_relative_to_it(write, env, tmp_path):
    """A profile of the site's own lies beside its service file."""
    write("", "site/h100.toml")
    service = write('[simulated]\nprofile = "./h100.toml"\n', "site/chase.toml")

    assert load(service_file=service, env=env).config.simulated.profile == str(tmp_path / "site/h100.toml")


def test_again_reads_what_has_changed_and_keeps_flags(write, env):
    """A reload takes the files as they are now, with the flags of the start."""
    path = write("[control]\ninterval_s = 5\n")
    loaded = load(service_file=path, overrides={"policy.eta": 0.25}, env=env)
    path.write_text("[control]\ninterval_s = 6\n")

    again = loaded.again()

    assert (again.config.control.interval_s, again.config.policy.eta) == (6, 0.25)


def test_origin_rows_show_everything_but_no_secret(write, env, region_text):
    """Each setting and each fact of the region has a row; a token's variable is named and not read."""
    path = write(region_text.replace('zone = "home"', 'zone = "home"\ntoken_env = "GRID_TOKEN"'), "home.toml")

    rows = origin_rows(load(region=path, env={**env, "GRID_TOKEN": "hunter2"}))

    by_key = {row.key: row for row in rows}
    assert len(by_key) == len(rows)
    assert by_key["service.region"].origin == "flag"
    assert by_key["region.time_zone"].origin == f"{path}:5"
    assert by_key["region.pue"].origin == "default"
    assert by_key["sources.0.token_env"].value == "GRID_TOKEN"
    assert by_key["sources.0.options.path"].origin == f"{path}:14"
    assert "hunter2" not in str(rows)


def test_what_is_loaded_shows_no_environment(env):
    """The text form of a loaded configuration has no variable in it."""
    assert "hunter2" not in repr(load(env={**env, "GRID_TOKEN": "hunter2"}))


def _refusal(**arguments) -> str | None:
    try:
        load(**arguments)
    except ConfigError as error:
        return str(error)
    return None


_values = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.lists(st.one_of(st.integers(), st.text(max_size=5)), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)
_KEYS = ["control.interval_s", "policy.efficiency_above", "policy.max_slowdown", "simulated.start", "service.db"]
_KEYS += [
    "service.region",
    "service.mode",
    "control.setter_command",
    "log.json",
    "store.keep_days",
    "x.y",
    "policy.dwel_s",
]
_KEYS += ["simulated.profile", "service.state_dir"]


@given(st.dictionaries(st.sampled_from(_KEYS), _values, max_size=3))
@example({"policy.efficiency_above": 10**400, "control.interval_s": 10**400})
@example({"service.region": "\x00/x"})
@settings(deadline=None, max_examples=150)
def test_any_value_is_taken_or_refused_by_name(values):
    """Whatever stands behind a key, it is used or there is a ConfigError that names the key."""
    said = _refusal(overrides=values, env={})

    assert said is None or any(key in said or "is not a setting" in said for key in values)


@given(st.binary(max_size=200))
@example(b"a = " + b"[" * 5000)
@example(b"[store]\nkeep_days = " + b"9" * 5000)
@example(b"\xff\xfe")
@settings(deadline=None, max_examples=150)
def test_any_file_is_read_or_refused_by_name(raw):
    """Whatever is in a file, it is a configuration or a ConfigError that names the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chase.toml"
        path.write_bytes(raw)
        said = _refusal(service_file=path, env={})

    assert said is None or said.startswith(str(path))


@given(st.floats(min_value=0.5, max_value=29.0))
@settings(deadline=None, max_examples=40)
def test_file_environment_and_flag_read_a_number_alike(seconds):
    """One value written in three places is one value."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chase.toml"
        path.write_text(f"[control]\ninterval_s = {show(seconds)}\n")
        found = {
            load(service_file=path, env={}).config.control.interval_s,
            load(env={"CHASE_CONTROL__INTERVAL_S": show(seconds)}).config.control.interval_s,
            load(overrides={"control.interval_s": seconds}, env={}).config.control.interval_s,
        }

    assert found == {seconds}
