"""SMARD: weeks that begin on Monday in Berlin, a file for each fuel, MWh in intervals named by their start."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import ClassVar
from zoneinfo import ZoneInfo

import mix_fakes
import pytest
from grid_server import NOW, Answer, as_json
from http_suite import HttpProviderSuite
from mix_fakes import SMARD_MWH, milliseconds

from providers.base import BadRequest, Boundary, Kind, NoData, SchemaError, Scope, Signal, Transient
from providers.smard import Smard

HOUR = timedelta(hours=1)
BERLIN = ZoneInfo("Europe/Berlin")
WEEK = datetime(2026, 3, 1, 23, tzinfo=UTC)  # Monday, 2 March, in Berlin
SEVEN = datetime(2026, 3, 4, 7, tzinfo=UTC)  # the end of the last hour that is published
FACTORS = {
    1223: 1113,
    1225: 12.62,
    1226: 10.7,
    1227: 700,
    1228: 50,
    4066: 230,
    4067: 12.62,
    4068: 35.1,
    4069: 1113,
    4071: 503,
}


class _SmardSuite(HttpProviderSuite):
    options: ClassVar[dict] = {}
    MORE_REQUESTS = 20  # an index, and ten fuels in each of two weeks

    def make(self, session, base_url):
        return Smard(zone="DE", options=self.options, base_url=base_url, session=session, now=lambda: self.NOW)

    @pytest.fixture
    def server(self, server):
        server.answer_with(mix_fakes.smard(lambda: self.NOW))
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


class TestSmardHoursSuite(_SmardSuite):
    """By the hour."""


class TestSmardQuartersSuite(_SmardSuite):
    """By the quarter of an hour."""

    options: ClassVar[dict] = {"resolution": "quarterhour"}


@pytest.fixture
def make(server, session, clock):
    server.answer_with(mix_fakes.smard(clock.now))

    def make(zone="DE", **options):
        return Smard(zone=zone, options=options, base_url=server.url, session=session, now=clock.now)

    return make


def changed(server, clock, files, index=None):
    """The source in order, but for the files of these fuels: a function of the week, an answer, or a document."""
    healthy = mix_fakes.smard(clock.now)

    def answer(request):
        if "/index_" in request.path:
            return healthy(request) if index is None else as_json(index)
        code = int(request.path.split("/")[1])
        other = files.get(code)
        if other is None:
            return healthy(request)
        if callable(other):
            other = other(json.loads(healthy(request).body))
        return other if isinstance(other, Answer) else as_json(other)

    server.answer_with(answer)


def series(change):
    """A week's document with each pair put through ``change``."""
    return lambda document: {**document, "series": [change(at, mwh) for at, mwh in document["series"]]}


def at_seven(change):
    """Only the last hour that is published is another."""
    return series(lambda at, mwh: change(at, mwh) if at == milliseconds(SEVEN - HOUR) else [at, mwh])


def intensity(mwh):
    return sum(mwh[code] * FACTORS[code] for code in mwh) / sum(mwh.values())


# What is asked and what it means


def test_a_stamp_is_the_start_of_its_hour(make):
    """Nulls at the end are what is not published yet."""
    points = make().observe(NOW - 3 * HOUR, NOW).points
    assert [point.start for point in points] == [SEVEN - HOUR]
    assert points[0].end == SEVEN


def test_the_intensity_is_that_of_its_mix(make):
    """With the figures for Germany."""
    (point,) = make().observe(NOW - 3 * HOUR, NOW).points
    assert point.g_per_kwh == pytest.approx(intensity({**SMARD_MWH, 4068: 4 * mix_fakes.sun(SEVEN + 5 * HOUR)}))
    labels = (point.kind, point.signal, point.scope, point.boundary, point.source, point.zone, point.method)
    wanted = (Kind.MEASURED, Signal.AVERAGE, Scope.LIFECYCLE, Boundary.PRODUCTION, "smard", "DE")
    assert labels == (*wanted, "ipcc-ar5.1+em-2025.1 lifecycle, 96 % of known fuel")


def test_the_stack_alone_is_an_option(make):
    """Direct emissions are less, and marked so."""
    (point,) = make(scope="direct").observe(NOW - 3 * HOUR, NOW).points
    assert (point.scope, point.method) == (Scope.DIRECT, "ipcc-ar5.1 direct, 96 % of known fuel")


