"""The US EIA: a key in the query, hours named by their end, pages, late fuels, and errors under any status."""

from __future__ import annotations

import logging
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import mix_fakes
import pytest
from grid_server import NOW, Answer, as_json, html
from http_suite import TOKEN, HttpProviderSuite
from mix_fakes import EIA_MW, eia_hour, eia_reply, eia_row

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
from providers.eia import Eia
from providers.redact import Secret

HOUR = timedelta(hours=1)
NINE = NOW.replace(minute=0)


class TestEiaSuite(HttpProviderSuite):
    """California, with a key in each URL."""

    def make(self, session, base_url):
        given = {"zone": "US-CAL-CISO", "options": {}, "token": Secret(TOKEN), "base_url": base_url}
        return Eia(**given, session=session, now=lambda: self.NOW)

    @pytest.fixture
    def server(self, server):
        server.answer_with(mix_fakes.eia(lambda: self.NOW))
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


@pytest.fixture
def make(server, session, clock):
    server.answer_with(mix_fakes.eia(clock.now))

    def make(zone="US-CAL-CISO", token=TOKEN, **options):
        secret = Secret(token) if token else None
        given = {"zone": zone, "options": options, "token": secret, "base_url": server.url}
        return Eia(**given, session=session, now=clock.now)

    return make


def observe(make, server, *rows, back=2, **more):
    """Of a reply with exactly these rows."""
    server.answer_with(as_json(eia_reply(list(rows), **more)))
    return make().observe(NOW - back * HOUR, NOW).points


def hour(period, **changed):
    """What California had in the hour that ended then, its sun too."""
    return eia_hour(period, **{"SUN": 0, **changed})


def usual(**changed):
    """A day up to eight o'clock, which is complete."""
    return [row for back in range(24, 0, -1) for row in hour(NINE - back * HOUR, **changed)]


# What is asked and what it means


def test_a_period_is_the_end_of_its_hour(make, server):
    """2026-03-04T07 is what happened from six to seven."""
    points = observe(make, server, *hour(NINE - 2 * HOUR, NG=9000), back=4)
    assert [(point.start.hour, point.end.hour) for point in points] == [(6, 7)]


def test_the_intensity_is_that_of_its_mix(make, server):
    """Coal, gas, oil and others with California's own figure for gas; the battery that charges is left out."""
    (point,) = observe(make, server, *hour(NINE - 2 * HOUR), back=4)
    mw = {fuel: float(value) for fuel, value in EIA_MW.items() if fuel != "BAT"}
    factors = {"NG": 516, "COL": 820, "NUC": 12, "WAT": 24, "WND": 11, "SUN": 45, "OIL": 650, "OTH": 700}
    assert point.g_per_kwh == pytest.approx(sum(mw[fuel] * factors[fuel] for fuel in mw) / sum(mw.values()))
    labels = (point.kind, point.signal, point.scope, point.boundary, point.source, point.zone)
    wanted = (Kind.MEASURED, Signal.AVERAGE, Scope.LIFECYCLE, Boundary.PRODUCTION, "eia", "US-CAL-CISO")
    assert labels == wanted
    assert point.method == "ipcc-ar5.1+em-2025.1 lifecycle, 94 % of known fuel"


def test_the_stack_alone_is_an_option(make, server):
    """Direct emissions are less, and marked so."""
    point = make(scope="direct").observe(NOW - 5 * HOUR, NOW).points[0]
    whole = make().observe(NOW - 5 * HOUR, NOW).points[0]
    assert point.scope is Scope.DIRECT
    assert point.g_per_kwh < whole.g_per_kwh


