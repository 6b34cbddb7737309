"""ENTSO-E's generation mix as intensity: the platform's refusals, and mixes that are whole or not."""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import entsoe_fakes as fakes
import pytest
from entsoe_fakes import DE_LU, HALF, HOUR, QUARTER, acknowledgement, answer, document, generation, period, platform
from grid_server import NOW, Answer, as_json, html
from http_suite import TOKEN, HttpProviderSuite

from providers.base import (
    AuthError,
    BadRequest,
    Boundary,
    Kind,
    NoData,
    RateLimited,
    SchemaError,
    Scope,
    Signal,
    Transient,
)
from providers.entsoe import Entsoe
from providers.entsoe_prices import EntsoePrices
from providers.entsoe_zones import area
from providers.redact import Secret

FR = area("FR").eic
MIDNIGHT = NOW.replace(hour=0, minute=0)
DAY = timedelta(days=1)


class TestEntsoeSuite(HttpProviderSuite):
    """The bidding zone DE_LU."""

    OPTIONS: ClassVar[dict] = {}

    def make(self, session, base_url):
        given = {"zone": "DE_LU", "options": self.OPTIONS, "token": Secret(TOKEN), "base_url": base_url}
        return Entsoe(**given, session=session, now=lambda: self.NOW)

    @pytest.fixture
    def server(self, server):
        server.answer_with(platform(lambda: self.NOW))
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


@pytest.fixture
def make(server, session, clock):
    server.answer_with(platform(clock.now))

    def make(zone="DE_LU", token=TOKEN, path="", **options):
        secret = Secret(token) if token else None
        given = {"zone": zone, "options": options, "token": secret, "base_url": server.url + path}
        return Entsoe(**given, session=session, now=clock.now)

    return make


def day(provider):
    return provider.observe(NOW - DAY, NOW)


def hours(start, *megawatts):
    return period(start, start + len(megawatts) * HOUR, HOUR, dict(enumerate(megawatts, start=1)))


def eic(name):
    return area(name).eic


def values(points):
    return [(f"{point.start:%H:%M}", round(point.g_per_kwh, 6)) for point in points]


# What is asked


def test_the_request_is_as_documented(make, server):
    """A75, realised, by EIC, in full hours of UTC from a day before, the token in the query."""
    make().observe(NOW - 3 * HOUR, NOW)
    (sent,) = server.requests
    assert sent.path == "/api"
    assert sent.query == {
        "securityToken": TOKEN,
        "documentType": "A75",
        "processType": "A16",
        "in_Domain": DE_LU,
        "periodStart": "202603030600",
        "periodEnd": "202603041000",
    }


@pytest.mark.parametrize(
    ("path", "asked"), [("", "/api"), ("/", "/api"), ("/api", "/api"), ("/mirror/v2", "/mirror/v2")]
)
def test_the_host_is_configuration(make, server, path, asked):
    """The platform has moved before, and will again."""
    day(make(path=path))
    assert server.requests[0].path == asked


def test_long_ranges_are_asked_for_in_pieces(make, server):
    """28 days are four requests of eight days or less, without an overlap, and one series."""
    points = make().observe(NOW - 28 * DAY, NOW).points
    spans = [fakes.asked(request) for request in server.requests]
    assert [(last - first).days for first, last in spans] == [8, 8, 8, 5]
    assert all(spans[n][1] == spans[n + 1][0] for n in range(3))
    assert len(points) == (28 * DAY - HOUR - 5 * timedelta(minutes=4)) // QUARTER + 1
    assert points[0].start <= NOW - 28 * DAY < points[0].end


def test_a_piece_without_data_costs_no_other(make, server):
    """The week of an outage is a gap; only where every piece is empty there is nothing."""
    nothing = answer(acknowledgement("No matching data found for Data item X"), 400)
    server.answer_with(nothing, platform(lambda: NOW))
    points = make().observe(NOW - 10 * DAY, NOW).points
    assert len(server.requests) == 2
    assert points[0].start == (NOW - 11 * DAY + 8 * DAY).replace(minute=0)
    server.answer_with(nothing)
    with pytest.raises(NoData, match="No matching data"):
        make().observe(NOW - 10 * DAY, NOW)


