"""A Carbon Aware SDK WebAPI of one's own: what it does not say, its zeros, its two ways to write a duration."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import ClassVar

import pytest
from grid_server import NOW, Answer, Request, as_json, html
from http_suite import TOKEN, HttpProviderSuite
from hypothesis import given
from hypothesis import strategies as st
from mutating import Replayed, check, mutated
from own_fakes import HOUR, STEP, carbon_aware, carbon_aware_document, carbon_aware_forecast, expected, observed

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
from providers.carbon_aware_sdk import CarbonAwareSdk
from providers.redact import Secret

SAID = {"signal": "marginal", "scope": "direct"}


def _made(session, base_url, now, token=None, **options):
    secret = Secret(token) if token else None
    given_ = {"zone": "northeurope", "options": {**SAID, **options}, "token": secret, "base_url": base_url}
    return CarbonAwareSdk(**given_, session=session, now=now)


class TestCarbonAwareSdkSuite(HttpProviderSuite):
    """With a token for the proxy before it."""

    options: ClassVar[dict] = {}

    def make(self, session, base_url):
        return _made(session, base_url, lambda: self.NOW, token=TOKEN, **self.options)

    @pytest.fixture
    def server(self, server):
        server.answer_with(carbon_aware(lambda: self.NOW))
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


class TestCarbonAwareSdkWithoutForecastSuite(TestCarbonAwareSdkSuite):
    """In front of a data source that has none."""

    options: ClassVar[dict] = {"forecast": False}


@pytest.fixture
def make(server, session, clock):
    server.answer_with(carbon_aware(clock.now))

    def make(**given_):
        return _made(session, server.url, clock.now, **given_)

    return make


def _observe(make, server, *rows, **options):
    server.answer_with(as_json(list(rows)))
    return make(**options).observe(NOW - 3 * HOUR, NOW).points


def _forecast(make, server, document):
    server.answer_with(as_json(document))
    return make().forecast(NOW, NOW + 6 * HOUR).points


# What the operator has to say


@pytest.mark.parametrize("missing", ["signal", "scope"])
def test_signal_and_scope_are_never_guessed(session, missing):
    """Marginal and average look the same in a reply, so the option is asked for, with how to find out."""
    options = {key: value for key, value in SAID.items() if key != missing}
    given_ = {"zone": "northeurope", "token": None, "base_url": "http://sdk", "session": session, "now": lambda: NOW}
    with pytest.raises(BadRequest, match=f"needs the option {missing}, one of .*WattTime it is marginal"):
        CarbonAwareSdk(options=options, **given_)


def test_there_is_no_address_to_fall_back_on(session):
    """It is the organisation's own server."""
    with pytest.raises(BadRequest, match="needs base_url, the address of your own server"):
        _made(session, None, lambda: NOW)


def test_options_become_labels(make):
    """What the operator says is what the points say."""
    point = make(signal="average", scope="lifecycle", boundary="consumption").observe(NOW - HOUR, NOW).points[0]
    assert (point.signal, point.scope, point.boundary) == (Signal.AVERAGE, Scope.LIFECYCLE, Boundary.CONSUMPTION)


# Observations


def test_what_was_observed(make, server):
    """g/kWh as they are, by start and duration; estimates, since nothing says otherwise, of the grid that is named."""
    points = make().observe(NOW - HOUR, NOW).points
    assert [point.start for point in points] == [NOW - HOUR + n * STEP for n in range(12)]
    assert {point.end - point.start for point in points} == {STEP}
    assert points[0].g_per_kwh == 308.0
    assert {(point.kind, point.method) for point in points} == {(Kind.ESTIMATED, "location IE")}
    (sent,) = server.requests
    assert sent.path == "/emissions/bylocation"
    assert sent.query == {"location": "northeurope", "time": "2026-03-04T08:20:00Z", "toTime": "2026-03-04T09:20:00Z"}
    assert "authorization" not in sent.headers


def test_a_token_goes_to_the_proxy_before_it(make, server):
    """The API itself has no keys."""
    make(token=TOKEN).observe(NOW - HOUR, NOW)
    assert server.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_current_data_in_place_of_the_range_is_not_taken_for_it(make, server):
    """Where a parameter was not understood it answers for now: rows outside of the range are left out."""
    server.answer_with(as_json([observed(NOW - STEP, 300)]))
    assert make().observe(NOW - 9 * HOUR, NOW - 6 * HOUR).points == ()


@pytest.mark.parametrize(("options", "values"), [({}, [310.0]), ({"zero_is_missing": False}, [310.0, 0.0])])
def test_a_zero_is_suspect_until_the_operator_vouches_for_it(make, server, options, values):
    """0 has stood where there was nothing; a grid of water may have it."""
    points = _observe(make, server, observed(NOW - HOUR, 310), observed(NOW - HOUR + STEP, 0), **options)
    assert [point.g_per_kwh for point in points] == values