def test_it_asks_for_a_day_more_than_is_wanted(make, server):
    """In one request, ordered, of one respondent, by the ends of hours, with the key in the query."""
    make().observe(NOW - 2 * HOUR, NOW)
    (request,) = server.requests
    assert request.path == "/v2/electricity/rto/fuel-type-data/data/"
    assert request.query == {
        "api_key": TOKEN,
        "frequency": "hourly",
        "data[]": "value",
        "facets[respondent][]": "CISO",
        "start": "2026-03-03T08",
        "end": "2026-03-04T10",
        "sort[0][column]": "period",
        "sort[0][direction]": "asc",
        "sort[1][column]": "fueltype",
        "sort[1][direction]": "asc",
        "offset": "0",
        "length": "5000",
    }
    assert TOKEN not in str(request.headers)


@pytest.mark.parametrize(
    ("zone", "options", "respondent"),
    [
        ("US-TEX-ERCO", {}, "ERCO"),
        ("MISO", {}, "MISO"),
        ("US48", {}, "US48"),
        ("California", {"respondent": "CISO"}, "CISO"),
    ],
)
def test_the_respondent_ends_the_zone_or_is_an_option(make, server, zone, options, respondent):
    """The zone is else a label."""
    points = make(zone, **options).observe(NOW - 5 * HOUR, NOW).points
    assert server.requests[0].query["facets[respondent][]"] == respondent
    assert {point.zone for point in points} == {zone}


@pytest.mark.parametrize(("zone", "options"), [("California", {}), ("US-CAL", {"respondent": "ciso"}), ("a-b&c=D", {})])
def test_a_zone_that_names_no_respondent_is_refused(make, zone, options):
    """At once, since the server would only say that there is nothing."""
    with pytest.raises(BadRequest, match="respondent"):
        make(zone, **options)


def test_the_instant_finds_the_hour_around_it(make, server, clock):
    """And an hour that has not begun is never measured, whatever is sent."""
    rows = [*usual(), *hour(NINE), *hour(NINE + HOUR), *hour(NINE + 2 * HOUR)]
    points = observe(make, server, *rows, back=0)
    assert [point.start for point in points] == [NINE]


def test_it_does_not_look_ahead(make, server):
    """Nothing is asked for what is to come."""
    assert not make().forecast(NOW, NOW + 5 * HOUR).points
    assert not make().observe(NOW + HOUR, NOW + 5 * HOUR).points
    assert not server.requests


@pytest.mark.parametrize(
    ("day", "count"),
    [(date(2026, 3, 8), 23), (date(2026, 11, 1), 25), (date(2026, 6, 1), 24)],
)
def test_each_hour_of_a_clock_change_is_there_once(server, session, day, count):
    """A day in Los Angeles has 23 hours in spring and 25 in autumn, and in UTC no hour is missing or double."""
    midnight = time(tzinfo=ZoneInfo("America/Los_Angeles"))
    start, end = (datetime.combine(at, midnight).astimezone(UTC) for at in (day, day + timedelta(days=1)))
    now = end + 12 * HOUR
    server.answer_with(mix_fakes.eia(lambda: now))
    given = {"zone": "CISO", "options": {}, "token": Secret(TOKEN), "base_url": server.url}
    points = Eia(**given, session=session, now=lambda: now).observe(start, end).points
    assert len(points) == count
    assert (points[0].start, points[-1].end) == (start, end)
    assert all(before.end == after.start for before, after in pairwise(points))


# Rows as they come


@pytest.mark.parametrize("value", ["8000", 8000, 8000.0, " 8000 "])
def test_a_value_is_a_text_or_a_number(make, server, value):
    """Both have been sent."""
    (point,) = observe(make, server, *hour(NINE - HOUR, NG=value))
    assert point.g_per_kwh == observe(make, server, *hour(NINE - HOUR))[0].g_per_kwh


@pytest.mark.parametrize("value", [None, "", "n/a", "NaN", "1e300", True, [], -5000])
def test_a_fuel_without_a_figure_is_missing(make, server, value):
    """An hour of which gas is not known is a gap, not an hour without gas; the hour before stands."""
    points = observe(make, server, *usual(), *hour(NINE, NG=value))
    assert [point.end for point in points] == [NINE - HOUR]


