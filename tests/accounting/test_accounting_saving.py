"""What is called saved: its two parts, full power over its own time, the host, and money."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from account_cases import J_PER_KWH, T0, THREE, close, frontiers, jobs, moved, standstill, work
from hypothesis import given
from hypothesis import strategies as st

from chase.accounting import best_fixed, hosted, reprice, summarise
from chase.pricing import Paid
from chase.records import IntervalRecord
from providers.base import Series
from zeus_core.frontier import Frontier

GRAMS = ("grams", "reference_grams", "reference_grams_by_interval", "saved_grams", "efficiency_grams", "timing_grams")
DOUBTS = ("saved_grams_sd", "efficiency_grams_sd", "timing_grams_sd")
MONEY = ("cost", "reference_cost", "reference_cost_by_interval", "saved_cost", "efficiency_cost", "timing_cost")


def with_stalls(rows: list[IntervalRecord], stalls: list[tuple[float, bool]]) -> list[IntervalRecord]:
    """Before each row so many seconds more, without progress, or without any account at all (a gap)."""
    made: list[IntervalRecord] = []
    late_s = 0.0
    for row, (seconds, accounted) in zip(rows, stalls, strict=True):
        if seconds and accounted:
            began_s = (row.start - T0).total_seconds() + late_s
            made.append(standstill(began_s, seconds, 50.0 * seconds, row.intensity_g_per_kwh, pue=row.pue))
        late_s += seconds
        made.append(moved(row, late_s))
    return made


@st.composite
def stalled(draw: st.DrawFn, intensities: st.SearchStrategy[float]) -> tuple[Frontier, list[IntervalRecord]]:
    chosen, rows = draw(jobs(intensities))
    one = st.tuples(st.just(0.0) | st.floats(1.0, 3000.0), st.booleans())
    return chosen, with_stalls(rows, draw(st.lists(one, min_size=len(rows), max_size=len(rows))))


@given(stalled(st.floats(-300.0, 1200.0)))
def test_saved_is_its_two_parts_to_the_last_bit(job):
    """So that nobody who adds up what is printed finds another number; of grams and of money."""
    chosen, rows = job
    rows = [replace(row, price_per_kwh=0.2 - i / 10, currency="EUR", cost=0.1) for i, row in enumerate(rows)]
    summary = summarise(rows, chosen)
    assert summary.saved_grams == summary.efficiency_grams + summary.timing_grams
    assert summary.saved_cost == summary.efficiency_cost + summary.timing_cost
    assert summary.reference_grams == summary.grams + summary.saved_grams
    assert summary.reference_energy_j - summary.energy_j == close(summary.saved_energy_j, summary.reference_energy_j)


@given(stalled(st.just(250.0)))
def test_at_a_constant_intensity_it_does_not_matter_when_work_is_done(job):
    """Full power over its own time line, stalls and gaps included, is full power interval by interval."""
    chosen, rows = job
    summary = summarise(rows, chosen)
    assert summary.reference_grams == close(summary.reference_grams_by_interval, summary.grams)
    assert summary.timing_grams <= 1e-5 * summary.grams


@given(
    frontiers(),
    st.lists(st.floats(0.0, 1200.0), min_size=1, max_size=8),
    st.just(0.0) | st.floats(0.0, 500.0),
    st.data(),
)
def test_a_fixed_setting_has_no_timing_whatever_its_host_draws(chosen, intensities, host_power_w, data):
    """The hull is that of the power of GPUs and host together: what stands on it all along has only efficiency."""
    stand = data.draw(st.sampled_from(hosted(chosen, host_power_w).hull))
    steps = [(stand.setting.power_limit_w, 100.0, g) for g in intensities]
    summary = summarise(work(chosen, steps, host_power_w=host_power_w), chosen)
    assert summary.timing_grams == close(0.0, summary.reference_grams)
    assert summary.slowdown == pytest.approx(hosted(chosen, host_power_w).slowdown(stand), abs=1e-5)


@given(
    frontiers(), st.floats(0.0, 500.0), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 900)), min_size=1, max_size=6)
)
def test_a_host_beside_the_gpus_is_the_same_as_within_them(chosen, host_power_w, picked):
    """Watts that are configured and watts that a frontier was measured with give one account but for whose they are."""
    steps = [(chosen.points[int(at * (len(chosen.points) - 1))].setting.power_limit_w, 100.0, g) for at, g in picked]
    inside = hosted(chosen, host_power_w)
    beside, within = (
        summarise(work(chosen, steps, host_power_w=host_power_w), chosen),
        summarise(work(inside, steps), inside),
    )
    assert beside.energy_j + beside.host_energy_j == close(within.energy_j, within.energy_j)
    assert beside.host_energy_j == close(host_power_w * beside.seconds, within.energy_j)
    full = beside.reference_energy_j + beside.reference_host_energy_j
    assert full == close(within.reference_energy_j, within.energy_j)
    for name in ("saved_energy_j", *GRAMS, *DOUBTS):
        scale = within.reference_energy_j if name.endswith("_j") else within.grams
        assert getattr(beside, name) == close(getattr(within, name), scale), name


@given(frontiers(), st.floats(0.0, 1000.0), st.floats(0.05, 1.0), st.floats(1.0, 1000.0))
def test_least_energy_with_a_host_is_not_more_than_the_host_beside_the_least(chosen, host_power_w, relative, units):
    """A slow point that saves GPU energy may cost more of the host than it saves; the hull with the host knows that."""
    seconds = units / (relative * chosen.fastest.rate)
    together = best_fixed(hosted(chosen, host_power_w), units, seconds).energy_j
    apart = best_fixed(chosen, units, seconds).energy_j + host_power_w * seconds
    assert together <= apart * (1 + 1e-9)


@given(stalled(st.floats(0.0, 1200.0)), st.floats(0.01, 100.0))
def test_all_grams_grow_with_the_intensity(job, factor):
    """Twice as dirty a grid is twice the emissions, the savings, and their uncertainty."""
    chosen, rows = job
    dirtier = [
        replace(
            row,
            intensity_g_per_kwh=row.intensity_g_per_kwh * factor,
            intensity_kind="typical",
            grams=row.grams * factor,
            reference_grams=row.reference_grams * factor,
        )
        for row in rows
    ]
    plain = summarise([replace(row, intensity_kind="typical") for row in rows], chosen)
    scaled = summarise(dirtier, chosen)
    for name in (*GRAMS, *DOUBTS):
        assert getattr(scaled, name) == close(factor * getattr(plain, name), scaled.grams), name
    assert scaled.saved_energy_j == plain.saved_energy_j


def test_full_power_works_at_the_time_at_which_it_would():
    """Four times 1000 units in 1250 s each as the grid grows dirtier: at full power all were done 1000 s each, earlier.

    Its second 1000 units fall a quarter into the first 1250 s, and so on; each is priced at what was then.
    """
    rows = work(THREE, [(200.0, 1000, g) for g in (100.0, 200.0, 300.0, 400.0)])
    summary = summarise(rows, THREE)
    means = [100.0, 0.25 * 100 + 0.75 * 200, 0.5 * 200 + 0.5 * 300, 0.75 * 300 + 0.25 * 400]
    assert summary.reference_grams == pytest.approx(sum(300e3 * g / J_PER_KWH for g in means))
    assert summary.reference_grams_by_interval == pytest.approx(300e3 * 1000 / J_PER_KWH)
    assert summary.reference_seconds == pytest.approx(4000.0)
    assert summary.efficiency_grams == pytest.approx(summary.saved_grams)
    assert summary.timing_grams == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("accounted", [True, False])
def test_full_power_stands_still_when_the_job_does(accounted: bool):
    """A pause of ten minutes after 1000 units is there in both time lines, whether or not its energy was booked."""
    rows = work(THREE, [(200.0, 1000, 100.0), (300.0, 1000, 500.0)])
    summary = summarise(with_stalls(rows, [(0.0, True), (600.0, accounted)]), THREE)
    # Done at 1000 s, still until 1600 s, and then 250 s before and 750 s after the grid changes at 1250 + 600 s. While
    # nothing is booked the last intensity holds.
    known = 250 * (500 if accounted else 100) + 750 * 500
    expected = 300e3 * 100 + 300e3 * known / 1000
    booked = 50.0 * 600 * 500 if accounted else 0.0
    assert summary.reference_grams == pytest.approx((expected + booked) / J_PER_KWH)
    assert summary.seconds - summary.reference_seconds == pytest.approx(250.0)


@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.integers(0, 900), st.booleans(), st.sampled_from([300.0, 150.0])),
        min_size=1,
        max_size=7,
    )
)
def test_the_own_time_line_second_by_second(steps):
    """For any job of work and standstill: the same as letting full power work off one unit a second."""
    half = Frontier.of(replace(p, seconds_per_unit=s, joules_per_unit=j) for p, s, j in _half())
    rows, at_s = [], 0
    for units, g_per_kwh, works, limit_w in steps:
        lasts = units * (1 if limit_w == 300.0 else 2)
        if works:
            (row,) = work(half, [(limit_w, float(units), float(g_per_kwh))])
            begins = T0 + timedelta(seconds=at_s)
            rows.append(replace(row, start=begins, end=begins + timedelta(seconds=lasts)))
        else:
            rows.append(standstill(float(at_s), float(lasts), 10.0, float(g_per_kwh)))
        at_s += lasts
    if not any(row.progress for row in rows):
        return
    grid = [row.intensity_g_per_kwh for row in rows for _ in range(round((row.end - row.start).total_seconds()))]
    grams, second = 0.0, 0
    for row in rows:
        for _ in range(round(row.units) if row.progress else round((row.end - row.start).total_seconds())):
            grams += 300.0 * grid[second] / J_PER_KWH if row.progress else 0.0
            second += 1
        grams += 0.0 if row.progress else row.grams
    assert summarise(rows, half).reference_grams == pytest.approx(grams, abs=1e-9)


def _half():
    fast, slow, _ = THREE.points
    return [(fast, 1.0, 300.0), (replace(slow, setting=replace(slow.setting, power_limit_w=150.0)), 2.0, 200.0)]


def test_a_hang_saves_neither_grams_nor_money():
    """An hour at a dear and dirty moment, host and all: it costs, and it is nobody's saving or loss (rule G25)."""
    paid = {"cost": Paid(0.3, "EUR", "day-ahead"), "host_power_w": 100.0}
    rows = work(THREE, [(250.0, 1000, 200.0)], **paid)
    hang = standstill(1050, 3600, 360e3, 900.0, **{**paid, "cost": Paid(2.0, "EUR", "day-ahead")})
    alone, hung = summarise(rows, THREE), summarise([*rows, hang], THREE)
    for name in ("saved_energy_j", "slowdown", *GRAMS[3:], *MONEY[3:]):
        assert getattr(hung, name) == pytest.approx(getattr(alone, name)), name
    assert hung.cost == pytest.approx(alone.cost + 2.0 * 720e3 / J_PER_KWH)
    assert hung.reference_seconds - alone.reference_seconds == pytest.approx(3600.0)
    assert hung.compared_share == pytest.approx(357e3 / (357e3 + 720e3))


