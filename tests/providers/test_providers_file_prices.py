"""Prices out of files: whose column, of how much, in which currency, and what is no price."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from grid_server import NOW
from hypothesis import given
from hypothesis import strategies as st
from mutating import mutated_text, outcome

from providers import registry
from providers.base import BadRequest, Market, NoData, SchemaError, Transient
from providers.file_prices import FilePrices
from providers.price_reading import MOST_PER_KWH
from providers.testing import PriceProviderSuite

HOUR = timedelta(hours=1)
MIDNIGHT = NOW.replace(hour=0, minute=0)
CSV = "start,end,price_eur_per_mwh\n" + "".join(
    f"2026-03-04T{hour:02}:00Z,2026-03-04T{hour + 1:02}:00Z,{80 - 10 * hour}\n" for hour in range(23)
)


class TestFilePricesSuite(PriceProviderSuite):
    """A day of hourly prices, negative ones among them."""

    @pytest.fixture
    def provider(self, tmp_path):
        path = tmp_path / "prices.csv"
        path.write_text(CSV)
        return FilePrices(zone="GB", options={"path": str(path)}, now=lambda: self.NOW)


@pytest.fixture
def make(tmp_path, clock):
    def make(content="", name="prices.csv", zone="GB", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return FilePrices(zone=zone, options={"path": str(path), **options}, now=clock.now)

    return make


def day(provider):
    return provider.prices(MIDNIGHT, MIDNIGHT + 24 * HOUR).points


def told(provider):
    return [(point.start.hour, point.price_per_kwh, point.currency) for point in day(provider)]


def test_a_price_says_what_it_is(make):
    """EUR per MWh become EUR per kWh; it is what one pays unless the option says that it is wholesale."""
    point = day(make(CSV))[0]
    assert (point.start, point.end, point.price_per_kwh, point.currency) == (MIDNIGHT, MIDNIGHT + HOUR, 0.08, "EUR")
    assert (point.zone, point.source, point.market, point.fetched_at) == ("GB", "file", Market.RETAIL, NOW)
    for market in Market:
        assert {price.market for price in day(make(CSV, market=market.value))} == {market}


def test_what_is_written_of_the_future_is_a_price(make):
    """All 23 hours are prices, at 09:20."""
    assert len(day(make(CSV))) == 23


@pytest.mark.parametrize(
    ("header", "cell", "options", "read"),
    [
        ("price_per_kwh", "0.25", {"currency": "GBP"}, (0.25, "GBP")),
        ("price_per_mwh", "250", {"currency": "GBP"}, (0.25, "GBP")),
        ("price_eur_per_kwh", "0.25", {}, (0.25, "EUR")),
        ("price_eur_per_mwh", "250", {}, (0.25, "EUR")),
        ("EUR_per_MWh", "250", {}, (0.25, "EUR")),
        ("eur_price_per_mwh", "250", {}, (0.25, "EUR")),
        ("per_kwh", "0.25", {"currency": "USD"}, (0.25, "USD")),
        ("Price (EUR/MWh)", "250", {}, (0.25, "EUR")),
        ("price eur/mwh", "250", {}, (0.25, "EUR")),
        ("price_dkk_per_mwh", "-250", {"currency": "DKK"}, (-0.25, "DKK")),
        ("price", "250", {"unit": "MWh", "currency": "AUD"}, (0.25, "AUD")),
        ("value", "0.25", {"unit": "kWh", "currency": "AUD"}, (0.25, "AUD")),
        ("spot", "250", {"column": "Spot", "unit": "MWh", "currency": "SEK"}, (0.25, "SEK")),
    ],
)
def test_the_column_says_of_how_much_and_in_which_currency(make, header, cell, options, read):
    """By its name, or the options do."""
    provider = make(f"start,{header}\n2026-03-04T08:00Z,{cell}\n", **options)
    assert told(provider) == [(8, *read)]


@pytest.mark.parametrize(
    ("header", "options", "text"),
    [
        ("price", {"currency": "EUR"}, "'price' does not say of what the price is; set unit to kWh or MWh"),
        ("price_eur_per_mwh", {"unit": "kWh"}, "says MWh, and option unit says kWh"),
        ("price_eur_per_mwh", {"currency": "GBP"}, "says EUR, and option currency says GBP"),
        ("price_per_kwh", {}, "nothing says in which currency this is; set currency, like EUR"),
        ("price_eur_per_mwh,price_dkk_per_mwh", {}, "are both prices; choose with option column"),
        ("price_eur_per_mwh", {"column": "price_eur_per_mhw"}, "did you mean 'price_eur_per_mwh'"),
    ],
)
def test_what_is_not_said_or_said_twice_is_not_guessed(make, header, options, text):
    """A price that is a thousand times too dear is worse than none."""
    cells = ",".join("1" for _ in header.split(","))
    with pytest.raises(BadRequest, match=text):
        day(make(f"start,{header}\n2026-03-04T08:00Z,{cells}\n", **options))


def test_one_of_two_prices_is_chosen_by_its_column(make):
    """As in a table that has euro and kroner."""
    text = "start,price_eur_per_mwh,price_dkk_per_mwh\n2026-03-04T08:00Z,10,75\n"
    assert told(make(text, column="price_dkk_per_mwh")) == [(8, 0.075, "DKK")]


def test_a_column_of_intensities_is_no_price(make):
    """g_per_kwh looks alike."""
    with pytest.raises(SchemaError, match=r"no column for the price \(price_per_kwh, price_eur_per_mwh, price\)"):
        day(make("start,g_per_kwh\n2026-03-04T08:00Z,100\n", currency="EUR"))


def test_rows_may_name_their_currency(make):
    """All of one, and the option holds."""
    text = "start,price_per_kwh,currency\n2026-03-04T08:00Z,0.1,eur\n2026-03-04T09:00Z,0.2,{}\n"
    assert told(make(text.format("EUR"))) == [(8, 0.1, "EUR"), (9, 0.2, "EUR")]
    assert told(make(text.format(""), currency="EUR")) == [(8, 0.1, "EUR"), (9, 0.2, "EUR")]
    with pytest.raises(SchemaError, match="prices in EUR and GBP; keep one currency to a file"):
        day(make(text.format("GBP")))
    with pytest.raises(SchemaError, match=r"line 2: currency is 'EUR', not GBP"):
        day(make(text.format("GBP"), currency="GBP"))
    with pytest.raises(SchemaError, match=r"line 3: currency is '12', not a currency like EUR"):
        day(make(text.format("12")))


def test_a_file_of_several_zones_gives_ours(make):
    """Another zone's price is never taken for ours, whatever its currency."""
    text = "start,zone,price_per_kwh,currency\n2026-03-04T08:00Z,GB,0.2,GBP\n2026-03-04T08:00Z,FR,0.1,EUR\n"
    assert told(make(text)) == [(8, 0.2, "GBP")]
    assert told(make(text, zone="FR")) == [(8, 0.1, "EUR")]
    with pytest.raises(SchemaError, match="has the zones FR, GB, not DE"):
        day(make(text, zone="DE"))


