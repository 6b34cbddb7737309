"""SCI by ISO/IEC 21031:2024, and what a row holds of host, money and embodied emissions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from account_cases import J_PER_KWH, T0, THREE, booked, point, series, standstill, work

from chase.accounting import reprice, summarise
from chase.pricing import Paid, paid
from providers.base import Kind, Market, PricePoint, PriceSeries

HOUR = timedelta(hours=1)


def price_point(hour: int, value: float, currency: str = "EUR") -> PricePoint:
    start = T0 + hour * HOUR
    facts = {"zone": "XX", "currency": currency, "market": Market.DAY_AHEAD, "source": "tariff", "fetched_at": T0}
    return PricePoint(start=start, end=start + HOUR, price_per_kwh=value, **facts)


def test_sci_is_operational_and_embodied_a_unit():
    """((E * I * PUE) + M) per R: kWh of GPUs and host, g/kWh, and the job's hours of what making the hardware took."""
    per_s = 1000.0 * 1400 * 0.125 / (4 * 365.25 * 86400)  # an eighth of 1400 kg over four years
    rows = work(THREE, [(250.0, 1000, 200.0)], pue=1.2, host_power_w=60.0, embodied_g_per_s=per_s)
    summary = summarise(rows, THREE)
    kwh = 1000 * (252 + 60 * 1.05) / J_PER_KWH
    assert summary.sci_operational_g_per_unit == pytest.approx(kwh * 200 * 1.2 / 1000)
    assert summary.sci_embodied_g_per_unit == pytest.approx(1.05 * per_s)
    assert summary.sci_g_per_unit == summary.sci_operational_g_per_unit + summary.sci_embodied_g_per_unit
    assert summary.embodied_grams == pytest.approx(1050 * per_s)


def test_hardware_is_worn_while_a_job_stands_still():
    """A hang emits, and its hours are the job's: both count for the units that were done in the end."""
    rows = work(THREE, [(250.0, 1000, 200.0)], embodied_g_per_s=0.01)
    hung = summarise([*rows, standstill(1050, 1050, 252e3, 200.0, embodied_g_per_s=0.01)], THREE)
    alone = summarise(rows, THREE)
    assert hung.sci_g_per_unit == pytest.approx(2 * alone.sci_g_per_unit)


def test_without_embodied_figures_there_is_no_sci():
    """Its operational part stands alone, under its own name; also where only part of the time has any."""
    rows = work(THREE, [(250.0, 1000, 200.0)])
    some = [*rows, *work(THREE, [(250.0, 1000, 200.0)], embodied_g_per_s=0.01)]
    for summary in (summarise(rows, THREE), summarise(some, THREE)):
        assert summary.sci_operational_g_per_unit == pytest.approx(252 * 200 / J_PER_KWH)
        assert (summary.sci_g_per_unit, summary.sci_embodied_g_per_unit) == (None, None)


@pytest.mark.parametrize("rows", [[], [standstill(0, 60, 6000.0)], work(THREE, [(250.0, 10, None)])])
def test_nothing_done_or_nothing_known_has_no_sci(rows):
    """No division by no work, and no number where no intensity is known."""
    summary = summarise(rows, THREE)
    assert (summary.sci_g_per_unit, summary.sci_operational_g_per_unit) == (None, None)


def test_energy_without_an_intensity_is_not_taken_for_clean():
    """The part that cannot be priced is taken to be like the rest, though the job's grams are of that alone."""
    rows = work(THREE, [(250.0, 100, 200.0), (250.0, 300, None)])
    assert summarise(rows, THREE).sci_operational_g_per_unit == pytest.approx(252 * 200 / J_PER_KWH)


def test_a_row_holds_the_hosts_energy_apart():
    """Configured watts for as long as it lasted, and as long as full power would have; grams and cost are of both."""
    (row,) = work(THREE, [(200.0, 100, 300.0)], pue=1.5, host_power_w=80.0, cost=Paid(0.25, "EUR", "retail"))
    assert (row.host_energy_j, row.reference_host_energy_j) == (pytest.approx(125 * 80), pytest.approx(100 * 80))
    assert row.grams == pytest.approx((24_000 + 10_000) * 1.5 * 300 / J_PER_KWH)
    assert row.reference_grams == pytest.approx((30_000 + 8_000) * 1.5 * 300 / J_PER_KWH)
    assert row.cost == pytest.approx(34_000 * 1.5 * 0.25 / J_PER_KWH)
    assert row.reference_cost == pytest.approx(38_000 * 1.5 * 0.25 / J_PER_KWH)
    assert (row.price_per_kwh, row.price_kind, row.currency, row.pue) == (0.25, "retail", "EUR", 1.5)


