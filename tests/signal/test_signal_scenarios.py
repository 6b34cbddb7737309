"""What users of other tools reported of grid data, each with the value that is right; the numbers are the reports'."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signal_bench import HOUR, NOW, Source, Typical, point

from chase.clock import ManualClock
from chase.outlook import FALLBACK, FRESH
from chase.signal import GridSignal, Limits
from providers.base import Kind, NoData, Series, Transient

HALF = HOUR / 2


class Raw(Source):
    """Gives the points it is told to, whatever was asked for."""

    def __init__(self, *points, **more):
        super().__init__(**more)
        self.points = list(points)

    def observe(self, start, end):
        self.asked += 1
        return Series.of(self.points)


class TestMissing:
    def test_an_hour_that_is_missing_is_a_gap_and_the_others_stay(self, make):
        """B01: the newest hour is null: the one before is gone by, with its age, and nothing is put in its place."""
        grid = make(Source(observed={NOW - n * HOUR: 300.0 + n for n in range(1, 100)}))
        grid.poll()
        outlook = grid.outlook()
        assert (outlook.now.start, outlook.now.g_per_kwh, outlook.age_s) == (NOW - HOUR, 301.0, 0.0)
        assert len(outlook.recent) == 99

    @pytest.mark.parametrize("sentinel", [-1.0, -999.0, 5001.0, 117_000.0])
    def test_what_no_grid_can_have_is_an_error_of_the_source(self, make, events, sentinel):
        """B02, B26: an outsider's provider that maps null to -1, or gives a bundled default: never a value to go by."""
        second = Source("second", observed={NOW: 99.0})
        grid = make(Raw(point(NOW - HOUR, 200.0), point(NOW, sentinel)), second)
        grid.poll()
        assert grid.outlook().now.source == "second"
        assert [code for code, _ in events] == ["source-failed"]
        assert "not within 0 to 5000" in events[0][1]

    def test_zero_is_not_the_cleanest_hour_of_a_coal_grid(self, make, clock):
        """B03, B18: a missing value that became 0.0 neither lowers the thresholds nor is gone by."""
        source = Source(observed={NOW - n * HOUR: 600.0 + 50 * (n % 3) for n in range(100)})
        grid = make(source)
        grid.poll()
        clock.advance(3600)
        source.observed[NOW + HOUR] = source.observed[NOW - 20 * HOUR] = 0.0
        grid.poll()
        outlook = grid.outlook()
        assert outlook.now.g_per_kwh == 600.0
        assert min(p.g_per_kwh for p in outlook.recent) == 600.0

    def test_zero_is_a_value_where_a_grid_comes_near_it(self, make):
        """17: hydro at 0 g/kWh direct is measured, and gone by."""
        grid = make(Source(observed={NOW - n * HOUR: float(n % 9) for n in range(100)}))
        grid.poll()
        assert (grid.outlook().now.g_per_kwh, grid.outlook().freshness) == (0.0, FRESH)


class TestShort:
    def test_a_horizon_depends_on_the_data(self, make):
        """B04: 31 half hours where 96 were asked for: each later hour is there, and is not labelled as theirs."""
        source = Source(
            observed={NOW - n * HALF: 150.0 for n in range(1, 200)},
            expected={NOW + n * HALF: 150.0 for n in range(31)},
            step=HALF,
        )
        grid = make(source)
        grid.poll()
        hours = grid.outlook().ahead
        assert hours[-1].end >= NOW + 48 * HOUR
        assert all("first" not in hour.by for hour in hours if hour.start >= NOW + 31 * HALF)
        assert all(a.end == b.start for a, b in pairwise(hours))

    @pytest.mark.parametrize("error", [None, NoData("200 with {}")])
    def test_an_empty_forecast_leaves_the_one_before(self, make, clock, error):
        """B04: {} or no rows with status 200: what was published for tomorrow an hour ago still counts."""
        source = Source(
            observed={NOW - n * HOUR: 150.0 for n in range(1, 4)}, expected={NOW + n * HOUR: 80.0 for n in range(48)}
        )
        grid = make(source)
        grid.poll()
        clock.advance(3600)
        source.expected, source.forecast_error = ({NOW - HOUR: 0.0}, None) if error is None else ({}, error)
        grid.poll()
        assert {hour.by for hour in grid.outlook().ahead if NOW + 10 * HOUR < hour.start < NOW + 47 * HOUR} <= {
            "first",
            "chase+first",
        }