def test_negative_zero_and_blank_are_three_things(make):
    """-0.05 and 0 are prices, an empty cell is a gap."""
    text = "start,price_eur_per_kwh\n2026-03-04T07:00Z,-0.05\n2026-03-04T08:00Z,0\n2026-03-04T09:00Z,\n"
    assert told(make(text)) == [(7, -0.05, "EUR"), (8, 0.0, "EUR")]


@pytest.mark.parametrize("cell", ["cheap", "1e9", "-101", "0x10"])
def test_what_cannot_be_a_price_refuses_the_file(make, cell):
    """With line and column; the values read before stay."""
    with pytest.raises(SchemaError, match=r"prices.csv line 2: price_eur_per_kwh is"):
        day(make(f"start,price_eur_per_kwh\n2026-03-04T08:00Z,{cell}\n"))


def test_steps_may_change_within_a_file(make):
    """Without ends each price lasts the usual step or until the next begins."""
    text = "start,price_eur_per_kwh\n" + "".join(
        f"2026-03-04T{at}Z,0.1\n" for at in ("06:00", "07:00", "08:00", "08:15", "08:30")
    )
    minutes = [(point.end - point.start) / timedelta(minutes=1) for point in day(make(text, step_s=3600))]
    assert minutes == [60, 60, 15, 15, 60]


