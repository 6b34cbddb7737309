"""The figures, where they are from, and which of them hold for whom and when."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from providers.base import BadRequest, Scope
from providers.emission_factors import EXCEPTIONS, STORAGE, TABLE, VERSION, Fuel, factors_for

NOW = datetime(2026, 3, 4, 9, tzinfo=UTC)
BEFORE = datetime(2024, 12, 31, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fuel", "lifecycle", "direct"),
    [
        (Fuel.COAL, 820, 760),
        (Fuel.GAS, 490, 370),
        (Fuel.BIOMASS, 230, 0),
        (Fuel.GEOTHERMAL, 38, 0),
        (Fuel.HYDRO, 24, 0),
        (Fuel.NUCLEAR, 12, 0),
        (Fuel.WIND, 11, 0),
        (Fuel.WIND_OFFSHORE, 12, 0),
        (Fuel.MARINE, 17, 0),
    ],
)
def test_medians_are_those_of_the_panel(fuel, lifecycle, direct):
    """AR5 WG3, table A.III.2, and it is named as their source."""
    assert factors_for("GB", Scope.LIFECYCLE, NOW).g_per_kwh(fuel) == lifecycle
    assert factors_for("GB", Scope.DIRECT, NOW).g_per_kwh(fuel) == direct
    assert "A.III.2" in TABLE[fuel].citation


def test_sun_lies_between_roof_and_field():
    """The panel has 41 and 48 and no mean of them."""
    assert 41 < factors_for("GB", Scope.LIFECYCLE, NOW).g_per_kwh(Fuel.SOLAR) < 48


@pytest.mark.parametrize("scope", [Scope.LIFECYCLE, Scope.DIRECT])
def test_every_fuel_but_storage_has_a_factor(scope):
    """Storage gives back what others generated, and asking for its factor is a mistake."""
    factors = factors_for("GB", scope, NOW)
    assert set(TABLE) == set(Fuel) - STORAGE
    assert all(0 <= factors.g_per_kwh(fuel) < 2000 for fuel in TABLE)
    for fuel in STORAGE:
        with pytest.raises(ValueError, match="gives back"):
            factors.g_per_kwh(fuel)


def test_the_whole_life_is_never_less_than_the_stack():
    """In the table and in each zone's exceptions."""
    for zone in ("GB", *(zone for these in EXCEPTIONS for zone in these.zones)):
        whole, stack = (factors_for(zone, scope, NOW) for scope in (Scope.LIFECYCLE, Scope.DIRECT))
        assert all(whole.g_per_kwh(fuel) >= stack.g_per_kwh(fuel) for fuel in TABLE)


def test_each_figure_says_where_it_is_from():
    """A table, a paper, or that we assume it."""
    assert all(factor.citation for factor in TABLE.values())
    assert all("b354f28" in these.citation for these in EXCEPTIONS)
    ours = {fuel for fuel, factor in TABLE.items() if "own assumption" in factor.citation}
    assert {Fuel.LIGNITE, Fuel.WASTE, Fuel.OTHER, Fuel.UNKNOWN} <= ours


@pytest.mark.parametrize(
    ("zone", "fuel", "grams"),
    [
        ("DE", Fuel.COAL, 1113),
        ("DE", Fuel.LIGNITE, 1113),
        ("DE", Fuel.SOLAR, 35.1),
        ("DE_LU", Fuel.NUCLEAR, 5.13),
        ("de-berlin", Fuel.WIND_OFFSHORE, 12.62),
        ("PL", Fuel.COAL, 1099),
        ("FR", Fuel.COAL, 1029),
        ("US-CAL-CISO", Fuel.GAS, 516),
        ("CISO", Fuel.GEOTHERMAL, 77),
    ],
)
def test_a_zone_has_its_own_figures(zone, fuel, grams):
    """Also where its name is written another way or names a part of it; the version says so."""
    factors = factors_for(zone, Scope.LIFECYCLE, NOW)
    assert factors.g_per_kwh(fuel) == grams
    assert factors.version == f"{VERSION}+em-2025.1 lifecycle"


@pytest.mark.parametrize("zone", ["DK", "DEX", "D", "US-CAL", "US-CAL-CISOX", "PT", "GB"])
def test_another_zone_has_none(zone):
    """A beginning in common is not enough."""
    assert factors_for(zone, Scope.LIFECYCLE, NOW).version == f"{VERSION} lifecycle"


def test_exceptions_have_their_time_and_their_scope():
    """Before it the table holds, from its first instant on the exception; direct emissions keep the table."""
    since = EXCEPTIONS[0].since
    assert factors_for("DE", Scope.LIFECYCLE, since - timedelta(microseconds=1)).g_per_kwh(Fuel.COAL) == 820
    assert factors_for("DE", Scope.LIFECYCLE, since).g_per_kwh(Fuel.COAL) == 1113
    assert factors_for("DE", Scope.LIFECYCLE, BEFORE).version == f"{VERSION} lifecycle"
    assert factors_for("DE", Scope.DIRECT, NOW).g_per_kwh(Fuel.COAL) == 760
    assert factors_for("DE", Scope.DIRECT, NOW).version == f"{VERSION} direct"


def test_a_fuel_without_an_exception_keeps_the_table():
    """Biomass in Germany is biomass."""
    assert factors_for("DE", Scope.LIFECYCLE, NOW).g_per_kwh(Fuel.BIOMASS) == 230


def test_there_is_no_table_of_an_unspecified_scope():
    """Whoever computes must say of what."""
    with pytest.raises(BadRequest, match="lifecycle or direct"):
        factors_for("GB", Scope.UNSPECIFIED, NOW)


def _page_rows():
    """Cells of the tables on the page about mixes."""
    page = Path(__file__).parents[2] / "docs" / "sources" / "mix.md"
    lines = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_page_has_the_figures_of_the_table():
    """Each fuel, both scopes, and whether the figure is an assumption of ours."""
    found = {cells[0]: cells[1:] for cells in _page_rows() if len(cells) == 4 and cells[0] != "fuel"}
    assert {fuel: (float(row[0]), float(row[1])) for fuel, row in found.items()} == {
        fuel.value: (factor.lifecycle, factor.direct) for fuel, factor in TABLE.items()
    }
    ours = {fuel for fuel, row in found.items() if row[2] == "own assumption"}
    assert ours == {fuel.value for fuel, factor in TABLE.items() if factor.citation.startswith("own assumption")}


def test_the_page_has_the_exceptions():
    """Their first zone, and each of their figures."""
    found = {cells[0].strip("`"): cells[1] for cells in _page_rows() if len(cells) == 3 and cells[0] != "zone"}
    for zone, text in found.items():
        (these,) = [these for these in EXCEPTIONS if zone in these.zones]
        assert set(map(float, re.findall(r"[\d.]*\d", text))) == {float(grams) for grams in these.g_per_kwh.values()}
    assert len(found) == len(EXCEPTIONS)