def test_an_index_and_a_file_for_each_fuel_are_asked(make, server):
    """Of each week that is needed; nuclear power and pumped storage are not asked for."""
    make().observe(NOW - 3 * HOUR, NOW)
    paths = [request.path for request in server.requests]
    assert paths[0] == "/4071/DE/index_hour.json"
    assert sorted(paths[1:]) == sorted(f"/{code}/DE/{code}_DE_hour_{milliseconds(WEEK)}.json" for code in SMARD_MWH)


@pytest.mark.parametrize(
    ("zone", "options", "region"),
    [
        ("DE", {}, "DE"),
        ("DE-LU", {}, "DE"),
        ("AT", {}, "AT"),
        ("LU", {}, "LU"),
        ("DE", {"region": "50Hertz"}, "50Hertz"),
        ("home", {"region": "TransnetBW"}, "TransnetBW"),
    ],
)
def test_the_region_begins_the_zone_or_is_an_option(make, server, zone, options, region):
    """The zone is else a label."""
    points = make(zone, **options).observe(NOW - 3 * HOUR, NOW).points
    assert {request.path.split("/")[2] for request in server.requests} == {region}
    assert {point.zone for point in points} == {zone}


@pytest.mark.parametrize(("zone", "options"), [("FR", {}), ("home", {}), ("DE", {"region": "Berlin"})])
def test_a_zone_that_names_no_region_is_refused(make, zone, options):
    """With those that there are."""
    with pytest.raises(BadRequest, match="50Hertz"):
        make(zone, **options)


def test_quarters_have_a_quarter_of_the_energy(make):
    """MWh of 15 minutes are four times as many MW, which small own uses are judged by."""
    quarters = make(resolution="quarterhour").observe(NOW - 4 * HOUR, NOW).points
    hours = make().observe(NOW - 4 * HOUR, NOW).points
    assert [point.end - point.start for point in quarters] == [HOUR / 4] * 8
    assert quarters[-1].g_per_kwh == pytest.approx(hours[-1].g_per_kwh)
    assert make(resolution="quarterhour").capabilities.step_s == 900


def test_it_does_not_look_ahead(make, server):
    """Nothing is asked for what is to come."""
    assert not make().forecast(NOW, NOW + 5 * HOUR).points
    assert not make().observe(NOW + HOUR, NOW + 5 * HOUR).points
    assert not server.requests


@pytest.mark.parametrize(("monday", "hours"), [("2026-03-23", 167), ("2026-10-19", 169), ("2026-06-01", 168)])
def test_each_hour_of_a_clock_change_is_there_once(server, session, monday, hours):
    """Weeks of 167 and of 169 hours, and the days in them of 23 and of 25, without a hole and without an overlap."""
    local = datetime.fromisoformat(monday).replace(tzinfo=BERLIN)
    start, end = (at.astimezone(UTC) for at in (local, local + timedelta(days=7)))
    assert (end - start) // HOUR == hours
    before = (local - timedelta(days=7)).astimezone(UTC)
    lengths = {milliseconds(before): round((start - before) / HOUR), milliseconds(start): hours}

    def answer(request):
        code, name = request.path.split("/")[1], request.path.rsplit("_", 1)[1]
        if name == "hour.json":
            return as_json({"timestamps": sorted(lengths)})
        begin = int(name.removesuffix(".json"))
        return as_json(mix_fakes.smard_week(int(code), begin, HOUR, end, lengths[begin]))

    server.answer_with(answer)
    provider = Smard(zone="DE", options={}, base_url=server.url, session=session, now=lambda: end + HOUR)
    points = provider.observe(start, end).points
    assert len(points) == hours
    assert (points[0].start, points[-1].end) == (start, end)
    assert all(one.end == other.start for one, other in pairwise(points))


# Weeks


def test_only_weeks_that_matter_are_read(make, server):
    """A day before what is wanted belongs to it."""
    make().observe(WEEK + 30 * HOUR, NOW)
    assert len(server.requests) == 11
    server.requests.clear()
    make().observe(WEEK + 20 * HOUR, NOW)
    assert len(server.requests) == 21


