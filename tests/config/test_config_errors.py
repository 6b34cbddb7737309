from __future__ import annotations

import traceback

import pytest

from chase.config import load, region_ids
from chase.errors import ConfigError

SECRET = "hunter2-abcdef"


def _error(**arguments) -> str:
    with pytest.raises(ConfigError) as caught:
        load(**arguments)
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize("value", ['"yes"', "1"])
def test_true_and_false_are_the_only_booleans(write, env, value):
    """Neither text nor a number stands for a boolean."""
    path = write(f"[log]\njson = {value}\n")

    assert f"{path}:2: log.json = {value}: must be true or false (the default is false)" in _error(
        service_file=path, env=env
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("intervall_s = 5", "control.intervall_s is not a setting; did you mean interval_s?"),
        ("Interval_S = 5", "control.Interval_S is not a setting; did you mean interval_s?"),
        ("dwell_s = 5", "control.dwell_s is not a setting; did you mean policy.dwell_s?"),
        ("zzz = 5", "control.zzz is not a setting; there are interval_s, heartbeat_s"),
        ('interval_s = "10"', 'control.interval_s = "10": must be a number of seconds, without quotes or unit'),
        ('interval_s = "10s"', 'control.interval_s = "10s": must be a number of seconds, without quotes or unit'),
        ("interval_s = true", "control.interval_s = true: must be a number of seconds"),
        ("interval_s = [5]", "control.interval_s = [5]: must be a number of seconds"),
        ("interval_s = 2020-01-01", "control.interval_s = 2020-01-01: must be a number of seconds"),
        ("interval_s = -1", "control.interval_s = -1: must be greater than 0 (seconds) (the default is 10)"),
        ("interval_s = 0", "control.interval_s = 0: must be greater than 0"),
        ("interval_s = inf", "control.interval_s = inf: must be a finite number"),
        ("interval_s = nan", "control.interval_s = nan: must be a finite number"),
        ("interval_s = 1e9", "control.interval_s = 1e+09: must be less than or equal to 31536000"),
        ('gpus = "nvlm"', "control.gpus = \"nvlm\": must be 'nvml' or 'simulated'; did you mean 'nvml'?"),
        ("gpus = 3", "control.gpus = 3: must be 'nvml' or 'simulated'"),
        ("ramp_w_per_s = -1", "control.ramp_w_per_s = -1: must be greater than or equal to 0 (watts per second)"),
        ("actuator_socket = 5", "control.actuator_socket = 5: must be a path in quotes"),
        ('actuator_socket = "run/a.sock"', 'control.actuator_socket = "run/a.sock": must be an absolute path'),
        ('setter_command = "/bin/set"', 'control.setter_command = "/bin/set": must be a list in [ ]'),
        ('setter_command = ["/bin/set", 5]', "control.setter_command.1 = 5: must be text in quotes"),
        (
            'setter_command = ["/bin/set", "{gpu}"]',
            "has unknown placeholders ['gpu']; there are uuid, index, power_limit_w",
        ),
        ('setter_command = ["/bin/set", "{power_limit_w}"]', "does not say which GPU; put {uuid} or {index} into it"),
        ('setter_command = ["/bin/set", "{uuid}"]', "does not say the limit; put {power_limit_w} or {power_limit_mw}"),
        ('setter_command = ["set", "{uuid}", "{power_limit_w}"]', "does not begin with the absolute path of a program"),
        ('setter_command = ["/bin/set", "{uuid"]', "has a { or } without its pair"),
    ],
)
def test_a_mistake_is_named_with_place_key_value_and_fix(write, env, line, said):
    """Every kind of wrong key or value in a service file gets its own sentence, with file and line before it."""
    path = write(f"[control]\n{line}\n")

    assert _error(service_file=path, env=env).startswith(f"{path}:2: ")
    assert said in _error(service_file=path, env=env)


