"""Danish day-ahead prices: quarters of an hour, two currencies, one request a minute."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise

import energinet_fake
import pytest
from energinet_fake import HOUR, QUARTER, stamp
from grid_server import NOW, as_json
from http_price_suite import HttpPriceSuite
from hypothesis import given
from hypothesis import strategies as st
from mutating import Replayed, mutated
from price_mutations import check_prices

from providers.base import BadRequest, Market, NoData, SchemaError
from providers.energinet_prices import EnerginetPrices

EIGHT = NOW.replace(hour=8, minute=0)


class TestEnerginetPricesSuite(HttpPriceSuite):
    """The east."""

    PAUSE_S = 60.0

    def make(self, session, base_url):
        return EnerginetPrices(zone="DK-DK2", options={}, base_url=base_url, session=session, now=lambda: self.NOW)

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
        return EnerginetPrices(zone=zone, options=options, base_url=server.url, session=session, now=clock.now)

    return make


def _row(euro, at=EIGHT, area="DK1"):
    return {"TimeUTC": stamp(at), "PriceArea": area, "DayAheadPriceEUR": euro, "DayAheadPriceDKK": 3.0}


def _prices(make, server, *rows):
    server.answer_with(as_json({"dataset": "DayAheadPrices", "records": list(rows)}))
    return make().prices(NOW - 3 * HOUR, NOW + 3 * HOUR)


@pytest.mark.parametrize(
    ("options", "currency", "per_kwh"), [({}, "EUR", -0.0195), ({"currency": "DKK"}, "DKK", -0.156)]
)
def test_prices_are_per_kwh_in_either_currency(make, clock, options, currency, per_kwh):
    """A thousandth of the column of the currency; below zero is below zero."""
    points = make(**options).prices(EIGHT, EIGHT + HOUR).points
    assert [point.start for point in points] == [EIGHT + index * QUARTER for index in range(4)]
    assert {round(point.price_per_kwh, 9) for point in points} == {per_kwh}
    labels = {(point.currency, point.market, point.zone, point.source, point.fetched_at) for point in points}
    assert labels == {(currency, Market.DAY_AHEAD, "DK-DK1", "energinet", clock.now())}


def test_a_request_is_clear_about_time_area_and_size(make, server):
    """UTC, both areas and both currencies, and a limit."""
    make().prices(NOW, NOW + HOUR)
    query = server.requests[0].query
    assert server.requests[0].path == "/dataset/DayAheadPrices"
    assert query["columns"] == "TimeUTC,PriceArea,DayAheadPriceEUR,DayAheadPriceDKK"
    assert (query["start"], query["end"], query["timezone"]) == ("2026-03-03T09:00", "2026-03-06T10:00", "UTC")
    assert 4 * 2 * 73 < int(query["limit"]) < 10_000


def test_areas_and_currencies_share_a_request(make, server, clock):
    """Two regions and two currencies within five minutes cost one."""
    east = make("DK-DK2").prices(EIGHT, EIGHT + QUARTER).points[0]
    clock.advance(200.0)
    crowns = make("DK-DK2", currency="DKK").prices(EIGHT, EIGHT + QUARTER).points[0]
    assert east.price_per_kwh == pytest.approx(0.0805)
    assert crowns.price_per_kwh == pytest.approx(0.644)
    assert len(server.requests) == 1


def test_tomorrow_is_there_once_it_is_published(make, server, clock):
    """What is kept is not kept for longer than five minutes."""
    today = _row(10.0, NOW.replace(minute=0))
    assert len(_prices(make, server, today)) == 1
    clock.advance(301.0)
    assert len(_prices(make, server, today, _row(12.0, NOW.replace(minute=0) + HOUR))) == 2


@pytest.mark.parametrize(("start", "hours"), [((2026, 3, 28, 23), 23), ((2025, 10, 25, 22), 25)])
def test_days_of_the_clock_change_are_whole(server, session, start, hours):
    """23 or 25 hours of quarters, none missing, none twice."""
    start = datetime(*start, tzinfo=UTC)
    end = start + hours * HOUR
    server.answer_with(energinet_fake.energinet(lambda: start))
    given_ = {"zone": "DK-DK1", "options": {}, "base_url": server.url, "session": session, "now": lambda: start}
    points = EnerginetPrices(**given_).prices(start, end).points
    assert len(points) == 4 * hours
    assert (points[0].start, points[-1].end) == (start, end)
    assert all(before.end == after.start for before, after in pairwise(points))


def test_hours_and_quarters_keep_their_length(make, server):
    """Should an hourly row come first, it lasts an hour."""
    starts = [EIGHT - 2 * HOUR, EIGHT - HOUR, EIGHT, EIGHT + QUARTER]
    points = _prices(make, server, *(_row(float(index), at) for index, at in enumerate(starts))).points
    assert [(point.end - point.start) / QUARTER for point in points] == [4, 4, 1, 1]


@pytest.mark.parametrize("value", [100_001, "84.5", True, [], float("nan"), 10**400])
def test_an_impossible_price_is_never_one(make, server, clock, value):
    """It is a gap like a null, and if nothing else is there the error shows it."""
    points = _prices(make, server, _row(value), _row(None, EIGHT + QUARTER), _row(10, EIGHT + 2 * QUARTER))
    assert [point.price_per_kwh for point in points] == [0.01]
    clock.advance(301.0)
    with pytest.raises(SchemaError, match=r"DayAheadPriceEUR at 2026-03-04T08:00:00\+00:00 is "):
        _prices(make, server, _row(value))


def test_a_column_that_went_is_an_error(make, server):
    """And no day without prices."""
    row = _row(1.0)
    del row["DayAheadPriceEUR"]
    with pytest.raises(SchemaError, match="DayAheadPriceEUR is missing"):
        _prices(make, server, row)


@pytest.mark.parametrize("rows", [[], [_row(1.0, area="DK2")]])
def test_nothing_is_no_data(make, server, rows):
    """Before October 2025 there are no rows here."""
    with pytest.raises(NoData, match="DayAheadPrices"):
        _prices(make, server, *rows)


@pytest.mark.parametrize(
    ("zone", "options", "text"),
    [
        ("DK", {}, "knows DK1 and DK2"),
        ("DK1", {"currency": "SEK"}, "currency is 'SEK'"),
        ("DK1", {"price_area": "DK3"}, "price_area is 'DK3'"),
        ("DK1", {"curency": "EUR"}, "did you mean 'currency'"),
    ],
)
def test_wrong_options_are_refused_at_once(make, zone, options, text):
    """With what they may be."""
    with pytest.raises(BadRequest, match=text):
        make(zone, **options)


@given(data=st.data())
def test_it_survives_any_reply(data):
    """Prices that were sent, gaps, or one of our errors."""
    rows = [
        energinet_fake.row("DayAheadPrices", EIGHT + index * QUARTER, area)
        for index in range(10)
        for area in ("DK1", "DK2")
    ]
    document = data.draw(mutated({"total": 20, "limit": 1000, "dataset": "DayAheadPrices", "records": rows}))
    session = Replayed(json.dumps(document).encode(), data.draw(st.sampled_from([200, 200, 200, 400, 404, 429, 500])))
    provider = EnerginetPrices(zone="DK-DK1", options={}, base_url=None, session=session, now=lambda: NOW)
    check_prices(provider.prices, NOW - 24 * HOUR, NOW + 24 * HOUR, document, per=1000.0)
    session.close()
