"""WattTime: pounds and percentiles, tokens that end, plans that do not cover."""

from __future__ import annotations

import json
import logging
import threading
from datetime import timedelta
from itertools import pairwise
from typing import ClassVar

import pytest
from grid_server import NOW, Answer, as_json, html
from http_suite import HttpProviderSuite
from hypothesis import given
from hypothesis import strategies as st
from mutating import mutated, outcome
from watttime_fakes import PASSWORD, STEP, USER, FakeWattTime, document, row, stamp

from providers.base import (
    AuthError,
    BadRequest,
    Boundary,
    Kind,
    NoData,
    PlanError,
    ProviderError,
    RateLimited,
    SchemaError,
    Scope,
    Signal,
    Transient,
)
from providers.reading import MOST_G_PER_KWH
from providers.redact import Secret
from providers.session import Session
from providers.transport import RawReply
from providers.watttime import WattTime

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
G_PER_LB_PER_MWH = 0.45359237
CREDENTIALS = f"{USER}:{PASSWORD}"


def _made(session, base_url, now, token=CREDENTIALS, zone="CAISO_NORTH", **options):
    secret = Secret(token) if token else None
    return WattTime(zone=zone, options=options, token=secret, base_url=base_url, session=session, now=now)


class TestWattTimeSuite(HttpProviderSuite):
    """Marginal emissions."""

    SECRETS = (*HttpProviderSuite.SECRETS, PASSWORD)
    MORE_REQUESTS = 1  # the login
    ERRORS: ClassVar = {"html-403": AuthError}  # which is how it refuses one
    options: ClassVar[dict] = {}

    def make(self, session, base_url):
        return _made(session, base_url, lambda: self.NOW, **self.options)

    @pytest.fixture
    def server(self, server):
        server.answer_with(FakeWattTime(lambda: self.NOW))
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


class TestWattTimeAverageSuite(TestWattTimeSuite):
    """Average emissions."""

    options: ClassVar[dict] = {"signal": "average"}


@pytest.fixture
def watttime(server, clock):
    fake = FakeWattTime(clock.now)
    server.answer_with(fake)
    return fake


@pytest.fixture
def make(server, session, clock, watttime):
    def make(**given):
        return _made(session, server.url, clock.now, **given)

    return make


def _hours(provider, hours=3):
    return provider.observe(NOW - hours * HOUR, NOW)


# Units and labels


def test_pounds_become_grams(make):
    """lb/MWh times 0.45359237, exactly, by the start of each five minutes."""
    points = _hours(make()).points
    assert points[0].start == NOW - 3 * HOUR
    assert points[0].g_per_kwh == pytest.approx(706 * G_PER_LB_PER_MWH, rel=1e-12)
    assert all(before.end == after.start for before, after in pairwise(points))
    labels = {(point.kind, point.signal, point.scope, point.boundary, point.method) for point in points}
    assert labels == {(Kind.MEASURED, Signal.MARGINAL, Scope.DIRECT, Boundary.UNSPECIFIED, "model 2025-12-01")}
    assert points[0].updated_at == points[0].start + timedelta(minutes=4)


def test_the_request_is_as_documented(make, server):
    """Basic for the login, Bearer after it; UTC times; the marker of imputed data is asked for."""
    _hours(make())
    login, asked = server.requests
    assert login.path == "/login"
    assert login.headers["authorization"].startswith("Basic ")
    assert asked.path == "/v3/historical"
    assert asked.headers["authorization"] == "Bearer PlainToken98765.1"
    assert asked.query == {
        "region": "CAISO_NORTH",
        "signal_type": "co2_moer",
        "start": "2026-03-04T06:20:00Z",
        "end": "2026-03-04T09:20:00Z",
        "include_imputed_marker": "true",
    }


def test_options_reach_request_and_labels(make, server):
    """Average emissions of a named model."""
    point = _hours(make(signal="average", model="2024-06-01")).points[0]
    assert server.requests[1].query["signal_type"] == "co2_aoer"
    assert server.requests[1].query["model"] == "2024-06-01"
    assert (point.signal, point.method) == (Signal.AVERAGE, "model 2024-06-01")


