"""ENTSO-E's zones: codes that check themselves, spellings, countries that are no zones, and zones that ended (B22)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from providers.base import BadRequest
from providers.entsoe_zones import _ALIASES, _DATED, _EIC, area

NOW = datetime(2026, 3, 4, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize("name", _EIC)
def test_each_code_fits_its_check_character(name):
    """A code with a typing error would not be accepted as a zone either."""
    assert area(_EIC[name]).name == name
    assert area(name).eic == _EIC[name]


def test_no_two_names_have_one_code():
    """What is asked for under one name is never stored as another's."""
    assert len(set(_EIC.values())) == len(_EIC)
    assert set(_ALIASES.values()) <= set(_EIC)
    assert set(_DATED) <= set(_EIC)
    assert not set(_ALIASES) & set(_EIC)


@pytest.mark.parametrize(
    ("spelt", "name"),
    [
        ("DE_LU", "DE_LU"),
        ("DE-LU", "DE_LU"),
        ("de-lu", "DE_LU"),
        (" FR ", "FR"),
        ("DK1", "DK_1"),
        ("DK_1", "DK_1"),
        ("DK-1", "DK_1"),
        ("DK-DK1", "DK_1"),
        ("SE-SE4", "SE_4"),
        ("SE4", "SE_4"),
        ("NO-NO2", "NO_2"),
        ("no5", "NO_5"),
        ("IT-NO", "IT_NORD"),
        ("IT-NORTH", "IT_NORD"),
        ("IT-SIC", "IT_SICI"),
        ("IE(SEM)", "IE_SEM"),
        ("SEM", "IE_SEM"),
        ("10YDK-2--------M", "DK_2"),
    ],
)
def test_the_usual_spellings_are_understood(spelt, name):
    """Of the platform itself, of energy-charts, of Nord Pool and of Electricity Maps."""
    assert area(spelt).name == name


def test_a_code_that_is_not_listed_will_do():
    """Control areas are not listed here, and the platform knows them: 50Hertz."""
    assert area("10YDE-VE-------2").eic == "10YDE-VE-------2"


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("DE", "DE is a country, not a bidding zone .did you mean 'DE_LU'"),
        ("de", "country"),
        ("LU", "'DE_LU'"),
        ("DK", "'DK_1' or 'DK_2'"),
        ("SE", "'SE_1' to 'SE_4'"),
        ("NO", "'NO_1' to 'NO_5'"),
        ("IT", "'IT_NORD'"),
        ("IE", "'IE_SEM'"),
        ("UK", "'GB'"),
        ("DE_UL", "no zone 'DE_UL' .did you mean 'DE_LU'"),
        ("SE5", "no zone 'SE5' .did you mean 'SE_"),
        ("SE-DK1", "no zone"),
        ("", "no zone ''"),
        ("XX", "an EIC code will do as well"),
        ("10Y1001A1001A82G", "its last character does not fit"),
        ("10Y1001A1001A28H", "its last character does not fit"),
        ("10YFR-RTE------c", "no zone"),
    ],
)
def test_what_is_no_zone_is_told(zone, text):
    """A country, a typing error, two characters of a code exchanged: with what was probably meant."""
    with pytest.raises(BadRequest, match=text):
        area(zone)


@pytest.mark.parametrize("name", ["FR", "DE_LU", "IT_CALA"])
def test_a_zone_of_today_has_what_is_asked_for(name):
    """Nothing is cut off."""
    assert area(name).clip(NOW - HOUR, NOW) == (NOW - HOUR, NOW)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("DE_AT_LU", "zone DE_AT_LU ended at 2018-09-30: take DE_LU or AT"),
        ("GB", "zone GB ended at 2021-07-01: .*neso"),
        ("IT_ROSN", "take IT_CALA"),
    ],
)
def test_a_zone_that_ended_says_what_followed(name, text):
    """The platform would answer that it has no data, for ever."""
    with pytest.raises(BadRequest, match=text):
        area(name).clip(NOW - HOUR, NOW)


def test_a_zone_is_asked_for_the_time_that_it_existed():
    """The German zone without Austria begins in October 2018."""
    began = datetime(2018, 9, 30, 22, tzinfo=UTC)
    assert area("DE_LU").clip(began - 5 * HOUR, began + HOUR) == (began, began + HOUR)
    assert area("DE_AT_LU").clip(began - 5 * HOUR, began + HOUR) == (began - 5 * HOUR, began)
    with pytest.raises(BadRequest, match="began at 2018-09-30"):
        area("DE_LU").clip(began - 5 * HOUR, began)