def test_nothing_is_asked_of_the_future(make, server):
    """It has not been generated yet, and there is no forecast of a mix."""
    assert not make().observe(NOW + HOUR, NOW + 2 * HOUR).points
    assert not make().forecast(NOW, NOW + DAY).points
    assert server.requests == []


@pytest.mark.parametrize("token", ["", " "])
def test_without_a_token_nothing_is_asked(make, server, token):
    """The error names what to set."""
    with pytest.raises(AuthError, match="token_env"):
        day(make(token=token))
    assert server.requests == []


# What it says


def test_a_mix_becomes_an_intensity(make, server):
    """Lignite and wind half and half, by the table's factors; measured, average, production, and by which factors."""
    series = [
        generation(psr, hours(NOW.replace(minute=0) - 26 * HOUR, *[500.0] * 26), zone=eic("AT"))
        for psr in ("B02", "B19")
    ]
    server.answer_with(answer(document(*series)))
    points = day(make("AT")).points
    assert {point.g_per_kwh for point in points} == {(1050 + 11) / 2}
    point = points[-1]
    assert (point.start, point.end) == (NOW.replace(minute=0) - HOUR, NOW.replace(minute=0))
    assert (point.zone, point.source, point.kind) == ("AT", "entsoe", Kind.MEASURED)
    assert (point.signal, point.scope, point.boundary) == (Signal.AVERAGE, Scope.LIFECYCLE, Boundary.PRODUCTION)
    assert point.method == "ipcc-ar5.1 lifecycle"
    server.answer_with(answer(document(*series)))
    assert {point.g_per_kwh for point in day(make("AT", scope="direct"))} == {500.0}


def test_each_name_of_a_zone_is_priced_with_the_factors_of_the_zone(make):
    """An EIC or another spelling gets the exceptions of DE_LU, under the zone's name as it was given."""
    told = {zone: day(make(zone)).points[0] for zone in ("DE_LU", "DE-LU", DE_LU)}
    assert {point.g_per_kwh for point in told.values()} == {told["DE_LU"].g_per_kwh}
    assert {point.method for point in told.values()} == {"ipcc-ar5.1+em-2025.1 lifecycle, 99 % of known fuel"}
    assert {zone: point.zone for zone, point in told.items()} == {zone: zone for zone in told}


def test_what_a_type_consumes_is_not_added(make, server):
    """A series of outBiddingZone is pumps and own use: with or without it the intensity is the same (B18)."""
    start = NOW.replace(minute=0) - 26 * HOUR
    made = [generation(psr, hours(start, *[500] * 26)) for psr in ("B04", "B16")]
    used = [generation(psr, hours(start, *[400] * 26), consumed=True) for psr in ("B04", "B10", "B16")]
    server.answer_with(answer(document(*made)))
    alone = values(day(make()))
    server.answer_with(answer(document(*used, *made, *used)))
    assert values(day(make())) == alone


def test_storage_that_discharges_does_not_count(make, server):
    """B10 and B25 give back what others generated."""
    start = NOW.replace(minute=0) - 26 * HOUR
    made = [generation(psr, hours(start, *[500] * 26), zone=FR) for psr in ("B14", "B10", "B25")]
    server.answer_with(answer(document(*made)))
    assert {point.g_per_kwh for point in day(make("FR"))} == {12.0}


def test_two_types_of_one_fuel_add_up(make, server):
    """Run-of-river and reservoirs are both water."""
    start = NOW.replace(minute=0) - 26 * HOUR
    made = [
        generation(psr, hours(start, *[mw] * 26), zone=eic("SE_3"))
        for psr, mw in (("B11", 300), ("B12", 100), ("B14", 400))
    ]
    server.answer_with(answer(document(*made)))
    assert {point.g_per_kwh for point in day(make("SE3"))} == {(24 + 12) / 2}