@pytest.mark.parametrize("rating", [None, -1, 5001, "310", True, [], float("nan"), float("inf"), 10**400])
def test_an_impossible_rating_is_a_gap(make, server, rating):
    """It costs its own five minutes."""
    points = _observe(make, server, observed(NOW - HOUR, rating), observed(NOW - HOUR + STEP, 310))
    assert [point.start for point in points] == [NOW - HOUR + STEP]


def test_a_missing_rating_is_not_zero(make, server):
    """A row without its key is refused, and named where it is all there is."""
    bare = {key: value for key, value in observed(NOW - HOUR, 1).items() if key != "rating"}
    with pytest.raises(SchemaError, match="rating is missing at 2026-03-04T08:20"):
        _observe(make, server, bare)


@pytest.mark.parametrize(
    ("duration", "length"),
    [
        ("00:05:00", STEP),
        ("01:00:00", HOUR),
        ("1:00:00", HOUR),
        ("1.00:00:00", 24 * HOUR),
        ("00:05:00.0000000", STEP),
        (5, STEP),
        (60.0, HOUR),
    ],
)
def test_a_duration_is_a_time_span_or_minutes(make, server, duration, length):
    """Both are in use, by endpoint and by version."""
    points = _observe(make, server, observed(NOW - 3 * HOUR, 310, duration=duration))
    assert [point.end - point.start for point in points] == [length]


@pytest.mark.parametrize("duration", ["00:00:00", 0, -5, "PT5M", "2.00:00:00", None, True, [], float("nan"), 1e30, "x"])
def test_an_interval_of_unknown_length_is_not_guessed_at(make, server, duration):
    """The row is a gap."""
    row = observed(NOW - HOUR, 310, duration=duration)
    assert len(_observe(make, server, row, observed(NOW - 2 * HOUR, 300))) == 1
    with pytest.raises(SchemaError, match="duration is "):
        _observe(make, server, row)


def test_rolling_windows_do_not_overlap(make, server):
    """Hours that begin every five minutes end where the next begins."""
    rows = [observed(NOW - HOUR + n * STEP, 300 + n, duration="01:00:00") for n in range(3)]
    points = _observe(make, server, *rows)
    assert [point.end - point.start for point in points] == [STEP, STEP, HOUR]


def test_of_duplicate_rows_the_last_wins(make, server):
    """One time, one point; asked again later a revised value is a new answer."""
    points = _observe(make, server, observed(NOW - HOUR, 300), observed(NOW - HOUR, 310))
    assert [point.g_per_kwh for point in points] == [310.0]


@pytest.mark.parametrize("time", ["2026-03-04T08:20:00", "2026-03-04", None, 1772611200, [], "0001-01-01T00:00:00Z"])
def test_an_impossible_time_is_no_row(make, server, time):
    """A time without an offset is the server's own, which nobody knows."""
    row = {**observed(NOW, 310), "time": time}
    assert len(_observe(make, server, row, observed(NOW - HOUR, 300))) == 1
    with pytest.raises(SchemaError, match="time is "):
        _observe(make, server, row)


def test_two_places_in_one_reply_are_refused(make, server):
    """It is asked for one."""
    with pytest.raises(SchemaError, match=r"more than one location: .*'GB', 'IE'"):
        _observe(make, server, observed(NOW - HOUR, 300), observed(NOW - HOUR + STEP, 310, location="GB"))


def test_the_future_was_not_observed(make, server):
    """A row that has not begun by our clock is clock skew."""
    server.answer_with(as_json([observed(NOW - HOUR, 300), observed(NOW + HOUR, 200)]))
    assert [point.start for point in make().observe(NOW - 3 * HOUR, NOW + 3 * HOUR)] == [NOW - HOUR]


# Forecasts


def test_a_forecast_says_when_it_was_made(make, server):
    """Hours from the running one on; no range is sent, since one beyond its end is refused."""
    points = make().forecast(NOW, NOW + 48 * HOUR).points
    assert server.requests[0].path == "/emissions/forecasts/current"
    assert server.requests[0].query == {"location": "northeurope"}
    assert len(points) == 24
    assert points[0].start == NOW.replace(minute=0)
    assert {(point.kind, point.issued_at) for point in points} == {(Kind.FORECAST, NOW.replace(hour=8, minute=0))}


@pytest.mark.parametrize("key", ["optimalDataPoints", "optimalDataPoint"])
@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("data", [[], None])
def test_the_best_window_counts_where_nothing_else_is_given(make, server, key, wrapped, data):
    """As a list, or as the one object that the documentation shows, under either name."""
    best = expected(NOW + HOUR, 120)
    document = {
        **carbon_aware_forecast(NOW, forecastData=data, optimalDataPoints=None),
        key: [best] if wrapped else best,
    }
    points = _forecast(make, server, [document])
    assert [(point.start, point.g_per_kwh) for point in points] == [(NOW + HOUR, 120.0)]


