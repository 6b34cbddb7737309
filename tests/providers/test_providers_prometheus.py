"""A PromQL query of one's own: its unit and meaning are options, its texts become numbers or gaps, one series only."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest
from grid_server import NOW, Answer, Request, as_json, html
from http_suite import TOKEN, HttpProviderSuite
from hypothesis import given
from hypothesis import strategies as st
from mutating import Replayed, mutated, outcome
from own_fakes import HOUR, METRIC, STEP, prometheus, prometheus_document, success

from providers.base import (
    AuthError,
    BadRequest,
    Boundary,
    Kind,
    NoData,
    ProviderError,
    RateLimited,
    SchemaError,
    Scope,
    Signal,
    Transient,
)
from providers.prometheus import Prometheus
from providers.reading import MOST_G_PER_KWH
from providers.redact import Secret

SAID = {"query": "grid_intensity", "signal": "average", "scope": "lifecycle"}
FORECAST = {"forecast_query": "grid_intensity offset 1d"}


def _made(session, base_url, now, token=None, **options):
    secret = Secret(token) if token else None
    given_ = {"zone": "DE", "options": {**SAID, **options}, "token": secret, "base_url": base_url}
    return Prometheus(**given_, session=session, now=now)


class TestPrometheusSuite(HttpProviderSuite):
    """With a query for the future."""

    options: ClassVar[dict] = FORECAST

    def make(self, session, base_url):
        return _made(session, base_url, lambda: self.NOW, token=TOKEN, **self.options)

    @pytest.fixture
    def server(self, server):
        server.answer_with(prometheus)
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


class TestPrometheusWithoutForecastSuite(TestPrometheusSuite):
    """With what was observed alone."""

    options: ClassVar[dict] = {}


@pytest.fixture
def make(server, session, clock):
    server.answer_with(prometheus)

    def make(path="", **given_):
        return _made(session, server.url + path, clock.now, **given_)

    return make


def _at(hours_ago):
    return round((NOW - hours_ago * HOUR).timestamp())


def _observe(make, server, *values, **options):
    """Of a matrix with one series that has these values from three hours ago on."""
    samples = [[_at(3) + 300 * n, value] for n, value in enumerate(values)]
    server.answer_with(as_json(success("matrix", [{"metric": METRIC, "values": samples}])))
    return make(**options).observe(NOW - 3 * HOUR, NOW).points


# What the operator has to say


@pytest.mark.parametrize("missing", list(SAID))
def test_query_signal_and_scope_are_needed(session, missing):
    """A metric says nothing of itself."""
    options = {key: value for key, value in SAID.items() if key != missing}
    given_ = {"zone": "DE", "token": None, "base_url": "http://prom", "session": session, "now": lambda: NOW}
    with pytest.raises(BadRequest, match=f"prometheus needs the option {missing}"):
        Prometheus(options=options, **given_)


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("query", "  ", "needs the option query"),
        ("unit", "g/kWh", "one of g_per_kwh, kg_per_kwh, kg_per_mwh, t_per_mwh, lb_per_kwh, lb_per_mwh"),
        ("signal", "marginl", "did you mean 'marginal'"),
        ("kind", "forecast", "one of measured, estimated"),
        ("step_s", 1, "a number from 15 to 86400"),
    ],
)
def test_wrong_options_are_refused_at_once(make, option, value, text):
    """With what they may be."""
    with pytest.raises(BadRequest, match=text):
        make(**{option: value})


def test_there_is_no_address_to_fall_back_on(session):
    """It is the operator's own server."""
    with pytest.raises(BadRequest, match="needs base_url, the address of your own server"):
        _made(session, None, lambda: NOW)


def test_options_become_labels(make):
    """What the operator says is what the points say."""
    given_ = {"signal": "marginal", "scope": "direct", "boundary": "production", "kind": "estimated"}
    point = make(**given_).observe(NOW - HOUR, NOW).points[0]
    labels = (Signal.MARGINAL, Scope.DIRECT, Boundary.PRODUCTION, Kind.ESTIMATED)
    assert (point.signal, point.scope, point.boundary, point.kind) == labels


