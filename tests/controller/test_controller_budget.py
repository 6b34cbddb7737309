"""The budget policy in the loop: what was spent is counted, kept over restarts, and never more than is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from controller_bench import OWNER, START, Bench, Grid

from chase.clock import ManualClock
from chase.explain import explain
from chase.jobs import Job
from chase.policy import PolicyInput, choose
from providers.base import (
    Boundary,
    Capabilities,
    IntensityPoint,
    Kind,
    Market,
    PricePoint,
    PriceSeries,
    Scope,
    Series,
    Signal,
)
from zeus_core.gpus.base import Lost

HOUR, MINUTE = 3600.0, 60.0
FULL_S = 0.00300311  # of an image, at 300 W
SLOWEST = 0.64  # of full speed that is lost at the lowest limit
HOURS = (500.0, 100.0, 500.0, 100.0, 300.0, 200.0)


class Forecasting(Grid):
    """A source that says what each hour is, and what the next two days will be: ``values`` over and over."""

    def __init__(self, clock: ManualClock, values: Sequence[float] = HOURS) -> None:
        super().__init__(clock)
        self.values = values
        self.capabilities = Capabilities(
            observed=True, forecast=True, step_s=3600, poll_s=1, forecast_horizon_s=48 * HOUR
        )

    def observe(self, start: datetime, end: datetime) -> Series:
        last = self.clock.now().replace(minute=0, second=0, microsecond=0)
        return self._points(max(start, last - timedelta(hours=24)), last + timedelta(hours=1), Kind.MEASURED)

    def forecast(self, start: datetime, end: datetime) -> Series:
        return self._points(start, min(end, self.clock.now() + timedelta(hours=48)), Kind.FORECAST)

    def _points(self, start: datetime, end: datetime, kind: Kind) -> Series:
        first = start.replace(minute=0, second=0, microsecond=0)
        count = int((end - first) / timedelta(hours=1) + 1 - 1e-9)
        return Series.of(self._point(first + timedelta(hours=k), kind) for k in range(count))

    def _point(self, at: datetime, kind: Kind) -> IntensityPoint:
        hour = int((at - START) / timedelta(hours=1))
        return IntensityPoint(
            zone=self.zone,
            start=at,
            end=at + timedelta(hours=1),
            g_per_kwh=self.values[hour % len(self.values)],
            kind=kind,
            signal=Signal.AVERAGE,
            scope=Scope.DIRECT,
            boundary=Boundary.PRODUCTION,
            source=self.name,
            fetched_at=self.clock.now(),
            issued_at=self.clock.now() if kind is Kind.FORECAST else None,
        )


class Market15:
    """Quarters of an hour at a few prices, over and over; silent where there are none."""

    name, zone = "market", "XX"
    capabilities = Capabilities(observed=True, forecast=False, step_s=900, poll_s=1)

    def __init__(self, values: Sequence[float]) -> None:
        self.values = values

    def prices(self, start: datetime, end: datetime) -> PriceSeries:
        return PriceSeries.of(self._quarters(start, end)) if self.values else PriceSeries()

    def _quarters(self, start: datetime, end: datetime) -> Iterable[PricePoint]:
        step = timedelta(minutes=15)
        for k in range(int((start - START) / step), int((end - START) / step)):
            yield PricePoint(
                zone="XX",
                start=START + k * step,
                end=START + (k + 1) * step,
                price_per_kwh=self.values[k % len(self.values)],
                currency="EUR",
                market=Market.DAY_AHEAD,
                source=self.name,
                fetched_at=start,
            )

    def close(self) -> None: ...


@pytest.fixture
def planning(make_bench):
    """A bench under the budget policy, on a grid that says what comes."""

    def make(**more: Any) -> Bench:
        bench = make_bench(**{"grid": Forecasting, "policy__name": "budget", "policy__dwell_s": 600.0, **more})
        bench.signal.poll()
        return bench

    return make


def images(hours: float) -> float:
    return hours * HOUR / FULL_S


def tick(bench: Bench, job: Job, step_s: float = MINUTE, *, stalled: bool = False) -> None:
    """Time passes, the job gets on and says so, and the controller ticks."""
    rate = min(bench.gpus[k].rate() for k in range(len(job.gpus))) * len(job.gpus)
    bench.clock.advance(step_s)
    bench.controller.report(job.id, OWNER, job.units_done + (0.0 if stalled else rate * step_s))
    bench.signal.poll()
    bench.prices.poll()
    bench.controller.tick()


def until_done(bench: Bench, job: Job, step_s: float = MINUTE) -> float:
    """When it was: by the bench's clock, to the second."""
    while True:
        left, rate = job.total_units - job.units_done, bench.gpus[0].rate()
        if left <= rate * step_s:
            return bench.clock.monotonic() + left / rate
        tick(bench, job, step_s)


