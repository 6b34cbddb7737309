"""Electricity Maps: both versions, plans, estimates, other people's zones."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

import grid_fakes
import pytest
from grid_fakes import em_row, em_time
from grid_server import NOW, Answer, as_json, html
from http_suite import TOKEN, HttpProviderSuite

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
from providers.electricity_maps import ElectricityMaps
from providers.redact import Secret
from providers.testing import ProviderSuite

HOUR = timedelta(hours=1)
RUNNING = NOW.replace(minute=0)


class _Made:
    options: ClassVar[dict] = {}

    def make(self, session, base_url):
        given = {"zone": "DE", "options": self.options, "token": Secret(TOKEN), "base_url": base_url}
        return ElectricityMaps(**given, session=session, now=lambda: self.NOW)

    @pytest.fixture
    def server(self, server):
        server.answer_with(grid_fakes.electricity_maps(lambda: self.NOW))
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


class TestElectricityMapsSuite(_Made, HttpProviderSuite):
    """Version 4."""


class TestElectricityMapsV3Suite(_Made, ProviderSuite):
    """Version 3 by option."""

    options: ClassVar[dict] = {"version": "v3"}


@pytest.fixture
def make(server, session, clock):
    server.answer_with(grid_fakes.electricity_maps(clock.now))

    def make(path="", token=TOKEN, **options):
        secret = Secret(token) if token else None
        given = {"zone": "DE", "options": options, "token": secret, "base_url": server.url + path}
        return ElectricityMaps(**given, session=session, now=clock.now)

    return make


def _history(*rows, zone="DE", **more):
    return as_json({"zone": zone, "history": list(rows), "temporalGranularity": "hourly", **more})


def _at(hours_ago, **changes):
    return {**em_row(RUNNING - hours_ago * HOUR, NOW), **changes}


def _day(provider):
    return provider.observe(NOW - 24 * HOUR, NOW)


def test_history_is_what_was_observed(make, server):
    """Hours by their start, lifecycle and flow-traced; the newest are estimates and say by which method."""
    points = make().observe(NOW - 5 * HOUR, NOW).points
    assert [(point.start.hour, point.g_per_kwh) for point in points] == [(hour, 140.0 + hour) for hour in range(4, 10)]
    assert [point.kind for point in points] == [Kind.MEASURED] * 3 + [Kind.ESTIMATED] * 3
    assert [point.method for point in points] == [""] * 3 + ["FORECASTS_HIERARCHY"] * 3
    labels = {(point.signal, point.scope, point.boundary) for point in points}
    assert labels == {(Signal.AVERAGE, Scope.LIFECYCLE, Boundary.CONSUMPTION)}
    assert points[-1].updated_at == RUNNING - timedelta(minutes=9)


def test_the_request_is_as_documented(make, server):
    """Token in its header, booleans in lower case, and never a look-up of where the caller seems to be."""
    make()._ask("history")
    sent = server.requests[0]
    assert sent.path == "/v4/carbon-intensity/history"
    assert sent.headers["auth-token"] == TOKEN
    assert sent.query == {
        "zone": "DE",
        "temporalGranularity": "hourly",
        "emissionFactorType": "lifecycle",
        "flowTraced": "true",
        "disableCallerLookup": "true",
    }


def test_options_reach_the_request_and_the_labels(make, server):
    """Direct factors, no flow tracing, no estimates, another header: asked for, and labelled."""
    row = _at(1, emissionFactorType="direct", flowTraced=False)
    server.answer_with(_history(row))
    point = _day(make(scope="direct", flow_traced=False, estimations=False, header="X-BLOBR-KEY")).points[0]
    sent = server.requests[0]
    assert sent.headers["x-blobr-key"] == TOKEN
    assert (sent.query["emissionFactorType"], sent.query["flowTraced"]) == ("direct", "false")
    assert sent.query["disableEstimations"] == "true"
    assert (point.scope, point.boundary) == (Scope.DIRECT, Boundary.PRODUCTION)


@pytest.mark.parametrize(
    ("path", "options", "expected"),
    [
        ("", {}, "/v4/carbon-intensity/history"),
        ("", {"version": "v3"}, "/v3/carbon-intensity/history"),
        ("/v3", {}, "/v3/carbon-intensity/history"),
        ("/v3/", {}, "/v3/carbon-intensity/history"),
        ("/gateway/v4", {}, "/gateway/v4/carbon-intensity/history"),
        ("/gateway", {}, "/gateway/v4/carbon-intensity/history"),
    ],
)
def test_version_and_host_are_configuration(make, server, path, options, expected):
    """An address that names a version is taken at its word; v3 knows no flow tracing."""
    _day(make(path, **options))
    assert server.requests[0].path == expected
    assert ("flowTraced" in server.requests[0].query) == ("v4" in expected)


def test_latest_serves_the_running_hour(make, server):
    """Who asks for now alone gets the small reply."""
    points = make().observe(NOW - timedelta(minutes=10), NOW).points
    assert server.requests[0].path.endswith("/latest")
    assert [(point.start, point.end) for point in points] == [(RUNNING, RUNNING + HOUR)]


def test_a_late_latest_is_not_now(make, server):
    """``latest`` may be hours old and go backwards; it counts for its own hour only."""
    server.answer_with(as_json(_at(3, zone="DE")))
    assert len(make().observe(NOW - timedelta(minutes=10), NOW)) == 0


@pytest.mark.parametrize(
    "refusal",
    [
        as_json(
            {"error": "Request unauthorized for zoneKey=DE,requestType=history", "message": "You do not have access"},
            401,
        ),
        as_json({"error": 'No recent data for zone "DE"'}, 404),
    ],
)
def test_a_plan_without_history_falls_to_latest(make, server, refusal):
    """One observed hour is better than none."""
    server.answer_with(refusal, grid_fakes.electricity_maps(lambda: NOW))
    assert [point.start for point in _day(make())] == [RUNNING]
    assert [sent.path.rsplit("/", 1)[1] for sent in server.requests] == ["history", "latest"]


@pytest.mark.parametrize(
    ("hours", "horizon"), [(1, "6"), (6, "6"), (7, "24"), (24, "24"), (36, "48"), (50, "72"), (400, "72")]
)
def test_the_horizon_is_the_least_that_reaches(make, server, hours, horizon):
    """Only four horizons exist; further than the last one nothing is made up."""
    points = make().forecast(NOW, NOW + hours * HOUR).points
    assert server.requests[0].query["horizonHours"] == horizon
    assert points[-1].start < NOW + hours * HOUR
    assert len(points) <= int(horizon) + 1


def test_a_forecast_is_dated_by_when_its_rows_were_first_seen(make, server, clock):
    """``updatedAt`` is the time of the request; the same rows read later are the same forecast."""
    provider = make()
    first = provider.forecast(NOW, NOW + 6 * HOUR)
    clock.advance(600)
    again = provider.forecast(NOW, NOW + 6 * HOUR)
    clock.advance(3600)
    later = provider.forecast(NOW + 2 * HOUR, NOW + 6 * HOUR)
    assert {point.issued_at for point in first} == {point.issued_at for point in again} == {NOW}
    assert {point.issued_at for point in later} == {clock.now()}
    assert {point.updated_at for point in first} == {None}


def test_the_observed_value_wins_the_running_hour(make):
    """Live value and forecast are different models: where one was observed the other is silent."""
    provider = make()
    assert provider.forecast(NOW, NOW + 3 * HOUR).points[0].start == RUNNING
    _day(provider)
    assert provider.forecast(NOW, NOW + 3 * HOUR).points[0].start == RUNNING + HOUR


@pytest.mark.parametrize("zone", ["FR", "de", "", None, 7])
@pytest.mark.parametrize("ask", ["observe", "forecast"])
def test_another_zone_is_refused(make, server, zone, ask):
    """Data of wherever we seem to be is not taken for ours, and both zones are named."""
    rows = [{"carbonIntensity": 1, "datetime": em_time(RUNNING)}]
    server.answer_with(as_json({"zone": zone, "history": rows, "forecast": rows}))
    with pytest.raises(SchemaError, match=f"asked for zone 'DE' and answered with {zone!r}"):
        getattr(make(), ask)(NOW - 24 * HOUR, NOW + HOUR)


@pytest.mark.parametrize(("key", "value"), [("emissionFactorType", "direct"), ("flowTraced", False)])
def test_another_scope_or_boundary_is_refused(make, server, key, value):
    """75 lifecycle and 20 direct were the same instant: they are never mixed silently."""
    server.answer_with(_history(_at(1), **{key: value}))
    with pytest.raises(SchemaError, match=key):
        _day(make())
    server.answer_with(_history(_at(1, **{key: value}), _at(0)))
    assert [point.start.hour for point in _day(make())] == [9]


def test_a_null_row_is_a_gap(make, server):
    """The newest hour is often null; the others are kept, and null is never 0 or -1."""
    server.answer_with(_history(_at(2), _at(1, carbonIntensity=None), _at(0)))
    assert [point.start.hour for point in _day(make())] == [7, 9]


@pytest.mark.parametrize("value", [-1, 5001, "148", True, [], float("nan"), float("-inf"), 10**400])
def test_an_impossible_value_is_never_a_number(make, server, value):
    """It costs its own hour, and where it is all there is, the error shows it."""
    server.answer_with(_history(_at(1, carbonIntensity=value), _at(0)))
    assert [point.start.hour for point in _day(make())] == [9]
    server.answer_with(_history(_at(1, carbonIntensity=value)))
    with pytest.raises(SchemaError, match=r"carbonIntensity at .* is "):
        _day(make())


@pytest.mark.parametrize("at", ["9999-12-31T23:30Z", "0001-01-01T00:00Z", "2026-03-04T08:00:00", 1772611200, None, []])
def test_an_impossible_time_is_no_row(make, server, at):
    """It costs itself, and the rows beside it keep their ends."""
    server.answer_with(_history(_at(1, datetime=at), _at(0)))
    assert [point.end - point.start for point in _day(make())] == [HOUR]
    server.answer_with(_history(_at(1, datetime=at)))
    with pytest.raises(SchemaError, match="datetime is "):
        _day(make())


def test_a_missing_value_is_not_zero(make, server):
    """A row without its key is refused; a written 0 is kept."""
    row = _at(1)
    del row["carbonIntensity"]
    server.answer_with(_history(row))
    with pytest.raises(SchemaError, match="carbonIntensity is missing"):
        _day(make())
    server.answer_with(_history(_at(1, carbonIntensity=0)))
    assert [point.g_per_kwh for point in _day(make())] == [0.0]


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        ({"isEstimated": False, "estimationMethod": None}, Kind.MEASURED),
        ({"isEstimated": False, "estimationMethod": "MEASURED"}, Kind.MEASURED),
        ({"isEstimated": True, "estimationMethod": "TIME_SLICER_AVERAGE"}, Kind.ESTIMATED),
        ({"isEstimated": True, "estimationMethod": "SOMETHING_NEW"}, Kind.ESTIMATED),
        ({"isEstimated": None, "estimationMethod": None}, Kind.ESTIMATED),
        ({"isEstimated": "false"}, Kind.ESTIMATED),
        ({"estimationMethod": None}, Kind.MEASURED),
        ({"estimationMethod": "MEASURED"}, Kind.MEASURED),
        ({"estimationMethod": "MODE_BREAKDOWN"}, Kind.ESTIMATED),
        ({}, Kind.ESTIMATED),
    ],
)
def test_what_counts_as_measured(make, server, flags, kind):
    """The flag decides, then the method; where nothing is said it is an estimate."""
    row = {"carbonIntensity": 100, "datetime": em_time(RUNNING - HOUR), **flags}
    server.answer_with(_history(row))
    assert [point.kind for point in _day(make())] == [kind]


def test_revisions_are_new_answers(make, server):
    """70 estimated becomes 54 measured an hour later, and even measured values change."""
    provider = make()
    told = []
    for value, estimated in ((70, True), (54, False), (52, False)):
        server.answer_with(_history(_at(2, carbonIntensity=value, isEstimated=estimated)))
        told += [(point.g_per_kwh, point.kind) for point in _day(provider)]
    assert told == [(70.0, Kind.ESTIMATED), (54.0, Kind.MEASURED), (52.0, Kind.MEASURED)]


def test_of_duplicate_rows_the_last_wins(make, server):
    """One hour, one point."""
    server.answer_with(_history(_at(1, carbonIntensity=1), _at(1, carbonIntensity=2)))
    assert [point.g_per_kwh for point in _day(make())] == [2.0]


def test_the_future_was_not_measured(make, server):
    """A row that has not begun is clock skew, whatever its flags say."""
    server.answer_with(_history(_at(0), _at(-1, isEstimated=False), _at(-2, isEstimated=False)))
    points = make().observe(NOW - 24 * HOUR, NOW + 24 * HOUR)
    assert [point.start for point in points] == [RUNNING]


def test_a_coarser_reply_than_asked_is_taken_as_it_is(make, server):
    """A plan without quarter hours answers in hours: the reply's own step counts."""
    server.answer_with(_history(_at(1), _at(0)))
    points = _day(make(granularity="15_minutes"))
    assert server.requests[0].query["temporalGranularity"] == "15_minutes"
    assert {point.end - point.start for point in points} == {HOUR}