@pytest.mark.parametrize(
    ("section", "line", "said"),
    [
        ("policy", 'efficiency_above = "p101"', "must be gCO2eq/kWh from 0 to 5000, without quotes, or a percentile"),
        ("policy", 'efficiency_above = "300"', "must be gCO2eq/kWh from 0 to 5000, without quotes, or a percentile"),
        ("policy", 'efficiency_above = "70%"', "must be gCO2eq/kWh"),
        ("policy", 'efficiency_above = "P70"', "must be gCO2eq/kWh"),
        ("policy", "efficiency_above = true", "must be gCO2eq/kWh"),
        ("policy", "speed_below = -1", "must be gCO2eq/kWh"),
        ("policy", "speed_below = inf", "must be gCO2eq/kWh"),
        ("policy", "slowdown = 10", "must be less than or equal to 5"),
        ("policy", "eta = 1.5", "must be less than or equal to 1"),
        ("policy", "max_intensity_g_per_kwh = 0", "must be greater than 0 (gCO2eq/kWh)"),
        ("policy", 'name = "fastest"', "must be 'budget', 'threshold', 'chase', 'static' or 'off'"),
        ("simulated", "count = 2.0", "simulated.count = 2: must be a whole number"),
        ("simulated", "count = 0", "must be greater than or equal to 1"),
        ("simulated", "start = 2023-06-01T00:00:00", "must be a UTC time that ends in Z"),
        ("simulated", "start = 2023-06-01T00:00:00+02:00", "must be a UTC time that ends in Z"),
        ("simulated", 'start = "2023-06-01T00:00:00Z"', "must be a UTC time without quotes"),
        ("simulated", "start = 1685577600", "must be a UTC time without quotes"),
        ("signal", "history_h = 0", "must be greater than or equal to 1 (hours)"),
        ("profile", "drift = 0", "must be greater than 0"),
        ("profile", "min_headroom = 10", "must be less than or equal to 1"),
        ("store", "keep_days = 0.5", "must be a whole number of days"),
        ("service", 'region = ""', "must not be empty"),
        ("service", 'state_dir = "chase"', "must be an absolute path"),
        ("log", 'level = "warn"', "did you mean 'warning'?"),
        ("jobs", "report_s = 1000000000000000000000000000000", "must be less than or equal to 31536000"),
    ],
)
def test_limits_catch_what_cannot_be_meant(write, env, section, line, said):
    """Percentiles, fractions, times and counts outside of what they can be are refused, with the section's name."""
    path = write(f"[{section}]\n{line}\n")

    error = _error(service_file=path, env=env)

    assert error.startswith(f"{path}:2: {section}.")
    assert said in error


def test_all_mistakes_of_a_file_are_shown_in_its_order(write, env):
    """Nobody mends a file one error at a time."""
    path = write('[control]\nlease_s = -1\nintervals = 5\n[polcy]\nx = 1\n[policy]\nname = "of"\n[log]\njson = 1\n')

    lines = _error(service_file=path, env=env).splitlines()

    assert [line.split(": ")[0].rsplit(":", 1)[1] for line in lines] == ["2", "3", "4", "7", "9"]
    assert "polcy is not a setting; did you mean policy?" in lines[2]


def test_mistakes_of_file_environment_and_flags_come_together(write, env):
    """Each is named by where it was made, and a good flag does not hide a bad line."""
    path = write("[control]\ninterval_s = -1\n")

    error = _error(
        service_file=path,
        env={**env, "CHASE_POLICY__DWEL_S": "5", "CHASE_FOO__BAR": "1", "CHASE_STORE__KEEP_DAYS": "many"},
        overrides={"control.interval_s": 5, "policy.eta": 2},
    )

    assert f"{path}:2: control.interval_s = -1" in error
    assert "environment CHASE_POLICY__DWEL_S: policy.dwel_s is not a setting; did you mean dwell_s?" in error
    assert "environment CHASE_FOO__BAR: foo is not a setting" in error
    assert 'environment CHASE_STORE__KEEP_DAYS: store.keep_days = "many": must be a whole number of days' in error
    assert "flag: policy.eta = 2" in error


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[control]\ninterval_s = \n", 2),
        ("[control]\ninterval_s = 5\ninterval_s = 6\n", 3),
        ("[control]\n\n[control]\n", 3),
        ('[service]\nregion = "gb\n', 2),
        ("[control\n", 1),
        ("[control]\nsetter_command = [1,\n", 2),
        ("a = 1 b = 2\n", 1),
    ],
)
def test_bad_toml_names_file_and_line(write, env, text, line):
    """A syntax error, a key twice or an end too early is shown with its line."""
    path = write(text)

    assert _error(service_file=path, env=env).startswith(f"{path}:{line}: this is not TOML: ")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"[control]\n# \xff\n", "is not UTF-8 text (byte 12)"),
        (b"#" * 1_000_001, "is larger than 1000000 bytes"),
        (b"x = " + b"[" * 3000, "this is not TOML"),
        (b"[store]\nkeep_days = " + b"9" * 5000, "this is not TOML"),
    ],
)
def test_what_is_no_text_or_no_settings_file_is_refused(write, env, raw, said):
    """Other files than configuration files end in one sentence, not in a traceback."""
    assert said in _error(service_file=write(raw), env=env)


