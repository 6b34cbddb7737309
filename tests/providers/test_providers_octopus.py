"""Agile prices of Octopus Energy: products and pages, two ways to pay, rates without an end, below zero."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import ClassVar

import octopus_fake
import pytest
from grid_server import NOW, as_json
from http_price_suite import HttpPriceSuite
from hypothesis import given
from hypothesis import strategies as st
from mutating import Replayed, mutated
from octopus_fake import AGILE, HALF_HOUR, HOUR, rate
from price_mutations import check_prices

from providers.base import BadRequest, Market, NoData, SchemaError, Transient
from providers.octopus import Octopus

EIGHT = NOW.replace(hour=8, minute=0)
RATES = "/v1/products/AGILE-24-10-01/electricity-tariffs/E-1R-AGILE-24-10-01-C/standard-unit-rates/"
OPEN = {"valid_to": None}


class _OctopusSuite(HttpPriceSuite):
    options: ClassVar[dict] = {}

    def make(self, session, base_url):
        options = {"gsp": "C", **self.options}
        return Octopus(zone="GB", options=options, base_url=base_url, session=session, now=lambda: self.NOW)

    @pytest.fixture
    def server(self, server):
        server.answer_with(octopus_fake.octopus(lambda: self.NOW))
        return server

    @pytest.fixture
    def provider(self, session, server):
        return self.make(session, server.url)


class TestOctopusProductSuite(_OctopusSuite):
    """A product by its code."""

    options: ClassVar[dict] = {"product": AGILE}


class TestOctopusDiscoverySuite(_OctopusSuite):
    """Whatever Agile is open: one more request, once a day."""

    REQUESTS = 2


@pytest.fixture
def make(server, session, clock):
    server.answer_with(octopus_fake.octopus(clock.now))

    def make(zone="GB", **options):
        given_ = {"gsp": "C", "product": AGILE, **options}
        return Octopus(zone=zone, options=given_, base_url=server.url, session=session, now=clock.now)

    return make


def _prices(make, server, *rates, hours=1, **options):
    server.answer_with(as_json({"count": len(rates), "next": None, "previous": None, "results": list(rates)}))
    return make(**options).prices(EIGHT, EIGHT + hours * HOUR).points


def _pounds(points):
    return [round(point.price_per_kwh, 9) for point in points]


def test_pence_become_pounds(make, server, clock):
    """Half hours in order although the newest comes first, a retail price with its tax."""
    points = make().prices(EIGHT, EIGHT + 5 * HOUR).points
    assert [point.start for point in points] == [EIGHT + index * HALF_HOUR for index in range(10)]
    assert _pounds(points) == [0.0525, 0.0525, 0.0315, 0.0315, 0.0105, 0.0105, -0.0105, -0.0105, -0.0315, -0.0315]
    labels = {(point.currency, point.market, point.zone, point.source, point.fetched_at) for point in points}
    assert labels == {("GBP", Market.RETAIL, "GB", "octopus", clock.now())}
    assert server.requests[0].path == RATES
    assert server.requests[0].query == {
        "period_from": "2026-03-04T08:00Z",
        "period_to": "2026-03-04T13:30Z",
        "page_size": "1500",
    }


@pytest.mark.parametrize(("vat", "pounds"), [(True, 0.105), (False, 0.1)])
def test_tax_is_in_or_out(make, server, vat, pounds):
    """As the option says."""
    assert _pounds(_prices(make, server, rate(EIGHT, 10.0), vat=vat)) == [pounds]


@pytest.mark.parametrize(("payment", "pounds"), [("DIRECT_DEBIT", 0.21), ("NON_DIRECT_DEBIT", 0.252)])
def test_each_way_to_pay_has_its_rate(make, server, payment, pounds):
    """Both stand there for the same half hour, in any order; one is ours."""
    direct = rate(EIGHT, 20.0, payment_method="DIRECT_DEBIT")
    other = rate(EIGHT, 24.0, payment_method="NON_DIRECT_DEBIT")
    assert _pounds(_prices(make, server, direct, other, payment=payment)) == [pounds]
    assert _pounds(_prices(make, server, other, direct, payment=payment)) == [pounds]


def test_a_rate_for_others_alone_is_no_data(make, server):
    """It is not taken for ours."""
    with pytest.raises(NoData, match="no rate of DIRECT_DEBIT"):
        _prices(make, server, rate(EIGHT, 24.0, payment_method="NON_DIRECT_DEBIT"))


def test_a_rate_without_an_end_is_valid_until_further_notice(make, server):
    """It comes in half hours as well, so that the same question has the same answer tomorrow."""
    since = rate(datetime(2022, 11, 1, tzinfo=UTC), 25.0, **OPEN)
    points = _prices(make, server, since, hours=3)
    assert [(point.start, point.end) for point in points] == [
        (EIGHT + index * HALF_HOUR, EIGHT + (index + 1) * HALF_HOUR) for index in range(6)
    ]
    assert set(_pounds(points)) == {0.2625}


def test_a_rate_ends_where_a_later_one_begins(make, server):
    """One without an end does not lie over what replaced it, wherever that begins."""
    old = rate(datetime(2022, 11, 1, tzinfo=UTC), 10.0, **OPEN)
    new = rate(EIGHT + timedelta(minutes=40), 20.0, **OPEN)
    for rates in ((old, new), (new, old)):
        points = _prices(make, server, *rates, hours=1)
        assert [(point.end - point.start) / timedelta(minutes=1) for point in points] == [30, 10, 20]
        assert _pounds(points) == [0.105, 0.105, 0.21]


def test_what_is_not_published_is_a_gap(make, server):
    """Nor is the last rate held until the next."""
    points = _prices(make, server, rate(EIGHT, 10.0), rate(EIGHT + HOUR, 20.0), hours=2)
    assert [point.start for point in points] == [EIGHT, EIGHT + HOUR]


def test_pages_are_followed_to_the_last(make, server):
    """Each half hour once, in as many requests as it takes."""
    server.answer_with(octopus_fake.octopus(lambda: NOW, most=40))
    points = make().prices(NOW - 48 * HOUR, NOW).points
    assert [request.query.get("page") for request in server.requests] == [None, "2", "3"]
    assert {request.query["period_from"] for request in server.requests} == {"2026-03-02T09:00Z"}
    assert len(points) == 97
    assert all(before.end == after.start for before, after in pairwise(points))


def test_next_is_never_followed_elsewhere(make, server, elsewhere):
    """Only its page is taken from it, and asked of the address that we know."""
    results = [rate(EIGHT, 10.0)], [rate(EIGHT + HALF_HOUR, 20.0)]
    first = {"next": f"{elsewhere.url}/steal?page=2", "results": results[0]}
    server.answer_with(as_json(first), as_json({"next": None, "results": results[1]}))
    assert _pounds(make().prices(EIGHT, EIGHT + HOUR)) == [0.105, 0.21]
    assert elsewhere.requests == []
    assert [request.path for request in server.requests] == [RATES] * 2


@pytest.mark.parametrize(
    "following",
    ["?page=1", "?page=3", "", "https://api.octopus.energy/", 2, ["?page=2"], "http://[::1?page=2", "?page="],
)
def test_a_next_that_leads_nowhere_is_refused(make, server, following):
    """Neither a ring nor a page left out."""
    server.answer_with(as_json({"next": following, "results": [rate(EIGHT, 10.0)]}))
    with pytest.raises(SchemaError, match=r"next is .*, which is not page 2"):
        make().prices(EIGHT, EIGHT + HOUR)


def test_pages_without_end_end(make, server):
    """Nobody is asked for ever."""

    def more(request):
        page = int(request.query.get("page", "1"))
        return as_json({"next": f"/?page={page + 1}", "results": [rate(EIGHT, 10.0)]})

    server.answer_with(more)
    with pytest.raises(SchemaError, match="more than 20 pages"):
        make().prices(EIGHT, EIGHT + HOUR)
    assert len(server.requests) == 20


def test_a_list_that_shrank_between_two_pages_is_asked_again(make, server):
    """The second page is gone for this once."""
    first = as_json({"next": "/?page=2", "results": [rate(EIGHT, 10.0)]})
    server.answer_with(first, as_json({"detail": "Invalid page."}, 404))
    with pytest.raises(Transient, match="Invalid page"):
        make().prices(EIGHT, EIGHT + HOUR)


def test_the_open_agile_is_found(make, server, clock):
    """Not the one that was, will be, or pays for what is fed in; looked for once a day."""
    provider = make(product="")
    provider.prices(NOW, NOW + HOUR)
    provider.prices(NOW, NOW + HOUR)
    assert [request.path for request in server.requests] == ["/v1/products/", RATES, RATES]
    clock.advance(25 * 3600.0)
    provider.prices(NOW, NOW + HOUR)
    assert [request.path for request in server.requests[3:]] == ["/v1/products/", RATES]


def test_the_open_agile_may_be_on_a_later_page(make, server):
    """Products come in pages, too."""
    server.answer_with(octopus_fake.octopus(lambda: NOW, most=2))
    make(product="").prices(EIGHT, EIGHT + HALF_HOUR)
    assert [request.path for request in server.requests[:3]] == ["/v1/products/"] * 3
    assert server.requests[3].path == RATES


def test_a_product_that_went_is_looked_for_anew(make, server):
    """A product found yesterday may be gone today; one that was configured is not replaced."""
    healthy = server.answer
    gone = as_json({"detail": "No EnergyProduct matches the given query."}, 404)
    provider = make(product="")
    provider.prices(NOW, NOW + HOUR)
    server.answer_with(gone)
    with pytest.raises(BadRequest, match="check the options product and gsp"):
        provider.prices(NOW, NOW + HOUR)
    server.answer_with(healthy)
    provider.prices(NOW, NOW + HOUR)
    assert [request.path for request in server.requests[3:]] == ["/v1/products/", RATES]


@pytest.mark.parametrize(
    "product",
    [
        {"code": "AGILE-../../x", "available_from": "2024-10-01T00:00:00Z", "available_to": None},
        {"code": "AGILE-1", "available_from": None, "available_to": None},
        {"code": "AGILE-1", "available_from": "2024-10-01T00:00:00Z", "available_to": "soon"},
        {"code": "AGILE-1", "direction": "EXPORT", "available_from": "2024-10-01T00:00:00Z", "available_to": None},
        {"code": "SILVER-1", "available_from": "2024-10-01T00:00:00Z", "available_to": None},
        {"code": 7},
        "AGILE-1",
    ],
)
def test_where_no_agile_is_open_the_option_helps(make, server, product):
    """What cannot be read is none."""
    server.answer_with(as_json({"next": None, "results": [product]}))
    with pytest.raises(NoData, match="set the option product"):
        make(product="").prices(NOW, NOW + HOUR)


@pytest.mark.parametrize(("start", "hours"), [((2026, 3, 29, 0), 23), ((2025, 10, 25, 23), 25)])
def test_days_of_the_clock_change_are_whole(server, session, start, hours):
    """The day of London has 23 or 25 hours, none missing, none twice."""
    start = datetime(*start, tzinfo=UTC)
    end = start + hours * HOUR
    server.answer_with(octopus_fake.octopus(lambda: end + HOUR))
    options = {"gsp": "C", "product": AGILE}
    given_ = {"zone": "GB", "options": options, "base_url": server.url, "session": session, "now": lambda: end + HOUR}
    points = Octopus(**given_).prices(start, end).points
    assert len(points) == 2 * hours
    assert (points[0].start, points[-1].end) == (start, end)
    assert all(before.end == after.start for before, after in pairwise(points))


def test_times_may_have_another_offset(make, server):
    """Summer time is read as what it is."""
    row = {**rate(EIGHT, 10.0), "valid_from": "2026-03-04T09:00:00+01:00", "valid_to": "2026-03-04T09:30:00+01:00"}
    assert [(point.start, point.end) for point in _prices(make, server, row)] == [(EIGHT, EIGHT + HALF_HOUR)]


@pytest.mark.parametrize(
    "row",
    [
        {"value_inc_vat": "10"},
        {"value_inc_vat": 10_001},
        {"value_inc_vat": float("nan")},
        {"value_inc_vat": 10**400},
        {"valid_from": None},
        {"valid_from": "2026-03-04T08:00:00"},
        {"valid_to": "2026-03-04T08:00:00Z"},
        {"valid_to": "2026-03-04T07:00:00Z"},
    ],
)
def test_a_rate_that_makes_no_sense_is_a_gap(make, server, row):
    """Alone it is an error."""
    good = rate(EIGHT + HALF_HOUR, 20.0)
    assert _pounds(_prices(make, server, {**rate(EIGHT, 10.0), **row}, good)) == [0.21]
    with pytest.raises(SchemaError, match="octopus: no row can be used"):
        _prices(make, server, {**rate(EIGHT, 10.0), **row})


@pytest.mark.parametrize("column", ["value_inc_vat", "valid_to"])
def test_a_column_that_went_is_an_error(make, server, column):
    """The other price is another price, and an end that is not there is not one that is null."""
    row = rate(EIGHT, 10.0)
    del row[column]
    with pytest.raises(SchemaError, match=f"{column} is missing"):
        _prices(make, server, row)


def test_nothing_is_no_data(make, server):
    """Tomorrow before 16:00, or an empty list."""
    with pytest.raises(NoData, match="octopus has published no rate"):
        _prices(make, server)


def test_far_away_is_not_asked_for(make, server):
    """Nobody publishes more than a week ahead, and of a long past the newest hundred days are enough."""
    assert len(make().prices(NOW + timedelta(days=8), NOW + timedelta(days=9))) == 0
    assert server.requests == []
    assert len(make().prices(NOW - timedelta(days=4000), NOW)) == 100 * 48 + 1


@pytest.mark.parametrize(
    ("zone", "options", "text"),
    [
        ("FR", {}, "zone 'FR' must be GB"),
        ("GB", {"gsp": ""}, "must be the letter of your grid supply point"),
        ("GB", {"gsp": "I"}, "one of ABCDEFGHJKLMNP"),
        ("GB", {"gsp": "AB"}, "gsp is 'AB'"),
        ("GB", {"product": "../x"}, "a code like AGILE-24-10-01"),
        ("GB", {"payment": "CASH"}, "payment is 'CASH'"),
        ("GB", {"vat": "yes"}, "vat is 'yes'"),
    ],
)
def test_wrong_options_are_refused_at_once(make, zone, options, text):
    """With what they may be."""
    with pytest.raises(BadRequest, match=text):
        make(zone, **options)


@pytest.mark.parametrize("letter", ["C", "c", "_C"])
def test_a_region_is_named_as_people_name_it(make, server, letter):
    """The API itself writes it with an underscore."""
    make(gsp=letter).prices(NOW, NOW + HOUR)
    assert server.requests[0].path == RATES


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_sends_nobody_to_look_for_a_key(make, server, status):
    """These questions need none."""
    server.answer_with(as_json({"detail": "Authentication credentials were not provided."}, status))
    with pytest.raises(Transient, match="Authentication credentials"):
        make().prices(NOW, NOW + HOUR)


@given(data=st.data())
def test_it_survives_any_reply(data):
    """Rates that were sent, gaps, or one of our errors; the same reply to each question."""
    rates = [rate(EIGHT + index * HALF_HOUR, 30.0 - 10 * index) for index in reversed(range(6))]
    rates[0]["valid_to"] = None
    rates.append(rate(EIGHT, 31.5, payment_method="NON_DIRECT_DEBIT"))
    document = {"count": 7, "next": None, "previous": None, "results": [*rates, *octopus_fake.PRODUCTS]}
    document = data.draw(mutated(document))
    product = data.draw(st.sampled_from([AGILE, ""]))
    session = Replayed(json.dumps(document).encode(), data.draw(st.sampled_from([200, 200, 200, 400, 404, 429, 500])))
    options = {"gsp": "C", "product": product}
    provider = Octopus(zone="GB", options=options, base_url=None, session=session, now=lambda: NOW)
    check_prices(provider.prices, NOW - 24 * HOUR, NOW + 24 * HOUR, document, per=100.0)
    session.close()