def test_a_slot_without_a_value_is_a_gap(make, server):
    """A 0 that was left out in writing it down must not become the cleanest hour, nor the best."""
    bare = {key: value for key, value in expected(NOW + HOUR, 0).items() if key != "value"}
    document = carbon_aware_forecast(
        NOW, forecastData=[bare, expected(NOW + 2 * HOUR, 0), expected(NOW + 3 * HOUR, 90)]
    )
    assert [point.g_per_kwh for point in _forecast(make, server, [document])] == [90.0]


def test_a_forecast_from_the_future_is_from_now(make, server):
    """Their clock may be ahead of ours."""
    document = carbon_aware_forecast(NOW, generatedAt=(NOW + HOUR).isoformat())
    assert {point.issued_at for point in _forecast(make, server, [document])} == {NOW}


@pytest.mark.parametrize("made", [None, "2026-03-04T08:00:00", 7])
def test_a_forecast_without_a_date_is_refused(make, server, made):
    """How old it is decides what it is worth."""
    with pytest.raises(SchemaError, match="generatedAt is "):
        _forecast(make, server, [carbon_aware_forecast(NOW, generatedAt=made)])


def test_one_forecast_for_one_location(make, server):
    """None is no data, two are an error."""
    with pytest.raises(NoData, match="has no forecast"):
        _forecast(make, server, [])
    with pytest.raises(SchemaError, match="2 forecasts"):
        _forecast(make, server, [carbon_aware_forecast(NOW)] * 2)


def test_nothing_is_asked_of_the_wrong_side_of_now(make, server):
    """The future has no observations and the past no forecast."""
    assert len(make().observe(NOW + HOUR, NOW + 2 * HOUR)) == 0
    assert len(make().forecast(NOW - 2 * HOUR, NOW - HOUR)) == 0
    assert server.requests == []


# Refusals


def _problem(status, detail, title="ArgumentException"):
    return as_json({"title": title, "status": status, "detail": detail, "errors": {}, "traceId": "00-abc"}, status)


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (_problem(400, "ForecastDataSource is not configured"), PlanError, "set the option forecast = false"),
        (_problem(501, "", "NotImplemented"), PlanError, "no forecasts; set the option"),
        (_problem(400, "Location northeurope is not known"), BadRequest, "Location northeurope is not known"),
        (_problem(401, "upstream"), AuthError, "401: upstream"),
        (_problem(403, "upstream"), AuthError, "403: upstream"),
        (_problem(429, "upstream"), RateLimited, "429"),
        (_problem(500, "boom"), Transient, "500: boom"),
        (html(502), Transient, "502"),
        (Answer(status=204), NoData, "204"),
        (Answer(status=410), BadRequest, "410"),
        (as_json([]), NoData, "no"),
    ],
)
def test_each_refusal_has_its_class(make, server, answer, error, text):
    """Problem details, the statuses of its own sources passed on, and 204 where there is nothing."""
    server.answer_with(answer)
    with pytest.raises(error, match=text):
        make().forecast(NOW, NOW + HOUR)


@pytest.mark.parametrize("answer", [Answer(status=204), as_json([])])
def test_nothing_observed_is_no_data(make, server, answer):
    """In both of its forms."""
    server.answer_with(answer)
    with pytest.raises(NoData):
        make().observe(NOW - HOUR, NOW)


# Anything at all


def _healthy(endpoint):
    query = {"time": "2026-03-04T08:20:00Z", "toTime": "2026-03-04T09:20:00Z"}
    return carbon_aware_document(Request(f"/emissions/{endpoint}", query, {}), NOW)


@pytest.mark.parametrize("endpoint", ["bylocation", "forecasts/current"])
@given(data=st.data())
def test_the_sdk_survives_any_reply(endpoint, data):
    """A value that was sent, a gap, or one of our errors, whichever endpoint's reply it is."""
    document = data.draw(mutated(_healthy(endpoint)))
    session = Replayed(json.dumps(document).encode(), data.draw(st.sampled_from([200, 200, 200, 204, 400, 404, 501])))
    provider = _made(session, "http://sdk", lambda: NOW)
    day = timedelta(days=1)
    for ask, start, end in ((provider.observe, NOW - day, NOW), (provider.forecast, NOW, NOW + day)):
        check(_hourly(ask), start, end, document)
    session.close()


def _hourly(ask):
    """``check`` knows rows of up to an hour; a mutated duration may be a day."""
    return lambda start, end: [point for point in ask(start, end) if point.end - point.start <= HOUR]
