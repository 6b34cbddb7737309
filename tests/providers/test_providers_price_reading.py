"""Prices as they are written, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.base import SchemaError
from providers.price_reading import MOST_PER_KWH, currency, price, unit


@given(st.one_of(st.integers(), st.floats(), st.just(10**400)), st.sampled_from([1.0, 100.0, 1000.0]))
def test_a_number_is_divided_or_refused(value, per):
    """Never anything else, and never more than anybody pays."""
    try:
        found = price(value, "price", per=per)
    except SchemaError:
        assert not abs(value) <= MOST_PER_KWH * per
    else:
        assert found == value / per
        assert abs(found) <= MOST_PER_KWH


def test_a_null_is_none():
    """Missing is missing."""
    assert price(None, "price") is None


@pytest.mark.parametrize("value", ["5", True, [5], {"EUR": 5}])
def test_what_is_no_number_is_refused(value):
    """By its name."""
    with pytest.raises(SchemaError, match=r"price is .*, not a number"):
        price(value, "price")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("EUR/MWh", ("EUR", 1000.0)),
        (" eur / mwh ", ("EUR", 1000.0)),
        ("GBP per kWh", ("GBP", 1.0)),
        ("AUD/MWH", ("AUD", 1000.0)),
    ],
)
def test_a_unit_has_a_currency_and_a_quantity(text, meant):
    """In the spellings that sources use."""
    assert unit(text, "unit") == meant


@given(st.one_of(st.text(max_size=12), st.integers(), st.none()))
def test_any_other_unit_is_refused(text):
    """Nothing is guessed."""
    with pytest.raises(SchemaError, match="unit is "):
        unit(text, "unit")


@pytest.mark.parametrize("text", ["eur", "EURO", "", "€", None, 978])
def test_a_currency_is_three_capital_letters(text):
    """As ISO 4217 has it."""
    assert currency("EUR", "currency") == "EUR"
    with pytest.raises(SchemaError, match="currency is "):
        currency(text, "currency")
