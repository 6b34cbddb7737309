"""What an outlook costs: it is asked for at each control tick and by each status."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from calls import counted
from signal_bench import NOW, Source, Typical, point

from chase.signal import Limits
from providers.base import Transient

FIVE = timedelta(minutes=5)


@pytest.mark.parametrize("hours_ago", [0, 4, 12], ids=["fresh", "stale", "expired"])
def test_an_outlook_of_a_week_of_five_minutes_costs_little(make, hours_ago):
    """Three sources of 2016 points each: less than a Python call for each of them, however far it has to fall back."""
    sources = [Source(name, error=Transient("down")) for name in ("first", "second", "third")]
    grid = make(*sources, typical=Typical())
    last = NOW - timedelta(hours=hours_ago)
    for source in sources:
        grid.remember(point(last - i * FIVE, 100.0 + i % 50, source=source.name, step=FIVE) for i in range(2016))
    grid.outlook()
    outlook, calls = counted(grid.outlook)
    assert outlook.now is not None
    assert len(outlook.recent) >= 1800
    assert calls < 3 * 2016


def test_a_day_in_doubt_beside_another_source_holds_the_ticks_up_for_a_moment_only(make, clock):
    """Under 0.1 s of processor time a poll: four weeks of 5 minutes, twice, and 20 hours of zeros in one of them."""
    past = {NOW - i * FIVE: 300.0 + i % 50 for i in range(1, 8065)}
    first, second = (Source(name, observed=dict(past), step=FIVE) for name in ("first", "second"))
    grid = make(first, second, limits=Limits(fresh_s=5400, usable_s=21600, history_h=672))
    for source in (first, second):
        grid.remember(point(at, value, source=source.name, step=FIVE) for at, value in past.items())
    clock.advance(20 * 3600)
    first.observed |= {NOW + i * FIVE: 0.0 for i in range(240)}
    second.observed |= {NOW + i * FIVE: 320.0 for i in range(240)}
    grid.poll()
    assert len(grid.states[0].gate.held) == 240
    took_s = []
    for _ in range(3):
        clock.advance(300)
        began = time.process_time()
        grid.poll()
        took_s.append(time.process_time() - began)
    assert grid.outlook().now.g_per_kwh == 320.0
    assert min(took_s) < 0.1