@pytest.mark.parametrize("signal", ["health_damage", "index", "co2_moer"])
def test_what_is_no_emission_cannot_be_asked_for(make, signal):
    """Health damage is in dollars and the index a rank: neither is a choice."""
    with pytest.raises(BadRequest, match=f"signal is '{signal}', but must be one of marginal, average"):
        make(signal=signal)


@pytest.mark.parametrize("units", ["percentile", "USD/MWh", "lbs_co2_per_kwh", None, 7])
@pytest.mark.parametrize("ask", ["observe", "forecast"])
def test_a_percentile_is_not_taken_for_pounds(make, watttime, units, ask):
    """37 % of all hours were cleaner is not 37 lb/MWh: the unit is named and nothing is given."""
    watttime.change = lambda reply: {**reply, "meta": {**reply["meta"], "units": units}}
    with pytest.raises(SchemaError, match=f"answers in {units!r}, not lbs_co2_per_mwh"):
        getattr(make(), ask)(NOW - HOUR, NOW + HOUR)


@pytest.mark.parametrize(("key", "value"), [("region", "PJM_DC"), ("region", None), ("signal_type", "health_damage")])
def test_another_region_or_signal_is_refused(make, watttime, key, value):
    """What is echoed must be what was asked for."""
    watttime.change = lambda reply: {**reply, "meta": {**reply["meta"], key: value}}
    with pytest.raises(SchemaError, match=f"asked for {key} .* answered {value!r}"):
        _hours(make())


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, Kind.MEASURED),
        ({"imputed_data_used": True}, Kind.ESTIMATED),
        ({"imputed_data_used": None}, Kind.ESTIMATED),
        ({"imputed_data_used": "false"}, Kind.ESTIMATED),
    ],
)
def test_imputed_values_are_estimates(make, watttime, changes, kind):
    """Only what says that nothing was imputed counts as measured."""
    watttime.change = lambda reply: {**reply, "data": [row(NOW - HOUR, 600, **changes)]}
    assert [point.kind for point in _hours(make())] == [kind]


@pytest.mark.parametrize("value", [None, -1, 5001, "612", True, [], float("nan"), float("inf"), 10**400])
def test_an_impossible_value_is_a_gap(make, watttime, value):
    """It costs its own five minutes."""
    watttime.change = lambda reply: {**reply, "data": [row(NOW - HOUR, value), row(NOW - HOUR + STEP, 612.0)]}
    assert [point.g_per_kwh for point in _hours(make())] == [pytest.approx(612 * G_PER_LB_PER_MWH)]


def test_a_missing_value_is_not_zero(make, watttime):
    """A row without its key is refused; a written 0 is a value: at noon a marginal plant may be solar."""
    bare = {"point_time": stamp(NOW - HOUR)}
    watttime.change = lambda reply: {**reply, "data": [bare]}
    with pytest.raises(SchemaError, match="value is missing at 2026-03-04T08:20"):
        _hours(make())
    watttime.change = lambda reply: {**reply, "data": [row(NOW - HOUR, 0)]}
    assert [point.g_per_kwh for point in _hours(make())] == [0.0]


def test_the_future_was_not_measured(make, watttime):
    """A row that has not begun by our clock is clock skew."""
    watttime.change = lambda reply: {**reply, "data": [row(NOW - HOUR, 600), row(NOW + HOUR, 500)]}
    assert [point.start for point in make().observe(NOW - 3 * HOUR, NOW + 3 * HOUR)] == [NOW - HOUR]


def test_of_duplicate_rows_the_last_wins(make, watttime):
    """Five minutes, one point; and a revised value is a new answer."""
    watttime.change = lambda reply: {**reply, "data": [row(NOW - HOUR, 600), row(NOW - HOUR, 700)]}
    assert [point.g_per_kwh for point in _hours(make())] == [pytest.approx(700 * G_PER_LB_PER_MWH)]


