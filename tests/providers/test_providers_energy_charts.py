"""European countries by energy-charts.info: what was, what will be, and what its users reported."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise

import energy_charts_fake
import pytest
from energy_charts_fake import HOUR, QUARTER, seconds
from grid_server import NOW, Answer, Request, as_json
from http_suite import HttpProviderSuite
from hypothesis import given
from hypothesis import strategies as st
from mutating import Replayed, check, mutated

from providers.base import BadRequest, Boundary, Kind, NoData, SchemaError, Scope, Signal, Transient
from providers.energy_charts import EnergyCharts

EIGHT = NOW.replace(hour=8, minute=0)


class TestEnergyChartsSuite(HttpProviderSuite):
    """Germany."""

    def make(self, session, base_url):
        return EnergyCharts(zone="DE", options={}, base_url=base_url, session=session, now=lambda: self.NOW)

    @pytest.fixture
    def server(self, server):
        server.answer_with(energy_charts_fake.energy_charts(lambda: self.NOW))
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


@pytest.fixture
def make(server, session, clock):
    server.answer_with(energy_charts_fake.energy_charts(clock.now))

    def make(zone="DE", **options):
        return EnergyCharts(zone=zone, options=options, base_url=server.url, session=session, now=clock.now)

    return make


def _reply(starts, observed, expected=None):
    return {
        "unix_seconds": [seconds(at) if isinstance(at, datetime) else at for at in starts],
        "co2eq": observed,
        "co2eq_forecast": expected or [None] * len(observed),
        "deprecated": False,
    }


def _quarters(count, first=EIGHT):
    return [first + index * QUARTER for index in range(count)]


def _observe(make, server, document, **options):
    server.answer_with(as_json(document))
    return make(**options).observe(NOW - 3 * HOUR, NOW)


def _times(points):
    return [f"{point.start:%H:%M}" for point in points]


def test_what_was_is_measured(make):
    """Quarters of an hour until half an hour ago; nobody says what is counted, so it is unspecified."""
    points = make().observe(NOW - HOUR, NOW).points
    assert _times(points) == ["08:15", "08:30"]
    assert [point.g_per_kwh for point in points] == [308.5, 308.5]
    assert {point.end - point.start for point in points} == {QUARTER}
    labels = {(point.kind, point.signal, point.scope, point.boundary, point.zone, point.source) for point in points}
    unspecified = Scope.UNSPECIFIED, Boundary.UNSPECIFIED
    assert labels == {(Kind.MEASURED, Signal.AVERAGE, *unspecified, "DE", "energy_charts")}


def test_the_operator_may_say_what_is_counted(make):
    """Scope and boundary as configured are those of every point."""
    provider = make(scope="lifecycle", boundary="production")
    points = [*provider.observe(NOW - HOUR, NOW), *provider.forecast(NOW, NOW + HOUR)]
    assert {(point.scope, point.boundary) for point in points} == {(Scope.LIFECYCLE, Boundary.PRODUCTION)}


def test_what_will_be_starts_with_the_running_quarter(make, clock):
    """It is dated by its reading, and ends where the source says no more."""
    points = make().forecast(NOW, NOW + 72 * HOUR).points
    assert _times(points)[:2] == ["09:15", "09:30"]
    assert points[-1].end == datetime(2026, 3, 5, 23, tzinfo=UTC)
    assert {(point.kind, point.issued_at) for point in points} == {(Kind.FORECAST, clock.now())}
    assert points[0].g_per_kwh == 409.25


def test_a_forecast_is_never_an_observation(make, server):
    """Neither the expected value of a quarter that was, nor one where both stand."""
    reply = _reply(_quarters(4), [310, None, 330, None], [300, 301, 302, 303])
    assert [point.g_per_kwh for point in _observe(make, server, reply)] == [310.0, 330.0]


def test_what_was_observed_is_not_expected(make, server):
    """The running quarter has a value already, so that one counts; a forecast of the past is none."""
    reply = _reply(_quarters(8, EIGHT), [1, 2, 3, None, None, 6, None, None], [10, 20, 30, 40, 50, 60, 70, 80])
    server.answer_with(as_json(reply))
    points = make().forecast(NOW - 2 * HOUR, NOW + 2 * HOUR).points
    assert [(f"{point.start:%H:%M}", point.g_per_kwh) for point in points] == [("09:30", 70.0), ("09:45", 80.0)]


def test_the_future_was_not_observed(make, server):
    """A value for a quarter that has not begun is clock skew."""
    assert _times(_observe(make, server, _reply(_quarters(7), [100] * 7))) == [
        *("08:00", "08:15", "08:30", "08:45", "09:00", "09:15"),
    ]


def test_a_forecast_read_again_is_not_a_new_one(make, server, clock):
    """Each value is as old as its first reading; a revised one, and it alone, is new."""
    provider = make()
    ahead = _quarters(3, NOW.replace(minute=30))
    server.answer_with(as_json(_reply(ahead, [None] * 3, [10, 20, 30])))
    provider.forecast(NOW, NOW + HOUR)
    clock.advance(600.0)
    server.answer_with(as_json(_reply(ahead, [None] * 3, [10, 25, 30])))
    points = provider.forecast(clock.now(), NOW + HOUR).points
    assert [point.issued_at for point in points] == [NOW, clock.now(), NOW]
    assert {point.fetched_at for point in points} == {clock.now()}


@pytest.mark.parametrize(
    ("zone", "options", "country"),
    [("DE", {}, "de"), ("GB", {}, "uk"), ("DE-LU", {"country": "de"}, "de"), ("EU", {"country": "eu"}, "eu")],
)
def test_a_zone_is_a_country(make, server, zone, options, country):
    """The zone's own letters, their name for it, or the option."""
    make(zone, **options).observe(NOW - HOUR, NOW)
    assert server.requests[0].path == "/co2eq"
    assert server.requests[0].query["country"] == country


