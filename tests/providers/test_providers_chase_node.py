"""Another node as a source: the conformance suite, what it passes on, its tag, and what is refused."""

from __future__ import annotations

import json
import logging
from datetime import timedelta

import chase_fakes
import pytest
from grid_server import NOW, Answer, as_json
from http_suite import TOKEN, HttpProviderSuite
from hypothesis import given, settings
from hypothesis import strategies as st
from mutating import Replayed, _numbers, mutated, outcome

from providers import registry
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
from providers.chase_node import ChaseNode
from providers.reading import MOST_G_PER_KWH
from providers.redact import Secret
from providers.session import Session

hour, day = timedelta(hours=1), timedelta(days=1)


def make(
    session: Session, base_url: str | None, *, zone: str = "GB", token: str | None = TOKEN, **options
) -> ChaseNode:
    secret = Secret(token) if token else None
    return ChaseNode(zone=zone, options=options, token=secret, base_url=base_url, session=session, now=session._now)


@pytest.fixture
def other(server, clock):
    """Another node in order."""
    server.answer_with(chase_fakes.chase_node(clock.now))
    return server


@pytest.fixture
def node(other, session) -> ChaseNode:
    return make(session, other.url)


class TestConformance(HttpProviderSuite):
    @pytest.fixture(autouse=True)
    def healthy(self, other):
        """The suite's server is in order at first."""

    @pytest.fixture
    def provider(self, node):
        return node

    def make(self, session, base_url):
        return make(session, base_url)


class TestWhatIsPassedOn:
    def test_points_stay_what_they_are(self, node):
        """Value, time, kind, signal, scope and boundary of the first source; it is named in the method."""
        last = node.observe(NOW - 3 * hour, NOW).points[-1]
        assert (last.start, last.end, last.g_per_kwh, last.kind) == (
            NOW.replace(hour=8, minute=0),
            NOW.replace(hour=9, minute=0),
            108.0,
            Kind.MEASURED,
        )
        assert (last.signal, last.scope, last.boundary) == (Signal.AVERAGE, Scope.DIRECT, Boundary.CONSUMPTION)
        assert (last.zone, last.source, last.method) == ("GB", "chase_node", "neso GB")
        assert (last.fetched_at, last.updated_at, last.issued_at) == (NOW, NOW.replace(minute=15), None)

    def test_a_forecast_keeps_its_issue(self, node):
        """When it was made, not when we got it; with the source's own word for how."""
        first = node.forecast(NOW, NOW + day).points[0]
        assert (first.start, first.g_per_kwh, first.kind) == (NOW.replace(minute=0), 209.0, Kind.FORECAST)
        assert (first.issued_at, first.method) == (NOW.replace(hour=8, minute=0), "neso GB: model")

    def test_a_forecast_without_an_issue_is_as_old_as_its_reading(self, other, node):
        """And one from a node whose clock is ahead was not made in the future."""
        rows = [chase_fakes.expected(NOW.replace(minute=0), NOW)]
        for issued, expected in ((None, NOW), ("2026-03-04T11:00:00Z", NOW)):
            rows[0].pop("issued_at", None)
            rows[0] |= {"issued_at": issued} if issued else {}
            other.answer_with(chase_fakes.chase_node(lambda: NOW, forecast=rows))
            assert node.forecast(NOW, NOW + day).points[0].issued_at == expected

    def test_who_said_it_first_is_passed_on_from_node_to_node(self, other, node):
        """The second node in a row does not put itself before the source."""
        rows = [{**chase_fakes.observed(NOW.replace(hour=8, minute=0)), "method": "neso GB: model"}]
        other.answer_with(chase_fakes.chase_node(lambda: NOW, source="chase_node", observed=rows))
        assert node.observe(NOW - 3 * hour, NOW).points[0].method == "neso GB: model"

    def test_its_zone_is_ours_whatever_the_other_calls_it(self, other, session):
        """A region of the other node by its own name."""
        node = make(session, other.url, zone="Great Britain", region="gb")
        assert {point.zone for point in node.observe(NOW - 3 * hour, NOW)} == {"Great Britain"}
        assert other.requests[-1].path == "/v1/grid/gb/intensity"

    def test_a_name_with_odd_letters_stays_one_part_of_the_path(self, other, session):
        """No zone leads elsewhere on that host."""
        with pytest.raises(SchemaError, match=r"was asked for \.\./\.\./a b"):
            make(session, other.url, zone="../../a b").observe(NOW - hour, NOW)
        assert other.requests[-1].path == "/v1/grid/..%2F..%2Fa%20b/intensity"

    def test_a_month_back_is_asked_for_in_two_pieces(self, other, node):
        """The other answers for 32 days at most."""
        found = node.observe(NOW - 40 * day, NOW)
        assert len(found) == 40 * 24
        assert [request.query["start"] for request in other.requests] == ["2026-01-23T09:00Z", "2026-02-23T09:00Z"]

    def test_what_has_not_begun_was_not_observed(self, other, node):
        """A clock ahead of ours does not make the future known."""
        rows = [chase_fakes.observed(NOW.replace(minute=0) + i * hour) for i in range(-1, 3)]
        other.answer_with(chase_fakes.chase_node(lambda: NOW, observed=rows))
        assert len(node.observe(NOW - hour, NOW + 5 * hour)) == 2


