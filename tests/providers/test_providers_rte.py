"""France by éCO2mix: quarters of an hour, with nulls for the rest of the day."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
import rte_fake
from grid_server import NOW, Request, as_json
from http_suite import HttpProviderSuite
from hypothesis import given
from hypothesis import strategies as st
from mutating import Replayed, check, mutated
from rte_fake import HOUR, QUARTER, REAL_TIME

from providers.base import BadRequest, Boundary, Kind, NoData, RateLimited, SchemaError, Scope, Signal, Transient
from providers.rte import Rte

EIGHT = NOW.replace(hour=8, minute=0)


class TestRteSuite(HttpProviderSuite):
    """In real time."""

    def make(self, session, base_url):
        return Rte(zone="FR", options={}, base_url=base_url, session=session, now=lambda: self.NOW)

    @pytest.fixture
    def server(self, server):
        server.answer_with(rte_fake.rte(lambda: self.NOW))
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


@pytest.fixture
def make(server, session, clock):
    server.answer_with(rte_fake.rte(clock.now))

    def make(zone="FR", **options):
        return Rte(zone=zone, options=options, base_url=server.url, session=session, now=clock.now)

    return make


def _row(grams, at=EIGHT, **more):
    when = at.isoformat() if isinstance(at, datetime) else at
    return {"perimetre": "France", "nature": "Données temps réel", "date_heure": when, "taux_co2": grams, **more}


def _observe(make, server, *rows, **options):
    server.answer_with(as_json(list(rows)))
    return make(**options).observe(NOW - 3 * HOUR, NOW)


def test_quarters_of_an_hour_are_measured(make):
    """Until half an hour ago; direct, without imports, and how final a figure is stands beside it."""
    points = make().observe(EIGHT, NOW).points
    assert [f"{point.start:%H:%M}" for point in points] == ["08:00", "08:15", "08:30"]
    assert {point.end - point.start for point in points} == {QUARTER}
    assert {point.g_per_kwh for point in points} == {28.0}
    labels = {(point.kind, point.signal, point.scope, point.boundary, point.source, point.method) for point in points}
    assert labels == {(Kind.MEASURED, Signal.AVERAGE, Scope.DIRECT, Boundary.PRODUCTION, "rte", "Données temps réel")}


def test_one_export_takes_the_place_of_many_pages(make, server):
    """A range in UTC, from the hour on that the interval begins in, and four columns."""
    points = make().observe(NOW - 72 * HOUR, NOW).points
    assert len(points) > 280
    assert [request.path for request in server.requests] == [REAL_TIME]
    assert server.requests[0].query == {
        "select": "perimetre,nature,date_heure,taux_co2",
        "where": "date_heure >= date'2026-03-01T09:00:00Z' and date_heure < date'2026-03-04T09:35:00Z'"
        " and taux_co2 is not null",
        "order_by": "date_heure",
        "timezone": "UTC",
    }


def test_a_long_past_is_asked_in_pieces_and_may_begin_empty(make, server):
    """Real time is kept for some weeks; what is older is missing and hides nothing."""
    points = make().observe(NOW - timedelta(days=200), NOW).points
    assert len(server.requests) == 3
    assert points[0].start >= NOW - timedelta(days=60) - QUARTER
    assert all(before.end == after.start for before, after in pairwise(points))


def test_the_consolidated_data_have_half_hours(make, server):
    """They are another data set, in which every other quarter is empty."""
    rows = _row(20), _row(None, EIGHT + QUARTER), _row(22, EIGHT + 2 * QUARTER)
    points = _observe(make, server, *rows, dataset="eco2mix-national-cons-def").points
    assert [(point.start, point.end) for point in points] == [
        (EIGHT, EIGHT + 2 * QUARTER),
        (EIGHT + 2 * QUARTER, EIGHT + 4 * QUARTER),
    ]
    assert server.requests[0].path == rte_fake.PATH.format("eco2mix-national-cons-def")


def test_the_rest_of_the_day_is_not_there_yet(make, server):
    """Nulls are gaps, and no value is held over them."""
    rows = [_row(21), _row(None, EIGHT + QUARTER), _row(None, EIGHT + 2 * QUARTER), _row(0, EIGHT + 3 * QUARTER)]
    points = _observe(make, server, *rows).points
    assert [(point.start, point.end, point.g_per_kwh) for point in points] == [
        (EIGHT, EIGHT + QUARTER, 21.0),
        (EIGHT + 3 * QUARTER, EIGHT + HOUR, 0.0),
    ]
    assert len(_observe(make, server, _row(None))) == 0


@pytest.mark.parametrize(
    ("start", "hours"), [(datetime(2026, 3, 28, 23, tzinfo=UTC), 23), (datetime(2025, 10, 25, 22, tzinfo=UTC), 25)]
)
def test_days_of_the_clock_change_are_whole(server, session, start, hours):
    """The day of Paris has 23 or 25 hours, none missing, none twice."""
    end = start + hours * HOUR
    at = end + HOUR
    server.answer_with(rte_fake.rte(lambda: at))
    given_ = {"zone": "FR", "options": {}, "base_url": server.url, "session": session, "now": lambda: at}
    points = Rte(**given_).observe(start, end).points
    assert len(points) == 4 * hours
    assert (points[0].start, points[-1].end) == (start, end)
    assert all(before.end == after.start for before, after in pairwise(points))


def test_local_stamps_of_the_hour_that_comes_twice_are_two_hours(make, server):
    """Should the portal answer in the time of Paris, the offset tells them apart."""
    autumn = datetime(2025, 10, 26, 0, 30, tzinfo=UTC)
    rows = _row(20, "2025-10-26T02:30:00+02:00"), _row(30, "2025-10-26T02:30:00+01:00")
    server.answer_with(as_json(list(rows)))
    points = make().observe(autumn, autumn + 2 * HOUR).points
    assert [(point.start, point.g_per_kwh) for point in points] == [(autumn, 20.0), (autumn + HOUR, 30.0)]


@pytest.mark.parametrize("body", [[], {}])
def test_nothing_is_no_data(make, server, body):
    """A night of maintenance."""
    server.answer_with(as_json(body))
    with pytest.raises(NoData, match="rte has published nothing"):
        make().observe(NOW - HOUR, NOW)


@pytest.mark.parametrize("value", [-1, 5001, 1e300, "21", True, [], {}, float("nan"), float("inf"), 10**400])
def test_an_impossible_value_is_never_a_number(make, server, value):
    """It is a gap, and if nothing else is there the error shows it."""
    points = _observe(make, server, _row(value), _row(22, EIGHT + QUARTER))
    assert [point.g_per_kwh for point in points] == [22.0]
    with pytest.raises(SchemaError, match=r"taux_co2 at 2026-03-04T08:00:00\+00:00 is "):
        _observe(make, server, _row(value))


@pytest.mark.parametrize("when", [None, 1772611200, "2026-03-04T08:00:00", "2026-03-04", "9999-12-31T23:59:00-14:00"])
def test_a_time_that_is_none_costs_its_row(make, server, when):
    """A stamp without its offset could be either of two hours."""
    assert [point.g_per_kwh for point in _observe(make, server, _row(21, when), _row(22))] == [22.0]


def test_another_place_is_refused(make, server):
    """A region's figures are not those of France."""
    with pytest.raises(SchemaError, match="was asked for France and answered with 'Bretagne'"):
        _observe(make, server, _row(21, perimetre="Bretagne"))


