"""Several jobs under one cap: the cheapest choice, against trying them all."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_core.power_cap import Option, Selection, fit

Jobs = list[list[Option]]


@st.composite
def jobs_under_a_cap(draw: st.DrawFn) -> tuple[Jobs, float]:
    """Up to five jobs of up to five options, in tenths of a watt, with costs of every kind, and a cap around them."""
    jobs = [draw(options()) for _ in range(draw(st.integers(1, 5)))]
    low, high = (sum(round(job[end].power_w * 10) for job in jobs) for end in (0, -1))
    return jobs, draw(st.integers(max(0, low - 50), high + 50)) / 10


@st.composite
def options(draw: st.DrawFn) -> list[Option]:
    """Any costs, costs that fall evenly (each watt buys the same), or many that are equal."""
    tenths = sorted(draw(st.sets(st.integers(0, 4000), min_size=1, max_size=5)))
    kind = draw(st.sampled_from(["any", "even", "few"]))
    any_cost = st.floats(-1e3, 1e3) if kind == "any" else st.integers(0, 2)
    return [Option(at / 10, -at / 10 if kind == "even" else float(draw(any_cost))) for at in tenths]


def all_of(jobs: Jobs) -> list[Selection]:
    picked = (list(zip(jobs, ks, strict=True)) for ks in product(*(range(len(job)) for job in jobs)))
    return [
        Selection(
            tuple(k for _, k in pairs),
            math.fsum(job[k].power_w for job, k in pairs),
            math.fsum(job[k].cost for job, k in pairs),
            met=True,
        )
        for pairs in picked
    ]


@given(jobs_under_a_cap())
def test_no_choice_within_the_cap_costs_less(case):
    """The choice is the cheapest of all that fit, as trying them all says."""
    jobs, cap_w = case
    found = fit(jobs, cap_w)
    within = [each.cost for each in all_of(jobs) if each.power_w <= cap_w + 1e-9]
    if not within:
        assert not found.met
    else:
        assert found.met
        assert found.power_w <= cap_w + 1e-9
        assert found.cost == pytest.approx(min(within), rel=1e-9, abs=1e-9)


@given(jobs_under_a_cap())
def test_a_cap_that_cannot_be_met_gives_the_least_powers(case):
    """Below the sum of the least powers each job is at its least, and it is said that this is not enough."""
    jobs, _ = case
    least_w = math.fsum(job[0].power_w for job in jobs)
    found = fit(jobs, least_w * 0.9)
    if least_w > 0:
        assert (found.chosen, found.met) == ((0,) * len(jobs), False)


@given(jobs_under_a_cap(), st.floats(0, 100))
def test_more_room_never_costs_more(case, more_w):
    """A higher cap is met wherever a lower one is, at no higher cost."""
    jobs, cap_w = case
    tight, wide = fit(jobs, cap_w), fit(jobs, cap_w + more_w)
    assert wide.met >= tight.met
    if tight.met:
        # What fits only by a part of a grain may be missed, never what is within the lower cap.
        assert wide.cost <= tight.cost + 1e-9


@given(jobs_under_a_cap(), st.floats(0.001, 1e3), st.floats(-1e3, 1e3))
def test_the_unit_and_the_zero_of_costs_do_not_matter(case, factor, offset):
    """The same choice costs the same in grams or in kilograms, and from whatever zero they are counted."""
    jobs, cap_w = case
    other = [[Option(option.power_w, option.cost * factor + offset) for option in job] for job in jobs]
    found, again = fit(jobs, cap_w), fit(other, cap_w)
    assert found.met == again.met
    same = math.fsum(job[k].cost for job, k in zip(jobs, again.chosen, strict=True))
    assert same == pytest.approx(found.cost, rel=1e-6, abs=1e-6)


@given(st.lists(st.floats(1.0, 1000.0), min_size=1, max_size=8))
def test_what_is_wished_for_is_left_alone_at_exactly_its_sum(powers_w):
    """A cap at the very sum of the cheapest options, whatever their last digits, moves nobody."""
    jobs = [[Option(power_w / 2, 1.0), Option(power_w, 0.0)] for power_w in powers_w]
    assert fit(jobs, math.fsum(powers_w)).chosen == (1,) * len(jobs)


def test_alike_jobs_in_great_number_are_no_trouble():
    """Sixty-four jobs of sixteen options whose every watt buys the same: the cap is filled to the last tenth."""
    jobs = [[Option(100.0 + 12.5 * k, -12.5 * k) for k in range(16)] for _ in range(64)]
    found = fit(jobs, 10_000.0)
    assert found.power_w == pytest.approx(10_000.0)


def test_the_job_that_loses_least_is_moved():
    """Of two jobs that must give 30 W together the one gives them for which they are worth less."""
    steep = [Option(200.0, 0.30), Option(230.0, 0.0)]
    flat = [Option(200.0, 0.05), Option(230.0, 0.0)]
    assert fit([steep, flat], 430.0).chosen == (1, 0)
    assert fit([flat, steep], 430.0).chosen == (0, 1)


def test_no_jobs_fit_under_any_cap():
    """Nothing runs, nothing is chosen, and the cap is met."""
    assert fit([], 0.0) == Selection((), 0.0, 0.0, met=True)


@pytest.mark.parametrize(
    ("jobs", "cap_w", "said"),
    [
        ([[]], 100.0, "at least one option"),
        ([[Option(100.0, 0.0), Option(100.0, 1.0)]], 100.0, "must rise in power"),
        ([[Option(200.0, 0.0), Option(100.0, 1.0)]], 100.0, "must rise in power"),
        ([[Option(-1.0, 0.0)]], 100.0, "powers lie within"),
        ([[Option(math.nan, 0.0)]], 100.0, "powers lie within"),
        ([[Option(100.0, math.inf)]], 100.0, "costs are finite"),
        ([[Option(100.0, 0.0)]], math.nan, "a cap lies within"),
        ([[Option(100.0, 0.0)]], -1.0, "a cap lies within"),
    ],
)
def test_numbers_that_cannot_be_are_refused(jobs, cap_w, said):
    """A clear error says which, before anything is chosen."""
    with pytest.raises(ValueError, match=said):
        fit(jobs, cap_w)