def test_steps_that_change_within_a_reply_do_not_overlap(make, server):
    """From hours to quarter hours in one list: each row ends where the next begins."""
    quarter = timedelta(minutes=15)
    starts = [RUNNING - 2 * HOUR, RUNNING - HOUR, *(RUNNING - HOUR + n * quarter for n in (1, 2, 3))]
    server.answer_with(_history(*({"carbonIntensity": 9, "datetime": em_time(at)} for at in starts)))
    points = _day(make()).points
    assert [point.end - point.start for point in points] == [HOUR, quarter, quarter, quarter, HOUR]


def test_an_unknown_granularity_is_refused(make, server):
    """An interval of unknown length is not guessed at."""
    server.answer_with(_history(_at(1), temporalGranularity="daily"))
    with pytest.raises(SchemaError, match="temporalGranularity is 'daily'"):
        _day(make())


def test_rows_under_data_are_read_too(make, server):
    """The wrapper differs between endpoints."""
    server.answer_with(as_json({"zone": "DE", "data": [_at(1)]}))
    assert len(_day(make())) == 1


@pytest.mark.parametrize("more", [{"estimationMethod": "SANDBOX_MODE_DATA"}, {"_disclaimer": "This is Sandbox data"}])
@pytest.mark.parametrize("ask", ["observe", "forecast"])
def test_sandbox_data_is_refused(make, server, more, ask):
    """Random numbers that look plausible must not be accounted with."""
    row = {**_at(1), **more}
    server.answer_with(as_json({"zone": "DE", "history": [row], "forecast": [row], **row, **more}))
    with pytest.raises(PlanError, match="sandbox"):
        getattr(make(), ask)(NOW - 24 * HOUR, NOW + HOUR)


