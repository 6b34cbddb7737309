"""OpenElectricity: network time, what counts as generation, rows of which half is missing, a file without a key."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import pairwise
from typing import ClassVar

import open_electricity_fakes as fakes
import pytest
from grid_server import NOW, Answer, Request, as_json, html
from http_suite import TOKEN, HttpProviderSuite
from hypothesis import given
from hypothesis import strategies as st
from mutating import Replayed, mutated, outcome
from open_electricity_fakes import AEST, ENERGY, G_PER_KWH, HOUR, STEP

from providers.base import (
    AuthError,
    BadRequest,
    Boundary,
    Kind,
    NoData,
    PlanError,
    RateLimited,
    SchemaError,
    Scope,
    Signal,
    Transient,
)
from providers.open_electricity import OpenElectricity
from providers.reading import MOST_G_PER_KWH
from providers.redact import Secret

DAY = timedelta(days=1)
HALF = timedelta(minutes=30)
LAST = NOW.replace(minute=0) - HOUR  # the newest hour that is over


def _made(session, base_url, now, zone="NSW1", token=TOKEN, **options):
    secret = Secret(token) if token else None
    given_ = {"zone": zone, "options": options, "token": secret, "base_url": base_url}
    return OpenElectricity(**given_, session=session, now=now)


class TestOpenElectricitySuite(HttpProviderSuite):
    """By key."""

    options: ClassVar[dict] = {}

    def answer(self):
        return fakes.api(lambda: self.NOW)

    def make(self, session, base_url):
        return _made(session, base_url, lambda: self.NOW, **self.options)

    @pytest.fixture
    def server(self, server):
        server.answer_with(self.answer())
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


class TestOpenElectricityPublicSuite(TestOpenElectricitySuite):
    """Without one."""

    options: ClassVar[dict] = {"feed": "public"}

    def answer(self):
        return fakes.public(lambda: self.NOW)


@pytest.fixture
def make(server, session, clock):
    server.answer_with(fakes.api(clock.now))

    def make(**given_):
        return _made(session, server.url, clock.now, **given_)

    return make


@pytest.fixture
def public(server, session, clock):
    server.answer_with(fakes.public(clock.now))

    def make(**given_):
        return _made(session, server.url, clock.now, token=None, feed="public", **given_)

    return make


def _observe(provider, hours=6):
    return provider.observe(NOW - hours * HOUR, NOW)


def _changed(server, change, hours=48):
    """Answer with two days of hours in which ``change(metric, code, time, value)`` says what stands."""
    times = [(NOW.replace(minute=0) - n * HOUR).astimezone(AEST) for n in range(hours, -1, -1)]
    document = fakes.hours("NEM", "NSW1", times)
    for block in document["data"]:
        for result in block["results"]:
            code = result["columns"]["fueltech"]
            result["data"] = [
                [at, change(block["metric"], code, times[index], value)]
                for index, (at, value) in enumerate(result["data"])
            ]
    server.answer_with(as_json(document))


# Hours by key


def test_intensity_is_emissions_over_generation(make):
    """Tonnes over MWh, times a thousand; batteries and pumps count on neither side; direct, of its own plants."""
    points = _observe(make()).points
    assert [point.g_per_kwh for point in points] == [pytest.approx(G_PER_KWH)] * 6
    labels = {(point.kind, point.signal, point.scope, point.boundary) for point in points}
    assert labels == {(Kind.MEASURED, Signal.AVERAGE, Scope.DIRECT, Boundary.PRODUCTION)}
    assert {point.method for point in points} == {"emissions and energy of OpenElectricity"}
    assert {point.end - point.start for point in points} == {HOUR}


def test_the_running_hour_is_not_given(make):
    """It is there already, and half of it is missing."""
    assert _observe(make()).points[-1].start == LAST


@pytest.mark.parametrize(
    ("zone", "network", "start"), [("NSW1", "NEM", "2026-03-03T17:00:00"), ("WEM", "WEM", "2026-03-03T15:00:00")]
)
def test_it_is_asked_in_network_time(make, server, zone, network, start):
    """NEM is +10 and WEM +8, all year and without an offset; a day more is asked for, to judge what is complete."""
    points = make(zone=zone).observe(NOW - 2 * HOUR, NOW).points
    (sent,) = server.requests
    assert sent.path == f"/data/network/{network}"
    assert sent.values["metrics"] == ["emissions", "energy"]
    assert sent.headers["authorization"] == f"Bearer {TOKEN}"
    assert (sent.query["date_start"], sent.query["network_region"], sent.query["interval"]) == (start, zone, "1h")
    assert (sent.query["primary_grouping"], sent.query["secondary_grouping"]) == ("network_region", "fueltech")
    assert [point.start for point in points] == [LAST - HOUR, LAST]


def test_a_time_without_an_offset_is_in_network_time(make, server):
    """A reply may leave it out as well."""
    _changed(server, lambda metric, code, at, value: value)
    document = json.loads(server.answer.body)
    for block in document["data"]:
        for result in block["results"]:
            result["data"] = [[at.removesuffix("+10:00"), value] for at, value in result["data"]]
    server.answer_with(as_json(document))
    assert _observe(make()).points[-1].start == LAST


def test_summer_time_changes_nothing(server, session):
    """The market keeps to +10 on the days on which Sydney sets its clocks, with 24 hours each."""
    for day in (NOW.replace(month=4, day=5), NOW.replace(month=10, day=4)):
        server.answer_with(fakes.api(lambda day=day: day))
        points = _made(session, server.url, lambda day=day: day).observe(day - 2 * DAY, day).points
        assert len(points) == 48
        assert all(before.end == after.start for before, after in pairwise(points))


@pytest.mark.parametrize(("days", "requests"), [(3, 1), (28, 1), (60, 3)])
def test_long_ranges_are_asked_in_pieces(make, server, days, requests):
    """At most 30 days of hours a call, and no hour is lost between them."""
    points = make().observe(NOW - days * DAY, NOW).points
    assert len(server.requests) == requests
    assert len(points) == days * 24
    assert all(before.end == after.start for before, after in pairwise(points))


@pytest.mark.parametrize("there", [("solar_rooftop",), ("solar_rooftop", "solar_utility"), ()])
def test_a_row_of_rooftop_solar_alone_is_a_gap(make, server, there):
    """The newest rows often have little else; 0 g/kWh would be the cleanest hour of the year."""
    _changed(server, lambda metric, code, at, value: None if at >= LAST and code not in there else value)
    assert [point.start for point in _observe(make())] == [LAST - n * HOUR for n in (5, 4, 3, 2, 1)]


@pytest.mark.parametrize("code", ["coal_black", "wind", "solar_rooftop", "solar_utility"])
def test_a_row_without_one_of_the_great_is_a_gap(make, server, code):
    """Solar without its roofs is not solar, and a null is not 0."""
    _changed(server, lambda metric, named, at, value: None if at >= LAST and named == code else value)
    assert _observe(make()).points[-1].start == LAST - HOUR


@pytest.mark.parametrize("tonnes", [None, -5.0, "many"])
def test_emissions_that_are_not_told_are_not_zero(make, server, tonnes):
    """A burning plant without emissions would make the hour too clean: it is a gap."""

    def change(metric, code, at, value):
        return tonnes if metric == "emissions" and code == "gas_ocgt" and at == LAST else value

    _changed(server, change)
    assert _observe(make()).points[-1].start == LAST - HOUR


def test_what_has_no_stack_needs_no_emissions(make, server):
    """Wind, water and sun may have none told."""
    none = ("wind", "hydro", "solar_utility", "solar_rooftop")
    _changed(server, lambda metric, code, at, value: None if metric == "emissions" and code in none else value)
    assert _observe(make()).points[-1].g_per_kwh == pytest.approx(G_PER_KWH)


def test_a_real_zero_is_kept(server, session):
    """Tasmania on water and wind alone."""
    times = [(NOW.replace(minute=0) - n * HOUR).astimezone(AEST) for n in range(30, -1, -1)]
    data = {code: [[at.isoformat(), value] for at in times] for code, value in (("hydro", 900.0), ("wind", 300.0))}
    zero = {code: [[at, 0.0] for at, _ in samples] for code, samples in data.items()}
    blocks = [
        fakes.block("NEM", "TAS1", "energy", "MWh", data),
        fakes.block("NEM", "TAS1", "emissions", "t", zero),
    ]
    server.answer_with(as_json({"success": True, "data": blocks}))
    points = _made(session, server.url, lambda: NOW, zone="TAS1").observe(NOW - 3 * HOUR, NOW).points
    assert [point.g_per_kwh for point in points] == [0.0] * 3


def test_negative_generation_is_not_a_credit(make, server):
    """A wind farm's own use at a lull counts as 0."""
    _changed(server, lambda metric, code, at, value: -3.0 if metric == "energy" and code == "hydro" else value)
    assert _observe(make()).points[-1].g_per_kwh == pytest.approx(1000 * 3860 / 9600)