class TestOutages:
    def test_days_without_data_are_seen_bridged_and_over_by_themselves(self, make, clock, events):
        """B05: a source's maintenance of three days: the age grows, the fallbacks come in order, and it recovers."""
        source = Source(observed={NOW - n * HOUR: 150.0 for n in range(200)})
        grid = make(source, typical=Typical())
        states = []
        for _ in range(72):
            grid.poll()
            outlook = grid.outlook()
            states.append((outlook.freshness, outlook.now.kind))
            clock.advance(3600)
        source.observed |= {NOW + n * HOUR: 160.0 for n in range(73)}
        grid.poll()
        assert list(dict.fromkeys(states)) == [
            ("fresh", Kind.MEASURED),
            ("stale", Kind.MEASURED),
            (FALLBACK, Kind.FORECAST),
            (FALLBACK, Kind.TYPICAL),
        ]
        assert (grid.outlook().now.g_per_kwh, grid.outlook().freshness) == (160.0, FRESH)
        assert [code for code, _ in events] == []  # it has answered all the time

    def test_the_last_value_has_an_age_that_changes_what_is_done(self, make, clock):
        """B26, B31: last known for six hours, then labelled as no observation; never the old one with a new date."""
        source = Source(observed={NOW - n * HOUR: 150.0 for n in range(100)})
        grid = make(source)
        grid.poll()
        source.error = Transient("503")
        ages = []
        for _ in range(30):
            clock.advance(1800)
            grid.poll()
            outlook = grid.outlook()
            if outlook.now.kind is Kind.MEASURED:
                assert outlook.now.start == NOW
                ages.append(outlook.age_s)
        assert ages[:2] == [0.0, 0.0]
        assert ages[2:] == [1800.0 * n for n in range(1, 13)]

    def test_looking_costs_no_request(self, make, clock):
        """B28: a decision every ten seconds on a value of the hour is one request in each slot of the source."""
        source = Source(observed={NOW + n * HOUR: 150.0 for n in range(-100, 3)}, poll_s=900.0)
        grid = make(source)
        for _ in range(720):
            grid.poll()
            for _ in range(8):  # as many jobs
                grid.outlook()
            clock.advance(10)
        assert source.asked == 9


class TestTime:
    def test_latest_that_goes_back_is_no_news_for_decisions(self, make, clock):
        """8: the newest hour vanishes from the answer and an older one is called the latest."""
        source = Raw(point(NOW - HOUR, 100.0), point(NOW, 200.0))
        grid = make(source)
        grid.poll()
        source.points = [point(NOW - HOUR, 100.0)]
        clock.advance(300)
        grid.poll()
        assert (grid.outlook().now.start, grid.outlook().now.g_per_kwh) == (NOW, 200.0)

    def test_measured_rows_of_the_future_are_never_knowledge(self, make, clock, events):
        """16: a source whose clock is ahead: its rows are left out, also when their time has come, until it gives them
        again; that is said once.
        """
        source = Raw(point(NOW, 100.0), point(NOW + 2 * HOUR, 7.0), point(NOW + 3 * HOUR, 8.0))
        grid = make(source)
        grid.poll()
        clock.advance(300)
        grid.poll()
        source.points = [point(NOW, 100.0)]
        clock.advance(2 * 3600)
        grid.poll()
        outlook = grid.outlook()
        assert (outlook.now.start, outlook.now.g_per_kwh) == (NOW, 100.0)
        assert 7.0 not in [hour.g_per_kwh for hour in outlook.ahead]
        text = "first (XX) says that 2 interval(s) to come were observed: ignored; is a clock wrong?"
        assert events == [("clock-skew", text)]

    def test_a_first_source_that_recovers_behind_the_second_waits_too(self, make, clock):
        """Back again with hours that are older than the one gone by meanwhile: not before it has caught up."""
        first = Source(observed={NOW + n * HOUR: 100.0 for n in range(-100, -3)})
        second = Source("second", observed={NOW + n * HOUR: 50.0 for n in range(-100, 9)})
        grid = make(first, second, limits=Limits(history_h=168, fresh_s=3600.0, usable_s=21600.0))
        ends = []
        for hour in range(8):
            if hour > 2:
                first.observed |= {NOW + n * HOUR: 100.0 for n in range(-3, 2 * hour - 6)}
                second.error = Transient("down")
            grid.poll()
            ends.append((grid.outlook().now.source, grid.outlook().now.end))
            clock.advance(3600)
        assert [end for _, end in ends] == sorted(end for _, end in ends)
        assert [name for name, _ in ends] == ["second"] * 5 + ["first"] * 3


answers = st.lists(
    st.tuples(
        st.integers(60, 7200),
        st.dictionaries(st.integers(-12, 12), st.floats(0, 900), max_size=6),
        st.dictionaries(st.integers(-12, 12), st.floats(0, 900), max_size=6),
        st.sampled_from(["both", "first", "second", "none"]),
    ),
    max_size=20,
)


@settings(deadline=None)
@given(answers)
def test_observed_time_never_runs_back_and_nothing_expired_is_gone_by(steps):
    """Two sources that come late, go back, fail, claim the future, at any times: among the observed values gone by
    none is older than the one before, unless that one has expired, none is older than six hours, and none is called
    fresh after ninety minutes or lies in the future.
    """
    clock, limits = ManualClock(NOW), Limits(history_h=168)
    first, second = Raw(name="first"), Raw(name="second")
    grid = GridSignal("xx", [first, second], clock=clock, limits=limits)
    before = None
    for seconds, of_first, of_second, up in steps:
        clock.advance(seconds)
        for source, said in ((first, of_first), (second, of_second)):
            hour = clock.now().replace(minute=0, second=0, microsecond=0)
            source.points = [point(hour + n * HOUR, value, source=source.name) for n, value in said.items()]
            source.error = None
        if up != "both":
            for source in {"first": [second], "second": [first], "none": [first, second]}[up]:
                source.points = []
        grid.poll()
        outlook = grid.outlook()
        if outlook.now is None or outlook.now.kind is not Kind.MEASURED:
            continue
        age_s = (clock.now() - outlook.now.end).total_seconds()
        assert outlook.now.start <= clock.now()
        assert age_s <= limits.usable_s
        assert outlook.freshness != FRESH or age_s <= limits.fresh_s
        if before is not None and clock.now() - before <= timedelta(seconds=limits.usable_s):
            assert outlook.now.end >= before
        before = outlook.now.end
