"""The end of a run in words."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.client.summary import Summary
from chase.figures import count, duration, energy, grams, grams_about, money, small_grams
from chase.launch.summary import lines

MORE = "more: chase report ab12; why: chase decisions --job ab12"
FULL = Summary(
    energy_j=880.0,
    grams=90.0,
    seconds=12.0,
    units=10.0,
    method="mixed",
    reference_energy_j=1000.0,
    reference_grams=100.0,
    slowdown=0.25,
)


def _lines(summary):
    return lines(summary, name="train.py", job_id="ab12", units="steps")


@pytest.mark.parametrize(("share", "of"), [(None, ""), (1.0, ""), (0.9999, ""), (0.064, ", of 6.4 % of the energy")])
def test_a_comparison_of_a_part_says_of_which(share, of):
    """The sweep, say, is no part of it: the report says so, and the last words do."""
    _, saving, *_ = _lines(replace(FULL, compared_share=share))
    assert saving == _lines(FULL)[1] + of


def test_a_full_summary_is_three_lines():
    """What it cost, what full power would have, where to look further."""
    cost, saving, why = _lines(FULL)
    assert cost == "job train.py: 10 steps in 12.0 s, 880 J (mixed), 90 g CO2eq"
    assert saving.startswith("against the same 10 steps at full power (1 kJ, 100 g CO2eq): ")
    assert saving.endswith(": 12.0 % less energy, 10.0 % less carbon, 25.0 % slower")
    assert why == MORE


def test_a_saving_is_said_in_its_parts():
    """With its uncertainty, of what, and how much of it a fixed setting would save; not where a part is unknown."""
    known = {"saved_grams": 10.0, "saved_grams_sd": 1.2, "efficiency_grams": 12.5, "timing_grams": -2.5}
    _, _, parts, _ = _lines(replace(FULL, **known))
    assert parts == (
        "carbon saved: 10.0 % ± 1.2 % of full power's; "
        "12.5 % efficiency (as the best fixed setting that ends when it did), -2.5 % timing"
    )
    assert len(_lines(replace(FULL, **{**known, "timing_grams": None}))) == 3
    assert "±" not in _lines(replace(FULL, **{**known, "saved_grams_sd": None}))[2]


def test_host_and_money_are_said_where_there_are_any():
    """The host's energy is said to be configured; a comparison of energy is of both, one of money in its currency."""
    more = {"host_energy_j": 120.0, "reference_host_energy_j": 100.0, "cost": 1.5, "reference_cost": 2.0}
    cost, saving, _ = _lines(replace(FULL, **more, currency="EUR"))
    assert cost.endswith("880 J (mixed), 120 J of the host (configured), 90 g CO2eq, 1.50 EUR")
    assert "(1.1 kJ, 100 g CO2eq, 2.00 EUR)" in saving
    assert saving.endswith(": 9.1 % less energy, 10.0 % less carbon, 25.0 % cheaper, 25.0 % slower")


def test_an_empty_summary_says_so():
    """Nothing measured is not zero joules."""
    assert _lines(Summary()) == [
        "job train.py: nothing was measured",
        MORE,
    ]


@pytest.mark.parametrize(
    ("known", "line"),
    [
        ({"seconds": 3.0}, "job train.py: in 3.0 s"),
        ({"energy_j": 5.0}, "job train.py: 5 J"),
        ({"grams": 0.0}, "job train.py: 0 g CO2eq"),
        ({"units": 3.0, "grams": 1.0}, "job train.py: 3 steps, 1 g CO2eq"),
    ],
)
def test_what_is_not_known_is_left_out(known, line):
    """Each figure stands for itself."""
    assert _lines(Summary(**known))[0] == line


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ({"energy_j": 1100.0, "reference_energy_j": 1000.0}, "10.0 % more energy"),
        ({"energy_j": 1000.0, "reference_energy_j": 1000.0}, "0.0 % less energy"),
        ({"slowdown": 0.0}, "no slower"),
        ({"slowdown": -0.02}, "2.0 % faster"),
        ({"grams": 0.0, "reference_grams": 100.0}, "100.0 % less carbon"),
    ],
)
def test_the_comparison_says_which_way(known, found):
    """More is said as more, and no difference as none."""
    assert _lines(Summary(**known))[1].endswith(f": {found}")