def test_an_unknown_type_is_unknown_and_noted_once(make, server, caplog):
    """5 % of something new count as unknown; more than a tenth of it is no mix."""
    start = NOW.replace(minute=0) - 26 * HOUR
    made = [generation(psr, hours(start, *[mw] * 26), zone=FR) for psr, mw in (("B14", 950), ("B77", 50))]
    server.answer_with(answer(document(*made)))
    with caplog.at_level(logging.WARNING):
        points = day(make("FR"))
    assert {round(point.g_per_kwh, 9) for point in points} == {0.95 * 12 + 0.05 * 700}
    assert points.points[0].method.endswith("95 % of known fuel")
    assert caplog.text.count("'B77' is not known") <= 1
    more = [generation(psr, hours(start, *[mw] * 26), zone=FR) for psr, mw in (("B14", 800), ("B77", 200))]
    server.answer_with(answer(document(*more)))
    with pytest.raises(NoData, match="no interval of it has a whole mix"):
        day(make("FR"))


def test_an_interval_that_lacks_a_fuel_is_a_gap(make, server):
    """Wind of the newest hour comes later than the rest: until then that hour is not known."""
    start = NOW.replace(minute=0) - 26 * HOUR
    gas, wind = generation("B04", hours(start, *[500] * 26)), generation("B19", hours(start, *[500] * 25))
    server.answer_with(answer(document(gas, wind)))
    assert day(make()).points[-1].end == NOW.replace(minute=0) - HOUR


def test_energy_is_power_times_time(make, server):
    """A unit of MWH counts by the length of its interval: 125 MWh in a quarter are 500 MW."""
    start = NOW.replace(minute=0) - 26 * HOUR
    quarters = period(start, start + 26 * HOUR, QUARTER, {n + 1: 125 for n in range(104)})
    made = [
        generation("B14", quarters, unit="MWH", zone=FR),
        generation("B04", hours(start, *[500] * 26), zone=FR),
    ]
    server.answer_with(answer(document(*made)))
    assert {round(point.g_per_kwh, 9) for point in day(make("FR")) if point.start < NOW - DAY + HOUR} == {
        (12 + 490) / 2
    }


def test_water_alone_is_0_at_the_stack_and_nothing_generated_is_not(make, server):
    """0 g/kWh is real where a grid can be it; a reply full of zeros is no grid (B18)."""
    start = NOW.replace(minute=0) - 26 * HOUR
    server.answer_with(answer(document(generation("B12", hours(start, *[500] * 26), zone=eic("NO_2")))))
    assert {point.g_per_kwh for point in day(make("NO-NO2", scope="direct"))} == {0.0}
    server.answer_with(answer(document(generation("B12", hours(start, *[0] * 26), zone=eic("NO_2")))))
    with pytest.raises(NoData, match="no interval of it has a whole mix"):
        day(make("NO-NO2", scope="direct"))


def test_less_than_nothing_is_a_plants_own_use(make, server):
    """Panels at night take a few megawatts: they count as 0, and so they do in the sum."""
    start = NOW.replace(minute=0) - 26 * HOUR
    series = [
        generation(psr, hours(start, *[mw] * 26), zone=FR) for psr, mw in (("B04", 500), ("B14", 500), ("B16", -3))
    ]
    server.answer_with(answer(document(*series)))
    assert {point.g_per_kwh for point in day(make("FR"))} == {251.0}


def test_revisions_are_new_answers(make, server):
    """The platform rewrites the last days without saying so: each reply counts as it is."""
    start = NOW.replace(minute=0) - 26 * HOUR
    provider, told = make("FR"), []
    for gas in (500, 1500):
        series = [generation(psr, hours(start, *[mw] * 26), zone=FR) for psr, mw in (("B04", gas), ("B14", 500))]
        server.answer_with(answer(document(*series)))
        told += [day(provider).points[-1].g_per_kwh]
    assert told == [251.0, (3 * 490 + 12) / 4]


def test_the_future_was_not_generated(make, server):
    """Rows that have not begun are clock skew, whatever they say."""
    start = NOW.replace(minute=0) - 20 * HOUR
    server.answer_with(answer(document(*(generation(psr, hours(start, *[500] * 26)) for psr in ("B04", "B14")))))
    points = make().observe(NOW - DAY, NOW + DAY).points
    assert points[-1].start == NOW.replace(minute=0)


# Steps


