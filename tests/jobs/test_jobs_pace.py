"""What has been spent of a job's allowed slowdown, and how far it says it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.clock import ManualClock
from chase.config import PolicyConfig
from chase.horizon import Horizon
from chase.jobs import Job, JobTable, Peer, Registration
from chase.pace import Pace
from chase.policy import PolicyInput, Progress, Rules, choose
from zeus_core.frontier import Frontier, OperatingPoint, Setting

HOUR = 3600.0
ALICE = Peer(1000, 11)
AT = datetime(2026, 3, 2, tzinfo=UTC)


def frontier(*points: tuple[float, float, float]) -> Frontier:
    """Of (limit W, seconds per unit, joules per unit)."""
    return Frontier.of(OperatingPoint(Setting(power_limit_w=w), s, j) for w, s, j in points)


# A unit is a second of work at full power.
FRONTIER = frontier((300, 1.0, 300), (200, 1.25, 230), (100, 2.0, 190))


class TestSecondsPerUnit:
    @pytest.mark.parametrize(
        ("limit_w", "seconds"), [(300, 1.0), (200, 1.25), (250, 1.125), (150, 1.625), (100, 2.0), (90, 2.0), (400, 1.0)]
    )
    def test_between_what_was_measured(self, limit_w, seconds):
        """As measured, on a straight line between, and level beyond."""
        assert FRONTIER.seconds_at(limit_w) == pytest.approx(seconds)

    def test_without_limits_all_is_the_reference(self):
        """A frontier of clocks alone says nothing of limits."""
        clocks = Frontier.of([OperatingPoint(Setting(sm_clock_mhz=1000), 2.0, 100.0)])
        assert clocks.seconds_at(150.0) == 2.0


class TestSpent:
    def test_full_power_spends_nothing(self):
        """An hour at the reference is an hour's work."""
        pace = Pace(0.0, 0.0, at=(300.0, None))
        pace.advance(HOUR, HOUR, FRONTIER)
        assert pace.delayed_s(FRONTIER) == 0.0

    def test_each_unit_at_a_lower_limit_is_late(self):
        """By what it takes longer there."""
        pace = Pace(0.0, 0.0, at=(200.0, None))
        pace.advance(100.0, 125.0, FRONTIER)
        assert pace.delayed_s(FRONTIER) == pytest.approx(25.0)

    @pytest.mark.parametrize("took_s", [125.0, 3 * HOUR])
    def test_a_stall_is_not_ours(self, took_s):
        """An evaluation of three hours would have held up full power as well."""
        pace = Pace(0.0, 0.0, at=(200.0, None))
        pace.advance(100.0, took_s, FRONTIER)
        assert pace.delayed_s(FRONTIER) == pytest.approx(25.0)

    @given(
        st.lists(
            st.tuples(st.sampled_from([300.0, 250.0, 200.0, 100.0]), st.floats(1, 5000), st.booleans()),
            min_size=1,
            max_size=20,
        )
    )
    def test_whenever_the_job_says_how_far_it_is(self, steps):
        """Changes of the limit between two reports are told apart: the sum is that of all time at its own limit."""
        pace, now_s, done, late_s = Pace(0.0, 0.0), 0.0, 0.0, 0.0
        for limit_w, seconds, said in [*steps, (300.0, 1.0, True)]:
            pace.hold(now_s, (limit_w, None))
            now_s += seconds
            done += seconds / FRONTIER.seconds_at(limit_w)
            late_s += seconds * (1 - 1 / FRONTIER.seconds_at(limit_w))
            pace.until(now_s)
            assert pace.delayed_s(FRONTIER) == pytest.approx(late_s)
            if said:
                pace.advance(done, now_s, FRONTIER)
                assert pace.delayed_s(FRONTIER) == pytest.approx(late_s)

    def test_time_of_which_nothing_is_known_counts_as_work(self):
        """An hour at half speed without a word is half an hour late, until the job says that it stood still."""
        pace = Pace(0.0, 0.0, at=(100.0, None))
        pace.until(HOUR)
        assert pace.delayed_s(FRONTIER) == pytest.approx(HOUR / 2)
        pace.advance(600.0, HOUR, FRONTIER)
        assert pace.delayed_s(FRONTIER) == pytest.approx(600.0)

    def test_a_report_of_nothing_new_is_none(self):
        """The same count again, or a lower one, moves nothing."""
        pace = Pace(100.0, 100.0, at=(100.0, None))
        pace.advance(100.0, 10.0, FRONTIER)
        pace.advance(50.0, 20.0, FRONTIER)
        assert (pace.counted, pace.delay_s) == (100.0, 0.0)
        pace.advance(110.0, 20.0, FRONTIER)
        assert pace.delay_s == pytest.approx(10.0)

    def test_an_unknown_limit_is_full_power(self):
        """Before the first tick nothing is slowed, and where a limit cannot be read nothing is known."""
        pace = Pace(0.0, 0.0)
        pace.advance(100.0, 100.0, FRONTIER)
        assert pace.delayed_s(FRONTIER) == 0.0