@pytest.mark.parametrize("options", [{}, {"country": "../x"}, {"country": "DE&x=1"}])
def test_a_zone_that_is_no_country_needs_the_option(make, options):
    """Half a country has no intensity here."""
    with pytest.raises(BadRequest, match="needs the option country"):
        make("DK-DK1", **options)


def test_whole_days_are_asked_for(make, server):
    """The grid's day begins before that of UTC, and whether the last one is included nobody says."""
    make().observe(NOW - HOUR, NOW)
    make().forecast(NOW, NOW + 48 * HOUR)
    asked = [(request.query["start"], request.query["end"]) for request in server.requests]
    assert asked == [("2026-03-04", "2026-03-06"), ("2026-03-04", "2026-03-08")]


@pytest.mark.parametrize(
    ("start", "hours"), [(datetime(2026, 3, 28, 23, tzinfo=UTC), 23), (datetime(2025, 10, 25, 22, tzinfo=UTC), 25)]
)
def test_days_of_the_clock_change_are_whole(server, session, start, hours):
    """The local day has 23 or 25 hours, none missing, none twice."""
    end = start + hours * HOUR
    at = end + HOUR
    server.answer_with(energy_charts_fake.energy_charts(lambda: at, "Europe/Paris"))
    given_ = {"zone": "FR", "options": {}, "base_url": server.url, "session": session, "now": lambda: at}
    points = EnergyCharts(**given_).observe(start, end).points
    assert len(points) == 4 * hours
    assert (points[0].start, points[-1].end) == (start, end)
    assert all(before.end == after.start for before, after in pairwise(points))


def test_a_step_may_change_within_a_reply(make, server):
    """Hours first, quarters then: each lasts as long as its own kind."""
    starts = [EIGHT - 2 * HOUR, EIGHT - HOUR, *_quarters(3)]
    points = _observe(make, server, _reply(starts, [1, 2, 3, 4, 5])).points
    assert [(point.end - point.start) / QUARTER for point in points] == [4, 4, 1, 1, 1]


def test_a_hole_in_the_times_is_a_gap(make, server):
    """Quarters that are left out are not filled by the one before them."""
    starts = [*_quarters(2, EIGHT - 2 * HOUR), *_quarters(3)]
    points = _observe(make, server, _reply(starts, [1, 2, 3, 4, 5])).points
    assert {point.end - point.start for point in points} == {QUARTER}


@pytest.mark.parametrize(
    ("observed", "expected", "column"),
    [
        ([1, 2], [None] * 3, "co2eq has 2"),
        ([1, 2, 3], [None] * 4, "co2eq_forecast has 4"),
        ([], [None] * 3, "co2eq has 0"),
    ],
)
def test_columns_of_different_lengths_are_refused(make, server, observed, expected, column):
    """Nobody can tell which time a value belongs to."""
    server.answer_with(as_json(_reply(_quarters(3), observed, expected)))
    with pytest.raises(SchemaError, match=f"{column} entries, but unix_seconds 3"):
        make().forecast(NOW, NOW + HOUR)


@pytest.mark.parametrize("missing", ["unix_seconds", "co2eq"])
@pytest.mark.parametrize("value", [None, 5, "x", {}])
def test_a_missing_column_is_refused(make, server, missing, value):
    """And named."""
    with pytest.raises(SchemaError, match=f"{missing} is .*, not a list"):
        _observe(make, server, {**_reply(_quarters(2), [1, 2]), missing: value})


