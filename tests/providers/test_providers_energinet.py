"""Denmark: five minutes in two areas, one request a minute, and stamps without an offset."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import energinet_fake
import pytest
from energinet_fake import HOUR, MINUTES5, stamp
from grid_server import NOW, Answer, Request, as_json
from http_suite import HttpProviderSuite
from hypothesis import given
from hypothesis import strategies as st
from mutating import Replayed, check, mutated

from providers.base import BadRequest, Boundary, Kind, NoData, RateLimited, SchemaError, Scope, Signal, Transient
from providers.energinet import Energinet

EIGHT = NOW.replace(hour=8, minute=0)


class TestEnerginetSuite(HttpProviderSuite):
    """The west."""

    PAUSE_S = 60.0

    def make(self, session, base_url):
        return Energinet(zone="DK-DK1", options={}, base_url=base_url, session=session, now=lambda: self.NOW)

    @pytest.fixture
    def server(self, server):
        server.answer_with(energinet_fake.energinet(lambda: self.NOW))
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


@pytest.fixture
def make(server, session, clock):
    server.answer_with(energinet_fake.energinet(clock.now))

    def make(zone="DK-DK1", **options):
        return Energinet(zone=zone, options=options, base_url=server.url, session=session, now=clock.now)

    return make


def _row(grams, at=EIGHT, area="DK1", **more):
    when = stamp(at) if isinstance(at, datetime) else at
    return {"Minutes5UTC": when, "Minutes5DK": "2026-03-04T23:55:00", "PriceArea": area, "CO2Emission": grams, **more}


def _reply(*rows, **more):
    return {"total": len(rows), "limit": 100, "dataset": "CO2Emis", "records": list(rows), **more}


def _observe(make, server, clock, *rows, **more):
    clock.advance(600.0)
    server.answer_with(as_json(_reply(*rows, **more)))
    return make().observe(NOW - 3 * HOUR, NOW)


def test_five_minutes_are_measured(make):
    """By the column of UTC, whatever the Danish one says; direct, with imports."""
    points = make().observe(EIGHT, EIGHT + HOUR).points
    assert len(points) == 12
    assert (points[0].start, points[0].end) == (EIGHT, EIGHT + MINUTES5)
    assert {point.g_per_kwh for point in points} == {78.0}
    labels = {(point.kind, point.signal, point.scope, point.boundary, point.zone, point.source) for point in points}
    assert labels == {(Kind.MEASURED, Signal.AVERAGE, Scope.DIRECT, Boundary.CONSUMPTION, "DK-DK1", "energinet")}


def test_a_request_is_clear_about_time_area_and_size(make, server):
    """UTC and no Danish time, both areas by name, three columns, and a limit that is neither absent nor 0."""
    make().observe(NOW - HOUR, NOW)
    make().forecast(NOW, NOW + HOUR)
    seen, ahead = server.requests
    assert (seen.path, ahead.path) == ("/dataset/CO2Emis", "/dataset/CO2EmisProg")
    assert (seen.query["start"], seen.query["end"]) == ("2026-03-01T09:00", "2026-03-04T11:00")
    assert (ahead.query["start"], ahead.query["end"]) == ("2026-03-04T09:00", "2026-03-06T10:00")
    for query in (seen.query, ahead.query):
        assert query["timezone"] == "UTC"
        assert json.loads(query["filter"]) == {"PriceArea": ["DK1", "DK2"]}
        assert query["columns"] == "Minutes5UTC,PriceArea,CO2Emission"
        hours = (datetime.fromisoformat(query["end"]) - datetime.fromisoformat(query["start"])) / HOUR
        assert 12 * 2 * hours < int(query["limit"]) < 10_000


def test_both_areas_and_a_question_asked_twice_cost_one_request(make, server, clock):
    """What is a few minutes old is answered from there, and says so."""
    west = make().observe(NOW - HOUR, NOW)
    clock.advance(240.0)
    east = make("DK-DK2").observe(clock.now() - 2 * HOUR, clock.now())
    assert len(server.requests) == 1
    assert {point.g_per_kwh for point in west} == {78.0, 79.0}
    assert {point.g_per_kwh for point in east} == {177.0, 178.0, 179.0}
    assert {point.fetched_at for point in east} == {NOW}
    clock.advance(61.0)
    assert {point.fetched_at for point in make().observe(NOW - HOUR, NOW)} == {clock.now()}
    assert len(server.requests) == 2


def test_regions_that_ask_at_the_same_time_cost_one_request(make, server):
    """Each is polled by a thread of its own, and the second one waits for the answer of the first."""
    zones = ["DK-DK1", "DK-DK2"] * 3
    with ThreadPoolExecutor(len(zones)) as pool:
        found = list(pool.map(lambda zone: make(zone).observe(EIGHT, EIGHT + MINUTES5).points[0].g_per_kwh, zones))
    assert found == [78.0, 178.0] * 3
    assert len(server.requests) == 1


def test_two_services_are_not_mixed_up(make, server, elsewhere, session, clock):
    """What one address answered is no answer of another."""
    elsewhere.answer_with(as_json(_reply(_row(5.0))))
    make().observe(NOW - HOUR, NOW)
    other = Energinet(zone="DK1", options={}, base_url=elsewhere.url, session=session, now=clock.now)
    assert [point.g_per_kwh for point in other.observe(EIGHT, NOW)] == [5.0]


def test_a_dataset_is_not_asked_twice_within_a_minute(make, server, clock):
    """A longer past than the one kept has to wait, and the caller is told for how long."""
    make().observe(NOW - HOUR, NOW)
    clock.advance(10.0)
    with pytest.raises(RateLimited) as caught:
        make().observe(NOW - timedelta(days=20), NOW)
    assert caught.value.retry_after_s == pytest.approx(50.0)
    assert len(server.requests) == 1
    clock.advance(50.0)
    assert make().observe(NOW - timedelta(days=20), NOW).points[0].start <= NOW - timedelta(days=20)


def test_a_429_is_left_alone_for_a_minute(make, server, clock):
    """Somebody else behind our address has asked; the reply does not say for how long."""
    server.answer_with(as_json({"message": "Too many requests"}, 429))
    with pytest.raises(RateLimited, match="Too many requests") as caught:
        make().observe(NOW - HOUR, NOW)
    assert caught.value.retry_after_s == 60.0


def test_a_long_past_ends_at_sixty_days(make, server):
    """Of a range that one request cannot hold the newest part is asked for."""
    make().observe(NOW - timedelta(days=400), NOW)
    assert server.requests[0].query["start"] == "2026-01-03T11:00"


def test_a_past_that_is_long_ago_is_asked_for_alone(make, server):
    """The days since then are not fetched with it."""
    points = make().observe(NOW - timedelta(days=100), NOW - timedelta(days=99)).points
    assert server.requests[0].query["end"] == "2025-11-25T10:00"
    assert len(points) == 288


def test_a_forecast_starts_with_the_running_five_minutes(make, clock):
    """Rows of the past stay in the dataset, but nobody forecasts what is over."""
    points = make().forecast(NOW - HOUR, NOW + 40 * HOUR).points
    assert (points[0].start, points[-1].end) == (NOW, datetime(2026, 3, 5, 23, tzinfo=UTC))
    assert {(point.kind, point.issued_at) for point in points} == {(Kind.FORECAST, clock.now())}
    assert points[0].g_per_kwh == 209.0


def test_a_forecast_issued_anew_dates_what_changed(make, server, clock):
    """The dataset is re-issued all the time; a value that stayed is as old as its first reading."""
    provider = make()
    ahead = [NOW + index * MINUTES5 for index in (3, 4)]
    server.answer_with(as_json(_reply(*(_row(50.0, at) for at in ahead), dataset="CO2EmisProg")))
    provider.forecast(NOW, NOW + HOUR)
    clock.advance(600.0)
    rows = _row(50.0, ahead[0]), _row(60.0, ahead[1])
    server.answer_with(as_json(_reply(*rows, dataset="CO2EmisProg")))
    points = provider.forecast(clock.now(), NOW + HOUR).points
    assert [(point.g_per_kwh, point.issued_at) for point in points] == [(50.0, NOW), (60.0, clock.now())]


@pytest.mark.parametrize(
    ("start", "hours"), [(datetime(2026, 3, 28, 23, tzinfo=UTC), 23), (datetime(2025, 10, 25, 22, tzinfo=UTC), 25)]
)
def test_days_of_the_clock_change_are_whole(server, session, start, hours):
    """The Danish column skips an hour or has one twice; the day has 23 or 25 hours, none missing, none twice."""
    end = start + hours * HOUR
    at = end + HOUR
    server.answer_with(energinet_fake.energinet(lambda: at))
    given_ = {"zone": "DK-DK2", "options": {}, "base_url": server.url, "session": session, "now": lambda: at}
    points = Energinet(**given_).observe(start, end).points
    assert len(points) == 12 * hours
    assert (points[0].start, points[-1].end) == (start, end)
    assert all(before.end == after.start for before, after in pairwise(points))


@pytest.mark.parametrize("body", [{}, _reply(), _reply(_row(5.0, area="DK2"))], ids=["object", "rows", "area"])
def test_nothing_is_no_data(make, server, body):
    """An empty list, and one without a row of the area."""
    server.answer_with(as_json(body))
    with pytest.raises(NoData, match="energinet has published nothing in CO2Emis"):
        make().observe(NOW - HOUR, NOW)


def test_another_dataset_is_refused(make, server, clock):
    """A forecast in the place of what was measured, above all."""
    with pytest.raises(SchemaError, match="was asked for CO2Emis, not for 'CO2EmisProg'"):
        _observe(make, server, clock, _row(5.0), dataset="CO2EmisProg")


def test_rows_of_another_area_are_not_ours(make, server, clock):
    """A filter that was not understood gives every area."""
    points = _observe(
        make, server, clock, _row(5.0), _row(6.0, area="DK2"), _row(7.0, area="NO2"), _row(8.0, area=None)
    )
    assert [point.g_per_kwh for point in points] == [5.0]


@pytest.mark.parametrize("value", [-1, 5001, 1e300, "78", True, [], {}, float("nan"), float("inf"), 10**400])
def test_an_impossible_value_is_never_a_number(make, server, clock, value):
    """It is a gap, and if nothing else is there the error shows it."""
    points = _observe(make, server, clock, _row(value), _row(78.0, EIGHT + MINUTES5))
    assert [point.g_per_kwh for point in points] == [78.0]
    with pytest.raises(SchemaError, match=r"CO2Emission at 2026-03-04T08:00:00\+00:00 is "):
        _observe(make, server, clock, _row(value))


def test_a_column_that_went_is_an_error_and_no_gap(make, server, clock):
    """Silence would look like a grid that publishes nothing."""
    row = _row(78.0)
    del row["CO2Emission"]
    with pytest.raises(SchemaError, match="CO2Emission is missing"):
        _observe(make, server, clock, row)


def test_nulls_are_gaps_and_zero_is_a_value(make, server, clock):
    """A windy night may be clean."""
    rows = _row(0, EIGHT), _row(None, EIGHT + MINUTES5), _row(3.0, EIGHT + 2 * MINUTES5)
    points = _observe(make, server, clock, *rows)
    assert [(point.start - EIGHT, point.g_per_kwh) for point in points] == [(timedelta(0), 0.0), (2 * MINUTES5, 3.0)]


def test_a_hole_stays_a_hole(make, server, clock):
    """A value lasts five minutes, not until the next one comes."""
    points = _observe(make, server, clock, _row(5.0), _row(6.0, EIGHT + HOUR))
    assert {point.end - point.start for point in points} == {MINUTES5}


@pytest.mark.parametrize("when", [None, 1772611200, "yesterday", "2026-03-04", True, "9999-12-31T23:59:00-14:00"])
def test_a_time_that_is_none_costs_its_row(make, server, clock, when):
    """A date alone is midnight, which is not within the hours asked for."""
    points = _observe(make, server, clock, _row(5.0, when), _row(6.0))
    assert [point.g_per_kwh for point in points] == [6.0]


def test_of_duplicate_rows_the_last_wins_and_the_future_was_not_measured(make, server, clock):
    """A correction stands below what it corrects; a row that has not begun is clock skew."""
    points = _observe(make, server, clock, _row(5.0), _row(6.0), _row(7.0, NOW + HOUR))
    assert [point.g_per_kwh for point in points] == [6.0]


def test_nothing_is_asked_of_the_wrong_side_of_now(make, server):
    """The future has no observations, and the past and the far future no forecast."""
    assert len(make().observe(NOW + HOUR, NOW + 2 * HOUR)) == 0
    assert len(make().forecast(NOW - 2 * HOUR, NOW - HOUR)) == 0
    assert len(make().forecast(NOW + 72 * HOUR, NOW + 80 * HOUR)) == 0
    assert server.requests == []


@pytest.mark.parametrize(("zone", "options"), [("DK1", {}), ("DK-DK1", {}), ("home", {"price_area": "DK1"})])
def test_an_area_is_found(make, zone, options):
    """By the end of the zone's name, or by the option; the points are filed under the zone."""
    assert {(point.zone, point.g_per_kwh) for point in make(zone, **options).observe(EIGHT, EIGHT + MINUTES5)} == {
        (zone, 78.0)
    }