@pytest.mark.parametrize(
    ("unit", "grams"),
    [
        ("g_per_kwh", 0.5),
        ("kg_per_kwh", 500.0),
        ("kg_per_mwh", 0.5),
        ("t_per_mwh", 500.0),
        ("lb_per_kwh", 226.796185),
        ("lb_per_mwh", 0.226796185),
    ],
)
def test_units_become_grams_per_kwh(make, server, unit, grams):
    """Exactly: a pound is 453.59237 g."""
    assert [point.g_per_kwh for point in _observe(make, server, "0.5", unit=unit)] == [pytest.approx(grams, rel=1e-12)]


def test_a_wrong_unit_is_noticed_where_it_must_be(make, server):
    """g/kWh declared as t/MWh are more than any grid emits."""
    with pytest.raises(SchemaError, match="in g/kWh is 400000"):
        _observe(make, server, "400", unit="t_per_mwh")


# Queries


def test_a_range_is_asked_by_step(make, server):
    """Steps are whole ones since 1970, so that the same times are asked again and again; each value lasts a step."""
    points = make().observe(NOW - HOUR + timedelta(seconds=100), NOW).points
    (sent,) = server.requests
    assert sent.path == "/api/v1/query_range"
    assert sent.query == {
        "query": "grid_intensity",
        "start": "2026-03-04T08:20:00Z",
        "end": "2026-03-04T09:20:00Z",
        "step": "300",
    }
    assert [point.start for point in points] == [NOW - HOUR + n * STEP for n in range(12)]
    assert {point.end - point.start for point in points} == {STEP}
    assert points[0].g_per_kwh == 408.0
    assert "authorization" not in sent.headers


def test_the_running_step_is_an_instant_query(make, server, clock):
    """Who asks for now alone gets the small reply."""
    clock.advance(100.0)
    points = make().observe(clock.now(), clock.now()).points
    assert server.requests[0].path == "/api/v1/query"
    assert server.requests[0].query == {"query": "grid_intensity", "time": "2026-03-04T09:20:00Z"}
    assert [(point.start, point.g_per_kwh) for point in points] == [(NOW, 409.0)]


@pytest.mark.parametrize(("days", "requests"), [(28, 1), (40, 2)])
def test_long_ranges_are_asked_in_pieces(make, server, days, requests):
    """A server refuses more than 11,000 values of a series."""
    points = make().observe(NOW - timedelta(days=days), NOW).points
    assert len(server.requests) == requests
    assert len(points) == days * 288


def test_a_range_of_decades_is_cut(make, server):
    """The newest steps are what counts; nobody is asked a thousand times."""
    provider = make()
    server.answer_with(as_json(success("matrix", [])))
    with pytest.raises(NoData):
        provider.observe(datetime(1990, 1, 1, tzinfo=UTC), NOW)
    assert len(server.requests) <= 11


@pytest.mark.parametrize("path", ["", "/", "/api/v1", "/api/v1/"])
def test_people_copy_addresses_with_the_path_in_them(make, server, path):
    """Both are the same server."""
    make(path=path).observe(NOW - HOUR, NOW)
    assert server.requests[0].path == "/api/v1/query_range"


def test_a_token_is_sent_as_a_bearer(make, server):
    """For those who have put a proxy before it."""
    make(token=TOKEN).observe(NOW - HOUR, NOW)
    assert server.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_a_forecast_is_the_other_query_at_times_to_come(make, server):
    """From the running step on, labelled, issued when it was read."""
    points = make(**FORECAST).forecast(NOW, NOW + 3 * HOUR).points
    assert server.requests[0].query["query"] == "grid_intensity offset 1d"
    assert server.requests[0].query["start"] == "2026-03-04T09:20:00Z"
    assert len(points) == 36
    assert {(point.kind, point.issued_at) for point in points} == {(Kind.FORECAST, NOW)}


def test_nothing_is_asked_of_the_wrong_side_of_now(make, server):
    """The future has no observations and the past no forecast."""
    assert len(make(**FORECAST).observe(NOW + HOUR, NOW + 2 * HOUR)) == 0
    assert len(make(**FORECAST).forecast(NOW - 2 * HOUR, NOW - HOUR)) == 0
    assert server.requests == []