def test_compressed_positions_are_filled_to_the_end(make, server):
    """A03: positions 1 and 3 of a day of hours say all 24; the last ones too."""
    start = MIDNIGHT - DAY
    gas = generation("B04", period(start, start + DAY, HOUR, {1: 100, 3: 300}), curve="A03", zone=FR)
    nuclear = generation("B14", period(start, start + DAY, HOUR, {1: 300}), curve="A03", zone=FR)
    server.answer_with(answer(document(gas, nuclear)))
    points = make("FR").observe(start, MIDNIGHT).points
    first, later = (100 * 490 + 300 * 12) / 400, (490 + 12) / 2
    assert [round(point.g_per_kwh, 9) for point in points] == [first] * 2 + [later] * 22


def test_under_a01_a_position_that_is_left_out_is_a_gap(make, server):
    """Nothing is repeated where the curve type says that everything is there."""
    start = NOW.replace(minute=0) - 26 * HOUR
    full = dict.fromkeys(range(1, 27), 500)
    holed = {position: mw for position, mw in full.items() if position not in {5, 26}}
    made = [
        generation(psr, period(start, start + 26 * HOUR, HOUR, points))
        for psr, points in (("B04", full), ("B14", holed))
    ]
    server.answer_with(answer(document(*made)))
    starts = {point.start for point in make().observe(start, NOW)}
    assert {start + n * HOUR for n in range(26)} - starts == {start + 4 * HOUR, start + 25 * HOUR}


def test_a_step_that_changes_within_a_reply(make, server):
    """From hours to half hours to quarters, in one type and at one time in all: each row has its own length."""
    start = NOW.replace(minute=0) - 26 * HOUR
    parts = [
        period(start, start + 24 * HOUR, HOUR, {1: 500}),
        period(start + 24 * HOUR, start + 25 * HOUR, HALF, {1: 500, 2: 700}),
        period(start + 25 * HOUR, start + 26 * HOUR, QUARTER, {1: 500, 2: 600, 3: 700, 4: 800}),
    ]
    made = [generation(psr, *parts, curve="A03", zone=FR) for psr in ("B04", "B14")]
    server.answer_with(answer(document(*made)))
    points = make("FR").observe(start, NOW).points
    assert [point.end - point.start for point in points] == [HOUR] * 24 + [HALF] * 2 + [QUARTER] * 4
    assert {point.g_per_kwh for point in points} == {251.0}


def test_types_of_different_resolution_meet_at_the_finest(make, server):
    """Wind in quarters and gas in hours give quarters, with the hour's mean power of gas in each."""
    start = NOW.replace(minute=0) - 26 * HOUR
    gas = generation("B04", period(start, start + 26 * HOUR, HOUR, {1: 400}), curve="A03", zone=FR)
    wind = generation("B19", period(start, start + 26 * HOUR, QUARTER, {1: 400, 104: 1200}), curve="A03", zone=FR)
    server.answer_with(answer(document(wind, gas)))
    points = make("FR").observe(start, NOW).points
    assert {point.end - point.start for point in points} == {QUARTER}
    assert [round(point.g_per_kwh, 9) for point in points[-2:]] == [(490 + 11) / 2, (400 * 490 + 1200 * 11) / 1600]


@pytest.mark.parametrize("finest_first", [True, False])
def test_of_overlapping_series_of_one_type_the_finest_counts(make, server, finest_first):
    """One type in hours and in quarters at the same time is not twice as much."""
    start = NOW.replace(minute=0) - 26 * HOUR
    zone = FR
    coarse = generation("B04", period(start, start + 26 * HOUR, HOUR, {1: 9000}), curve="A03", zone=zone)
    fine = generation("B04", period(start, start + 26 * HOUR, QUARTER, {1: 400}), curve="A03", zone=zone)
    nuclear = generation("B14", period(start, start + 26 * HOUR, HOUR, {1: 400}), curve="A03", zone=zone)
    server.answer_with(answer(document(*([fine, coarse] if finest_first else [coarse, fine]), nuclear)))
    assert {point.g_per_kwh for point in day(make("FR"))} == {251.0}


