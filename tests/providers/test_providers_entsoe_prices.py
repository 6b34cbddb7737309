"""ENTSO-E's day-ahead prices: compressed, negative, of two auctions, in two currencies, in changing steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import entsoe_fakes as fakes
import pytest
from entsoe_fakes import DE_LU, HALF, HOUR, PUBLICATION, QUARTER, acknowledgement, answer, platform
from grid_server import NOW
from http_price_suite import HttpPriceSuite
from http_suite import TOKEN

from providers.base import BadRequest, Market, NoData, SchemaError
from providers.entsoe_prices import EntsoePrices
from providers.redact import Secret

DAY = timedelta(days=1)
MARKET_DAY = NOW.replace(day=3, hour=23, minute=0)  # in Brussels the 4th begins


class TestEntsoePricesSuite(HttpPriceSuite):
    """The bidding zone DE_LU."""

    def make(self, session, base_url):
        given = {"zone": "DE_LU", "options": {}, "token": Secret(TOKEN), "base_url": base_url}
        return EntsoePrices(**given, session=session, now=lambda: self.NOW)

    @pytest.fixture
    def server(self, server):
        server.answer_with(platform(lambda: self.NOW))
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


@pytest.fixture
def make(server, session, clock):
    server.answer_with(platform(clock.now))

    def make(zone="DE_LU", **options):
        given = {"zone": zone, "options": options, "token": Secret(TOKEN), "base_url": server.url}
        return EntsoePrices(**given, session=session, now=clock.now)

    return make


def publication(*series):
    return answer(fakes.document(*series, kind=PUBLICATION))


def period(points, start=MARKET_DAY, length=DAY, step=HOUR):
    return fakes.period(start, start + length, step, points, "price.amount")


def market_day(provider):
    return provider.prices(MARKET_DAY, MARKET_DAY + DAY)


def told(prices):
    return [round(price.price_per_kwh * 1000, 9) for price in prices]


def test_the_request_is_as_documented(make, server):
    """A44 from the zone to itself, a day more at each side."""
    make().prices(NOW, NOW + HOUR)
    (sent,) = server.requests
    assert sent.path == "/api"
    assert sent.query == {
        "securityToken": TOKEN,
        "documentType": "A44",
        "in_Domain": DE_LU,
        "out_Domain": DE_LU,
        "contract_MarketAgreement.type": "A01",
        "periodStart": "202603030900",
        "periodEnd": "202603051100",
    }


def test_a_compressed_day_has_each_of_its_quarters(make):
    """Four figures stand for 96 quarters, the last one to the end of the day; EUR per MWh become EUR per kWh."""
    prices = market_day(make()).points
    assert told(prices) == [80] * 32 + [61.5] * 16 + [-4.2] * 20 + [120.25] * 28
    assert [price.start for price in prices] == [MARKET_DAY + n * QUARTER for n in range(96)]
    assert prices[0].price_per_kwh == 0.08
    labels = {(price.zone, price.currency, price.market, price.source) for price in prices}
    assert labels == {("DE_LU", "EUR", Market.DAY_AHEAD, "entsoe")}


def test_tomorrow_is_there_when_it_is_published(make):
    """Prices reach as far as the market has cleared, whatever was asked for."""
    prices = make().prices(NOW, NOW + 7 * DAY).points
    assert prices[-1].end == MARKET_DAY + 2 * DAY


def test_only_the_auction_in_position_one_counts(make, server):
    """DE_LU and AT have an earlier auction beside the coupled one, in the same reply, before it or after it."""
    early, coupled = period({1: 999}), period({1: 50})
    for position in ("1", None):
        for series in ((("2", early), (position, coupled)), ((position, coupled), ("2", early))):
            server.answer_with(publication(*(fakes.prices(one, position=which) for which, one in series)))
            assert set(told(market_day(make()))) == {50}
    server.answer_with(publication(fakes.prices(early, position="2")))
    with pytest.raises(NoData, match="no day-ahead prices in EUR"):
        market_day(make())


def test_one_currency_is_taken_and_others_are_named(make, server):
    """Zloty are no euro, however much they look alike; who has only zloty is told what to set."""
    zloty, euro = fakes.prices(period({1: 430}), currency="PLN"), fakes.prices(period({1: 100}))
    server.answer_with(publication(zloty, euro))
    assert set(told(market_day(make()))) == {100}
    assert {(price.currency, round(price.price_per_kwh, 9)) for price in market_day(make(currency="PLN"))} == {
        ("PLN", 0.43)
    }
    server.answer_with(publication(zloty))
    with pytest.raises(NoData, match="but some in 'PLN': set option currency"):
        market_day(make())


@pytest.mark.parametrize("wrong", ["euro", "eur", "€", 978])
def test_an_option_currency_is_a_currency(make, wrong):
    """Three capital letters."""
    with pytest.raises(BadRequest, match="currency"):
        make(currency=wrong)


def test_an_option_that_is_none_is_named(make):
    """With those that there are."""
    with pytest.raises(BadRequest, match="no option 'sequence'; it knows currency"):
        make(sequence=1)


def test_hours_became_quarters_on_the_first_of_october_2025(make, server, clock):
    """One reply over the change: hours before it, quarters after it, no overlap and no hole."""
    change = datetime(2025, 9, 30, 22, tzinfo=UTC)
    clock.advance((change + DAY - clock.now()).total_seconds())
    hourly, quarterly = period({1: 70}, change - DAY), period({1: 80, 2: 90}, change, step=QUARTER)
    server.answer_with(publication(fakes.prices(hourly), fakes.prices(quarterly)))
    prices = make().prices(change - DAY, change + DAY).points
    assert [price.end - price.start for price in prices] == [HOUR] * 24 + [QUARTER] * 96
    assert told(prices) == [70] * 24 + [80] + [90] * 95
    assert all(before.end == after.start for before, after in pairwise(prices))


@pytest.mark.parametrize("order", [1, -1])
def test_where_hours_and_quarters_overlap_the_quarters_count(make, server, order):
    """For a while both were published; an hour that has one quarter of its own keeps its price beside it."""
    hourly = fakes.prices(period({1: 70}))
    finer = fakes.prices(period({1: 10}, MARKET_DAY + HOUR + QUARTER, QUARTER, QUARTER))
    halves = fakes.prices(period({1: 30, 2: 40}, MARKET_DAY + 2 * HOUR, HOUR, HALF))
    server.answer_with(publication(*[hourly, finer, halves][::order]))
    prices = market_day(make()).points
    assert told(prices) == [70] + [70, 10, 70] + [30, 40] + [70] * 21
    assert sum((price.end - price.start for price in prices), timedelta()) == DAY


@pytest.mark.parametrize(
    ("first", "quarters"), [(datetime(2025, 10, 25, 22, tzinfo=UTC), 100), (datetime(2026, 3, 28, 23, tzinfo=UTC), 92)]
)
def test_the_days_on_which_clocks_change_are_whole(make, server, first, quarters):
    """25 and 23 hours in Brussels, without a hole or a double."""
    server.answer_with(publication(fakes.prices(period({1: 5, quarters: 6}, first, quarters * QUARTER, QUARTER))))
    prices = make().prices(first, first + quarters * QUARTER).points
    assert told(prices) == [5] * (quarters - 1) + [6]


def test_a_negative_price_and_a_price_of_zero_are_prices(make, server):
    """At noon in May they are common."""
    server.answer_with(publication(fakes.prices(period({1: 0, 2: -0.01, 3: -500, 4: 0}))))
    assert told(market_day(make())) == [0, -0.01, -500] + [0] * 21


@pytest.mark.parametrize("figure", ["", "n/a", "nan", "1e9", "-inf"])
def test_a_figure_that_cannot_be_a_price_is_a_gap(make, server, figure):
    """It is neither a price nor covered by the price before it."""
    server.answer_with(publication(fakes.prices(period({1: 70, 5: figure, 6: 80}))))
    prices = market_day(make()).points
    assert told(prices) == [70] * 4 + [80] * 18 + [80]
    assert MARKET_DAY + 4 * HOUR not in {price.start for price in prices}


@pytest.mark.parametrize(
    ("series", "text"),
    [
        (fakes.prices(period({1: 70}), unit="KWH"), "prices are for 'KWH', not for MWH"),
        (fakes.prices(period({1: 70}), zone="10YAT-APG------L"), "asked for 10Y1001A1001A82H and answered with '10YAT"),
        (fakes.prices(period({25: 70})), "position of a Point is '25', not within 1 to 24"),
    ],
)
def test_prices_of_something_else_are_refused(make, server, series, text):
    """Another unit or zone, or a day of more hours than it has."""
    server.answer_with(publication(series))
    with pytest.raises(SchemaError, match=text):
        market_day(make())


def test_before_the_auction_there_is_nothing(make, server):
    """Tomorrow's prices come after noon: no data is no fault."""
    server.answer_with(answer(acknowledgement("No matching data found for Data item Energy Prices [12.1.D]")))
    with pytest.raises(NoData):
        make().prices(NOW + DAY, NOW + 2 * DAY)