class TestTag:
    def test_what_is_known_is_not_sent_again(self, other, node):
        """Within the hour the question is the same, and the second answer is a 304 without a body."""
        first, again = node.observe(NOW - 3 * hour, NOW), node.observe(NOW - 3 * hour, NOW + 0.5 * hour)
        assert "if-none-match" not in other.requests[0].headers
        assert other.requests[1].headers["if-none-match"].startswith('"')
        assert other.requests[0].query == other.requests[1].query
        assert first == again

    def test_news_come_with_another_tag(self, other, node, clock):
        """After a revision the whole answer comes again."""
        node.observe(NOW - 3 * hour, NOW)
        row = {**chase_fakes.observed(NOW.replace(hour=8, minute=0)), "g_per_kwh": 42.0}
        other.answer_with(chase_fakes.chase_node(clock.now, observed=[row]))
        assert [point.g_per_kwh for point in node.observe(NOW - 3 * hour, NOW)] == [42.0]

    def test_another_question_is_asked_without_a_tag(self, other, node):
        """Observed and expected have each their own, and neither answers for another time."""
        node.observe(NOW - 3 * hour, NOW)
        node.forecast(NOW, NOW + day)
        node.observe(NOW - 9 * hour, NOW)
        assert [request.headers.get("if-none-match") for request in other.requests] == [None] * 3

    def test_a_bad_answer_leaves_no_tag(self, other, node, clock):
        """What could not be used must not be what the next 304 stands for."""
        other.answer_with(Answer(b'{"version": 2}', headers={"ETag": '"x"'}), chase_fakes.chase_node(clock.now))
        with pytest.raises(SchemaError):
            node.observe(NOW - 3 * hour, NOW)
        assert node.observe(NOW - 3 * hour, NOW).points
        assert "if-none-match" not in other.requests[1].headers

    def test_a_304_that_nobody_asked_for_is_an_error(self, other, node):
        """A proxy that mixes up its callers."""
        other.answer_with(Answer(status=304))
        with pytest.raises(SchemaError, match="was not asked for what is new"):
            node.observe(NOW - 3 * hour, NOW)


