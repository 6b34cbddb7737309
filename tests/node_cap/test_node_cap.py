"""Who gives way to the node's cap, in which order, and at what cost."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.horizon import Horizon
from chase.node_cap import Member, Part, Place, fitted, frugal_first, parts
from chase.policy import Choice, Grid, PolicyInput, Progress, Rules, choose
from zeus_core.frontier import Frontier, OperatingPoint, Setting

# A40, ResNet-50, batch 128: limit W, seconds per epoch, mean W (Zeus NSDI'23 traces).
A40 = [(300, 3739.5, 244.3), (250, 3804.2, 216.2), (225, 3862.4, 198.4), (200, 3992.4, 179.2), (150, 5794.9, 145.1)]


def frontier_of(curve: list[tuple[float, float, float]]) -> Frontier:
    return Frontier.of(OperatingPoint(Setting(power_limit_w=w), s, s * p) for w, s, p in curve)


FRONTIER = frontier_of(A40)
TICK_S = 10.0


def fixed(power_w: float) -> Part:
    return Part((), (Place(None, power_w),))


def static(job_id: str = "a", **more: object) -> Member:
    """A job at full speed, without a price for its time."""
    rules = Rules(name="static", selector="time", **more)
    return member(job_id, PolicyInput(frontier=FRONTIER, rules=rules, max_power_w=300.0))


def budget(job_id: str = "a", *, slack: float, prices: tuple[float, ...] = (100.0, 300.0), unit: str = "g") -> Member:
    """A job with a day's work under a plan over two days whose hours have two prices in turn."""
    price = np.tile(np.array(prices), 24)
    horizon = Horizon(np.full(len(price), 3600.0), price, price, price, np.empty(0), unit)
    given_ = PolicyInput(
        frontier=FRONTIER,
        rules=Rules(name="budget", max_slowdown=slack),
        grid=Grid(g_per_kwh=prices[0]),
        max_power_w=300.0,
        progress=Progress(units_left=86400.0 / FRONTIER.reference.seconds_per_unit),
        horizon=horizon,
    )
    return member(job_id, given_)


def member(job_id: str, given_: PolicyInput, choice: Choice | None = None) -> Member:
    return Member(job_id, job_id, given_, choice or choose(given_), {f"gpu-{job_id}": 300.0}, lowest_w=100.0)


def limits(members: list[Member], cap_w: float) -> list[float | None]:
    """What the cap leaves of each, None where that is the wish."""
    places = fitted(parts([[each] for each in members], TICK_S), cap_w).places
    return [place.setting.power_limit_w if place.setting else None for place in places]


@st.composite
def nodes(draw: st.DrawFn) -> tuple[tuple[Part, ...], float]:
    """Jobs with curves of any shape, measured, blind or held fast, and a cap somewhere around what they draw."""
    found = []
    for index in range(draw(st.integers(1, 5))):
        count = draw(st.integers(1, 6))
        powers = sorted(draw(st.sets(st.integers(80, 400), min_size=count, max_size=count)), reverse=True)
        seconds = sorted(draw(st.lists(st.floats(1.0, 10.0), min_size=count, max_size=count)))
        curve = frontier_of([(50 * k + 50, s, p) for k, (s, p) in enumerate(zip(seconds, powers, strict=True))][::-1])
        rules = Rules(name="static", selector=draw(st.sampled_from(["time", "energy"])))
        floor_w = draw(st.sampled_from([None, 150.0]))
        given_ = PolicyInput(frontier=curve, rules=replace(rules, min_power_limit_w=floor_w), max_power_w=300.0)
        if draw(st.booleans()):
            given_ = replace(given_, frontier=None)
        each = member(str(index), given_)
        found.append([replace(each, bound=draw(st.integers(0, 4)) == 0)])
    made = parts(found, TICK_S)
    return made, draw(st.floats(0.3, 1.1)) * math.fsum(part.wish.power_w for part in made)