def test_a_column_that_went_is_an_error_and_no_gap(make, server):
    """Silence would look like a source that is late."""
    row = _row(21)
    del row["taux_co2"]
    with pytest.raises(SchemaError, match="taux_co2 is missing"):
        _observe(make, server, row)


def test_of_duplicate_rows_the_last_wins_and_the_future_was_not_measured(make, server):
    """The hour of the autumn change has been there twice; a row that has not begun is clock skew."""
    points = _observe(make, server, _row(20), _row(21), _row(22, NOW.replace(minute=30)))
    assert [point.g_per_kwh for point in points] == [21.0]


def test_a_revision_is_a_new_answer(make, server):
    """Consolidated, the same quarter has another value and another word for it."""
    assert _observe(make, server, _row(20)).points[0].g_per_kwh == 20.0
    point = _observe(make, server, _row(23, nature="Données consolidées")).points[0]
    assert (point.g_per_kwh, point.method) == (23.0, "Données consolidées")


def test_nothing_is_asked_of_the_future(make, server):
    """There is no forecast, and nothing was observed there."""
    assert len(make().observe(NOW + HOUR, NOW + 2 * HOUR)) == 0
    assert len(make().forecast(NOW, NOW + HOUR)) == 0
    assert not make().capabilities.forecast
    assert server.requests == []


def test_another_zone_is_refused_at_once(make):
    """Its figures are never filed under another country."""
    with pytest.raises(BadRequest, match="zone 'DE' must be FR"):
        make("DE")
    with pytest.raises(BadRequest, match="dataset is 'eco2mix-national'"):
        make(dataset="eco2mix-national")


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"error_code": "ODSQLSyntaxError", "message": "no such column"}, 400, BadRequest),
        ({"error_code": "TooManyRequests", "message": "quota of the day"}, 429, RateLimited),
        ({"error_code": "Forbidden", "message": "not for you"}, 403, Transient),
        ({"error_code": "X", "message": "internal"}, 500, Transient),
        ({"error_code": "X", "message": "internal"}, 200, SchemaError),
    ],
)
def test_the_portals_own_errors_are_told_apart(make, server, body, status, error):
    """By status, and with its words where there are some; under a 200 they are no list of rows."""
    server.answer_with(as_json(body, status))
    with pytest.raises(error, match=body["message"]):
        make().observe(NOW - HOUR, NOW)


@given(data=st.data())
def test_it_survives_any_reply(data):
    """Values that were sent, gaps, or one of our errors."""
    where = "date_heure >= date'2026-03-04T06:00:00Z' and date_heure < date'2026-03-04T10:00:00Z'"
    answer = rte_fake.rte(lambda: NOW)(Request(REAL_TIME, {"where": where, "timezone": "UTC"}, {}))
    document = data.draw(mutated(json.loads(answer.body)))
    session = Replayed(json.dumps(document).encode(), data.draw(st.sampled_from([200, 200, 200, 400, 404, 429, 500])))
    provider = Rte(zone="FR", options={}, base_url=None, session=session, now=lambda: NOW)
    check(provider.observe, NOW - 24 * HOUR, NOW, document)
    session.close()
