"""[[prices]] of a region file, and the flat kind of [typical]."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.build import prices_of
from chase.clock import SystemClock
from chase.config import load, load_region
from chase.config.loading import origin_rows
from chase.config.regions import TypicalProfile
from chase.errors import ConfigError
from providers import registry
from providers.session import Session

PRICES = """
[[prices]]
provider = "file"
zone = "home"
options = { path = "/var/lib/prices.csv" }
"""
FLAT = """
[typical]
source = "An agency, yearly average"
year = 2023
licence = "CC BY 4.0"
scope = "lifecycle"
flat_g_per_kwh = 331
"""


def _error(path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_region(path)
    return str(caught.value)


def test_prices_are_sources_of_their_own(write, region_text):
    """They stand beside the sources of intensity, in their order; a region without any has none."""
    more = PRICES.replace("/var/lib/prices.csv", "/var/lib/other.csv")
    found = load_region(write(region_text + PRICES + more, "home.toml"))

    assert [source.options["path"] for source in found.prices] == ["/var/lib/prices.csv", "/var/lib/other.csv"]
    assert len(found.sources) == 1
    assert load_region(write(region_text, "home.toml")).prices == ()


def test_prices_show_who_set_them(write, region_text, env):
    """Like every fact of a region: key, value and line."""
    path = write(region_text + PRICES, "home.toml")

    rows = {row.key: row for row in origin_rows(load(region=path, env=env))}

    assert rows["prices.0.provider"].value == "file"
    assert rows["prices.0.provider"].origin.startswith(f"{path}:")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('"file"', '"octopuss"'), "prices.0.provider = \"octopuss\" is unknown; did you mean 'octopus'?"),
        (('"file"', '"neso"'), 'prices.0.provider = "neso" is unknown; '),
        (
            ('"file"', '"octopus"'),
            'prices.0 (octopus) gives GBP unless told, and region.currency is "EUR"; ',
        ),
        (("path =", 'currency = "DKK", path ='), 'prices.0.options.currency = "DKK" and region.currency is "EUR"'),
        (("path =", "token ="), "must not hold token"),
        (('zone = "home"\noptions', "options"), "prices.0.zone is missing"),
        (("[[prices]]", "[prices]"), "prices = { ... }: must be a list"),
    ],
)
def test_a_mistake_in_a_price_source_is_named(write, region_text, change, said):
    """An unknown provider (one of intensity is none of prices), another currency, a secret, another shape."""
    path = write(region_text + PRICES.replace(*change, 1), "home.toml")

    assert any(text.startswith(f"{path}:") and said in text for text in _error(path).splitlines())


def test_the_same_price_source_twice_is_refused(write, region_text):
    """As with the sources of intensity."""
    assert "prices.1 (file home) is prices.0 again; remove one" in _error(
        write(region_text + PRICES + PRICES, "home.toml")
    )


def test_prices_under_region_are_told_where_to_go(write, region_text):
    """A table of its own, not a key."""
    text = region_text.replace('currency = "EUR"', 'currency = "EUR"\nprices = []')

    assert "prices stands under [region]; it has a table of its own" in _error(write(text, "home.toml"))


@pytest.mark.parametrize("provider", registry.price_names())
def test_a_currency_that_a_provider_is_believed_to_give_is_taken(write, region_text, provider):
    """Each built-in one is accepted in some region, whatever else it needs."""
    for currency in ("EUR", "GBP", "DKK"):
        text = region_text.replace('"EUR"', f'"{currency}"') + PRICES.replace('"file"', f'"{provider}"')
        try:
            assert load_region(write(text, "home.toml")).prices[0].provider == provider
        except ConfigError:
            continue
        return
    pytest.fail(f"{provider} is refused in every currency")


def test_providers_of_prices_are_made_in_order(write, region_text):
    """As the file has them; options that make no sense are an error that names the region and the source."""
    table = '\n[[prices]]\nprovider = "energy_charts"\nzone = "{}"\n'
    right = load_region(write(region_text + table.format("AT") + table.format("DE-LU"), "home.toml"))
    wrong = load_region(write(f'{region_text}{table.format("AT")}options = {{ bidding = "AT" }}\n', "home.toml"))
    session = Session()

    assert [source.zone for source in prices_of(right, session=session, clock=SystemClock())] == ["AT", "DE-LU"]
    with pytest.raises(ConfigError, match=r"region home, price source energy_charts \(AT\).*bidding_zone"):
        prices_of(wrong, session=session, clock=SystemClock())
    session.close()


# A flat profile


def test_a_flat_profile_is_the_same_at_every_hour(write, region_text):
    """One figure for the year, and it says that it is one."""
    typical = load_region(write(region_text + FLAT, "home.toml")).typical

    assert typical.flat
    assert {typical.at(month, hour) for month in range(1, 13) for hour in range(24)} == {331.0}
    assert [len(row) for row in typical.table] == [24] * 12


@given(value=st.floats(min_value=0, max_value=5000))
def test_a_flat_profile_holds_any_intensity_that_there_is(value):
    """Also 0, which a grid of water and wind may have."""
    given = {"source": "s", "year": 2023, "licence": "l", "scope": "direct", "flat_g_per_kwh": value}

    assert {cell for row in TypicalProfile(**given).table for cell in row} == {value}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("flat_g_per_kwh = 331", ""), "must have either g_per_kwh (12 rows of 24 means) or flat_g_per_kwh"),
        (
            ("flat_g_per_kwh = 331", f"flat_g_per_kwh = 331\ng_per_kwh = {json.dumps([[1] * 24] * 12)}"),
            "must have either g_per_kwh (12 rows of 24 means) or flat_g_per_kwh",
        ),
        (("331", "-1"), "typical.flat_g_per_kwh = -1: must be greater than or equal to 0"),
        (("331", "5001"), "typical.flat_g_per_kwh = 5001: must be less than or equal to 5000"),
        (("331", "nan"), "typical.flat_g_per_kwh = nan: must be a finite number"),
        (("331", '"331"'), 'typical.flat_g_per_kwh = "331": must be a number'),
    ],
)
def test_a_profile_is_a_table_or_one_figure(write, region_text, change, said):
    """Neither and both are refused at [typical], a figure that can be none at its key."""
    path = write(region_text + FLAT.replace(*change), "home.toml")

    assert _error(path).startswith(f"{path}:")
    assert said in _error(path)