@pytest.mark.parametrize("value", ["x", True, [], {}, float("nan"), float("inf"), 1e30, 10**400])
def test_an_impossible_figure_spoils_its_hour(make, server, value):
    """And no other."""
    _changed(server, lambda metric, code, at, given_: value if at == LAST and code == "hydro" else given_)
    assert [point.start for point in _observe(make())] == [LAST - n * HOUR for n in (5, 4, 3, 2, 1)]


def test_of_duplicate_rows_the_last_wins(make, server):
    """An hour that comes twice is the later one."""
    _changed(server, lambda metric, code, at, value: value)
    document = json.loads(server.answer.body)
    for block in document["data"]:
        for result in block["results"]:
            result["data"].append([LAST.astimezone(AEST).isoformat(), result["data"][-1][1] * 2])
    server.answer_with(as_json(document))
    assert _observe(make()).points[-1].g_per_kwh == pytest.approx(G_PER_KWH)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"unit": "kt"}, "unit of emissions is 'kt', not 't'"),
        ({"interval": "5m"}, "interval of emissions is '5m', not '1h'"),
        ({"network_code": "WEM"}, "network_code of emissions is 'WEM', not 'NEM'"),
        ({"metric": "power"}, "answered without emissions"),
        ({"results": {}}, "results is {}, not a list"),
    ],
)
def test_another_unit_or_network_is_refused(make, server, change, text):
    """A thousandfold is not noticed later."""
    _changed(server, lambda metric, code, at, value: value)
    document = json.loads(server.answer.body)
    document["data"][0].update(change)
    server.answer_with(as_json(document))
    with pytest.raises(SchemaError, match=text):
        _observe(make())