def test_a_long_time_is_refused(make):
    """It would take hundreds of files."""
    with pytest.raises(BadRequest, match="8 weeks are too many at once; ask for at most 6"):
        make().observe(NOW - timedelta(days=45), NOW)


def test_a_month_is_what_a_forecast_needs(make):
    """28 days are answered, and have no hole."""
    points = make().observe(NOW - timedelta(days=28), NOW).points
    assert all(one.end == other.start for one, other in pairwise(points))
    assert len(points) == 28 * 24 - 2


def test_nuclear_power_is_asked_for_while_there_was_some(server, session):
    """The last plants stopped on 15 April 2023."""
    monday = datetime(2023, 3, 12, 23, tzinfo=UTC)
    server.answer_with(mix_fakes.smard(lambda: monday + timedelta(days=3)))
    now = monday + timedelta(days=3)
    provider = Smard(zone="DE", options={}, base_url=server.url, session=session, now=lambda: now)
    assert provider.observe(now - 4 * HOUR, now).points
    assert f"/1224/DE/1224_DE_hour_{milliseconds(monday)}.json" in [request.path for request in server.requests]


@pytest.mark.parametrize(
    "stamps", [[], [milliseconds(NOW + timedelta(days=3))], [milliseconds(NOW - timedelta(days=99))]]
)
def test_an_index_without_the_week_is_no_data(make, server, clock, stamps):
    """It lies before, behind, or there is none."""
    changed(server, clock, {}, index={"timestamps": stamps})
    with pytest.raises(NoData, match="smard DE has nothing for"):
        make().observe(NOW - 3 * HOUR, NOW)


@pytest.mark.parametrize("stamp", [None, "1772406000000", 1.5, True, -1, 10**15, [], 10**400])
def test_an_index_that_is_no_list_of_milliseconds_is_refused(make, server, clock, stamp):
    """Neither texts nor seconds of another age."""
    changed(server, clock, {}, index={"timestamps": [stamp, milliseconds(WEEK)]})
    with pytest.raises(SchemaError, match="a timestamp of the index"):
        make().observe(NOW - 3 * HOUR, NOW)


# Files


def test_a_region_without_a_fuel_has_no_file_of_it(make, server, clock):
    """Austria has no lignite."""
    changed(server, clock, {1223: as_json({}, 404)})
    (point,) = make("AT").observe(NOW - 3 * HOUR, NOW).points
    mix = {**SMARD_MWH, 4068: 4 * mix_fakes.sun(SEVEN + 5 * HOUR)}
    table = {**FACTORS, 4067: 11, 1225: 12, 1226: 24, 4068: 45, 4069: 820, 4071: 490}
    without = {code: mwh for code, mwh in mix.items() if code != 1223}
    wanted = sum(mwh * table[code] for code, mwh in without.items()) / sum(without.values())
    assert point.g_per_kwh == pytest.approx(wanted)


@pytest.mark.parametrize("lacking", [as_json({}, 404), {"series": []}, series(lambda at, _: [at, None])])
@pytest.mark.parametrize(
    ("region", "code"),
    [("DE", code) for code in (1223, 4069, 4071, 4066, 1226, 4067, 4068)]
    + [("50Hertz", 1223), ("Amprion", 4069), ("TransnetBW", 4069), ("TenneT", 4071), ("AT", 1226), ("LU", 4068)],
)
def test_a_fuel_that_a_region_always_has_is_not_taken_for_none(make, server, clock, region, code, lacking):  # noqa: PLR0917 - pytest names them
    """Of all the time that is asked for its file may be gone, empty, or full of nulls: the rest is not the whole."""
    changed(server, clock, {code: lacking})
    with pytest.raises(NoData, match="too little is known"):
        make(region=region).observe(NOW - 3 * HOUR, NOW)


def test_a_fuel_whose_new_week_is_not_there_yet_is_a_gap(make, server, clock):
    """It was there last week."""
    clock.advance(-(NOW - WEEK - 3 * HOUR).total_seconds())
    now = clock.now()
    whole = make().observe(now - 4 * HOUR, now).points
    missing = {1223: lambda week: as_json({}, 404) if week["series"][0][0] == milliseconds(WEEK) else week}
    changed(server, clock, missing)
    points = make().observe(now - 4 * HOUR, now).points
    assert (whole[-1].end, points[-1].end) == (WEEK + HOUR, WEEK)


