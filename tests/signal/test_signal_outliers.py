"""What is too odd to act on, what makes it credible after all, and that real grids are left alone."""

from __future__ import annotations

import csv
import gzip
import math
import os
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signal_bench import HOUR, NOW, Kept, Source, Typical, point

from chase.outliers import FACTOR, Gate, differ
from chase.signal import Limits
from providers.base import Boundary, Kind, Scope, Signal, Transient

DATA = Path(os.environ.get("CHASE_DATA") or Path(__file__).parents[3] / "shared" / "data") / "intensity"
FIVE = timedelta(minutes=5)


def german(hours: int, *, until: datetime = NOW) -> dict[datetime, float]:
    """Hours as Germany has them: 300 to 480 g/kWh by day and night, the last one at ``until``."""
    starts = [until - n * HOUR for n in reversed(range(hours))]
    return {at: 390.0 + 90.0 * math.cos(at.hour / 24 * 2 * math.pi) for at in starts}


def hydro(hours: int) -> dict[datetime, float]:
    """Hours as Norway has them: 4 to 12 g/kWh direct."""
    return {NOW - n * HOUR: 8.0 + 4.0 * math.sin(n) for n in reversed(range(hours))}


def sifted(series: dict[datetime, float], *, step: timedelta = HOUR, **more) -> tuple[list[float], list[float]]:
    """What is taken of a whole series at once, and what is held."""
    gate = Gate(**more)
    taken = gate.sift({}, [point(at, value, step=step) for at, value in series.items()])
    return [p.g_per_kwh for p in taken], [p.g_per_kwh for p in gate.held.values()]


class TestOdd:
    @pytest.mark.parametrize(
        "wrong",
        [
            pytest.param(0.0, id="zero where nothing is known"),
            pytest.param(0.39, id="kg for g"),
            pytest.param(1720.0, id="the pounds of a coal grid"),
            pytest.param(4999.0, id="a default value"),
            pytest.param(95.0, id="half of the mix is missing"),
        ],
    )
    def test_a_value_unlike_all_before_is_held_back(self, wrong):
        """One hour among a fortnight of others, whatever stands before and after it is taken."""
        series = german(336)
        at = sorted(series)[200]
        taken, held = sifted({**series, at: wrong})
        assert held == [wrong]
        assert len(taken) == 335

    @pytest.mark.parametrize("value", [200.0, 150.0, 700.0, 900.0])
    def test_a_record_day_is_not_odd(self, value):
        """A grid may well be cleaner or dirtier than in the week before: up to twice is taken at once."""
        assert sifted({**german(336), NOW: value})[1] == []

    def test_a_zero_is_odd_only_where_the_grid_has_never_been_near_it(self):
        """Hydro comes close to nothing and may say so; a grid of coal and gas may not."""
        assert sifted({**hydro(336), NOW: 0.0})[1] == []
        assert sifted({**german(336), NOW: 0.0})[1] == [0.0]

    def test_a_small_grid_may_swing(self):
        """From 8 to 34 g/kWh is a factor of four, and weather all the same."""
        assert sifted({**hydro(336), NOW: 34.0})[1] == []

    def test_a_slope_is_no_jump(self):
        """A gale takes a grid from 200 to 4 g/kWh within a day, each hour near the one before."""
        falling = {NOW + n * HOUR: 200.0 * 0.8**n for n in range(1, 20)}
        assert sifted({**dict.fromkeys(german(200), 200.0), **falling})[1] == []

    @pytest.mark.parametrize("hours", [1, 24, 47])
    def test_little_history_holds_nothing(self, hours):
        """Within the first two days anything may be usual."""
        assert sifted({**german(hours), NOW + HOUR: 0.0})[1] == []

    def test_a_day_of_five_minutes_is_little_history_too(self):
        """Many points of a short time say nothing of the night to come."""
        series = {NOW - n * FIVE: 400.0 for n in range(288)}
        assert sifted({**series, NOW + FIVE: 0.0}, step=FIVE)[1] == []

    def test_what_is_typical_of_the_hour_is_not_odd(self):
        """A grid that was strange all week and is itself again."""
        series = dict.fromkeys(german(200), 1000.0)
        assert sifted({**series, NOW: 300.0}, typical=lambda _: 320.0)[1] == []
        assert sifted({**series, NOW: 300.0})[1] == [300.0]

    def test_one_wrong_value_in_the_past_does_not_excuse_another(self):
        """What got in while history was short is not the range that others are measured by."""
        series = german(336)
        first, last = sorted(series)[3], NOW
        assert sifted({**series, first: 0.0, last: 0.0})[1] == [0.0]

    def test_what_is_typical_by_itself_is_never_held(self):
        """A profile is no measurement."""
        gate = Gate()
        known = {at: point(at, value) for at, value in german(200).items()}
        assert gate.sift(known, [point(NOW + HOUR, 0.0, kind=Kind.TYPICAL)])
        assert gate.held == {}

    @pytest.mark.parametrize("factor", [0.0, 1.0])
    def test_a_factor_of_one_switches_it_off(self, factor):
        """An operator who wants every value as it comes can have that."""
        assert sifted({**german(336), NOW: 0.0}, factor=factor)[1] == []

    def test_a_larger_factor_holds_less(self):
        """The factor is the operator's."""
        series = {**german(336), NOW: 1200.0}
        assert sifted(series, factor=2.0)[1] == [1200.0]
        assert sifted(series, factor=4.0)[1] == []


