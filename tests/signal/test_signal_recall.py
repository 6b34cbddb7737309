"""A real database under the signal: every vintage, what a restart knows, and the price of what was drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from signal_bench import HOUR, NOW, Source, point

from chase.outlook import FRESH, STALE
from chase.pricing import price
from chase.recall import best_known, recall
from chase.signal import Limits
from chase.store import Store
from providers.base import Boundary, Kind, Scope, Signal, Transient

MONTH = timedelta(days=28)


@pytest.fixture
def store(tmp_path, clock) -> Iterator[Store]:
    made = Store(tmp_path / "chase.sqlite", clock=clock)
    yield made
    made.close()


def vintages(store: Store, **more) -> list[tuple[float, float]]:
    """Hours from now, and value, of each vintage."""
    return [((p.start - NOW) / HOUR, p.g_per_kwh) for p in store.vintages("XX", "first", **more)]


class TestVintages:
    def test_each_revision_of_the_last_three_days_is_kept(self, make, clock, store):
        """Read again at each poll: what changed is a new vintage beside the old one, what did not is none."""
        source = Source(observed={NOW - n * HOUR: 100.0 for n in range(100)})
        grid = make(source, store=store)
        grid.poll()
        for hours_ago, value in ((71, 90.0), (2, 80.0), (2, 85.0), (90, 1.0)):
            source.observed[NOW - hours_ago * HOUR] = value
            clock.advance(300)
            grid.poll()
        said = vintages(store)
        assert [value for hour, value in said if hour == -71] == [100.0, 90.0]
        assert [value for hour, value in said if hour == -2] == [100.0, 80.0, 85.0]
        assert [value for hour, value in said if hour == -90] == [100.0]  # too old to be read again
        assert len(said) == 100 + 3

    def test_what_is_observed_and_what_was_expected_are_revised_apart(self, make, clock, store):
        """A forecast that its source changes after the hour has passed is a vintage with its own issue (NESO 11)."""
        source = Source(observed={NOW: 100.0}, expected={NOW + n * HOUR: 150.0 for n in range(3)})
        grid = make(source, store=store)
        grid.poll()
        clock.advance(3600)
        source.observed |= {NOW: 104.0, NOW + HOUR: 120.0}
        source.expected |= {NOW + HOUR: 140.0}
        grid.poll()
        assert vintages(store) == [(0, 100.0), (0, 104.0), (1, 120.0)]
        issued = store.vintages("XX", "first", forecasts=True)
        of_hour = [(p.g_per_kwh, p.issued_at) for p in issued if p.start == NOW + HOUR]
        assert of_hour == [(150.0, NOW), (140.0, NOW + HOUR)]

    def test_what_is_held_back_is_stored_like_any_other(self, make, clock, store):
        """Nothing that a source has said is lost, also not what nobody goes by."""
        source = Source(observed={NOW - n * HOUR: 300.0 + n % 7 for n in range(100)})
        grid = make(source, store=store)
        grid.poll()
        clock.advance(3600)
        source.observed[NOW + HOUR] = 0.0
        grid.poll()
        assert vintages(store)[-1] == (1, 0.0)
        assert grid.outlook().now.g_per_kwh == 300.0


class TestReach:
    def test_older_history_comes_a_week_at_a_time(self, make, clock, store):
        """At once what percentiles need; what the forecast learns from within the next polls; then never again."""
        source = Source(observed={NOW - n * HOUR: 100.0 + n % 24 for n in range(1000)})
        grid = make(source, store=store, limits=Limits())
        reached = []
        for _ in range(5):
            grid.poll()
            (state,) = grid.states
            reached.append(round((NOW - next(iter(state.observed))) / HOUR))
            clock.advance(300)
        assert reached == [336, 504, 671, 671, 671]
        assert source.asked == 3 + 5
        assert len(grid.outlook().recent) == 168

    @pytest.mark.parametrize("error", [None, Transient("x")])
    def test_a_source_without_older_history_is_asked_for_it_once(self, make, clock, events, error):
        """An API with a day of rows, or one that refuses more: no event, no second try."""

        class Short(Source):
            def observe(self, start, end):
                if error and end < NOW:
                    self.asked += 1
                    raise error
                return super().observe(max(start, NOW - 24 * HOUR), end)

        source = Short(observed={NOW - n * HOUR: 100.0 for n in range(1000)})
        grid = make(source, limits=Limits())
        for _ in range(10):
            grid.poll()
            clock.advance(300)
        assert (source.asked, events) == (11, [])

    def test_after_an_outage_what_was_missed_is_read(self, make, clock):
        """Five days of silence are more than the three days that are read again anyway."""
        source = Source(observed={NOW - n * HOUR: 100.0 for n in range(200)})
        grid = make(source)
        grid.poll()
        source.error = Transient("down")
        clock.advance(5 * 86400)
        grid.poll()
        source.error = None
        source.observed |= {NOW + n * HOUR: 90.0 for n in range(121)}
        clock.advance(300)
        grid.poll()
        assert source.since == NOW + HOUR
        assert len(grid.outlook().recent) == 168


class TestRestart:
    def test_it_knows_what_the_run_before_knew(self, make, clock, store):
        """History, the forecast in force, and how good forecasts have been; nothing is asked for that."""
        source = Source(observed={NOW - n * HOUR: 100.0 + n % 24 for n in range(300)})
        source.expected = {NOW + n * HOUR: 95.0 for n in range(48)}
        before = make(source, store=store, limits=Limits())
        for hour in range(3):
            before.poll()
            source.observed[NOW + hour * HOUR] = 100.0
            source.expected |= {NOW + n * HOUR: 95.0 + hour for n in range(hour + 1, 48)}
            clock.advance(3600)
        before.poll()
        after = make(Source(error=Transient("down")), limits=Limits())
        recall(after, store, clock.now(), MONTH)
        one, other = before.states[0], after.states[0]
        assert list(other.observed) == list(one.observed)
        assert [p.g_per_kwh for p in other.expected(clock.now())] == [p.g_per_kwh for p in one.expected(clock.now())]
        assert [(p.start, p.g_per_kwh, p.issued_at) for p in other.issued] == [
            (p.start, p.g_per_kwh, p.issued_at) for p in one.issued
        ]
        assert [hour.g_per_kwh for hour in after.outlook().ahead] == pytest.approx(
            [hour.g_per_kwh for hour in before.outlook().ahead]
        )

    def test_a_value_is_as_old_as_it_was_and_not_as_the_restart(self, make, clock, store):
        """Read back from a database it does not become fresh (adaptive-cover 42): stale, and then no value at all."""
        make(Source(observed={NOW: 180.0}), store=store).poll()
        seen = []
        for hours in (1, 4, 3):
            clock.advance(hours * 3600)
            grid = make(Source(error=Transient("down")))
            recall(grid, store, clock.now(), MONTH)
            outlook = grid.outlook()
            seen.append((outlook.freshness, outlook.age_s, outlook.now.kind))
        assert seen[0] == (FRESH, 0.0, Kind.MEASURED)
        assert seen[1] == (STALE, 4 * 3600.0, Kind.MEASURED)
        assert seen[2][2] is Kind.FORECAST

    def test_last_good_is_when_it_was_read_then(self, make, clock, store, events):
        """The first failure after a restart says when the source last answered the run before."""
        make(Source(observed={NOW - HOUR: 180.0}), store=store).poll()
        clock.advance(7200)
        grid = make(Source(error=Transient("503")))
        recall(grid, store, clock.now(), MONTH)
        grid.poll()
        assert events[-1] == ("source-failed", "first (XX): Transient: 503 (last good 2026-03-02 12:00Z)")


class TestPrice:
    def priced(self, grid, store, first: float, last: float) -> list[tuple[float, float]]:
        series = best_known(grid, store, NOW + first * HOUR, NOW + last * HOUR)
        return [((p.start - NOW) / HOUR, p.g_per_kwh) for p in series]

    def test_the_newest_vintage_counts(self, make, clock, store):
        """Not the one that was gone by."""
        grid = make(Source(), store=store)
        store.add_points([point(NOW, 100.0), point(NOW + HOUR, 110.0)])
        store.add_points([replace(point(NOW, 70.0), fetched_at=NOW + 5 * HOUR)])
        assert self.priced(grid, store, 0, 2) == [(0, 70.0), (1, 110.0)]

    def test_where_the_first_source_says_nothing_the_next_one_counts(self, make, store):
        """By the hour, in the order of the sources, and never two of one hour."""
        grid = make(Source(), Source("second"), store=store)
        store.add_points([point(NOW + n * HOUR, 100.0) for n in (0, 1, 4)])
        store.add_points([point(NOW + n * HOUR, 50.0, source="second") for n in range(6)])
        assert self.priced(grid, store, 0, 6) == [(0, 100.0), (1, 100.0), (2, 50.0), (3, 50.0), (4, 100.0), (5, 50.0)]

    def test_steps_that_overlap_are_not_counted_twice(self, make, store):
        """The second source's half hours fill the gap between the first one's hours and no more."""
        half = HOUR / 2
        grid = make(Source(), Source("second"), store=store)
        store.add_points([point(NOW, 100.0), point(NOW + 2 * HOUR, 100.0)])
        store.add_points([point(NOW + n * half, 50.0, source="second", step=half) for n in range(6)])
        found = best_known(grid, store, NOW, NOW + 3 * HOUR)
        assert price(found, NOW, NOW + 3 * HOUR).g_per_kwh == pytest.approx((100 + 50 + 100) / 3)

    def test_another_scope_is_no_price(self, make, store):
        """What an earlier configuration stored of the source is left out, and so is its newer date."""
        grid = make(Source(), store=store, wants=(Signal.AVERAGE, Scope.DIRECT))
        store.add_points([point(NOW, 500.0, of=(Signal.AVERAGE, Scope.LIFECYCLE, Boundary.PRODUCTION))])
        assert self.priced(grid, store, 0, 1) == []

    def test_an_outlier_is_no_price(self, make, store):
        """A zero amid coal makes no hour free of emissions: that hour is a gap, and its price an estimate."""
        grid = make(Source(), store=store)
        store.add_points([point(NOW + n * HOUR, 300.0 + n % 5) for n in range(-100, 3) if n != 1])
        store.add_points([point(NOW + HOUR, 0.0)])
        assert self.priced(grid, store, 0, 3) == [(0, 300.0), (2, 302.0)]

    def test_an_odd_revision_leaves_the_price_before_it(self, make, clock, store):
        """The source says 4200 of an hour that it had called 303."""
        source = Source(observed={NOW + n * HOUR: 300.0 + n % 5 for n in range(-100, 1)})
        grid = make(source, store=store)
        grid.poll()
        source.observed[NOW - 2 * HOUR] = 4200.0
        clock.advance(300)
        grid.poll()
        assert self.priced(grid, store, -3, 0) == [(-3, 302.0), (-2, 303.0), (-1, 304.0)]

    def test_what_another_source_confirmed_is_a_price(self, make, clock, store):
        """A zero that two sources gave is a zero."""
        usual = {NOW + n * HOUR: 300.0 + n % 5 for n in range(-100, 1)}
        grid = make(Source(observed=usual), second := Source("second", observed=dict.fromkeys(usual, 5.0)), store=store)
        grid.poll()
        clock.advance(3600)
        usual[NOW + HOUR], second.observed[NOW + HOUR] = 0.0, 1.0
        grid.poll()
        assert self.priced(grid, store, 1, 2) == [(1, 0.0)]
