"""``chase config`` and ``chase regions``."""

from __future__ import annotations

import json
import re

import pytest

SECRET = "s3cr3t-t0ken-value"


def test_show_lists_every_setting(run):
    """Each key of each section is there with its value, as data too."""
    rows = json.loads(run("config", "show", "--json").stdout)
    values = {row["key"]: row["value"] for row in rows}
    assert values["control.interval_s"] == 10.0
    assert values["policy.name"] == "budget"
    assert values["region.id"] == "gb"
    assert len(values) == len(rows)
    assert "control.interval_s" in run("config", "show").stdout


def test_show_origin_names_who_set_what(run, tmp_path):
    """Default, file with its line, environment variable and flag are told apart."""
    config = tmp_path / "chase.toml"
    config.write_text("[control]\ninterval_s = 20\n")
    result = run(
        "config",
        "show",
        "--origin",
        "--json",
        "--config",
        config,
        "--region",
        "de",
        env={"CHASE_POLICY__DWELL_S": "60"},
    )
    origin = {row["key"]: row["origin"] for row in json.loads(result.stdout)}
    assert origin["control.interval_s"] == f"{config}:2"
    assert origin["policy.dwell_s"] == "environment CHASE_POLICY__DWELL_S"
    assert origin["service.region"] == "flag"
    assert origin["jobs.report_s"] == "default"


def test_the_table_shows_origins_only_when_asked(run):
    """Without --origin a person sees keys and values alone."""
    assert "set by" not in run("config", "show").stdout
    assert "set by" in run("config", "show", "--origin").stdout


def test_paths_that_nobody_set_are_shown_as_they_are_in_force(run, tmp_path):
    """The database and the socket that will be used are there, and said to be defaults; data has the path alone."""
    config = tmp_path / "chase.toml"
    config.write_text('[service]\nstate_dir = "/srv/state"\nrun_dir = "/srv/run"\n')
    for arguments in ([], ["--origin"]):
        out = run("config", "show", *arguments, "--config", config).stdout
        assert re.search(r"^service\.db +/srv/state/chase\.sqlite \(default\)", out, re.MULTILINE)
        assert re.search(r"^service\.socket +/srv/run/chase\.sock \(default\)", out, re.MULTILINE)
    rows = {row["key"]: row["value"] for row in json.loads(run("config", "show", "--json", "--config", config).stdout)}
    assert (rows["service.db"], rows["service.socket"]) == ("/srv/state/chase.sqlite", "/srv/run/chase.sock")


def test_a_path_that_somebody_set_is_no_default(run, tmp_path):
    """What the file names is shown as it stands there."""
    config = tmp_path / "chase.toml"
    config.write_text('[service]\ndb = "/srv/my.sqlite"\nsocket = "/srv/my.sock"\n')
    out = run("config", "show", "--config", config).stdout
    assert re.search(r"^service\.db +/srv/my\.sqlite$", out, re.MULTILINE)
    assert re.search(r"^service\.socket +/srv/my\.sock$", out, re.MULTILINE)


def test_truth_is_written_as_the_file_writes_it(run):
    """Every switch is true or false, never yes or no."""
    rows = json.loads(run("config", "show", "--json").stdout)
    lines = dict(line.split(maxsplit=1) for line in run("config", "show").stdout.splitlines())
    switches = {row["key"]: row["value"] for row in rows if isinstance(row["value"], bool)}
    assert switches
    assert {key: lines[key] for key in switches} == {key: str(value).lower() for key, value in switches.items()}


def test_a_token_is_never_shown(run, log):
    """No command that speaks of sources prints what the token's variable holds."""
    env = {"ELECTRICITYMAPS_TOKEN": SECRET}
    for arguments in (
        ["config", "show", "--origin", "--region", "de"],
        ["config", "show", "--json", "--region", "de"],
        ["config", "check", "--region", "de", "--json"],
        ["regions", "show", "de", "--json"],
        ["signal", "de", "--json", "-v", "--db", log.path],
        ["doctor", "--json", "--region", "de", "--db", log.path],
    ):
        result = run(*arguments, env=env)
        assert SECRET not in result.stdout + result.stderr, arguments
        assert result.stdout


def test_check_names_the_files_and_what_is_missing(run):
    """A region whose only source lacks its token is a finding; one with a keyless source is good."""
    good = run("config", "check")
    assert good.exit_code == 0
    assert "gb.toml: good" in good.stdout
    poor = run("config", "check", "--region", "br-cs")
    assert poor.exit_code == 1
    assert "ELECTRICITYMAPS_TOKEN" in poor.stderr
    assert run("config", "check", "--region", "br-cs", env={"ELECTRICITYMAPS_TOKEN": SECRET}).exit_code == 0


def test_check_takes_a_service_file_or_a_region_file(run, tmp_path):
    """Which of the two it is, the file itself says."""
    from chase.config import config_dir

    service = tmp_path / "mine.toml"
    service.write_text('[service]\nmode = "observe"\n')
    document = json.loads(run("config", "check", service, "--json").stdout)
    assert document["files"][0] == str(service)
    region = config_dir() / "regions" / "gb.toml"
    document = json.loads(run("config", "check", region, "--json").stdout)
    assert document == {"ok": True, "files": [str(region)], "problems": document["problems"]}