@pytest.mark.parametrize("seconds", [0, -300, 86400, "300", True, float("nan")])
def test_an_interval_of_unknown_length_is_not_guessed_at(make, watttime, seconds):
    """A period that makes no sense refuses the reply; one that is not told is five minutes."""
    watttime.change = lambda reply: {**reply, "meta": {**reply["meta"], "data_point_period_seconds": seconds}}
    with pytest.raises(SchemaError, match="data_point_period_seconds"):
        _hours(make())


def test_models_are_never_spliced(make, server, watttime):
    """Where a long range spans a change of model, the points are of the newer one alone."""

    def aged(reply):
        old = "2025" in reply["data"][0]["point_time"]
        return {**reply, "meta": {**reply["meta"], "model": {"date": "2025-01-01" if old else "2026-01-01"}}}

    watttime.change = aged
    points = make().observe(NOW - 80 * DAY, NOW).points
    assert {point.method for point in points} == {"model 2026-01-01"}
    assert len(server.requests) == 4


def test_warnings_are_logged_once(make, watttime, caplog):
    """What the source says of its data is in the log, on one line, until it says something else."""
    warning = {"type": "MODEL", "message": "a newer\nmodel exists"}
    watttime.change = lambda reply: {**reply, "meta": {**reply["meta"], "warnings": [warning]}}
    provider = make()
    with caplog.at_level(logging.WARNING, logger="providers.watttime"):
        for _ in range(3):
            _hours(provider)
    assert [record.getMessage() for record in caplog.records] == ["watttime CAISO_NORTH: MODEL a newer model exists"]


# Ranges and forecasts


@pytest.mark.parametrize(("days", "requests"), [(3, 1), (28, 1), (30, 1), (31, 2), (95, 4)])
def test_long_ranges_are_asked_in_pieces(make, server, days, requests):
    """At most 30 days a call; ends are inclusive, so a piece ends one step before the next and no row comes twice."""
    points = make().observe(NOW - days * DAY, NOW).points
    asked = server.requests[1:]
    assert len(asked) == requests
    assert all(later.query["start"] > sooner.query["end"] for sooner, later in pairwise(asked))
    assert len(points) == days * 288
    assert all(before.end == after.start for before, after in pairwise(points))


def test_an_instant_finds_the_interval_around_it(make):
    """Who asks for now gets the five minutes that now is in."""
    point = make().observe(NOW + timedelta(seconds=100), NOW + timedelta(seconds=100)).points
    assert point == ()
    points = make().observe(NOW - timedelta(seconds=100), NOW - timedelta(seconds=100)).points
    assert [each.start for each in points] == [NOW - STEP]


def test_a_forecast_says_when_it_was_made(make, server):
    """``generated_at`` dates it; the first row is the running five minutes."""
    points = make().forecast(NOW, NOW + 10 * HOUR).points
    assert server.requests[1].path == "/v3/forecast"
    assert server.requests[1].query["horizon_hours"] == "10"
    assert points[0].start == NOW
    assert len(points) == 120
    assert {(point.kind, point.issued_at) for point in points} == {(Kind.FORECAST, NOW)}
    assert points[0].g_per_kwh == pytest.approx(600 * G_PER_LB_PER_MWH)


@pytest.mark.parametrize(("hours", "horizon"), [(0.2, "1"), (24, "24"), (24.5, "25"), (72, "72"), (400, "72")])
def test_the_horizon_is_what_is_needed(make, server, hours, horizon):
    """Whole hours, 72 at most; further than that nothing is made up."""
    points = make().forecast(NOW, NOW + hours * HOUR).points
    assert server.requests[1].query["horizon_hours"] == horizon
    assert points[-1].end <= NOW + 72 * HOUR


