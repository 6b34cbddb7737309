"""The prices ahead that a plan goes by: from the grid, from the market, and from both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_budget_cases import HOUR, asked, horizon, horizons

from chase.horizon import GRAMS, Horizon, flat, spread
from chase.outlook import FRESH, Curve, Hour, Outlook
from chase.policy import choose
from chase.prices import PriceOutlook
from chase.prices_ahead import BOTH, MONEY, horizon_of
from providers.base import Boundary, IntensityPoint, Kind, Market, PricePoint, Scope, Signal

AT = datetime(2026, 3, 2, 10, 20, tzinfo=UTC)
HOUR_AT = AT.replace(minute=0)
STEP = timedelta(hours=1)


@dataclass
class Said:
    """What is said of the hours to come."""

    curve: Curve
    hours: tuple[Hour, ...] = ()


def observed(g_per_kwh: float, start: datetime = HOUR_AT) -> IntensityPoint:
    return IntensityPoint(
        zone="XX",
        start=start,
        end=start + STEP,
        g_per_kwh=g_per_kwh,
        kind=Kind.MEASURED,
        signal=Signal.AVERAGE,
        scope=Scope.DIRECT,
        boundary=Boundary.PRODUCTION,
        source="test",
        fetched_at=start,
    )


def outlook(
    values: Sequence[float],
    *,
    start: datetime = HOUR_AT,
    step: timedelta = STEP,
    at: datetime = AT,
    past: Sequence[float] = (),
    apart: float = 0.0,
) -> Outlook:
    """The grid at ``at``, where ``values`` are expected from ``start`` on."""
    g = np.array(values, float)
    start_s = start.timestamp() + step.total_seconds() * np.arange(len(g))
    curve = Curve(start_s, start_s + step.total_seconds(), g, g - apart, g + apart)
    recent = tuple(observed(value, HOUR_AT - STEP * (k + 1)) for k, value in enumerate(past))
    return Outlook(at, observed(50.0), FRESH, 0.0, Said(curve), lambda: recent, memory=lambda: past)


def priced(
    values: Sequence[float], *, start: datetime = HOUR_AT, step: timedelta = STEP, at: datetime = AT, now: bool = True
) -> PriceOutlook:
    """What a market has published from ``start`` on."""
    points = tuple(
        PricePoint(
            zone="XX",
            start=start + step * k,
            end=start + step * (k + 1),
            price_per_kwh=value,
            currency="EUR",
            market=Market.DAY_AHEAD,
            source="test",
            fetched_at=start,
        )
        for k, value in enumerate(values)
    )
    return PriceOutlook(at, points[0] if now else None, FRESH, 0.0, ahead=points)


def lengths(found: Horizon) -> list[float]:
    return found.seconds.tolist()


class TestCarbon:
    def test_the_slots_are_the_hours_from_now_on(self):
        """Of the first one what is left of it."""
        found = horizon_of(outlook([300.0, 200.0, 100.0]), pue=1.3)
        assert lengths(found) == [2400.0, 3600.0, 3600.0]
        assert found.price.tolist() == [300.0, 200.0, 100.0]
        assert (found.unit, found.pue) == (GRAMS, 1.3)

    def test_nothing_known_is_no_horizon(self):
        """Rather than one of zeros."""
        assert horizon_of(Outlook(AT)) is None
        assert horizon_of(outlook([])) is None

    def test_until_the_first_hour_of_which_anything_is_said_it_is_as_it_was(self):
        """A forecast that begins with the next hour leaves the running one to what was observed last."""
        found = horizon_of(outlook([300.0, 200.0], start=HOUR_AT + STEP))
        assert (lengths(found), found.price.tolist()) == ([2400.0, 3600.0, 3600.0], [50.0, 300.0, 200.0])

    @pytest.mark.parametrize(
        ("seconds", "slots"), [(60.0, 1), (2400.0, 1), (2401.0, 2), (9599.0, 3), (9600.0, 3), (1e7, 3)]
    )
    def test_only_what_is_needed(self, seconds, slots):
        """No more slots than the time that a job has left; a tail where that is longer."""
        found = horizon_of(outlook([300.0, 200.0, 100.0], past=[80.0, 90.0]), seconds=seconds)
        assert len(found.price) == slots
        assert sorted(found.tail.tolist()) == ([80.0, 90.0, 100.0, 200.0, 300.0] if seconds > 9600 else [])

    def test_from_six_hours_on_it_is_by_the_hour(self):
        """Minutes of a time that far off are not known apart: their means, and not a second or a gram less in all."""
        values = [100.0 + 3.0 * (i % 7) for i in range(12 * 24)]
        found = horizon_of(outlook(values, step=timedelta(minutes=5), at=HOUR_AT))
        assert found.seconds[:72].tolist() == [300.0] * 72
        assert found.seconds[72:].tolist() == [3600.0] * 18
        assert found.total_s == 86400.0
        assert found.price[72] == pytest.approx(sum(values[72:84]) / 12, abs=0.05)
        assert found.seconds @ found.price == pytest.approx(300.0 * sum(values), rel=1e-3)

    def test_the_first_hour_that_is_coarse_ends_with_the_clock(self):
        """A plan of the middle of an hour goes on by full hours."""
        at = HOUR_AT + timedelta(minutes=25)
        found = horizon_of(outlook([100.0] * 12 * 24, step=timedelta(minutes=5), at=at))
        assert found.seconds[:71].tolist() == [300.0] * 71
        assert found.seconds[71:73].tolist() == [2400.0, 3600.0]

    def test_the_range_goes_with_it(self):
        """What a source says of its own error, in whole per cent."""
        found = horizon_of(outlook([300.0, 200.0], apart=25.0))
        assert found.low.tolist() == pytest.approx([276.0, 176.0])
        assert found.high.tolist() == pytest.approx([324.0, 224.0])

    @pytest.mark.parametrize("early", [1, 200, 400])
    def test_what_is_just_over_is_no_slot(self, early):
        """Microseconds before the hour there is nothing left to plan with in the old one."""
        at = HOUR_AT + STEP - timedelta(microseconds=early)
        found = horizon_of(outlook([300.0, 200.0, 100.0], at=at))
        assert (lengths(found), found.price.tolist()) == ([3600.0, 3600.0], [200.0, 100.0])

    def test_five_minutes(self):
        """A finer signal has finer slots."""
        found = horizon_of(outlook([300.0, 200.0, 100.0], start=HOUR_AT + STEP / 4, step=STEP / 12))
        assert lengths(found) == [300.0, 300.0]
        assert found.price.tolist() == [200.0, 100.0]


class TestMoney:
    def test_in_the_currency_of_the_market(self):
        """Where money is asked for the grid does not matter."""
        found = horizon_of(outlook([300.0] * 3), priced([0.31, -0.02, 0.05]), minimise=MONEY)
        assert (found.price.tolist(), found.unit) == ([0.31, -0.02, 0.05], "EUR")
        assert lengths(found) == [2400.0, 3600.0, 3600.0]

    def test_what_is_published_goes_on_as_its_last_day(self):
        """A market that has published 30 hours: from then on each hour costs what it did a day before."""
        day = [round(0.01 * k, 2) for k in range(30)]
        found = horizon_of(outlook([100.0] * 100), priced(day), minimise=MONEY)
        assert found.price[:30].tolist() == day
        assert found.price[30:54].tolist() == day[6:]
        assert found.price[54:78].tolist() == day[6:]
        assert found.total_s >= 99 * HOUR

    def test_quarters_of_an_hour_beside_hours(self):
        """Both together on the finer of the two: money, and a price for each kilogram."""
        prices = priced([0.10, 0.20, 0.30, 0.40], start=HOUR_AT + STEP / 4, step=STEP / 4)
        found = horizon_of(outlook([300.0, 200.0]), prices, minimise=BOTH, carbon_price_per_kg=0.1)
        assert lengths(found)[:5] == [600.0, 900.0, 900.0, 900.0, 2700.0]
        assert found.price[:4].tolist() == pytest.approx([0.13, 0.23, 0.33, 0.42])
        assert found.unit == "EUR"

    def test_less_than_a_day_of_prices_beside_two_of_carbon(self):
        """What follows costs the mean of what is known, and its carbon counts all the same."""
        found = horizon_of(outlook([300.0] * 3 + [100.0] * 3), priced([0.1, 0.2]), minimise=BOTH, carbon_price_per_kg=1)
        mean = (0.1 * 2400 + 0.2 * 3600) / 6000
        assert found.price.tolist() == pytest.approx([0.4, 0.5, mean + 0.3, *[mean + 0.1] * 3], abs=1e-5)
        assert found.total_s == 2400 + 5 * HOUR

    def test_of_prices_longer_than_the_grid_s_outlook(self):
        """Only what both are known of is a slot of both."""
        found = horizon_of(outlook([300.0, 200.0]), priced([0.1] * 30), minimise=BOTH, carbon_price_per_kg=1.0)
        assert (lengths(found), found.price.tolist()) == ([2400.0, 3600.0], pytest.approx([0.4, 0.3]))

    def test_a_missing_price_is_not_free(self):
        """Both, and no price is known: carbon alone, in grams; money alone is nothing to go by."""
        silent = PriceOutlook(AT)
        for prices in (silent, None):
            found = horizon_of(outlook([300.0]), prices, minimise=BOTH, carbon_price_per_kg=1.0)
            assert (found.price.tolist(), found.unit) == ([300.0], GRAMS)
            assert prices is None or horizon_of(outlook([300.0]), prices, minimise=MONEY) is None

    def test_an_unknown_grid_is_not_clean(self):
        """Both, and nothing is known of the grid: money alone."""
        found = horizon_of(Outlook(AT), priced([0.3, 0.1]), minimise=BOTH, carbon_price_per_kg=1.0)
        assert (found.price[:2].tolist(), found.unit) == ([0.3, 0.1], "EUR")

    def test_a_gap_costs_what_was_last_known(self):
        """From the end of one price to the beginning of the next there is no hole, and no price of 0."""
        first, last = priced([0.3]), priced([0.1], start=HOUR_AT + 3 * STEP)
        prices = PriceOutlook(AT, first.now, FRESH, 0.0, ahead=(*first.ahead, *last.ahead))
        found = horizon_of(outlook([300.0] * 4), prices, minimise=MONEY)
        assert (lengths(found), found.price.tolist()) == ([9600.0, 3600.0], [0.3, 0.1])

    def test_a_price_that_is_over_stands_until_there_is_another(self):
        """A market that reports the past: what it said last is what there is to go by."""
        found = horizon_of(outlook([300.0]), priced([0.3], start=HOUR_AT - 2 * STEP), minimise=MONEY)
        assert found.price.tolist() == [0.3]
        assert lengths(found) == [1.0]
        assert found.slots(HOUR).price.tolist() == pytest.approx([0.3 / 3.6e6] * 2)

    def test_a_market_that_begins_later_has_a_currency(self):
        """No price is in force, and those to come are known: they are money and not grams."""
        found = horizon_of(outlook([300.0] * 3), priced([0.1, 0.2], start=HOUR_AT + STEP, now=False), minimise=MONEY)
        assert found.unit == "EUR"
        assert found.price.tolist()[-2:] == [0.1, 0.2]

    def test_each_objective_has_its_own_choice(self):
        """A dirty hour at a low price: slow for the carbon, fast for the money, and between by the price of carbon."""
        grid, market = outlook([500.0, *[200.0] * 12], at=HOUR_AT), priced([0.05, *[0.30] * 30], at=HOUR_AT)

        def watts(**how: object) -> float:
            return choose(asked(horizon_of(grid, market, **how), max_slowdown=0.05)).setting.power_limit_w

        assert watts() == 200
        assert watts(minimise=MONEY) == 300
        assert watts(minimise=BOTH, carbon_price_per_kg=0.01) == 300
        assert watts(minimise=BOTH, carbon_price_per_kg=100.0) == 200

    def test_who_is_paid_runs_fast(self):
        """A price below zero beside a dirty grid: what both come to decides."""
        grid, market = outlook([500.0, *[300.0] * 12], at=HOUR_AT), priced([-0.2, *[0.1] * 30], at=HOUR_AT)
        paid = horizon_of(grid, market, minimise=BOTH, carbon_price_per_kg=0.1)
        assert paid.price[0] == pytest.approx(-0.15)
        assert choose(asked(paid, max_slowdown=0.05)).setting.power_limit_w == 300


class TestSlots:
    @given(horizons(), st.floats(1, 1e8))
    def test_they_are_as_long_as_is_asked_for(self, ahead, seconds):
        """None of them is empty, prices are of a joule at the meter, and the tail is what lies beyond."""
        slots = ahead.slots(seconds)
        assert slots.seconds.sum() == pytest.approx(seconds)
        assert (slots.seconds > 0).all()
        assert slots.tail == min(len(slots.price), len(ahead.price))
        assert slots.price[: slots.tail] == pytest.approx(ahead.price[: slots.tail] * ahead.pue / 3.6e6)
        assert len(slots.price) - slots.tail <= 32

    @pytest.mark.parametrize(
        ("seconds", "expected"), [(HOUR, [HOUR]), (2 * HOUR, [HOUR] * 2), (5400.0, [HOUR, 1800.0])]
    )
    def test_an_end_between_two_slots_makes_no_empty_one(self, seconds, expected):
        """The last one is cut to what is left of it."""
        assert horizon([1.0, 2.0, 3.0]).slots(seconds).seconds.tolist() == expected

    def test_many_prices_are_stood_for_by_a_few(self):
        """Of a thousand prices the 32 are as evenly spread, and their mean is that of all."""
        values = np.arange(1000.0)
        found = spread(values)
        assert len(found) == 32
        assert found.mean() == pytest.approx(values.mean(), rel=0.01)
        assert sorted(found.tolist()) == found.tolist()

    def test_flat_is_one_price(self):
        """Where nothing is known, all times are alike."""
        slots = flat(1234.5).slots(1234.5)
        assert (slots.seconds.tolist(), slots.tail) == ([1234.5], 1)


class TestWrittenDown:
    @given(horizons())
    def test_it_is_read_as_it_was(self, ahead):
        """To the last bit, and in the same words again."""
        text = json.dumps(ahead.to_dict(), allow_nan=False)
        again = Horizon.from_dict(json.loads(text))
        for name in ("seconds", "price", "low", "high", "tail"):
            assert getattr(again, name).tolist() == getattr(ahead, name).tolist()
        assert (again.unit, again.pue) == (ahead.unit, ahead.pue)
        assert json.dumps(again.to_dict(), allow_nan=False) == text

    def test_a_week_of_five_minutes_is_small(self):
        """Equal lengths are written once."""
        week = horizon([round(200 + 100 * np.sin(k / 46), 1) for k in range(2016)], 300.0)
        assert week.to_dict()["seconds"] == [[300.0, 2016]]
        assert len(json.dumps(week.to_dict())) < 30000

    def test_the_range_of_a_negative_price_lies_about_it(self):
        """Low is below and high above, on either side of 0; at 0 there is no per cent to tell it by."""
        price = np.array([-100.0, 0.0, 100.0])
        found = Horizon.of(np.full(3, HOUR), price, price - 10, price + 10)
        assert found.low.tolist() == pytest.approx([-110.0, 0.0, 90.0])
        assert found.high.tolist() == pytest.approx([-90.0, 0.0, 110.0])

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
    @pytest.mark.parametrize("where", ["price", "low", "high", "tail"])
    def test_what_is_no_number_is_refused(self, value, where):
        """At the edge, before anything is planned with it; as a point of a source is."""
        columns = {"price": [100.0, 200.0], "low": [90.0, 190.0], "high": [110.0, 210.0], "tail": [1.0, 2.0]}
        columns[where][1] = value
        arrays = {name: np.array(column) for name, column in columns.items()}
        with pytest.raises(ValueError, match="finite"):
            Horizon.of(np.full(2, HOUR), **arrays)
        with pytest.raises(ValueError, match="finite"):
            observed(value)
        with pytest.raises(ValueError, match="finite"):
            priced([value])

    @pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
    def test_a_slot_is_longer_than_nothing(self, seconds):
        """An empty slot would be the one that a decision is about."""
        with pytest.raises(ValueError, match="longer than 0 s"):
            horizon([100.0], seconds)

    def test_each_slot_has_a_price(self):
        """And there is at least one."""
        three = np.full(3, HOUR)
        for columns in ((three, three[:2], three, three), (np.empty(0),) * 4):
            with pytest.raises(ValueError, match="at least one"):
                Horizon.of(*(columns[0], columns[1], columns[1], columns[1]))