def restarted(bench: Bench, planning: Any, job: Job, *, down_s: float = 30.0, **more: Any) -> tuple[Bench, Job]:
    """The service ends and comes back on the same database; meanwhile the job runs at full power."""
    at_s = bench.clock.monotonic() + down_s
    done = job.units_done
    bench.close()
    again = planning(**more)
    again.clock.advance(at_s)
    return again, again.register(0, units_done=done + down_s / FULL_S, total_units=job.total_units)


def last_input(bench: Bench) -> PolicyInput:
    return PolicyInput.from_dict(bench.decisions()[-1].inputs)


class TestKept:
    @pytest.mark.parametrize("slowdown", [0.02, 0.1])
    def test_over_a_whole_job(self, planning, slowdown):
        """Six hours of work: all of the allowed time is used, and no more than an interval beyond it."""
        bench = planning(policy__max_slowdown=slowdown)
        job = bench.register(0, total_units=images(6))
        bench.controller.tick()
        finish_s = until_done(bench, job)
        assert 6 * HOUR * 1.012 < finish_s <= 6 * HOUR * (1 + slowdown) + MINUTE * SLOWEST
        assert {d.code for d in bench.decisions()} <= {"plan", "dwell", "hysteresis"}

    def test_a_stall_does_not_count(self, planning):
        """An hour in which nothing got on is beside it: full power would have stood still as well."""
        bench = planning(policy__max_slowdown=0.1)
        job = bench.register(0, total_units=images(4))
        for minute in range(120):
            tick(bench, job, stalled=30 <= minute < 90)
        finish_s = until_done(bench, job)
        assert HOUR + 4 * HOUR * 1.06 < finish_s <= HOUR + 4 * HOUR * 1.1 + MINUTE * SLOWEST

    def test_a_deadline_goes_on_through_a_stall(self, planning):
        """It is a time of day: what was held up is made up for."""
        bench = planning()
        deadline = START + timedelta(hours=5.2)
        wish = {"deadline": deadline.isoformat()}
        job = bench.register(0, total_units=images(4), policy=wish)
        for minute in range(120):
            tick(bench, job, stalled=30 <= minute < 90)
        assert 5.1 * HOUR < until_done(bench, job) <= 5.2 * HOUR + MINUTE * SLOWEST

    def test_a_deadline_that_is_missed_already(self, planning):
        """Full power at once, and the decision says how late it will be."""
        bench = planning(policy__dwell_s=9000.0)
        job = bench.register(0, total_units=images(4), policy={"deadline": (START - timedelta(hours=2)).isoformat()})
        tick(bench, job)
        decision = bench.decisions()[-1]
        assert (decision.code, bench.limits[0]) == ("late", 300.0)
        assert decision.reason.endswith("300 W is the fastest, and still 6.0 h late")

    def test_a_shorter_deadline_reaches_a_running_job(self, planning):
        """The owner says it anew, and the plan is another at the next tick."""
        bench = planning(policy__dwell_s=0.0)
        job = bench.register(0, total_units=images(4), policy={"max_slowdown": 0.5})
        tick(bench, job)
        assert bench.limits[0] < 300
        wish = {"deadline": (bench.clock.now() + timedelta(hours=3.9)).isoformat()}
        bench.register(0, total_units=images(4), policy=wish, units_done=job.units_done)
        tick(bench, job)
        assert bench.limits[0] == 300


