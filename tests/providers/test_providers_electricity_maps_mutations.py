"""Electricity Maps' other replies with anything in them: values within bounds, gaps, or errors of one line."""

from __future__ import annotations

import json
from datetime import timedelta

import electricity_maps_fakes as fakes
import pytest
from electricity_maps_fakes import HOUR
from grid_server import NOW, Request
from hypothesis import given
from hypothesis import strategies as st
from mutating import Replayed, check, mutated, outcome

from providers.base import ProviderError, Scope
from providers.electricity_maps import ElectricityMaps
from providers.electricity_maps_prices import ElectricityMapsPrices
from providers.emission_factors import STORAGE, Fuel, factors_for
from providers.price_reading import MOST_PER_KWH
from providers.redact import Secret

DAY = timedelta(days=1)
FACTORS = [factors_for("FR", Scope.LIFECYCLE, NOW).g_per_kwh(fuel) for fuel in Fuel if fuel not in STORAGE]
STATUSES = st.sampled_from([200, 200, 200, 400, 401, 403, 404, 429, 500])


def recorded(path, **query):
    answer = fakes.vendor(lambda: NOW)(Request(f"/v4/{path}", {"zone": "FR", **query}, {}))
    return json.loads(answer.body)


HISTORY = recorded("carbon-intensity/history")
PAST = recorded("carbon-intensity/past-range", start="2026-03-02T00:00:00Z", end="2026-03-04T09:20:00Z")
MIX = recorded("electricity-mix/history", breakdownType="flow-traced")
PRICES = recorded("price-day-ahead/combined")
PRICES["data"] = [{**row, "zone": "FR"} for row in PRICES["data"]]
ZONES = recorded("zones")


def made(maker, document, status, **options):
    session = Replayed(json.dumps(document).encode(), status)
    return session, maker(
        zone="FR", options=options, token=Secret("t"), base_url=None, session=session, now=lambda: NOW
    )


def written(document):
    if isinstance(document, dict):
        return set().union(*map(written, document.values()))
    if isinstance(document, list):
        return set().union(*map(written, document))
    return {document} if isinstance(document, int | float) else set()


@given(mutated(PAST), STATUSES)
def test_a_past_range_survives_any_reply(document, status):
    """The one reply is given to ``history`` and to the ranges alike."""
    session, provider = made(ElectricityMaps, document, status)
    check(provider.observe, NOW - 6 * DAY, NOW + timedelta(seconds=1), document)
    session.close()


@given(mutated(MIX), STATUSES)
def test_a_mix_survives_any_reply(document, status):
    """Between the cleanest and the dirtiest fuel."""
    session, provider = made(ElectricityMaps, document, status, method="mix")
    for point in outcome(provider.observe, NOW - DAY, NOW):
        assert min(FACTORS) <= point.g_per_kwh <= max(FACTORS)
        assert timedelta(0) < point.end - point.start <= HOUR
        assert point.start <= NOW
    session.close()


@given(mutated(PRICES), STATUSES)
def test_prices_survive_any_reply(document, status):
    """Each is a number that was written, per MWh or per kWh."""
    session, provider = made(ElectricityMapsPrices, document, status)
    numbers = written(document)
    for price in outcome(provider.prices, NOW - DAY, NOW + DAY):
        assert abs(price.price_per_kwh) <= MOST_PER_KWH
        assert price.price_per_kwh in {number / per for number in numbers if abs(number) < 1e300 for per in (1, 1000)}
        assert timedelta(0) < price.end - price.start <= HOUR
    session.close()


@given(mutated(ZONES), STATUSES)
def test_the_list_of_zones_survives_any_reply(document, status):
    """It is a set of texts, nothing, or an error of one line."""
    session, provider = made(ElectricityMaps, document, status)
    access = outcome(lambda *_: provider.access() or frozenset(), NOW, NOW)
    assert all(isinstance(what, str) for what in access)
    session.close()


def test_the_documents_here_are_what_they_seem():
    """Unmutated each gives something, so that the mutations start from something."""
    for maker, document, ask, options in (
        (ElectricityMaps, PAST, "observe", {}),
        (ElectricityMaps, HISTORY, "observe", {}),
        (ElectricityMaps, MIX, "observe", {"method": "mix"}),
        (ElectricityMapsPrices, PRICES, "prices", {}),
    ):
        session, provider = made(maker, document, 200, **options)
        assert len(getattr(provider, ask)(NOW - DAY, NOW + DAY)) >= 24
        session.close()
    session, provider = made(ElectricityMaps, ZONES, 200)
    assert provider.access()
    session.close()
    with pytest.raises(ProviderError):
        made(ElectricityMaps, ZONES, 200)[1].observe(NOW - DAY, NOW)
