"""Electricity Maps' list of zones: what a token's plan opens, and what a 401 meant."""

from __future__ import annotations

import pytest
from electricity_maps_fakes import BARE, HOUR, OPEN, PLAN, vendor, zones
from grid_server import NOW, as_json, html
from http_suite import TOKEN

from providers.base import AuthError, BadRequest, PlanError, RateLimited, SchemaError, Transient
from providers.electricity_maps import ElectricityMaps
from providers.redact import Secret

DAY_S = 86400.0


@pytest.fixture
def make(server, session, clock):
    server.answer_with(vendor(clock.now))

    def make(zone="DE", token=TOKEN, **options):
        secret = Secret(token) if token else None
        given = {"zone": zone, "options": options, "token": secret, "base_url": server.url}
        return ElectricityMaps(**given, session=session, now=clock.now)

    return make


def asked(server):
    return [request.path.removeprefix("/v4/") for request in server.requests]


def ahead(provider):
    return provider.forecast(NOW, NOW + 6 * HOUR)


def test_the_access_is_what_the_list_says_for_the_zone(make, server):
    """Asked with the token, and without the parameters of a zone."""
    assert make().access() == frozenset(OPEN)
    (sent,) = server.requests
    assert (sent.path, sent.query, sent.headers["auth-token"]) == ("/v4/zones", {}, TOKEN)


def test_the_access_is_kept_for_a_day(make, server, clock):
    """Plans seldom change."""
    provider = make()
    provider.access()
    clock.advance(DAY_S - 1)
    provider.access()
    assert len(server.requests) == 1
    clock.advance(1)
    provider.access()
    assert len(server.requests) == 2


def test_nobody_asks_for_the_list_without_need(make, server):
    """What works needs no explanation."""
    provider = make()
    provider.observe(NOW - 72 * HOUR, NOW)
    ahead(provider)
    assert asked(server) == ["carbon-intensity/history", "carbon-intensity/forecast"]


def test_a_token_that_the_vendor_does_not_know_has_no_access_listed(make, server):
    """The list is open to all, and then without access."""
    server.answer_with(zones(None))
    assert make().access() is None


def test_a_zone_that_is_not_listed_is_named_with_its_neighbour(make, server):
    """DK-DK2 exists, DK-2 does not."""
    with pytest.raises(BadRequest, match=r"no zone 'DK-K2' .did you mean 'DK-DK2'"):
        make("DK-K2").access()


@pytest.mark.parametrize("answer", [as_json([]), as_json({"DE": 7})])
def test_a_list_that_is_none_is_refused(make, server, answer):
    """Nothing is concluded from it."""
    server.answer_with(answer)
    with pytest.raises(SchemaError):
        make().access()


def test_without_a_token_the_list_is_not_asked_for(make, server):
    """It would say nothing about a plan."""
    with pytest.raises(AuthError, match="token_env"):
        make(token="").access()
    assert server.requests == []


def test_what_the_plan_is_known_not_to_have_is_not_asked_for(make, server, clock):
    """A plan without forecasts costs no refused request at each poll; it is looked at again after a day."""
    server.answer_with(vendor(clock.now, access=["carbon-intensity/latest", "carbon-intensity/history"]))
    provider = make()
    provider.access()
    with pytest.raises(PlanError, match="carbon-intensity/forecast is not in the plan of this token"):
        ahead(provider)
    assert provider.observe(NOW - 6 * HOUR, NOW).points
    assert asked(server) == ["zones", "carbon-intensity/history"]
    server.answer_with(vendor(clock.now))
    clock.advance(DAY_S)
    assert provider.forecast(clock.now(), clock.now() + 6 * HOUR).points


def test_a_plan_without_history_is_not_asked_for_it(make, server, clock):
    """Known from the list, ``latest`` is asked at once."""
    server.answer_with(vendor(clock.now, access=["carbon-intensity/latest"]))
    provider = make()
    provider.access()
    assert len(provider.observe(NOW - 6 * HOUR, NOW)) == 1
    assert asked(server) == ["zones", "carbon-intensity/latest"]