def test_of_two_prices_for_one_time_the_last_counts(make):
    """A correction is appended."""
    text = "start,price_eur_per_kwh\n2026-03-04T08:00Z,0.1\n2026-03-04T08:00Z,0.3\n"
    assert told(make(text)) == [(8, 0.3, "EUR")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", json.dumps({"data": [{"from": "2026-03-04T08:00Z", "price_per_kwh": 0.2, "currency": "EUR"}]})),
        ("a.jsonl", '{"start": "2026-03-04T08:00Z", "price_eur_per_mwh": 200}\n'),
        ("a.ndjson", '{"start": "2026-03-04T08:00Z", "price_eur_per_mwh": "200"}'),
        ("a.txt", "start,price_eur_per_mwh\n2026-03-04T08:00Z,200\n"),
    ],
)
def test_each_format_is_read(make, name, content):
    """As for intensities."""
    options = {"format": "csv"} if name == "a.txt" else {}
    assert told(make(content, name=name, **options)) == [(8, 0.2, "EUR")]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"path": ""}, "option path is missing"),
        ({"format": "xml"}, "format is 'xml'"),
        ({"unit": "Wh"}, "unit is 'Wh', but must be one of kWh, MWh"),
        ({"currency": "euro"}, "option currency is 'euro', not a currency like EUR"),
        ({"market": "spot"}, "market is 'spot'"),
        ({"kind": "measured"}, "no option 'kind'"),
        ({"scope": "direct"}, "no option 'scope'"),
    ],
)
def test_options_are_held_to_what_there_is(make, options, text):
    """Before the file is looked at."""
    with pytest.raises(BadRequest, match=text):
        make(CSV, **options)


def test_a_file_that_changes_is_read_again_and_one_that_is_gone_is_told(make, tmp_path, clock):
    """By append and by replacement; missing is a passing failure, a folder a lasting one."""
    provider = make(CSV)
    assert len(day(provider)) == 23
    path = tmp_path / "prices.csv"
    with path.open("a") as file:
        file.write("2026-03-04T23:00Z,2026-03-05T00:00Z,7\n")
    assert len(day(provider)) == 24
    new = tmp_path / "new"
    new.write_text("start,price_eur_per_mwh\n2026-03-04T08:00Z,1\n")
    new.replace(path)
    assert told(provider) == [(8, 0.001, "EUR")]
    path.write_text("start,price_eur_per_mwh\n")
    with pytest.raises(NoData, match="no complete row yet"):
        day(provider)
    path.unlink()
    with pytest.raises(Transient, match="does not exist"):
        day(provider)
    path.mkdir()
    with pytest.raises(BadRequest, match="not a regular file"):
        day(provider)


def test_the_registry_makes_it(tmp_path, session):
    """``file`` is a source of prices as well as of intensities."""
    path = tmp_path / "prices.csv"
    path.write_text(CSV)
    given = {"token": None, "base_url": None, "session": session, "now": lambda: NOW}
    assert isinstance(registry.create_prices("file", zone="GB", options={"path": str(path)}, **given), FilePrices)


@given(mutated_text(CSV[:400]), st.sampled_from(["csv", "jsonl"]))
def test_a_table_of_prices_survives_any_edit(tmp_path_factory, content, form):
    """Prices within bounds, or an error of one line."""
    path = tmp_path_factory.mktemp("edit") / "prices"
    path.write_bytes(content)
    provider = FilePrices(zone="GB", options={"path": str(path), "format": form}, now=lambda: NOW)
    for point in outcome(provider.prices, MIDNIGHT, MIDNIGHT + 24 * HOUR):
        assert abs(point.price_per_kwh) <= MOST_PER_KWH
        assert point.start < point.end