def test_money_is_split_as_grams_are():
    """Fast while it is cheap: all of it beyond the fixed setting is timing; a negative price pays for drawing."""
    cheap, dear = Paid(-0.1, "EUR", "day-ahead"), Paid(0.5, "EUR", "day-ahead")
    rows = work(THREE, [(300.0, 1000, 100.0), (200.0, 1000, 100.0)])
    rows = [
        replace(row, price_per_kwh=p.price_per_kwh, price_kind=p.kind, currency=p.currency, cost=c, reference_cost=r)
        for row, p, c, r in zip(
            rows, (cheap, dear), (-300e3 / 3.6e7, 240e3 / 7.2e6), (-300e3 / 3.6e7, 300e3 / 7.2e6), strict=True
        )
    ]
    summary = summarise(rows, THREE)
    fixed = best_fixed(THREE, 2000, 2250).energy_j * (1000 * -0.1 + 1250 * 0.5) / 2250
    assert summary.cost == pytest.approx(-300 / 3.6e4 + 240 / 7.2e3)
    assert summary.saved_cost == pytest.approx(60e3 * 0.5 / J_PER_KWH)
    assert summary.timing_cost == pytest.approx(fixed / J_PER_KWH - summary.cost)
    assert summary.timing_cost > 0
    assert (summary.currency, summary.price_kinds) == ("EUR", ("day-ahead",))


