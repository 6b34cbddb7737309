"""Great Britain: what was, what will be, and the oddities that its users reported."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import ClassVar

import grid_fakes
import pytest
from grid_server import NOW, as_json
from http_suite import HttpProviderSuite

from providers.base import BadRequest, Boundary, Kind, NoData, SchemaError, Scope, Signal, Transient
from providers.neso import Neso

HOUR = timedelta(hours=1)


class _NesoSuite(HttpProviderSuite):
    options: ClassVar[dict] = {}

    def make(self, session, base_url):
        return Neso(zone="GB", options=self.options, base_url=base_url, session=session, now=lambda: self.NOW)

    @pytest.fixture
    def server(self, server):
        server.answer_with(grid_fakes.neso(lambda: self.NOW))
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


class TestNesoNationalSuite(_NesoSuite):
    """The whole island."""


class TestNesoRegionalSuite(_NesoSuite):
    """One of its regions by number."""

    options: ClassVar[dict] = {"regionid": 13}


@pytest.fixture
def make(server, session, clock):
    server.answer_with(grid_fakes.neso(clock.now))

    def make(**options):
        return Neso(zone="GB", options=options, base_url=server.url, session=session, now=clock.now)

    return make


def _row(start="2026-03-04T08:00Z", end="2026-03-04T08:30Z", forecast=131, actual=120):
    return {"from": start, "to": end, "intensity": {"forecast": forecast, "actual": actual, "index": "moderate"}}


def _observe(make, server, *rows, **options):
    server.answer_with(as_json({"data": list(rows)}))
    return make(**options).observe(NOW - 3 * HOUR, NOW)


def test_actual_values_are_measured(make, server):
    """Half hours by their own from and to, direct, with imports; the one not yet published is a gap."""
    points = make().observe(NOW - 2 * HOUR, NOW).points
    assert [f"{point.start:%H:%M}" for point in points] == ["07:00", "07:30", "08:00"]
    assert [point.g_per_kwh for point in points] == [97.0, 97.0, 98.0]
    assert {point.kind for point in points} == {Kind.MEASURED}
    labels = {(point.signal, point.scope, point.boundary, point.source, point.zone) for point in points}
    assert labels == {(Signal.AVERAGE, Scope.DIRECT, Boundary.CONSUMPTION, "neso", "GB")}
    assert server.requests[0].path == "/intensity/2026-03-04T07:00Z/2026-03-04T09:30Z"


def test_the_half_hour_before_the_range_is_left_out(make):
    """The server gives one row too many at the front; it is not taken."""
    points = make().observe(NOW.replace(hour=7, minute=0), NOW).points
    assert points[0].start == NOW.replace(hour=7, minute=0)


def test_a_forecast_begins_with_the_running_half_hour(make, server, clock):
    """It is asked from a whole half hour on, and bears the time at which we read it."""
    points = make().forecast(NOW, NOW + 10 * HOUR).points
    assert server.requests[0].path == "/intensity/2026-03-04T09:00Z/fw24h"
    assert [f"{point.start:%H:%M}" for point in points][:2] == ["09:00", "09:30"]
    assert {(point.kind, point.issued_at) for point in points} == {(Kind.FORECAST, clock.now())}
    assert points[0].g_per_kwh == 109.0


def test_a_long_forecast_asks_for_two_days(make, server):
    """More than a day ahead takes fw48h."""
    make().forecast(NOW, NOW + 30 * HOUR)
    assert server.requests[0].path.endswith("/fw48h")


def test_a_forecast_shorter_than_asked_is_what_it_is(make, server):
    """29 half hours where 96 were asked are 29, and nothing is made up behind them."""
    rows = [grid_fakes.neso_row(NOW.replace(minute=0) + index * HOUR / 2, NOW) for index in range(29)]
    server.answer_with(as_json({"data": rows}))
    points = make().forecast(NOW, NOW + 48 * HOUR).points
    assert len(points) == 29


def test_what_was_measured_is_not_forecast(make, server):
    """A row with an actual value is known, whatever forecast stands beside it."""
    server.answer_with(as_json({"data": [_row(), _row("2026-03-04T09:30Z", "2026-03-04T10:00Z", 140, None)]}))
    points = make().forecast(NOW - 3 * HOUR, NOW + 3 * HOUR).points
    assert [point.g_per_kwh for point in points] == [140.0]


@pytest.mark.parametrize("body", [{}, {"data": []}, {"data": None}, {"data": {}}])
@pytest.mark.parametrize("options", [{}, {"regionid": 13}])
def test_nothing_under_a_200_is_no_data(make, server, body, options):
    """Outages and a tomorrow that is not there yet come as empty objects and lists."""
    server.answer_with(as_json(body))
    for ask in (make(**options).observe, make(**options).forecast):
        with pytest.raises(NoData, match="neso GB"):
            ask(NOW - HOUR, NOW + HOUR)


def test_a_region_without_rows_is_no_data(make, server):
    """An unknown postcode may come back with its rows missing."""
    server.answer_with(as_json({"data": {"regionid": 13, "data": None}}))
    with pytest.raises(NoData, match="regionid 13"):
        make(regionid=13).observe(NOW - HOUR, NOW)


@pytest.mark.parametrize("wrapped", [False, True], ids=["object", "list"])
def test_a_region_comes_as_object_or_list(make, server, wrapped):
    """Both forms are read; a region has model values alone, so what has begun is estimated."""
    place = {"regionid": 13, "data": [_row(actual=None)]}
    server.answer_with(as_json({"data": [place] if wrapped else place}))
    point = make(regionid=13).observe(NOW - 3 * HOUR, NOW).points[0]
    assert (point.kind, point.g_per_kwh, point.method) == (Kind.ESTIMATED, 131.0, "model")


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"regionid": 13}, "/regional/intensity/2026-03-04T08:00Z/2026-03-04T09:30Z/regionid/13"),
        ({"postcode": " rg10 "}, "/regional/intensity/2026-03-04T08:00Z/2026-03-04T09:30Z/postcode/RG10"),
    ],
)
def test_a_region_is_asked_by_its_path(make, server, options, path):
    """Number or outward postcode end the path."""
    make(**options).observe(NOW - HOUR, NOW)
    assert server.requests[0].path == path


@pytest.mark.parametrize(
    ("options", "place"),
    [({"regionid": 13}, {"regionid": 12}), ({"postcode": "RG10"}, {}), ({"regionid": 1}, {"regionid": None})],
)
def test_another_region_is_refused(make, server, options, place):
    """A reply for another place, or for none, is not taken."""
    server.answer_with(as_json({"data": {**place, "data": [_row()]}}))
    with pytest.raises(SchemaError, match="was asked for"):
        make(**options).observe(NOW - 3 * HOUR, NOW)


def test_of_duplicate_rows_the_last_wins(make, server):
    """History holds half hours twice, with different values."""
    points = _observe(make, server, _row(actual=200), _row(actual=210)).points
    assert [point.g_per_kwh for point in points] == [210.0]


def test_a_revision_is_a_new_answer(make, server):
    """The same half hour asked again later gives its new value."""
    assert _observe(make, server, _row(actual=200)).points[0].g_per_kwh == 200.0
    assert _observe(make, server, _row(actual=205)).points[0].g_per_kwh == 205.0


def test_nulls_are_gaps(make, server):
    """A missing hour, an absent intensity and a null one cost those hours alone."""
    rows = [
        _row(actual=None),
        {**_row("2026-03-04T07:00Z", "2026-03-04T07:30Z"), "intensity": None},
        {**_row("2026-03-04T07:30Z", "2026-03-04T08:00Z"), "intensity": {}},
        _row("2026-03-04T08:30Z", "2026-03-04T09:00Z"),
    ]
    points = _observe(make, server, *rows).points
    assert [f"{point.start:%H:%M}" for point in points] == ["08:30"]


@pytest.mark.parametrize("actual", [-1, -0.5, 5001, 1e300, "120", True, [], {}, float("nan"), float("inf"), 10**400])
def test_an_impossible_value_is_never_a_number(make, server, actual):
    """Sentinels and other types are left out; if nothing else is there the error shows the value."""
    good = _row("2026-03-04T08:30Z", "2026-03-04T09:00Z")
    assert [point.g_per_kwh for point in _observe(make, server, _row(actual=actual), good)] == [120.0]
    with pytest.raises(SchemaError, match=r"measured at 2026-03-04T08:00:00\+00:00 is "):
        _observe(make, server, _row(actual=actual))


def test_a_real_zero_is_kept(make, server):
    """0 g/kWh written by the source is a value."""
    assert _observe(make, server, _row(actual=0)).points[0].g_per_kwh == 0.0


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2026-03-04", "2026-03-04T08:30Z"),
        ("2026-03-04T08:00", "2026-03-04T08:30"),
        (None, None),
        (1772611200, 1772613000),
        ("2026-03-04T08:30Z", "2026-03-04T08:00Z"),
        ("2026-03-04T08:00Z", "2026-03-04T08:00Z"),
        ("2025-03-04T08:00Z", "2026-03-04T08:00Z"),
    ],
)
def test_rows_with_impossible_times_are_refused(make, server, start, end):
    """Naive, missing, backward and year-long intervals are no data."""
    with pytest.raises(SchemaError):
        _observe(make, server, _row(start, end))


def test_the_future_was_not_measured(make, server):
    """An actual value for a half hour that has not begun is clock skew."""
    rows = [_row("2026-03-04T09:30Z", "2026-03-04T10:00Z"), _row()]
    server.answer_with(as_json({"data": rows}))
    points = make().observe(NOW - 3 * HOUR, NOW + 3 * HOUR).points
    assert [f"{point.start:%H:%M}" for point in points] == ["08:00"]


def test_long_ranges_are_asked_in_pieces(make, server):
    """No request spans more than fourteen days, and the pieces leave no gap."""
    points = make().observe(NOW - timedelta(days=30), NOW - timedelta(days=1)).points
    assert len(server.requests) == 3
    assert all(before.end == after.start for before, after in pairwise(points))
    assert points[0].start <= NOW - timedelta(days=30)


def test_nothing_is_asked_of_the_wrong_side_of_now(make, server):
    """The future has no observations and the past no forecast: no request is spent on them."""
    assert len(make().observe(NOW + HOUR, NOW + 2 * HOUR)) == 0
    assert len(make().forecast(NOW - 2 * HOUR, NOW - HOUR)) == 0
    assert server.requests == []


def test_a_bad_postcode_is_our_mistake(make, server):
    """400 with the API's own words."""
    server.answer_with(as_json({"error": {"code": "400 Bad Request", "message": "Please enter a valid postcode"}}, 400))
    with pytest.raises(BadRequest, match="postcode ZZ99: Please enter a valid postcode"):
        make(postcode="ZZ99").observe(NOW - HOUR, NOW)


def test_the_nights_of_500_are_transient(make, server):
    """For whole nights every call said so, and then it was good again."""
    body = {"error": {"code": "500 Internal Server Error", "message": "Requested resource not found."}}
    server.answer_with(as_json(body, 500))
    with pytest.raises(Transient, match="Requested resource not found"):
        make().observe(NOW - HOUR, NOW)


@pytest.mark.parametrize("status", [401, 403])
def test_a_keyless_source_cannot_refuse_a_key(make, server, status):
    """A refusal comes from a gateway before it: nobody is sent to look for a token."""
    server.answer_with(as_json({"message": "Forbidden"}, status))
    with pytest.raises(Transient, match=f"refused with {status} Forbidden"):
        make().observe(NOW - HOUR, NOW)