class TestConfirmed:
    def grown(self, *values: float, step: timedelta = HOUR, before: dict | None = None, **vouch):
        """Values that come one at a time after a fortnight; after each, what is held."""
        gate = Gate()
        known = {at: point(at, value) for at, value in (before or german(336)).items()}
        start, held = NOW + HOUR, []
        for n, value in enumerate(values):
            fresh = point(start + n * step, value, step=step)
            known |= {p.start: p for p in gate.sift(known, [fresh], **vouch)}
            known = dict(sorted(known.items()))
            held.append([p.g_per_kwh for p in gate.held.values()])
        return known, held

    def test_the_next_interval_confirms_a_new_level(self):
        """A source that counts otherwise from now on: one interval's delay, then both are known."""
        known, held = self.grown(1200.0, 1230.0, 1210.0)
        assert held == [[1200.0], [], []]
        assert [p.g_per_kwh for p in known.values()][-3:] == [1200.0, 1230.0, 1210.0]

    def test_the_next_interval_refutes_a_spike(self):
        """It stays out, and what comes after it is believed."""
        known, held = self.grown(1200.0, 400.0, 410.0)
        assert held == [[1200.0]] * 3
        assert 1200.0 not in [p.g_per_kwh for p in known.values()]

    def test_after_six_in_a_row_the_source_is_like_that(self):
        """Values that do not agree with each other either are taken when they do not end."""
        _, held = self.grown(1300.0, 4000.0, 1500.0, 4500.0, 1400.0, 4900.0)
        assert [len(values) for values in held] == [1, 2, 3, 4, 5, 0]

    def test_a_zero_does_not_confirm_a_zero(self):
        """A placeholder repeats itself (entsoe-py 74): only a whole day of it is believed."""
        _, held = self.grown(*[0.0] * 25)
        assert [len(values) for values in held[:23]] == list(range(1, 24))
        assert held[23:] == [[], []]

    def test_zeros_of_five_minutes_take_a_day_too(self):
        """Six of them are half an hour, which is nothing."""
        _, held = self.grown(*[0.0] * 30, step=FIVE)
        assert len(held[-1]) == 30

    def test_the_end_of_zeros_leaves_them_out(self):
        """The source has found its data again: what it said meanwhile counts for nothing."""
        known, held = self.grown(0.0, 0.0, 0.0, 410.0)
        assert held[-1] == [0.0, 0.0, 0.0]
        assert next(reversed(known.values())).g_per_kwh == 410.0

    def test_another_source_confirms_at_once(self):
        """Two that agree are no accident, also of a zero."""
        _, held = self.grown(0.0, vouch=lambda p: p.g_per_kwh == 0.0)
        assert held == [[]]

    def test_a_revision_is_believed(self):
        """The source corrects what was held back: nothing is held any more."""
        gate = Gate()
        known = {at: point(at, value) for at, value in german(336).items()}
        assert gate.sift(known, [point(NOW + HOUR, 0.0)]) == []
        assert [p.g_per_kwh for p in gate.sift(known, [point(NOW + HOUR, 402.0)])] == [402.0]
        assert gate.held == {}

    def test_a_revision_of_the_past_to_something_odd_is_held(self):
        """The value known of that hour stays, since those on both sides speak against the new one."""
        gate = Gate()
        known = {at: point(at, value) for at, value in german(336).items()}
        assert gate.sift(known, [point(NOW - 20 * HOUR, 0.0)]) == []
        assert list(gate.held) == [NOW - 20 * HOUR]

    def test_after_a_gap_only_the_week_speaks(self):
        """Nothing stands beside a value that comes twelve hours after the last."""
        known = {at: point(at, value) for at, value in german(336).items()}
        later = NOW + 12 * HOUR
        assert Gate().sift(known, [point(later, 700.0)])
        assert not Gate().sift(known, [point(later, 1200.0)])