def test_other_regions_are_not_ours(make, server):
    """A reply for other regions alone is refused."""
    _changed(server, lambda metric, code, at, value: value)
    server.answer_with(Answer(server.answer.body.replace(b"NSW1", b"VIC1")))
    with pytest.raises(SchemaError, match="asked for NSW1 and answered with other regions"):
        _observe(make())


@pytest.mark.parametrize(("zone", "must"), [("NSW1", "coal"), ("SA1", "wind"), ("TAS1", "hydro"), ("WEM", "gas")])
def test_a_region_without_what_it_always_has_was_cut(server, session, zone, must):
    """New South Wales without coal would be green."""
    network = "WEM" if zone == "WEM" else "NEM"
    document = fakes.hours(network, zone, [NOW - HOUR])
    for block in document["data"]:
        block["results"] = [row for row in block["results"] if not row["columns"]["fueltech"].startswith(must)]
    server.answer_with(as_json(document))
    with pytest.raises(SchemaError, match=f"{zone} without {must}"):
        _observe(_made(session, server.url, lambda: NOW, zone=zone))


@pytest.mark.parametrize("zone", ["NSW1", "SA1", "TAS1"])
def test_emissions_may_name_only_what_emits(server, session, zone):
    """Wind and water have none to tell, also where the region is never without them; what burns must have."""
    times = [NOW.replace(minute=0) - n * HOUR for n in range(30, 0, -1)]
    whole = fakes.hours("NEM", zone, times)
    server.answer_with(as_json(whole))
    wanted = [point.g_per_kwh for point in _observe(_made(session, server.url, lambda: NOW, zone=zone))]
    emissions = whole["data"][0]
    emissions["results"] = [row for row in emissions["results"] if row["columns"]["fueltech"] in fakes.FACTORS]
    server.answer_with(as_json(whole))
    found = _observe(_made(session, server.url, lambda: NOW, zone=zone))
    assert [point.g_per_kwh for point in found] == pytest.approx(wanted)
    assert len(found) == 6
    del emissions["results"][0]
    server.answer_with(as_json(whole))
    assert not _observe(_made(session, server.url, lambda: NOW, zone=zone))