class TestCounted:
    def test_as_time_and_work_have_it(self, planning):
        """By and by it is the time that went by, less what full power would have taken."""
        bench = planning(policy__max_slowdown=0.1, control__ramp_w_per_s=0.5)
        job = bench.register(0, total_units=images(6))
        bench.controller.tick()
        for _ in range(4 * 60):
            tick(bench, job)
        late_s = bench.clock.monotonic() - job.units_done * FULL_S
        assert late_s > 500
        assert job.progress(bench.clock.now()).delay_s == pytest.approx(late_s, rel=0.02)

    def test_a_sweep_is_a_part_of_it(self, planning):
        """What measuring the frontier took is spent, once it is known how much that was."""
        bench = planning(profile__points=5, grid=Grid)
        bench.grid.g_per_kwh = 100.0
        job = bench.register(0, profile=None, total_units=images(20))
        while job.frontier_source != "measured":
            tick(bench, job, 5.0)
        tick(bench, job, 5.0)
        late_s = bench.clock.monotonic() - job.units_done * FULL_S
        assert late_s > 20
        assert job.progress(bench.clock.now()).delay_s == pytest.approx(late_s, rel=0.1)

    def test_the_slowest_card_of_a_job_counts(self, planning, monkeypatch):
        """Somebody holds one of two cards down: both wait for it."""
        bench = planning(policy__max_slowdown=0.1)
        job = bench.register(0, 1, total_units=images(12))
        tick(bench, job)
        bench.gpus[1].set_power_limit_w(100.0)
        tick(bench, job)
        before_s, units = job.progress(bench.clock.now()).delay_s, job.units_done
        for _ in range(10):
            tick(bench, job)
        late_s = 10 * MINUTE - (job.units_done - units) * FULL_S / 2
        assert job.progress(bench.clock.now()).delay_s - before_s == pytest.approx(late_s, rel=0.02)

    def test_who_only_observes_spends_nothing(self, planning):
        """The wish is not what the card runs at."""
        bench = planning(actuate=False)
        job = bench.register(0, total_units=images(6))
        for _ in range(60):
            tick(bench, job)
        assert bench.decisions()[-1].power_limit_w is not None
        assert job.progress(bench.clock.now()).delay_s == 0.0

    def test_a_job_that_was_begun_elsewhere(self, planning):
        """Half done when it comes, it has the slowdown of the other half."""
        bench = planning(policy__max_slowdown=0.1)
        job = bench.register(0, total_units=images(8), units_done=images(4))
        bench.controller.tick()
        finish_s = until_done(bench, job)
        assert 4 * HOUR * 1.06 < finish_s <= 4 * HOUR * 1.1 + MINUTE * SLOWEST


class TestGrowing:
    def test_a_total_that_is_raised(self, planning):
        """Twice the work has twice the slack: the whole of it is kept to the slowdown of the whole."""
        bench = planning(policy__max_slowdown=0.1)
        job = bench.register(0, total_units=images(3))
        for _ in range(120):
            tick(bench, job)
        bench.register(0, total_units=images(6), units_done=job.units_done)
        assert 6 * HOUR * 1.05 < until_done(bench, job) <= 6 * HOUR * 1.1 + MINUTE * SLOWEST

    def test_a_job_that_goes_on_past_its_total(self, planning):
        """It is then one of unknown length, and keeps to its slowdown as such."""
        bench = planning(policy__max_slowdown=0.1)
        job = bench.register(0, total_units=images(1))
        for _ in range(90):
            tick(bench, job)
        assert job.units_done > job.total_units
        decision = bench.decisions()[-1]
        assert last_input(bench).progress.units_left is None
        assert " in the mean of the 24.0 h ahead " in decision.reason


