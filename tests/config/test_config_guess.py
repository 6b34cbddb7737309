"""Guessing a region from cloud variables and the time zone, offline."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.config import region_ids
from chase.config.guess import Sure, guess, time_zone

NOWHERE = Path("/nonexistent")


@pytest.fixture
def machine(tmp_path):
    """A root folder whose /etc says ``link`` and ``text`` of the time zone."""

    def make(link: str = "", text: str = "") -> Path:
        (tmp_path / "etc").mkdir()
        if link:
            (tmp_path / "etc/localtime").symlink_to(link)
        if text:
            (tmp_path / "etc/timezone").write_text(text)
        return tmp_path

    return make


def found(env=None, root=NOWHERE):
    return [(candidate.region, candidate.sure.value) for candidate in guess(env or {}, root=root).candidates]


@pytest.mark.parametrize(
    ("variable", "value", "region", "sure"),
    [
        ("AWS_REGION", "eu-central-1", "de", Sure.LIKELY),
        ("AWS_DEFAULT_REGION", "eu-central-1", "de", Sure.POSSIBLE),
        ("AWS_REGION", " US-EAST-1\n", "us-mida-pjm", Sure.LIKELY),
        ("GOOGLE_CLOUD_REGION", "europe-west9", "fr", Sure.LIKELY),
        ("CLOUDSDK_COMPUTE_REGION", "us-central1", "us-midw-miso", Sure.POSSIBLE),
        ("CLOUDSDK_COMPUTE_ZONE", "europe-north1-b", "fi", Sure.POSSIBLE),
        ("REGION_NAME", "West Europe", "nl", Sure.LIKELY),
        ("AZURE_REGION", "westus3", "us-sw-azps", Sure.LIKELY),
        ("AZURE_LOCATION", "UK South", "gb", Sure.POSSIBLE),
    ],
)
def test_a_clouds_variable_names_a_grid(variable, value, region, sure):
    """In any way in which it is written; what people set for their tools is less sure than what a cloud sets."""
    (candidate,) = guess({variable: value}, root=NOWHERE).candidates

    assert (candidate.region, candidate.sure) == (region, sure)
    assert variable in candidate.why


def test_a_cloud_region_without_a_file_is_told():
    """Nobody is led to another grid; the sign is named, so that a file of one's own can be made."""
    answer = guess({"AWS_REGION": "ap-southeast-1"}, root=NOWHERE)

    assert answer.candidates == ()
    assert answer.notes[0] == "AWS_REGION is 'ap-southeast-1': no file here is of the grid of that AWS region"


@pytest.mark.parametrize(
    ("env", "link", "text", "zone", "where"),
    [
        ({"TZ": "Europe/Berlin"}, "/usr/share/zoneinfo/Europe/Paris", "", "Europe/Berlin", "TZ"),
        ({"TZ": ":Europe/Berlin"}, "", "", "Europe/Berlin", "TZ"),
        ({"TZ": "/usr/share/zoneinfo/Europe/Berlin"}, "", "", "Europe/Berlin", "TZ"),
        ({"TZ": "CET-1CEST"}, "/usr/share/zoneinfo/Europe/Paris", "", "Europe/Paris", "/etc/localtime"),
        ({}, "/usr/share/zoneinfo/posix/Australia/Sydney", "", "Australia/Sydney", "/etc/localtime"),
        (
            {},
            "../usr/share/zoneinfo/America/Indiana/Indianapolis",
            "",
            "America/Indiana/Indianapolis",
            "/etc/localtime",
        ),
        ({}, "/usr/share/zoneinfo/GB", "", "GB", "/etc/localtime"),
        ({}, "", "Europe/Madrid\n", "Europe/Madrid", "/etc/timezone"),
        ({}, "/etc/something-else", "Europe/Madrid\n", "Europe/Madrid", "/etc/timezone"),
        ({}, "/usr/share/zoneinfo/Etc/UTC", "Europe/Madrid\n", "Etc/UTC", "/etc/localtime"),
        ({"TZ": ""}, "", "", "", ""),
        ({}, "", "\x1b[31m\n", "", ""),
    ],
)
def test_the_time_zone_is_read_where_it_is_said(machine, *, env, link, text, zone, where):
    """TZ, then where the link of /etc/localtime leads, then /etc/timezone; a rule and a strange file are no names."""
    said = time_zone(env, machine(link, text))

    assert said[0] == zone
    assert not zone or said[1] == where