def test_the_factor_is_symmetric_and_one_for_equals():
    """f(a, b) = (max + 20) / (min + 20): by hand for a zero against 20, and for double."""
    assert differ(0.0, 20.0) == differ(20.0, 0.0) == 2.0
    assert differ(300.0, 300.0) == 1.0
    assert differ(1020.0, 500.0) == 2.0


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 5000), min_size=1, max_size=120),
    st.lists(st.integers(1, 119), max_size=6),
)
def test_nothing_is_lost_and_nothing_is_in_both(values, cuts):
    """Whatever comes in whatever pieces: each point is taken or held, once, with its own value; the order is kept."""
    points = [point(NOW + n * HOUR, value) for n, value in enumerate(values)]
    edges = [0, *sorted({cut for cut in cuts if cut < len(points)}), len(points)]
    gate, known = Gate(), {}
    for first, last in pairwise(edges):
        known |= {p.start: p for p in gate.sift(known, points[first:last])}
        known = dict(sorted(known.items()))
    assert not set(known) & set(gate.held)
    assert {**known, **gate.held} == {p.start: p for p in points}
    assert list(gate.held) == sorted(gate.held)


@settings(deadline=None)
@given(st.lists(st.floats(100, 190), min_size=60, max_size=200), st.integers(0, 8))
def test_values_within_a_factor_of_two_are_never_held(values, gap):
    """However wild within its range, a grid is believed."""
    starts = [NOW + (n + (gap if n > 50 else 0)) * HOUR for n in range(len(values))]
    assert sifted(dict(zip(starts, values, strict=True)))[1] == []


