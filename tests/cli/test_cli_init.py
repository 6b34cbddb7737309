"""``chase init``: a first service file, and ``chase regions guess`` that it rests on."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time

import pytest

from chase.config import load, region_ids

CLOUDS = ("AWS_REGION", "AWS_DEFAULT_REGION", "GOOGLE_CLOUD_REGION", "FUNCTION_REGION", "CLOUDSDK_COMPUTE_REGION")
CLOUDS += ("CLOUDSDK_COMPUTE_ZONE", "REGION_NAME", "AZURE_REGION", "AZURE_LOCATION")


@pytest.fixture(autouse=True)
def nowhere(monkeypatch):
    """A machine that says nothing of where it is, of a user who is not root."""
    for name in (*CLOUDS, "EIA_API_KEY", "ENTSOE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.fixture
def own_file(tmp_path):
    """Where the service of this test's user looks for its file."""
    return tmp_path / "xdg_config_home" / "chase" / "chase.toml"


def test_a_guess_is_written_where_the_service_looks(run, own_file):
    """The file loads, says the region and observe, and the next commands are named."""
    result = run("init", env={"TZ": "Europe/Berlin"})

    assert result.exit_code == 0
    loaded = load()
    assert loaded.service_file == own_file
    assert (loaded.region.id, loaded.config.service.mode) == ("de", "observe")
    assert f"Wrote {own_file}: region de (Germany; the time zone is Europe/Berlin (TZ)), observe mode." in result.stdout
    for command in ("chase doctor --online", "chase serve", "chase exec -- python train.py", "chase status"):
        assert command in result.stdout


def test_the_region_and_the_mode_may_be_named(run, tmp_path):
    """A file elsewhere is named in the commands that follow."""
    path = tmp_path / "mine.toml"
    out = run("init", "--region", "fr", "--control", "--output", path).stdout
    loaded = load(service_file=path)
    assert (loaded.region.id, loaded.config.service.mode) == ("fr", "control")
    assert f"chase serve --config {path}" in out


def test_a_region_file_of_ones_own_is_named_by_its_whole_path(run, tmp_path, quiet_region):
    """The service runs in another folder, so a relative path would lead nowhere; quotes in it are no trouble."""
    odd = quiet_region.with_name('it\'s "mine".toml')
    quiet_region.rename(odd)
    assert run("init", "--region", f"./{odd.name}", "--output", tmp_path / "x.toml").exit_code == 0
    assert load(service_file=tmp_path / "x.toml").region.id == "quiet"


@pytest.mark.parametrize("region", region_ids())
def test_the_file_of_every_region_can_be_used(run, tmp_path, region):
    """Each that ships gives a file that loads, and names the variables of its tokens where it needs them."""
    document = json.loads(run("init", "--region", region, "--output", tmp_path / "x.toml", "--json").stdout)
    assert load(service_file=tmp_path / "x.toml").region.id == region
    assert document["region"] == region
    for token in document["tokens"]:
        assert token.endswith(("_TOKEN", "_KEY"))


def test_a_file_that_is_there_is_not_touched(run, own_file):
    """Only with --force, and then it is replaced as a whole."""
    own_file.parent.mkdir(parents=True)
    own_file.write_text("# mine\n")
    refused = run("init", "--region", "gb")
    assert refused.exit_code == 1
    assert f"{own_file} is there already: write over it with --force" in refused.stderr
    assert own_file.read_text() == "# mine\n"
    assert run("init", "--region", "gb", "--force").exit_code == 0
    assert "# mine" not in own_file.read_text()
    assert [path.name for path in own_file.parent.iterdir()] == ["chase.toml"]