def test_a_row_says_what_was_gone_by_beside_what_is_known():
    """The decision's value, which never changes, and the newest with its source, which does."""
    used = point(-3600, 0, 240.0, Kind.ESTIMATED)
    row = booked(point=point(0, 3600, 300.0), used=used)
    (again,) = reprice([row], series(point(0, 3600, 270.0)))
    assert (row.used_intensity_g_per_kwh, row.intensity_g_per_kwh, again.intensity_g_per_kwh) == (240.0, 300.0, 270.0)
    assert (again.used_intensity_g_per_kwh, again.used_intensity_kind) == (240.0, "estimated")
    assert (again.intensity_source, again.intensity_kind) == ("file", "measured")
    summary = summarise([again])
    assert (summary.used_intensity_g_per_kwh, summary.intensity_g_per_kwh) == (240.0, 270.0)
    assert summary.intensity_shares == {"file measured": 1.0}


def test_a_price_is_weighted_by_time_and_may_be_negative():
    """Half an hour at each; a part that is not published makes it an assumption."""
    known = PriceSeries((price_point(0, -0.1), price_point(1, 0.3)))
    assert paid(known, T0 + HOUR / 2, T0 + 1.5 * HOUR) == Paid(pytest.approx(0.1), "EUR", "day-ahead")
    assert paid(known, T0 + HOUR, T0 + 3 * HOUR) == Paid(pytest.approx(0.3), "EUR", "assumed")
    assert paid(known, T0 + 2 * HOUR, T0 + 3 * HOUR) is None
    assert paid(PriceSeries(), T0, T0 + HOUR) is None


def test_what_is_published_later_replaces_what_was_assumed():
    """And never the other way round; an unknown price stays unknown, and grams are left alone."""
    rows = work(THREE, [(250.0, 100, 200.0)], cost=Paid(0.2, "EUR", "assumed"), pue=1.2)
    known = PriceSeries((price_point(0, -0.05),))
    (again,) = reprice(rows, series(), prices=known)
    assert (again.price_kind, again.price_per_kwh) == ("day-ahead", -0.05)
    assert again.cost == pytest.approx(rows[0].energy_j * 1.2 * -0.05 / J_PER_KWH)
    assert (again.grams, again.intensity_g_per_kwh) == (rows[0].grams, rows[0].intensity_g_per_kwh)
    gap = PriceSeries((replace(price_point(0, 9.0), end=T0 + timedelta(seconds=1)),))
    assert reprice([again], series(), prices=gap) == [again]
    assert reprice([again], series(point(0, 1, 1.0, Kind.TYPICAL)), prices=known) == [again]


def test_what_was_booked_keeps_its_pue():
    """Another PUE in the configuration is for what is drawn from then on, whatever is revised of the grid."""
    steps, prices = [(250.0, 100, 200.0), (200.0, 100, 300.0)], PriceSeries((price_point(0, 0.1),))
    cost = Paid(0.2, "EUR", "retail")
    rows = [work(THREE, steps, cost=cost, pue=pue)[i] for i, pue in enumerate((1.0, 1.2))]
    again = reprice(rows, series(point(0, 3600, 400.0)), pue=1.5, prices=prices)
    assert [row.pue for row in again] == [1.0, 1.2]
    assert again[0].grams == pytest.approx(2 * rows[0].grams)
    assert [row.cost for row in again] == pytest.approx([row.cost / 2 for row in rows])


@pytest.mark.parametrize(("others", "taken"), [([], 1.5), ([1.2], 1.2)])
def test_where_nothing_tells_the_pue_it_is_that_of_the_others_or_todays(others, taken):
    """A row of a first version without an intensity, alone and beside others."""
    (unpriced,) = work(THREE, [(250.0, 100, None)])
    rows = [row for pue in others for row in work(THREE, [(250.0, 100, 200.0)], pue=pue)]
    *_, again = reprice([*rows, replace(unpriced, pue=None)], series(point(0, 3600, 200.0)), pue=1.5)
    assert again.pue == taken
    assert again.grams == pytest.approx(unpriced.energy_j * taken * 200.0 / J_PER_KWH)


def test_rows_of_a_first_version_keep_their_pue():
    """It follows from their grams where no column says it; and nothing but a new price changes them."""
    (row,) = work(THREE, [(250.0, 100, 200.0)], pue=1.3)
    old = replace(row, pue=None, intensity_source="", used_intensity_g_per_kwh=None)
    assert reprice([old], series(point(0, 3600, 200.0))) == [old]
    (again,) = reprice([old], series(point(0, 3600, 400.0)))
    assert again.grams == pytest.approx(2 * row.grams)
    assert again.pue == pytest.approx(1.3)
    assert summarise([old], THREE).pue == pytest.approx(1.3)
