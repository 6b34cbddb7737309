"""Day-ahead prices by energy-charts.info: their unit, their step, their terms of use."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import energy_charts_fake
import pytest
from energy_charts_fake import HOUR, LICENCE, QUARTER, seconds
from grid_server import NOW, as_json
from http_price_suite import HttpPriceSuite
from hypothesis import given
from hypothesis import strategies as st
from mutating import Replayed, mutated
from price_mutations import check_prices

from providers.base import BadRequest, Market, NoData, SchemaError, Transient
from providers.energy_charts_prices import EnergyChartsPrices

EIGHT = NOW.replace(hour=8, minute=0)


class TestEnergyChartsPricesSuite(HttpPriceSuite):
    """Germany and Luxembourg."""

    def make(self, session, base_url):
        return EnergyChartsPrices(zone="DE-LU", options={}, base_url=base_url, session=session, now=lambda: self.NOW)

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

    def make(zone="DE-LU", **options):
        return EnergyChartsPrices(zone=zone, options=options, base_url=server.url, session=session, now=clock.now)

    return make


def _reply(prices, starts=None, **more):
    starts = starts or [EIGHT + index * QUARTER for index in range(len(prices))]
    return {"license_info": "CC BY 4.0", "unix_seconds": [seconds(at) for at in starts], "price": prices, **more}


def _prices(make, server, document, **options):
    server.answer_with(as_json(document))
    return make(**options).prices(NOW - 3 * HOUR, NOW + 3 * HOUR)


def test_prices_are_per_kwh_with_currency_market_and_terms(make, server, clock):
    """A thousandth of what is written per MWh, of the past and of the future alike."""
    points = make().prices(EIGHT, EIGHT + 12 * HOUR).points
    assert len(points) == 48
    assert points[0].price_per_kwh == pytest.approx(0.0205)
    labels = {(point.currency, point.market, point.zone, point.source, point.licence) for point in points}
    assert labels == {("EUR", Market.DAY_AHEAD, "DE-LU", "energy_charts", LICENCE)}
    assert {point.fetched_at for point in points} == {clock.now()}
    assert server.requests[0].path == "/price"
    assert server.requests[0].query == {"bzn": "DE-LU", "start": "2026-03-04", "end": "2026-03-06"}


def test_terms_of_use_are_those_of_their_own_reply(make, server):
    """They differ by bidding zone and change, so each price keeps those that came with it; none are made up."""
    assert _prices(make, server, _reply([1.0], license_info="internal\nuse   only")).points[0].licence == (
        "internal use only"
    )
    assert _prices(make, server, _reply([1.0], license_info=None)).points[0].licence == ""
    assert len(_prices(make, server, _reply([1.0], license_info="x" * 9999)).points[0].licence) == 400


@pytest.mark.parametrize(
    ("unit", "currency", "per_kwh"),
    [
        ("EUR / MWh", "EUR", 0.05),
        ("EUR/MWh", "EUR", 0.05),
        ("No Unit", "EUR", 0.05),
        (None, "EUR", 0.05),
        ("", "EUR", 0.05),
        ("CHF / MWh", "CHF", 0.05),
        ("EUR/kWh", "EUR", 50.0),
    ],
)
def test_a_unit_is_read_and_none_is_what_is_documented(make, server, unit, currency, per_kwh):
    """It has been "No Unit" for days; another currency or quantity is taken as it is."""
    point = _prices(make, server, _reply([50], unit=unit)).points[0]
    assert (point.currency, point.price_per_kwh) == (currency, pytest.approx(per_kwh))


@pytest.mark.parametrize("unit", ["MW", "ct/kWh", "EUR", 7, ["EUR/MWh"], "EUR / GWh"])
def test_a_unit_that_nobody_knows_is_refused(make, server, unit):
    """A factor is not guessed."""
    with pytest.raises(SchemaError, match=r"unit is .*, not a unit like EUR/MWh"):
        _prices(make, server, _reply([50], unit=unit))


def test_the_step_changes_within_a_reply(make, server):
    """From hours to quarters on the first of October 2025, with the last hour and the first quarter side by side."""
    change = datetime(2025, 9, 30, 22, tzinfo=UTC)
    points = make().prices(change - 3 * HOUR, change + HOUR).points
    assert [(point.end - point.start) / QUARTER for point in points] == [4, 4, 4, 1, 1, 1, 1]
    assert all(before.end == after.start for before, after in pairwise(points))


@pytest.mark.parametrize("value", [-500.0, 0, -0.01, 4000])
def test_negative_prices_zero_and_spikes_are_real(make, server, value):
    """The market's floor, nothing, and its harmonised ceiling."""
    assert _prices(make, server, _reply([value])).points[0].price_per_kwh == pytest.approx(value / 1000)