class TestWithoutAFrontier:
    def test_a_sweep_is_paid_for_once_it_is_over(self):
        """What was done at the limits that were measured counts by what was measured there."""
        pace, now_s = Pace(0.0, 0.0), 0.0
        for done, limit_w in ((100.0, 300.0), (180.0, 200.0), (230.0, 100.0)):
            pace.hold(now_s, (limit_w, None))
            now_s += 100.0
            pace.advance(done, now_s, None)
        assert pace.delayed_s(None) == 0.0
        assert pace.delayed_s(FRONTIER) == pytest.approx(80 * 0.25 + 50 * 1.0)
        pace.advance(231.0, now_s + 2.0, FRONTIER)
        assert pace.delayed_s(FRONTIER) == pytest.approx(80 * 0.25 + 51 * 1.0)

    @given(
        st.lists(st.tuples(st.sampled_from([300.0, 200.0, 100.0]), st.floats(1, 5000)), min_size=1, max_size=10),
        st.data(),
    )
    def test_it_does_not_matter_when_the_frontier_became_known(self, steps, data):
        """As soon as it is, all that was done before counts, and not only once the job says something again."""
        learnt = data.draw(st.integers(0, len(steps)))
        late, always, now_s, done = Pace(0.0, 0.0), Pace(0.0, 0.0), 0.0, 0.0
        for i, (limit_w, seconds) in enumerate(steps):
            for pace, known in ((late, FRONTIER if i >= learnt else None), (always, FRONTIER)):
                pace.hold(now_s, (limit_w, None))
                pace.advance(done + seconds / FRONTIER.seconds_at(limit_w), now_s + seconds, known)
            now_s, done = now_s + seconds, late.counted
            assert late.delayed_s(FRONTIER) == pytest.approx(always.delayed_s(FRONTIER))

    def test_what_a_job_needs_to_begin_is_not_ours(self):
        """Twenty minutes until the first step, and then a sweep: the twenty minutes are no delay."""
        pace = Pace(0.0, 0.0, at=(300.0, None))
        pace.advance(10.0, 1210.0, None)
        pace.hold(1210.0, (200.0, None))
        pace.advance(110.0, 1335.0, None)
        pace.advance(111.0, 1336.25, FRONTIER)
        assert pace.delayed_s(FRONTIER) == pytest.approx(101 * 0.25)

    def test_a_sweep_in_mid_run_counts_by_the_new_frontier(self):
        """A frontier that proved wrong is let go: what is done meanwhile is judged by the next one."""
        pace = Pace(0.0, 0.0, at=(200.0, None))
        pace.advance(100.0, 125.0, FRONTIER)
        pace.advance(200.0, 275.0, None)
        pace.advance(300.0, 425.0, frontier((300, 1.0, 300), (200, 1.5, 230)))
        assert pace.delay_s == pytest.approx(25.0 + 50.0 + 50.0)