# Values


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "Inf"])
def test_what_is_no_number_is_a_gap(make, server, value):
    """A stale series is marked by NaN, and a division by nothing gives infinity."""
    assert [point.g_per_kwh for point in _observe(make, server, "410", value, "412")] == [410.0, 412.0]


@pytest.mark.parametrize("value", ["", "abc", "1_000", "٤", "0x10", "-1", "5001", "1e999", 410, None, True, []])
def test_an_impossible_value_is_never_a_number(make, server, value):
    """It costs its own step; where it is all there is, the error shows it."""
    assert [point.g_per_kwh for point in _observe(make, server, "410", value)] == [410.0]
    with pytest.raises(SchemaError, match=r"the value at 2026-03-04T06:20:00\+00:00 is "):
        _observe(make, server, value)


@pytest.mark.parametrize(
    ("text", "value"), [("410.5", 410.5), ("4.105e+02", 410.5), (".5", 0.5), ("5.", 5.0), ("0", 0.0)]
)
def test_numbers_are_texts(make, server, text, value):
    """In each way that the server writes them; a written 0 is a value."""
    assert [point.g_per_kwh for point in _observe(make, server, text)] == [value]


@pytest.mark.parametrize("at", [_at(3) + 7, _at(3) + 0.5, "1772600400", None, True, float("nan"), 10**400, -1])
def test_a_time_that_was_not_asked_for_is_no_sample(make, server, at):
    """Each sample is of a step of the question."""
    good = [_at(2), "410"]
    server.answer_with(as_json(success("matrix", [{"metric": {}, "values": [[at, "1"], good]}])))
    assert [point.g_per_kwh for point in make().observe(NOW - 3 * HOUR, NOW)] == [410.0]


def test_a_gap_stays_a_gap(make, server):
    """Where the server had nothing to look back to there is no value, and none is bridged."""
    samples = [[_at(3), "410"], [_at(1), "412"]]
    server.answer_with(as_json(success("matrix", [{"metric": {}, "values": samples}])))
    points = make().observe(NOW - 3 * HOUR, NOW).points
    assert [(point.start, point.end) for point in points] == [
        (NOW - 3 * HOUR, NOW - 3 * HOUR + STEP),
        (NOW - HOUR, NOW - HOUR + STEP),
    ]


@pytest.mark.parametrize("shape", ["matrix", "vector"])
def test_more_than_one_series_is_refused(make, server, shape):
    """Which of them is the grid's? The error says how to make it one."""
    key, value = ("values", [[_at(1), "1"]]) if shape == "matrix" else ("value", [_at(1), "1"])
    server.answer_with(as_json(success(shape, [{"metric": METRIC, key: value}] * 3)))
    with pytest.raises(BadRequest, match=r"3 series, the first .*grid_intensity.*by avg\(\.\.\.\)"):
        make().observe(NOW - 3 * HOUR, NOW)


def test_a_scalar_is_a_value_too(make, server):
    """``scalar(...)`` gives a pair without a series."""
    server.answer_with(as_json(success("scalar", [_at(0), "410"])))
    assert [point.g_per_kwh for point in make().observe(NOW, NOW + timedelta(seconds=1))] == [410.0]


@pytest.mark.parametrize("shape", ["string", "streams", None, 7])
def test_another_shape_is_refused(make, server, shape):
    """A text is no intensity."""
    server.answer_with(as_json(success(shape, [_at(0), "410"])))
    with pytest.raises(SchemaError, match="resultType is "):
        make().observe(NOW, NOW)


@pytest.mark.parametrize("shape", ["matrix", "vector"])
def test_an_empty_result_is_no_data(make, server, shape):
    """The metric is not there, or has gone stale."""
    server.answer_with(as_json(success(shape, [])))
    with pytest.raises(NoData, match="the query has no value"):
        make().observe(NOW - HOUR, NOW)


