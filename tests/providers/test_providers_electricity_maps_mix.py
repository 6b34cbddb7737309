"""Electricity Maps' mixes as intensity: traced or plain, nulls, storage, flows, estimates."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

import pytest
from electricity_maps_fakes import HOUR, mix_row, vendor
from grid_fakes import em_time
from grid_server import NOW, as_json
from http_suite import TOKEN, HttpProviderSuite

from providers.base import BadRequest, Boundary, Kind, NoData, PlanError, SchemaError, Scope
from providers.electricity_maps import ElectricityMaps
from providers.redact import Secret

RUNNING = NOW.replace(minute=0)
OPTIONS = {"method": "mix"}


class TestElectricityMapsMixSuite(HttpProviderSuite):
    """By option."""

    SOURCE_OPTIONS: ClassVar[dict] = OPTIONS

    def make(self, session, base_url):
        given = {"zone": "DE", "options": self.SOURCE_OPTIONS, "token": Secret(TOKEN), "base_url": base_url}
        return ElectricityMaps(**given, session=session, now=lambda: self.NOW)

    @pytest.fixture
    def server(self, server):
        server.answer_with(vendor(lambda: self.NOW))
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


@pytest.fixture
def make(server, session, clock):
    server.answer_with(vendor(clock.now))

    def make(zone="FR", **options):
        given = {"zone": zone, "options": {**OPTIONS, **options}, "token": Secret(TOKEN), "base_url": server.url}
        return ElectricityMaps(**given, session=session, now=clock.now)

    return make


def day(provider):
    return provider.observe(NOW - 24 * HOUR, NOW)


def history(*rows, zone="FR", **more):
    return as_json({"zone": zone, "temporalGranularity": "hourly", "unit": "MW", "history": list(rows), **more})


def hours(count=6, **modes):
    return [mix_row(RUNNING - back * HOUR, NOW, **modes) for back in range(count - 1, -1, -1)]


def test_a_mix_is_counted_by_our_own_factors(make, server):
    """What is null, what is stored and what flows over the border count nothing; 300 MW of nuclear and the rest do."""
    points = day(make(zone="AT")).points
    at = points[-1].start.hour
    generated = {12: 300, 230: 100.5, 820: 80, 11: 400 + at, 45: 0, 24: 60, 490: 60, 700: 10}
    expected = sum(factor * mw for factor, mw in generated.items()) / sum(generated.values())
    assert points[-1].g_per_kwh == pytest.approx(expected, rel=1e-12)
    assert (points[-1].scope, points[-1].boundary) == (Scope.LIFECYCLE, Boundary.CONSUMPTION)
    assert len(points) == 24


def test_the_request_says_which_mix(make, server):
    """The mix has a word of its own for tracing, and no factors."""
    day(make())
    day(make(flow_traced=False, estimations=False))
    traced, plain = (request.query for request in server.requests)
    assert server.requests[0].path == "/v4/electricity-mix/history"
    assert traced == {
        "zone": "FR",
        "temporalGranularity": "hourly",
        "disableCallerLookup": "true",
        "breakdownType": "flow-traced",
    }
    assert (plain["breakdownType"], plain["disableEstimations"]) == ("normal", "true")


def test_a_plain_mix_is_of_production(make, server):
    """And its scope may be direct."""
    server.answer_with(history(*hours(breakdown="normal")))
    assert {(point.scope, point.boundary) for point in day(make(flow_traced=False, scope="direct"))} == {
        (Scope.DIRECT, Boundary.PRODUCTION)
    }


def test_estimates_are_told_and_by_which_method(make, server):
    """The newest rows are estimates; measured ones are marked MEASURED here and null elsewhere."""
    points = day(make()).points
    assert [point.kind for point in points[-4:]] == [Kind.MEASURED] + [Kind.ESTIMATED] * 3
    assert points[0].method == "ipcc-ar5.1+em-2025.1 lifecycle, 99 % of known fuel"
    assert points[-1].method == f"{points[0].method}; ESTIMATED_FORECASTS_HIERARCHY"
    assert points[-1].updated_at == RUNNING + HOUR


def test_now_alone_is_asked_with_its_day(make, server):
    """One row cannot tell whether it is whole, so ``latest`` is not enough."""
    points = make().observe(NOW, NOW).points
    assert [point.start for point in points] == [RUNNING]
    assert server.requests[0].path.endswith("/history")
    server.answer_with(as_json({"error": "zoneKey=FR"}, 401))
    with pytest.raises(PlanError):
        make().observe(NOW, NOW)


def test_a_row_that_lacks_a_fuel_is_a_gap(make, server):
    """Nuclear is null in the newest row, where it was a third of the mix."""
    *rows, last = hours()
    server.answer_with(history(*rows, {**last, "mix": {**last["mix"], "nuclear": None}}))
    assert day(make()).points[-1].start == RUNNING - HOUR
    server.answer_with(history(*rows, {**last, "mix": None}))
    assert day(make()).points[-1].start == RUNNING - HOUR


@pytest.mark.parametrize("figure", ["many", True, [], 1e12, "nan"])
def test_a_figure_that_cannot_be_read_makes_its_row_a_gap(make, server, figure):
    """Left out, it would make the rest look like the whole."""
    *rows, last = hours()
    server.answer_with(history(*rows, {**last, "mix": {**last["mix"], "oil": figure}}))
    assert day(make()).points[-1].start == RUNNING - HOUR
    server.answer_with(history(*hours(coal=figure)))
    with pytest.raises(SchemaError, match="coal at"):
        day(make())


@pytest.mark.parametrize(("megawatts", "rows"), [(100, 6), (400, None)])
def test_a_mode_that_is_new_is_unknown(make, server, megawatts, rows):
    """A little of it counts as unknown; with much of it there is no mix."""
    server.answer_with(history(*hours(fusion=megawatts)))
    if rows:
        assert len(day(make())) == rows
    else:
        with pytest.raises(NoData, match="no interval has a whole mix"):
            day(make())


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"unit": "GW"}, "asked for unit 'MW' and answered with 'GW'"),
        ({"zone": "DE"}, "asked for zone 'FR' and answered with 'DE'"),
        ({"temporalGranularity": "daily"}, "temporalGranularity is 'daily'"),
        ({"history": hours(breakdown="normal")}, "asked for breakdownType 'flow-traced' and answered with 'normal'"),
    ],
)
def test_a_mix_of_something_else_is_refused(make, server, changed, text):
    """Another unit, zone or way of tracing."""
    server.answer_with(history(*hours(), **changed))
    with pytest.raises(SchemaError, match=text):
        day(make())


def test_a_sandbox_mix_is_refused(make, server):
    """Random numbers add up, too."""
    server.answer_with(history(*({**row, "estimationMethod": "SANDBOX_MODE_DATA"} for row in hours())))
    with pytest.raises(PlanError, match="sandbox"):
        day(make())


def test_mixes_have_no_forecast(make, server):
    """The vendor's own forecast of the intensity is by other factors, and would be compared with these."""
    provider = make()
    assert not provider.capabilities.forecast
    assert provider.forecast(NOW, NOW + timedelta(days=1)).points == ()
    assert server.requests == []


def test_rows_further_back_come_from_ranges(make, server, clock):
    """Where the plan has them, as for intensities."""
    rows = [mix_row(RUNNING - back * HOUR, NOW) for back in range(7 * 24, -1, -1)]
    range_ = as_json({"zone": "FR", "data": rows, "temporalGranularity": "hourly"})
    server.answer_with(vendor(clock.now, refused=range_, closed="electricity-mix/past-range"))
    assert len(make().observe(NOW - 7 * 24 * HOUR, NOW)) == 7 * 24 + 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"version": "v3"}, 'method = "mix" needs version v4'),
        ({"method": "mixed"}, "did you mean 'mix'"),
    ],
)
def test_the_option_is_held_to_what_there_is(make, options, text):
    """Version 3 has no mixes."""
    with pytest.raises(BadRequest, match=text):
        make(**options)


def test_of_duplicate_rows_the_last_wins(make, server):
    """One hour, one point."""
    server.answer_with(history(*hours(), mix_row(RUNNING, NOW, wind=9000)))
    points = day(make()).points
    assert len(points) == 6
    assert points[-1].g_per_kwh < points[-2].g_per_kwh / 2
    assert em_time(points[-1].start) == em_time(RUNNING)