@pytest.mark.parametrize("kind", ["pipe", "socket", "link to a pipe"])
def test_what_is_no_file_is_never_replaced(run, tmp_path, kind):
    """A device, a pipe or a socket stays what it is, also with --force: root could replace /dev/null."""
    place = tmp_path / "place"
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(place))
    else:
        os.mkfifo(place)
    output = tmp_path / "link" if kind.startswith("link") else place
    if output != place:
        output.symlink_to(place)
    before = place.stat()
    for force in ([], ["--force"]):
        refused = run("init", "--region", "gb", "--output", output, *force)
        assert refused.exit_code == 1
        assert f"{output} is there and is no file, so it is not replaced" in refused.stderr
    assert (place.stat().st_ino, place.stat().st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_one(run, tmp_path, there):
    """Where the file is kept elsewhere, such as by who manages the machine, it is that one which is written."""
    real, link = tmp_path / "managed" / "chase.toml", tmp_path / "chase.toml"
    real.parent.mkdir()
    if there:
        real.write_text("old")
    link.symlink_to(real)
    assert run("init", "--region", "gb", "--output", link, "--force").exit_code == 0
    assert link.is_symlink()
    assert load(service_file=real).region.id == "gb"


def test_nothing_is_written_that_cannot_be_used(run, own_file):
    """A variable of the environment that no service could start with is told, and no file appears."""
    result = run("init", "--region", "gb", env={"CHASE_CONTROL__INTERVAL_S": "never"})
    assert result.exit_code == 2
    assert "CHASE_CONTROL__INTERVAL_S" in result.stderr
    assert list(own_file.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, "nothing tells which region this is; the time zone is UTC (TZ), which says nothing of the grid"),
        ({"TZ": "America/New_York"}, "several regions may be meant: us-mida-pjm, us-ny-nyis, us-ne-isne"),
        ({"TZ": "Europe/Berlin", "AWS_REGION": "eu-west-1"}, "several regions may be meant: ie, de"),
        ({"AWS_REGION": "ap-southeast-1"}, "no file here is of the grid of that AWS region"),
    ],
)
def test_off_a_terminal_what_is_not_known_is_not_made_up(run, own_file, env, said):
    """Another grid's signal would be a wrong number: nothing is written, and --region is named."""
    result = run("init", env=env)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "--region" in result.stderr
    assert not own_file.exists()


@pytest.mark.parametrize("region", ["atlantis", "./nothing.toml"])
def test_a_region_that_does_not_exist_is_refused(run, own_file, region):
    """With what was meant, as everywhere."""
    assert run("init", "--region", region).exit_code == 2
    assert not own_file.exists()


def test_a_folder_that_may_not_be_written_is_told(run, tmp_path):
    """A person's error is one line and exit code 1."""
    blocked = tmp_path / "a-file"
    blocked.write_text("")
    result = run("init", "--region", "gb", "--output", blocked / "chase.toml")
    assert result.exit_code == 1
    assert f"{blocked / 'chase.toml'} cannot be written" in result.stderr
    assert "--output" in result.stderr


def test_a_region_without_a_keyless_source_says_what_it_needs(run, tmp_path):
    """Until a token is set its typical profile is gone by."""
    out = run("init", "--region", "us-ne-isne", "--output", tmp_path / "x.toml").stdout
    assert "Its sources need a token; until then its typical profile is gone by. Set EIA_API_KEY or " in out
    more = run("init", "--region", "de", "--output", tmp_path / "y.toml").stdout
    assert "With ELECTRICITYMAPS_TOKEN or ENTSOE_TOKEN set, more of its sources answer." in more


def test_on_a_terminal_it_asks_which_of_them(tmp_path):
    """Several grids share the clock of New York: they are listed, the answer is taken, and the file says it."""
    environment = {**os.environ, "TZ": "America/New_York", "HOME": str(tmp_path), "CHASE_SERVICE__STATE_DIR": "/x"}
    command = [sys.executable, "-m", "chase", "init", "--output", str(tmp_path / "x.toml")]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    try:
        seen = _read_until(ours, "Region [us-mida-pjm]:")
        assert "us-ny-nyis" in seen
        assert "possible" in seen
        os.write(ours, b"us-ny-nyis\n")
        _read_until(ours, "Next:")
        assert process.wait(timeout=30) == 0
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(ours)
    assert 'region = "us-ny-nyis"' in (tmp_path / "x.toml").read_text()


def _read_until(descriptor: int, text: str) -> str:
    seen, deadline = "", time.monotonic() + 30
    while text not in seen:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, seen
        seen += os.read(descriptor, 4096).decode()
    return seen


# chase regions guess


def test_guess_shows_what_fits_and_why(run):
    """How sure each is, and which sign speaks for it."""
    rows = json.loads(run("regions", "guess", "--json", env={"TZ": "Europe/Rome", "AWS_REGION": "eu-south-1"}).stdout)
    assert [(row["region"], row["sure"]) for row in rows] == [("it-no", "sure"), ("it", "possible")]
    assert "AWS_REGION is eu-south-1" in rows[0]["why"]
    out = run("regions", "guess", env={"TZ": "Europe/Rome"}).stdout
    assert "Northern Italy" in out
    assert "which 2 of our grids share" in out


def test_guess_of_nothing_ends_with_one(run):
    """The signs that led nowhere are named, and what to do."""
    result = run("regions", "guess")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Nothing fits" in result.stderr
    assert "the time zone is UTC (TZ)" in result.stderr