def test_warnings_are_logged_once(make, server, caplog):
    """A store that did not answer makes a sum too small: it is told, until it says something else."""
    samples = [[_at(3), "410"]]
    document = success("matrix", [{"metric": {}, "values": samples}], warnings=["no reply\nfrom store-2"])
    server.answer_with(as_json(document))
    provider = make()
    with caplog.at_level(logging.WARNING, logger="providers.prometheus"):
        for _ in range(3):
            provider.observe(NOW - 3 * HOUR, NOW)
    assert [record.getMessage() for record in caplog.records] == ["prometheus DE: no reply from store-2"]


# Refusals


def _error(kind, text, status):
    return as_json({"status": "error", "errorType": kind, "error": text}, status)


@pytest.mark.parametrize("status", [200, 400, 422])
@pytest.mark.parametrize("kind", ["bad_data", "execution"])
def test_a_bad_query_is_the_operators(make, server, kind, status):
    """Whatever status a proxy gave it, it is shown with the server's own words."""
    server.answer_with(_error(kind, 'parse error: unexpected "{"', status))
    with pytest.raises(BadRequest, match=f"{kind}: parse error: .*check the query"):
        make().observe(NOW - HOUR, NOW)


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (_error("timeout", "query timed out", 503), Transient, "query timed out"),
        (_error("unavailable", "starting", 503), Transient, "starting"),
        (_error("internal", "boom", 500), Transient, "boom"),
        (_error("canceled", "gone", 200), Transient, "gone"),
        (as_json({"status": "error"}), Transient, "502"),
        (as_json({"status": "ok", "data": {}}), SchemaError, "status is 'ok', not 'success'"),
        (as_json({"status": "success"}), SchemaError, "data is None"),
        (as_json({"message": "who are you?"}, 401), AuthError, "who are you"),
        (as_json({}, 429, Retry_After="30"), RateLimited, "429"),
        (html(200), Transient, "HTML"),
        (html(403), Transient, "403"),
        (Answer(status=410), BadRequest, "410"),
        (as_json({"error": "not found"}, 404), BadRequest, "404"),
    ],
)
def test_each_refusal_has_its_class(make, server, answer, error, text):
    """Its own errors and those of what stands before it."""
    server.answer_with(answer)
    with pytest.raises(error, match=text):
        make().observe(NOW - HOUR, NOW)


def test_no_secret_is_told(make, server, caplog):
    """Not even where the server echoes it."""
    server.answer_with(lambda sent: _error("bad_data", f"who is {sent.headers['authorization']}?", 400))
    with caplog.at_level(logging.DEBUG), pytest.raises(ProviderError) as caught:
        make(token=TOKEN).observe(NOW - HOUR, NOW)
    assert TOKEN not in f"{caught.value} {caught.value!r} {caplog.text}"


# Anything at all


@pytest.mark.parametrize("endpoint", ["query", "query_range"])
@given(data=st.data())
def test_prometheus_survives_any_reply(endpoint, data):
    """A value that was sent, a gap, or one of our errors, whichever endpoint's reply it is."""
    times = {"time": "2026-03-04T09:20:00Z", "start": "2026-03-04T08:20:00Z", "end": "2026-03-04T09:20:00Z"}
    healthy = prometheus_document(Request(f"/api/v1/{endpoint}", {**times, "step": "300"}, {}))
    document = data.draw(mutated(healthy))
    session = Replayed(json.dumps(document).encode(), data.draw(st.sampled_from([200, 200, 200, 400, 422, 503])))
    provider = _made(session, "http://prom", lambda: NOW, **FORECAST)
    for ask, start, end in (
        (provider.observe, NOW - 3 * HOUR, NOW),
        (provider.observe, NOW, NOW),
        (provider.forecast, NOW, NOW + HOUR),
    ):
        for point in outcome(ask, start, end):
            assert point.g_per_kwh in _texts(document)
            assert 0 <= point.g_per_kwh <= MOST_G_PER_KWH
            assert point.end - point.start == STEP
    session.close()


def _texts(document):
    """All that reads as a number among the texts of a document."""
    if isinstance(document, dict | list):
        inner = document.values() if isinstance(document, dict) else document
        return set().union(*map(_texts, inner))
    try:
        return {float(document)} if isinstance(document, str) else set()
    except ValueError:
        return set()
