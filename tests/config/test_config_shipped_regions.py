"""The region files that ship: what each must have, and what they have together."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from chase.build import prices_of, sources_of
from chase.clock import ManualClock
from chase.config import config_dir, load, load_region, region_ids
from chase.config.places import AWS, AZURE, GOOGLE, TIME_ZONES
from providers import registry
from providers.base import Kind, Scope
from providers.session import Session

SHIPPED = region_ids()
REGIONS = {region: load_region(region) for region in SHIPPED}
WANTED = {
    *(
        "au-nsw",
        "au-sa",
        "au-vic",
        "br-cs",
        "ca-on",
        "cl-sen",
        "de",
        "dk1",
        "dk2",
        "es",
        "fr",
        "gb",
        "it-no",
        "nl",
        "no",
    ),
    *("pl", "se", "us-cal-ciso", "us-mida-pjm", "us-ny-nyis", "us-tex-erco", "za"),
}
EUROPE = {
    *("at", "be", "bg", "ch", "cz", "ee", "fi", "gr", "hr", "hu", "ie", "is", "it", "lt", "lu", "lv", "pt", "ro", "rs"),
    *("si", "sk"),
}
KEYLESS = {"caiso", "energinet", "energy_charts", "ieso", "neso", "open_electricity", "rte", "smard"}
TOKENS = {"eia": "EIA_API_KEY", "electricity_maps": "ELECTRICITYMAPS_TOKEN", "entsoe": "ENTSOE_TOKEN"}
ODBL = "Contains information from Electricity Maps, made available under the Open Database License (ODbL) 1.0"
NOTICE = (config_dir().parent / "NOTICE").read_text()
NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)

every = pytest.mark.parametrize("region", SHIPPED)


@pytest.fixture(scope="module")
def session():
    session = Session()
    yield session
    session.close()


def test_the_grids_that_were_asked_for_are_there():
    """At least 24, and with them a region for anybody in Europe, North America, Great Britain or Australia."""
    assert len(SHIPPED) >= 24
    assert set(SHIPPED) >= WANTED | EUROPE
    assert {f"au-{state}" for state in ("nsw", "qld", "sa", "tas", "vic", "wa")} <= set(SHIPPED)


@every
def test_a_shipped_region_loads_and_is_whole(region):
    """Each has its file's name, a real time zone, sources, and a typical profile of its own scope."""
    found = REGIONS[region]

    assert found.id == region
    assert ZoneInfo(found.time_zone)
    assert found.sources
    assert found.typical.scope == found.scope
    assert [len(row) for row in found.typical.table] == [24] * 12
    assert load(region=region, env={}).config.service.region == region


@every
def test_every_source_can_be_made_as_it_is_configured(region, session):
    """Each provider takes its zone and its options, with and without its token; nothing is asked."""
    found, clock = REGIONS[region], ManualClock(NOW)
    tokens = {source.token_env: "user:a-token" for source in (*found.sources, *found.prices) if source.token_env}
    for env in ({}, tokens):
        skipped: list[str] = []
        given = {"session": session, "clock": clock, "env": env, "events": lambda *a, to=skipped, **_: to.append(a)}
        assert len(sources_of(found, **given)) == len(found.sources)
        assert len(prices_of(found, **given)) == len(found.prices)
        assert skipped == []


@every
def test_a_keyless_source_is_first_or_second(region):
    """Where there is one at all, so that a newcomer has a live signal."""
    providers = [source.provider for source in REGIONS[region].sources]

    if KEYLESS & set(providers):
        assert KEYLESS & set(providers[:2])


def test_the_regions_without_a_keyless_source_are_these():
    """Where nobody gives intensity or a mix without a key: the US but for California, and some others."""
    without = {region for region in SHIPPED if not KEYLESS & {s.provider for s in REGIONS[region].sources}}

    assert {region for region in without if not region.startswith("us-")} == {
        "br-cs",
        "ca-ab",
        "ca-bc",
        "ca-qc",
        "cl-sen",
        "is",
        "it-no",
        "za",
    }
    assert {region for region in SHIPPED if region.startswith("us-")} - without == {"us-cal-ciso"}


@every
def test_a_source_that_needs_a_token_says_which_variable(region):
    """One name for each vendor in all files; what needs no key names none."""
    found = REGIONS[region]

    for source in (*found.sources, *found.prices):
        assert source.token_env == TOKENS.get(source.provider)


@every
def test_sources_are_asked_for_the_regions_scope(region):
    """Whoever can give both is told; a provider of direct figures alone serves a direct region."""
    found = REGIONS[region]

    for source in found.sources:
        if source.provider in {"eia", "electricity_maps", "entsoe", "ieso", "open_electricity", "smard"}:
            assert source.options["scope"] == found.scope
        if source.provider in {"caiso", "energinet", "neso", "rte"}:
            assert found.scope == "direct"
        if source.provider == "open_electricity":
            assert source.options["feed"] == "public"
        if source.provider == "energy_charts":
            assert found.scope == "lifecycle"
            assert "scope" not in source.options


