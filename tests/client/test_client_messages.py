"""What may come over the socket, and what is made of it."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chase.client.messages import Advice, Terms, number, text
from chase.client.summary import Summary
from chase.errors import ChaseError
from zeus_core.frontier import Setting

LETTERS = "aZ0 -é☃漢"  # few and fixed: Hypothesis builds the table of all Unicode when it is first asked for any
SHOWN = st.text(LETTERS, max_size=50)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(LETTERS + "\x1b\n\0\u202e", max_size=20)
)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SHOWN, inner, max_size=3))
WATTS = st.one_of(st.none(), st.floats(1, 1e6))
SETTINGS = st.builds(
    Setting,
    power_limit_w=WATTS,
    sm_clock_mhz=st.none() | st.integers(1, 4000),
    batch_size=st.none() | st.integers(1, 10**9),
)


@given(st.builds(Advice, SETTINGS, SHOWN, st.sampled_from(["control", "observe"]), SHOWN))
def test_advice_survives_the_way_through_json(advice):
    """What is written is what is read."""
    assert Advice.from_dict(json.loads(json.dumps(advice.to_dict()))) == advice


@given(st.builds(Terms, SHOWN, st.none() | st.floats(0, 1e12), SHOWN, st.none() | st.just({"eta": 0.5}), SHOWN))
def test_terms_survive_the_way_through_json(terms):
    """What is written is what is read."""
    assert Terms.from_dict(json.loads(json.dumps(terms.to_dict()))) == terms


@given(st.dictionaries(st.sampled_from(["setting", "mode", "control", "observed", "reason"]), JSON))
def test_any_answer_is_advice_or_refused(data):
    """No JSON whatever makes anything but sound advice or a ChaseError."""
    try:
        advice = Advice.from_dict(data)
    except ChaseError:
        return
    watts = advice.setting.power_limit_w
    assert watts is None or 1.0 <= watts <= 1e6
    assert advice.mode.isprintable()
    assert str(advice)


@given(st.dictionaries(st.sampled_from(["energy_j", "grams", "seconds", "method", "slowdown", "decisions"]), JSON))
def test_any_summary_is_finite_or_refused(data):
    """A summary holds finite numbers or nothing."""
    try:
        summary = Summary.from_dict(data)
    except ChaseError:
        return
    numbers = [summary.energy_j, summary.grams, summary.seconds, summary.slowdown, summary.decisions]
    assert all(value is None or math.isfinite(value) for value in numbers)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1, True, "7", [], {}, 1e300, 10**400])
def test_a_number_that_cannot_be_true_is_refused_by_name(value):
    """The error names the key and shows the value."""
    with pytest.raises(ChaseError, match=r"^lease_s must be a number from 0 to 1e\+15, not "):
        number({"lease_s": value}, "lease_s")


def test_text_is_made_fit_to_be_shown():
    """Control characters, terminal escapes among them, do not reach a terminal; length is bounded."""
    assert text({"reason": "a\x1b[31mb\nc"}, "reason") == "a [31mb c"
    assert len(text({"reason": "x" * 100_000}, "reason")) == 1000


def test_a_long_wrong_value_is_cut_in_its_error():
    """An error's text is for a person, however much was sent."""
    with pytest.raises(ChaseError) as raised:
        number({"report_s": "x" * 10_000}, "report_s")
    assert len(str(raised.value)) < 150


@pytest.mark.parametrize(
    "setting", [7, "fast", [], {"power_limit_w": 0}, {"sm_clock_mhz": 1.5}, {"batch_size": -3}, {"plan": 9}], ids=repr
)
def test_a_setting_that_cannot_be_is_refused(setting):
    """Levers have their kinds and ranges."""
    with pytest.raises(ChaseError):
        Advice.from_dict({"setting": setting, "mode": "off"})


def test_what_a_newer_service_adds_is_left_aside():
    """Unknown keys are no error: the service may be newer than the job."""
    data = {"setting": {"power_limit_w": 200, "fan": 3}, "mode": "between", "moon": "full"}
    assert Advice.from_dict(data).setting == Setting(power_limit_w=200.0)


def test_terms_are_filled_from_others_where_open():
    """What one leaves open the other says; what both say is the first's."""
    flags = Terms(total_units=100.0, policy={"eta": 0.2})
    inside = Terms("samples", 50.0, "gb", {"eta": 0.9}, "a40-bert")
    assert flags.or_else(inside) == Terms("samples", 100.0, "gb", {"eta": 0.2}, "a40-bert")
