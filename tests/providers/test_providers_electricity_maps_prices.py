"""Electricity Maps' day-ahead prices: auctioned ones, with where each is from."""

from __future__ import annotations

import pytest
from electricity_maps_fakes import HOUR, OPEN, PLAN, price_row, vendor
from grid_server import NOW, as_json
from http_price_suite import HttpPriceSuite
from http_suite import TOKEN

from providers.base import BadRequest, Market, NoData, PlanError, SchemaError
from providers.electricity_maps_prices import ElectricityMapsPrices
from providers.redact import Secret

RUNNING = NOW.replace(minute=0)


class TestElectricityMapsPricesSuite(HttpPriceSuite):
    """The past and the future are two requests."""

    REQUESTS = 2
    AHEAD_REQUESTS = 1

    def make(self, session, base_url):
        given = {"zone": "DE", "options": {}, "token": Secret(TOKEN), "base_url": base_url}
        return ElectricityMapsPrices(**given, session=session, now=lambda: self.NOW)

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

    def make(zone="DE", path="", **options):
        given = {"zone": zone, "options": options, "token": Secret(TOKEN), "base_url": server.url + path}
        return ElectricityMapsPrices(**given, session=session, now=clock.now)

    return make


def combined(*rows, **more):
    return as_json({"zone": "DE", "data": list(rows), "temporalGranularity": "hourly", **more})


def ahead(provider):
    return provider.prices(RUNNING, RUNNING + 24 * HOUR)


def test_a_price_says_what_it_is(make):
    """EUR per MWh become EUR per kWh, of the day-ahead market, with the exchange and when it was auctioned."""
    price = ahead(make()).points[0]
    assert (price.start, price.end, price.price_per_kwh) == (RUNNING, RUNNING + HOUR, 0.01025)
    assert (price.zone, price.source, price.currency, price.market) == (
        "DE",
        "electricity_maps",
        "EUR",
        Market.DAY_AHEAD,
    )
    assert (price.licence, price.updated_at) == ("nordpool.com", RUNNING - 24 * HOUR)


def test_a_day_back_and_a_day_ahead_are_one_series(make, server):
    """The running hour is in both replies, and once in the answer."""
    points = make().prices(NOW - 24 * HOUR, NOW + 48 * HOUR).points
    assert [point.start for point in points] == [RUNNING + n * HOUR for n in range(-23, 25)]
    assert [request.path for request in server.requests] == [
        "/v4/price-day-ahead/history",
        "/v4/price-day-ahead/combined",
    ]
    assert server.requests[0].query == {
        "zone": "DE",
        "temporalGranularity": "hourly",
        "disableCallerLookup": "true",
    }


@pytest.mark.parametrize(
    ("start", "end", "endpoints"),
    [(-5, -2, ["history"]), (0, 5, ["combined"]), (0, 0, ["combined"]), (-1, 1, ["history", "combined"])],
)
def test_only_what_is_needed_is_asked_for(make, server, start, end, endpoints):
    """The past has one endpoint, the running hour and the future another."""
    make().prices(NOW + start * HOUR, NOW + end * HOUR)
    assert [request.path.rsplit("/", 1)[1] for request in server.requests] == endpoints


@pytest.mark.parametrize(
    "source", [None, "", " ", "electricitymaps.com", "Electricity Maps", "ELECTRICITY_MAPS_FORECAST", 7]
)
def test_what_the_vendor_expects_is_no_price(make, server, source):
    """Beyond the auction rows go on with a model's figures; a row without an exchange is left out."""
    server.answer_with(combined(price_row(RUNNING), price_row(RUNNING + HOUR, source=source)))
    assert [point.start for point in ahead(make())] == [RUNNING]
    gone = {key: value for key, value in price_row(RUNNING + HOUR).items() if key != "source"}
    server.answer_with(combined(price_row(RUNNING), gone))
    assert len(ahead(make())) == 1


def test_negative_zero_and_missing_are_three_things(make, server):
    """-4 and 0 are prices, null is a gap."""
    values = [-4, 0, None, 7]
    server.answer_with(combined(*(price_row(RUNNING + n * HOUR, value=value) for n, value in enumerate(values))))
    points = ahead(make()).points
    assert [(point.start.hour, point.price_per_kwh) for point in points] == [(9, -0.004), (10, 0.0), (12, 0.007)]