class TestRecall:
    THEN = Progress(None, 500.0, 40.0, units_before=100.0)

    @pytest.mark.parametrize(("most_s", "late_s"), [(1e6, 100.0), (250.0, 50.0), (0.0, 0.0)])
    def test_what_was_done_since_counts_as_slow(self, most_s, late_s):
        """Four hundred units at the setting then, as far as anybody decided for; the rest at full power."""
        pace = Pace(1000.0, 1000.0)
        pace.recall(self.THEN, Setting(power_limit_w=200.0), FRONTIER, most_s)
        assert (pace.begun, pace.counted) == (100.0, 1000.0)
        assert pace.delay_s == pytest.approx(40.0 + late_s)

    @pytest.mark.parametrize(("setting", "known"), [(None, FRONTIER), (Setting(power_limit_w=200.0), None)])
    def test_where_nothing_was_set_or_known_nothing_is_added(self, setting, known):
        """Left as found, observed only, or not yet measured."""
        pace = Pace(1000.0, 1000.0)
        pace.recall(self.THEN, setting, known, 1e6)
        assert (pace.begun, pace.delay_s) == (100.0, 40.0)

    def test_a_job_that_comes_back_with_less(self):
        """It was set back to a checkpoint: what was spent stays spent."""
        pace = Pace(300.0, 300.0)
        pace.recall(self.THEN, Setting(power_limit_w=200.0), FRONTIER, 1e6)
        assert (pace.begun, pace.counted, pace.delay_s) == (100.0, 300.0, 40.0)

    def test_a_decision_of_an_older_version_says_nothing(self):
        """It knew of no budget: the job begins here."""
        pace = Pace(1000.0, 1000.0)
        pace.recall(Progress(), Setting(power_limit_w=200.0), FRONTIER, 1e6)
        assert (pace.begun, pace.delay_s) == (1000.0, 0.0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(AT)


@pytest.fixture
def table(clock) -> JobTable:
    return JobTable(clock=clock, lease_s=30.0, users=lambda _: ())


def add(table: JobTable, policy: PolicyConfig | None = None, **more) -> Job:
    wanted = Registration(id="0123456789abcdef", name="train", gpus=("GPU-0",), **more)
    return table.register(wanted, ALICE, known=("GPU-0",), region="gb", policy=policy or PolicyConfig())


class TestProgress:
    def test_what_was_done_before_is_not_under_our_care(self, table, clock):
        """A job that is resumed at 400 of 1000: 600 to do, none done."""
        job = add(table, total_units=1000.0, units_done=400.0)
        assert job.progress(AT) == Progress(600.0, 0.0, 0.0, None, 400.0)
        clock.advance(10)
        table.report(job.id, ALICE, 410.0)
        assert job.progress(AT) == Progress(590.0, 10.0, 0.0, None, 400.0)

    def test_more_work_than_was_said(self, table):
        """Past its total nobody knows how long it will be; said anew, its total counts again."""
        job = add(table, total_units=100.0)
        for done, left in ((99.0, 1.0), (100.0, None), (150.0, None)):
            table.report(job.id, ALICE, done)
            assert job.progress(AT).units_left == left
        add(table, total_units=400.0)
        assert job.progress(AT).units_left == 250.0

    def test_a_total_that_is_less_than_what_is_done_is_none(self, table):
        """At its registration or later."""
        assert add(table, total_units=10.0, units_done=20.0).progress(AT).units_left is None

    @pytest.mark.parametrize("hours", [5, -5])
    def test_a_deadline_is_so_far_away(self, table, hours):
        """Also when it lies behind."""
        job = add(table, PolicyConfig(deadline=AT + timedelta(hours=hours)), total_units=10.0)
        assert job.progress(AT).deadline_s == hours * HOUR

    def test_the_first_that_was_counted_is_not_lost(self, table, clock):
        """A launcher registers before its command counts: what that has done by then it did since."""
        job = add(table, units="steps")
        clock.advance(10.0)
        table.report(job.id, ALICE, 0.0)
        add(table, units="samples", units_done=64.0, total_units=640.0)
        assert (job.units_done, job.progress(AT).units_done, job.progress(AT).units_left) == (64.0, 64.0, 576.0)

    def test_another_unit_counts_anew(self, table, clock):
        """A launcher's steps are not its command's samples: what was spent is time, and stays."""
        job = add(table, units="steps")
        job.frontier = FRONTIER
        job.pace.hold(0.0, (100.0, None))
        clock.advance(200.0)
        table.report(job.id, ALICE, 100.0)
        add(table, units="samples", units_done=100.0)
        assert job.progress(AT) == Progress(None, 0.0, 100.0, None, 100.0)
        clock.advance(200.0)
        table.report(job.id, ALICE, 900.0)
        assert job.progress(AT).delay_s == 100.0
        job.frontier = frontier((300, 0.125, 30), (100, 0.25, 20))
        assert job.progress(AT).delay_s == pytest.approx(100.0 + 800 * 0.125)
        clock.advance(0.25)
        table.report(job.id, ALICE, 901.0)
        assert job.progress(AT).delay_s == pytest.approx(100.0 + 801 * 0.125)


@pytest.mark.parametrize("unit_h", [0.05, 1.0, 8.0, 16.0])
def test_a_job_that_seldom_says_how_far_it_is_keeps_its_budget(table, clock, unit_h):
    """Sixteen hours of work in units of minutes, hours, or all in one: late by no more than an interval."""
    unit_s = unit_h * HOUR
    known = frontier((300, unit_s, 300 * unit_s), (200, 1.25 * unit_s, 230 * unit_s), (100, 2 * unit_s, 190 * unit_s))
    job = add(table, total_units=16 / unit_h)
    job.frontier, done, price = known, 0.0, np.array([900.0, *[100.0] * 40])
    ahead = Horizon.of(np.full(41, HOUR), price, price, price)
    rules = Rules(name="budget", max_slowdown=0.1, dwell_s=0.0)
    while done < 16 / unit_h - 1e-9:
        job.pace.until(clock.monotonic())
        given_ = PolicyInput(frontier=known, rules=rules, progress=job.progress(clock.now()), horizon=ahead)
        limit_w = choose(given_).setting.power_limit_w
        job.pace.hold(clock.monotonic(), (limit_w, None))
        clock.advance(600.0)
        done += 600.0 / known.seconds_at(limit_w)
        table.report(job.id, ALICE, min(np.floor(done + 1e-9), 16 / unit_h))
    assert 16 * 1.05 * HOUR < clock.monotonic() <= 16 * 1.1 * HOUR + 600.0 / 2 + 600.0