@pytest.mark.parametrize("zone", ["NSW", "nsw1", "AU-NSW", "WEM1", ""])
def test_a_zone_is_one_of_six(make, zone):
    """By their own names."""
    with pytest.raises(BadRequest, match="none of NSW1, QLD1, SA1, TAS1, VIC1, WEM"):
        make(zone=zone)


def test_the_api_counts_direct_emissions(make):
    """Lifecycle values are computed, from the public file."""
    with pytest.raises(BadRequest, match="needs feed = 'public'"):
        make(scope="lifecycle")


@pytest.mark.parametrize("token", [None, " "])
def test_without_a_key_nothing_is_asked(make, server, token):
    """The error names what to set, and the way without."""
    with pytest.raises(AuthError, match="token_env names, or feed = 'public'"):
        _observe(make(token=token))
    assert server.requests == []


INVALID = [{"loc": ["query", "date_start"], "msg": "Input should be a valid datetime", "type": "datetime"}]


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (as_json({"detail": "Not authenticated"}, 401), AuthError, "Not authenticated"),
        (as_json({"detail": "Forbidden"}, 403), AuthError, "Forbidden"),
        (as_json({"detail": "Your plan does not allow this"}, 403), PlanError, "Your plan"),
        (as_json({"detail": "Your plan allows data from the last 367 days."}, 400), PlanError, "367 days"),
        (as_json({"detail": INVALID}, 422), BadRequest, "422 Input should be a valid datetime"),
        (as_json({"detail": "Unsupported metric"}, 400), BadRequest, "Unsupported metric"),
        (as_json({"detail": "No data found"}, 416), NoData, "No data found"),
        (as_json({"success": False, "error": "boom"}), Transient, "boom"),
        (as_json({"success": True, "data": []}), NoData, "of no interval"),
        (as_json({"detail": "slow down"}, 429, Retry_After="60"), RateLimited, "slow down"),
        (html(502), Transient, "502"),
        (Answer(status=410), BadRequest, "410"),
    ],
)
def test_each_refusal_has_its_class(make, server, answer, error, text):
    """``detail`` is a text or a list of what is wrong with our parameters."""
    server.answer_with(answer)
    with pytest.raises(error, match=text):
        _observe(make())


# The public file


def test_the_public_file_is_a_mix(public, server):
    """Half hours, of our factors, whose version is told; no key is sent, and none needed."""
    points = _observe(public()).points
    (sent,) = server.requests
    assert sent.path == "/stats/au/NEM/NSW1/power/7d.json"
    assert "authorization" not in sent.headers
    assert {point.end - point.start for point in points} == {HALF}
    ipcc = (4000 * 760 + 600 * 370) / 10_000  # direct emissions of coal and of gas, AR5
    assert [point.g_per_kwh for point in points] == [pytest.approx(ipcc)] * 12
    assert {(point.scope, point.boundary, point.kind) for point in points} == {
        (Scope.DIRECT, Boundary.PRODUCTION, Kind.MEASURED)
    }
    assert all(point.method.endswith("direct") for point in points)
    assert not public().capabilities.needs_key


def test_lifecycle_is_more_than_direct(public):
    """The same mix by other factors, and labelled so."""
    point = _observe(public(scope="lifecycle")).points[-1]
    assert point.scope is Scope.LIFECYCLE
    assert point.method.endswith("lifecycle")
    assert point.g_per_kwh > _observe(public()).points[-1].g_per_kwh


def test_wem_has_a_file_of_its_own(public, server):
    """It is a network and a region at once."""
    assert _observe(public(zone="WEM")).points
    assert server.requests[0].path == "/stats/au/WEM/power/7d.json"


def test_a_half_hour_without_its_roofs_is_a_gap(public):
    """Rooftop solar lags: the newest half hour of the others is not given."""
    assert _observe(public()).points[-1].end == NOW.replace(minute=0)


def _file(server, change):
    """The file with its first series, coal in five minutes, changed from the end on."""
    document = fakes.file("NSW1", NOW)
    change(document)
    server.answer_with(as_json(document))