@pytest.mark.parametrize("code", [1223, 4067, 4071, 4069])
def test_a_null_of_one_fuel_makes_a_gap(make, server, clock, code):
    """Not an hour without it; the hour before stands."""
    changed(server, clock, {code: at_seven(lambda at, _: [at, None])})
    assert make().observe(NOW - 4 * HOUR, NOW).points[-1].end == SEVEN - HOUR


def test_zero_is_a_figure(make, server, clock):
    """A calm hour has no wind."""
    changed(server, clock, {4067: at_seven(lambda at, _: [at, 0])})
    last = make().observe(NOW - 4 * HOUR, NOW).points[-1]
    mix = {**SMARD_MWH, 4068: 4 * mix_fakes.sun(SEVEN + 5 * HOUR), 4067: 0}
    assert (last.end, last.g_per_kwh) == (SEVEN, pytest.approx(intensity(mix)))


@pytest.mark.parametrize(
    "pair",
    [
        lambda at, mwh: [str(at), mwh],
        lambda at, mwh: [at + 1, mwh],
        lambda at, mwh: [at / 1000, mwh],
        lambda at, mwh: [at + 9 * 86_400_000, mwh],
        lambda at, mwh: [at, "many"],
        lambda at, mwh: [at, 1e300],
        lambda at, mwh: [at, True],
        lambda at, mwh: [at],
        lambda at, mwh: [at, mwh, mwh],
        lambda at, mwh: {"at": at},
        lambda at, mwh: None,
    ],
)
def test_a_pair_that_cannot_be_is_a_gap(make, server, clock, pair):
    """One of gas, which matters. If no pair can be read the source is not what it was."""
    changed(server, clock, {4071: at_seven(pair)})
    assert make().observe(NOW - 4 * HOUR, NOW).points[-1].end == SEVEN - HOUR
    changed(server, clock, {4071: series(pair)})
    with pytest.raises(SchemaError, match="smard DE gas: no row can be used"):
        make().observe(NOW - 4 * HOUR, NOW)


def test_a_revision_is_a_new_answer(make, server, clock):
    """The same hour asked again later gives its new value."""
    before = make().observe(NOW - 3 * HOUR, NOW).points[-1]
    changed(server, clock, {4071: at_seven(lambda at, mwh: [at, mwh / 2])})
    after = make().observe(NOW - 3 * HOUR, NOW).points[-1]
    assert before.start == after.start
    assert before.g_per_kwh != after.g_per_kwh


def test_of_duplicate_pairs_the_last_wins(make, server, clock):
    """They are not added up."""
    whole = make().observe(NOW - 3 * HOUR, NOW).points
    changed(
        server, clock, {4071: lambda week: {**week, "series": [[at, 1] for at, _ in week["series"]] + week["series"]}}
    )
    assert make().observe(NOW - 3 * HOUR, NOW).points[-1].g_per_kwh == whole[-1].g_per_kwh


def test_the_future_was_not_generated(make, server, clock):
    """Figures for hours that have not begun are a skewed clock."""
    changed(server, clock, {code: series(lambda at, _: [at, 1000]) for code in SMARD_MWH})
    assert make().observe(NOW - 3 * HOUR, NOW + 9 * HOUR).points[-1].start == NOW.replace(minute=0)


def test_nothing_published_is_no_data(make, server, clock):
    """A week of nulls."""
    changed(server, clock, {code: series(lambda at, _: [at, None]) for code in SMARD_MWH})
    with pytest.raises(NoData, match="too little is known"):
        make().observe(NOW - 3 * HOUR, NOW)


def test_a_file_that_fails_is_an_error(make, server, clock):
    """Rather than a mix without that fuel."""
    changed(server, clock, {4067: Answer(status=500)})
    with pytest.raises(Transient):
        make().observe(NOW - 3 * HOUR, NOW)


@pytest.mark.parametrize("status", [401, 403])
def test_a_keyless_source_cannot_refuse_a_key(make, server, status):
    """A refusal comes from a gateway before it: nobody is sent to look for a token."""
    server.answer_with(as_json({"message": "Forbidden"}, status))
    with pytest.raises(Transient, match=f"refused with {status} Forbidden"):
        make().observe(NOW - HOUR, NOW)
