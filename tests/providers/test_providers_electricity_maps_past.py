"""Electricity Maps further back than 24 hours: where the plan has it, seldom, and never at the cost of now."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from electricity_maps_fakes import BARE, HOUR, PLAN, vendor
from grid_server import NOW, as_json, html
from http_suite import TOKEN

from providers.base import Kind
from providers.electricity_maps import ElectricityMaps
from providers.redact import Secret

DAY = timedelta(days=1)
RUNNING = NOW.replace(minute=0)


@pytest.fixture
def make(server, session, clock):
    server.answer_with(vendor(clock.now))

    def make(**options):
        given = {"zone": "DE", "options": options, "token": Secret(TOKEN), "base_url": server.url}
        return ElectricityMaps(**given, session=session, now=clock.now)

    return make


def ranges(server):
    return [
        tuple(datetime.fromisoformat(request.query[edge]) for edge in ("start", "end"))
        for request in server.requests
        if request.path.endswith("/past-range")
    ]


def test_a_week_is_asked_for_in_one_range(make, server):
    """Each hour of it, the newest ones from ``history``, with its estimates; times in UTC and whole seconds."""
    points = make().observe(NOW - 7 * DAY, NOW).points
    assert [point.start for point in points] == [RUNNING - n * HOUR for n in range(7 * 24, -1, -1)]
    assert ranges(server) == [(NOW - 7 * DAY, NOW)]
    assert [point.kind for point in points[-4:]] == [Kind.MEASURED] + [Kind.ESTIMATED] * 3
    assert server.requests[-1].query["start"] == "2026-02-25T09:20:00Z"
    assert server.requests[-1].query["emissionFactorType"] == "lifecycle"


def test_four_weeks_take_three_ranges_of_ten_days_or_less(make, server):
    """The longest that one request may ask for."""
    points = make().observe(NOW - 28 * DAY, NOW).points
    assert len(points) == 28 * 24 + 1
    spans = ranges(server)
    assert [end - start for start, end in spans] == [10 * DAY, 10 * DAY, 8 * DAY]
    assert [start for start, _ in spans[1:]] == [end for _, end in spans[:-1]]


def test_further_back_than_forty_days_nothing_is_asked_for(make, server):
    """Nobody's question is worth a hundred requests."""
    points = make().observe(NOW - 300 * DAY, NOW).points
    assert len(ranges(server)) == 4
    assert points[0].start == RUNNING - 40 * DAY
    assert make().observe(NOW - 300 * DAY, NOW - 299 * DAY).points == ()
    assert len(ranges(server)) == 4


def test_a_poll_does_not_find_out_what_the_plan_has(make, server):
    """72 hours are one request as long as nobody has wanted more."""
    provider = make()
    assert len(provider.observe(NOW - 72 * HOUR, NOW)) == 24
    assert len(server.requests) == 1


def test_a_poll_of_a_plan_that_has_it_reads_the_days_before_again(make, server, clock):
    """Every six hours; in between the rows are kept, so that the answer to one question stays the same."""
    provider = make()
    provider.observe(NOW - 7 * DAY, NOW)
    for _ in range(24):
        clock.advance(900)
        now = clock.now()
        points = provider.observe(now - 72 * HOUR, now).points
        starts = [point.start for point in points]
        assert starts == [starts[0] + n * HOUR for n in range(73)]
    assert len(ranges(server)) == 2


@pytest.mark.parametrize("refusal", [as_json(PLAN, 401), BARE, as_json({"message": "Forbidden"}, 403)])
def test_a_plan_without_it_is_asked_once_a_day(make, server, clock, refusal):
    """``history`` is given as if nothing had been asked."""
    server.answer_with(vendor(clock.now, access=["carbon-intensity/history"], refused=refusal, closed="past-range"))
    provider = make()
    for _ in range(5):
        assert len(provider.observe(clock.now() - 7 * DAY, clock.now())) == 24
        clock.advance(3600)
    assert len(ranges(server)) == 1
    clock.advance(86400)
    provider.observe(clock.now() - 7 * DAY, clock.now())
    assert len(ranges(server)) == 2


def test_a_plan_known_not_to_have_it_is_not_asked(make, server, clock):
    """Where the list of zones has been looked at."""
    server.answer_with(vendor(clock.now, access=["carbon-intensity/history"]))
    provider = make()
    provider.access()
    assert len(provider.observe(NOW - 7 * DAY, NOW)) == 24
    assert ranges(server) == []


@pytest.mark.parametrize("failure", [html(503), as_json({"zone": "FR", "data": []}), as_json({"message": "slow"}, 429)])
def test_a_failure_of_the_past_costs_nothing_of_the_present(make, server, clock, failure):
    """It is tried again after a quarter of an hour."""
    server.answer_with(vendor(clock.now, refused=failure, closed="past-range"))
    provider = make()
    assert len(provider.observe(NOW - 7 * DAY, NOW)) == 24
    before = len(ranges(server))
    assert len(provider.observe(NOW - 7 * DAY, NOW)) == 24
    assert len(ranges(server)) == before
    server.answer_with(vendor(clock.now))
    clock.advance(900)
    assert len(provider.observe(NOW - 7 * DAY, NOW)) > 7 * 24


def test_a_range_without_data_costs_no_other(make, server, clock):
    """Ten empty days are a gap of ten days."""
    full = vendor(clock.now)
    empty = as_json({"error": 'No data for zone "DE"'}, 404)
    server.answer_with(
        lambda request: empty if request.query.get("start", "").startswith("2026-02-04") else full(request)
    )
    points = make().observe(NOW - 28 * DAY, NOW).points
    assert points[0].start == RUNNING - 18 * DAY


def test_another_boundary_in_the_past_is_never_mixed_in(make, server, clock):
    """A reply of plain production is no history of traced consumption."""
    labelled = as_json(
        {"zone": "DE", "data": [{"datetime": "2026-03-01T00:00:00Z", "carbonIntensity": 1}], "flowTraced": False}
    )
    server.answer_with(vendor(clock.now, refused=labelled, closed="past-range"))
    assert 1.0 not in {point.g_per_kwh for point in make().observe(NOW - 7 * DAY, NOW)}