def test_a_file_that_may_not_be_read_is_named(write, env, monkeypatch):
    """Missing permission is said as such."""
    path = write("[control]\n")

    def refuse(*_arguments, **_named):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "open", refuse)

    assert _error(service_file=path, env=env) == (
        f"{path}: cannot be read: Permission denied; check the path and its permissions"
    )


@pytest.mark.parametrize("text", ["service = 3\n", '[[service]]\nmode = "observe"\n', 'service = "x"\n'])
def test_a_section_must_be_a_table(write, env, text):
    """A section that is a value or a list of tables is refused by its name."""
    path = write(text)

    assert f"{path}:1: service = " in _error(service_file=path, env=env)
    assert "must be a table" in _error(service_file=path, env=env)


@pytest.mark.parametrize(
    "text",
    [
        f'[service]\ntoken = "{SECRET}"\n',
        f'[control]\nELECTRICITYMAPS_TOKEN = "{SECRET}"\n',
        f'electricitymaps_token = "{SECRET}"\n',
        f'[electricity_maps]\ntoken = "{SECRET}"\n',
        f'[[service]]\npassword = "{SECRET}"\n',
        f'[control]\ninterval_s = {{ token = "{SECRET}" }}\n',
    ],
)
def test_a_secret_in_a_service_file_is_refused_and_not_repeated(write, env, text):
    """Neither the message nor the traceback behind it repeats what may be a token."""
    path = write(text)

    with pytest.raises(ConfigError) as caught:
        load(service_file=path, env=env)

    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_secret_under_a_wrong_variable_is_not_repeated(env):
    """A token exported as CHASE_..__TOKEN is refused by the variable's name alone."""
    error = _error(env={**env, "CHASE_SIGNAL__TOKEN": SECRET})

    assert "environment CHASE_SIGNAL__TOKEN: signal.token is not a setting" in error
    assert SECRET not in error


def test_unknown_region_names_the_nearest_and_the_list(write, env):
    """A region that does not exist is refused with the nearest names, the command that lists all, and who asked."""
    path = write('[service]\nregion = "us-cal-iso"\n')
    listing = f"'chase regions list' names all {len(region_ids())}, or give a path to a file"

    assert _error(service_file=path, env=env).startswith(
        f"{path}:2: service.region: region 'us-cal-iso' is unknown; did you mean 'us-cal-ciso'"
    )
    assert _error(service_file=path, env=env).endswith(listing)
    assert _error(region="qqqq", env=env) == f"flag: service.region: region 'qqqq' is unknown; {listing}"
    assert "region file /nowhere/x.toml: there is none; give a path or one of 'chase regions list'" in _error(
        region="/nowhere/x.toml", env=env
    )


def test_unknown_profile_lists_those_there_are(env):
    """A GPU profile that does not exist is refused with the nearest name."""
    error = _error(env={**env, "CHASE_SIMULATED__PROFILE": "a40-resnet"})

    assert error.startswith("environment CHASE_SIMULATED__PROFILE: simulated.profile: profile 'a40-resnet' is unknown")
    assert "did you mean 'a40-resnet50'?" in error