def test_currencies_are_not_added_up():
    """A job during which the region's currency changed has a cost in each interval, and none of its own."""
    rows = work(THREE, [(250.0, 100, 100.0)], cost=Paid(0.1, "DKK", "day-ahead"))
    rows += work(THREE, [(250.0, 100, 100.0)], cost=Paid(0.1, "EUR", "day-ahead"))
    summary = summarise(rows, THREE)
    assert (summary.cost, summary.currency, summary.saved_cost) == (None, "", None)
    assert summary.saved_grams is not None


def test_without_a_price_there_is_no_cost():
    """Unknown is None, in rows and in sums; what part was paid for does not stand for all in silence."""
    unknown = work(THREE, [(250.0, 100, 100.0)])
    assert {(row.cost, row.reference_cost, row.price_kind) for row in unknown} == {(None, None, "")}
    assert all(getattr(summarise(unknown, THREE), name) is None for name in MONEY)


def test_repricing_nothing_keeps_every_row():
    """Neither an intensity nor a price is known of that time: the rows are the very ones that were given."""
    rows = work(THREE, [(250.0, 100, 100.0)], cost=Paid(0.1, "EUR", "assumed"))
    assert all(a is b for a, b in zip(reprice(rows, Series()), rows, strict=True))


@given(st.integers(1, 5), st.integers(0, 5), st.booleans())
def test_work_whose_report_has_no_price_is_not_saved_on(quiet, unpriced, before):
    """The quiet intervals before a report belong to it: without its price, or one of theirs, none of them counts."""
    power_w, done = 192.0, 48.0  # at 200 W, in a minute
    report = work(THREE, [(200.0, done * (quiet + 1), 100.0)])[0]
    start = timedelta(minutes=quiet)
    drawn = {"energy_j": 60.0 * power_w, "grams": 60.0 * power_w * 100.0 / J_PER_KWH}
    report = replace(report, start=T0 + start, end=T0 + start + timedelta(minutes=1), **drawn)
    rows = [replace(standstill(60.0 * i, 60.0, 60.0 * power_w), power_limit_w=200.0) for i in range(quiet)] + [report]
    whole = summarise(rows, THREE)
    assert whole.saved_grams == close(0.2 * whole.reference_grams, whole.grams)
    missing = min(unpriced, quiet)
    rows[missing] = replace(rows[missing], intensity_g_per_kwh=None, intensity_kind="", grams=None)
    early = work(THREE, [(200.0, 60.0, 100.0)]) if before else []
    rows = [*early, *(moved(row, 60.0 * 1.25 * len(early)) for row in rows)]
    summary, alone = summarise(rows, THREE), summarise(early, THREE)
    assert summary.saved_grams == (close(alone.saved_grams, alone.grams) if before else None)