@pytest.mark.parametrize("value", [None, "x", True, 1e30])
def test_a_half_hour_of_which_five_minutes_are_missing_is_a_gap(public, server, value):
    """A mean over the rest would be a guess."""
    history = slice(-11, -10)  # in the half hour from 08:00
    _file(server, lambda document: document["data"][0]["history"]["data"].__setitem__(history, [value]))
    starts = [point.start for point in _observe(public())]
    assert NOW.replace(hour=8, minute=0) not in starts
    assert starts[-1] == NOW.replace(hour=8, minute=30)


def test_series_have_starts_of_their_own(public, server):
    """They are aligned by time and not by index."""

    def later(document):
        history = document["data"][0]["history"]
        history["start"] = (NOW - 40 * HOUR - timedelta(minutes=20)).astimezone(AEST).isoformat()
        history["data"] = [4000.0] * (40 * 12 + 1)

    whole = _observe(public()).points
    _file(server, later)
    shorter = _observe(public()).points
    assert [(point.start, point.g_per_kwh) for point in shorter] == [(point.start, point.g_per_kwh) for point in whole]


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda document: document.update(data=[]), NoData, "published nothing"),
        (lambda document: document.update(code="VIC1", region="VIC1"), SchemaError, "asked for NSW1 and answered with"),
        (lambda document: document["data"].pop(0), SchemaError, "NSW1 without coal"),
        (lambda document: document["data"][1].update(history=None), SchemaError, "history of gas_ccgt is None"),
        (lambda document: document["data"][1]["history"].update(interval="1h"), SchemaError, "interval of gas_ccgt"),
        (lambda document: document["data"][1]["history"].update(start="soon"), SchemaError, "a time is 'soon'"),
        (lambda document: document["data"][1]["history"].update(data={}), SchemaError, "data of gas_ccgt"),
    ],
)
def test_a_file_of_which_a_plant_cannot_be_read_is_refused(public, server, change, error, text):
    """A mix without it looks as good as any."""
    _file(server, change)
    with pytest.raises(error, match=text):
        _observe(public())


@pytest.mark.parametrize("status", [401, 403])
def test_the_public_file_cannot_refuse_a_key(public, server, status):
    """A refusal is a gateway's: nobody is sent to look for a token."""
    server.answer_with(as_json({"message": "Forbidden"}, status))
    with pytest.raises(Transient, match="needs no key"):
        _observe(public())


def test_nothing_is_asked_of_what_it_does_not_have(make, public, server):
    """The future has no observations, and there is no forecast."""
    for provider in (make(), public()):
        assert len(provider.observe(NOW + HOUR, NOW + 2 * HOUR)) == 0
        assert len(provider.forecast(NOW, NOW + HOUR)) == 0
    assert server.requests == []


# Anything at all


@given(data=st.data())
def test_hours_survive_any_change(data):
    """Between the cleanest and the dirtiest plant, a gap, or one of our errors."""
    query = {"date_start": "2026-03-04T13:00:00", "date_end": "2026-03-04T20:00:00", "network_region": "NSW1"}
    asked = Request("/data/network/NEM", query, {}, {"metrics": ["emissions", "energy"]})
    document = data.draw(mutated(fakes.document(asked, NOW)))
    session = Replayed(json.dumps(document).encode(), data.draw(st.sampled_from([200, 200, 200, 400, 403, 422])))
    for point in outcome(_made(session, None, lambda: NOW).observe, NOW - DAY, NOW):
        assert 0 <= point.g_per_kwh <= MOST_G_PER_KWH
        assert point.end - point.start == HOUR
        assert point.end <= NOW
    session.close()


@given(data=st.data())
def test_the_file_survives_any_change(data):
    """As above, within what the factors allow."""
    document = data.draw(mutated(fakes.file("NSW1", NOW, days=0.25)))
    session = Replayed(json.dumps(document).encode(), data.draw(st.sampled_from([200, 200, 200, 403, 404, 500])))
    provider = _made(session, None, lambda: NOW, token=None, feed="public")
    for point in outcome(provider.observe, NOW - DAY, NOW):
        assert 0 <= point.g_per_kwh <= 1500
        assert point.end - point.start == HALF
        assert point.end <= NOW
    session.close()


def test_the_figures_of_the_fake_are_consistent():
    """What the expected intensity is made of."""
    counted = [value for code, value in ENERGY.items() if not code.startswith(("battery", "pumps"))]
    assert sum(counted) == fakes.GENERATED
    assert STEP * 12 == HOUR