@pytest.mark.parametrize(("made", "issued_at"), [("2026-03-04T08:00:00+00:00", NOW - 80 * STEP / 5), (None, NOW)])
def test_a_forecast_made_earlier_keeps_its_date(make, watttime, made, issued_at):
    """A late forecast is old, and one without a date is as old as our reading of it."""
    watttime.change = lambda reply: {**reply, "meta": {**reply["meta"], "generated_at": made}}
    assert {point.issued_at for point in make().forecast(NOW, NOW + HOUR)} == {issued_at}


def test_a_forecast_from_the_future_is_from_now(make, watttime):
    """Their clock may be ahead of ours."""
    watttime.change = lambda reply: {**reply, "meta": {**reply["meta"], "generated_at": stamp(NOW + HOUR)}}
    assert {point.issued_at for point in make().forecast(NOW, NOW + HOUR)} == {NOW}


def test_a_forecast_shorter_than_asked_is_what_it_is(make, watttime):
    """Nothing is made up behind its end."""
    watttime.change = lambda reply: {**reply, "data": reply["data"][:7]}
    assert len(make().forecast(NOW, NOW + 48 * HOUR)) == 7


def test_nothing_is_asked_of_the_wrong_side_of_now(make, server):
    """Not even a login is spent on it."""
    assert len(make().observe(NOW + HOUR, NOW + 2 * HOUR)) == 0
    assert len(make().forecast(NOW - 2 * HOUR, NOW - HOUR)) == 0
    assert server.requests == []


def test_nothing_published_is_no_data(make, watttime):
    """An empty list under a 200."""
    watttime.change = lambda reply: {**reply, "data": []}
    for ask in (make().observe, make().forecast):
        with pytest.raises(NoData, match="published nothing"):
            ask(NOW - HOUR, NOW + HOUR)


# Logins


def test_one_login_lasts_for_many_questions(make, watttime, clock):
    """A token is kept for 25 of its 30 minutes, by a clock that nobody can set."""
    provider = make()
    for _ in range(5):
        _hours(provider)
        clock.advance(299.0)
    assert watttime.logins == 1
    clock.advance(6.0)
    _hours(provider)
    assert watttime.logins == 2


def test_a_wall_clock_set_back_keeps_no_dead_token(server, make_session, clock, watttime):
    """An hour of autumn, or a clock step, does not make a token younger."""
    session = make_session()
    provider = _made(session, server.url, lambda: NOW)
    _hours(provider)
    clock.advance(26 * 60.0)
    _hours(provider)
    assert watttime.logins == 2


def test_a_token_that_ends_in_the_middle_of_a_batch_is_renewed(server, session, clock):
    """The pieces of a long range go on with a new one, and none is lost."""
    watttime = FakeWattTime(clock.now, uses=2)
    server.answer_with(watttime)
    points = _made(session, server.url, clock.now).observe(NOW - 95 * DAY, NOW).points
    assert len(points) == 95 * 288
    assert watttime.logins == 2
    refused = [sent for sent in server.requests if sent.headers["authorization"].endswith("98765.1")]
    assert len(refused) == 3


@pytest.mark.parametrize("refusal", [as_json({"message": "expired"}, 401), html(403), Answer(status=403)])
def test_a_token_refused_before_its_time_is_renewed_once(make, watttime, refusal):
    """401, or a page under 403: one new login, and the question again."""
    watttime.refusal = refusal
    provider = make()
    _hours(provider)
    watttime.revoke()
    assert _hours(provider).points
    assert watttime.logins == 2


@pytest.mark.parametrize(("refusal", "error"), [(as_json({"message": "no"}, 401), AuthError), (html(403), Transient)])
def test_a_new_token_that_is_refused_is_not_renewed_again(make, watttime, refusal, error):
    """No loop of logins: a second refusal is the answer."""
    watttime.refusal = refusal
    watttime.uses = 0
    with pytest.raises(error, match="with a token just got"):
        _hours(make())
    assert watttime.logins == 2