def test_a_late_fuel_makes_a_gap_and_then_a_value(make, server):
    """Wind comes a day after the rest."""
    early = [row for row in hour(NINE) if row["fueltype"] != "WND"]
    assert [point.end for point in observe(make, server, *usual(), *early)] == [NINE - HOUR]
    late = observe(make, server, *usual(), *early, eia_row(NINE, "WND", 2500))
    assert [point.end for point in late] == [NINE - HOUR, NINE]


def test_oil_that_is_months_late_costs_nothing(make, server):
    """It hardly matters."""
    points = observe(make, server, *usual(), *[row for row in hour(NINE) if row["fueltype"] != "OIL"])
    assert points[-1].end == NINE


@pytest.mark.parametrize("mw", [-5000, 0, 5000])
@pytest.mark.parametrize("code", ["BAT", "OES", "PS", "UES"])
def test_storage_counts_neither_way(make, server, code, mw):
    """Batteries, pumps and what else stores, known or not, charge below zero."""
    (point,) = observe(make, server, *hour(NINE - HOUR, **{code: mw}))
    (without,) = observe(make, server, *hour(NINE - HOUR))
    assert point.g_per_kwh == without.g_per_kwh


@pytest.mark.parametrize(("code", "plain"), [("SNB", "SUN"), ("WNB", "WND")])
def test_a_plant_with_a_battery_is_of_its_own_fuel(make, server, code, plain):
    """Panels and turbines beside a battery are reported apart since 2024; they are not thermal plants, nor unknown."""
    for mw in (1200, -60):
        (point,) = observe(make, server, *hour(NINE - HOUR, **{plain: 2000, code: mw}))
        (as_one,) = observe(make, server, *hour(NINE - HOUR, **{plain: 2000 + mw}))
        assert (point.g_per_kwh, point.method) == (pytest.approx(as_one.g_per_kwh), as_one.method)


def test_panels_that_draw_at_night_count_as_nothing(make, server):
    """A little below zero is a station's own use."""
    (point,) = observe(make, server, *hour(NINE - HOUR, SUN=-38))
    assert point.g_per_kwh == observe(make, server, *hour(NINE - HOUR))[0].g_per_kwh


def test_a_new_fuel_counts_as_unknown_and_is_noted(make, server, caplog):
    """As thermal plants, up to a tenth."""
    with caplog.at_level(logging.WARNING):
        (point,) = observe(make, server, *hour(NINE - HOUR, FUS2=1000))
    assert point.method.endswith("88 % of known fuel")
    assert "eia: fuel 'FUS2' is not known here and counts as unknown" in caplog.text


def test_of_duplicate_rows_the_last_wins(make, server):
    """They are revisions."""
    (point,) = observe(make, server, *hour(NINE - HOUR, NG=1), *hour(NINE - HOUR))
    assert point.g_per_kwh == observe(make, server, *hour(NINE - HOUR))[0].g_per_kwh


def test_a_revision_is_a_new_answer(make, server):
    """The same hour asked again later gives its new value."""
    before, after = (observe(make, server, *hour(NINE - HOUR, NG=mw))[0] for mw in (8000, 9000))
    assert before.start == after.start
    assert before.g_per_kwh < after.g_per_kwh


def test_rows_of_another_respondent_are_refused(make, server):
    """An answer for another place is no answer, and one row of it among ours is left out."""
    with pytest.raises(SchemaError, match="asked for CISO, it sent 'PJM'"):
        observe(make, server, *eia_hour(NINE - HOUR, "PJM"))
    mixed = observe(make, server, eia_row(NINE - HOUR, "COL", 90_000, "MISO"), *hour(NINE - HOUR))
    assert mixed[0].g_per_kwh == observe(make, server, *hour(NINE - HOUR))[0].g_per_kwh