def test_of_two_series_for_one_time_the_last_counts(make, server):
    """A correction comes after what it corrects."""
    start = NOW.replace(minute=0) - 26 * HOUR
    made = [
        generation(psr, hours(start, *[mw] * 26), zone=FR) for psr, mw in (("B04", 900), ("B14", 500), ("B04", 500))
    ]
    server.answer_with(answer(document(*made)))
    assert {point.g_per_kwh for point in day(make("FR"))} == {251.0}


@pytest.mark.parametrize(
    ("first", "hours_of_day"),
    [(datetime(2025, 10, 25, 22, tzinfo=UTC), 25), (datetime(2026, 3, 28, 23, tzinfo=UTC), 23)],
)
def test_the_days_on_which_clocks_change_have_25_and_23_hours(make, server, first, hours_of_day, clock):
    """All is UTC: each hour once, none missing (B20, B21)."""
    clock.advance((first + 2 * DAY - clock.now()).total_seconds())
    end = first + hours_of_day * HOUR
    made = [generation(psr, period(first, end, HOUR, {1: 500}), curve="A03") for psr in ("B04", "B14")]
    server.answer_with(answer(document(*made)))
    points = make().observe(first, end).points
    assert [point.start for point in points] == [first + n * HOUR for n in range(hours_of_day)]


# Documents


@pytest.mark.parametrize("namespace", ["", "urn:iec62325.351:tc57wg16:451-6:generationloaddocument:4:2"])
def test_the_namespace_is_not_looked_at(make, server, namespace):
    """Versions come and go."""
    series = generation("B04", hours(NOW.replace(minute=0) - 26 * HOUR, *[500] * 26))
    server.answer_with(answer(document(series, namespace=namespace)))
    assert day(make()).points


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (document(), "no interval of it has a whole mix"),
        (document(generation("B04", hours(MIDNIGHT, 0, 0, 0))), "no interval of it has a whole mix"),
    ],
)
def test_a_document_without_a_mix_is_no_data(make, server, text, message):
    """No series, or nothing generated, is nothing to count with; it is not 0 g/kWh."""
    server.answer_with(answer(text))
    with pytest.raises(NoData, match=message):
        day(make())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (document(generation("B04", hours(MIDNIGHT, 500), zone=fakes.DE_LU[:-1] + "X")), "asked for 10Y1001A1001A82H"),
        (document(generation("B04", hours(MIDNIGHT, 500), unit="C62")), "the unit is 'C62', not MAW or MWH"),
        (document(generation("B04", hours(MIDNIGHT, 500), curve="A04")), "curveType is 'A04', not A01 or A03"),
        (document(generation("B04", hours(MIDNIGHT, 500).replace("PT60M", "P1D"))), "resolution is 'P1D'"),
        (document(generation("B04", hours(MIDNIGHT, 500).replace(":00Z</end>", ":20Z</end>"))), "a Period goes from"),
        (document(generation("B04", hours(MIDNIGHT + timedelta(minutes=7), 500))), "a Period goes from"),
        (document(generation("B04", hours(MIDNIGHT, 500).replace("<position>1<", "<position>2<"))), "within 1 to 1"),
        (document(generation("B04", hours(MIDNIGHT, 500).replace("<position>1<", "<position>-1<"))), "within 1 to 1"),
        (document(generation("B04", hours(MIDNIGHT, 500).replace("2026", "1066"))), "start of a Period"),
        ("<Publication_MarketDocument/>", "is 'Publication_MarketDocument', not a GL_MarketDocument"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><GL_MarketDocument>&b;</GL_MarketDocument>', "DTDForbidden"),
    ],
)
def test_a_document_that_is_something_else_is_refused(make, server, text, message):
    """Another zone, another unit, another curve, odd times and odd positions: no number comes of them."""
    server.answer_with(answer(text))
    with pytest.raises(SchemaError, match=message):
        day(make())