@pytest.mark.parametrize(
    "answer",
    [
        as_json({"detail": "no content found"}, 404),
        as_json({"message": "No content found"}, 404),
        as_json("no content found", 404),
        Answer(b"no content found", 404, content_type="text/plain"),
        as_json({}),
        as_json([]),
        as_json(_reply([], [])),
    ],
    ids=["detail", "message", "json-text", "text", "object", "list", "columns"],
)
def test_nothing_yet_is_no_data(make, server, answer):
    """Tomorrow is a 404 until it is there, and what is empty is no fault of anybody's."""
    server.answer_with(answer)
    for ask in (make().observe, make().forecast):
        with pytest.raises(NoData, match="energy_charts"):
            ask(NOW - HOUR, NOW + HOUR)


def test_another_404_is_a_wrong_address(make, server):
    """It would not be there tomorrow either."""
    server.answer_with(as_json({"detail": "Not Found"}, 404))
    with pytest.raises(BadRequest, match="Not Found"):
        make().observe(NOW - HOUR, NOW)


@pytest.mark.parametrize("status", [400, 422])
def test_a_country_it_does_not_know_is_our_mistake(make, server, status):
    """With its own words, and where to look."""
    server.answer_with(as_json({"detail": "unknown country"}, status))
    with pytest.raises(BadRequest, match="unknown country: check the zone"):
        make().observe(NOW - HOUR, NOW)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_sends_nobody_to_look_for_a_token(make, server, status):
    """It has no keys, so a gateway refused."""
    server.answer_with(as_json({"message": "Forbidden"}, status))
    with pytest.raises(Transient, match="Forbidden"):
        make().observe(NOW - HOUR, NOW)


def test_an_error_under_a_200_is_an_error(make, server):
    """Whatever stands beside it."""
    server.answer_with(as_json({**_reply(_quarters(2), [1, 2]), "error": "database is down"}))
    with pytest.raises(Transient, match="database is down"):
        make().observe(NOW - HOUR, NOW)


@pytest.mark.parametrize("value", [-1, 5001, 1e300, "310", True, [], {}, float("nan"), float("inf"), 10**400])
def test_an_impossible_value_is_never_a_number(make, server, value):
    """It is a gap, and if nothing else is there the error shows it."""
    points = _observe(make, server, _reply(_quarters(2), [value, 310]))
    assert [point.g_per_kwh for point in points] == [310.0]
    with pytest.raises(SchemaError, match=r"measured at 2026-03-04T08:00:00\+00:00 is "):
        _observe(make, server, _reply(_quarters(1), [value]))


@pytest.mark.parametrize("when", [None, "2026-03-04T08:00Z", 1772611200000, -5, True, 1772611200.5, [], 10**400])
def test_a_time_that_is_none_costs_its_row(make, server, when):
    """Milliseconds are not taken for seconds, nor is a text parsed."""
    points = _observe(make, server, _reply([when, EIGHT], [305, 310]))
    assert [(point.g_per_kwh, point.end - point.start) for point in points] == [(310.0, QUARTER)]
    with pytest.raises(SchemaError, match=r"unix_seconds has .*, not a time in seconds since 1970"):
        _observe(make, server, _reply([when], [305]))


def test_nulls_are_gaps_and_zero_is_a_value(make, server):
    """Only what is missing is left out."""
    points = _observe(make, server, _reply(_quarters(3), [0, None, 12.5]))
    assert [(f"{point.start:%H:%M}", point.g_per_kwh) for point in points] == [("08:00", 0.0), ("08:30", 12.5)]
    assert len(_observe(make, server, _reply(_quarters(3), [None] * 3))) == 0


def test_of_a_time_given_twice_the_last_counts(make, server):
    """A revision is a new answer, and so is one within a reply."""
    assert [point.g_per_kwh for point in _observe(make, server, _reply([EIGHT, EIGHT], [310, 311]))] == [311.0]
    assert [point.g_per_kwh for point in _observe(make, server, _reply([EIGHT], [290]))] == [290.0]


def test_nothing_is_asked_of_the_wrong_side_of_now(make, server):
    """The future has no observations and the past no forecast."""
    assert len(make().observe(NOW + HOUR, NOW + 2 * HOUR)) == 0
    assert len(make().forecast(NOW - 2 * HOUR, NOW - HOUR)) == 0
    assert server.requests == []


@given(data=st.data())
def test_it_survives_any_reply(data):
    """Values that were sent, gaps, or one of our errors."""
    healthy = energy_charts_fake.energy_charts(lambda: NOW)
    answer = healthy(Request("/co2eq", {"start": "2026-03-04", "end": "2026-03-04"}, {}))
    document = {
        name: column[26:44] if isinstance(column, list) else column for name, column in json.loads(answer.body).items()
    }
    document = data.draw(mutated(document))
    session = Replayed(json.dumps(document).encode(), data.draw(st.sampled_from([200, 200, 200, 400, 404, 500])))
    provider = EnergyCharts(zone="DE", options={}, base_url=None, session=session, now=lambda: NOW)
    check(provider.observe, NOW - 24 * HOUR, NOW, document)
    check(provider.forecast, NOW, NOW + 24 * HOUR, document)
    session.close()
