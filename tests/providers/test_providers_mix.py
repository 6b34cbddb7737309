"""What a mix comes to, what of it counts, and when too little of it is known to say."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.base import BadRequest, Boundary, Kind, SchemaError, Scope, Signal
from providers.emission_factors import STORAGE, TABLE, Fuel
from providers.mix import MEMORY, Cell, Generation, collect, fuel_of, intensities, megawatts, scope_option, usable
from providers.options import Options

NOW = datetime(2026, 3, 4, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
WHOLE = {
    Fuel.NUCLEAR: 4000.0,
    Fuel.GAS: 3000.0,
    Fuel.WIND: 2000.0,
    Fuel.HYDRO: 800.0,
    Fuel.OIL: 200.0,
}


def hours(*mixes, end=NOW):
    """Rows of an hour each, the last of which ends at ``end``."""
    first = end - len(mixes) * HOUR
    return [Generation(first + n * HOUR, first + (n + 1) * HOUR, mix) for n, mix in enumerate(mixes)]


def day(mix=WHOLE):
    return [mix] * 24


def of(rows, *, scope=Scope.LIFECYCLE, zone="GB", **more):
    return intensities(rows, zone=zone, scope=scope, source="test", fetched_at=NOW, **more)


def last(*mixes, **more):
    """The intensity of the last of the hours, None if it is a gap."""
    points = of(hours(*mixes), **more)
    return points[-1].g_per_kwh if points and points[-1].end == NOW else None


def without(fuel, mix=WHOLE):
    return {key: mw for key, mw in mix.items() if key is not fuel}


# What it comes to


def test_it_is_the_mean_of_the_factors_by_generation():
    """(4000 x 12 + 3000 x 490 + 2000 x 11 + 800 x 24 + 200 x 650) / 10000, and direct of gas and oil alone."""
    assert last(WHOLE) == pytest.approx((48_000 + 1_470_000 + 22_000 + 19_200 + 130_000) / 10_000)
    assert last(WHOLE, scope=Scope.DIRECT) == pytest.approx((3000 * 370 + 200 * 650) / 10_000)


def test_a_point_says_what_it_is():
    """Measured, average, of the generation in the zone unless told otherwise, and by which factors."""
    rows = [Generation(NOW - HOUR, NOW, WHOLE, updated_at=NOW)]
    (point,) = of(rows)
    assert (point.start, point.end, point.fetched_at, point.updated_at) == (NOW - HOUR, NOW, NOW, NOW)
    assert (point.kind, point.signal, point.scope) == (Kind.MEASURED, Signal.AVERAGE, Scope.LIFECYCLE)
    assert (point.boundary, point.zone, point.source) == (Boundary.PRODUCTION, "GB", "test")
    assert point.method == "ipcc-ar5.1 lifecycle"
    assert of(rows, boundary=Boundary.CONSUMPTION)[0].boundary is Boundary.CONSUMPTION


def test_a_zone_has_its_own_factors():
    """And its points say so."""
    (point,) = of(hours({Fuel.LIGNITE: 1.0}), zone="DE")
    assert (point.g_per_kwh, point.method) == (1113, "ipcc-ar5.1+em-2025.1 lifecycle")


@pytest.mark.parametrize(
    ("other", "unknown", "said"), [(0, 0, ""), (1, 0, ", 99 % of known fuel"), (0, 999, ", 90 % of known fuel")]
)
def test_it_says_how_much_is_of_a_known_fuel(other, unknown, said):
    """Rounded down, so that a little is not nothing."""
    mix = {Fuel.GAS: 9001.0 - other, Fuel.OTHER: float(other), Fuel.UNKNOWN: float(unknown)}
    (point,) = of(hours(mix))
    assert point.method == f"ipcc-ar5.1 lifecycle{said}"


# What counts


@pytest.mark.parametrize("storage", sorted(STORAGE))
@pytest.mark.parametrize("mw", [-9000.0, 0.0, 9000.0])
def test_storage_changes_nothing(storage, mw):
    """Neither charging nor discharging, however much."""
    assert last({**WHOLE, storage: mw}) == last(WHOLE)


def test_storage_that_stops_reporting_costs_nothing():
    """Some sources leave it out where it is zero."""
    assert last(*day({**WHOLE, Fuel.BATTERY: 5000.0}), WHOLE) == last(WHOLE)


def test_storage_alone_is_no_generation():
    """Nothing is known of what it gives back."""
    assert of(hours({Fuel.BATTERY: 500.0})) == []


@pytest.mark.parametrize("mw", [-0.0, -5.0, -99.0])
def test_a_stations_own_use_counts_as_nothing(mw):
    """Solar panels draw a little at night."""
    assert last({**WHOLE, Fuel.SOLAR: mw}) == last({**WHOLE, Fuel.SOLAR: 0.0}) == last(WHOLE)


def test_hydro_below_zero_is_pumping():
    """Where pumps and turbines are one figure it may be large."""
    assert last(*day(), {**WHOLE, Fuel.HYDRO: -5000.0}) == pytest.approx(last(without(Fuel.HYDRO)))


def test_more_than_own_use_is_not_believed():
    """Wind of -3000 MW is no figure, so wind is missing, and that is a gap."""
    assert last(*day(), {**WHOLE, Fuel.WIND: -3000.0}) is None
    assert last(*day(), {**WHOLE, Fuel.OIL: -3000.0}) == pytest.approx(last(without(Fuel.OIL)))


def test_nothing_generated_is_a_gap():
    """Zeros everywhere are an outage of the data, and give no 0 g/kWh."""
    assert of(hours(dict.fromkeys(WHOLE, 0.0), {}, {Fuel.GAS: -5.0})) == []


def test_a_clean_hour_is_really_clean():
    """Direct emissions of wind and water are 0, which is a value."""
    assert last({Fuel.WIND: 100.0, Fuel.HYDRO: 50.0}, scope=Scope.DIRECT) == 0.0


def test_unknown_fuels_may_be_a_tenth():
    """More is a gap; OTHER is a fuel that the source knows, and is not limited."""
    assert last({**WHOLE, Fuel.UNKNOWN: 1111.0}) is not None
    assert last({**WHOLE, Fuel.UNKNOWN: 1112.0}) is None
    assert last({**WHOLE, Fuel.OTHER: 9000.0}) is not None


# Whether enough is known


@pytest.mark.parametrize("fuel", [fuel for fuel, mw in WHOLE.items() if mw >= 500])
def test_a_fuel_that_matters_must_be_there(fuel):
    """One that made 5 % in the last 24 h and is not published now makes a gap, whatever the others do."""
    assert last(*day(), WHOLE) is not None
    assert last(*day(), without(fuel)) is None
    assert last(*day(), {**without(fuel), Fuel.OTHER: 90_000.0}) is None


def test_zero_is_not_missing():
    """A fuel that is published as zero is known."""
    assert last(*day(), {**WHOLE, Fuel.WIND: 0.0}) is not None


def test_a_fuel_that_hardly_matters_may_lack():
    """2 % of oil, which one source publishes months late."""
    assert last(*day(), without(Fuel.OIL)) == pytest.approx(last(without(Fuel.OIL)))


def test_a_share_of_one_hour_is_enough_to_matter():
    """The sun of noon is missed on the next noon, even if it made little of the day."""
    noon, night = {**WHOLE, Fuel.SOLAR: 2000.0}, {**WHOLE, Fuel.SOLAR: 0.0}
    assert last(*[night] * 11, noon, *[night] * 11, WHOLE) is None


def test_many_small_fuels_may_not_lack_together():
    """Four of 4 % each are 16 % of what was generated."""
    small = dict.fromkeys((Fuel.OIL, Fuel.BIOMASS, Fuel.WASTE, Fuel.PEAT), 400.0)
    mix = {Fuel.GAS: 8400.0, **small}
    assert last(*day(mix), {Fuel.GAS: 8400.0}) is None
    assert last(*day(mix), {Fuel.GAS: 8400.0, Fuel.OIL: 400.0, Fuel.BIOMASS: 400.0}) is not None


def test_a_calm_night_is_no_gap():
    """Generation of 55 % of the lowest hour is possible, of 45 % it is a figure that is still being collected."""
    lighter = {fuel: 0.55 * mw for fuel, mw in WHOLE.items()}
    partial = {fuel: 0.45 * mw for fuel, mw in WHOLE.items()}
    assert last(*day(), lighter) == pytest.approx(last(WHOLE))
    assert last(*day(), partial) is None


def test_a_fuel_missing_for_days_does_not_become_the_custom():
    """What is usual is learnt from the hours that counted."""
    points = of(hours(*day(), *[without(Fuel.NUCLEAR)] * 70))
    assert len(points) == 24
    assert len(of(hours(*day(), *[without(Fuel.NUCLEAR)] * 70, WHOLE))) == 25


def test_a_fuel_that_stood_still_for_a_day_may_go():
    """A plant that was closed was first at zero."""
    idle = {**WHOLE, Fuel.NUCLEAR: 0.0}
    assert last(*day(), *[idle] * 25, without(Fuel.NUCLEAR)) is not None


def test_a_fuel_that_is_new_is_welcome_and_then_expected():
    """From the first hour in which it mattered."""
    new = {**WHOLE, Fuel.WIND_OFFSHORE: 3000.0}
    assert last(*day(), new) is not None
    assert last(*day(), new, WHOLE) is None


def test_the_first_day_is_judged_by_itself():
    """The first hour may not lack what the next ones have."""
    points = of(hours(without(Fuel.GAS), *day()))
    assert len(points) == 24
    assert points[0].start == NOW - 24 * HOUR


def test_a_hole_in_the_data_is_bridged_by_what_was_usual_before():
    """After two days without rows the fuels of before are still wanted."""
    before, after = hours(*day(), end=NOW - 48 * HOUR), hours(without(Fuel.GAS), WHOLE)
    assert len(of([*before, *after])) == 25


def test_rows_of_other_lengths_count_by_their_length():
    """Quarter hours before and hours after a change of step."""
    quarter = HOUR / 4
    first = NOW - 25 * HOUR
    rows = [Generation(first + n * quarter, first + (n + 1) * quarter, WHOLE) for n in range(96)]
    points = of([*rows, *hours(WHOLE)])
    assert len(points) == 97
    assert points[-1].end - points[-1].start == HOUR


def test_of_two_rows_of_one_time_the_later_given_wins():
    """They are duplicates or revisions."""
    rows = [*hours(WHOLE), *hours({Fuel.WIND: 1.0})]
    assert [point.g_per_kwh for point in of(rows)] == [11]


def test_rows_may_come_in_any_order():
    """The custom is one of time, not of the list."""
    rows = hours(*day(), without(Fuel.GAS), WHOLE)
    assert of(reversed(rows)) == of(rows)


def test_no_rows_no_points():
    """An empty mix is nothing."""
    assert of([]) == []


def test_rows_that_cannot_matter_are_left_out():
    """Those far before what is wanted, which would judge the others, and those that have not begun."""
    rows = hours(*[WHOLE] * 40, end=NOW + 3 * HOUR)
    kept = usable(rows, NOW - 2 * HOUR, NOW - HOUR / 2)
    assert (kept[0].end, kept[-1].start) == (NOW - 2 * HOUR - MEMORY + HOUR, NOW - HOUR)


# Properties

_MW = st.one_of(st.just(0.0), st.floats(-90, 50_000))
_MIXES = st.dictionaries(st.sampled_from(sorted(Fuel)), _MW, max_size=8)


@given(st.lists(_MIXES, max_size=40), st.sampled_from([Scope.LIFECYCLE, Scope.DIRECT]))
def test_it_lies_between_the_factors_of_what_generates(mixes, scope):
    """Of any mixes, and never below zero; each point is of a row."""
    rows = hours(*mixes)
    by_start = {row.start: row for row in rows}
    for point in of(rows, scope=scope):
        active = [fuel for fuel, mw in by_start[point.start].mw.items() if mw > 0 and fuel not in STORAGE]
        factors = [getattr(TABLE[fuel], scope.value) for fuel in active]
        assert min(factors) - 1e-6 <= point.g_per_kwh <= max(factors) + 1e-6


@given(_MIXES, st.floats(0.5, 2))
def test_it_does_not_depend_on_the_unit(mix, factor):
    """Twice of everything is the same mix."""
    one, other = (of(hours({fuel: mw * by for fuel, mw in mix.items() if mw > 1e-3})) for by in (1, factor))
    assert [point.g_per_kwh for point in other] == pytest.approx([point.g_per_kwh for point in one])


@given(st.lists(st.sampled_from([WHOLE, without(Fuel.GAS), without(Fuel.OIL), {}]), min_size=25, max_size=60))
def test_more_to_look_back_on_never_lets_an_incomplete_row_pass(mixes):
    """Gas was there once among the first 24 h: no row without it counts."""
    rows = hours(WHOLE, *mixes)
    lacking = {row.start for row in rows if Fuel.GAS not in row.mw}
    assert not lacking & {point.start for point in of(rows)}


# From figures to rows


def cell(code, fuel, mw, start=NOW):
    return Cell(start, start + HOUR, code, fuel, mw)


def test_codes_of_one_fuel_add_up():
    """River and reservoir are hydro."""
    (row,) = collect([cell("B11", Fuel.HYDRO, 3.0), cell("B12", Fuel.HYDRO, 4.0), cell("B04", Fuel.GAS, 5.0)])
    assert row == Generation(NOW, NOW + HOUR, {Fuel.HYDRO: 7.0, Fuel.GAS: 5.0})


def test_of_two_figures_of_one_code_the_later_wins():
    """They do not add up."""
    (row,) = collect([cell("B11", Fuel.HYDRO, 3.0), cell("B11", Fuel.HYDRO, 4.0)])
    assert row.mw == {Fuel.HYDRO: 4.0}


def test_a_part_of_a_fuel_is_not_the_fuel():
    """Where reservoirs are not yet published, hydro is not."""
    rows = collect(
        [
            cell("B12", Fuel.HYDRO, 4.0, NOW - HOUR),
            cell("B11", Fuel.HYDRO, 3.0, NOW - HOUR),
            cell("B11", Fuel.HYDRO, 3.0),
            cell("B04", Fuel.GAS, 1.0),
        ]
    )
    assert [row.mw for row in rows] == [{Fuel.HYDRO: 7.0}, {Fuel.GAS: 1.0}]


def test_rows_come_in_order_with_their_date():
    """Whatever the order of the figures."""
    rows = collect([cell("a", Fuel.GAS, 1.0), cell("a", Fuel.GAS, 2.0, NOW - HOUR)], updated_at=NOW)
    assert [row.start for row in rows] == [NOW - HOUR, NOW]
    assert {row.updated_at for row in rows} == {NOW}


@pytest.mark.parametrize(
    ("value", "mw"), [(5, 5.0), (5.5, 5.5), ("8123", 8123.0), (" -4.5", -4.5), (0, 0.0), ("0", 0.0), (None, None)]
)
def test_a_figure_may_be_a_number_or_a_text(value, mw):
    """Zero is zero, and null is nothing."""
    assert megawatts(value, "x") == mw
    assert megawatts("", "x") is None


@pytest.mark.parametrize(
    "value", ["nan", "inf", "-inf", float("nan"), 10**400, "1e300", 5.1e6, True, [], {}, "abc", "-"]
)
def test_an_impossible_figure_is_refused(value):
    """It is named, on one line."""
    with pytest.raises(SchemaError, match=r"NG at noon is .* not a number of MW") as caught:
        megawatts(value, "NG at noon")
    assert len(str(caught.value)) < 200


def test_a_code_that_nobody_knows_counts_as_unknown_and_is_noted_once(caplog):
    """A new code of a source must not stop it, and not fill the log."""
    with caplog.at_level(logging.WARNING):
        found = [fuel_of("FUSION", {"NG": Fuel.GAS}, "a-source") for _ in range(3)]
        assert fuel_of("NG", {"NG": Fuel.GAS}, "a-source") is Fuel.GAS
    assert found == [Fuel.UNKNOWN] * 3
    assert [record.message for record in caplog.records] == [
        "a-source: fuel 'FUSION' is not known here and counts as unknown"
    ]


def test_the_scope_is_an_option():
    """Lifecycle if nothing is said."""
    assert scope_option(Options("x", {})) is Scope.LIFECYCLE
    assert scope_option(Options("x", {"scope": "direct"})) is Scope.DIRECT
    with pytest.raises(BadRequest, match="one of lifecycle, direct"):
        scope_option(Options("x", {"scope": "unspecified"}))