class TestOfASignal:
    @pytest.fixture
    def source(self):
        return Source(observed=german(336))

    def test_decisions_do_not_see_it_and_the_store_does(self, make, clock, events, source):
        """The hour before stays in force with its age; the value is kept with the others, and one event names it."""
        kept = Kept()
        grid = make(source, store=kept)
        grid.poll()
        before = grid.outlook().now
        clock.advance(3600)
        source.observed[NOW + HOUR] = 0.0
        assert grid.poll()
        outlook = grid.outlook()
        assert (outlook.now, outlook.age_s) == (before, 0.0)
        assert 0.0 not in [p.g_per_kwh for p in outlook.recent]
        assert kept.points[-1].g_per_kwh == 0.0
        text = "first (XX) says 0 g/kWh for 2026-03-02 13:00Z, far from all it said before"
        assert events == [("outlier-held", f"{text}: held back until it is confirmed")]
        assert text in outlook.note

    def test_it_is_said_once_and_so_is_its_end(self, make, clock, events, source):
        """Not at each poll, nor for each further one; and when the grid is back, once."""
        grid = make(source)
        grid.poll()
        for hour in range(1, 5):
            source.observed[NOW + hour * HOUR] = 0.0 if hour < 4 else 400.0
            for _ in range(12):
                clock.advance(300)
                grid.poll()
        assert [code for code, _ in events] == ["outlier-held", "outlier-over"]
        assert grid.outlook().now.g_per_kwh == 400.0

    def test_the_value_before_grows_old(self, make, clock, source):
        """What is held is no sign of life: after its time the last value is stale, and then a forecast stands in."""
        grid = make(source)
        grid.poll()
        seen = []
        for hour in range(1, 9):
            clock.advance(3600)
            source.observed[NOW + hour * HOUR] = 0.0
            grid.poll()
            seen.append((grid.outlook().freshness, grid.outlook().now.kind))
        assert seen[1] == ("fresh", Kind.MEASURED)
        assert seen[4] == ("stale", Kind.MEASURED)
        assert seen[7] == ("fallback", Kind.FORECAST)
        assert all(hour.g_per_kwh > 100 for hour in grid.outlook().ahead)

    def test_the_next_source_is_asked_and_confirms(self, make, clock, events, source):
        """In doubt a second source is asked though the first is fresh; if it says alike, the first is believed."""
        second = Source("second", observed=dict.fromkeys(german(336), 5.0))
        grid = make(source, second)
        grid.poll()
        assert second.asked == 0
        clock.advance(3600)
        source.observed[NOW + HOUR], second.observed[NOW + HOUR] = 0.0, 3.0
        grid.poll()
        assert second.asked == 1
        assert (grid.outlook().now.source, grid.outlook().now.g_per_kwh) == ("first", 0.0)
        assert "outlier-held" in [code for code, _ in events]

    def test_a_second_source_that_disagrees_confirms_nothing(self, make, clock, source):
        """It has the usual value: the first one's stays out."""
        second = Source("second", observed=german(340, until=NOW + HOUR))
        grid = make(source, second)
        grid.poll()
        clock.advance(3600)
        source.observed[NOW + HOUR] = 0.0
        grid.poll()
        assert grid.outlook().now.g_per_kwh >= 300

    def test_a_source_of_another_scope_is_no_witness(self, make, clock, source):
        """Direct emissions near nothing do not confirm a lifecycle zero."""
        other = (Signal.AVERAGE, Scope.LIFECYCLE, Boundary.PRODUCTION)
        second = Source("second", observed=dict.fromkeys(german(340, until=NOW + HOUR), 5.0), of=other)
        grid = make(source, second)
        grid.poll()
        clock.advance(3600)
        source.observed[NOW + HOUR] = 0.0
        grid.poll()
        assert grid.outlook().now.g_per_kwh >= 300

    def test_a_restart_holds_back_what_was_held(self, make, source):
        """What the database kept is sifted like what a source says."""
        grid = make(Source(error=Transient("down")))
        grid.remember([point(at, value) for at, value in source.observed.items()])
        grid.remember([point(NOW, 0.0)])
        assert grid.outlook().now.g_per_kwh >= 300

    def test_an_operator_can_switch_it_off(self, make, clock, source):
        """With a factor of 1 the zero is gone by."""
        grid = make(source, limits=Limits(history_h=168, outlier_factor=1.0))
        grid.poll()
        clock.advance(3600)
        source.observed[NOW + HOUR] = 0.0
        grid.poll()
        assert grid.outlook().now.g_per_kwh == 0.0

    def test_the_typical_profile_of_the_region_speaks_too(self, make, clock):
        """222 g/kWh is usual there, so 200 after a strange week is taken."""
        source = Source(observed=dict.fromkeys(german(336), 1500.0))
        grid = make(source, typical=Typical())
        grid.poll()
        clock.advance(3600)
        source.observed[NOW + HOUR] = 200.0
        grid.poll()
        assert grid.outlook().now.g_per_kwh == 200.0

    def test_a_revised_vintage_that_is_odd_leaves_the_older_one_in_force(self, make, clock, source):
        """The newest word of an hour is no better for being the newest."""
        grid = make(source)
        grid.poll()
        before = grid.outlook().now
        source.observed[NOW] = 4200.0
        clock.advance(300)
        grid.poll()
        assert grid.outlook().now == before
        source.observed[NOW] = 450.0
        clock.advance(300)
        grid.poll()
        assert grid.outlook().now.g_per_kwh == 450.0


def _column(path: Path, column: str) -> dict[datetime, float]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {datetime.fromisoformat(row["start_utc"]).astimezone(UTC): float(row[column]) for row in rows}


def _held_live(series: dict[datetime, float]) -> int:
    """How many are held when they come, each with the eight days before it."""
    points = [point(at, value) for at, value in series.items()]
    held = 0
    for n, (before, newest) in enumerate(pairwise(points), start=1):
        if differ(before.g_per_kwh, newest.g_per_kwh) > FACTOR:  # else it is taken: see test_a_slope_is_no_jump
            week = points[max(0, n - 192) : n]
            held += not Gate().sift({p.start: p for p in week}, [newest])
    return held


def test_a_real_year_is_left_alone():
    """Every hour of 2023 of every grid in the data, lifecycle and direct: of a quarter of a million values two are
    held when they come (GB direct, in a gale), and none once the hour after is known.
    """
    files = sorted(DATA.glob("*_2023_hourly.csv.gz"))
    if not files:
        pytest.skip("the folder of the data is not here")
    held, values = {}, 0
    for path in files:
        for column in ("lifecycle_gco2e_per_kwh", "direct_gco2_per_kwh"):
            series = _column(path, column)
            taken, out = sifted(series)
            assert (len(taken), out) == (len(series), []), path.name
            held[f"{path.name} {column}"] = _held_live(series)
            values += len(series)
    assert sum(held.values()) <= 2, held
    assert values >= 8760 * 2 * len(files)