@pytest.mark.parametrize(
    "changed",
    [
        {"period": "2026-03-04T08-08"},
        {"period": "2026-03-04"},
        {"period": "2026-03-04T08:00"},
        {"period": 2026030408},
        {"period": None},
        {"period": "2026-02-30T08"},
        {"period": "0001-01-01T00"},
        {"fueltype": None},
        {"value-units": "MWh of something"},
        {"value-units": None},
    ],
)
def test_a_row_that_is_not_what_it_should_be_is_refused(make, server, changed):
    """Local hours, whole days, other units."""
    with pytest.raises(SchemaError, match="no row can be used"):
        observe(make, server, *[{**row, **changed} for row in hour(NINE - HOUR)])


def test_a_row_of_long_ago_judges_nobody(make, server):
    """One stray stamp must not become the first row, which has no gas, and so let hours without gas pass."""
    lacking = [row for row in hour(NINE) if row["fueltype"] != "NG"]
    points = observe(make, server, eia_row(datetime(1999, 1, 1, tzinfo=UTC), "WND", 5), *usual(), *lacking)
    assert [point.end for point in points] == [NINE - HOUR]


# Pages


def test_all_pages_are_read(make, server, clock):
    """Rows of one period may lie on two of them."""
    whole = make().observe(NOW - 48 * HOUR, NOW).points
    server.requests.clear()
    server.answer_with(mix_fakes.eia(clock.now, page=100))
    assert make().observe(NOW - 48 * HOUR, NOW).points == whole
    assert [int(request.query["offset"]) for request in server.requests] == list(range(0, 700, 100))


def test_a_page_that_is_not_sent_is_an_error(make, server):
    """Rather than hours that lack fuels."""
    server.answer_with(as_json(eia_reply(usual(), 300)), as_json(eia_reply([], 300)))
    with pytest.raises(Transient, match="of 300 rows those from 216 on were not sent"):
        make().observe(NOW - HOUR, NOW)


def test_pages_have_an_end(make, server):
    """However many rows a server says to have."""
    server.answer_with(as_json(eia_reply(usual(), 900_000_000)))
    with pytest.raises(BadRequest, match="ask for a shorter interval"):
        make().observe(NOW - HOUR, NOW)
    assert len(server.requests) == 24


@pytest.mark.parametrize("total", [None, "many", -1, "1e3", [], 10**12])
def test_a_total_that_is_no_number_is_refused(make, server, total):
    """Nothing is known then of what is missing."""
    reply = eia_reply(usual())
    reply["response"]["total"] = total
    server.answer_with(as_json(reply))
    with pytest.raises(SchemaError, match="total is"):
        make().observe(NOW - HOUR, NOW)


def test_a_total_that_is_too_small_loses_nothing(make, server):
    """It has been wrong."""
    assert observe(make, server, *usual(), total=0)


def test_a_warning_is_noted_and_the_rows_are_taken(make, server, caplog):
    """Their number may have been cut, which the pages notice."""
    with caplog.at_level(logging.INFO):
        assert observe(make, server, *usual(), warnings=[{"warning": f"incomplete return {TOKEN}"}])
    assert "eia CISO: the reply has warnings" in caplog.text
    assert TOKEN not in caplog.text


def test_no_rows_are_no_data(make, server):
    """Nothing is published, or there is no such respondent: the server does not tell which."""
    with pytest.raises(NoData, match="eia CISO has nothing for 2026-03-03T09 to 2026-03-04T10, or is no respondent"):
        observe(make, server, back=1)


def test_nothing_complete_is_no_data(make, server):
    """Storage alone makes no mix."""
    with pytest.raises(NoData, match="too little is known"):
        observe(make, server, eia_row(NINE - HOUR, "BAT", 400))


# Refusals


