"""``make gpu-check`` over the stand-in driver: it reports, and it writes nothing."""

from __future__ import annotations

import io

import pytest

from chase.gpu_check import main


@pytest.fixture
def cards(standin_state):
    for card in standin_state:
        card.demand_w = 250.0
    return standin_state


def run() -> tuple[int, str]:
    out = io.StringIO()
    return main(out, meter_s=1.0, observe_s=2.5, steps=1000), out.getvalue()


def test_it_reports_and_touches_nothing(cards):
    """Both cards, both methods of the meter, observe mode and the step cost; not one setter call."""
    status, said = run()
    assert status == 0, said
    assert said.count("NVIDIA A40") == 2
    assert "limit requested        275 W" in said
    assert "observe mode" in said
    assert "step cost" in said
    assert cards.writes() == []


def test_a_card_without_a_counter_is_integrated(cards):
    """Cards without an energy counter still add up, and say how."""
    for card in cards:
        card.raw.has_energy = 0
    status, said = run()
    assert status == 0, said
    assert "NotSupported" in said
    assert "integrated" in said


def test_a_counter_at_a_wrong_rate_is_found(cards):
    """A counter that disagrees with the power readings by more than a tenth is exit status 1 (rule G13)."""
    for card in cards:
        card.raw.has_energy = 1
    cards.answer("nvmlDeviceGetPowerUsage", 150_000)
    for field in ("field:186:0", "field:185:0"):
        cards.answer(field, 150_000)
    status, said = run()
    assert "DISAGREE" in said
    assert status == 1