@pytest.mark.parametrize("figure", ["", "n/a", "NaN", "Infinity", "1_000", "9e99"])
@pytest.mark.parametrize("curve", ["A01", "A03"])
def test_a_figure_that_cannot_be_read_is_a_gap(make, server, figure, curve):
    """And under A03 what came before it is not repeated in its place."""
    start = NOW.replace(minute=0) - 26 * HOUR
    points = dict.fromkeys(range(1, 27), 500) | {5: figure}
    made = [generation(psr, period(start, start + 26 * HOUR, HOUR, points), curve=curve) for psr in ("B04", "B14")]
    server.answer_with(answer(document(*made)))
    starts = {point.start for point in make().observe(start, NOW)}
    assert {start + n * HOUR for n in range(26)} - starts == {start + 4 * HOUR}


def test_one_period_that_cannot_be_read_costs_no_other(make, server):
    """A day with an odd resolution is a gap of that day."""
    start = NOW.replace(minute=0) - 50 * HOUR
    parts = [hours(start, *[500] * 26).replace("PT60M", "PT7M"), hours(start + 26 * HOUR, *[500] * 24)]
    server.answer_with(answer(document(*(generation(psr, *parts) for psr in ("B04", "B14")))))
    assert make().observe(start, NOW).points[0].start == start + 26 * HOUR


ILLEGIBLE = {
    "position": lambda text: text.replace("<position>1<", "<position>0<"),
    "figures": lambda text: re.sub(r"<quantity>[^<]*<", "<quantity>?<", text),
    "too large": lambda text: re.sub(r"<quantity>[^<]*<", "<quantity>9e99<", text),
    "no points": lambda text: re.sub(r"<Point>.*</Point>", "", text, flags=re.DOTALL),
    "resolution": lambda text: text.replace("PT60M", "PT61M"),
    "curve": lambda text: text.replace("A01</curveType>", "A99</curveType>"),
    "times": lambda text: text.replace("<start>2026", "<start>1826"),
}


@pytest.mark.parametrize("how", ILLEGIBLE)
def test_a_fuel_that_cannot_be_read_is_not_a_fuel_that_is_not_there(make, server, how):
    """Without the gas that somebody wrote wrongly, nuclear alone would be 12 g/kWh: it is an error instead."""
    start = NOW.replace(minute=0) - 26 * HOUR
    nuclear, gas = (generation(psr, hours(start, *[500] * 26)) for psr in ("B14", "B04"))
    server.answer_with(answer(document(nuclear, ILLEGIBLE[how](gas))))
    with pytest.raises(SchemaError, match="no interval of it can be used, because"):
        day(make())


@pytest.mark.parametrize("how", ILLEGIBLE)
def test_what_pumps_use_may_be_illegible(make, server, how):
    """It does not count, so it cannot be wrong."""
    start = NOW.replace(minute=0) - 26 * HOUR
    nuclear, gas = (generation(psr, hours(start, *[500] * 26), zone=FR) for psr in ("B14", "B04"))
    pumps = generation("B10", hours(start, *[500] * 26), zone=FR, consumed=True)
    server.answer_with(answer(document(nuclear, gas, ILLEGIBLE[how](pumps))))
    assert {point.g_per_kwh for point in day(make("FR"))} == {251.0}


def test_a_reply_of_endless_steps_is_refused(make, server):
    """A year of quarters fits into a small document: of many of them, or of one that goes on for ever, none is made."""
    start = MIDNIGHT - 365 * DAY
    series = [generation(psr, period(start, MIDNIGHT, QUARTER, {1: 500}), curve="A03") for psr in ("B04", "B14")]
    forever = generation("B04", period(start, start.replace(year=8000), QUARTER, {1: 500}), curve="A03")
    for many in (series, [forever]):
        server.answer_with(answer(document(*many)))
        with pytest.raises(SchemaError, match="more than 60000 steps"):
            day(make())


# Refusals