@pytest.mark.parametrize("value", [100_001, -1e6, "84.5", True, [], {}, float("nan"), float("-inf"), 10**400])
def test_an_impossible_price_is_never_one(make, server, value):
    """It is a gap, and if nothing else is there the error shows it."""
    assert [point.price_per_kwh for point in _prices(make, server, _reply([value, 10]))] == [0.01]
    with pytest.raises(SchemaError, match=r"price at 2026-03-04T08:00:00\+00:00 is "):
        _prices(make, server, _reply([value]))


def test_a_null_is_a_gap(make, server):
    """What is not published has no price, not even that of its neighbour."""
    points = _prices(make, server, _reply([10, None, 12])).points
    assert [(point.start, point.end) for point in points] == [
        (EIGHT, EIGHT + QUARTER),
        (EIGHT + 2 * QUARTER, EIGHT + 3 * QUARTER),
    ]


def test_columns_of_different_lengths_are_refused(make, server):
    """Nobody can tell which time a price belongs to."""
    with pytest.raises(SchemaError, match="price has 3 entries, but unix_seconds 2"):
        _prices(make, server, {**_reply([1, 2]), "price": [1, 2, 3]})


def test_tomorrow_before_its_auction_is_no_data(make, server):
    """A 404 that will be there in the afternoon."""
    server.answer_with(as_json({"detail": "no content found"}, 404))
    with pytest.raises(NoData, match="no content found"):
        make().prices(NOW + 24 * HOUR, NOW + 48 * HOUR)


@pytest.mark.parametrize(("start", "hours"), [((2026, 3, 28, 23), 23), ((2025, 10, 25, 22), 25)])
def test_days_of_the_clock_change_are_whole(server, session, start, hours):
    """The local day of Copenhagen has 23 or 25 hours of prices, none missing, none twice."""
    start = datetime(*start, tzinfo=UTC)
    end = start + timedelta(hours=hours)
    server.answer_with(energy_charts_fake.energy_charts(lambda: start, "Europe/Copenhagen"))
    given_ = {"zone": "DK-DK2", "options": {}, "base_url": server.url, "session": session, "now": lambda: start}
    points = EnergyChartsPrices(**given_).prices(start, end).points
    assert len(points) == 4 * hours
    assert (points[0].start, points[-1].end) == (start, end)
    assert all(before.end == after.start for before, after in pairwise(points))


@pytest.mark.parametrize(
    ("zone", "options", "asked"),
    [
        ("DE", {}, "DE-LU"),
        ("DK-DK1", {}, "DK1"),
        ("NO-NO5", {}, "NO5"),
        ("FR", {}, "FR"),
        ("IT-NO", {"bidding_zone": "IT-North"}, "IT-North"),
    ],
)
def test_a_zone_has_its_bidding_zone(make, server, zone, options, asked):
    """The prices stay under the zone's own name."""
    points = make(zone, **options).prices(NOW, NOW + HOUR)
    assert server.requests[0].query["bzn"] == asked
    assert {point.zone for point in points} == {zone}


@pytest.mark.parametrize(("zone", "options"), [("de", {}), ("home", {}), ("FR", {"bidding_zone": "FR&x=1"})])
def test_what_is_no_bidding_zone_is_refused_at_once(make, zone, options):
    """With one that is."""
    with pytest.raises(BadRequest, match="set the option bidding_zone, like DE-LU"):
        make(zone, **options)


@pytest.mark.parametrize(("status", "error"), [(400, BadRequest), (403, Transient), (404, BadRequest)])
def test_other_refusals_are_told_apart(make, server, status, error):
    """A wrong zone is ours to mend, a gateway's refusal is not, and an unknown address never will be there."""
    server.answer_with(as_json({"detail": "something"}, status))
    with pytest.raises(error, match="something"):
        make().prices(NOW, NOW + HOUR)


@given(data=st.data())
def test_it_survives_any_reply(data):
    """Prices that were sent, gaps, or one of our errors."""
    starts = [NOW.replace(minute=0) + index * HOUR for index in range(-4, 2)]
    starts += [starts[-1] + index * QUARTER for index in range(1, 8)]
    document = data.draw(mutated(_reply([84.5 - index * 20 for index in range(len(starts))], starts, unit="EUR / MWh")))
    session = Replayed(json.dumps(document).encode(), data.draw(st.sampled_from([200, 200, 200, 400, 404, 500])))
    provider = EnergyChartsPrices(zone="DE-LU", options={}, base_url=None, session=session, now=lambda: NOW)
    check_prices(provider.prices, NOW - 24 * HOUR, NOW + 24 * HOUR, document, per=1000.0)
    session.close()