def test_many_at_once_share_one_login(make, server, watttime):
    """Eight threads that find no token wait for the one that logs in."""
    provider = make()
    began = threading.Barrier(8)
    found = []

    def ask():
        began.wait()
        found.append(len(_hours(provider)))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [36] * 8
    assert watttime.logins == 1


def test_regions_with_the_same_credentials_share_one_login(make, watttime, clock):
    """A dozen of them cost no more logins than one, and none waits for a turn to log in by itself."""
    began = clock.monotonic()
    for number in range(12):
        assert _hours(make(zone=f"REGION_{number}")).points
    assert watttime.logins == 1
    assert clock.monotonic() - began < 15.0  # a request a second, the first four at once


def test_another_user_has_another_login(server, session, clock, watttime):
    """Also where only the password differs: nobody goes in with a token of somebody else."""
    assert _hours(_made(session, server.url, clock.now)).points
    with pytest.raises(AuthError, match="the login was refused"):
        _hours(_made(session, server.url, clock.now, token=f"{USER}:another"))
    with pytest.raises(AuthError, match="needs a login"):
        _hours(_made(session, server.url, clock.now, token=None))


def test_many_refused_at_once_share_one_renewal(make, watttime):
    """Who was refused with the old token takes the new one that another got meanwhile."""
    provider = make()
    _hours(provider)
    old = provider._login.header()
    watttime.revoke()
    provider._login.drop(old)
    new = provider._login.header()
    provider._login.drop(old)
    assert provider._login.header() is new
    assert watttime.logins == 2


def test_logins_keep_far_below_their_limit(make, watttime, clock):
    """However often tokens are refused, a minute sees no more than seven logins: a third of what is allowed."""
    provider = make()
    began = clock.monotonic()
    while clock.monotonic() - began < 60.0:
        watttime.revoke()
        _hours(provider)
    assert watttime.logins <= 7


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (html(403), AuthError, "the login was refused with 403: check user:password"),
        (as_json({"error": "bad"}, 401), AuthError, "refused with 401 bad"),
        (html(503), Transient, "503"),
        (as_json({"message": "slow down"}, 429), RateLimited, "slow down"),
        (as_json({}), SchemaError, "the login gave no token"),
        (as_json({"token": " "}), SchemaError, "the login gave no token"),
        (as_json({"token": 7}), SchemaError, "the login gave no token"),
        (as_json([]), SchemaError, "the login is"),
    ],
)
def test_each_refused_login_has_its_class(make, server, answer, error, text):
    """A page under 403 is the password's fault; an outage is not."""
    server.answer_with(answer)
    with pytest.raises(error, match=text):
        _hours(make())


@pytest.mark.parametrize("token", [None, "", "rack", "rack:", ":secretword", " "])
def test_without_credentials_nothing_is_asked(make, server, token):
    """The error says what the variable must hold, and not what it holds."""
    with pytest.raises(AuthError, match="must hold user:password") as caught:
        _hours(make(token=token))
    assert "secretword" not in f"{caught.value!r}"
    assert server.requests == []


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (
            as_json({"error": "Invalid query parameters", "message": "Invalid scope. You do not have access"}, 403),
            PlanError,
            "Invalid scope.*its plan does not cover this region and signal",
        ),
        (as_json({"error": "No coverage available"}, 400), BadRequest, "No coverage available: check zone"),
        (as_json({"message": "too many"}, 429, Retry_After="60"), RateLimited, "too many"),
        (html(502), Transient, "502"),
        (Answer(status=410), BadRequest, "410"),
    ],
)
def test_each_refusal_has_its_class(make, server, watttime, answer, error, text):  # noqa: PLR0917 - pytest names them
    """403 with words is the plan, and costs no second login."""
    server.answer_with(watttime, answer)
    with pytest.raises(error, match=text):
        _hours(make())
    assert [sent.path for sent in server.requests].count("/login") == 1