@given(nodes())
def test_the_cap_is_kept_wherever_it_can_be(node):
    """The sum is within the cap, or every job is at the least power it has."""
    made, cap_w = node
    fit = fitted(made, cap_w)
    assert fit.power_w == pytest.approx(math.fsum(place.power_w for place in fit.places))
    if fit.met:
        assert fit.power_w <= cap_w + 1e-6
    else:
        assert [place.power_w for place in fit.places] == [part.places[0].power_w for part in made]
        assert fit.power_w > cap_w


@given(nodes())
def test_nobody_is_moved_up(node):
    """A cap takes power away and never gives any: each job is at its wish or below it."""
    made, cap_w = node
    for part, place in zip(made, fitted(made, cap_w).places, strict=True):
        assert place in part.places
        assert place.power_w <= part.wish.power_w


@given(nodes())
def test_a_later_stage_is_for_where_the_earlier_does_not_suffice(node):
    """Nobody is below a floor, and no unknown job loses power, while what is measured can still make room."""
    made, cap_w = node
    fit = fitted(made, cap_w)
    for stage in range(max(place.stage for place in fit.places)):
        least = math.fsum(min(p.power_w for p in part.places if p.stage <= stage) for part in made)
        assert least > cap_w - 0.1 * len(made)  # powers are rounded up a little


def test_within_the_cap_nothing_is_done():
    """Jobs whose sum is the cap itself keep what they wish for."""
    assert limits([static("a"), static("b")], 2 * 244.3) == [None, None]


def test_time_is_lost_where_it_is_least():
    """Without a price each watt is taken where it costs the least time: 30 W from two are 28 W from one."""
    assert sorted(limits([static("a"), static("b")], 2 * 244.3 - 28.0), key=str) == [250.0, None]


def test_a_job_of_many_gpus_counts_with_all_of_them():
    """A second of eight GPUs is worth eight of one: the large job is not slowed for the small one's sake."""
    large = replace(static("a"), limits_w={f"gpu-{k}": 300.0 for k in range(8)})
    assert limits([large, static("b")], 2 * 244.3 - 28.0) == [None, 250.0]
    assert limits([static("b"), large], 2 * 244.3 - 28.0) == [250.0, None]


class TestLosses:
    def test_a_plan_gives_way_where_its_work_is_worth_less(self):
        """Of two plans that run at the same setting now, the one with more slack is slowed."""
        idle, busy = budget("a", slack=0.02), budget("b", slack=0.005)
        assert idle.choice.setting == busy.choice.setting
        assert limits([idle, busy], 2 * 244.3 - 28.0) == [250.0, None]
        assert limits([busy, idle], 2 * 244.3 - 28.0) == [None, 250.0]

    def test_a_job_without_slack_gives_way_last(self):
        """There is no price at which it would lose time: all of its time counts, of another plan only what it loses."""
        late, idle = budget("a", slack=0.0), budget("b", slack=0.001)
        assert idle.choice.setting == late.choice.setting
        assert limits([late, idle], 2 * 244.3 - 28.0) == [None, 250.0]
        assert limits([idle, late], 2 * 244.3 - 28.0) == [250.0, None]

    def test_the_loss_is_what_the_plan_would_say(self):
        """It is mu (r - r') - c (P - P'), per second, of the candidates' own costs."""
        each = budget(slack=0.3)
        (part,) = parts([[each]], TICK_S)
        own = next(c for c in each.choice.candidates if c.setting == each.choice.setting)
        for place in part.places[:-1]:
            other = next(c for c in each.choice.candidates if c.setting == place.setting)
            assert place.loss == pytest.approx(
                max((other.cost - own.cost) / 3600, 0.0), abs=1e-3 * abs(own.cost) / 3600
            )
        assert part.unit == "g"

    def test_plans_in_one_unit_are_weighed_in_it(self):
        """Grams are grams, whoever's they are: the job that loses fewer gives way, though it has four GPUs."""
        idle, busy = budget("a", slack=0.01), budget("b", slack=0.005)
        large = replace(idle, limits_w={f"gpu-{k}": 300.0 for k in range(4)})
        assert limits([large, busy], 2 * 244.3 - 28.0) == [250.0, None]
        assert limits([replace(large, given=replace(large.given, horizon=None)), busy], 2 * 244.3 - 28.0)[1] == 250.0

    def test_grams_and_money_are_not_added_up(self):
        """Plans in two units are weighed by the time they lose, and the result is the same in whatever unit."""
        a, b = budget("a", slack=0.02), budget("b", slack=0.005)
        cheap = budget("b", slack=0.005, prices=(0.1, 0.3), unit="EUR")
        assert limits([a, cheap], 2 * 244.3 - 28.0) == limits([a, b], 2 * 244.3 - 28.0)