# 401: plan, token or rate


def test_a_refusal_that_says_why_is_not_looked_up(make, server):
    """The body names zone and endpoint: it is the plan."""
    server.answer_with(as_json(PLAN, 401))
    with pytest.raises(PlanError, match=r"zone DE: 401 .*its plan does not cover this"):
        ahead(make())
    assert asked(server) == ["carbon-intensity/forecast"]


def test_a_bare_refusal_of_what_is_not_listed_is_the_plan(make, server, clock):
    """The token is listed with a plan, without forecasts."""
    server.answer_with(vendor(clock.now, access=OPEN[:2], refused=BARE, closed="forecast"))
    with pytest.raises(PlanError, match="zone DE: the token is good, but carbon-intensity/forecast is not in its plan"):
        ahead(make())


@pytest.mark.parametrize("listed", [zones(None), BARE, html(503), as_json({"FR": {}}), as_json([])])
def test_a_bare_refusal_of_a_token_without_a_plan_is_the_token(make, server, clock, listed):
    """No access in the list, or no list: what is left is the token itself."""
    healthy = vendor(clock.now, refused=BARE, closed="carbon-intensity")
    server.answer_with(lambda request: listed if request.path.endswith("zones") else healthy(request))
    with pytest.raises(AuthError, match="zone DE: 401 Invalid auth-token: check the token"):
        ahead(make())


def test_a_bare_refusal_of_what_is_listed_is_the_rate_and_then_the_plan(make, server, clock):
    """Over its limit the API has answered 401; but the list has promised more than was kept, so only once."""
    server.answer_with(vendor(clock.now, refused=BARE, closed="forecast"))
    provider = make()
    with pytest.raises(RateLimited, match="carbon-intensity/forecast was refused to a good token: too many requests"):
        ahead(provider)
    assert provider.observe(NOW - 6 * HOUR, NOW).points  # which says nothing of forecasts
    with pytest.raises(PlanError, match="/zones lists carbon-intensity/forecast, and it is refused all the same"):
        ahead(provider)
    server.answer_with(vendor(clock.now))
    assert ahead(provider).points
    server.answer_with(vendor(clock.now, refused=BARE, closed="forecast"))
    with pytest.raises(RateLimited):
        ahead(provider)


def test_a_refusal_that_says_when_to_come_back_is_the_rate(make, server):
    """Only limits have a Retry-After, whatever the status."""
    server.answer_with(as_json({"error": "Invalid auth-token"}, 401, Retry_After="120"))
    with pytest.raises(RateLimited) as caught:
        ahead(make())
    assert caught.value.retry_after_s == 120.0
    assert set(asked(server)) == {"carbon-intensity/forecast"}


def test_a_token_that_is_withdrawn_is_found_out(make, server, clock):
    """The list of an hour ago is not believed against a refusal: without access in it, the token is bad."""
    provider = make()
    provider.access()
    assert ahead(provider).points
    clock.advance(3600)
    gone = vendor(clock.now, access=None, refused=BARE, closed="carbon-intensity")
    server.answer_with(gone)
    for error in (RateLimited, AuthError, AuthError):
        with pytest.raises(error):
            provider.forecast(clock.now(), clock.now() + HOUR)


def test_a_key_that_is_not_active_yet_is_no_bad_token(make, server):
    """503 was the answer to a brand-new token that worked hours later (B10)."""
    server.answer_with(as_json({"message": "key not active yet"}, 503))
    with pytest.raises(Transient):
        ahead(make())
    assert "zones" not in asked(server)


def test_another_zone_than_that_of_the_plan_is_told_with_its_name(make, server):
    """A token of one zone asked for another (B09): the plan is to blame, and the zone is named."""
    server.answer_with(as_json({"error": "Request unauthorized for zoneKey=FR,requestType=latest"}, 401))
    with pytest.raises(PlanError, match="zone FR: 401 Request unauthorized"):
        make("FR").observe(NOW, NOW)