class TestRestart:
    def test_what_was_spent_is_spent(self, planning):
        """The next run knows it from the database: no less than it was, and hardly more."""
        bench = planning(policy__max_slowdown=0.1)
        job = bench.register(0, total_units=images(6))
        for _ in range(100):
            tick(bench, job)
        spent_s, begun = job.pace.delayed_s(job.frontier), job.pace.begun
        assert spent_s > 60
        again, job = restarted(bench, planning, job, policy__max_slowdown=0.1)
        again.controller.tick()
        assert job.pace.begun == begun
        assert spent_s - 1 <= job.progress(again.clock.now()).delay_s <= spent_s + 0.5 * 930
        assert 6 * HOUR * 1.04 < until_done(again, job) <= 6 * HOUR * 1.1 + MINUTE * SLOWEST

    def test_a_service_that_never_stays_up_gains_nothing(self, planning):
        """Ended every ten minutes, with no more than its first decision written: the budget is kept."""
        bench = planning(policy__max_slowdown=0.05, policy__dwell_s=0.0, grid=Dearer)
        job = bench.register(0, total_units=images(4))
        bench.controller.tick()
        for _ in range(22):
            for _ in range(10):
                tick(bench, job)
            bench, job = restarted(bench, planning, job, policy__max_slowdown=0.05, policy__dwell_s=0.0, grid=Dearer)
        assert until_done(bench, job) <= 4 * HOUR * 1.05 + MINUTE * SLOWEST

    def test_a_fault_in_between_forgets_nothing(self, planning, monkeypatch):
        """The last decision before the end was one that could not be taken."""
        bench = planning(policy__max_slowdown=0.1)
        job = bench.register(0, total_units=images(6))
        for _ in range(60):
            tick(bench, job)
        spent_s = job.pace.delayed_s(job.frontier)

        def broken(*_: object) -> None:
            raise ZeroDivisionError("for the test")

        with monkeypatch.context() as patch:
            patch.setattr(bench.controller, "_grid", broken)
            tick(bench, job)
            assert bench.decisions()[-1].code == "barred"
            _, job = restarted(bench, planning, job, policy__max_slowdown=0.1)
        assert job.pace.delay_s >= spent_s - 1

    def test_a_job_of_an_older_version_begins_here(self, planning, make_bench):
        """Its decisions say nothing of what was spent: its allowance is that of what is left."""
        bench = planning()
        job = bench.register(0, total_units=images(6), units_done=images(2))
        bench.controller.tick()
        row = bench.decisions()[-1]
        inputs = {key: value for key, value in row.inputs.items() if key not in {"progress", "horizon"}}
        bench.store.add_decision(type(row)(**{**_fields(row), "id": None, "inputs": inputs}))
        again, job = restarted(bench, planning, job)
        assert job.progress(again.clock.now()).units_done == 0.0


class TestTold:
    def test_each_decision_can_be_taken_again(self, planning):
        """From its row alone, over hours of another price each, a stall and a restart."""
        bench = planning(policy__max_slowdown=0.1)
        job = bench.register(0, total_units=images(5))
        for minute in range(150):
            tick(bench, job, stalled=40 <= minute < 60)
        again, job = restarted(bench, planning, job, policy__max_slowdown=0.1)
        for _ in range(60):
            tick(again, job)
        decisions = again.decisions()
        assert len(decisions) > 8
        for record in decisions:
            told = explain(record)
            assert told.same, told.lines()

    def test_a_tick_knows_how_long_its_choice_holds(self, planning):
        """Where the job's last slot is split the service may look again before the next value comes."""
        bench = planning(policy__max_slowdown=0.01, policy__dwell_s=0.0, grid=Flat)
        job = bench.register(0, total_units=images(0.9))
        tick(bench, job)
        assert bench.limits[0] == 250
        assert 0 < job.until_s < HOUR
        tick(bench, job, job.until_s)
        assert (bench.limits[0], job.until_s) == (225, None)

    def test_what_the_host_draws_is_weighed(self, planning):
        """As long as the job runs: where that is much, slow is dear."""
        bench = planning(policy__max_slowdown=1.0, grid=Flat)
        plain = bench.register(0, total_units=images(6))
        hosted = bench.register(1, total_units=images(6), job_id="b" * 16, policy={"host_power_w": 2000.0})
        bench.controller.tick()
        assert bench.limits == [200, 250]
        assert (plain.setting.power_limit_w, hosted.setting.power_limit_w) == (200, 250)
        assert [PolicyInput.from_dict(d.inputs).host_w for d in bench.decisions()] == [0.0, 2000.0]