def test_a_time_zone_of_one_grid_is_likely():
    """Germany's clock is Germany's grid's, unless its owner is elsewhere."""
    assert found({"TZ": "Europe/Berlin"}) == [("de", "likely")]


def test_a_time_zone_that_grids_share_lists_all():
    """New York's time is that of PJM, NYISO, ISO-NE and more: each is possible, and it says of how many it is one."""
    answer = guess({"TZ": "America/New_York"}, root=NOWHERE)

    regions = [candidate.region for candidate in answer.candidates]
    assert {"us-mida-pjm", "us-ny-nyis", "us-ne-isne"} <= set(regions)
    assert {candidate.sure for candidate in answer.candidates} == {Sure.POSSIBLE}
    assert f"which {len(regions)} of our grids share" in answer.candidates[0].why
    assert answer.best is None


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "Asia/Tokyo", "Europe/Atlantis"])
def test_a_time_zone_that_says_nothing_is_told(zone):
    """Servers run on UTC: no guess, and why."""
    answer = guess({"TZ": zone}, root=NOWHERE)

    assert answer.candidates == ()
    assert zone in answer.notes[0]


def test_two_kinds_of_signs_that_agree_are_sure():
    """A cloud's region and the clock: one of several shared grids becomes the one."""
    answer = guess({"TZ": "America/New_York", "AWS_REGION": "us-east-1"}, root=NOWHERE)

    assert (answer.best.region, answer.best.sure) == ("us-mida-pjm", Sure.SURE)
    assert "AWS_REGION is us-east-1; the time zone is America/New_York" in answer.best.why


def test_two_signs_of_one_kind_bear_nothing_out():
    """AWS_REGION and AWS_DEFAULT_REGION are mostly set by the same hand."""
    assert found({"AWS_REGION": "eu-central-1", "AWS_DEFAULT_REGION": "eu-central-1"}) == [("de", "likely")]


def test_signs_that_contradict_each_other_leave_the_choice_to_a_person():
    """A laptop in Berlin with Ireland's cloud in its environment: both are shown, none is taken."""
    answer = guess({"TZ": "Europe/Berlin", "AWS_REGION": "eu-west-1"}, root=NOWHERE)

    assert [candidate.region for candidate in answer.candidates] == ["ie", "de"]
    assert answer.best is None


def test_a_possible_region_alone_is_not_taken():
    """What a client's variable says may be true of a machine far away."""
    assert guess({"AWS_DEFAULT_REGION": "eu-west-1"}, root=NOWHERE).best is None


@given(
    env=st.dictionaries(
        st.sampled_from(["TZ", "AWS_REGION", "AWS_DEFAULT_REGION", "CLOUDSDK_COMPUTE_ZONE", "REGION_NAME"]),
        st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=300)
        | st.sampled_from(["Europe/Berlin", "US/Eastern", "us-east-1", "europe-west3-c", "West Europe", "..", "/"]),
    )
)
def test_any_environment_leads_to_regions_that_ship(env):
    """Whatever is in the variables: no error, no region that is not there, each once, the surest first."""
    answer = guess(env, root=NOWHERE)

    regions = [candidate.region for candidate in answer.candidates]
    assert set(regions) <= set(region_ids())
    assert len(regions) == len(set(regions))
    ranks = [list(Sure).index(candidate.sure) for candidate in answer.candidates]
    assert ranks == sorted(ranks)
    assert all(len(note) < 400 for note in answer.notes)


def test_guessing_needs_the_standard_library_only():
    """It is cheap, and it opens no connection: no library and no socket is loaded for it."""
    code = (
        "import sys\nfrom chase.config.guess import guess\nguess()\n"
        "print([name for name in ('pydantic', 'requests', 'socket', 'providers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout == "[]\n"