class TestStaying:
    def jittered(self, factor: float, capped: tuple[Setting | None, Setting | None]) -> tuple[Part, ...]:
        """Two alike jobs of which one has become a little dearer to slow."""
        made = parts([[replace(static(name), capped=at)] for name, at in zip("ab", capped, strict=True)], TICK_S)
        first = tuple(replace(place, time=place.time * factor) for place in made[0].places)
        return (replace(made[0], places=first), made[1])

    @pytest.mark.parametrize(("factor", "stays"), [(0.97, True), (1.03, True), (1.2, False)])
    def test_who_gave_way_goes_on_doing_so(self, factor, stays):
        """Within five per cent of the best they do not change places; beyond it they do."""
        fit = fitted(self.jittered(factor, (Setting(power_limit_w=250), None)), 2 * 244.3 - 28.0)
        assert (fit.places[0].setting is not None) == stays

    def test_what_no_longer_fits_is_not_kept(self):
        """A lower cap moves those that the one before had moved."""
        fit = fitted(self.jittered(1.0, (Setting(power_limit_w=250), None)), 420.0)
        assert fit.met
        assert fit.power_w <= 420.0


class TestUnknown:
    BLIND = PolicyInput(frontier=None, rules=Rules())

    def test_limits_count_where_no_power_is_known(self):
        """A job without a frontier counts with its limit, and is the last to give way."""
        made = parts([[member("a", self.BLIND)], [static("b")]], TICK_S)
        assert made[0].wish.power_w == 300.0
        assert fitted(made, 450.0).places[0].setting is None
        assert fitted(made, 400.0).places[0].setting is not None

    def test_as_few_measurements_as_can_be_are_interrupted(self):
        """Of three that are measured under 2.5 times their power one waits, and two go on."""
        measure = Setting(power_limit_w=200.0)
        given_ = replace(self.BLIND, measure=measure)
        fit = fitted(parts([[member(name, given_)] for name in "abc"], TICK_S), 750.0)
        assert [place.power_w for place in fit.places].count(300.0) == 2

    def test_a_paused_job_draws_what_it_does_paused(self):
        """It has nothing to give."""
        given_ = PolicyInput(frontier=FRONTIER, rules=Rules(name="budget"), paused_w=70.0)
        choice = Choice(Setting(paused=True), "paused", "plan", "")
        (part,) = parts([[member("a", given_, choice)]], TICK_S)
        assert part.places == (Place(None, 70.0),)

    @pytest.mark.parametrize("code", ["barred", "off", "hold-off"])
    def test_what_must_be_left_alone_is(self, code):
        """Its limits count, and no place but its own."""
        (part,) = parts([[member("a", self.BLIND, Choice(None, "off", code, ""))]], TICK_S)
        assert part.places == (Place(None, 300.0),)

    def test_jobs_on_one_gpu_are_one_part(self):
        """Their card counts once."""
        pair = [replace(static(name), limits_w={"gpu-0": 300.0}) for name in "ab"]
        (part,) = parts([pair], TICK_S)
        assert part.wish.power_w == 300.0


def test_beside_the_hull_there_is_more():
    """Every point that is slower, draws less and is beaten by none, by rising power; also below the least energy."""
    curve = frontier_of([(300, 1.0, 300), (250, 1.05, 280), (200, 1.1, 200), (150, 1.6, 150), (140, 1.7, 160)])
    found = frugal_first(curve.points, curve.at(Setting(power_limit_w=300)))
    assert [point.setting.power_limit_w for point in found] == [150, 200, 250]
    assert 250 not in [point.setting.power_limit_w for point in curve.hull]


def test_no_jobs_no_power():
    """An empty node is within any cap."""
    assert fitted((), 100.0).met
    assert fitted((fixed(80.0),), 100.0).met
