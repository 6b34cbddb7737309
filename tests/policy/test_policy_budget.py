"""The budget policy: that it keeps the budget, whatever comes, and what it chooses within it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_budget_cases import (
    DAY,
    FRONTIER,
    FRUGAL,
    FULL,
    HOUR,
    LOW,
    MIDDLE,
    ONE,
    Simulated,
    any_price,
    asked,
    every,
    frontiers,
    held,
    horizon,
    horizons,
    inputs,
    point,
)

from chase.policy import (
    EFFICIENCY,
    PROFILING,
    SPEED,
    PolicyInput,
    Progress,
    Rules,
    allowance,
    choose,
    planned,
)
from zeus_core.frontier import Frontier, Setting

ROUNDING_S = 1.0  # what is shorter is no lateness
SECOND_J = 400.0  # of any frontier here


def watts(given_: PolicyInput) -> float | None:
    setting = choose(given_).setting
    return setting.power_limit_w if setting else None


@st.composite
def runs(draw: st.DrawFn, *, slowdowns: st.SearchStrategy[float | None], deadlines: bool) -> Simulated:
    """A job of a few hours whose horizon is another one, and wrong, each time it is looked at."""
    frontier = draw(frontiers())
    said = draw(st.lists(horizons(), min_size=1, max_size=4))
    hours = draw(st.floats(0.2, 8))
    units = hours * HOUR / frontier.reference.seconds_per_unit
    rules = Rules(
        name="budget", max_slowdown=draw(slowdowns), dwell_s=draw(st.sampled_from([0.0, 600.0, 5000.0, 50000.0]))
    )
    return Simulated(
        lambda now_s: said[int(now_s // HOUR) % len(said)],
        frontier=frontier,
        rules=rules,
        units=units,
        deadline_s=draw(st.floats(0.5, 2.0)) * hours * HOUR if deadlines else None,
        interval_s=draw(st.sampled_from([600.0, 1800.0, HOUR])),
        stall=draw(st.none() | st.tuples(st.floats(0, 10 * HOUR), st.floats(1, 20 * HOUR))),
    )


class TestNeverExceeded:
    """By more than the share of one interval, in which nobody looks."""

    @given(runs(slowdowns=st.sampled_from([0.0, 0.025, 0.05, 0.1, 0.5]), deadlines=False))
    def test_a_slowdown(self, job):
        """Whatever prices are said to come, with dwell and doubt: full power's time and the slowdown, and a stall."""
        run = job.run()
        full_s = job.units * job.frontier.reference.seconds_per_unit
        assert run.finish_s - run.stalled_s <= full_s * (1 + job.rules.max_slowdown) + job.share_s + ROUNDING_S

    @given(runs(slowdowns=st.none() | st.sampled_from([0.05, 0.5]), deadlines=True))
    def test_a_deadline_with_and_without_a_slowdown(self, job):
        """It is met wherever full power from the last stall on could have met it; and the slowdown is kept as well."""
        run = job.run()
        full_s = job.units * job.frontier.reference.seconds_per_unit
        possible_s = max(job.deadline_s, full_s, run.earliest_s)
        assert run.finish_s <= possible_s + job.share_s + ROUNDING_S
        if job.rules.max_slowdown is not None:
            assert run.finish_s - run.stalled_s <= full_s * (1 + job.rules.max_slowdown) + job.share_s + ROUNDING_S

    @given(runs(slowdowns=st.sampled_from([0.05, 0.3]), deadlines=False))
    def test_the_allowance_never_grows_by_being_taken_anew(self, job):
        """The reference is fixed: time gone and time left are the same sum at each decision (B53)."""
        run = job.run()
        whole_s = job.units * job.frontier.reference.seconds_per_unit * (1 + job.rules.max_slowdown)
        for now_s, progress in run.allowed:
            gone_s = now_s - (run.stalled_s if job.stall and now_s > job.stall[0] else 0.0)
            left = allowance(job.rules, progress, job.frontier)
            assert gone_s + left.slack_s + left.work * job.frontier.reference.seconds_per_unit == pytest.approx(whole_s)

    @given(
        st.lists(any_price, min_size=1, max_size=5),
        st.sampled_from([0.02, 0.1]),
        st.sampled_from([0.0, 7200.0]),
        st.floats(0.5, 6),
    )
    def test_a_job_of_unknown_length(self, levels, slowdown, dwell_s, days):
        """Nowhere is more spent than the slowdown of what is done, and of as long again, a day or a week at most."""

        def lures(now_s: float):
            now = levels[int(now_s // DAY) % len(levels)]
            return horizon([now + 300.0, *[now] * 5], 4 * HOUR)  # always to be had cheaper later

        rules = Rules(name="budget", max_slowdown=slowdown, dwell_s=dwell_s)
        run = Simulated(lures, rules=rules, units=None, interval_s=6 * HOUR, until_s=days * DAY).run()
        share_s = 6 * HOUR * (1 - LOW.rate)
        for _, progress in run.allowed:
            horizon_s = min(max(DAY, progress.units_done), 7 * DAY)
            assert progress.delay_s <= slowdown * (progress.units_done + horizon_s) + share_s + ROUNDING_S

    def test_the_end_is_not_put_off_for_ever(self):
        """Prices that are always said to fall tomorrow do not keep a job slow: the slack is spent once."""
        rules = Rules(name="budget", max_slowdown=0.1, dwell_s=0.0)
        run = Simulated(lambda _: horizon([500.0] + [100.0] * 30), rules=rules, units=20 * HOUR).run()
        assert run.finish_s <= 22 * HOUR + HOUR * (1 - LOW.rate)
        assert run.limits[0] < 300
        assert set(run.limits[6:-1]) == {300}


class TestAllowance:
    RULES = Rules(name="budget", max_slowdown=0.1)

    def test_of_a_known_length(self):
        """Of 100 h 40 are done, 2 h late: 60 h at full power, and 10 less 2 h."""
        left = allowance(self.RULES, Progress(60 * HOUR, 40 * HOUR, 2 * HOUR), FRONTIER)
        assert (left.work, left.ends) == (60 * HOUR, True)
        assert left.seconds == pytest.approx(68 * HOUR)
        assert left.slack_s == pytest.approx(8 * HOUR)

    def test_the_sooner_of_slowdown_and_deadline_counts(self):
        """Both are kept; a deadline alone allows any slowdown."""
        soon, late = Progress(10 * HOUR, deadline_s=10.5 * HOUR), Progress(10 * HOUR, deadline_s=20 * HOUR)
        assert allowance(self.RULES, soon, FRONTIER).seconds == 10.5 * HOUR
        assert allowance(self.RULES, late, FRONTIER).seconds == pytest.approx(11 * HOUR)
        assert allowance(replace(self.RULES, max_slowdown=None), late, FRONTIER).seconds == 20 * HOUR

    def test_five_per_cent_where_nothing_is_said(self):
        """Also of a job that has a deadline and no known length, for which none can be kept."""
        nothing = replace(self.RULES, max_slowdown=None)
        assert allowance(nothing, Progress(100 * HOUR), FRONTIER).slack_s == pytest.approx(5 * HOUR)
        unknown = allowance(nothing, Progress(None, deadline_s=HOUR), FRONTIER)
        assert unknown.slack_s == pytest.approx(DAY * 0.05 / 1.05)

    def test_units_of_before_allow_nothing(self):
        """Of a job that was half done when it came, a tenth of the other half is allowed."""
        left = allowance(self.RULES, Progress(50 * HOUR, 0.0, units_before=50 * HOUR), FRONTIER)
        assert left.slack_s == pytest.approx(5 * HOUR)

    def test_more_work_allows_more_time(self):
        """A job that turns out to be twice as long may take a tenth of that longer."""
        before = allowance(self.RULES, Progress(10 * HOUR, 10 * HOUR, HOUR), FRONTIER)
        grown = allowance(self.RULES, Progress(30 * HOUR, 10 * HOUR, HOUR), FRONTIER)
        assert (before.slack_s, grown.slack_s) == pytest.approx((HOUR, 3 * HOUR))

    @pytest.mark.parametrize(("done", "horizon_s"), [(0.0, DAY), (3 * DAY, 3 * DAY), (30 * DAY, 7 * DAY)])
    def test_an_unknown_length_is_as_long_again(self, done, horizon_s):
        """At least a day, a week at most; and what was banked at full power may be used."""
        left = allowance(self.RULES, Progress(None, done), FRONTIER)
        assert (left.seconds, left.ends) == (horizon_s, False)
        assert left.slack_s == pytest.approx((0.1 * horizon_s + 0.1 * done) / 1.1)

    def test_what_was_overspent_is_owed(self):
        """The slack is below 0, and the time left is never below 0."""
        left = allowance(self.RULES, Progress(HOUR, 10 * HOUR, 10 * HOUR), FRONTIER)
        assert left.slack_s == pytest.approx(-8.9 * HOUR)
        assert left.seconds == 1.0


class TestLate:
    def test_a_budget_that_is_used_up(self):
        """The fastest, whatever it costs, and how late it will be."""
        choice = choose(asked([900.0, 100.0, 100.0], left=10 * HOUR, done=10 * HOUR, delay_s=4 * HOUR))
        assert (choice.setting, choice.mode, choice.code) == (FULL.setting, SPEED, "late")
        assert choice.reason == "900 g/kWh now, no slack: 300 W is the fastest, and still 2.0 h late"

    def test_a_deadline_that_is_missed(self):
        """Three days past it and with one to go it will be four days late."""
        choice = choose(asked([500.0], max_slowdown=None, left=DAY, deadline_s=-3 * DAY))
        assert (choice.setting, choice.code) == (FULL.setting, "late")
        assert choice.reason.endswith("still 4.0 d late")

    def test_beyond_dwell_and_doubt(self):
        """Neither keeps a slow setting in force where there is no time for it."""
        unsure = Frontier.of([FULL, replace(FRUGAL, spread=5.0)])
        late = asked(
            [500.0], frontier=unsure, delay_s=2 * HOUR, dwell_s=9000.0, **held(FRUGAL.setting, 1.0, EFFICIENCY)
        )
        assert watts(late) == 300

    @pytest.mark.parametrize("short_s", [0.0, 1e-9, 1e-6, 0.5])
    def test_rounding_is_not_late(self, short_s):
        """All time is needed, and that is no lateness."""
        choice = choose(asked([500.0], max_slowdown=0.0, left=10 * HOUR, delay_s=short_s))
        assert (choice.setting, choice.code) == (FULL.setting, "plan")

    def test_lost_time_has_no_price_then(self):
        """So no candidate has a cost, rather than one by which another would be cheaper."""
        choice = choose(asked([500.0], delay_s=5 * HOUR))
        assert [candidate.cost for candidate in choice.candidates] == [None] * 4

    def test_an_unknown_length_that_is_overspent(self):
        """It has no end to be late for: at full power until it has made up for it."""
        choice = choose(asked([500.0], left=None, delay_s=5 * HOUR))
        assert (choice.setting, choice.code) == (FULL.setting, "plan")
        assert "the time allowed so far is spent" in choice.reason

    def test_a_deadline_of_an_unknown_length_is_said_not_to_count(self):
        """A person who gave one is told why nothing is done for it."""
        choice = choose(asked([500.0], left=None, deadline_s=HOUR))
        assert choice.reason.endswith("no plan is made for its deadline, since nobody knows how long it is")
        assert "deadline" not in choose(asked([500.0], deadline_s=12 * HOUR)).reason


class TestFrontier:
    def test_none_yet(self):
        """Nothing is set."""
        choice = choose(asked([500.0], frontier=None))
        assert (choice.setting, choice.code) == (None, "no-frontier")

    @pytest.mark.parametrize("price", [-50.0, 0.0, 500.0])
    @pytest.mark.parametrize("left", [HOUR, None])
    @pytest.mark.parametrize("delay_s", [0.0, 9 * HOUR])
    def test_one_point_is_the_choice(self, price, left, delay_s):
        """Whatever anything costs, and late or not."""
        choice = choose(asked([price, 100.0], frontier=ONE, left=left, delay_s=delay_s))
        assert (choice.setting, choice.mode, len(choice.candidates)) == (FULL.setting, SPEED, 1)

    def test_below_the_least_energy_is_for_dirty_hours(self):
        """60 W takes more energy than 100 W for the same work, and is right while the grid is dirty enough."""
        assert watts(asked([900.0, *[10.0] * 30], max_slowdown=1.0)) == 60
        assert watts(asked([200.0, *[190.0] * 30], max_slowdown=1.0)) == 100

    @pytest.mark.parametrize(("host_w", "slowest_w"), [(0.0, 100), (300.0, 200), (1000.0, 300)])
    def test_a_host_makes_slow_settings_dear(self, host_w, slowest_w):
        """With time enough the job runs at the least energy a unit, the host's included: 150, 550 and 1300 J."""
        assert watts(asked([100.0] * 40, max_slowdown=2.0, host_w=host_w)) == slowest_w

    def test_people_s_limits_bound_it(self):
        """A floor and a ceiling leave what lies within them, and lateness is by what they leave."""
        given_ = asked([900.0, *[10.0] * 30], max_slowdown=1.0)
        within = replace(given_, rules=replace(given_.rules, min_power_limit_w=150.0, max_power_limit_w=250.0))
        assert watts(within) == 200
        tight = replace(within, rules=replace(within.rules, max_slowdown=0.0))
        assert choose(tight).reason.endswith("200 W is the fastest, and still 1.0 h late")


class TestPrices:
    def test_slow_while_dirty_and_fast_while_clean(self):
        """The same job in two hours: the slack goes to the dirty one."""
        assert watts(asked([900.0, 100.0] * 6)) < 300
        assert watts(asked([100.0, 900.0] * 6)) == 300

    @given(frontiers(spreads=[0.0]), st.floats(0.01, 0.6), st.sampled_from([1.0, 300.0]), st.floats(0, 300))
    def test_all_equal_is_the_best_fixed_mix(self, frontier, slowdown, price, host_w):
        """With no price to go by it is the least energy that the time allows, with one change at the most."""
        units = 10 * HOUR / frontier.reference.seconds_per_unit
        rules = Rules(name="budget", max_slowdown=slowdown, dwell_s=0.0)
        run = Simulated(every([price] * 40), frontier=frontier, rules=rules, units=units, host_w=host_w).run()
        least_j = _least_energy(frontier, units, 10 * HOUR * (1 + slowdown), host_w)
        assert run.changes <= 1
        assert run.energy_j == pytest.approx(least_j, rel=1e-9, abs=SECOND_J)

    def test_all_zero_costs_nothing_and_is_in_time(self):
        """Any choice is right; nothing divides by the price."""
        run = Simulated(every([0.0] * 20)).run()
        assert run.finish_s <= 11 * HOUR + 1
        assert {candidate.cost for candidate in run.choices[0][1].candidates} == {0.0}

    def test_negative_is_fast(self):
        """Who is paid to draw power draws it: all the time, or in that hour alone."""
        assert set(Simulated(every([-50.0] * 20)).run().limits) == {300}
        assert watts(asked([-50.0, *[1.0] * 20])) == 300
        assert watts(asked([400.0, *[-50.0] * 2, *[400.0] * 8])) < 300

    def test_a_job_longer_than_what_is_known(self):
        """What is not known of is taken to be as the tail: now is cheap beside it, or dear."""
        tail = [*range(100, 500, 10)]
        cheap, dear = horizon([90.0] * 24, tail=tail), horizon([510.0] * 24, tail=tail)
        assert watts(asked(cheap, left=10 * DAY)) == 300
        assert watts(asked(dear, left=10 * DAY)) == 200
        assert "11.0 d left" in choose(asked(dear, left=10 * DAY)).reason

    def test_without_a_tail_what_is_known_stands_for_it(self):
        """A day of hours, and the job goes on for ten: cheap hours stay cheap."""
        hours = [100.0, *[300.0] * 23]
        assert watts(asked(hours, left=10 * DAY)) == 300
        assert watts(asked(hours[::-1], left=10 * DAY)) < 300

    @given(frontiers(), horizons(), st.floats(0.01, 0.5), st.sampled_from([1.1, 1.58, 4.0]))
    def test_pue_scales_what_the_plan_costs(self, frontier, ahead, slowdown, pue):
        """Each joule at the card is so many at the meter, at any hour."""
        units = 5 * HOUR / frontier.reference.seconds_per_unit
        one, more = (
            planned(asked(replace(ahead, pue=factor), max_slowdown=slowdown, left=units), frontier).plan
            for factor in (1.0, pue)
        )
        assert more.cost == pytest.approx(one.cost * pue)

    def test_pue_changes_no_choice(self):
        """The cost of each candidate grows alike, and what is told of the grid is the grid's."""
        one, more = (choose(asked(horizon([400.0, *[300.0, 500.0] * 6], pue=pue))) for pue in (1.0, 1.5))
        assert (one.setting, one.mode, one.until_s) == (more.setting, more.mode, more.until_s)
        assert [c.cost * 1.5 for c in one.candidates] == pytest.approx([c.cost for c in more.candidates])
        assert one.reason.split(", a unit")[0] == more.reason.split(", a unit")[0]

    @given(inputs())
    def test_the_choice_is_the_cheapest_candidate(self, given_):
        """What is told of the costs is what was gone by, unless the setting in force is kept."""
        choice = choose(given_)
        if choice.code in {"dwell", "hysteresis"}:
            assert choice.setting == given_.current
            return
        costs = {candidate.setting: candidate.cost for candidate in choice.candidates}
        if None not in costs.values() and (given_.horizon is None or given_.horizon.price[0] > 0):
            most = max(map(abs, costs.values()))
            assert costs[choice.setting] <= min(costs.values()) + 1e-9 * most

    def test_candidates_are_told_by_the_hour(self):
        """1 kg/kWh at 300 W is 300 g in an hour, less what the work of that hour is worth."""
        made = planned(asked([1000.0] * 30), FRONTIER)
        first = choose(asked([1000.0] * 30)).candidates[0]
        assert first.cost == pytest.approx(300.0 - made.plan.mu * HOUR)

    def test_money_is_told_in_its_unit(self):
        """The reason names the currency, with digits enough to tell two prices apart."""
        choice = choose(asked(horizon([0.1234, 0.05, 0.05], unit="EUR")))
        assert choice.reason.startswith("0.1234 EUR/kWh now, ")
        assert choice.reason.endswith(" EUR")

    def test_a_finer_signal_is_the_same_plan(self):
        """Five minutes at the prices of the hour they lie in choose what the hours do."""
        hours = [500.0, 300.0, 100.0, 200.0, 400.0, 50.0, 600.0, 300.0, 200.0, 100.0, 100.0, 500.0]
        for first in range(len(hours)):
            turned = hours[first:] + hours[:first]
            fine = horizon(np.repeat(turned, 12).tolist(), HOUR / 12)
            assert choose(asked(fine)).setting == choose(asked(turned)).setting


class TestWithoutSignal:
    def test_speed_first_is_full_power(self):
        """The owner's default where nothing is known of the grid."""
        choice = choose(asked(None))
        assert (choice.setting, choice.code) == (FULL.setting, "no-signal")

    @pytest.mark.parametrize("slowdown", [0.02, 0.1, 0.8])
    def test_efficiency_first_keeps_the_budget(self, slowdown):
        """The least energy that the time allows, as if all times were alike."""
        rules = Rules(name="budget", max_slowdown=slowdown, dwell_s=0.0, without_signal=EFFICIENCY)
        run = Simulated(lambda _: None, rules=rules).run()
        allowed_s = 10 * HOUR * (1 + slowdown)
        assert run.finish_s <= allowed_s + 1
        assert run.changes <= 1
        assert run.energy_j == pytest.approx(_least_energy(FRONTIER, 10 * HOUR, allowed_s, 0.0), abs=SECOND_J)

    def test_it_is_said(self):
        """The reason says that there is no signal, and names no grams."""
        choice = choose(asked(None, without_signal=EFFICIENCY))
        assert choice.reason.startswith("no usable grid signal, and 11.0 h for the rest: ")
        assert choice.reason.endswith("costs least where all times are alike")


class TestChanging:
    DIRTY = (900.0, *[100.0] * 20)

    def test_a_setting_is_kept_for_its_dwell(self):
        """And no longer than until the end of the slot or of the dwell."""
        choice = choose(asked(self.DIRTY, dwell_s=600.0, **held(FULL.setting, 100.0, SPEED)))
        assert (choice.setting, choice.mode, choice.code, choice.until_s) == (FULL.setting, SPEED, "dwell", 500.0)
        assert choice.reason.endswith("300 W is kept for another 500 s (minimum dwell)")
        assert watts(asked(self.DIRTY, dwell_s=600.0, **held(FULL.setting, 600.0, SPEED))) < 300

    def test_what_was_set_to_be_measured_was_not_chosen(self):
        """The last limit of a sweep, slow as it is, has no dwell."""
        swept = {"current": LOW.setting, "current_mode": None, "since_s": 0.0}
        assert watts(asked([100.0, *[900.0] * 20], dwell_s=600.0, **swept)) == 300

    def test_what_is_gone_from_the_frontier_has_no_dwell(self):
        """A setting of another sweep is none of the choices."""
        choice = choose(asked(self.DIRTY, dwell_s=600.0, **held(Setting(power_limit_w=137.0), 1.0)))
        assert choice.code == "plan"

    def test_a_gain_within_the_profile_s_error_changes_nothing(self):
        """A setting whose power is known to a tenth is not left for a gain of a hundredth; for more it is."""
        prices = [100.0, *[101.0] * 20]  # for the hour that is a little cleaner the plan is to be fast
        vague = [replace(p, spread=0.1) for p in (FULL, MIDDLE, FRUGAL)]
        known = Frontier.of([FULL, MIDDLE, FRUGAL])
        sure = asked(prices, frontier=known, max_slowdown=0.05, **held(MIDDLE.setting, 1e6))
        unsure = replace(sure, frontier=Frontier.of(vague))
        assert (watts(sure), choose(sure).code) == (300, "plan")
        assert (watts(unsure), choose(unsure).code) == (200, "hysteresis")
        assert "would gain less than the profile's own error" in choose(unsure).reason
        assert watts(replace(unsure, horizon=horizon([10.0, *[900.0] * 20]))) == 300

    def test_more_samples_are_less_doubt(self):
        """The standard error of a mean falls with the root of their number."""
        prices = [95.0, *[101.0] * 20]
        few, many = (Frontier.of([replace(p, spread=0.1, samples=n) for p in (FULL, MIDDLE)]) for n in (1, 10000))
        at_middle = {"max_slowdown": 0.05, **held(MIDDLE.setting, 1e6)}
        assert watts(asked(prices, frontier=few, **at_middle)) == 200
        assert watts(asked(prices, frontier=many, **at_middle)) == 300

    def test_a_split_says_how_long_it_holds(self):
        """One slot of two settings begins with the faster one."""
        choice = choose(asked([100.0] * 11, left=10 * HOUR, max_slowdown=0.02, dwell_s=600.0))
        assert choice.setting == FULL.setting
        split = choose(asked([500.0, *[400.0] * 20], left=3 * HOUR, max_slowdown=0.02, dwell_s=60.0))
        assert 0 < split.until_s < HOUR

    @pytest.mark.parametrize(("dwell_s", "expected_w"), [(0.0, 300), (900.0, 200)])
    def test_a_split_shorter_than_the_dwell_is_not_begun(self, dwell_s, expected_w):
        """At 200 W, with three minutes of full power due first: the dwell would make an hour of them."""
        work = 180.0 * FULL.rate + 3420.0 * MIDDLE.rate + 10 * HOUR  # and ten hours at a tenth of the price
        prices = [300.0, *[30.0] * 10]
        seconds = 11 * HOUR
        given_ = asked(
            prices, left=work, max_slowdown=None, deadline_s=seconds, dwell_s=dwell_s, **held(MIDDLE.setting, 1e6)
        )
        later = replace(given_, progress=replace(given_.progress, deadline_s=seconds + 60.0))
        choice = choose(given_ if dwell_s == 0 else later)
        assert watts(given_) == 300  # there is no time for anything else
        assert choice.setting.power_limit_w == expected_w

    def test_a_held_mode_and_a_sweep_go_before_the_plan(self):
        """A person's hold, and what the profiler wants, as with every policy."""
        assert choose(asked([900.0, 100.0], hold=SPEED)).code == "hold-speed-first"
        measured = choose(asked([900.0, 100.0], measure=Setting(power_limit_w=137.0)))
        assert (measured.mode, measured.setting.power_limit_w) == (PROFILING, 137.0)


class TestTakenAgain:
    @given(inputs())
    def test_from_what_was_written_down(self, given_):
        """To the last bit: the same choice, reason and costs, and the same text of it."""
        text = json.dumps(given_.to_dict(), allow_nan=False)
        again = PolicyInput.from_dict(json.loads(text))
        assert choose(again) == choose(given_)
        assert json.dumps(again.to_dict(), allow_nan=False) == text

    def test_of_a_version_that_knew_no_plan(self):
        """A row without horizon and progress is read, as of a job of which neither is known."""
        row = asked([100.0]).to_dict()
        for name in ("progress", "horizon", "host_w", "paused_w", "capped", "cap_note"):
            row.pop(name)
        again = PolicyInput.from_dict(row)
        assert (again.horizon, again.progress) == (None, Progress())
        assert choose(again).code == "no-signal"


def _least_energy(frontier: Frontier, units: float, most_s: float, host_w: float) -> float:
    """Over all mixes of two points that do the work within the time, by looking at each."""
    rows = [(p.rate, p.power_w + host_w) for p in frontier.points]
    best = math.inf
    for r1, p1 in rows:
        for r2, p2 in rows:
            if r1 >= units / most_s * (1 - 1e-12):
                best = min(best, p1 * units / r1)
            if r1 > units / most_s > r2:
                share = (units / most_s - r2) / (r1 - r2)
                best = min(best, most_s * (share * p1 + (1 - share) * p2))
    return best


def test_nothing_is_chosen_that_the_frontier_has_not():
    """Of any number of points those on the hull alone are weighed."""
    inner = Frontier.of([FULL, point(250, 1.09, 290), FRUGAL])
    assert {c.setting.power_limit_w for c in choose(asked([100.0] * 12, frontier=inner)).candidates} == {300, 100}