@every
def test_prices_are_in_the_regions_currency(region):
    """Providers of one currency serve regions that count in it, and every market with a keyless source has it first."""
    found = REGIONS[region]

    currencies = {"energy_charts": "EUR", "energinet": "EUR", "entsoe": "EUR", "octopus": "GBP"}
    assert {currencies[source.provider] for source in found.prices} <= {found.currency}
    if found.prices and region != "ie":  # whose market energy-charts does not have
        assert found.prices[0].token_env is None
    assert {source.provider for source in found.prices} <= set(registry.price_names())


@every
def test_licences_are_in_the_file_and_in_the_notice(region):
    """Who made the figures of a typical profile is said where they are and in NOTICE, in the words they ask for."""
    typical = REGIONS[region].typical

    assert re.search(rf"(?<![a-z0-9-]){region}(?![a-z0-9-])", NOTICE)
    assert str(typical.year) in typical.source
    assert (ODBL in typical.licence) == ("Electricity Maps" in typical.source)
    assert ODBL in NOTICE


@every
def test_a_flat_profile_says_that_it_is_one(region):
    """A yearly average is called so where the figures are from, and no hourly one is."""
    typical = REGIONS[region].typical
    names = ("yearly average", "over the year", "scope 2 factor")

    assert any(name in typical.source for name in names) == typical.flat
    assert len({value for row in typical.table for value in row}) == 1 or not typical.flat


@every
def test_what_is_typical_is_what_a_grid_can_be(region):
    """Between Quebec's water and Poland's coal; never a placeholder."""
    typical = REGIONS[region].typical

    assert all(15 < value < 950 for row in typical.table for value in row)


def test_typical_days_look_like_their_grids():
    """California's summer noon is far below its evening; Germany is dirtier than Great Britain."""
    ciso, de, gb = (REGIONS[region].typical for region in ("us-cal-ciso", "de", "gb"))

    assert ciso.at(6, 20) < 0.75 * ciso.at(6, 4)  # 13:00 and 21:00 by the sun there
    assert min(min(row) for row in de.g_per_kwh) > min(min(row) for row in gb.g_per_kwh)


def test_great_britain_is_asked_without_a_key_first():
    """Out of the box, without any token, one region has a live source with a forecast."""
    assert [source.provider for source in REGIONS["gb"].sources] == ["neso", "electricity_maps"]


@every
def test_no_file_holds_anything_of_a_person(region):
    """No address of this machine, no token: what is in a file is in everybody's hands."""
    text = (config_dir() / "regions" / f"{region}.toml").read_text()

    assert not re.search(r"base_url|/home|localhost|127\.0|[A-Za-z0-9]{32}", text)
    assert os.sep + "work" not in text


# Places


@pytest.mark.parametrize("table", [AWS, GOOGLE, AZURE], ids=["aws", "google", "azure"])
def test_every_cloud_region_of_the_table_is_a_region_of_ours(table):
    """No name leads to a file that does not ship, and each is written as it is looked up."""
    assert set(table.values()) <= set(SHIPPED)
    assert all(name == name.lower().strip() for name in table)


def test_every_time_zone_of_the_table_exists_and_leads_somewhere():
    """Each is known to Python, names a region, and none twice."""
    for zone, regions in TIME_ZONES.items():
        assert ZoneInfo(zone)
        assert regions
        assert set(regions) <= set(SHIPPED)
        assert len(set(regions)) == len(regions)


@every
def test_every_region_is_guessed_in_its_own_time_zone(region):
    """So nobody who lives on a grid that ships is told that there is nothing."""
    assert region in TIME_ZONES[REGIONS[region].time_zone]


def test_a_time_zone_leads_to_regions_that_keep_its_time():
    """Whom a zone names has the same time there at some place: Kentucky's is Ohio's, and never Texas'."""
    for zone, regions in TIME_ZONES.items():
        near = {REGIONS[region].time_zone for region in regions}
        offsets = {ZoneInfo(other).utcoffset(NOW) for other in near}
        assert abs(min(offsets) - ZoneInfo(zone).utcoffset(NOW)).total_seconds() <= 3600, zone


def test_flat_profiles_become_typical_points(session):
    """The same value at each hour of the year, labelled as typical, with the source and licence beside it."""
    from chase.build import _typical

    region = REGIONS["fr"]
    provider = _typical(region, session, ManualClock(NOW))

    points = provider.observe(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 8, tzinfo=UTC)).points

    assert len(points) == 7 * 24
    assert {(point.g_per_kwh, point.kind, point.scope) for point in points} == {(32.0, Kind.TYPICAL, Scope.DIRECT)}
    assert "RTE" in points[0].method