@pytest.mark.parametrize("value", ["80", True, float("nan"), 1e6, [], 10**400])
def test_an_impossible_price_is_a_gap(make, server, value):
    """And an error where there is nothing else."""
    server.answer_with(combined(price_row(RUNNING), price_row(RUNNING + HOUR, value=value)))
    assert len(ahead(make())) == 1
    server.answer_with(combined(price_row(RUNNING, value=value)))
    with pytest.raises(SchemaError, match="value at"):
        ahead(make())


@pytest.mark.parametrize(("unit", "currency", "value"), [("GBP/MWh", "GBP", 0.08), ("EUR/kWh", "EUR", 80.0)])
def test_the_unit_is_the_replys(make, server, unit, currency, value):
    """Nothing is taken for EUR/MWh that says otherwise."""
    server.answer_with(combined(price_row(RUNNING, value=80, unit=unit)))
    assert [(point.currency, point.price_per_kwh) for point in ahead(make())] == [(currency, value)]


@pytest.mark.parametrize("unit", ["EUR", None, "%", "cents/kWh"])
def test_a_strange_unit_is_refused(make, server, unit):
    """It is not guessed at."""
    server.answer_with(combined(price_row(RUNNING, unit=unit)))
    with pytest.raises(SchemaError, match="unit at"):
        ahead(make())


def test_two_currencies_are_refused(make, server):
    """A series has one."""
    server.answer_with(combined(price_row(RUNNING), price_row(RUNNING + HOUR, unit="GBP/MWh")))
    with pytest.raises(SchemaError, match="prices in EUR and GBP"):
        ahead(make())


@pytest.mark.parametrize("where", [{"zone": "FR"}, {"row": "FR"}])
def test_another_zone_is_refused(make, server, where):
    """In the reply or in its rows."""
    server.answer_with(
        combined(price_row(RUNNING, zone=where.get("row", "DE")), **({"zone": "FR"} if "zone" in where else {}))
    )
    with pytest.raises(SchemaError, match=r"asked for zone 'DE' and answered with 'FR'"):
        ahead(make())


def test_a_single_row_is_a_reply_too(make, server):
    """As ``latest`` has it."""
    server.answer_with(as_json({**price_row(RUNNING), "temporalGranularity": "hourly"}))
    assert [point.start for point in ahead(make())] == [RUNNING]


def test_quarters_among_the_hours_do_not_overlap(make, server):
    """Each row ends where the next begins."""
    starts = [RUNNING, RUNNING + HOUR, RUNNING + HOUR + HOUR / 4]
    server.answer_with(combined(*map(price_row, starts)))
    assert [point.end - point.start for point in ahead(make())] == [HOUR, HOUR / 4, HOUR]


@pytest.mark.parametrize("closed", ["history", "combined"])
def test_a_plan_that_has_half_of_it_gives_that_half(make, server, clock, closed):
    """Refused or without data, one endpoint does not cost the other; both do."""
    for refusal in (as_json(PLAN, 401), as_json({"error": 'No data for zone "DE"'}, 404)):
        server.answer_with(vendor(clock.now, refused=refusal, closed=closed))
        points = make().prices(NOW - 6 * HOUR, NOW + 6 * HOUR).points
        assert {point.start < RUNNING for point in points if point.start != RUNNING} == {closed == "combined"}
    server.answer_with(as_json(PLAN, 401))
    with pytest.raises(PlanError):
        make().prices(NOW - 6 * HOUR, NOW + 6 * HOUR)


def test_a_zone_without_an_exchange_has_no_data(make, server):
    """An empty list is no price."""
    server.answer_with(combined())
    with pytest.raises(NoData, match="published nothing"):
        ahead(make())


def test_a_bare_refusal_is_looked_up(make, server, clock):
    """As for intensities: a plan without prices is told as such."""
    bare = as_json({"error": "Invalid auth-token"}, 401)
    server.answer_with(vendor(clock.now, access=OPEN, refused=bare, closed="price-day-ahead"))
    with pytest.raises(PlanError, match="price-day-ahead/combined is not in its plan"):
        ahead(make())


@pytest.mark.parametrize(("path", "options"), [("", {"version": "v3"}), ("/v3", {})])
def test_version_three_has_no_prices(make, path, options):
    """Told before anything is asked."""
    with pytest.raises(BadRequest, match="prices need version v4"):
        make(path=path, **options)