class TestMoney:
    def test_quarters_of_an_hour_move_it(self, planning):
        """Two dear quarters and two cheap ones: slow in the dear ones, whatever the grid is."""
        bench = planning(
            policy__max_slowdown=0.03,
            policy__dwell_s=0.0,
            policy__minimise="money",
            prices=Market15([0.5, 0.4, 0.1, 0.0]),
        )
        job = bench.register(0, total_units=images(6))
        limits = []
        for _ in range(4):
            tick(bench, job, 60.0)
            limits.append(bench.limits[0])
            tick(bench, job, 840.0)
        assert limits == sorted(limits)
        assert limits[0] < limits[3] == 300
        assert last_input(bench).horizon.unit == "EUR"
        assert " EUR/kWh now" in bench.decisions()[-1].reason

    def test_a_market_that_is_silent_leaves_the_carbon(self, planning):
        """Both were asked for, and one is known."""
        bench = planning(policy__minimise="both", prices=Market15([]))
        job = bench.register(0, total_units=images(6))
        tick(bench, job)
        assert last_input(bench).horizon.unit == "gCO2eq"

    def test_both_are_weighed(self, planning):
        """A kWh of 500 g costs its price and five cents of carbon at 0.1 a kilogram."""
        bench = planning(policy__minimise="both", policy__carbon_price_per_kg=0.1, prices=Market15([0.2]))
        job = bench.register(0, total_units=images(6))
        tick(bench, job)
        assert last_input(bench).horizon.price[0] == pytest.approx(0.25)


class TestSilence:
    def test_efficiency_first_keeps_the_budget(self, planning):
        """With no signal at all the least energy that the time allows."""
        bench = planning(policy__max_slowdown=0.03, policy__without_signal="efficiency-first", grid=Silent)
        job = bench.register(0, total_units=images(4))
        bench.controller.tick()
        finish_s = until_done(bench, job)
        assert 4 * HOUR * 1.02 < finish_s <= 4 * HOUR * 1.03 + MINUTE * SLOWEST
        assert bench.decisions()[-1].reason.startswith("no usable grid signal")

    def test_speed_first_is_full_power(self, planning):
        """The default where nothing is known."""
        bench = planning(grid=Silent)
        job = bench.register(0, total_units=images(4))
        tick(bench, job)
        assert (bench.decisions()[-1].code, bench.limits[0]) == ("no-signal", 300)

    def test_no_frontier_yet(self, planning):
        """Nothing can be planned, and nothing is set."""
        bench = planning(actuate=False)
        job = bench.register(0, profile=None, total_units=images(4))
        tick(bench, job)
        decision = bench.decisions()[-1]
        assert (decision.code, decision.power_limit_w) == ("no-frontier", None)

    def test_a_card_that_is_lost_and_comes_back(self, planning, monkeypatch):
        """While its limit cannot be read it is taken to be as it was, and its job to be as slow."""
        bench = planning(policy__max_slowdown=0.1)
        job = bench.register(0, total_units=images(6))
        for _ in range(20):
            tick(bench, job)

        def lost() -> float:
            raise Lost("off the bus", uuid=bench.gpus[0].uuid, call="power_limit_w")

        with monkeypatch.context() as patch:
            patch.setattr(bench.gpus[0], "power_limit_w", lost)
            for _ in range(20):
                tick(bench, job)
        tick(bench, job)
        late_s = bench.clock.monotonic() - job.units_done * FULL_S
        assert job.progress(bench.clock.now()).delay_s == pytest.approx(late_s, rel=0.02)


def test_a_live_job_is_never_paused(planning):
    """Nothing could stop its processes: where a pause would pay off most, it runs at the least there is."""
    bench = planning(grid=Extreme, policy__dwell_s=0.0)
    job = bench.register(0, total_units=images(4), policy={"max_slowdown": 5.0})
    for _ in range(240):
        tick(bench, job)
    decisions = bench.decisions()
    given = [PolicyInput.from_dict(decision.inputs) for decision in decisions]
    assert "paused" not in {decision.mode for decision in decisions}
    assert all(decision.power_limit_w is not None for decision in decisions)
    assert any(choose(replace(some, paused_w=20.0)).mode == "paused" for some in given)  # if it were allowed
    assert all(some.paused_w is None for some in given)


class Dearer(Forecasting):
    """Always dirty now, and always said to be clean from the next hour on."""

    def _point(self, at: datetime, kind: Kind) -> IntensityPoint:
        self.values = (100.0 if kind is Kind.FORECAST and at > self.clock.now() else 500.0,)
        return super()._point(at, kind)


class Extreme(Forecasting):
    """Clean for an hour and as dirty as can be for three."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock, (5.0, 2000.0, 2000.0, 2000.0))


class Silent(Grid):
    """One that never says anything."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock, None)


class Flat(Forecasting):
    """One value for ever."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock, (300.0,))


def _fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__slots__}