@pytest.mark.parametrize("status", [403, 200, 400])
@pytest.mark.parametrize("code", ["API_KEY_MISSING", "API_KEY_INVALID", "API_KEY_DISABLED"])
def test_a_bad_key_is_told_as_that(make, server, status, code):
    """Whatever the status says, and without the key."""
    said = {"error": {"code": code, "message": f"An invalid api_key={TOKEN} was supplied."}}
    server.answer_with(as_json(said, status))
    with pytest.raises(AuthError, match="check the key") as caught:
        make().observe(NOW - HOUR, NOW)
    assert TOKEN not in str(caught.value)
    assert len(server.requests) == 1


def test_without_a_key_nothing_is_asked(make, server):
    """It says how to give one."""
    with pytest.raises(AuthError, match="token_env"):
        make(token=None).observe(NOW - HOUR, NOW)
    assert not server.requests


@pytest.mark.parametrize("status", [200, 400])
def test_a_bad_parameter_is_our_mistake(make, server, status):
    """With the words of the server, also under a 200."""
    said = {"error": "Invalid frequency 'x' provided.", "code": 400}
    server.answer_with(as_json(said, status))
    with pytest.raises(BadRequest, match="Invalid frequency 'x' provided"):
        make().observe(NOW - HOUR, NOW)
    assert len(server.requests) == 1


def test_an_unknown_route_is_our_mistake(make, server):
    """404 in its own form."""
    server.answer_with(as_json({"error": "Not found.", "code": 404}, 404))
    with pytest.raises(BadRequest, match="Not found"):
        make().observe(NOW - HOUR, NOW)


@pytest.mark.parametrize(
    "answer",
    [
        as_json({"error": {"code": "OVER_RATE_LIMIT", "message": "Too many requests"}}, 429),
        as_json({"error": {"code": "OVER_RATE_LIMIT", "message": "Too many requests"}}),
        as_json({"error": {"code": "SUSPENDED", "message": "Try again in a minute"}}, 403),
    ],
    ids=["429", "200", "403"],
)
def test_a_key_that_worked_and_is_refused_was_too_fast(make, server, clock, make_session, answer):
    """It is suspended for minutes, and comes back by itself."""
    session = make_session(attempts=1)
    given = {"zone": "CISO", "options": {}, "token": Secret(TOKEN), "base_url": server.url}
    provider = Eia(**given, session=session, now=clock.now)
    healthy = server.answer
    assert provider.observe(NOW - 5 * HOUR, NOW).points
    server.answer_with(answer)
    with pytest.raises(RateLimited, match="suspended"):
        provider.observe(NOW - 5 * HOUR, NOW)
    server.answer_with(healthy)
    assert provider.observe(NOW - 5 * HOUR, NOW).points


def test_a_key_that_never_worked_is_refused_as_bad(make, server):
    """A 403 with other words."""
    server.answer_with(as_json({"error": {"code": "SUSPENDED", "message": "no"}}, 403))
    with pytest.raises(AuthError):
        make().observe(NOW - HOUR, NOW)


@pytest.mark.parametrize("answer", [html(403), html(502), Answer(status=500)])
def test_a_gateway_is_no_verdict_on_the_key(make, server, answer):
    """A page of HTML is not from the API."""
    server.answer_with(answer)
    with pytest.raises(Transient):
        make().observe(NOW - HOUR, NOW)


def test_the_key_is_in_no_log(make, server, caplog):
    """Though each URL has it."""
    with caplog.at_level(logging.DEBUG):
        make().observe(NOW - 5 * HOUR, NOW)
        server.answer_with(Answer(status=500, body=f'{{"message": "GET /?api_key={TOKEN}"}}'.encode()))
        with pytest.raises(Transient) as caught:
            make().observe(NOW - 5 * HOUR, NOW)
    assert caplog.text
    assert TOKEN not in f"{caplog.text} {caught.value}"


def test_an_unknown_option_is_refused(make):
    """With what it may have meant."""
    with pytest.raises(BadRequest, match=r"respondant.*did you mean 'respondent'"):
        make(respondant="CISO")