@pytest.mark.parametrize(
    ("header", "seconds"), [("90", 90.0), ("Wed, 04 Mar 2026 09:22:00 GMT", 120.0), ("Wed, 04 Mar 2026 08:00 GMT", 0.0)]
)
def test_retry_after_in_both_forms(server, make_session, clock, watttime, header, seconds):  # noqa: PLR0917 - pytest names them
    """Seconds and a date; what lies past is no wait."""
    server.answer_with(watttime, as_json({}, 429, Retry_After=header))
    with pytest.raises(RateLimited) as caught:
        _hours(_made(make_session(attempts=1), server.url, clock.now))
    assert caught.value.retry_after_s == pytest.approx(seconds, abs=1.0)


def test_no_secret_is_told(make, server, caplog):
    """Not the password, in plain or in base64, nor the token: in no error and no log, even where they are echoed."""
    echo = lambda sent: as_json({"error": f"who is {sent.headers['authorization']}?"}, 400)  # noqa: E731
    provider = make()
    with caplog.at_level(logging.DEBUG):
        _hours(provider)
        server.answer_with(echo)
        for ask in (provider, make()):
            with pytest.raises(ProviderError) as caught:
                _hours(ask)
            said = f"{caught.value} {caught.value!r} {caplog.text}"
            for sent in server.requests:
                assert sent.headers["authorization"].split()[1] not in said
            assert PASSWORD not in said


def test_a_password_that_is_echoed_in_plain_is_masked(make, server):
    """A login page may repeat what it was given."""
    server.answer_with(as_json({"error": f"{PASSWORD} is not the password of {USER}"}, 401))
    with pytest.raises(AuthError, match=r"\*\*\* is not the password of rack") as caught:
        _hours(make())
    assert PASSWORD not in f"{caught.value!r}"


# Anything at all


class _Wire(Session):
    """A good login, and then one prepared reply."""

    def __init__(self, body, status=200):
        super().__init__(attempts=1, sleep=lambda _: None)
        self._body, self._status = body, status

    def _fetch(self, url, *_):
        if url.endswith("/login"):
            return RawReply(url, 200, "application/json", None, "", "", b'{"token": "t"}')
        return RawReply(url, self._status, "application/json", None, "", "", self._body)


@pytest.mark.parametrize("endpoint", ["historical", "forecast"])
@given(data=st.data())
def test_watttime_survives_any_reply(endpoint, data):
    """A value that was sent, in grams; a gap; or one of our errors."""
    query = {"region": "CAISO_NORTH", "signal_type": "co2_moer", "horizon_hours": "1"}
    query |= {"start": stamp(NOW - HOUR), "end": stamp(NOW)}
    healthy = document(type("Asked", (), {"path": f"/v3/{endpoint}", "query": query}), NOW)
    reply = data.draw(mutated(healthy))
    session = _Wire(json.dumps(reply).encode(), data.draw(st.sampled_from([200, 200, 200, 400, 401, 403, 404, 500])))
    provider = _made(session, None, lambda: NOW)
    for ask, start, end in ((provider.observe, NOW - DAY, NOW), (provider.forecast, NOW, NOW + DAY)):
        for point in outcome(ask, start, end):
            assert 0 <= point.g_per_kwh <= MOST_G_PER_KWH
            assert point.g_per_kwh in {value * G_PER_LB_PER_MWH for value in _numbers(reply)}
            assert point.end - point.start <= HOUR
    session.close()


@given(data=st.data())
def test_a_login_survives_any_reply(data):
    """A token or one of our errors."""
    body = data.draw(mutated({"token": "abc"}))

    class Wire(_Wire):
        def _fetch(self, url, *_):
            return RawReply(url, 200, "application/json", None, "", "", self._body)

    session = Wire(json.dumps(body).encode())
    outcome(_made(session, None, lambda: NOW).observe, NOW - HOUR, NOW)
    session.close()


def _numbers(document):
    if isinstance(document, dict | list):
        inner = document.values() if isinstance(document, dict) else document
        return set().union(*map(_numbers, inner))
    return {document} if isinstance(document, int | float) and abs(document) < 1e300 else set()