UNAUTHORIZED = "Unauthorized. Missing or invalid security token"
TOO_OFTEN = "Max allowed requests per minute from each unique IP is max up to 400 only"
NOTHING = "No matching data found for Data item Actual Generation per Production Type [16.1.B&amp;C]"
TOO_MUCH = "The amount of requested data exceeds allowed limit. Requested: 201, maximum: 200"
WRONG = "The combination of [DocumentType=A75] is not valid, please check you request against dependency tables"


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (answer(acknowledgement(NOTHING)), NoData, "200 No matching data found"),
        (answer(acknowledgement(NOTHING), 400), NoData, "400 No matching data found"),
        (answer(acknowledgement("Something new")), NoData, "Something new"),
        (answer(acknowledgement(TOO_MUCH), 400), BadRequest, "exceeds allowed limit"),
        (answer(acknowledgement(TOO_MUCH)), BadRequest, "exceeds allowed limit"),
        (answer(acknowledgement(WRONG), 400), BadRequest, "dependency tables"),
        (answer(acknowledgement("Rejected", "A02")), BadRequest, "Rejected .code A02"),
        (answer(acknowledgement("External API temporarily unavailable")), Transient, "no token mends"),
        (answer(UNAUTHORIZED, 401, "text/plain"), AuthError, "check the token; a new one may take days"),
        (html(401, f"<html><body><h1>{UNAUTHORIZED}</h1></body></html>"), AuthError, UNAUTHORIZED),
        (answer(acknowledgement(UNAUTHORIZED), 401), AuthError, UNAUTHORIZED),
        (answer(acknowledgement("Invalid security token"), 400), AuthError, "Invalid security token"),
        (answer("Forbidden", 403, "text/plain"), AuthError, "403"),
        (answer(TOO_OFTEN, 429, "text/plain"), RateLimited, "Max allowed requests"),
        (html(503), Transient, "503"),
        (answer("Service Unavailable", 503, "text/plain"), Transient, "503"),
        (answer("404 page not found", 404, "text/plain"), Transient, "down or moving"),
        (answer("External API temporarily unavailable", 404, "text/plain"), Transient, "down or moving"),
        (html(404, "<html><body>page not found</body></html>"), Transient, "down or moving"),
        (answer("Bad period", 400, "text/plain"), BadRequest, "400 Bad period"),
        (as_json({"message": "no such thing"}, 404), BadRequest, "no such thing"),
        (answer('<?xml version="1.0"?><html><body>maintenance</body></html>'), Transient, "is 'html', not a GL"),
        (answer("<GL_MarketDocument><TimeSeries>"), Transient, "no XML"),
        (answer("  "), Transient, "empty"),
        (Answer(status=204), NoData, "204"),
    ],
)
def test_each_refusal_has_its_class(make, server, given, error, text):
    """By status and by the text of what was sent with it."""
    server.answer_with(given)
    with pytest.raises(error, match=text):
        day(make())


def test_a_ban_is_kept_by_all_that_ask_the_host(make, server, session, clock):
    """Ten minutes after too many requests, and until then neither generation nor prices are asked for."""
    server.answer_with(answer(TOO_OFTEN, 429, "text/plain"))
    with pytest.raises(RateLimited) as caught:
        day(make())
    assert caught.value.retry_after_s == 600.0
    server.answer_with(platform(clock.now))
    prices = EntsoePrices(
        zone="DE_LU", options={}, token=Secret(TOKEN), base_url=server.url, session=session, now=clock.now
    )
    for provider, ask in ((make(), day), (prices, lambda those: those.prices(NOW, NOW + HOUR))):
        with pytest.raises(RateLimited):
            ask(provider)
    assert len(server.requests) == 1
    clock.advance(601)
    assert day(make()).points


def test_a_ban_may_say_how_long_it_lasts(make, server):
    """Retry-After goes before our ten minutes."""
    server.answer_with(answer(TOO_OFTEN, 429, "text/plain", Retry_After="1200"))
    with pytest.raises(RateLimited) as caught:
        day(make())
    assert caught.value.retry_after_s == 1200.0


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 429, 500])
@pytest.mark.parametrize("wrap", [str, acknowledgement, "<html><body>{}</body></html>".format])
def test_a_token_that_is_echoed_is_not_told(make, server, caplog, status, wrap):
    """The platform is asked with the token in the address, and may say it back in any form (B23)."""
    server.answer_with(
        lambda request: answer(wrap(f"bad token {request.query['securityToken']} security token"), status)
    )
    with caplog.at_level(logging.DEBUG), pytest.raises(Exception, match=r"\S") as caught:
        day(make())
    assert server.requests[0].query["securityToken"] == TOKEN
    assert TOKEN not in f"{caught.value!r} {caplog.text}"