@pytest.mark.parametrize("reference", [None, 0.0, -4.0, 5e-324, 1e-9])
def test_no_share_of_nothing_is_given(reference):
    """A reference of zero, next to it, or less (a marginal intensity can be) has no shares."""
    said = _lines(Summary(grams=3.0, reference_grams=reference, slowdown=0.1))[1]
    assert "carbon" not in said
    assert "slower" in said


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0 J"),
        (999.0, "999 J"),
        (71_300.0, "71.3 kJ"),
        (3.6e6, "3.6 MJ"),
        (1.23456e9, "1.235 GJ"),
        (5e13, "5e+04 GJ"),
    ],
)
def test_energy_is_in_joules_of_a_fitting_size(value, shown):
    """Four figures, in J, kJ, MJ or GJ."""
    assert energy(value) == shown


def test_grams_keep_their_sign():
    """Marginal carbon may be negative."""
    assert [grams(value) for value in (-1500.0, 0.4, 2.5e6)] == ["-1.5 kg CO2eq", "0.4 g CO2eq", "2.5 t CO2eq"]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.04, "0.0 s"), (59.9, "59.9 s"), (60.0, "1 min 00 s"), (3599.6, "1 h 00 min"), (90_061.0, "25 h 01 min")],
)
def test_durations_are_as_people_say_them(seconds, shown):
    """Seconds, minutes, hours; never a minute of sixty seconds."""
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("amount", "spread", "shown"),
    [
        (167.3, 50.9, "167 ± 51 g CO2eq"),
        (1.234, 0.05678, "1.234 ± 0.057 g CO2eq"),
        (-12.0, 3400.0, "-0.0 ± 3.4 kg CO2eq"),
        (5.0, 0.0, "5 g CO2eq"),
        (0.0, 2.5e-17, "0 g CO2eq"),
        (5.0, 1e-12, "5 g CO2eq"),
    ],
)
def test_an_uncertain_figure_has_no_more_places_than_it_deserves(amount, spread, shown):
    """Two figures of the spread, and the amount in the same unit and to the same place."""
    assert grams_about(amount, spread) == shown


def test_small_and_large_figures_keep_their_size():
    """A sample's emissions in micrograms, a kilowatt hour's price in cents of its currency."""
    assert [small_grams(value) for value in (2.4e-5, 0.0042, 3.0)] == ["24 µg CO2eq", "4.2 mg CO2eq", "3 g CO2eq"]
    assert [money(value, "EUR") for value in (1234.5, -0.0123, 0.0)] == ["1,234.50 EUR", "-0.012 EUR", "0.00 EUR"]


def test_counts_have_their_unit():
    """Whole numbers without a point, thousands apart."""
    assert count(1_200_000.0, "samples") == "1,200,000 samples"
    assert count(0.125, "epochs") == "0.12 epochs"


numbers = st.none() | st.floats(0, 1e15)


@given(
    st.builds(
        Summary,
        energy_j=numbers,
        grams=st.none() | st.floats(-1e15, 1e15),
        seconds=numbers,
        units=numbers,
        method=st.sampled_from([None, "counter"]),
        reference_energy_j=numbers,
        reference_grams=st.none() | st.floats(-1e15, 1e15),
        slowdown=st.none() | st.floats(-1, 1e6),
        host_energy_j=numbers,
        reference_host_energy_j=numbers,
        cost=st.none() | st.floats(-1e15, 1e15),
        reference_cost=st.none() | st.floats(-1e15, 1e15),
        currency=st.sampled_from([None, "EUR"]),
        saved_grams=st.none() | st.floats(-1e15, 1e15),
        saved_grams_sd=numbers,
        efficiency_grams=st.none() | st.floats(-1e15, 1e15),
        timing_grams=st.none() | st.floats(-1e15, 1e15),
    )
)
def test_any_summary_can_be_said(summary):
    """No summary that may come over the socket breaks the last lines of a run, or makes an empty one."""
    said = _lines(summary)
    assert 2 <= len(said) <= 4
    assert all(line and "  " not in line and not re.search(r"\b(None|nan|inf)\b", line) for line in said)