PLAN = {
    "error": "Request unauthorized for zoneKey=DE,requestType=forecast,dataType=carbon-intensity.",
    "message": "You do not have access to this specific endpoint for this specific zone",
}


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (as_json({"error": "Invalid auth-token"}, 401), AuthError, "zone DE: 401 Invalid auth-token: check the token"),
        (html(401), Transient, "HTML"),
        (Answer(status=401), AuthError, "401"),
        (as_json(PLAN, 401), PlanError, "the token is good, but its plan does not cover this"),
        (as_json({"message": "Forbidden zone"}, 403), PlanError, "403 Forbidden zone"),
        (as_json({"error": 'No recent data for zone "DE"'}, 404), NoData, "No recent data"),
        (as_json({"status": "error", "message": "No data"}, 404), NoData, "No data"),
        (as_json({"message": "no Route matched with those values"}, 404), BadRequest, "check base_url and version"),
        (as_json({"status": "error", "message": 'Missing arguments "node"'}, 400), BadRequest, "Missing arguments"),
        (as_json({"message": "key not active yet"}, 503), Transient, "503"),
        (as_json({"error": "Invalid auth-token"}), Transient, "Invalid auth-token"),
        (as_json({"status": "error", "message": "No data"}), NoData, "No data"),
        (as_json({"zone": "DE", "forecast": []}), NoData, "published nothing"),
        (as_json({"zone": "DE"}), SchemaError, "data is None, not a list"),
        (Answer(b""), Transient, "empty"),
    ],
)
def test_each_refusal_has_its_class(make, server, answer, error, text):
    """Status and body together: 401 alone says little here."""
    server.answer_with(answer)
    with pytest.raises(error, match=text):
        make().forecast(NOW, NOW + HOUR)


def test_a_token_that_worked_is_given_the_benefit_of_the_doubt_once(make, server):
    """Over its limit the API has answered 401: the first is a limit, the second is the token."""
    provider = make()
    _day(provider)
    server.answer_with(as_json({"error": "Invalid auth-token"}, 401))
    with pytest.raises(RateLimited):
        _day(provider)
    with pytest.raises(AuthError):
        _day(provider)


@pytest.mark.parametrize("token", ["", "  "])
def test_without_a_token_nothing_is_asked(make, server, token):
    """The error names what to set, and no request is wasted."""
    with pytest.raises(AuthError, match="token_env"):
        _day(make(token=token))
    assert server.requests == []


def test_nothing_is_asked_of_the_wrong_side_of_now(make, server):
    """The future has no observations and the past no forecast."""
    assert len(make().observe(NOW + HOUR, NOW + 2 * HOUR)) == 0
    assert len(make().forecast(NOW - 2 * HOUR, NOW - HOUR)) == 0
    assert server.requests == []