class TestRefusals:
    @pytest.mark.parametrize("version", [2, 0, None, "1", 1.5, True])
    def test_another_version_is_not_guessed_at(self, other, node, clock, version):
        """The error says which, and what to do."""
        other.answer_with(chase_fakes.chase_node(clock.now, version=version))
        with pytest.raises(SchemaError, match=r"not 1: bring both nodes to one chase"):
            node.observe(NOW - 3 * hour, NOW)

    @pytest.mark.parametrize(
        "changes", [{"region": "de", "zones": ["DE"]}, {"zones": None}, {"region": None, "zones": []}]
    )
    def test_an_answer_for_another_place_is_refused(self, other, node, clock, changes):
        """Its region or one of its zones must be the one asked for."""
        other.answer_with(chase_fakes.chase_node(clock.now, **changes))
        with pytest.raises(SchemaError):
            node.observe(NOW - 3 * hour, NOW)

    @pytest.mark.parametrize(
        "changes",
        [{"signal": "mean"}, {"scope": None}, {"boundary": 1}, {"source": None}, {"zone": "x" * 300}, {"observed": {}}],
    )
    def test_a_series_that_does_not_say_what_it_is_is_refused(self, other, node, clock, changes):
        """No default stands in for signal, scope or boundary."""
        other.answer_with(chase_fakes.chase_node(clock.now, **changes))
        with pytest.raises(SchemaError):
            node.observe(NOW - 3 * hour, NOW)

    @pytest.mark.parametrize(
        "changes",
        [
            {"g_per_kwh": None},
            {"g_per_kwh": -1},
            {"g_per_kwh": 5001},
            {"g_per_kwh": "100"},
            {"kind": "forecast"},
            {"kind": "typical"},
            {"kind": "guess"},
            {"start": "2026-03-04T08:00"},
            {"end": "2026-03-04T07:00Z"},
            {"end": "2026-03-06T07:00Z"},
            {"fetched_at": None},
            {"updated_at": None},
            {"method": 5},
        ],
    )
    def test_a_row_that_makes_no_sense_is_a_gap(self, other, node, clock, changes):
        """The others stay; a typical value or a forecast is never taken for an observed one."""
        bad, good = (chase_fakes.observed(NOW.replace(hour=h, minute=0)) for h in (8, 7))
        other.answer_with(chase_fakes.chase_node(clock.now, observed=[good, bad | changes]))
        assert [point.start.hour for point in node.observe(NOW - 3 * hour, NOW)] == [7]

    def test_a_node_that_has_nothing_yet_has_no_data(self, other, node):
        """Right after its start: ask again at the next slot. An empty forecast is no failure."""
        nothing = {"version": 1, "region": "gb", "zones": ["GB"], "observed": [], "forecast": []}
        other.answer_with(as_json(nothing))
        with pytest.raises(NoData):
            node.observe(NOW - 3 * hour, NOW)
        assert not node.forecast(NOW, NOW + day).points

    @pytest.mark.parametrize(
        ("status", "error"),
        [
            (400, BadRequest),
            (401, AuthError),
            (403, AuthError),
            (404, BadRequest),
            (429, RateLimited),
            (503, Transient),
        ],
    )
    def test_the_others_refusals_are_told(self, other, make_session, status, error):
        """In its own words, each as what it is."""
        refusal = {"error": {"code": str(status), "message": "not like that"}}
        other.answer_with(as_json(refusal, status, Retry_After="9"))
        with pytest.raises(error, match="not like that"):
            make(make_session(attempts=1), other.url).observe(NOW - 3 * hour, NOW)

    def test_without_an_address_there_is_no_node(self, session):
        """The error says what to configure."""
        with pytest.raises(BadRequest, match="name the other node with base_url"):
            make(session, None)

    def test_an_option_it_does_not_have(self, session):
        """With a suggestion."""
        with pytest.raises(BadRequest, match=r"did you mean 'region'\?"):
            make(session, "http://127.0.0.1:1", regoin="gb")


class TestToken:
    def test_it_is_sent_as_a_bearer(self, other, node):
        """And only there: not in the address."""
        node.observe(NOW - 3 * hour, NOW)
        assert other.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
        assert TOKEN not in str(other.requests[0].query)

    def test_without_a_token_none_is_sent(self, other, session):
        """For a node that shares on this machine alone."""
        make(session, other.url, token=None).observe(NOW - 3 * hour, NOW)
        assert "authorization" not in other.requests[0].headers

    def test_a_node_that_echoes_it_tells_nobody(self, other, make_session, caplog):
        """It is masked in errors, logs and reprs, also without its scheme."""
        other.answer_with(as_json({"error": {"message": f"bad token {TOKEN}"}}, 403))
        node = make(make_session(attempts=1), other.url)
        with caplog.at_level(logging.DEBUG), pytest.raises(AuthError) as caught:
            node.observe(NOW - 3 * hour, NOW)
        assert TOKEN not in f"{caught.value} {caplog.text} {node!r} {vars(node)}"

    def test_it_is_found_by_name(self, other, session):
        """As regions make it."""
        made = registry.create(
            "chase", zone="GB", options={}, token=TOKEN, base_url=other.url, session=session, now=lambda: NOW
        )
        assert made.observe(NOW - 3 * hour, NOW).points


@settings(deadline=None)
@given(data=st.data())
def test_any_answer_is_values_a_gap_or_an_error(data):
    """A few places of a healthy answer broken: no value that was not sent, none of another kind, no other exception."""
    query = {"start": "2026-03-04T00:00Z", "end": "2026-03-05T00:00Z"}
    document = data.draw(mutated(chase_fakes.document(query, NOW)))
    session = Replayed(json.dumps(document).encode(), data.draw(st.sampled_from([200, 200, 200, 304, 400, 404, 500])))
    node = ChaseNode(
        zone="GB", options={}, token=Secret(TOKEN), base_url="http://node:8420", session=session, now=lambda: NOW
    )
    sent = _numbers(document)
    for ask, start, kinds in (
        (node.observe, NOW - day, {Kind.MEASURED, Kind.ESTIMATED}),
        (node.forecast, NOW, {Kind.FORECAST}),
    ):
        for point in outcome(ask, start, start + day):
            assert 0 <= point.g_per_kwh <= MOST_G_PER_KWH
            assert point.g_per_kwh in sent
            assert point.kind in kinds
            assert point.start < start + day
            assert point.end > start
            assert point.end - point.start <= day
    session.close()