@pytest.mark.parametrize("zone", ["DK", "SE-SE4", "GB"])
def test_another_zone_is_refused_at_once(make, zone):
    """Denmark as a whole has no figure."""
    with pytest.raises(BadRequest, match="knows DK1 and DK2; zone"):
        make(zone)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (as_json({"message": "Forbidden"}, 403), Transient),
        (Answer(b"Length Required", 411, content_type="text/plain"), Transient),
        (as_json({"message": "Unknown column"}, 400), BadRequest),
        (as_json({**_reply(_row(5.0)), "error": "timeout"}), Transient),
    ],
)
def test_refusals_are_told_apart(make, server, answer, error):
    """A gateway's mood passes, a request that it does not understand is ours, and an error under a 200 is an error."""
    server.answer_with(answer)
    with pytest.raises(error, match=r"Forbidden|Length Required|Unknown column|timeout"):
        make().observe(NOW - HOUR, NOW)


@pytest.mark.parametrize("dataset", ["CO2Emis", "CO2EmisProg"])
@given(data=st.data())
def test_it_survives_any_reply(dataset, data):
    """Both datasets: values that were sent, gaps, or one of our errors."""
    healthy = energinet_fake.energinet(lambda: NOW)
    query = {"start": "2026-03-04T08:40", "end": "2026-03-04T09:55", "timezone": "UTC", "limit": "30"}
    query |= {"filter": '{"PriceArea":["DK1","DK2"]}', "columns": "Minutes5UTC,PriceArea,CO2Emission"}
    document = data.draw(mutated(json.loads(healthy(Request(f"/dataset/{dataset}", query, {})).body)))
    status = data.draw(st.sampled_from([200, 200, 200, 400, 404, 429, 500]))
    for ask, start in (("observe", NOW - 24 * HOUR), ("forecast", NOW)):
        session = Replayed(json.dumps(document).encode(), status)
        provider = Energinet(zone="DK-DK1", options={}, base_url=None, session=session, now=lambda: NOW)
        check(getattr(provider, ask), start, start + 24 * HOUR, document)
        session.close()