DOUBTS = {
    "a deadline that is over": (
        "deadline = 2026-01-01T00:00:00Z",
        "gb",
        (
            ":3: policy.deadline 2026-01-01 00:00:00+00:00 is over, so jobs that know their length run at full speed;"
            " give a later one, or max_slowdown in its place"
        ),
    ),
    "money without prices": (
        'minimise = "money"',
        "za",
        (
            ':3: policy.minimise "money": region za has no [[prices]], so carbon alone is made least; give the region a'
            " source of prices, or leave minimise away"
        ),
    ),
}


@pytest.mark.parametrize("doubt", DOUBTS)
def test_check_tells_what_can_hardly_be_meant(run, tmp_path, doubt):
    """Where it is set, what it comes to, and the fix; the file can be used all the same."""
    line, region, text = DOUBTS[doubt]
    path = tmp_path / "mine.toml"
    path.write_text(f"[policy]\n# mine\n{line}\n")
    result = run("config", "check", path, "--region", region, env={"ELECTRICITYMAPS_TOKEN": SECRET})
    assert (result.exit_code, result.stderr) == (0, f"{path}{text}\n")
    path.write_text(f'[policy]\nname = "off"\n{line}\n')
    assert run("config", "check", path, "--region", region, env={"ELECTRICITYMAPS_TOKEN": SECRET}).stderr == ""


@pytest.mark.parametrize(
    "text", ["[service]\nmode = 'sideways'\n", "[servise]\n", "not toml at all", "[region]\nid = 'X Y'\n"]
)
def test_check_of_a_wrong_file_ends_with_two(run, tmp_path, text):
    """The file is named; as JSON the problems are a list."""
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    result = run("config", "check", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "wrong.toml" in result.stderr
    result = run("config", "check", path, "--json")
    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert document["ok"] is False
    assert all("wrong.toml" in problem for problem in document["problems"])


def test_check_of_no_file_ends_with_two(run, tmp_path):
    """A path with nothing there is named."""
    result = run("config", "check", tmp_path / "none.toml")
    assert result.exit_code == 2
    assert "none.toml" in result.stderr


def test_the_environment_names_the_file_too(run, tmp_path):
    """CHASE_CONFIG is as good as --config, and the flag goes before it."""
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text("[control]\ninterval_s = 11\n")
    second.write_text("[control]\ninterval_s = 12\n")
    env = {"CHASE_CONFIG": str(first)}

    def interval(*arguments):
        rows = json.loads(run("config", "show", "--json", *arguments, env=env).stdout)
        return next(row["value"] for row in rows if row["key"] == "control.interval_s")

    assert interval() == 11
    assert interval("--config", second) == 12


def test_regions_are_listed_with_sources_in_order(run):
    """Every shipped region, and in which order its sources are asked."""
    from chase.config import region_ids

    rows = json.loads(run("regions", "list", "--json").stdout)
    assert [row["id"] for row in rows] == region_ids()
    gb = next(row for row in rows if row["id"] == "gb")
    assert [source["provider"] for source in gb["sources"]] == ["neso", "electricity_maps"]
    assert "neso, electricity_maps" in run("regions", "list").stdout


@pytest.mark.parametrize("options", [[], ["--json"], ["--csv"], ["--nl"], ["-v"]])
def test_regions_alone_lists_them(run, options):
    """The name of the one thing that is mostly wanted may be left out, in every form."""
    alone = run("regions", *options)
    assert (alone.exit_code, alone.stdout) == (0, run("regions", "list", *options).stdout)
    assert "gb" in alone.stdout


def test_regions_still_explains_itself(run):
    """Help is help, and an unknown word is no option of the list."""
    assert "Commands:" in run("regions", "--help").stdout
    assert run("regions", "nosuch").exit_code == 2
    assert run("regions", "--nosuch").exit_code == 2


def test_a_region_is_shown_with_its_year(run):
    """Sources with the name of the token's variable, the licence, and a line for each month."""
    out = run("regions", "show", "us-cal-ciso").stdout
    assert "ELECTRICITYMAPS_TOKEN" in out
    assert "ODbL" in out
    assert out.count("at ") >= 24
    document = json.loads(run("regions", "show", "us-cal-ciso", "--json").stdout)
    assert len(document["typical"]["g_per_kwh"]) == 12


def test_a_region_of_ones_own_is_shown_from_its_file(run, quiet_region):
    """A path is as good as a name; one without a typical profile simply has none."""
    out = run("regions", "show", quiet_region).stdout
    assert "1. file (zone quiet" in out
    assert "Default here: policy.efficiency_above = 200" in out
    assert json.loads(run("regions", "show", quiet_region, "--json").stdout)["typical_mean_g_per_kwh"] is None


def test_check_looks_into_the_options_of_sources(run, tmp_path):
    """An option that a provider does not have is a wrong configuration, with a suggestion, and not a skipped source."""
    file = tmp_path / "lab.toml"
    file.write_text(
        '[region]\nid = "lab"\nname = "Lab"\ntime_zone = "UTC"\nsignal = "average"\nscope = "direct"\n'
        'currency = "EUR"\n'
        '[[sources]]\nprovider = "file"\nzone = "XX"\noptions = { pth = "x.csv", scope = "direct" }\n'
    )
    result = run("config", "check", file)
    assert result.exit_code == 2
    assert "'pth'" in result.stderr
    assert "path" in result.stderr
